// SPDX-License-Identifier: Apache-2.0
// Detects the encoding of a text file by its first bytes and converts UTF-16 to UTF-8, piece by
// piece. All readers of text files begin here.
#ifndef BERTH_CORE_ENCODING_H
#define BERTH_CORE_ENCODING_H

#include "core/buffer.h"
#include "core/error.h"

#include <stddef.h>

enum encoding { ENCODING_UTF8, ENCODING_UTF16_LE, ENCODING_UTF16_BE, ENCODING_UTF32 };

// The encoding of a file that begins with these bytes (four are enough), from its byte order mark
// or from NUL bytes next to its first character, which is ASCII in JSON and XML; UTF-8 by default.
// *mark: bytes of the byte order mark.
enum encoding encoding_of(const char *bytes, size_t length, size_t *mark);

// Converts UTF-16 that arrives in chunks, without its byte order mark. Zero-initialise all but the
// encoding.
struct encoding_reader {
    enum encoding encoding;
    unsigned char held[4]; // the start of a character
    size_t count;
};
// Appends the text as UTF-8. Invalid UTF-16 (an unpaired surrogate; at the end: half a character)
// becomes ill-formed UTF-8, which the caller's check of UTF-8 then reports.
void encoding_put(struct encoding_reader *reader, const char *bytes, size_t length,
                  struct buffer *to);
void encoding_end(struct encoding_reader *reader, struct buffer *to);

// Converts a whole text to UTF-8 without a byte order mark: *bytes and *length then point past the
// mark, or into `own` (buffer_done) where a conversion was needed. UTF-32 and compressed files are
// BERTH_BAD_DATA. After an error `own` is empty.
enum berth_status encoding_normalise(const char *name, const char **bytes, size_t *length,
                                     struct buffer *own, struct berth_error *error);

// Makes an LF of every CR that no LF follows. Lines then end where Python's text files end them: at
// LF, CR LF or CR, and at no other character.
void encoding_end_lines(char *text, size_t length);

// As encoding_normalise for a text on the heap that ends with a NUL, with encoding_end_lines: where
// a conversion is needed, *bytes (memory_free) becomes the new text. *text points into *bytes and
// ends with a NUL.
enum berth_status encoding_normalise_owned(const char *name, char **bytes, char **text,
                                           size_t *length, struct berth_error *error);

// The same, and refuses what is no text, a NUL or ill-formed UTF-8 (BERTH_BAD_DATA), by its line.
enum berth_status encoding_read_text(const char *name, char **bytes, char **text, size_t *length,
                                     struct berth_error *error);

#endif
