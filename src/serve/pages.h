// SPDX-License-Identifier: Apache-2.0
// Files that the program contains: the page at / and the description of the API. The build makes
// their text of src/serve/pages (room.cmake).
#ifndef BERTH_SERVE_PAGES_H
#define BERTH_SERVE_PAGES_H

extern const char page_html[], openapi_json[];

#endif
