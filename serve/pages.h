// SPDX-License-Identifier: Apache-2.0
// The page at / as bytes, which the build generates from serve/pages and embeds in the program, so
// that it needs no file beside it. page.c fills in its placeholders.
#ifndef BERTH_SERVE_PAGES_H
#define BERTH_SERVE_PAGES_H

extern const char page_html[];

#endif
