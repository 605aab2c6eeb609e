# SPDX-License-Identifier: Apache-2.0
pkg_check_modules(LIBCRYPTO REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
target_link_libraries(berth_format PUBLIC PkgConfig::JANSSON PkgConfig::LIBCRYPTO PkgConfig::ZLIB)
