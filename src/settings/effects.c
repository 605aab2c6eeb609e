// SPDX-License-Identifier: Apache-2.0
// Which options have an effect in a job, and why one that was given has none. Runs once a job's
// settings are read, so that nothing is accepted silently. Leaves out the options' values.
#include "settings/effects.h"

#include "core/memory.h"
#include "core/number.h"
#include "settings/deepspeed.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define VALUE_SIZE 128
#define CLAUSES_SIZE 256

// What requirements are judged by: the settings as the job uses them, and its processes.
struct effects {
    const struct settings *used;
    int processes;
};

// "name", "!name", "name=one|other" or "name!=one".
struct clause {
    char name[OPTION_NAME_SIZE], values[CLAUSES_SIZE];
    int is_negative, has_values; // "!" before the name or the values; there are some
};

// Reads one clause; returns what follows it.
static const char *read_clause(const char *at, struct clause *clause) {
    *clause = (struct clause){.is_negative = *at == '!'};
    at += clause->is_negative;
    const size_t length = strcspn(at, "=!; ");
    snprintf(clause->name, sizeof clause->name, "%.*s", (int)length, at);
    at += length;
    clause->has_values = *at == '=' || *at == '!';
    if (clause->has_values) {
        clause->is_negative = *at == '!';
        at += 1 + clause->is_negative;
        const size_t size = strcspn(at, "; ");
        snprintf(clause->values, sizeof clause->values, "%.*s", (int)size, at);
        at += size;
    }
    return at;
}

static const char BETWEEN_REQUIREMENTS[] = "; ", BETWEEN_ALTERNATIVES[] = " or ";

// Skips the separator if it is the next text.
static int skip(const char **at, const char *separator) {
    const int is_there = strncmp(*at, separator, strlen(separator)) == 0;
    *at += is_there ? strlen(separator) : 0;
    return is_there;
}

// The rule of a dynamic loss scale is loss_scaler's.
static const char *loss_scale_of(const struct settings *used) {
    const char *text = loss_scale_text(&used->optimizer, used->machine.precision == BERTH_FP16);
    double number;
    const int is_zero = number_parse_real(text, &number) && number == 0;
    return is_zero || strcmp(text, "dynamic") == 0 ? used->optimizer.loss_scaler : text;
}

// The value as text, and whether it counts as set: a text, true, or a number above 0.
static int value_of(const struct effects *effects, const char *name, char value[VALUE_SIZE]) {
    const struct settings *used = effects->used;
    const struct option_row *row = option_find(name);
    double number;
    value[0] = '\0';
    if (strcmp(name, "processes") == 0) {
        return effects->processes > 1;
    }
    if (strcmp(name, "ranks") == 0) {
        return effects->processes > 1 && !settings_are_independent(used);
    }
    if (strcmp(name, "loss_scale") == 0) {
        snprintf(value, VALUE_SIZE, "%s", loss_scale_of(used));
        return 1;
    }
    settings_print(used, row, value, VALUE_SIZE);
    if (strcmp(name, "logging_dir") == 0) {
        char *folder = NULL;
        if (used->report.logging_dir == NULL && used->run.deepspeed_config != NULL) {
            (void)deepspeed_logging_dir(used->run.deepspeed_config, &folder, NULL);
        }
        const int names = used->report.logging_dir != NULL || folder != NULL;
        memory_free(folder);
        return names;
    }
    return row->type == OPTION_TEXT ? value[0] != '\0'
           : row->type == OPTION_FLAG
               ? strcmp(value, "true") == 0
               : strcmp(value, "auto") == 0 || (number_parse_real(value, &number) && number > 0);
}

static void print_reason(const struct effects *effects, const char *name, int is_wanted,
                         const char *value, char reason[VALUE_SIZE]) {
    const struct option_row *row = option_find(name);
    const int is_path = row != NULL && row->unit != NULL &&
                        (strcmp(row->unit, "DIR") == 0 || strncmp(row->unit, "FILE", 4) == 0);
    if (row == NULL) {
        snprintf(reason, VALUE_SIZE, "%s",
                 settings_are_independent(effects->used) ? "with independent workers"
                                                         : "in one process");
    } else if (strcmp(name, "loss_scale") == 0 && strcmp(value, "plain") == 0) {
        snprintf(reason, VALUE_SIZE, "with loss_scaler plain");
    } else if (value[0] == '\0' || (is_wanted && row->type == OPTION_FLAG)) {
        snprintf(reason, VALUE_SIZE, "without %s", name);
    } else if (!is_wanted && is_path) {
        snprintf(reason, VALUE_SIZE, "with %s", name);
    } else {
        snprintf(reason, VALUE_SIZE, "with %s %s", name, value);
    }
}

