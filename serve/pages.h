// SPDX-License-Identifier: Apache-2.0
// The page at /, embedded in the program by the build.
#ifndef BERTH_SERVE_PAGES_H
#define BERTH_SERVE_PAGES_H

extern const char page_html[];

#endif
