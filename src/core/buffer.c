// SPDX-License-Identifier: Apache-2.0
// The one function of a byte buffer that is not inline: formatted text, appended in the "C" locale
// (core/number.h) whatever the caller has set.
#include "core/buffer.h"

#include "core/number.h"

#include <stdarg.h>

void buffer_print(struct buffer *buffer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = number_format_list(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0) {
        buffer->failed = 1;
        return;
    }
    const size_t size = (size_t)length;
    if (buffer_reserve(buffer, size + 1)) { // and the NUL, which does not count
        va_start(arguments, format);
        const int printed =
            number_format_list(buffer->bytes + buffer->length, size + 1, format, arguments);
        va_end(arguments);
        buffer->failed |= printed != length;
        buffer->length += printed == length ? size : 0;
    }
}
