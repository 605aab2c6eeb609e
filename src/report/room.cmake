# SPDX-License-Identifier: Apache-2.0
# The HTML report's style sheet and script become part of the library.
set(report_pages ${CMAKE_CURRENT_BINARY_DIR}/report_pages.c)
set(report_page_files ${CMAKE_CURRENT_SOURCE_DIR}/report/pages/report.css
                      ${CMAKE_CURRENT_SOURCE_DIR}/report/pages/report.js)
add_custom_command(
  OUTPUT ${report_pages}
  COMMAND ${CMAKE_COMMAND} -D "FILES=${report_page_files}" -D HEADER=report/pages.h -D OUTPUT=${report_pages}
          -P ${CMAKE_CURRENT_SOURCE_DIR}/embed.cmake
  DEPENDS ${report_page_files} ${CMAKE_CURRENT_SOURCE_DIR}/embed.cmake
  VERBATIM)
target_sources(berth_report PRIVATE ${report_pages})