// Whether the list "one|other", in which an empty entry is no value, has the first `length` bytes
// of `value`. Names of tasks may be in capitals.
static int is_value(const char *values, const char *value, size_t length) {
    for (const char *at = values;; at++) {
        const size_t size = strcspn(at, "|");
        if (size == length && strncasecmp(at, value, size) == 0) {
            return 1;
        }
        at += size;
        if (*at == '\0') {
            return 0;
        }
    }
}

// Whether `value` is one of the values; of a list with commas, whether one of its items is. "auto"
// may turn out to be any of them.
static int is_one_of(const char *values, const char *value) {
    for (const char *at = value;; at++) {
        const size_t length = strcspn(at, ",");
        if (is_value(values, at, length) || is_value("auto", at, length)) {
            return 1;
        }
        at += length;
        if (*at == '\0') {
            return 0;
        }
    }
}

// If a clause does not hold, *reason says why.
static int holds(const struct effects *effects, const struct clause *clause,
                 char reason[VALUE_SIZE]) {
    char value[VALUE_SIZE];
    const int is_set = value_of(effects, clause->name, value);
    const int good =
        clause->has_values
            ? strcmp(value, "auto") == 0 || is_one_of(clause->values, value) != clause->is_negative
            : is_set != clause->is_negative;
    if (!good) {
        print_reason(effects, clause->name, !clause->is_negative && !clause->has_values, value,
                     reason);
    }
    return good;
}

// "No warm-up" and the like, asked for by name, is no mistake.
static int is_off(const struct settings *given, const struct option_row *row) {
    char value[VALUE_SIZE];
    settings_print(given, row, value, sizeof value);
    return strcmp(value, "0") == 0 || strcmp(value, "none") == 0;
}

// Notes the first requirement of which no alternative holds, by its first alternative.
static void note_row(const struct effects *effects, const struct option_row *row,
                     const struct berth_log *log) {
    const char *at = row->only_with;
    int good;
    do {
        char first[VALUE_SIZE] = "", reason[VALUE_SIZE];
        good = 0;
        do {
            struct clause clause;
            at = read_clause(at, &clause);
            good |= holds(effects, &clause, first[0] == '\0' ? first : reason);
        } while (skip(&at, BETWEEN_ALTERNATIVES));
        if (!good) {
            log_note(log, "%s has no effect %s", row->name, first);
        }
    } while (good && skip(&at, BETWEEN_REQUIREMENTS));
}

void settings_note_effects(const struct settings *given, const struct settings *used, unsigned jobs,
                           int processes, const struct berth_log *log) {
    const struct effects effects = {used, processes};
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->only_with != NULL && (row->jobs & jobs) != 0 &&
            settings_row_is_chosen(given, row) && !is_off(given, row)) {
            note_row(&effects, row, log);
        }
    }
}

// --- in words ------------------------------------------------------------------------------------

// "EE or LE"
static void put_values(struct buffer *text, const char *values) {
    const char *separator = " ";
    for (const char *at = values; *at != '\0'; at += *at == '|') {
        const size_t length = strcspn(at, "|");
        if (length > 0) {
            buffer_put_text(text, separator);
            buffer_put(text, at, length);
            separator = BETWEEN_ALTERNATIVES;
        }
        at += length;
    }
}

void settings_put_only_with(struct buffer *text, const struct option_row *row, unsigned jobs) {
    const char *at = row->only_with, *between = "";
    while (at != NULL && *at != '\0') {
        struct clause clause;
        at = read_clause(at, &clause);
        const struct option_row *other = option_find(clause.name);
        if (other == NULL || (other->jobs & jobs) != 0) {
            buffer_put_text(text, between);
            buffer_put_text(text, clause.is_negative ? "not with " : "only with ");
            buffer_put_text(text, other == NULL ? "several processes" : clause.name);
            put_values(text, clause.values);
        }
        between = skip(&at, BETWEEN_REQUIREMENTS)   ? BETWEEN_REQUIREMENTS
                  : skip(&at, BETWEEN_ALTERNATIVES) ? BETWEEN_ALTERNATIVES
                                                    : "";
    }
}
