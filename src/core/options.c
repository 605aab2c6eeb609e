// SPDX-License-Identifier: Apache-2.0
// Functions on the option table: find rows, set and print fields, suggest the nearest name for an
// unknown one. The rows are in option_rows.c.
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

const struct option_row *option_find(const char *name) {
    for (size_t i = 0; i < option_row_count; i++) {
        if (option_is_named(&option_rows[i], name)) {
            return &option_rows[i];
        }
    }
    return NULL;
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

const char *option_nearest(const char *name, unsigned jobs, struct option_spelling *nearest) {
    *nearest = (struct option_spelling){.distance = ~0u};
    for (size_t i = 0; i < option_row_count; i++) {
        if ((option_rows[i].jobs & jobs) != 0) {
            option_row_nearer(name, &option_rows[i], nearest);
        }
    }
    return option_is_near(name, nearest->distance) ? nearest->text : NULL;
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

static enum berth_status parse_choice(const struct option_row *row, const char *text,
                                      enum berth_precision *value, struct berth_error *error) {
    const char *choice;
    size_t length;
    int number = find_choice(row->choices, text, &choice, &length);
    *value = (enum berth_precision)number;
    return number >= 0 ? BERTH_OK : bad_choice(row, text, error);
}

static enum berth_status parse_text(const struct option_row *row, const char *text,
                                    const char **value, struct berth_error *error) {
    const char *choice;
    size_t length;
    if (row->choices != NULL && find_choice(row->choices, text, &choice, &length) < 0) {
        return bad_choice(row, text, error);
    }
    *value = text;
    return *text != '\0' ? BERTH_OK : bad_value(row, text, "some text", error);
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

// Sets the field and nothing else.
static enum berth_status set_field(struct berth_config *config, const struct option_row *row,
                                   const char *text, struct berth_error *error) {
    static const size_t sizes[] = {[OPTION_INTEGER] = sizeof(int64_t),
                                   [OPTION_REAL] = sizeof(double),
                                   [OPTION_FLAG] = sizeof(int),
                                   [OPTION_TEXT] = sizeof(const char *),
                                   [OPTION_CHOICE] = sizeof(enum berth_precision)};
    union option_value value;
    TRY(option_parse(row, text, &value, error));
    memcpy((char *)config + row->offset, &value, sizes[row->type]);
    return BERTH_OK;
}

enum berth_status option_set(struct berth_config *config, const struct option_row *row,
                             const char *value, struct berth_error *error) {
    TRY(set_field(config, row, value, error));
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

static void set_value(struct berth_config *config, const struct option_row *row,
                      const char *value) {
    if (value != NULL) {
        (void)set_field(config, row, value, NULL); // good: the table's test sets every default
    }
}

void option_forget(struct berth_config *config, const struct option_row *row) {
    const size_t index = (size_t)(row - option_rows);
    config->given[index / 64] &= ~(UINT64_C(1) << index % 64);
    if (row->default_value == NULL) {
        *(const char **)((char *)config + row->offset) = NULL;
    }
    set_value(config, row, row->default_value);
}

int option_is_chosen(const struct berth_config *config, const struct option_row *row) {
    struct berth_config defaults = {0};
    set_value(&defaults, row, row->default_value);
    return option_is_given(config, row) || !prints_alike(config, &defaults, row);
}

int option_name_is_given(const struct berth_config *config, const char *name) {
    return option_is_given(config, option_find(name));
}

int option_name_is_chosen(const struct berth_config *config, const char *name) {
    return option_is_chosen(config, option_find(name));
}

// Prints as NULL does, but berth_config_set refuses it.
static int is_empty_text(const struct berth_config *config, const struct option_row *row) {
    const char *const *text = (const char *const *)((const char *)config + row->offset);
    return row->type == OPTION_TEXT && *text != NULL && **text == '\0';
}

// A value is valid when its text can be parsed.
enum berth_status option_check(const struct berth_config *config, struct berth_error *error) {
    struct berth_config defaults;
    option_defaults(&defaults);
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        union option_value value;
        char text[256];
        option_print(config, row, text, sizeof text);
        if (is_empty_text(config, row) || !prints_alike(config, &defaults, row)) {
            TRY(option_parse(row, text, &value, error));
        }
    }
    return BERTH_OK;
}

int option_resumes(const struct berth_config *config) {
    return config->resume_from_checkpoint != NULL || config->resume_step >= 0;
}

int option_is_independent(const struct berth_config *config) {
    return config->workers != NULL && strcmp(config->workers, "independent") == 0;
}

// --- defaults ------------------------------------------------------------------------------------

void option_defaults(struct berth_config *config) {
    *config = (struct berth_config){.owned = NULL};
    for (size_t i = 0; i < option_row_count; i++) {
        set_value(config, &option_rows[i], option_rows[i].default_value);
    }
}

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

int64_t option_default_integer(const char *name, unsigned job) {
    int64_t value = 0;
    (void)number_parse_integer(option_default(option_find(name), job).value, &value);
    return value;
}

static void apply_default(struct berth_config *config, const struct option_row *row, unsigned job) {
    if (!option_is_chosen(config, row)) {
        set_value(config, row, option_default(row, job).value);
    }
}

void option_apply_default(struct berth_config *config, const char *name, unsigned job) {
    apply_default(config, option_find(name), job);
}

void option_apply_defaults(struct berth_config *config, unsigned job) {
    for (size_t i = 0; i < option_row_count; i++) {
        apply_default(config, &option_rows[i], job);
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

// A number that is no truth value is printed as a number.
static void print_flag(const struct option_row *row, int flag, char *text, size_t size) {
    if (flag == 0 || flag == 1) {
        snprintf(text, size, "%s", flag ? "true" : "false");
    } else if (flag == OPTION_AUTO && row->has_auto) {
        snprintf(text, size, "auto");
    } else {
        snprintf(text, size, "%d", flag);
    }
}

void option_print(const struct berth_config *config, const struct option_row *row, char *text,
                  size_t size) {
    const void *field = (const char *)config + row->offset;
    switch (row->type) {
    case OPTION_INTEGER: {
        const int64_t number = *(const int64_t *)field;
        if (row->has_auto && number == OPTION_AUTO) {
            snprintf(text, size, "auto");
        } else if (row->has_fraction && option_fraction(number) > 0) {
            number_print_real(text, size, option_fraction(number));
        } else {
            snprintf(text, size, "%lld", (long long)number);
        }
        break;
    }
    case OPTION_REAL: {
        const double number = *(const double *)field;
        if (row->has_auto && isnan(number)) {
            snprintf(text, size, "auto");
        } else {
            number_print_real(text, size, number);
        }
        break;
    }
    case OPTION_FLAG:
        print_flag(row, *(const int *)field, text, size);
        break;
    case OPTION_CHOICE:
        print_choice(row->choices, (unsigned)*(const enum berth_precision *)field, text, size);
        break;
    case OPTION_TEXT:
    case OPTION_LIST: {
        const char *value = *(const char *const *)field;
        snprintf(text, size, "%s", value != NULL ? value : "");
        break;
    }
    }
}
