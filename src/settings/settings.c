// SPDX-License-Identifier: Apache-2.0
// Functions on the settings of a job: looks a name up in the table of rows.c, sets a field and
// remembers who set it, applies defaults, compares with those of an earlier run, and prints. The
// command line, berth.h, a DeepSpeed JSON and a resumed checkpoint all set through here; what a
// setting does is left to its owner.
#include "settings/settings.h"

#include "core/memory.h"
#include "core/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SETTING_SIZE 512

const struct option_row *option_find(const char *name) {
    for (size_t i = 0; i < option_row_count; i++) {
        if (option_is_named(&option_rows[i], name)) {
            return &option_rows[i];
        }
    }
    return NULL;
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

// Sets the field and nothing else.
static enum berth_status set_field(struct settings *config, const struct option_row *row,
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

enum berth_status settings_set_row(struct settings *config, const struct option_row *row,
                                   const char *value, struct berth_error *error) {
    TRY(set_field(config, row, value, error));
    size_t index = (size_t)(row - option_rows);
    config->given[index / 64] |= UINT64_C(1) << index % 64;
    return BERTH_OK;
}

int settings_row_is_given(const struct settings *config, const struct option_row *row) {
    size_t index = (size_t)(row - option_rows);
    return config->given[index / 64] >> index % 64 & 1;
}

static int prints_alike(const struct settings *a, const struct settings *b,
                        const struct option_row *row) {
    char first[256], second[256];
    settings_print(a, row, first, sizeof first);
    settings_print(b, row, second, sizeof second);
    return strcmp(first, second) == 0;
}

static void set_value(struct settings *config, const struct option_row *row, const char *value) {
    if (value != NULL) {
        (void)set_field(config, row, value, NULL); // good: the table's test sets every default
    }
}

void settings_forget(struct settings *config, const struct option_row *row) {
    const size_t index = (size_t)(row - option_rows);
    config->given[index / 64] &= ~(UINT64_C(1) << index % 64);
    if (row->default_value == NULL) {
        *(const char **)((char *)config + row->offset) = NULL;
    }
    set_value(config, row, row->default_value);
}

int settings_row_is_chosen(const struct settings *config, const struct option_row *row) {
    struct settings defaults = {0};
    set_value(&defaults, row, row->default_value);
    return settings_row_is_given(config, row) || !prints_alike(config, &defaults, row);
}

int settings_is_given(const struct settings *config, const char *name) {
    return settings_row_is_given(config, option_find(name));
}

int settings_is_chosen(const struct settings *config, const char *name) {
    return settings_row_is_chosen(config, option_find(name));
}

int settings_resume(const struct settings *config) {
    return config->run.resume_from_checkpoint != NULL || config->run.resume_step >= 0;
}

int settings_are_independent(const struct settings *config) {
    return config->machine.workers != NULL && strcmp(config->machine.workers, "independent") == 0;
}

void settings_init(struct settings *config) {
    *config = (struct settings){.owned = NULL};
    for (size_t i = 0; i < option_row_count; i++) {
        set_value(config, &option_rows[i], option_rows[i].default_value);
    }
}

void model_settings_init(struct model_settings *settings) {
    struct settings all;
    settings_init(&all);
    *settings = all.model;
}

int64_t option_default_integer(const char *name, unsigned job) {
    int64_t value = 0;
    (void)number_parse_integer(option_default(option_find(name), job).value, &value);
    return value;
}

static void apply_default(struct settings *config, const struct option_row *row, unsigned job) {
    if (!settings_row_is_chosen(config, row)) {
        set_value(config, row, option_default(row, job).value);
    }
}

void settings_apply_default(struct settings *config, const char *name, unsigned job) {
    apply_default(config, option_find(name), job);
}

void settings_apply_defaults(struct settings *config, unsigned job) {
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

void settings_print(const struct settings *config, const struct option_row *row, char *text,
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

struct settings *settings_new(void) {
    struct settings *config = memory_new(sizeof *config);
    char **owned = memory_array_zeroed(option_row_count, sizeof *owned);
    if (config == NULL || owned == NULL) {
        memory_free(config);
        memory_free(owned);
        return NULL;
    }
    settings_init(config);
    config->owned = owned;
    return config;
}

void settings_free(struct settings *config) {
    for (size_t i = 0; config != NULL && i < option_row_count; i++) {
        memory_free(config->owned[i]);
    }
    if (config != NULL) {
        memory_free(config->owned);
        memory_free(config);
    }
}

static enum berth_status set_copy(struct settings *config, const struct option_row *row,
                                  const char *value, struct berth_error *error) {
    char *copy = memory_string(value);
    if (copy == NULL) {
        return error_no_memory(error, strlen(value) + 1, "a setting");
    }
    enum berth_status status = settings_set_row(config, row, copy, error);
    if (status != BERTH_OK) {
        memory_free(copy);
        return status;
    }
    char **owned = &config->owned[row - option_rows];
    memory_free(*owned);
    *owned = copy;
    return BERTH_OK;
}

enum berth_status settings_set(struct settings *config, const char *name, const char *value,
                               struct berth_error *error) {
    const struct option_row *row = option_find(name);
    struct option_spelling nearest;
    if (row == NULL) {
        const char *near = option_nearest(name, ~0u, &nearest);
        return error_set(error, BERTH_USAGE, "unknown setting \"%s\"%s%s%s", name,
                         near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                         near != NULL ? "\"?" : "");
    }
    return config->owned != NULL ? set_copy(config, row, value, error)
                                 : settings_set_row(config, row, value, error);
}

enum berth_status log_settings(const struct berth_log *log, const struct settings *config,
                               unsigned jobs, struct berth_error *error) {
    struct berth_field *fields = memory_array(option_row_count, sizeof *fields);
    char(*texts)[SETTING_SIZE] = memory_array(option_row_count, sizeof *texts);
    enum berth_status status = BERTH_OK;
    if (fields == NULL || texts == NULL) {
        status = error_no_memory(error, option_row_count * sizeof *texts, "the settings' texts");
    } else {
        size_t count = 0;
        for (size_t i = 0; i < option_row_count; i++) {
            const struct option_row *row = &option_rows[i];
            if (row->jobs & jobs) {
                settings_print(config, row, texts[count], sizeof texts[count]);
                fields[count] = log_text(row->name, texts[count]);
                count++;
            }
        }
        log_fields(log, BERTH_EVENT, "Config", fields, count);
    }
    memory_free(fields);
    memory_free(texts);
    return status;
}
