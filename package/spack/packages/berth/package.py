# SPDX-License-Identifier: Apache-2.0
"""Berth for Spack, from a folder of its source: see doc/install.md, "Without root". Not tried."""
from spack.package import *

try:
    from spack_repo.builtin.build_systems.cmake import CMakePackage  # Spack 1.0 and later
except ImportError:
    pass  # earlier ones: of spack.package


class Berth(CMakePackage):
    """BERT training and inference in C: a program and a library."""

    license("Apache-2.0")
    version("1.0.0")  # built from the current folder by `spack dev-build`: there is no archive to download

    variant("mpi", default=True, description="Several processes, by MPI")
    variant("cuda", default=False, description="NVIDIA's GPUs")
    variant("cuda_arch", default="none", multi=True, values=("none", "80", "86", "89", "90", "100"), when="+cuda",
            description="Compute capabilities; none: Berth's list")
    variant("serve", default=True, description="berth serve")
    variant("fetch", default=True, description="Downloads: berth fetch")
    variant("wikipedia", default=True, description="Wikipedia's dumps")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("jansson")
    depends_on("openssl")
    depends_on("zlib-api")
    depends_on("mpi", when="+mpi")
    depends_on("cuda@12:", when="+cuda")
    depends_on("libmicrohttpd@0.9.72:", when="+serve")
    depends_on("curl@7.85:", when="+fetch")
    depends_on("expat", when="+wikipedia")
    depends_on("bzip2", when="+wikipedia")

    def cmake_args(self):
        arguments = [
            self.define("BERTH_BUILD_TESTS", False),
            self.define("BERTH_HIP", False),
            self.define_from_variant("BERTH_MPI", "mpi"),
            self.define_from_variant("BERTH_CUDA", "cuda"),
            self.define_from_variant("BERTH_SERVE", "serve"),
            self.define_from_variant("BERTH_CURL", "fetch"),
            self.define_from_variant("BERTH_EXPAT", "wikipedia"),
            self.define_from_variant("BERTH_BZIP2", "wikipedia"),
        ]
        if self.spec.satisfies("+mpi"):
            arguments.append(self.define("BERTH_MPI_COMPILERS", self.spec["mpi"].mpicc))
        if self.spec.satisfies("+cuda") and not self.spec.satisfies("cuda_arch=none"):
            arguments.append(self.define("BERTH_CUDA_ARCHITECTURES", list(self.spec.variants["cuda_arch"].value)))
        return arguments
