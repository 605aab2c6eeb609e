# SPDX-License-Identifier: Apache-2.0
# The server, for the program alone: the library has no HTTP.
berth_switch(SERVE "`berth serve`")
if(BERTH_SERVE)
  pkg_check_modules(MICROHTTPD IMPORTED_TARGET libmicrohttpd>=0.9.72)
endif()
berth_decide(SERVE "berth serve" "${MICROHTTPD_FOUND}" "libmicrohttpd 0.9.72 (libmicrohttpd-dev)")
set(BERTH_HAS_SERVE ${BERTH_HAS_SERVE} PARENT_SCOPE)
set(berth_serve) # what the program links in addition to the library's rooms

if(BERTH_HAS_SERVE)
  file(GLOB serve_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/serve/*.c)
  set(pages ${CMAKE_CURRENT_BINARY_DIR}/serve_pages.c)
  berth_embed(${pages} serve/pages.h page_html=${CMAKE_CURRENT_SOURCE_DIR}/serve/pages/page.html
              openapi_json=${CMAKE_CURRENT_SOURCE_DIR}/serve/pages/openapi.json)
  set(berth_serve berth_serve)
  add_library(berth_serve OBJECT ${serve_sources} ${pages})
  target_include_directories(berth_serve PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(berth_serve PUBLIC m Threads::Threads PkgConfig::MICROHTTPD)
endif()
