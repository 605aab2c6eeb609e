// SPDX-License-Identifier: Apache-2.0
// Replaces the characters that mean something in HTML, and bytes that are no UTF-8, in text that
// comes from users or files, for the report page and the server's page.
#include "core/html.h"

#include "core/utf8.h"

static const char *entity_of(char byte) {
    switch (byte) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

// Ill-formed bytes, which file names may contain, become U+FFFD.
void html_put_escaped(struct buffer *page, const char *bytes, size_t length) {
    size_t step;
    for (size_t i = 0; i < length; i += step) {
        uint32_t point;
        const char *entity = entity_of(bytes[i]);
        step = utf8_decode(bytes + i, length - i, &point);
        if (entity != NULL) {
            buffer_put_text(page, entity);
        } else if (point == UTF8_ILL_FORMED) {
            buffer_put_text(page, "\xef\xbf\xbd");
        } else {
            buffer_put(page, bytes + i, step);
        }
    }
}

void html_put_text(struct buffer *page, const char *text) {
    html_put_escaped(page, text, strlen(text));
}
