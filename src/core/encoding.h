// SPDX-License-Identifier: Apache-2.0
// How other people's text files are encoded, and UTF-16 as UTF-8.
#ifndef BERTH_CORE_ENCODING_H
#define BERTH_CORE_ENCODING_H

#include "core/buffer.h"
#include "core/error.h"

#include <stddef.h>

enum encoding { ENCODING_UTF8, ENCODING_UTF16_LE, ENCODING_UTF16_BE, ENCODING_UTF32 };

// What a file that begins with these bytes (four are enough) is, by its byte order mark or by NUL
// bytes beside its first character, which JSON and XML begin in ASCII; UTF-8 where neither tells
// anything. *mark: bytes of the byte order mark.
enum encoding encoding_of(const char *bytes, size_t length, size_t *mark);

// UTF-16 that comes in pieces, without its mark. Zero-initialise but for the encoding.
struct encoding_reader {
    enum encoding encoding;
    unsigned char held[4]; // the beginning of a character
    size_t count;
};
// Appends the text as UTF-8. What is no UTF-16 (half a pair; at the end: half a character) becomes
// ill-formed UTF-8, so that it is found where UTF-8 is checked.
void encoding_put(struct encoding_reader *reader, const char *bytes, size_t length,
                  struct buffer *to);
void encoding_end(struct encoding_reader *reader, struct buffer *to);

// Makes a whole text UTF-8 without a mark: *bytes and *length are moved, into `own` where it had to
// be converted (buffer_done). UTF-32 is BERTH_BAD_DATA.
enum berth_status encoding_normalise(const char *name, const char **bytes, size_t *length,
                                     struct buffer *own, struct berth_error *error);

#endif
