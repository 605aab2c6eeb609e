// SPDX-License-Identifier: Apache-2.0
// A command line of another program while it becomes commands of Berth: the memory of the plan, the
// options of its commands, the flags that were given. What the programs' functions are made of.
// translate.c fills it, the programs' files complete it, and text.c or cli/as.c uses the result.
#include "core/launcher.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "program.h"
#include "settings/settings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char COMPAT_READ[] = "read";

// --- memory of the plan --------------------------------------------------------------------------

// Makes room for one more element; NULL: out of memory, which the plan remembers.
static void *grown(struct compat_plan *plan, void *array, size_t *capacity, size_t count,
                   size_t size) {
    if (count < *capacity) {
        return array;
    }
    void *larger = memory_grow(array, capacity, count + 1, size);
    plan->failed |= larger == NULL;
    return larger;
}

static void *own(struct compat_plan *plan, void *block) {
    void *owned = block == NULL ? NULL
                                : grown(plan, plan->owned, &plan->owned_capacity, plan->owned_count,
                                        sizeof *plan->owned);
    if (owned == NULL) {
        plan->failed = 1;
        memory_free(block);
        return NULL;
    }
    plan->owned = owned;
    plan->owned[plan->owned_count++] = block;
    return block;
}

static const char *own_text(struct compat_plan *plan, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = own(plan, memory_new((size_t)length + 1));
    if (text == NULL) {
        return "";
    }
    vsnprintf(text, (size_t)length + 1, format, arguments);
    return text;
}

const char *compat_text(struct compat_line *line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *text = own_text(line->plan, format, arguments);
    va_end(arguments);
    return text;
}

void compat_note(struct compat_line *line, const char *format, ...) {
    struct compat_plan *plan = line->plan;
    va_list arguments;
    va_start(arguments, format);
    const char *text = own_text(plan, format, arguments);
    va_end(arguments);
    const char **notes =
        grown(plan, plan->notes, &plan->note_capacity, plan->note_count, sizeof *plan->notes);
    if (notes != NULL) {
        plan->notes = notes;
        plan->notes[plan->note_count++] = text;
    }
}

void compat_plan_free(struct compat_plan *plan) {
    for (size_t i = 0; i < plan->command_count; i++) {
        memory_free(plan->commands[i].options);
    }
    for (size_t i = 0; i < plan->owned_count; i++) {
        memory_free(plan->owned[i]);
    }
    memory_free(plan->owned);
    memory_free(plan->notes);
    *plan = (struct compat_plan){0};
}

// --- the commands --------------------------------------------------------------------------------

static struct compat_command *last(const struct compat_line *line) {
    return &line->plan->commands[line->plan->command_count - 1];
}

static struct compat_option *find_option(const struct compat_command *command, const char *name) {
    for (size_t i = 0; i < command->count; i++) {
        if (command->options[i].name != NULL && strcmp(command->options[i].name, name) == 0) {
            return &command->options[i];
        }
    }
    return NULL;
}

void compat_put_option(struct compat_plan *plan, struct compat_command *command, const char *name,
                       const char *value) {
    struct compat_option *option = name != NULL ? find_option(command, name) : NULL;
    if (option == NULL) {
        struct compat_option *options = grown(plan, command->options, &command->capacity,
                                              command->count, sizeof *command->options);
        if (options == NULL) {
            return;
        }
        command->options = options;
        option = &options[command->count++];
    }
    *option = (struct compat_option){name, value};
}

void compat_set(struct compat_line *line, const char *option, const char *value) {
    compat_put_option(line->plan, last(line), option, value);
}

void compat_argument(struct compat_line *line, const char *word) {
    compat_put_option(line->plan, last(line), NULL, word);
}

const char *compat_get(const struct compat_line *line, const char *option) {
    const struct compat_option *found = find_option(last(line), option);
    return found != NULL ? found->value : NULL;
}

void compat_default(struct compat_line *line, const char *option, const char *value) {
    if (compat_get(line, option) == NULL) {
        compat_set(line, option, value);
    }
}

void compat_set_integer(struct compat_line *line, const char *option, int64_t value) {
    compat_set(line, option, compat_text(line, "%" PRId64, value));
}

static void remove_option(struct compat_command *command, struct compat_option *option) {
    const size_t after = (size_t)(command->options + command->count - option) - 1;
    memmove(option, option + 1, after * sizeof *option);
    command->count--;
}

void compat_drop(struct compat_line *line, const char *option) {
    struct compat_option *found = find_option(last(line), option);
    if (found != NULL) {
        remove_option(last(line), found);
    }
}

void compat_rename(struct compat_line *line, const char *from, const char *to) {
    const char *value = compat_get(line, from);
    if (value != NULL) {
        compat_drop(line, from);
        compat_set(line, to, value);
    }
}

