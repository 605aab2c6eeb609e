#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A build without any optional part: the summary names each, the program does without them and says so, and what is
# installed asks nobody for their libraries. What CMake says where something is missing. Long: a build.
#
# BERTH_WITHOUT names the folder of such a build instead.
. "$(dirname "$0")/lib.sh"
configure() { # FOLDER OPTIONS...
    local folder=$1
    shift
    "$CMAKE" -S "$SOURCE" -B "$folder" "-DCMAKE_C_COMPILER=$CC" "$@" >"$work/log" 2>&1
}
says() { tr -s ' \n' '  ' <"$work/log" | grep -qF -- "$1" || die "CMake does not say: $1"; }
refused() { # TEXT OPTIONS...
    local text=$1
    shift
    rm -rf "$work/refused"
    ! configure "$work/refused" "$@" || die "accepted: $*"
    says "$text"
}

# --- what is missing ---
nothing="-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF" # to be found in the system's folders
PKG_CONFIG_LIBDIR=$work refused "jansson was not found (Debian: libjansson-dev)"
refused "BERTH_BUILD_TESTS=ON, but cmocka (libcmocka-dev) was not found" -DBERTH_BUILD_TESTS=ON $nothing \
    "-DPKG_CONFIG_EXECUTABLE=$(command -v pkg-config)"
refused "BERTH_MPI=ON, but an MPI's compiler (libopenmpi-dev or libmpich-dev) was not found" -DBERTH_MPI=ON \
    -DBERTH_MPI_COMPILERS=no-such-compiler

# --- switches ---
off=() # every part
parts="BUILD_TESTS CURL EXPAT BZIP2 SERVE MPI CUDA HIP"
for part in $parts; do off+=("-DBERTH_$part=OFF"); done
refused "BERTH_CURL=foo: expected AUTO, ON or OFF" -DBERTH_CURL=foo
refused "BERTH_MPI=ON, but an MPI's compiler" "${off[@]}" -DBERTH_MPI=yes -DBERTH_MPI_COMPILERS=no-such-compiler
configure "$work/switches" "${off[@]}" -DBERTH_MPI=auto -DBERTH_MPI_COMPILERS=no-such-compiler -DBERTH_CURL=0 ||
    die "BERTH_MPI=auto is refused"
says "BERTH_MPI: several processes over MPI: OFF (not found: an MPI's compiler"
says "BERTH_CURL: downloads (berth fetch): OFF (BERTH_CURL=OFF)"

# --- an nvcc that knows fewer GPUs, and one that fails ---
toolkit=$work/cuda
mkdir -p "$toolkit/bin" "$toolkit/include" "$toolkit/lib64"
touch "$toolkit/include/cublasLt.h" "$toolkit/lib64/libcublasLt.so" "$toolkit/lib64/libcudart_static.a"
nvcc() { # CONDITION: of sh, about what it is called with
    printf '#!/bin/sh\n%s || exit 0\necho "nvcc fatal   : no such GPU; none" >&2\nexit 1\n' "$1" >"$toolkit/bin/nvcc"
    chmod +x "$toolkit/bin/nvcc"
}
with_cuda=("${off[@]}" "-DBERTH_NVCC=$toolkit/bin/nvcc")
# shellcheck disable=SC2016
nvcc 'echo "$*" | grep -q sm_100'
configure "$work/fewer" "${with_cuda[@]}" -DBERTH_CUDA=AUTO || die "an nvcc that knows fewer GPUs"
says "BERTH_CUDA: --device cuda for compute capabilities 80, 86, 89, 90 (its compiler does not know 100): ON"
grep -rqF 'arch=compute_90,code=compute_90' "$work/fewer" || die "no PTX of the newest GPU that nvcc knows"
! grep -rqF 'sm_100' --include=build.ninja --include=build.make "$work/fewer" || die "nvcc is called for a GPU that it does not know"
nvcc true
configure "$work/none" "${with_cuda[@]}" -DBERTH_CUDA=AUTO || die "an nvcc that fails"
says "OFF (not found: the CUDA toolkit ($toolkit/bin/nvcc fails: nvcc fatal : no such GPU, none))"
refused "BERTH_CUDA=ON, but the CUDA toolkit ($toolkit/bin/nvcc fails: nvcc fatal : no such GPU, none) was not found" "${with_cuda[@]}" -DBERTH_CUDA=ON

# --- a system without dpkg: what the build needs is named, and run-demo and run-tests go on ---
mkdir "$work/tools"
for tool in bash sed id cat; do ln -s "$(command -v $tool)" "$work/tools"; done
PATH=$work/tools "$SOURCE/dev/install-dependencies" test >"$work/log" 2>&1 || die "dev/install-dependencies fails without dpkg"
says "this is not Debian, so nothing is installed; the build needs what these packages have: gcc"

# --- everything left out ---
build=${BERTH_WITHOUT:-$work/build}
if [ -z "${BERTH_WITHOUT:-}" ]; then
    configure "$build" "${off[@]}" || die "configuring"
    for part in $parts; do
        grep -qE "BERTH_$part: .*: OFF \(BERTH_$part=OFF\)" "$work/log" || die "the summary does not name $part"
    done
    "$CMAKE" --build "$build" -j "$(nproc)" >"$work/log" 2>&1 || die "building"
fi
berth=$build/berth
[ -z "$(ldd "$berth" | grep -E 'curl|expat|bz2|microhttpd|mpi')" ] || die "the program needs a library that was left out"
"$berth" doctor >"$work/log" 2>&1 || die "berth doctor"
says "without libcurl, without expat, without bzip2"
fails() { # TEXT WORDS...
    local text=$1
    shift
    HF_HOME=$work/home "$berth" "$@" >"$work/log" 2>&1
    [ $? -eq 69 ] || die "berth $1: not exit code 69"
    grep -qF -- "$text" "$work/log" || die "berth $1: no \"$text\""
}
echo '<mediawiki></mediawiki>' >"$work/dump.xml"
printf 'BZh91AY&SY' >"$work/dump.xml.bz2"
vocabulary=$SOURCE/tests/golden/classifier/vocab.txt
fails "built without libcurl" fetch sentence-transformers/all-MiniLM-L6-v2
fails "built without expat" prepare --wikipedia "$work/dump.xml" --vocab "$vocabulary" --output "$work/out"
fails "built without libbz2" prepare --wikipedia "$work/dump.xml.bz2" --vocab "$vocabulary" --output "$work/out"
"$berth" answer --model "$SOURCE/tests/golden/classifier" --question 'who has the ball ?' --context 'anna has the ball' \
    --allow_new_head --quiet >"$work/log" 2>&1 || die "berth answer"
"$CMAKE" --install "$build" --prefix "$work/tree" >"$work/log" 2>&1 || die "installing"
cat "$(find "$work/tree" -name berth.pc)" >"$work/log"
! grep -qE 'curl|expat|bz2' "$work/log" || die "berth.pc asks for a library that was left out"
echo "all good"
