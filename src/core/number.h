// SPDX-License-Identifier: Apache-2.0
// Converts numbers to text and back in the "C" locale, whatever the caller has set: strtod and
// printf depend on LC_NUMERIC, these functions do not.
#ifndef BERTH_CORE_NUMBER_H
#define BERTH_CORE_NUMBER_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

// Enough for every text that number_print_real and number_print_python write.
#define NUMBER_TEXT_SIZE 32

// The whole text must be one decimal number: no blanks, no hexadecimal, no "inf" or "nan", in
// range. 1 on success; else 0, and *value is unchanged.
int number_parse_integer(const char *text, int64_t *value);
int number_parse_real(const char *text, double *value);

// Whether the text is a sign, if any, and digits: a whole number of any size, and how two of them
// compare, as for qsort.
int number_is_whole(const char *text);
int number_compare_whole(const char *a, const char *b);

// number_parse_integer for 1 to 18 bytes that must all be digits.
int number_parse_digits(const char *text, size_t length, int64_t *value);

// Accepts "true", "yes", "on", "1" and "false", "no", "off", "0" in any case. 1 on success.
int number_parse_boolean(const char *text, int *value);

// The shortest decimal that reads back as the same double ("3e-05", "0.1", "50"); "nan", "inf",
// "-inf".
void number_print_real(char *text, size_t size, double value);

// The same as Python's repr prints it: a whole number gets a fraction ("50.0").
void number_print_python(char *text, size_t size, double value);

// The plural suffix of a noun after a number in a message: "" for 1, else "s".
static inline const char *number_plural(int64_t number) {
    return number == 1 ? "" : "s";
}

// 0 of nothing.
static inline double number_percent(int64_t part, int64_t whole) {
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

// snprintf and vsnprintf in the "C" locale.
int number_format(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int number_format_list(char *text, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

#endif
