# SPDX-License-Identifier: Apache-2.0
pkg_check_modules(LIBCRYPTO IMPORTED_TARGET libcrypto)
berth_need("${LIBCRYPTO_FOUND}" "libcrypto of OpenSSL" "Debian: libssl-dev")
pkg_check_modules(ZLIB IMPORTED_TARGET zlib)
berth_need("${ZLIB_FOUND}" "zlib" "Debian: zlib1g-dev")

target_link_libraries(berth_format PUBLIC PkgConfig::JANSSON PkgConfig::LIBCRYPTO PkgConfig::ZLIB OpenMP::OpenMP_C)
