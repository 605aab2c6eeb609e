# SPDX-License-Identifier: Apache-2.0
# The server, for the program alone: the library has no HTTP. BERTH_SERVE=AUTO builds it where there is
# libmicrohttpd, ON requires that, OFF leaves it out.
set(BERTH_SERVE AUTO CACHE STRING "Build `berth serve` (needs libmicrohttpd): AUTO, ON or OFF")
if(BERTH_SERVE STREQUAL "ON")
  pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.72)
elseif(NOT BERTH_SERVE STREQUAL "OFF")
  pkg_check_modules(MICROHTTPD IMPORTED_TARGET libmicrohttpd>=0.9.72)
endif()
set(BERTH_HAS_SERVE OFF)
if(MICROHTTPD_FOUND AND NOT BERTH_SERVE STREQUAL "OFF")
  set(BERTH_HAS_SERVE ON)
endif()
set(BERTH_HAS_SERVE ${BERTH_HAS_SERVE} PARENT_SCOPE)
set(berth_serve) # what the program links in addition to the library's rooms

if(BERTH_HAS_SERVE)
  file(GLOB serve_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/serve/*.c)
  set(pages ${CMAKE_CURRENT_BINARY_DIR}/serve_pages.c)
  set(page_files ${CMAKE_CURRENT_SOURCE_DIR}/serve/pages/page.html
                 ${CMAKE_CURRENT_SOURCE_DIR}/serve/pages/openapi.json)
  add_custom_command(
    OUTPUT ${pages}
    COMMAND ${CMAKE_COMMAND} -D "FILES=${page_files}" -D HEADER=serve/pages.h -D OUTPUT=${pages}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/embed.cmake
    DEPENDS ${page_files} ${CMAKE_CURRENT_SOURCE_DIR}/embed.cmake
    VERBATIM)
  set(berth_serve berth_serve)
  add_library(berth_serve OBJECT ${serve_sources} ${pages})
  target_include_directories(berth_serve PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(berth_serve PUBLIC m Threads::Threads PkgConfig::MICROHTTPD)
  message(STATUS "  berth serve: libmicrohttpd ${MICROHTTPD_VERSION}")
else()
  message(STATUS "  berth serve: not built, BERTH_SERVE is ${BERTH_SERVE} and libmicrohttpd "
                 "(libmicrohttpd-dev) was ${MICROHTTPD_FOUND}")
endif()
