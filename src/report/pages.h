// SPDX-License-Identifier: Apache-2.0
// Style sheet and script of the HTML report. The build makes their text of src/report/pages
// (room.cmake).
#ifndef BERTH_REPORT_PAGES_H
#define BERTH_REPORT_PAGES_H

extern const char report_css[], report_js[];

#endif
