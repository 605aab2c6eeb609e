# SPDX-License-Identifier: Apache-2.0
# libberth from the rooms' objects: static and shared for others, with pkg-config's file and a CMake package. Only what
# berth.h declares leaves them, so that a program's own names never meet the library's. The program
# and the tests, which look inside, take the rooms' objects instead.
file(STRINGS ${PROJECT_SOURCE_DIR}/include/berth.h declarations REGEX "berth_[a-z_]+\\(")
string(REGEX MATCHALL "berth_[a-z_]+\\(" BERTH_PUBLIC_NAMES "${declarations}")
list(TRANSFORM BERTH_PUBLIC_NAMES REPLACE "\\(" "")
list(REMOVE_DUPLICATES BERTH_PUBLIC_NAMES)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/berth.h)
set(keep_names ${BERTH_PUBLIC_NAMES})
list(TRANSFORM keep_names PREPEND --keep-global-symbol=)
list(JOIN BERTH_PUBLIC_NAMES "; " global_names)

# --- static: one object in which all other names are local ----------------------------------------
set(room_objects)
foreach(room IN LISTS berth_objects)
  list(APPEND room_objects $<TARGET_OBJECTS:${room}>)
endforeach()
set(static_object ${CMAKE_CURRENT_BINARY_DIR}/berth.o)
add_custom_command(
  OUTPUT ${static_object}
  COMMAND ${CMAKE_LINKER} -r -d -o ${static_object} ${room_objects} # -d: commons become local, too
  COMMAND ${CMAKE_OBJCOPY} ${keep_names} ${static_object}
  DEPENDS ${room_objects}
  COMMAND_EXPAND_LISTS VERBATIM)
add_library(berth_static STATIC ${static_object})
add_dependencies(berth_static ${berth_objects}) # make knows the rules for objects in their own targets only
set_target_properties(berth_static PROPERTIES LINKER_LANGUAGE C)

# --- shared ---------------------------------------------------------------------------------------
set(version_script ${CMAKE_CURRENT_BINARY_DIR}/berth.map)
file(CONFIGURE OUTPUT ${version_script} CONTENT "{ global: @global_names@; local: *; };\n" @ONLY)
add_library(berth_shared SHARED)
target_link_libraries(berth_shared PRIVATE ${berth_objects})
target_link_options(berth_shared PRIVATE -Wl,--version-script=${version_script})
set_target_properties(berth_shared PROPERTIES LINK_DEPENDS ${version_script})

foreach(kind static shared)
  set_target_properties(berth_${kind} PROPERTIES OUTPUT_NAME berth VERSION ${PROJECT_VERSION}
                                                 SOVERSION ${PROJECT_VERSION_MAJOR})
  target_include_directories(berth_${kind} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  install(TARGETS berth_${kind} EXPORT berth-targets
                                ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT archive
                                LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT archive
                                INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()
set_target_properties(berth_shared PROPERTIES EXPORT_NAME berth)
set_target_properties(berth_static PROPERTIES EXPORT_NAME static)
# The names of find_package(berth), for a project that adds this one as a folder.
add_library(berth::berth ALIAS berth_shared)
add_library(berth::static ALIAS berth_static)

# --- berth.pc -------------------------------------------------------------------------------------
# A folder below the prefix is told by it, so that pkg-config can define another one.
foreach(folder LIBDIR INCLUDEDIR)
  set(BERTH_PC_${folder} ${CMAKE_INSTALL_${folder}})
  if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_${folder}}")
    set(BERTH_PC_${folder} "\${prefix}/${CMAKE_INSTALL_${folder}}")
  endif()
endforeach()

# Libraries without a pkg-config file of their own. A folder may have blanks, so it is in quotes, which berth.pc and CMake
# both leave to the shell.
set(BERTH_PC_LIBS)
set(openmp_libraries)
foreach(name IN LISTS OpenMP_C_LIB_NAMES)
  list(APPEND openmp_libraries ${OpenMP_${name}_LIBRARY})
endforeach()
foreach(library IN LISTS openmp_libraries)
  get_filename_component(folder ${library} DIRECTORY)
  get_filename_component(name ${library} NAME_WE)
  string(REGEX REPLACE "^lib" "" name ${name})
  if(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    list(APPEND BERTH_PC_LIBS "-L\"${folder}\"")
  endif()
  list(APPEND BERTH_PC_LIBS -l${name})
endforeach()
foreach(name IN LISTS CMAKE_DL_LIBS)
  list(APPEND BERTH_PC_LIBS -l${name})
endforeach()
set(BERTH_PC_REQUIRES jansson libcrypto zlib)
set(system_libraries -ljansson -lcrypto -lz)
target_link_libraries(berth_static INTERFACE ${system_libraries} ${BERTH_PC_LIBS} -lm)
list(JOIN BERTH_PC_REQUIRES " " BERTH_PC_REQUIRES)
list(JOIN BERTH_PC_LIBS " " BERTH_PC_LIBS)

# The prefix is known when it is installed; it may be relative to where that is.
function(berth_write_pc)
  set(BERTH_PC_PREFIX "@BERTH_PC_PREFIX@")
  configure_file(${CMAKE_CURRENT_SOURCE_DIR}/berth.pc.in ${CMAKE_CURRENT_BINARY_DIR}/berth.pc.in @ONLY)
endfunction()
berth_write_pc()
install(CODE "get_filename_component(BERTH_PC_PREFIX \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
              configure_file(\"${CMAKE_CURRENT_BINARY_DIR}/berth.pc.in\"
                             \"${CMAKE_CURRENT_BINARY_DIR}/berth.pc\" @ONLY)"
        COMPONENT headers)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/berth.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT headers)
install(FILES ${PROJECT_SOURCE_DIR}/include/berth.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT headers)

# --- find_package(berth): the targets berth::berth (shared) and berth::static ----------------------
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/berth)
set(package_files ${CMAKE_CURRENT_BINARY_DIR}/berth-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/berth-config-version.cmake)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/berth-config.cmake
     "include(\${CMAKE_CURRENT_LIST_DIR}/berth-targets.cmake)\n")
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/berth-config-version.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${package_files} DESTINATION ${package} COMPONENT headers)
install(EXPORT berth-targets NAMESPACE berth:: DESTINATION ${package} COMPONENT headers)
