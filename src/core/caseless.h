// SPDX-License-Identifier: Apache-2.0
// Compares names ignoring the case of ASCII letters, whatever the locale: in a Turkish locale
// tolower and strcasecmp do not map I to i.
#ifndef BERTH_CORE_CASELESS_H
#define BERTH_CORE_CASELESS_H

#include <stddef.h>

static inline char caseless_lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

// Compares as strcmp does.
static inline int caseless_compare(const char *a, const char *b) {
    while (*a != '\0' && caseless_lower(*a) == caseless_lower(*b)) {
        a++;
        b++;
    }
    return (unsigned char)caseless_lower(*a) - (unsigned char)caseless_lower(*b);
}

static inline int caseless_equal(const char *a, const char *b) {
    return caseless_compare(a, b) == 0;
}

// The same for a[0, length) and b[0, length), which have no NUL.
static inline int caseless_equal_bytes(const char *a, const char *b, size_t length) {
    size_t i = 0;
    while (i < length && caseless_lower(a[i]) == caseless_lower(b[i])) {
        i++;
    }
    return i == length;
}

// Whether it is an ASCII letter or digit.
static inline int caseless_is_alphanumeric(char c) {
    const char lower = caseless_lower(c);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
}

#endif
