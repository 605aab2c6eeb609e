# SPDX-License-Identifier: Apache-2.0
pkg_check_modules(LIBCURL REQUIRED IMPORTED_TARGET libcurl)
target_link_libraries(berth_net PUBLIC PkgConfig::LIBCURL)
