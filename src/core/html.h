// SPDX-License-Identifier: Apache-2.0
// Text in HTML.
#ifndef BERTH_CORE_HTML_H
#define BERTH_CORE_HTML_H

#include "core/buffer.h"

// Appends text so that nothing of it is markup, in elements and in quoted attributes, as UTF-8.
void html_put_escaped(struct buffer *page, const char *bytes, size_t length);
void html_put_text(struct buffer *page, const char *text); // NUL-terminated

#endif
