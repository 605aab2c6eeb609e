// SPDX-License-Identifier: Apache-2.0
// Tests the texts of notes, warnings and errors: numbers do not depend on the program's locale, and
// a quotation ends with a whole character.
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_ignore_the_locale),
        cmocka_unit_test(quotations_end_with_a_whole_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
