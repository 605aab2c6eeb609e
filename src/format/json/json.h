// SPDX-License-Identifier: Apache-2.0
// JSON values: strict parsing whose errors have line, column and the keys on the way, typed getters
// whose errors name the file and the key, and output that does not depend on the locale.
//
// Values are jansson's reference-counted values under an opaque name. Functions that return a child
// return a borrowed pointer.
#ifndef BERTH_FORMAT_JSON_H
#define BERTH_FORMAT_JSON_H

#include "core/error.h"
#include "core/file.h"
#include "core/number.h"

#include <stddef.h>
#include <stdint.h>

struct json_t;              // jansson's value
typedef struct json_t json; // the only typedef: jansson's name would be json_t

#define JSON_FILE_LIMIT ((size_t)512 << 20) // bytes of a file that is read

// Parses a file or memory, in UTF-8 or UTF-16, with or without a byte order mark; duplicate keys,
// invalid UTF-8, NUL bytes and nesting deeper than JSON_DEPTH_LIMIT (json_scan.h) are errors.
// Integers beyond 64 bits become reals. Free with json_free.
enum berth_status json_read_file(const char *path, json **value, struct berth_error *error);
enum berth_status json_read_memory(const char *name, const char *bytes, size_t length, json **value,
                                   struct berth_error *error);
// The same with lower limits of the nesting and of the number of values.
enum berth_status json_read_limited(const char *name, const char *bytes, size_t length, int depth,
                                    size_t values, json **value, struct berth_error *error);
// Parses a file that Python's json may have written: NaN, Infinity and -Infinity become null.
enum berth_status json_read_python_file(const char *path, json **value, struct berth_error *error);
void json_free(json *value);
// The end of the first object or array of a text, which need not be valid; `length` if it has none.
size_t json_first_end(const char *bytes, size_t length);

// Types and children. A NULL value has no type and no children.
int json_is_object_value(const json *value);
int json_is_array_value(const json *value);
int json_is_text(const json *value);
int json_is_number_value(const json *value);
int json_is_integer_value(const json *value); // integral reals, too
int json_is_real_value(const json *value);    // has a fraction or an exponent
int json_is_null_value(const json *value);
int json_is_boolean(const json *value);
const json *json_member(const json *object, const char *key); // NULL: absent
size_t json_length(const json *value); // entries of an object or array, else 0
const json *json_at(const json *array, size_t index);
const char *json_text(const json *value); // NULL when it is not a string
size_t json_text_length(const json *value);
int64_t json_as_integer(const json *value); // integers and integral reals; else 0
double json_as_real(const json *value);
int json_truth(const json *value);
// Prints a number as the text that number_parse_integer or number_parse_real reads back.
void json_print_number(const json *value, char text[NUMBER_TEXT_SIZE]);

// Walks an object in file order: struct json_walk walk = {.object = ...};
// while (json_walk_next(&walk)) { walk.key, walk.value }
struct json_walk {
    const json *object;
    void *iterator; // jansson's
    const char *key;
    const json *value;
};
int json_walk_next(struct json_walk *walk);

// Removes a member; a missing one is no error.
void json_remove(json *object, const char *key);
// Removes the members that are null from all objects of the value.
void json_remove_nulls(json *value);

// Typed members: when the key is absent, *result stays unchanged and the result is BERTH_OK; a
// wrong type is BERTH_CONFIG: "<name>: key "<key>": expected an integer, found a string".
enum berth_status json_get_integer(const json *object, const char *name, const char *key,
                                   int64_t *result, struct berth_error *error);
enum berth_status json_get_real(const json *object, const char *name, const char *key,
                                double *result, struct berth_error *error);
enum berth_status json_get_boolean(const json *object, const char *name, const char *key,
                                   int *result, struct berth_error *error);
enum berth_status json_get_text(const json *object, const char *name, const char *key,
                                const char **result, struct berth_error *error); // borrowed

// Building. NULL arguments and results mean "out of memory" and propagate through every call: an
// object or array that lacks one of its values must not be written. `json_object_of`, `json_set`
// and `json_append` take ownership of the values, also when they fail.
json *json_new_object(void);
json *json_new_array(void);
json *json_new_text(const char *text);
json *json_new_path(const char *path); // null if it is not UTF-8
json *json_new_integer(int64_t value);
json *json_new_real(double value); // null if it is not finite
json *json_new_boolean(int value);
json *json_new_null(void);
json *json_copy_deep(const json *value);
BERTH_MUST_BE_READ int json_set(json *object, const char *key, json *value); // 0 on success
BERTH_MUST_BE_READ int json_append(json *array, json *value);

// JSON_OBJECT({"key", value}, ...): a new object; a member whose key is NULL is left out.
struct json_pair {
    const char *key;
    json *value;
};
json *json_object_of(const struct json_pair *pairs, size_t count);
#define JSON_OBJECT(...)                                                                           \
    json_object_of((const struct json_pair[]){__VA_ARGS__},                                        \
                   sizeof((const struct json_pair[]){__VA_ARGS__}) / sizeof(struct json_pair))

// Returns `value`; if a call that filled it has failed, frees it and returns NULL.
json *json_unless_failed(json *value, int failed);

enum json_style {
    JSON_COMPACT, // one line
    JSON_COMPACT_SORTED,
    JSON_INDENT_2_SORTED, // Hugging Face config files
    JSON_INDENT_4_ASCII   // predictions.json: indent 4, \uXXXX escapes, insertion order
};
// Newly allocated text (memory_free) without a final newline; NULL when out of memory.
char *json_write(const json *value, enum json_style style);
// Writes the text and a newline to a file, atomically.
enum berth_status json_write_file(const json *value, enum json_style style, const char *path,
                                  struct berth_error *error);

// Writes an object of any size member by member, with one of them in memory at a time: the same
// bytes as json_write_file writes. The style keeps the order of the members; keys are in UTF-8.
struct json_members {
    struct file_writer *writer; // open; the caller commits it
    enum json_style style;
    size_t count; // so far
};
// Takes ownership of the value; NULL means "out of memory", as above.
enum berth_status json_members_put(struct json_members *members, const char *key, json *value,
                                   struct berth_error *error);
// Ends the object and the line; also without members.
enum berth_status json_members_end(struct json_members *members, struct berth_error *error);

#endif