static const struct {
    const char *verb;
    unsigned job;
} jobs[] = {
    {"finetune squad", JOB_FINETUNE_SQUAD},
    {"finetune classify", JOB_FINETUNE_CLASSIFY},
    {"finetune tokens", JOB_FINETUNE_TOKENS},
    {"predict squad", JOB_PREDICT_SQUAD},
    {"predict classify", JOB_PREDICT_CLASSIFY},
    {"predict tokens", JOB_PREDICT_TOKENS},
    {"pretrain", JOB_PRETRAIN},
    {"pretrain --objective mlm", JOB_PRETRAIN_MLM},
    {"evaluate pretrain", JOB_EVALUATE_PRETRAIN},
    {"evaluate pretrain --objective mlm", JOB_EVALUATE_MLM},
    {"show squad", JOB_SHOW},
    {"prepare", JOB_PREPARE},
    {"pack", JOB_PACK},
};

static unsigned job_of(const char *verb) {
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        if (strcmp(jobs[i].verb, verb) == 0) {
            return jobs[i].job;
        }
    }
    return 0;
}

void compat_verb(struct compat_line *line, const char *verb) {
    struct compat_command *command = last(line);
    const unsigned job = job_of(verb);
    command->verb = verb;
    for (size_t i = command->count; i-- > 0;) {
        const char *name = command->options[i].name;
        const struct option_row *row = name != NULL ? option_find(name) : NULL;
        if (row == NULL || (row->jobs & job) == 0) {
            remove_option(command, &command->options[i]);
        }
    }
}

void compat_then(struct compat_line *line, const char *verb) {
    struct compat_plan *plan = line->plan;
    const struct compat_command *before = last(line);
    struct compat_command *command = &plan->commands[plan->command_count++];
    *command = (struct compat_command){.verb = verb};
    for (size_t i = 0; i < before->count; i++) {
        compat_put_option(plan, command, before->options[i].name, before->options[i].value);
    }
    compat_verb(line, verb);
}

void compat_launch(struct compat_line *line, const char *word, const char *value) {
    struct compat_plan *plan = line->plan;
    const char *const words[] = {word, value};
    for (int i = 0; i < 2 && words[i] != NULL && plan->launcher_count < COMPAT_LAUNCHER_MAX - 1;
         i++) {
        plan->launcher[plan->launcher_count++] = words[i];
    }
}

void compat_launch_processes(struct compat_line *line, int64_t count) {
    if (count > 1 && launch_find().size <= 1) {
        compat_launch(line, "mpirun", NULL);
        compat_launch(line, "-np", compat_text(line, "%" PRId64, count));
    }
}

const char **compat_command_words(struct compat_plan *plan, size_t index) {
    const struct compat_command *command = &plan->commands[index];
    const char **words = own(plan, memory_array(2 * command->count + 8, sizeof *words));
    size_t count = 0;
    if (words == NULL) {
        return NULL;
    }
    char *verb = own(plan, memory_string(command->verb)), *rest = verb;
    for (char *word; verb != NULL && (word = strtok_r(rest, " ", &rest)) != NULL;) {
        words[count++] = word;
    }
    for (size_t i = 0; i < command->count; i++) {
        const struct compat_option *option = &command->options[i];
        if (option->name != NULL) {
            char *name = own(plan, memory_new(strlen(option->name) + 3));
            if (name != NULL) {
                sprintf(name, "--%s", option->name);
            }
            words[count++] = name;
        }
        words[count++] = option->value;
    }
    words[count] = NULL;
    return plan->failed ? NULL : words;
}

// --- flags and values ----------------------------------------------------------------------------

const char *compat_value(const struct compat_line *line, const char *names) {
    const char *value = NULL;
    for (size_t i = 0; i < line->given_count; i++) {
        if (words_contain(names, ' ', line->given[i].name)) {
            value = line->given[i].value;
        }
    }
    return value;
}

int compat_is_on(const struct compat_line *line, const char *name) {
    const char *value = compat_value(line, name);
    int truth = 0;
    return value != NULL && number_parse_boolean(value, &truth) && truth;
}

enum berth_status compat_integer(const struct compat_line *line, const char *name, int64_t least,
                                 int64_t otherwise, int64_t *value, struct berth_error *error) {
    const char *text = compat_value(line, name);
    *value = otherwise;
    return text == NULL || (number_parse_integer(text, value) && *value >= least)
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "option %.*s: expected a whole number of at least %" PRId64
                           ", found \"%s\"",
                           (int)strcspn(name, " "), name, least, text);
}

void compat_add_given(struct compat_line *line, const struct compat_flag *flag, const char *name,
                      const char *value) {
    struct compat_plan *plan = line->plan;
    struct compat_given *given =
        grown(plan, line->given, &line->given_capacity, line->given_count, sizeof *line->given);
    if (given != NULL) {
        line->given = given;
        line->given[line->given_count++] =
            (struct compat_given){flag, compat_text(line, "%s", name), value};
    }
}

void compat_give(struct compat_line *line, const char *name, const char *value) {
    compat_add_given(line, NULL, name, value);
}
