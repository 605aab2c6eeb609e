// SPDX-License-Identifier: Apache-2.0
// The texts of notes, warnings and errors, and what is printed to a buffer: numbers do not depend
// on the program's locale, and quotations and messages that are cut end with a whole character.
#include "core/buffer.h"
#include "core/error.h"
#include "core/foreign_locale.h"
#include "core/log.h"
#include "core/utf8.h"

#include <string.h>

static void keep_text(void *context, const struct berth_record *record) {
    snprintf(context, 64, "%s", record->text);
}

static void numbers_ignore_the_locale(void **state) {
    char note[64], warning[64];
    const struct berth_log notes = {keep_text, note}, warnings = {keep_text, warning};
    struct berth_error error;
    foreign_locale_set();
    log_note(&notes, "in %.2f s", 0.5);
    log_warning(&warnings, "in %.2f s", 1.5);
    assert_int_equal(error_set(&error, BERTH_FAILURE, "in %.2f s", 2.5), BERTH_FAILURE);
    assert_int_equal(error_prefix(&error, BERTH_FAILURE, "%g", 3.5), BERTH_FAILURE);
    setlocale(LC_ALL, "C");
    assert_string_equal(note, "in 0.50 s");
    assert_string_equal(warning, "in 1.50 s");
    assert_string_equal(error.message, "3.5: in 2.50 s");
}

static void quotations_end_with_a_whole_character(void **state) {
    struct berth_error error;
    const char text[] = "ab\u20acd"; // the third character has three bytes
    static const char *const cuts[] = {"",   "a",        "ab",        "ab",
                                       "ab", "ab\u20ac", "ab\u20acd", "ab\u20acd"};
    for (size_t limit = 0; limit < sizeof cuts / sizeof *cuts; limit++) {
        (void)error_set(&error, BERTH_USAGE, "%.*s", UTF8_SHOWN(text, limit));
        assert_string_equal(error.message, cuts[limit]);
    }
}

#define MESSAGE_SIZE sizeof(((struct berth_error *)0)->message) // and that of a note

static void check_long(const char *message) {
    const size_t length = strlen(message);
    assert_in_range(length, MESSAGE_SIZE - 3, MESSAGE_SIZE - 1);
    assert_null(strstr(message, "\\x"));
    for (size_t at = 0; at < length;) {
        uint32_t point;
        at += utf8_decode(message + at, length - at, &point);
        assert_int_not_equal(point, UTF8_ILL_FORMED);
    }
}

static void check_record(void *context, const struct berth_record *record) {
    check_long(record->text);
}

// Wherever its last character begins, a long message is whole characters, and nearly full.
static void long_messages_end_with_a_whole_character(void **state) {
    const struct berth_log notes = {check_record, NULL};
    char text[2048], name[1100];
    memset(name, 'n', sizeof name);
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'a', shift);
        for (size_t i = shift; i + 3 < sizeof text; i += 3) {
            memcpy(text + i, "\u20ac", 4);
        }
        log_note(&notes, "%s", text);
        static const int prefixes[] = {0, 8, sizeof name}; // their lengths
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
            struct berth_error error;
            (void)error_set(&error, BERTH_USAGE, "%s", text);
            if (prefixes[i] > 0) {
                (void)error_prefix(&error, BERTH_USAGE, "%.*s", prefixes[i], name);
            }
            check_long(error.message);
        }
    }
}

static void a_buffer_gets_texts_of_any_length(void **state) {
    struct buffer buffer = {0};
    char expected[5000];
    foreign_locale_set();
    buffer_print(&buffer, "%g;", 0.5);
    buffer_print(&buffer, "%s", "");
    buffer_print(&buffer, "%04000d", 7);
    setlocale(LC_ALL, "C");
    const int length = snprintf(expected, sizeof expected, "0.5;%04000d", 7);
    assert_false(buffer.failed);
    assert_int_equal(buffer.length, length);
    assert_memory_equal(buffer.bytes, expected, (size_t)length);
    buffer_done(&buffer);
}

static void a_buffer_without_memory_has_failed(void **state) {
    struct buffer buffer = {0};
    memory_fail_at(1, 0);
    buffer_print(&buffer, "%d", 1);
    memory_fail_at(0, 0);
    buffer_print(&buffer, "%d", 2);
    assert_true(buffer.failed);
    assert_int_equal(buffer.length, 0);
    buffer_done(&buffer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_ignore_the_locale),
        cmocka_unit_test(quotations_end_with_a_whole_character),
        cmocka_unit_test(long_messages_end_with_a_whole_character),
        cmocka_unit_test(a_buffer_gets_texts_of_any_length),
        cmocka_unit_test(a_buffer_without_memory_has_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
