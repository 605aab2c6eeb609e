// SPDX-License-Identifier: Apache-2.0
// Numbers in the "C" locale, through POSIX's per-thread locales. glibc and musl return one shared
// object for newlocale("C"), so calling it each time allocates nothing and leaves no global state.
#include "core/number.h"

#include "core/caseless.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_digit(char c) {
    return c >= '0' && c <= '9';
}

static const char *skip_sign(const char *text) {
    return *text == '-' || *text == '+' ? text + 1 : text;
}

int number_parse_integer(const char *text, int64_t *value) {
    if (!is_digit(*skip_sign(text))) {
        return 0;
    }
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0') {
        return 0;
    }
    *value = parsed;
    return 1;
}

int number_is_whole(const char *text) {
    const char *first = skip_sign(text);
    return *first != '\0' && first[strspn(first, "0123456789")] == '\0';
}

static const char *skip_zeros(const char *digits) {
    return digits + strspn(digits, "0");
}

int number_compare_whole(const char *a, const char *b) {
    const char *x = skip_zeros(skip_sign(a)), *y = skip_zeros(skip_sign(b));
    const int below_x = *a == '-' && *x != '\0', below_y = *b == '-' && *y != '\0';
    if (below_x != below_y) {
        return below_y - below_x;
    }
    const size_t long_x = strlen(x), long_y = strlen(y);
    const int order = long_x != long_y ? (long_x > long_y) - (long_x < long_y) : strcmp(x, y);
    return below_x ? -order : order;
}

int number_parse_digits(const char *text, size_t length, int64_t *value) {
    enum { MOST = 18 }; // of which every number fits
    int64_t parsed = 0;
    size_t i = 0;
    for (; i < length && i < MOST && is_digit(text[i]); i++) {
        parsed = parsed * 10 + (text[i] - '0');
    }
    if (i < length || length == 0) {
        return 0;
    }
    *value = parsed;
    return 1;
}

int number_parse_real(const char *text, double *value) {
    // strtod would also accept blanks, hexadecimal, infinities and NaN.
    const char *first = skip_sign(text);
    if (!is_digit(*first) && !(*first == '.' && is_digit(first[1]))) {
        return 0;
    }
    if (strspn(first, "0123456789.eE+-") != strlen(first)) {
        return 0;
    }
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t old = uselocale(plain);
    char *end;
    double parsed = strtod(text, &end);
    uselocale(old);
    freelocale(plain);
    if (*end != '\0' || !isfinite(parsed)) {
        return 0;
    }
    *value = parsed;
    return 1;
}

int number_parse_boolean(const char *text, int *value) {
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (caseless_equal(text, words[i])) {
            *value = (int)(i % 2);
            return 1;
        }
    }
    return 0;
}

int number_format_list(char *text, size_t size, const char *format, va_list arguments) {
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t old = uselocale(plain);
    int length = vsnprintf(text, size, format, arguments);
    uselocale(old);
    freelocale(plain);
    return length;
}

int number_format(char *text, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = number_format_list(text, size, format, arguments);
    va_end(arguments);
    return length;
}

// The number of significant digits needed to read the same double back.
static int shortest_digits(double value) {
    for (int digits = 1; digits < 17; digits++) {
        double back;
        char trial[NUMBER_TEXT_SIZE];
        number_format(trial, sizeof trial, "%.*g", digits, value);
        if (number_parse_real(trial, &back) && back == value) {
            return digits;
        }
    }
    return 17;
}

// Omits the exponent where Python's repr does: from 1e-4 to below 1e16.
void number_print_real(char *text, size_t size, double value) {
    char scientific[NUMBER_TEXT_SIZE];
    int digits = isfinite(value) ? shortest_digits(value) : 6;
    int64_t exponent = 0;
    number_format(scientific, sizeof scientific, "%.*e", digits - 1, value);
    const char *mark = strchr(scientific, 'e');
    if (isfinite(value) && mark != NULL && number_parse_integer(mark + 1, &exponent) &&
        exponent >= -4 && exponent < 16) {
        int decimals = digits - 1 - (int)exponent;
        number_format(text, size, "%.*f", decimals > 0 ? decimals : 0, value);
    } else {
        number_format(text, size, "%.*g", digits, value);
    }
}

void number_print_python(char *text, size_t size, double value) {
    number_print_real(text, size, value);
    size_t length = strlen(text);
    if (strspn(text, "-0123456789") == length && length + 3 <= size) {
        memcpy(text + length, ".0", 3);
    }
}
