# SPDX-License-Identifier: Apache-2.0
# Modules are opened at run time, from where they are beside the program and the library. Only glibc says where that is;
# without it there are none.
berth_switch(MODULES "modules that are opened at run time")
include(CheckSymbolExists)
set(CMAKE_REQUIRED_DEFINITIONS -D_GNU_SOURCE)
check_symbol_exists(dladdr1 dlfcn.h BERTH_HAVE_DLADDR1)
unset(CMAKE_REQUIRED_DEFINITIONS)
berth_decide(MODULES "modules, opened at run time" "${BERTH_HAVE_DLADDR1}" "glibc")
berth_choose(${BERTH_HAS_MODULES} ${CMAKE_CURRENT_SOURCE_DIR}/core/modules)
set(BERTH_HAS_MODULES ${BERTH_HAS_MODULES} PARENT_SCOPE) # for what looks inside
target_link_libraries(berth_core PUBLIC ${CMAKE_DL_LIBS})
set(BERTH_MODULE_DIR ${CMAKE_INSTALL_LIBDIR}/berth)
file(RELATIVE_PATH from_program ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/berth)
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/core/modules.c PROPERTIES COMPILE_DEFINITIONS
  "BERTH_MODULES_FROM_PROGRAM=\"${from_program}\"")
# Every byte of a run's weights goes through it: fast in every build.
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/core/checksum.c PROPERTIES COMPILE_OPTIONS -O3)
