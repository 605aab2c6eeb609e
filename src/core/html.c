// SPDX-License-Identifier: Apache-2.0
#include "core/html.h"

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

void html_put_escaped(struct buffer *page, const char *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) {
        const char *entity = entity_of(bytes[i]);
        if (entity != NULL) {
            buffer_put_text(page, entity);
        } else {
            buffer_put_byte(page, bytes[i]);
        }
    }
}

void html_put_text(struct buffer *page, const char *text) {
    html_put_escaped(page, text, strlen(text));
}
