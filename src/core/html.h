// SPDX-License-Identifier: Apache-2.0
// Escapes text for HTML. The report page and the server's page write everything that is not their
// own through it.
#ifndef BERTH_CORE_HTML_H
#define BERTH_CORE_HTML_H

#include "core/buffer.h"

// Appends text as UTF-8, escaped for elements and quoted attributes.
void html_put_escaped(struct buffer *page, const char *bytes, size_t length);
void html_put_text(struct buffer *page, const char *text); // NUL-terminated

#endif
