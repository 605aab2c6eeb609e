// SPDX-License-Identifier: Apache-2.0
// The decoders of pipelines: rows that turn the texts of tokens into those of a sentence.
#include "core/memory.h"
#include "core/utf8.h"
#include "format/json/json.h"
#include "text/components.h"

#include <string.h>

// Replaces each `from` by its own bytes without a blank at its beginning and, if it has one, at its
// end.
static void drop_blanks(char *text, const char *from) {
    const size_t length = strlen(from), kept = length - 1 - (from[length - 1] == ' ');
    char *to = text;
    for (const char *at = text; *at != '\0';) {
        if (strncmp(at, from, length) == 0) {
            memcpy(to, from + 1, kept);
            to += kept;
            at += length;
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
}

void component_clean_up(char *text) {
    static const char *const before[] = {" .",   " ?",  " !",  " ,",   " ' ",
                                         " n't", " 'm", " 's", " 've", " 're"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        drop_blanks(text, before[i]);
    }
}

// Appends the bytes that the token's characters stand for; 0: not all of them stand for one.
static int put_level_bytes(struct buffer *bytes, const char *token, size_t length) {
    for (size_t at = 0; at < length;) {
        uint32_t point;
        at = text_point(token, length, at, &point);
        if (byte_level_byte(point) < 0) {
            return 0;
        }
        buffer_put_byte(bytes, (char)byte_level_byte(point));
    }
    return 1;
}

static void decode_bytes(const struct component *component, const struct component_strings *tokens,
                         struct component_strings *decoded) {
    struct buffer bytes = {0}, text = {0};
    (void)component;
    for (size_t i = 0; i < tokens->count; i++) {
        const size_t before = bytes.length, begin = strings_begin(tokens, i);
        if (!put_level_bytes(&bytes, tokens->bytes.bytes + begin, tokens->ends[i] - begin)) {
            bytes.length = before;
            buffer_put(&bytes, tokens->bytes.bytes + begin, tokens->ends[i] - begin);
        }
    }
    for (size_t at = 0; at < bytes.length && !bytes.failed;) {
        uint32_t point;
        char encoded[4];
        at += utf8_decode(bytes.bytes + at, bytes.length - at, &point);
        buffer_put(&text, encoded, utf8_encode(point == UTF8_ILL_FORMED ? 0xFFFD : point, encoded));
    }
    strings_add(decoded, text.bytes, text.length);
    decoded->failed |= bytes.failed || text.failed;
    buffer_done(&bytes);
    buffer_done(&text);
}

// Replaces what the component's pattern matches in each token by its content.
static void decode_replace(const struct component *component,
                           const struct component_strings *tokens,
                           struct component_strings *decoded) {
    for (size_t i = 0; i < tokens->count; i++) {
        const char *bytes = tokens->bytes.bytes;
        const size_t end = tokens->ends[i];
        struct buffer text = {0};
        for (size_t at = strings_begin(tokens, i); at < end;) {
            const size_t match = component->match(component, bytes, end, at),
                         next = match > at ? match : at + utf8_whole(bytes[at]);
            if (match > at) {
                buffer_put(&text, component->content, component->content_length);
            } else {
                buffer_put(&text, bytes + at, next - at);
            }
            at = next;
        }
        strings_add(decoded, text.bytes, text.length);
        decoded->failed |= text.failed;
        buffer_done(&text);
    }
}

static enum berth_status read_replace(struct component *component, const json *object,
                                      const struct component_place *place,
                                      struct berth_error *error) {
    TRY(component_pattern(component, json_member(object, "pattern"), place, error));
    return component_text(object, "content", place, &component->content, &component->content_length,
                          error);
}

// A mark becomes a blank; those of the first token, which were added, are left out.
static void decode_metaspace(const struct component *component,
                             const struct component_strings *tokens,
                             struct component_strings *decoded) {
    struct component blank = *component;
    const struct component_strings first = {tokens->bytes, tokens->ends, 1, 1, 0};
    char space[] = " ";
    blank.content = space;
    blank.content_length = component->flags[0] ? 0 : 1;
    decode_replace(&blank, &first, decoded);
    for (size_t i = 1; i < tokens->count; i++) {
        const size_t begin = strings_begin(tokens, i);
        size_t end = tokens->ends[i] - begin;
        struct component_strings token = {
            {tokens->bytes.bytes + begin, end, end, 0}, &end, 1, 1, 0};
        blank.content_length = 1;
        decode_replace(&blank, &token, decoded);
    }
}

static void decode_fuse(const struct component *component, const struct component_strings *tokens,
                        struct component_strings *decoded) {
    (void)component;
    strings_add(decoded, tokens->bytes.bytes, tokens->bytes.length);
}

enum { STRIP_START, STRIP_STOP };

static enum berth_status read_strip(struct component *component, const json *object,
                                    const struct component_place *place,
                                    struct berth_error *error) {
    static const char *const keys[] = {[STRIP_START] = "start", [STRIP_STOP] = "stop"};
    TRY(component_text(object, "content", place, &component->text, &component->text_length, error));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json *number = json_member(object, keys[i]);
        const int64_t value = json_is_integer_value(number) ? json_as_integer(number) : -1;
        if (value < 0 || value > INT32_MAX) {
            return component_refuse(place, keys[i], "a number of characters", NULL, error);
        }
        component->flags[i] = (int)value;
    }
    return component->text_length > 0
               ? BERTH_OK
               : component_refuse(place, "content", "a character", NULL, error);
}

static void decode_strip(const struct component *component, const struct component_strings *tokens,
                         struct component_strings *decoded) {
    const size_t length = component->text_length;
    for (size_t i = 0; i < tokens->count; i++) {
        const char *bytes = tokens->bytes.bytes;
        size_t begin = strings_begin(tokens, i), end = tokens->ends[i];
        for (int k = 0; k < component->flags[STRIP_START] && end - begin >= length &&
                        memcmp(bytes + begin, component->text, length) == 0;
             k++) {
            begin += length;
        }
        for (int k = 0; k < component->flags[STRIP_STOP] && end - begin >= length &&
                        memcmp(bytes + end - length, component->text, length) == 0;
             k++) {
            end -= length;
        }
        strings_add(decoded, bytes + begin, end - begin);
    }
}

// The byte of "<0x0A>"; -1: the token is another.
static int fallback_byte(const char *token, size_t length) {
    static const char digits[] = "0123456789ABCDEF0123456789abcdef";
    int value = 0;
    if (length != 6 || memcmp(token, "<0x", 3) != 0 || token[5] != '>') {
        return -1;
    }
    for (int i = 3; i < 5; i++) {
        const char *digit = memchr(digits, token[i], sizeof digits - 1);
        if (digit == NULL) {
            return -1;
        }
        value = value * 16 + (int)(digit - digits) % 16;
    }
    return value;
}

// Adds bytes in a row as one text, or U+FFFD for each if they are none.
static void end_bytes(struct buffer *bytes, struct component_strings *decoded) {
    if (utf8_is_valid(bytes->bytes, bytes->length)) {
        if (bytes->length > 0) {
            strings_add(decoded, bytes->bytes, bytes->length);
        }
    } else {
        for (size_t i = 0; i < bytes->length; i++) {
            strings_add(decoded, "\xEF\xBF\xBD", 3);
        }
    }
    decoded->failed |= bytes->failed;
    buffer_clear(bytes);
}

static void decode_fallback(const struct component *component,
                            const struct component_strings *tokens,
                            struct component_strings *decoded) {
    struct buffer bytes = {0};
    (void)component;
    for (size_t i = 0; i < tokens->count; i++) {
        const size_t begin = strings_begin(tokens, i), length = tokens->ends[i] - begin;
        const int byte = fallback_byte(tokens->bytes.bytes + begin, length);
        if (byte >= 0) {
            buffer_put_byte(&bytes, (char)byte);
        } else {
            end_bytes(&bytes, decoded);
            strings_add(decoded, tokens->bytes.bytes + begin, length);
        }
    }
    end_bytes(&bytes, decoded);
    buffer_done(&bytes);
}

static enum berth_status read_suffix(struct component *component, const json *object,
                                     const struct component_place *place,
                                     struct berth_error *error) {
    return component_text(object, "suffix", place, &component->text, &component->text_length,
                          error);
}

// A suffix becomes a blank, but for those of the last token.
static void decode_suffix(const struct component *component, const struct component_strings *tokens,
                          struct component_strings *decoded) {
    for (size_t i = 0; i < tokens->count; i++) {
        const char *bytes = tokens->bytes.bytes;
        const size_t length = component->text_length;
        struct buffer text = {0};
        for (size_t at = strings_begin(tokens, i), end = tokens->ends[i]; at < end;) {
            const int is_suffix = length > 0 && end - at >= length &&
                                  memcmp(bytes + at, component->text, length) == 0;
            if (!is_suffix) {
                buffer_put_byte(&text, bytes[at]);
            } else if (i + 1 < tokens->count) {
                buffer_put_byte(&text, ' ');
            }
            at += is_suffix ? length : 1;
        }
        strings_add(decoded, text.bytes, text.length);
        decoded->failed |= text.failed;
        buffer_done(&text);
    }
}

static enum berth_status read_prefix(struct component *component, const json *object,
                                     const struct component_place *place,
                                     struct berth_error *error) {
    component->flags[0] = 1;
    TRY(component_flag(object, "cleanup", place, &component->flags[0], error));
    return component_text(object, "prefix", place, &component->text, &component->text_length,
                          error);
}

// A token with the prefix continues a word, another one begins it.
static void decode_prefix(const struct component *component, const struct component_strings *tokens,
                          struct component_strings *decoded) {
    for (size_t i = 0; i < tokens->count; i++) {
        const char *token = tokens->bytes.bytes + strings_begin(tokens, i);
        const size_t length = tokens->ends[i] - strings_begin(tokens, i),
                     prefix = component->text_length;
        const int continues =
            i > 0 && length >= prefix && memcmp(token, component->text, prefix) == 0;
        struct buffer text = {0};
        if (i > 0 && !continues) {
            buffer_put_byte(&text, ' ');
        }
        buffer_put(&text, token + (continues ? prefix : 0), length - (continues ? prefix : 0));
        buffer_put_byte(&text, '\0');
        if (!text.failed) {
            if (component->flags[0]) {
                component_clean_up(text.bytes);
            }
            strings_add(decoded, text.bytes, strlen(text.bytes));
        }
        decoded->failed |= text.failed;
        buffer_done(&text);
    }
}

const struct component_row decoder_rows[] = {
    {"BPEDecoder", read_suffix, NULL, decode_suffix},
    {"ByteFallback", NULL, NULL, decode_fallback},
    {"ByteLevel", NULL, NULL, decode_bytes},
    {"Fuse", NULL, NULL, decode_fuse},
    {"Metaspace", component_read_metaspace, NULL, decode_metaspace},
    {"Replace", read_replace, NULL, decode_replace},
    {"Strip", read_strip, NULL, decode_strip},
    {"WordPiece", read_prefix, NULL, decode_prefix},
    {.name = NULL}};
