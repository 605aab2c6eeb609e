// SPDX-License-Identifier: Apache-2.0
#include "settings/effects.h"

#include "core/memory.h"
#include "core/number.h"
#include "settings/deepspeed.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define VALUE_SIZE 128
#define CLAUSES_SIZE 256

// What is noted: settings as they were given, and as the job uses them.
struct effects {
    const struct settings *given, *used;
    int processes;
};

// The rule of a dynamic loss scale is loss_scaler's; by default only fp16 has one.
static const char *loss_scale_of(const struct settings *used) {
    const char *text = used->optimizer.loss_scale;
    double number;
    text = text != NULL ? text : used->machine.precision == BERTH_FP16 ? "dynamic" : "none";
    const int is_zero = number_parse_real(text, &number) && number == 0;
    return is_zero || strcmp(text, "dynamic") == 0 ? used->optimizer.loss_scaler : text;
}

static int names_scalars(const struct settings *used) {
    char *folder = NULL;
    if (used->report.logging_dir == NULL && used->run.deepspeed_config != NULL) {
        (void)deepspeed_logging_dir(used->run.deepspeed_config, &folder, NULL);
    }
    const int names = used->report.logging_dir != NULL || folder != NULL;
    memory_free(folder);
    return names;
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
    return strcmp(name, "logging_dir") == 0 ? names_scalars(used)
           : row->type == OPTION_TEXT       ? value[0] != '\0'
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

// Whether the list "one|other", in which an empty entry is no value, has it. Names of tasks may be
// in capitals.
static int is_one_of(const char *values, const char *value) {
    const size_t length = strlen(value);
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

// Whether one clause holds: "name", "!name", "name=one|other", "name!=one". If not, *reason says
// why.
static int holds(const struct effects *effects, const char *clause, char reason[VALUE_SIZE]) {
    char name[OPTION_NAME_SIZE], value[VALUE_SIZE];
    const int is_negative = *clause == '!';
    const char *start = clause + is_negative;
    const size_t length = strcspn(start, "=!");
    snprintf(name, sizeof name, "%.*s", (int)length, start);
    const int is_set = value_of(effects, name, value);
    const int is_unequal = start[length] == '!', has_values = start[length] != '\0';
    int good = is_set != is_negative;
    if (has_values) {
        const char *values = start + length + 1 + is_unequal;
        const int is_one = is_one_of(values, value);
        good = strcmp(value, "auto") == 0 || is_one != is_unequal;
    }
    if (!good) {
        print_reason(effects, name, !is_negative, value, reason);
    }
    return good;
}

// Whether one of the alternatives of a requirement, separated by " or ", holds.
static int one_holds(const struct effects *effects, char *alternatives, char reason[VALUE_SIZE]) {
    char first[VALUE_SIZE] = "";
    while (alternatives != NULL) {
        char *next = strstr(alternatives, " or ");
        if (next != NULL) {
            *next = '\0';
        }
        if (holds(effects, alternatives, reason)) {
            return 1;
        }
        if (first[0] == '\0') {
            snprintf(first, sizeof first, "%s", reason);
        }
        alternatives = next != NULL ? next + strlen(" or ") : NULL;
    }
    snprintf(reason, VALUE_SIZE, "%s", first);
    return 0;
}

// "No warm-up" and the like, asked for by name, is no mistake.
static int is_off(const struct settings *given, const struct option_row *row) {
    char value[VALUE_SIZE];
    settings_print(given, row, value, sizeof value);
    return strcmp(value, "0") == 0 || strcmp(value, "none") == 0;
}

static void note_row(const struct effects *effects, const struct option_row *row,
                     const struct berth_log *log) {
    char clauses[CLAUSES_SIZE], reason[VALUE_SIZE], *clause = clauses;
    snprintf(clauses, sizeof clauses, "%s", row->only_with);
    while (clause != NULL) {
        char *next = strstr(clause, "; ");
        if (next != NULL) {
            *next = '\0';
        }
        if (!one_holds(effects, clause, reason)) {
            log_note(log, "%s has no effect %s", row->name, reason);
            return;
        }
        clause = next != NULL ? next + strlen("; ") : NULL;
    }
}

void settings_note_effects(const struct settings *given, const struct settings *used, unsigned jobs,
                           int processes, const struct berth_log *log) {
    const struct effects effects = {given, used, processes};
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->only_with != NULL && (row->jobs & jobs) != 0 &&
            settings_row_is_chosen(given, row) && !is_off(given, row)) {
            note_row(&effects, row, log);
        }
    }
}

// --- what it needs, in words
// ----------------------------------------------------------------------

// "EE or LE"
static void put_values(struct buffer *text, const char *values) {
    const char *separator = " ";
    for (const char *at = values; *at != '\0'; at += *at == '|') {
        const size_t length = strcspn(at, "|");
        if (length > 0) {
            buffer_put_text(text, separator);
            buffer_put(text, at, length);
            separator = " or ";
        }
        at += length;
    }
}

static void put_clause(struct buffer *text, const char *clause, size_t size) {
    char copy[CLAUSES_SIZE];
    snprintf(copy, sizeof copy, "%.*s", (int)size, clause);
    const int is_negative = copy[0] == '!';
    char *name = copy + is_negative, *rest = name + strcspn(name, "=!");
    const int is_unequal = *rest == '!';
    const char *values = *rest != '\0' ? rest + 1 + is_unequal : "";
    *rest = '\0';
    const int is_many = strcmp(name, "processes") == 0 || strcmp(name, "ranks") == 0;
    buffer_put_text(text, is_negative || is_unequal ? "not with " : "only with ");
    buffer_put_text(text, is_many ? "several processes" : name);
    put_values(text, values);
}

void settings_put_only_with(struct buffer *text, const struct option_row *row) {
    const char *at = row->only_with;
    while (at != NULL && *at != '\0') {
        const char *next = strpbrk(at, "; ");
        const size_t size = next != NULL ? (size_t)(next - at) : strlen(at);
        put_clause(text, at, size);
        at += size;
        if (strncmp(at, "; ", 2) == 0) {
            buffer_put_text(text, "; ");
            at += 2;
        } else if (strncmp(at, " or ", 4) == 0) {
            buffer_put_text(text, " or ");
            at += 4;
        }
    }
}
