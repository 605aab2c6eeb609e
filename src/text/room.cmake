# SPDX-License-Identifier: Apache-2.0
# The tables of characters are made at the build, by a program for the machine that builds.
if(CMAKE_CROSSCOMPILING)
  find_program(BERTH_HOST_COMPILER NAMES cc gcc clang DOC "A C compiler for the machine that builds")
else()
  set(BERTH_HOST_COMPILER ${CMAKE_C_COMPILER})
endif()
berth_need("${BERTH_HOST_COMPILER}" "a C compiler for the machine that builds" "Debian: gcc; or set BERTH_HOST_COMPILER")
set(make_tables ${CMAKE_CURRENT_BINARY_DIR}/make_tables)
set(tables ${CMAKE_CURRENT_BINARY_DIR}/tables/text/unicode_tables.h ${CMAKE_CURRENT_BINARY_DIR}/tables/text/python_tables.h)
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/tables/text)
add_custom_command(
  OUTPUT ${make_tables}
  COMMAND ${BERTH_HOST_COMPILER} -O1 -o ${make_tables} ${PROJECT_SOURCE_DIR}/data/make_tables.c
  DEPENDS ${PROJECT_SOURCE_DIR}/data/make_tables.c VERBATIM)
add_custom_command(
  OUTPUT ${tables}
  COMMAND ${make_tables} ${PROJECT_SOURCE_DIR}/data/unicode.txt ${tables}
  DEPENDS ${make_tables} ${PROJECT_SOURCE_DIR}/data/unicode.txt VERBATIM)
target_sources(berth_text PRIVATE ${tables})
target_include_directories(berth_text PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/tables)
