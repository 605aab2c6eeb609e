// SPDX-License-Identifier: Apache-2.0
// JSON: refused input with its position, types in errors, and written text.
#include "core/foreign_locale.h"
#include "core/json_memory.h"
#include "core/scratch.h"
#include "format/json/json.h"

#include <math.h>

static json *parse(const char *text) {
    json *value;
    struct berth_error error;
    if (json_read_memory("text", text, strlen(text), &value, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return value;
}

// --- reading ------------------------------------------------------------------------------------

static void test_errors_have_line_and_column(void **state) {
    (void)state;
    static const struct {
        const char *text, *position;
    } cases[] = {
        {"",
         "f.json: line 1, column 1 (byte 0): not valid JSON: expected a JSON value, found the end"},
        {"{", "line 1, column 2"},
        {"{\"a\": 1,}", "line 1, column 9"},
        {"{\n  \"a\": 1,\n  \"b\": nope\n}", "line 3, column 8 (byte 19) in b: not valid JSON"},
        {"{\"d\": [{\"p\": [1, {}, {\"q\": \"\\x\"}]}]}", "column 30 (byte 29) in d[0].p[2].q: "},
        {"[[], [0, 1 2]]",
         "column 12 (byte 11) in [1][1]: not valid JSON: expected ',' or ']', found '2'"},
        {"{\"\xC3\xA9\\n\": \"\xC3\xA9\",\n\"\xC3\xA9\": x",
         "line 2, column 6 (byte 21) in \xC3\xA9: "},
        {"{\"a\": 1} x", "line 1, column 10"},
        {"[1, NaN]", "line 1, column 5"},
        {"[1, Infinity]", "line 1"},
        {"[01]", "line 1, column 2"},
        {"{\"a\": 1, \"a\": 2}", "in a: not valid JSON: duplicate key"},
        {"{\"b\": {\"a\": 1, \"\\u0061\": 2}}", "in b.a: not valid JSON: duplicate key"},
        {"{\"a\\u0000b\": 1}", "\\u0000"},
        {"\"\xff\"", "line 1, column 2"},
        {"[\"abc\n\"]", "line 1, column 6"},
        {"{'a': 1}", "line 1, column 2"},
        {"[1e999]", "column 7 (byte 6) in [0]: not valid JSON: a number beyond the range"},
        {"[99999999999999999999, 99999999999999999999 x", "line 1, column 45 (byte 44) in [1]"},
        {"// comment\n1", "line 1, column 1"},
        {"\xef\xbb\xbf{", "line 1"},
        {"\xef\xbb\xbf\xef\xbb\xbf{}", "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct berth_error error;
        json *value;
        assert_int_equal(
            json_read_memory("f.json", cases[i].text, strlen(cases[i].text), &value, &error),
            BERTH_BAD_DATA);
        assert_null(value);
        assert_message_has(&error, cases[i].position);
    }
}

// {"a": "x (e acute) (grinning face)"} in every supported encoding, with and without a byte order
// mark; and invalid encodings.
static void test_encodings(void **state) {
    (void)state;
#define OF(bytes)                                                                                  \
    { bytes, sizeof bytes - 1 }
    static const struct {
        const char *bytes;
        size_t length;
    } good[] =
        {
            OF("{\"a\":\"x\xC3\xA9\xF0\x9F\x98\x80\"}"),
            OF("\xEF\xBB\xBF{\"a\":\"x\xC3\xA9\xF0\x9F\x98\x80\"}"),
            OF("{\0\"\0a\0\"\0:\0\"\0x\0\xE9\0\x3D\xD8\x00\xDE\"\0}\0"),
            OF("\xFF\xFE{\0\"\0a\0\"\0:\0\"\0x\0\xE9\0\x3D\xD8\x00\xDE\"\0}\0"),
            OF("\0{\0\"\0a\0\"\0:\0\"\0x\0\xE9\xD8\x3D\xDE\x00\0\"\0}"),
            OF("\xFE\xFF\0{\0\"\0a\0\"\0:\0\"\0x\0\xE9\xD8\x3D\xDE\x00\0\"\0}"),
        },
      bad[] = {
          OF("\xFF\xFE{\0\"\0a\0\"\0:\0\"\0\x3D\xD8\"\0}\0"), // half a pair
          OF("\xFF\xFE{\0\"\0a\0\"\0:\0\"\0\x00\xDE\"\0}\0"), // the other half
          OF("\xFF\xFE{\0}\0 "),                              // half a character
          OF("\xFF\xFE{\0}\0\0\0"),                           // U+0000
          OF("\xFF\xFE\0\0{\0\0\0}\0\0\0"),
          OF("{\0\0\0}\0\0\0"),
          OF("\x1F\x8B\x08\0{}"),
      };
#undef OF
    struct berth_error error;
    json *value;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(json_read_memory("f", good[i].bytes, good[i].length, &value, &error),
                         BERTH_OK);
        assert_string_equal(json_text(json_member(value, "a")), "x\xC3\xA9\xF0\x9F\x98\x80");
        json_free(value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(json_read_memory("f", bad[i].bytes, bad[i].length, &value, &error),
                         BERTH_BAD_DATA);
        assert_message_has(&error, i < 4   ? "f: line 1"
                                   : i < 6 ? "UTF-32"
                                           : "f: compressed with gzip");
    }
}

// Refused by its size, before a byte is read: the file takes no space on disk.
static void test_files_beyond_the_limit(void **state) {
    (void)state;
    struct berth_error error;
    json *value;
    scratch_write("large.json", "{}");
    assert_int_equal(truncate(scratch("large.json"), (off_t)5 << 30), 0);
    assert_int_equal(json_read_file(scratch("large.json"), &value, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "large.json: 5368709120 bytes, the limit is 536870912");
}

static void test_nul_bytes(void **state) {
    (void)state;
    static const char text[] = "{\"a\": 1,\n \"b\": 0.1\0, \"c\": 2}";
    json *value;
    struct berth_error error;
    assert_int_equal(json_read_memory("f.json", text, sizeof text - 1, &value, &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "f.json: line 2, column 10 (byte 18)");
}

static void test_file_errors_name_the_file(void **state) {
    (void)state;
    json *value;
    struct berth_error error;
    assert_int_equal(json_read_file(scratch("none.json"), &value, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "none.json");
    scratch_write("bad.json", "{\n\"a\" 1}");
    assert_int_equal(json_read_file(scratch("bad.json"), &value, &error), BERTH_BAD_DATA);
    assert_message_has(&error, scratch("bad.json"));
    assert_message_has(&error, "line 2, column 5");
}

static void test_every_prefix_is_refused(void **state) {
    (void)state;
    static const char text[] =
        "{\"a\": [1, -2.5e3, true, null, \"caf\xC3\xA9 \\u00e9\"], \"b\": {}}";
    json_free(parse(text));
    for (size_t length = 0; length + 1 < sizeof text; length++) {
        // A copy, so that the sanitizer detects a read past the end.
        char *copy = memory_string_of(text, length);
        json *value;
        struct berth_error error;
        assert_int_equal(json_read_memory("f.json", copy, length, &value, &error), BERTH_BAD_DATA);
        assert_null(value);
        assert_message_has(&error, "f.json: line 1, column ");
        memory_free(copy);
    }
}

static void test_depth_is_bounded(void **state) {
    (void)state;
    enum { DEPTH = 100000 };
    char *text = memory_new(2 * DEPTH + 1);
    json *value;
    struct berth_error error;
    memset(text, '[', DEPTH);
    memset(text + DEPTH, ']', DEPTH);
    assert_int_equal(json_read_memory("deep", text, 2 * DEPTH, &value, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "512");
    assert_int_equal(json_read_memory("fits", text + DEPTH - 512, 1024, &value, &error), BERTH_OK);
    char *written = json_write(value, JSON_COMPACT);
    assert_memory_equal(written, text + DEPTH - 512, 1024);
    memory_free(written);
    json_free(value);
    memset(text, '[', DEPTH); // brackets inside a string do not count
    text[0] = '"';
    text[DEPTH - 1] = '"';
    assert_int_equal(json_read_memory("text", text, DEPTH, &value, NULL), BERTH_OK);
    json_free(value);
    memory_free(text);
}

static void test_lower_limits(void **state) {
    (void)state;
    static const struct {
        int depth;
        size_t values;
        const char *says; // NULL: within the limits
    } cases[] = {{2, 4, NULL},
                 {1, 4, "byte 5) in a: not valid JSON: nested deeper than 1 levels"},
                 {2, 3, "byte 8) in a[1]: not valid JSON: more than 3 values"}};
    static const char text[] = "{\"a\":[1,2]}";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct berth_error error;
        json *value;
        const enum berth_status status = json_read_limited(
            "f.json", text, sizeof text - 1, cases[i].depth, cases[i].values, &value, &error);
        assert_int_equal(status, cases[i].says == NULL ? BERTH_OK : BERTH_BAD_DATA);
        if (cases[i].says != NULL) {
            assert_message_has(&error, cases[i].says);
            assert_null(value);
        }
        json_free(value);
    }
}

static void test_words_of_python(void **state) {
    (void)state;
    json *value;
    scratch_write("p.json", "[NaN, -Infinity, {\"NaN\": Infinity}, \"NaN\", -1]");
    assert_int_equal(json_read_python_file(scratch("p.json"), &value, NULL), BERTH_OK);
    assert_true(json_is_null_value(json_at(value, 0)) && json_is_null_value(json_at(value, 1)));
    assert_true(json_is_null_value(json_member(json_at(value, 2), "NaN")));
    assert_string_equal(json_text(json_at(value, 3)), "NaN");
    assert_int_equal(json_as_integer(json_at(value, 4)), -1);
    json_free(value);
}

static void test_children_and_types(void **state) {
    (void)state;
    json *value = parse("{\"b\": [1, 2.5, \"x\\u0000y\", null, true], \"a\": {}, \"n\": 3.0,"
                        " \"huge\": 1000000000000000019884624838656}");
    const json *list = json_member(value, "b");
    assert_true(json_is_object_value(value) && json_is_array_value(list));
    assert_int_equal(json_length(value), 4);
    assert_int_equal(json_length(list), 5);
    assert_int_equal(json_as_integer(json_at(list, 0)), 1);
    assert_true(json_as_real(json_at(list, 1)) == 2.5);
    assert_false(json_is_integer_value(json_at(list, 1)));
    assert_int_equal(json_as_integer(json_at(list, 1)), 0);
    assert_int_equal(json_text_length(json_at(list, 2)), 3);
    assert_memory_equal(json_text(json_at(list, 2)), "x\0y", 4);
    assert_true(json_is_null_value(json_at(list, 3)) && json_truth(json_at(list, 4)));
    assert_true(json_is_boolean(json_at(list, 4)) && json_is_text(json_at(list, 2)));
    assert_null(json_at(list, 5));
    assert_null(json_member(value, "none"));
    assert_null(json_member(NULL, "none"));
    assert_null(json_member(list, "none"));
    assert_true(json_is_integer_value(json_member(value, "n")));
    assert_int_equal(json_as_integer(json_member(value, "n")), 3);
    assert_false(json_is_integer_value(json_member(value, "huge")));
    assert_true(json_as_real(json_member(value, "huge")) == 1000000000000000019884624838656.0);
    json_free(value);
    json_free(NULL);
}

// Only those integers become reals that do not fit.
static void test_integers_beyond_64_bits(void **state) {
    (void)state;
    json *value = parse("[1, 9223372036854775807, -9223372036854775808, 9223372036854775808, "
                        "-9223372036854775809, 17293822569102704640, 1e3, "
                        "\"\\\"99999999999999999999\", 99999999999999999999]");
    char *written = json_write(value, JSON_COMPACT);
    assert_string_equal(written,
                        "[1, 9223372036854775807, -9223372036854775808, 9.223372036854776e+18, "
                        "-9.223372036854776e+18, 1.7293822569102705e+19, 1000.0, "
                        "\"\\\"99999999999999999999\", 1e+20]");
    memory_free(written);
    json_free(value);
    value = parse("99999999999999999999");
    assert_true(json_as_real(value) == 1e20);
    json_free(value);
}

static void test_entries_come_in_file_order(void **state) {
    (void)state;
    json *value = parse("{\"z\": 1, \"a\": 2, \"m\": 3}");
    static const char *const keys[] = {"z", "a", "m"};
    size_t count = 0;
    struct json_walk walk = {.object = value};
    for (; json_walk_next(&walk); count++) {
        assert_string_equal(walk.key, keys[count]);
        assert_int_equal(json_as_integer(walk.value), (int64_t)count + 1);
    }
    assert_int_equal(count, 3);
    assert_false(json_walk_next(&walk));
    json_remove(value, "a");
    json_remove(value, "none");
    assert_int_equal(json_length(value), 2);
    json_free(value);
}

static void test_nulls_are_removed_from_objects(void **state) {
    (void)state;
    json *value =
        parse("{\"a\": null, \"b\": [null, {\"c\": null, \"d\": {\"e\": null}}], \"f\": 0,"
              " \"g\": null, \"h\": null}");
    json_remove_nulls(value);
    char *text = json_write(value, JSON_COMPACT);
    assert_string_equal(text, "{\"b\": [null, {\"d\": {}}], \"f\": 0}");
    memory_free(text);
    json_free(value);
}

static void test_typed_members(void **state) {
    (void)state;
    json *value = parse("{\"i\": 5, \"r\": 0.5, \"t\": \"x\", \"b\": true, \"n\": null, \"l\": [],"
                        " \"o\": {}}");
    int64_t integer = 7;
    double real = 7;
    int truth = 7;
    const char *text = "seven";
    struct berth_error error;
    assert_int_equal(json_get_integer(value, "f", "none", &integer, NULL), BERTH_OK);
    assert_int_equal(integer, 7);
    assert_int_equal(json_get_integer(value, "f", "i", &integer, NULL), BERTH_OK);
    assert_int_equal(integer, 5);
    assert_int_equal(json_get_real(value, "f", "i", &real, NULL), BERTH_OK);
    assert_true(real == 5);
    assert_int_equal(json_get_real(value, "f", "r", &real, NULL), BERTH_OK);
    assert_int_equal(json_get_boolean(value, "f", "b", &truth, NULL), BERTH_OK);
    assert_int_equal(truth, 1);
    assert_int_equal(json_get_text(value, "f", "t", &text, NULL), BERTH_OK);
    assert_string_equal(text, "x");
    assert_int_equal(json_get_integer(value, "f.json", "t", &integer, &error), BERTH_CONFIG);
    assert_string_equal(error.message, "f.json: key \"t\": expected an integer, found a string");
    assert_int_equal(json_get_integer(value, "f", "r", &integer, &error), BERTH_CONFIG);
    assert_message_has(&error, "found a real number");
    assert_int_equal(json_get_real(value, "f", "b", &real, &error), BERTH_CONFIG);
    assert_message_has(&error, "expected a number, found true or false");
    assert_int_equal(json_get_boolean(value, "f", "n", &truth, &error), BERTH_CONFIG);
    assert_message_has(&error, "found null");
    assert_int_equal(json_get_text(value, "f", "l", &text, &error), BERTH_CONFIG);
    assert_message_has(&error, "found an array");
    assert_int_equal(json_get_text(value, "f", "o", &text, &error), BERTH_CONFIG);
    assert_message_has(&error, "found an object");
    json_free(value);
}

// --- writing ------------------------------------------------------------------------------------

static void assert_written(const char *text, enum json_style style, const char *expected) {
    json *value = parse(text);
    char *written = json_write(value, style);
    assert_string_equal(written, expected);
    memory_free(written);
    json_free(value);
}

// The texts are Python's: json.dumps(value), with indent=2, sort_keys, ensure_ascii=False, and
// with indent=4.
static void test_styles(void **state) {
    (void)state;
    const char *text = "{\"b\": [1, {\"x\": null}], \"a\": [], \"\\u00e9\": \"\\ud83d\\ude00\\n\","
                       " \"e\": {}}";
    assert_written(text, JSON_COMPACT,
                   "{\"b\": [1, {\"x\": null}], \"a\": [], \"\u00e9\": \"\U0001F600\\n\", "
                   "\"e\": {}}");
    assert_written(text, JSON_INDENT_2_SORTED,
                   "{\n  \"a\": [],\n  \"b\": [\n    1,\n    {\n      \"x\": null\n    }\n  ],\n"
                   "  \"e\": {},\n  \"\u00e9\": \"\U0001F600\\n\"\n}");
    assert_written(text, JSON_INDENT_4_ASCII,
                   "{\n    \"b\": [\n        1,\n        {\n            \"x\": null\n        }\n"
                   "    ],\n    \"a\": [],\n    \"\\u00e9\": \"\\ud83d\\ude00\\n\",\n"
                   "    \"e\": {}\n}");
    assert_written("\"\\u0001\\u001f\\u007f\\\"\\\\\\/\\b\\f\\t\\r\"", JSON_INDENT_4_ASCII,
                   "\"\\u0001\\u001f\\u007f\\\"\\\\/\\b\\f\\t\\r\"");
}

static void test_reals_are_pythons(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0.1, "0.1"},
        {3, "3.0"},
        {-0.0, "-0.0"},
        {100, "100.0"},
        {1e-5, "1e-05"},
        {0.0001, "0.0001"},
        {1.25e-5, "1.25e-05"},
        {1e15, "1000000000000000.0"},
        {1e16, "1e+16"},
        {1.5e300, "1.5e+300"},
        {12345678901234567890.0, "1.2345678901234567e+19"},
        {0.30000000000000004, "0.30000000000000004"},
        {1.0 / 3, "0.3333333333333333"},
        {-123456.789, "-123456.789"},
        {9007199254740993.0, "9007199254740992.0"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {0.9999999999999999, "0.9999999999999999"},
        {10.5, "10.5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json *value = json_new_real(cases[i].value);
        char *written = json_write(value, JSON_COMPACT);
        assert_string_equal(written, cases[i].text);
        memory_free(written);
        json_free(value);
    }
    json *value = json_new_real(NAN);
    assert_true(json_is_null_value(value));
    json_free(value);
}

static void test_built_values(void **state) {
    (void)state;
    json *object = json_new_object(), *list = json_new_array();
    assert_int_equal(json_append(list, json_new_integer(INT64_MIN)), 0);
    assert_int_equal(json_append(list, json_new_boolean(0)), 0);
    assert_int_equal(json_set(object, "list", list), 0);
    assert_int_equal(json_set(object, "text", json_new_text("a")), 0);
    json *copy = json_copy_deep(object);
    assert_int_equal(json_set(object, "text", json_new_text("b")), 0);
    assert_int_equal(json_write_file(copy, JSON_COMPACT, scratch("a.json"), NULL), BERTH_OK);
    assert_file_holds(scratch("a.json"),
                      "{\"list\": [-9223372036854775808, false], \"text\": \"a\"}\n");
    json_free(copy);
    json_free(object);
}

// Written member by member, an object of any number of members has the bytes of the whole one.
static void test_members_one_by_one(void **state) {
    static const char *const texts[] = {"{}", "{\"a\": 1.5}",
                                        "{\"b\": [1, {\"c\": \"\\u00e9\"}], \"\\n\": {}}"};
    static const enum json_style styles[] = {JSON_COMPACT, JSON_INDENT_4_ASCII};
    for (size_t i = 0; i < 2 * (sizeof texts / sizeof *texts); i++) {
        struct file_writer writer;
        struct json_members members = {.writer = &writer, .style = styles[i % 2]};
        json *whole = parse(texts[i / 2]);
        assert_int_equal(json_write_file(whole, members.style, scratch("whole"), NULL), BERTH_OK);
        assert_int_equal(file_writer_open(&writer, scratch("members"), NULL), BERTH_OK);
        struct json_walk walk = {.object = whole};
        while (json_walk_next(&walk)) {
            assert_int_equal(json_members_put(&members, walk.key, json_copy_deep(walk.value), NULL),
                             BERTH_OK);
        }
        assert_int_equal(json_members_put(&members, "missing", NULL, NULL), BERTH_NO_MEMORY);
        assert_int_equal(json_members_end(&members, NULL), BERTH_OK);
        assert_int_equal(file_writer_commit(&writer, NULL), BERTH_OK);
        assert_same_file(scratch("whole"), scratch("members"));
        json_free(whole);
    }
}

static void test_missing_memory_passes_through(void **state) {
    (void)state;
    assert_int_not_equal(json_set(NULL, "a", json_new_integer(1)), 0);
    assert_int_not_equal(json_append(NULL, json_new_integer(1)), 0);
    assert_null(json_write(NULL, JSON_COMPACT));
    assert_null(json_copy_deep(NULL));
    json *value = parse("{\"a\": [1, \"a text that is longer than the first piece of output\"]}");
    for (uint64_t call = 1;; call++) {
        memory_fail_at(call, 0);
        char *text = json_write(value, JSON_INDENT_2_SORTED);
        memory_fail_at(0, 0);
        memory_free(text);
        if (text != NULL) {
            assert_in_range(call, 2, 10);
            break;
        }
    }
    json_free(value);
}

static void test_text_without_memory_is_no_other_text(void **state) {
    (void)state;
    json *value;
    struct berth_error error;
    memory_fail_at(1, 0);
    const enum berth_status status = json_read_memory("a.json", "{\"a\": 1}", 8, &value, &error);
    memory_fail_at(0, 0);
    assert_int_equal(status, BERTH_NO_MEMORY);
    assert_non_null(strstr(error.message, "a.json"));
}

static enum berth_status read_values(void) {
    static const char text[] =
        "{\"a\": [1, 2.5, null, true], \"b\": {\"c\": \"text\"}, \"d\": \"\\u00e9\"}";
    json *value = NULL;
    const enum berth_status status =
        json_read_memory("a.json", text, sizeof text - 1, &value, NULL);
    json_free(value);
    assert_int_not_equal(status, BERTH_BAD_DATA);
    return status;
}

// Where jansson has no memory, the text is not called invalid.
static void test_missing_memory_is_no_wrong_text(void **state) {
    assert_int_equal(read_values(), BERTH_OK);
    assert_true(json_memory_fail_each(read_values) > 10);
}

static enum berth_status build_and_copy(void) {
    json *inner = JSON_OBJECT({"one", json_new_integer(1)}, {NULL, json_new_text("left out")});
    json *built = JSON_OBJECT({"inner", inner}, {"text", json_new_path("a/b")},
                              {"bytes", json_new_path("\xFF/b")});
    json *copy = json_copy_deep(built);
    char *text = json_write(copy, JSON_COMPACT);
    if (text != NULL) {
        assert_string_equal(text, "{\"inner\": {\"one\": 1}, \"text\": \"a/b\", \"bytes\": null}");
    }
    json_free(built);
    json_free(copy);
    const enum berth_status status = text != NULL ? BERTH_OK : BERTH_NO_MEMORY;
    memory_free(text);
    return status;
}

// Where jansson has no memory, nothing is left out.
static void test_values_are_whole_or_missing(void **state) {
    assert_int_equal(build_and_copy(), BERTH_OK);
    assert_true(json_memory_fail_each(build_and_copy) > 15);
}

// A user of the library may have set a locale with a decimal comma.
static void test_locale_does_not_matter(void **state) {
    (void)state;
    foreign_locale_set();
    assert_written("{\"b\": [1, 2], \"a\": {}}", JSON_COMPACT_SORTED, "{\"a\": {}, \"b\": [1, 2]}");
    assert_written("[0.5, 1.25e-7]", JSON_COMPACT, "[0.5, 1.25e-07]");
    json *value = parse("[2.5]");
    assert_true(json_as_real(json_at(value, 0)) == 2.5);
    json_free(value);
    setlocale(LC_ALL, "C");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_errors_have_line_and_column),
        SCRATCH_TEST(test_nul_bytes),
        cmocka_unit_test(test_encodings),
        SCRATCH_TEST(test_files_beyond_the_limit),
        SCRATCH_TEST(test_file_errors_name_the_file),
        SCRATCH_TEST(test_every_prefix_is_refused),
        SCRATCH_TEST(test_depth_is_bounded),
        SCRATCH_TEST(test_lower_limits),
        SCRATCH_TEST(test_words_of_python),
        SCRATCH_TEST(test_children_and_types),
        SCRATCH_TEST(test_entries_come_in_file_order),
        SCRATCH_TEST(test_integers_beyond_64_bits),
        SCRATCH_TEST(test_nulls_are_removed_from_objects),
        SCRATCH_TEST(test_typed_members),
        SCRATCH_TEST(test_styles),
        SCRATCH_TEST(test_reals_are_pythons),
        SCRATCH_TEST(test_built_values),
        SCRATCH_TEST(test_members_one_by_one),
        SCRATCH_TEST(test_missing_memory_passes_through),
        cmocka_unit_test(test_text_without_memory_is_no_other_text),
        SCRATCH_TEST(test_missing_memory_is_no_wrong_text),
        SCRATCH_TEST(test_values_are_whole_or_missing),
        SCRATCH_TEST(test_locale_does_not_matter),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
