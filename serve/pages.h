// SPDX-License-Identifier: Apache-2.0
// Files embedded in the program: the page at / and the description of the API. The build generates
// them from serve/pages.
#ifndef BERTH_SERVE_PAGES_H
#define BERTH_SERVE_PAGES_H

extern const char page_html[], openapi_json[];

#endif
