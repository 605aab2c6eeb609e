// SPDX-License-Identifier: Apache-2.0
// Functions on rows of options: names, values from text, and the nearest name for an unknown one.
// The rows of the settings are in settings/rows.c, those of the program's verbs in cli/; both are
// parsed and printed here.
#include "core/options.h"

#include "core/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME_LIMIT (OPTION_NAME_SIZE - 1)

static char plain(char c) {
    return c == '-' ? '_' : c;
}

int option_same_name(const char *a, const char *b) {
    while (*a != '\0' && plain(*a) == plain(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

int option_next_name(const char **names, char name[OPTION_NAME_SIZE]) {
    size_t length = *names != NULL ? strcspn(*names, " ") : 0;
    if (length > 0) {
        snprintf(name, OPTION_NAME_SIZE, "%.*s", (int)length, *names);
        *names += length + strspn(*names + length, " ");
    }
    return length > 0;
}

int option_is_named(const struct option_row *row, const char *name) {
    const char *aliases = row->aliases;
    char alias[OPTION_NAME_SIZE];
    int same = option_same_name(name, row->name);
    while (!same && option_next_name(&aliases, alias)) {
        same = option_same_name(name, alias);
    }
    return same;
}

// --- the nearest name ----------------------------------------------------------------------------

static unsigned min(unsigned a, unsigned b) {
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
            now[j] = min(min(before[j], now[j - 1]) + 1, before[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == plain(b[j - 2]) && y == plain(a[i - 2])) {
                now[j] = min(now[j], older[j - 2] + 1);
            }
        }
    }
    return rows[rows_used % 3][columns];
}

int option_is_near(const char *typed, unsigned distance) {
    size_t length = strnlen(typed, NAME_LIMIT);
    return distance <= 2 + min((unsigned)length, 20) / 5 && distance < length;
}

void option_nearer(const char *name, const char *names, struct option_spelling *nearest) {
    char spelling[OPTION_NAME_SIZE];
    while (option_next_name(&names, spelling)) {
        unsigned distance = option_distance(name, spelling);
        if (distance < nearest->distance) {
            memcpy(nearest->text, spelling, sizeof spelling);
            nearest->distance = distance;
        }
    }
}

void option_row_nearer(const char *name, const struct option_row *row,
                       struct option_spelling *nearest) {
    option_nearer(name, row->name, nearest);
    option_nearer(name, row->aliases, nearest);
}

// --- setting -------------------------------------------------------------------------------------

// "a number from 0 to 1", "a whole number of at least 8". is_large: for a value that no integer
// holds.
static void describe_range(const struct option_row *row, int is_large, char *text, size_t size) {
    const int is_whole = row->type == OPTION_INTEGER;
    const char *noun = is_whole ? "a whole number" : "a number",
               *format = is_whole ? "%.0f" : "%.10g";
    char low[NUMBER_TEXT_SIZE], high[NUMBER_TEXT_SIZE];
    number_format(low, sizeof low, format, row->minimum);
    number_format(high, sizeof high, format, row->maximum);
    if (isinf(row->minimum)) {
        snprintf(text, size, "%s", noun);
    } else if (strcmp(low, high) == 0) {
        snprintf(text, size, "%s", low);
    } else if (isinf(row->maximum)) {
        snprintf(text, size, "%s of at least %s%s", noun, low,
                 is_large ? " and at most 9223372036854775807" : "");
    } else {
        snprintf(text, size, "%s from %s to %s", noun, low, high);
    }
    const size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s",
             row->has_fraction ? ", or a fraction of the updates from 1e-06 to below 1" : "",
             row->has_auto ? ", or auto" : "");
}

static enum berth_status bad_value(const struct option_row *row, const char *value,
                                   const char *expected, struct berth_error *error) {
    return error_set(error, BERTH_USAGE, "option %s: expected %s, found \"%s\"", row->name,
                     expected, value);
}

static enum berth_status out_of_range(const struct option_row *row, const char *value,
                                      struct berth_error *error) {
    char expected[128];
    double number;
    const int is_large =
        row->type == OPTION_INTEGER && number_parse_real(value, &number) && number >= 0x1p63;
    describe_range(row, is_large, expected, sizeof expected);
    return bad_value(row, value, expected, error);
}

// A fraction f is stored as OPTION_AUTO - f * FRACTION_UNIT. FRACTION_MIN keeps small negative
// numbers, which a program sets by mistake, from being fractions.
#define FRACTION_UNIT 1e12
#define FRACTION_MIN 1e-6

double option_fraction(int64_t value) {
    const double fraction = (double)(OPTION_AUTO - value) / FRACTION_UNIT;
    return fraction >= FRACTION_MIN && fraction < 1 ? fraction : 0;
}

static int parse_fraction(const char *text, int64_t *value) {
    double fraction;
    const int is_fraction =
        number_parse_real(text, &fraction) && fraction >= FRACTION_MIN && fraction < 1;
    *value = is_fraction ? OPTION_AUTO - (int64_t)(fraction * FRACTION_UNIT + 0.5) : 0;
    return is_fraction && option_fraction(*value) > 0;
}

// Programs that count in floating point have whole numbers as "7038.0".
static int parse_whole(const char *text, int64_t *value) {
    double number;
    if (number_parse_integer(text, value)) {
        return 1;
    }
    const int is_whole =
        number_parse_real(text, &number) && fabs(number) < 0x1p53 && trunc(number) == number;
    *value = is_whole ? (int64_t)number : 0;
    return is_whole;
}

static int is_auto(const struct option_row *row, const char *text) {
    return row->has_auto && strcmp(text, "auto") == 0;
}

static enum berth_status parse_integer(const struct option_row *row, const char *text,
                                       int64_t *value, struct berth_error *error) {
    if (is_auto(row, text)) {
        *value = OPTION_AUTO;
        return BERTH_OK;
    }
    if (row->has_fraction && parse_fraction(text, value)) {
        return BERTH_OK;
    }
    return parse_whole(text, value) && (double)*value >= row->minimum &&
                   (double)*value <= row->maximum
               ? BERTH_OK
               : out_of_range(row, text, error);
}

static enum berth_status parse_real(const struct option_row *row, const char *text, double *value,
                                    struct berth_error *error) {
    if (is_auto(row, text)) {
        *value = NAN;
        return BERTH_OK;
    }
    return number_parse_real(text, value) && *value >= row->minimum && *value <= row->maximum
               ? BERTH_OK
               : out_of_range(row, text, error);
}

static enum berth_status parse_flag(const struct option_row *row, const char *text, int *value,
                                    struct berth_error *error) {
    if (is_auto(row, text)) {
        *value = OPTION_AUTO;
        return BERTH_OK;
    }
    const char *expected = row->has_auto ? "true or false, or auto" : "true or false";
    return number_parse_boolean(text, value) ? BERTH_OK : bad_value(row, text, expected, error);
}

// A choice that ends in "[:N]" stands for itself with and without an index, "cuda" and "cuda:12".
static int is_choice(const char *choice, size_t size, const char *value) {
    static const char suffix[] = "[:N]";
    const size_t indexed = sizeof suffix - 1, most_digits = 4;
    const size_t length = strlen(value);
    if (size < indexed || memcmp(choice + size - indexed, suffix, indexed) != 0) {
        return length == size && memcmp(choice, value, size) == 0;
    }
    const size_t stem = size - indexed;
    if (strncmp(value, choice, stem) != 0) {
        return 0;
    }
    const size_t digits = value[stem] == ':' ? strspn(value + stem + 1, "0123456789") : 0;
    return length == stem || (digits > 0 && digits <= most_digits && length == stem + 1 + digits);
}

// The index of `value` among the choices; -1: not found. *choice and *length: its text.
static int find_choice(const char *choices, const char *value, const char **choice,
                       size_t *length) {
    const char *at = choices;
    for (int number = 0;; number++) {
        size_t size = strcspn(at, "|");
        if (is_choice(at, size, value)) {
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

// Whether the text is one of the choices, or a list of them where the row allows that.
static int is_chosen(const struct option_row *row, const char *text) {
    const char *choice;
    size_t length, next = row->may_be_list ? strcspn(text, ",") : strlen(text);
    char part[OPTION_NAME_SIZE];
    for (; text[next] == ','; text += next + 1, next = strcspn(text, ",")) {
        snprintf(part, sizeof part, "%.*s", (int)next, text);
        if (find_choice(row->choices, part, &choice, &length) < 0) {
            return 0;
        }
    }
    return find_choice(row->choices, text, &choice, &length) >= 0;
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

static enum berth_status parse_choice(const struct option_row *row, const char *text, int *value,
                                      struct berth_error *error) {
    const char *choice;
    size_t length;
    int number = find_choice(row->choices, text, &choice, &length);
    *value = number;
    return number >= 0 ? BERTH_OK : bad_choice(row, text, error);
}

static enum berth_status parse_text(const struct option_row *row, const char *text,
                                    const char **value, struct berth_error *error) {
    if (row->choices != NULL && !is_chosen(row, text)) {
        return bad_choice(row, text, error);
    }
    *value = text;
    return *text != '\0' || row->may_be_empty ? BERTH_OK : bad_value(row, text, "some text", error);
}

enum berth_status option_parse(const struct option_row *row, const char *text,
                               union option_value *value, struct berth_error *error) {
    switch (row->type) {
    case OPTION_INTEGER:
        return parse_integer(row, text, &value->integer, error);
    case OPTION_REAL:
        return parse_real(row, text, &value->real, error);
    case OPTION_FLAG:
        return parse_flag(row, text, &value->flag, error);
    case OPTION_CHOICE:
        return parse_choice(row, text, &value->choice, error);
    case OPTION_TEXT:
    case OPTION_LIST:
        break;
    }
    return parse_text(row, text, &value->text, error);
}

// --- defaults ------------------------------------------------------------------------------------

struct option_default option_default(const struct option_row *row, unsigned jobs) {
    for (size_t i = 0; i < sizeof row->job_defaults / sizeof *row->job_defaults; i++) {
        struct option_default found = row->job_defaults[i];
        if ((found.jobs & jobs) != 0) {
            found.value = found.value != NULL ? found.value : row->default_value;
            return found;
        }
    }
    return (struct option_default){.value = row->default_value, .shown = row->shown};
}

struct option_help option_help(const struct option_row *row, unsigned jobs) {
    for (size_t i = 0; i < sizeof row->job_helps / sizeof *row->job_helps; i++) {
        struct option_help found = row->job_helps[i];
        if ((found.jobs & jobs) != 0) {
            found.choices = found.choices != NULL ? found.choices : row->choices;
            return found;
        }
    }
    return (struct option_help){.help = row->help, .choices = row->choices};
}
