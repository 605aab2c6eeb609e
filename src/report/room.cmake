# SPDX-License-Identifier: Apache-2.0
# The HTML report's style sheet and script become part of the library.
set(report_pages ${CMAKE_CURRENT_BINARY_DIR}/report_pages.c)
berth_embed(${report_pages} report/pages.h report_css=${CMAKE_CURRENT_SOURCE_DIR}/report/pages/report.css
            report_js=${CMAKE_CURRENT_SOURCE_DIR}/report/pages/report.js)
target_sources(berth_report PRIVATE ${report_pages})
