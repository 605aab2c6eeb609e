# SPDX-License-Identifier: Apache-2.0
# Libraries berth-KIND-NAME.so that are opened at run time (core/modules.h). Each offers one name; of
# core it has what it needs, visible to itself alone.
if(NOT BERTH_HAS_MODULES)
  foreach(kind MPI CUDA HIP EMULATED_DEVICE)
    set(BERTH_${kind} OFF)
  endforeach()
endif()
add_library(berth_core_archive STATIC $<TARGET_OBJECTS:berth_core> $<TARGET_OBJECTS:berth_device>)

function(berth_module_not_installed module symbol)
  string(MAKE_C_IDENTIFIER "${symbol}" name)
  set(map ${CMAKE_CURRENT_BINARY_DIR}/${name}.map)
  file(CONFIGURE OUTPUT ${map} CONTENT "{ global: @symbol@; local: *; };\n" @ONLY)
  set_target_properties(${module} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
                                             LINK_DEPENDS ${map})
  target_include_directories(${module} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_options(${module} PRIVATE -Wl,--version-script=${map})
  target_link_libraries(${module} PRIVATE berth_core_archive ${CMAKE_DL_LIBS} m)
endfunction()

function(berth_module module symbol)
  berth_module_not_installed(${module} ${symbol})
  string(REGEX REPLACE ".*-" "" name ${module})
  install(TARGETS ${module} LIBRARY DESTINATION ${BERTH_MODULE_DIR} COMPONENT ${name})
endfunction()
