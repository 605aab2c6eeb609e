// SPDX-License-Identifier: Apache-2.0
// Style sheet and script of the HTML report as bytes, which the build generates from page/pages.
// html.c puts both into every page, so that a report is one file that needs no network.
#ifndef BERTH_PAGE_PAGES_H
#define BERTH_PAGE_PAGES_H

extern const char report_css[], report_js[];

#endif
