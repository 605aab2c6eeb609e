// SPDX-License-Identifier: Apache-2.0
// Compares names ignoring the case of ASCII letters, whatever the locale: in a Turkish locale
// tolower and strcasecmp do not map I to i.
#ifndef BERTH_DATA_CASELESS_H
#define BERTH_DATA_CASELESS_H

static inline char caseless_lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static inline int caseless_equal(const char *a, const char *b) {
    while (*a != '\0' && caseless_lower(*a) == caseless_lower(*b)) {
        a++;
        b++;
    }
    return caseless_lower(*a) == caseless_lower(*b);
}

#endif
