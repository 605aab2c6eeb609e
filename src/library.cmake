# SPDX-License-Identifier: Apache-2.0
# libberth from the rooms' objects: static for the program, shared for others, pkg-config for both.
configure_file(${CMAKE_CURRENT_SOURCE_DIR}/berth.pc.in ${PROJECT_BINARY_DIR}/berth.pc @ONLY)

foreach(kind static shared)
  string(TOUPPER ${kind} library_type)
  add_library(berth_${kind} ${library_type})
  set_target_properties(berth_${kind} PROPERTIES OUTPUT_NAME berth VERSION ${PROJECT_VERSION}
                                                 SOVERSION 0)
  target_include_directories(berth_${kind} PUBLIC ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(berth_${kind} PRIVATE ${berth_objects})
  install(TARGETS berth_${kind} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
                                LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/include/berth.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_BINARY_DIR}/berth.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
