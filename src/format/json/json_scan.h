// SPDX-License-Identifier: Apache-2.0
// A pull scanner for JSON that must be read in bounded memory: it builds nothing, decodes strings
// in place, and the caller says what comes next. For headers from strangers, where the values of
// json.h would take twenty times the text's size.
//
// Strict as json.h: RFC 8259, well-formed UTF-8 only. Every error names the file and the byte of
// the header.
#ifndef BERTH_FORMAT_JSON_SCAN_H
#define BERTH_FORMAT_JSON_SCAN_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct json_scan {
    const char *name; // of the file, for messages
    char *text;       // changed in place: decoded strings are followed by a NUL
    size_t length;
    size_t at;
};

// The next byte that is not white space, '\0' at the end. Does not move past it.
char json_scan_peek(struct json_scan *scan);
// Moves past `c`, which must come next.
enum berth_status json_scan_expect(struct json_scan *scan, char c, struct berth_error *error);
// For lists: after the opening bracket (*first: 1) or after an element (*first: 0), *more tells
// whether another element follows; moves past the comma or the closing bracket.
enum berth_status json_scan_more(struct json_scan *scan, char close, int *first, int *more,
                                 struct berth_error *error);
// A string: NUL-terminated, in the scanner's text. Escaped NULs are refused.
enum berth_status json_scan_text(struct json_scan *scan, char **value, struct berth_error *error);
// A member's key and its colon.
enum berth_status json_scan_key(struct json_scan *scan, char **key, struct berth_error *error);
// An integer of 0 to 2^64 - 1.
enum berth_status json_scan_unsigned(struct json_scan *scan, uint64_t *value,
                                     struct berth_error *error);
// Any value, checked and left out; lists nested deeper than 64 are refused.
enum berth_status json_scan_skip(struct json_scan *scan, struct berth_error *error);
// Nothing but white space is left.
enum berth_status json_scan_end(struct json_scan *scan, struct berth_error *error);
// The error for a value of another kind than expected at the present place.
enum berth_status json_scan_wrong(const struct json_scan *scan, const char *expected,
                                  struct berth_error *error);

#endif
