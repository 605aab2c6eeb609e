# SPDX-License-Identifier: Apache-2.0
pkg_check_modules(LIBCRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(EXPAT REQUIRED IMPORTED_TARGET expat)
find_package(BZip2 REQUIRED) # Debian's has no pkg-config file
target_link_libraries(berth_format PUBLIC PkgConfig::JANSSON PkgConfig::LIBCRYPTO PkgConfig::ZLIB
                                           PkgConfig::EXPAT BZip2::BZip2 OpenMP::OpenMP_C)
