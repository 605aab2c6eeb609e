# SPDX-License-Identifier: Apache-2.0
# What the build needs and what it can do without. Each optional part has a switch BERTH_NAME: AUTO (built where
# everything for it is found), ON (an error where it is not) or OFF. The summary lists them all.

# berth_need(FOUND WHAT PACKAGES): an error unless FOUND.
function(berth_need found what packages)
  if(NOT found)
    message(FATAL_ERROR "${what} was not found (${packages}). Install it, or name its folder in CMAKE_PREFIX_PATH "
                        "and, for a .pc file, in PKG_CONFIG_PATH.")
  endif()
endfunction()

# berth_switch(NAME WHAT [DEFAULT]): the switch BERTH_NAME, as AUTO, ON or OFF in whatever way CMake writes these.
function(berth_switch name what)
  set(default AUTO)
  if(ARGC GREATER 2)
    set(default ${ARGV2})
  endif()
  set(BERTH_${name} ${default} CACHE STRING "Build ${what}: AUTO, ON or OFF")
  set_property(CACHE BERTH_${name} PROPERTY STRINGS AUTO ON OFF)
  string(TOUPPER "${BERTH_${name}}" value)
  if(value MATCHES "^(ON|TRUE|YES|Y|1)$")
    set(value ON)
  elseif(value MATCHES "^(OFF|FALSE|NO|N|0)$")
    set(value OFF)
  elseif(NOT value STREQUAL "AUTO")
    message(FATAL_ERROR "BERTH_${name}=${BERTH_${name}}: expected AUTO, ON or OFF")
  endif()
  set(BERTH_${name} ${value} PARENT_SCOPE)
endfunction()

# berth_decide(NAME WHAT FOUND NEEDS): sets BERTH_HAS_NAME by the switch and by what was found.
function(berth_decide name what found needs)
  set(has OFF)
  set(reason "")
  if(NOT BERTH_${name})
    set(reason " (BERTH_${name}=OFF)")
  elseif(found)
    set(has ON)
  elseif(BERTH_${name} STREQUAL "AUTO")
    set(reason " (not found: ${needs})")
  else()
    message(FATAL_ERROR "BERTH_${name}=${BERTH_${name}}, but ${needs} was not found. Install it, or set BERTH_${name}=OFF.")
  endif()
  set(BERTH_HAS_${name} ${has} PARENT_SCOPE)
  set_property(GLOBAL APPEND PROPERTY BERTH_SUMMARY "BERTH_${name}: ${what}: ${has}${reason}")
endfunction()

# berth_choose(HAS PATH): compiles PATH.c, or PATH_absent.c where the part is left out.
function(berth_choose has path)
  if(has)
    set_source_files_properties(${path}_absent.c PROPERTIES HEADER_FILE_ONLY ON)
  else()
    set_source_files_properties(${path}.c PROPERTIES HEADER_FILE_ONLY ON)
  endif()
endfunction()

# berth_program_part(NAME SOURCES...): berth_NAME, objects that the program links beside the library's rooms. A macro,
# so that the calling folder hands the list on.
macro(berth_program_part name)
  add_library(berth_${name} OBJECT ${ARGN})
  target_include_directories(berth_${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  set(BERTH_PROGRAM_OBJECTS ${BERTH_PROGRAM_OBJECTS} berth_${name} PARENT_SCOPE)
endmacro()

function(berth_print_summary)
  get_property(lines GLOBAL PROPERTY BERTH_SUMMARY)
  foreach(line IN LISTS lines)
    message(STATUS "  ${line}")
  endforeach()
endfunction()
