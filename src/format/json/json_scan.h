// SPDX-License-Identifier: Apache-2.0
// The one reader of JSON: a pull scanner in bounded memory that builds no values and decodes
// strings in place. json.h builds values with it; what must not need several times the size of its
// text, such as an untrusted header, calls it directly and says what to expect next.
//
// Strict: RFC 8259, well-formed UTF-8, limits of depth and number. Every error names the file, the
// place and the keys that lead to it. Leaves out duplicate keys, of which only a builder of values
// knows.
#ifndef BERTH_FORMAT_JSON_SCAN_H
#define BERTH_FORMAT_JSON_SCAN_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

enum { JSON_DEPTH_LIMIT = 512 };

struct json_scan {
    const char *name; // of the file, for messages
    char *text;       // changed in place: decoded strings are followed by a NUL
    size_t length;
    size_t position;
    const char *original; // the unchanged text, for line and column; NULL: messages name the byte
    int is_python;        // NaN, Infinity and -Infinity are null
    int depth_limit;      // at most JSON_DEPTH_LIMIT
    size_t values_limit;
    size_t values;
    int depth; // of open objects and arrays
    struct json_level {
        char close;      // '}' or ']'
        size_t count;    // of elements that have begun
        const char *key; // of the member that has begun
    } levels[JSON_DEPTH_LIMIT];
};

// The levels are not initialised, which is why this is no initialiser.
void json_scan_begin(struct json_scan *scan, const char *name, char *text, size_t length);

// Opens an object ('{') or array ('['), which must come next.
enum berth_status json_scan_open(struct json_scan *scan, char bracket, struct berth_error *error);
// Sets *more if another element of the innermost object or array follows, and skips the comma
// before it; otherwise closes the object or array.
enum berth_status json_scan_more(struct json_scan *scan, int *more, struct berth_error *error);
// Reads the key of a member and its colon.
enum berth_status json_scan_key(struct json_scan *scan, char **key, struct berth_error *error);
// Reads a string: NUL-terminated, in the scanner's text. Refuses escaped NULs.
enum berth_status json_scan_text(struct json_scan *scan, char **value, struct berth_error *error);
// Reads an integer from 0 to 2^64 - 1.
enum berth_status json_scan_unsigned(struct json_scan *scan, uint64_t *value,
                                     struct berth_error *error);
// Checks and skips any value.
enum berth_status json_scan_skip(struct json_scan *scan, struct berth_error *error);
// Checks that only white space is left.
enum berth_status json_scan_end(struct json_scan *scan, struct berth_error *error);

// What comes next, for those who take every value.
struct json_scan_value {
    enum {
        SCAN_OBJECT, // is open now
        SCAN_ARRAY,
        SCAN_END, // of the innermost object or array
        SCAN_TEXT,
        SCAN_INTEGER,
        SCAN_REAL, // has a fraction or an exponent
        SCAN_TRUE,
        SCAN_FALSE,
        SCAN_NULL
    } kind;
    char *text; // of strings, decoded, which may have NULs in it; digits of numbers
    size_t length;
};
// In an object the member's key is that of its level.
enum berth_status json_scan_next(struct json_scan *scan, struct json_scan_value *value,
                                 struct berth_error *error);
// BERTH_BAD_DATA for the current position.
enum berth_status json_scan_error(const struct json_scan *scan, const char *problem,
                                  struct berth_error *error);

#endif
