// SPDX-License-Identifier: Apache-2.0
// A pull scanner for JSON in bounded memory: it builds no values, decodes strings in place, and the
// caller says what to expect next. For untrusted headers, for which json.h would need twenty times
// the size of the text.
//
// As strict as json.h: RFC 8259, well-formed UTF-8. Every error names the file and the byte of the
// header.
#ifndef BERTH_FORMAT_JSON_SCAN_H
#define BERTH_FORMAT_JSON_SCAN_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct json_scan {
    const char *name; // of the file, for messages
    char *text;       // changed in place: decoded strings are followed by a NUL
    size_t length;
    size_t position;
};

// Skips `c`, which must come next.
enum berth_status json_scan_expect(struct json_scan *scan, char c, struct berth_error *error);
// For arrays and objects: after the opening bracket (*first: 1) or an element (*first: 0), sets
// *more if another element follows; skips the comma or the closing bracket.
enum berth_status json_scan_more(struct json_scan *scan, char close, int *first, int *more,
                                 struct berth_error *error);
// Reads a string: NUL-terminated, in the scanner's text. Refuses escaped NULs.
enum berth_status json_scan_text(struct json_scan *scan, char **value, struct berth_error *error);
// Reads the key of a member and its colon.
enum berth_status json_scan_key(struct json_scan *scan, char **key, struct berth_error *error);
// Reads an integer from 0 to 2^64 - 1.
enum berth_status json_scan_unsigned(struct json_scan *scan, uint64_t *value,
                                     struct berth_error *error);
// Checks and skips any value; refuses nesting deeper than 64.
enum berth_status json_scan_skip(struct json_scan *scan, struct berth_error *error);
// Checks that only white space is left.
enum berth_status json_scan_end(struct json_scan *scan, struct berth_error *error);

#endif
