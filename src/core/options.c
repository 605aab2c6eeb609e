// SPDX-License-Identifier: Apache-2.0
// Functions on the option table: find rows, set and print fields, suggest the nearest name for an
// unknown one. The rows are in option_rows.c.
#include "core/options.h"

#include "core/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME_LIMIT 63

static char plain(char c) {
    return c == '-' ? '_' : c;
}

// Compares a name with the first `length` characters of `known`.
static int same_name(const char *name, const char *known, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (plain(name[i]) != plain(known[i])) {
            return 0;
        }
    }
    return name[length] == '\0';
}

int option_same_name(const char *a, const char *b) {
    return same_name(a, b, strlen(b));
}

static int has_alias(const struct option_row *row, const char *name) {
    const char *alias = row->aliases != NULL ? row->aliases : "";
    while (*alias != '\0') {
        size_t length = strcspn(alias, " ");
        if (same_name(name, alias, length)) {
            return 1;
        }
        alias += length + strspn(alias + length, " ");
    }
    return 0;
}

const struct option_row *option_find(const char *name) {
    for (size_t i = 0; i < option_row_count; i++) {
        if (option_same_name(name, option_rows[i].name) || has_alias(&option_rows[i], name)) {
            return &option_rows[i];
        }
    }
    return NULL;
}

// --- the nearest name ----------------------------------------------------------------------------

static unsigned least(unsigned a, unsigned b) {
    return a < b ? a : b;
}

