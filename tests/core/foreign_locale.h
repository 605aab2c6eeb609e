// SPDX-License-Identifier: Apache-2.0
// A locale for the tests (tests/core/locale), built with them: decimal comma, digit grouping,
// Turkish letters. It needs no locale of the machine.
#ifndef BERTH_TESTS_CORE_FOREIGN_LOCALE_H
#define BERTH_TESTS_CORE_FOREIGN_LOCALE_H

#include "core/harness.h"

#include <ctype.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#define FOREIGN_LOCALE "test_TR.UTF-8"

// Makes setlocale find it, here and in child processes; skips the test if there was no localedef.
static inline void foreign_locale_find(void) {
#ifdef BERTH_TEST_LOCALES
    assert_int_equal(setenv("LOCPATH", BERTH_TEST_LOCALES, 1), 0);
#else
    print_message("no localedef: the test needs one to make its locale\n");
    skip();
#endif
}

// setlocale(LC_ALL, "C") undoes it.
static inline void foreign_locale_set(void) {
    char text[16];
    foreign_locale_find();
    assert_non_null(setlocale(LC_ALL, FOREIGN_LOCALE));
    snprintf(text, sizeof text, "%.1f", 0.5);
    assert_string_equal(text, "0,5");
    assert_int_not_equal(tolower('I'), 'i');
}

#endif
