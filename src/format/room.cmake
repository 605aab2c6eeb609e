# SPDX-License-Identifier: Apache-2.0
pkg_check_modules(LIBCRYPTO REQUIRED IMPORTED_TARGET libcrypto)
target_link_libraries(berth_format PUBLIC PkgConfig::JANSSON PkgConfig::LIBCRYPTO)