// Optimal string alignment (Levenshtein's distance with swaps of neighbours) over the first
// NAME_LIMIT characters. Three rows of the usual table are enough.
unsigned option_distance(const char *a, const char *b) {
    unsigned rows[3][NAME_LIMIT + 1];
    size_t rows_used = strnlen(a, NAME_LIMIT), columns = strnlen(b, NAME_LIMIT);
    for (size_t j = 0; j <= columns; j++) {
        rows[0][j] = (unsigned)j;
    }
    for (size_t i = 1; i <= rows_used; i++) {
        unsigned *now = rows[i % 3], *before = rows[(i + 2) % 3], *older = rows[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= columns; j++) {
            char x = plain(a[i - 1]), y = plain(b[j - 1]);
            now[j] = least(least(before[j], now[j - 1]) + 1, before[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == plain(b[j - 2]) && y == plain(a[i - 2])) {
                now[j] = least(now[j], older[j - 2] + 1);
            }
        }
    }
    return rows[rows_used % 3][columns];
}

int option_is_near(const char *typed, unsigned distance) {
    size_t length = strnlen(typed, NAME_LIMIT);
    return distance <= 2 + least((unsigned)length, 20) / 5 && distance < length;
}

void option_nearer(const char *name, const char *known, const char *aliases,
                   struct option_spelling *nearest) {
    const char *rest = aliases != NULL ? aliases : "";
    for (const char *at = known; *at != '\0';) {
        char spelling[sizeof nearest->text];
        snprintf(spelling, sizeof spelling, "%.*s", (int)strcspn(at, " "), at);
        unsigned distance = option_distance(name, spelling);
        if (distance < nearest->distance) {
            strcpy(nearest->text, spelling);
            nearest->distance = distance;
        }
        at = rest;
        rest += strcspn(rest, " ");
        rest += strspn(rest, " ");
    }
}

const char *option_nearest(const char *name, unsigned jobs, struct option_spelling *nearest) {
    *nearest = (struct option_spelling){.distance = ~0u};
    for (size_t i = 0; i < option_row_count; i++) {
        if ((option_rows[i].jobs & jobs) != 0) {
            option_nearer(name, option_rows[i].name, option_rows[i].aliases, nearest);
        }
    }
    return option_is_near(name, nearest->distance) ? nearest->text : NULL;
}

// --- setting -------------------------------------------------------------------------------------

static void *field_of(struct berth_config *config, const struct option_row *row) {
    return (char *)config + row->offset;
}

// "a number from 0 to 1", "a whole number of at least 8"
static void describe_range(const struct option_row *row, char *text, size_t size) {
    const char *noun = row->type == OPTION_INTEGER ? "a whole number" : "a number";
    char low[NUMBER_TEXT_SIZE], high[NUMBER_TEXT_SIZE];
    number_format(low, sizeof low, "%.10g", row->minimum);
    number_format(high, sizeof high, "%.10g", row->maximum);
    if (isinf(row->minimum)) {
        snprintf(text, size, "%s", noun);
    } else if (isinf(row->maximum)) {
        snprintf(text, size, "%s of at least %s", noun, low);
    } else {
        snprintf(text, size, "%s from %s to %s", noun, low, high);
    }
}

static enum berth_status bad_value(const struct option_row *row, const char *value,
                                   const char *expected, struct berth_error *error) {
    return error_set(error, BERTH_USAGE, "option %s: expected %s, found \"%s\"", row->name,
                     expected, value);
}

static enum berth_status out_of_range(const struct option_row *row, const char *value,
                                      struct berth_error *error) {
    char expected[128];
    describe_range(row, expected, sizeof expected);
    return bad_value(row, value, expected, error);
}

static enum berth_status set_integer(int64_t *field, const struct option_row *row,
                                     const char *value, struct berth_error *error) {
    int64_t parsed;
    if (!number_parse_integer(value, &parsed) || (double)parsed < row->minimum ||
        (double)parsed > row->maximum) {
        return out_of_range(row, value, error);
    }
    *field = parsed;
    return BERTH_OK;
}

static enum berth_status set_real(double *field, const struct option_row *row, const char *value,
                                  struct berth_error *error) {
    double parsed;
    if (!number_parse_real(value, &parsed) || parsed < row->minimum || parsed > row->maximum) {
        return out_of_range(row, value, error);
    }
    *field = parsed;
    return BERTH_OK;
}

static enum berth_status set_flag(int *field, const struct option_row *row, const char *value,
                                  struct berth_error *error) {
    if (strcmp(value, "auto") == 0 && row->minimum < 0) {
        *field = -1;
        return BERTH_OK;
    }
    return number_parse_truth(value, field) ? BERTH_OK
                                            : bad_value(row, value, "true or false", error);
}

// The index of `value` among the choices; -1: not found. *choice and *length: its text.
static int find_choice(const char *choices, const char *value, const char **choice,
                       size_t *length) {
    const char *at = choices;
    for (int number = 0;; number++) {
        size_t size = strcspn(at, "|");
        if (strlen(value) == size && memcmp(at, value, size) == 0) {
            *choice = at;
            *length = size;
            return number;
        }
        if (at[size] == '\0') {
            return -1;
        }
        at += size + 1;
    }
}

static enum berth_status bad_choice(const struct option_row *row, const char *value,
                                    struct berth_error *error) {
    char expected[512] = "one of ";
    size_t used = strlen(expected);
    for (const char *at = row->choices; *at != '\0' && used + 3 < sizeof expected; at++) {
        if (*at == '|') {
            expected[used++] = ',';
            expected[used++] = ' ';
        } else {
            expected[used++] = *at;
        }
    }
    expected[used] = '\0';
    return bad_value(row, value, expected, error);
}

static enum berth_status set_choice(enum berth_precision *field, const struct option_row *row,
                                    const char *value, struct berth_error *error) {
    const char *choice;
    size_t length;
    int number = find_choice(row->choices, value, &choice, &length);
    if (number < 0) {
        return bad_choice(row, value, error);
    }
    *field = (enum berth_precision)number;
    return BERTH_OK;
}

static enum berth_status set_text(const char **field, const struct option_row *row,
                                  const char *value, struct berth_error *error) {
    const char *choice;
    size_t length;
    if (row->choices != NULL && find_choice(row->choices, value, &choice, &length) < 0) {
        return bad_choice(row, value, error);
    }
    if (*value == '\0') {
        return bad_value(row, value, "some text", error);
    }
    *field = value;
    return BERTH_OK;
}

enum berth_status option_set(struct berth_config *config, const struct option_row *row,
                             const char *value, struct berth_error *error) {
    void *field = field_of(config, row);
    switch (row->type) {
    case OPTION_INTEGER:
        TRY(set_integer(field, row, value, error));
        break;
    case OPTION_REAL:
        TRY(set_real(field, row, value, error));
        break;
    case OPTION_FLAG:
        TRY(set_flag(field, row, value, error));
        break;
    case OPTION_CHOICE:
        TRY(set_choice(field, row, value, error));
        break;
    case OPTION_TEXT:
        TRY(set_text(field, row, value, error));
        break;
    }
    size_t index = (size_t)(row - option_rows);
    config->given[index / 64] |= UINT64_C(1) << index % 64;
    return BERTH_OK;
}

enum berth_status option_check_choice(const struct berth_config *config, const char *name,
                                      struct berth_error *error) {
    const struct option_row *row = option_find(name);
    const char *value = *(const char *const *)((const char *)config + row->offset), *choice;
    size_t length;
    return value == NULL || find_choice(row->choices, value, &choice, &length) >= 0
               ? BERTH_OK
               : bad_choice(row, value, error);
}

int option_is_given(const struct berth_config *config, const struct option_row *row) {
    size_t index = (size_t)(row - option_rows);
    return config->given[index / 64] >> index % 64 & 1;
}

static int prints_alike(const struct berth_config *a, const struct berth_config *b,
                        const struct option_row *row) {
    char first[256], second[256];
    option_print(a, row, first, sizeof first);
    option_print(b, row, second, sizeof second);
    return strcmp(first, second) == 0;
}

int option_is_chosen(const struct berth_config *config, const struct option_row *row) {
    struct berth_config defaults;
    option_defaults(&defaults);
    return option_is_given(config, row) || !prints_alike(config, &defaults, row);
}

// A value is valid when its text can be set.
enum berth_status option_check(const struct berth_config *config, struct berth_error *error) {
    struct berth_config defaults, set;
    option_defaults(&defaults);
    set = defaults;
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        char text[256];
        option_print(config, row, text, sizeof text);
        if (!prints_alike(config, &defaults, row)) {
            TRY(option_set(&set, row, text, error));
        }
    }
    return BERTH_OK;
}

