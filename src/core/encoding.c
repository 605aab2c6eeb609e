// SPDX-License-Identifier: Apache-2.0
// Every reader of text comes here first, for whole files and for streams alike. Leaves out encodings
// other than UTF-8 and UTF-16, and the dropping of ill-formed UTF-8, which is the tokenizer's.
#include "core/encoding.h"

#include "core/compressed.h"
#include "core/little_endian.h"
#include "core/memory.h"
#include "core/utf8.h"

#include <stdint.h>
#include <string.h>

enum encoding encoding_of(const char *bytes, size_t length, size_t *mark) {
    static const struct {
        const char *bytes;
        size_t length;
        enum encoding encoding;
    } marks[] = {{"\xFF\xFE\0\0", 4, ENCODING_UTF32},
                 {"\0\0\xFE\xFF", 4, ENCODING_UTF32},
                 {"\xEF\xBB\xBF", 3, ENCODING_UTF8},
                 {"\xFF\xFE", 2, ENCODING_UTF16_LE},
                 {"\xFE\xFF", 2, ENCODING_UTF16_BE}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        if (length >= marks[i].length && memcmp(bytes, marks[i].bytes, marks[i].length) == 0) {
            *mark = marks[i].length;
            return marks[i].encoding;
        }
    }
    *mark = 0;
    unsigned nuls = 0; // bit i: byte i of the first four is NUL
    for (size_t i = 0; i < 4; i++) {
        nuls |= i < length && bytes[i] == '\0' ? 1u << i : 0;
    }
    return length < 4                ? ENCODING_UTF8
           : nuls == 14 || nuls == 7 ? ENCODING_UTF32
           : (nuls & 3) == 2         ? ENCODING_UTF16_LE
           : (nuls & 3) == 1         ? ENCODING_UTF16_BE
                                     : ENCODING_UTF8;
}

static uint32_t unit_at(const struct encoding_reader *reader, size_t at) {
    const unsigned char *two = reader->held + at;
    return reader->encoding == ENCODING_UTF16_LE ? (uint32_t)little_endian(two, 2)
                                                 : (uint32_t)two[1] | (uint32_t)two[0] << 8;
}

// Converts the first unit that is held, or the surrogate pair.
static void put_held(struct encoding_reader *reader, struct buffer *to) {
    char character[4];
    uint32_t first = unit_at(reader, 0);
    size_t taken = 2;
    if (reader->count == 4) {
        uint32_t second = unit_at(reader, 2);
        if (second >= 0xDC00 && second <= 0xDFFF) {
            first = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            taken = 4;
        }
    }
    buffer_put(to, character, utf8_encode(first, character));
    memmove(reader->held, reader->held + taken, reader->count - taken);
    reader->count -= taken;
}

static int is_first_half(uint32_t unit) {
    return unit >= 0xD800 && unit <= 0xDBFF;
}

void encoding_put(struct encoding_reader *reader, const char *bytes, size_t length,
                  struct buffer *to) {
    for (size_t i = 0; i < length; i++) {
        reader->held[reader->count++] = (unsigned char)bytes[i];
        while (reader->count == 4 || (reader->count == 2 && !is_first_half(unit_at(reader, 0)))) {
            put_held(reader, to);
        }
    }
}

void encoding_end(struct encoding_reader *reader, struct buffer *to) {
    while (reader->count >= 2) {
        put_held(reader, to);
    }
    if (reader->count > 0) {
        buffer_put(to, "\xFF", 1);
        reader->count = 0;
    }
}

enum berth_status encoding_normalise(const char *name, const char **bytes, size_t *length,
                                     struct buffer *own, struct berth_error *error) {
    size_t mark;
    TRY(compressed_refuse(name, *bytes, *length, error));
    struct encoding_reader reader = {.encoding = encoding_of(*bytes, *length, &mark)};
    *bytes += mark;
    *length -= mark;
    if (reader.encoding == ENCODING_UTF8) {
        return BERTH_OK;
    }
    if (reader.encoding == ENCODING_UTF32) {
        return error_set(error, BERTH_BAD_DATA, "%s: the file is UTF-32; save it as UTF-8", name);
    }
    encoding_put(&reader, *bytes, *length, own);
    encoding_end(&reader, own);
    if (own->failed) {
        buffer_done(own);
        return error_no_memory(error, *length, name);
    }
    *bytes = own->length > 0 ? own->bytes : *bytes + *length;
    *length = own->length;
    return BERTH_OK;
}

void encoding_end_lines(char *text, size_t length) {
    char *const end = text + length;
    for (char *at = text; at < end && (at = memchr(at, '\r', (size_t)(end - at))) != NULL; at++) {
        if (at + 1 == end || at[1] != '\n') {
            *at = '\n';
        }
    }
}

enum berth_status encoding_normalise_owned(const char *name, char **bytes, char **text,
                                           size_t *length, struct berth_error *error) {
    struct buffer own = {0};
    const char *at = *bytes;
    TRY(encoding_normalise(name, &at, length, &own, error));
    if (own.bytes == NULL) {
        *text = *bytes + (at - *bytes);
        encoding_end_lines(*text, *length);
        return BERTH_OK;
    }
    buffer_put_byte(&own, '\0');
    if (own.failed) {
        buffer_done(&own);
        return error_no_memory(error, *length, name);
    }
    memory_free(*bytes);
    *bytes = *text = own.bytes;
    encoding_end_lines(*text, *length);
    return BERTH_OK;
}

static size_t line_of(const char *text, size_t offset) {
    size_t line = 1;
    for (size_t i = 0; i < offset; i++) {
        line += text[i] == '\n';
    }
    return line;
}

enum berth_status encoding_read_text(const char *name, char **bytes, char **text, size_t *length,
                                     struct berth_error *error) {
    TRY(encoding_normalise_owned(name, bytes, text, length, error));
    const size_t valid = utf8_text_prefix(*text, *length);
    return valid == *length ? BERTH_OK
                            : error_line(error, BERTH_BAD_DATA, name, line_of(*text, valid), "%s",
                                         (*text)[valid] == '\0'
                                             ? "a NUL byte; expected a text file: is it damaged?"
                                             : "not UTF-8; save the file as UTF-8");
}
