# SPDX-License-Identifier: Apache-2.0
# The presets static and static-aarch64: one file without a shared library, with what package/static/libraries built.
set(BERTH_STATIC_PROCESSOR x86_64 CACHE STRING "Processor of the static program: x86_64 or aarch64")
set(BERTH_STATIC_LIBRARIES ${CMAKE_CURRENT_LIST_DIR}/../../build/static-libraries CACHE PATH "FOLDER of package/static/libraries")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES BERTH_STATIC_PROCESSOR BERTH_STATIC_LIBRARIES)
get_filename_component(prefix ${BERTH_STATIC_LIBRARIES}/${BERTH_STATIC_PROCESSOR} ABSOLUTE)
if(NOT EXISTS ${prefix}/versions)
  message(FATAL_ERROR "No libraries in ${prefix}: package/static/libraries ${BERTH_STATIC_LIBRARIES} ${BERTH_STATIC_PROCESSOR} builds them")
endif()

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${BERTH_STATIC_PROCESSOR})
set(CMAKE_C_COMPILER ${prefix}/bin/musl-gcc)
if(BERTH_STATIC_PROCESSOR STREQUAL aarch64)
  foreach(tool AR RANLIB STRIP LINKER OBJCOPY)
    string(TOLOWER ${tool} name)
    string(REPLACE linker ld name ${name})
    find_program(CMAKE_${tool} aarch64-linux-gnu-${name})
  endforeach()
endif()

# musl gives a thread 128 KiB of stack unless the program's file says otherwise; glibc's 8 MiB are musl's maximum.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static -s -Wl,--gc-sections -Wl,-z,stack-size=0x800000")

set(CMAKE_FIND_ROOT_PATH ${prefix})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
foreach(kind LIBRARY INCLUDE PACKAGE)
  set(CMAKE_FIND_ROOT_PATH_MODE_${kind} ONLY)
endforeach()
set(ENV{PKG_CONFIG_LIBDIR} ${prefix}/lib/pkgconfig)
set(PKG_CONFIG_ARGN --static)