int option_resumes(const struct berth_config *config) {
    return config->resume_from_checkpoint != NULL || config->resume_step >= 0;
}

void option_set_default(struct berth_config *config, const char *name, const char *value) {
    const struct option_row *row = option_find(name);
    size_t index = (size_t)(row - option_rows);
    if (!option_is_chosen(config, row)) {
        (void)option_set(config, row, value, NULL);
        config->given[index / 64] &= ~(UINT64_C(1) << index % 64);
    }
}

void option_job_defaults(struct berth_config *config, unsigned job) {
    for (size_t i = 0; i < option_job_default_count; i++) {
        if ((option_job_default_rows[i].jobs & job) != 0) {
            option_set_default(config, option_job_default_rows[i].name,
                               option_job_default_rows[i].value);
        }
    }
}

// --- printing ------------------------------------------------------------------------------------

// A number that is no choice is printed as a number.
static void print_choice(const char *choices, unsigned number, char *text, size_t size) {
    const char *choice = choices;
    for (unsigned left = number; left > 0 && choice != NULL; left--) {
        choice = strchr(choice, '|');
        choice = choice != NULL ? choice + 1 : NULL;
    }
    if (choice == NULL) {
        snprintf(text, size, "%u", number);
    } else {
        snprintf(text, size, "%.*s", (int)strcspn(choice, "|"), choice);
    }
}

void option_print(const struct berth_config *config, const struct option_row *row, char *text,
                  size_t size) {
    const void *field = (const char *)config + row->offset;
    switch (row->type) {
    case OPTION_INTEGER:
        snprintf(text, size, "%lld", (long long)*(const int64_t *)field);
        break;
    case OPTION_REAL:
        number_print_real(text, size, *(const double *)field);
        break;
    case OPTION_FLAG: {
        int flag = *(const int *)field;
        snprintf(text, size, "%s", flag < 0 ? "auto" : flag ? "true" : "false");
        break;
    }
    case OPTION_CHOICE:
        print_choice(row->choices, (unsigned)*(const enum berth_precision *)field, text, size);
        break;
    case OPTION_TEXT: {
        const char *value = *(const char *const *)field;
        snprintf(text, size, "%s", value != NULL ? value : "");
        break;
    }
    }
}
