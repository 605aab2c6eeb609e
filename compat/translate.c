// SPDX-License-Identifier: Apache-2.0
// Reads a command line of another program by its row: finds the program, its flags and their
// values, sets the options that they become, and lets the program's function complete the command.
#include "core/launcher.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/options.h"
#include "core/words.h"
#include "program.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char COMPAT_READ[] = "read";

// --- memory of the plan
// ----------------------------------------------------------------------------

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

// --- the commands
// ----------------------------------------------------------------------------------

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

static void put_option(struct compat_plan *plan, struct compat_command *command, const char *name,
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
    put_option(line->plan, last(line), option, value);
}

void compat_argument(struct compat_line *line, const char *word) {
    put_option(line->plan, last(line), NULL, word);
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
        put_option(plan, command, before->options[i].name, before->options[i].value);
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

// --- flags and values
// ------------------------------------------------------------------------------

const char *compat_value(const struct compat_line *line, const char *name) {
    const char *value = NULL;
    for (size_t i = 0; i < line->given_count; i++) {
        if (strcmp(line->given[i].name, name) == 0) {
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
                           "option %s: expected a whole number of at least %" PRId64
                           ", found \"%s\"",
                           name, least, text);
}

// A flag of a program by its name; *name: as the row spells it.
static const struct compat_flag *find_flag(const struct compat_program *program, const char *typed,
                                           char name[OPTION_NAME_SIZE]) {
    for (size_t i = 0; program->flags[i] != NULL; i++) {
        for (const struct compat_flag *flag = program->flags[i]; flag->names != NULL; flag++) {
            const char *names = flag->names;
            while (option_next_name(&names, name)) {
                if (option_same_name(name, typed)) {
                    return flag;
                }
            }
        }
    }
    return NULL;
}

// The only flag that begins with what was typed, as argparse accepts it; NULL: none, or several.
static const struct compat_flag *find_abbreviated(const struct compat_program *program,
                                                  const char *typed, char name[OPTION_NAME_SIZE]) {
    const struct compat_flag *found = NULL;
    char each[OPTION_NAME_SIZE], begin[OPTION_NAME_SIZE];
    const size_t length = strlen(typed);
    for (size_t i = 0; length > 2 && program->flags[i] != NULL; i++) {
        for (const struct compat_flag *flag = program->flags[i]; flag->names != NULL; flag++) {
            const char *names = flag->names;
            while (option_next_name(&names, each)) {
                snprintf(begin, sizeof begin, "%.*s", (int)length, each);
                if (option_same_name(begin, typed)) {
                    if (found != NULL) {
                        return NULL;
                    }
                    found = flag;
                    memcpy(name, each, sizeof each);
                }
            }
        }
    }
    return found;
}

struct reader {
    const char *const *words;
    size_t count, next;
};

static int is_flag_word(const char *word) {
    return word[0] == '-' && word[1] != '\0' && !isdigit((unsigned char)word[1]) && word[1] != '.';
}

static int is_boolean(const char *word) {
    int truth;
    return number_parse_boolean(word, &truth);
}

static enum berth_status read_value(struct compat_line *line, struct reader *reader,
                                    const struct compat_flag *flag, const char *typed,
                                    const char *attached, const char **value,
                                    struct berth_error *error) {
    const char *next = reader->next < reader->count ? reader->words[reader->next] : NULL;
    if (attached != NULL) {
        *value = attached;
    } else if (flag->kind == COMPAT_SWITCH) {
        *value = next != NULL && is_boolean(next) && line->program->arguments_max == 0
                     ? reader->words[reader->next++]
                     : "true";
    } else if (next != NULL && (!is_flag_word(next) || flag->kind == COMPAT_VALUE) &&
               strncmp(next, "--", 2) != 0) {
        *value = reader->words[reader->next++];
        while (flag->kind == COMPAT_LIST && reader->next < reader->count &&
               !is_flag_word(reader->words[reader->next])) {
            reader->next++; // no list has an effect
        }
    } else if (flag->kind == COMPAT_VALUE) {
        return error_set(error, BERTH_USAGE, "option --%s of %s needs a value", typed,
                         line->program->name);
    } else {
        *value = "true";
    }
    if (flag->kind == COMPAT_SWITCH) {
        int truth;
        if (!number_parse_boolean(*value, &truth)) {
            return error_set(error, BERTH_USAGE, "option %s: expected true or false, found \"%s\"",
                             typed, *value);
        }
        *value = truth ? "true" : "false";
    }
    return BERTH_OK;
}

static enum berth_status unknown_flag(const struct compat_line *line, const char *typed,
                                      struct berth_error *error) {
    const struct compat_program *program = line->program;
    struct option_spelling nearest = {.distance = ~0u};
    for (size_t i = 0; program->flags[i] != NULL; i++) {
        for (const struct compat_flag *flag = program->flags[i]; flag->names != NULL; flag++) {
            option_nearer(typed, flag->names, &nearest);
        }
    }
    char hint[160] = "";
    if (option_is_near(typed, nearest.distance)) {
        snprintf(hint, sizeof hint, "; did you mean --%s?", nearest.text);
    }
    return error_set(error, BERTH_USAGE,
                     "%s of %s has no option --%s%s (`berth as %s/%s --help` lists them)",
                     program->name, program->system, typed, hint, program->system, program->name);
}

static void add_given(struct compat_line *line, const struct compat_flag *flag, const char *name,
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
    add_given(line, NULL, name, value);
}

// A word without its dashes: NAME, NAME=VALUE, noNAME.
static enum berth_status read_flag(struct compat_line *line, struct reader *reader,
                                   const char *word, struct berth_error *error) {
    char typed[OPTION_NAME_SIZE], name[OPTION_NAME_SIZE];
    const size_t length = strcspn(word, "=");
    const char *attached = word[length] == '=' ? word + length + 1 : NULL, *value = NULL;
    snprintf(typed, sizeof typed, "%.*s", (int)length, word);
    const struct compat_flag *flag = find_flag(line->program, typed, name);
    if (flag == NULL && attached == NULL && strncmp(typed, "no", 2) == 0) {
        const char *positive = typed + (typed[2] == '_' || typed[2] == '-' ? 3 : 2);
        flag = find_flag(line->program, positive, name);
        if (flag != NULL && flag->kind == COMPAT_SWITCH) {
            add_given(line, flag, name, "false");
            return BERTH_OK;
        }
        flag = NULL;
    }
    if (flag == NULL) {
        flag = find_abbreviated(line->program, typed, name);
    }
    if (flag == NULL) {
        return unknown_flag(line, typed, error);
    }
    TRY(read_value(line, reader, flag, typed, attached, &value, error));
    add_given(line, flag, name, value);
    return BERTH_OK;
}

static enum berth_status read_words(struct compat_line *line, size_t count,
                                    const char *const *words, struct berth_error *error) {
    struct reader reader = {.words = words, .count = count};
    while (reader.next < count) {
        const char *word = words[reader.next];
        const int is_assignment = isalpha((unsigned char)word[0]) && strchr(word, '=') != NULL &&
                                  line->program->arguments_max == 0;
        if (strcmp(word, "--") == 0) {
            reader.next++; // before the keys of a launcher
        } else if (is_flag_word(word) || is_assignment) {
            reader.next++;
            TRY(read_flag(line, &reader, word + strspn(word, "-"), error));
        } else if (line->program->arguments_max > 0) { // all that follows
            line->arguments = words + reader.next;
            line->argument_count = count - reader.next;
            if (line->argument_count <= line->program->arguments_max) {
                return BERTH_OK;
            }
            return error_set(error, BERTH_USAGE, "unexpected argument \"%s\" of %s",
                             words[reader.next + line->program->arguments_max],
                             line->program->name);
        } else {
            return error_set(error, BERTH_USAGE, "unexpected argument \"%s\" of %s", word,
                             line->program->name);
        }
    }
    const char *required = line->program->required;
    char name[OPTION_NAME_SIZE];
    while (option_next_name(&required, name)) {
        if (compat_value(line, name) == NULL) {
            return error_set(error, BERTH_USAGE, "%s of %s needs the option --%s",
                             line->program->name, line->program->system, name);
        }
    }
    return BERTH_OK;
}

// --- what flags become
// -----------------------------------------------------------------------------

// The value in Berth's words; NULL: it means that none is given.
static const char *translate_value(struct compat_line *line, const struct compat_flag *flag,
                                   const char *value) {
    const char *pairs = flag->values;
    const size_t length = strlen(value);
    while (pairs != NULL && *pairs != '\0') {
        const size_t pair = strcspn(pairs, " "), theirs = strcspn(pairs, "=");
        if (theirs == length && strncmp(pairs, value, length) == 0) {
            return theirs + 1 == pair
                       ? NULL
                       : compat_text(line, "%.*s", (int)(pair - theirs - 1), pairs + theirs + 1);
        }
        pairs += pair + strspn(pairs + pair, " ");
    }
    return value;
}

// A wrong value is reported under the name of the flag.
static enum berth_status check_value(const char *name, const char *option, const char *value,
                                     struct berth_error *error) {
    const struct option_row *row = option_find(option);
    union option_value ignored;
    if (row == NULL || strcmp(row->name, option) != 0) {
        return BERTH_OK;
    }
    struct option_row typed = *row;
    typed.name = name;
    return option_parse(&typed, value, &ignored, error);
}

static enum berth_status apply_flag(struct compat_line *line, const struct compat_given *given,
                                    struct berth_error *error) {
    const struct compat_flag *flag = given->flag;
    const char *value = given->value;
    if (flag->only != NULL) {
        return words_contain(flag->only, ' ', value)
                   ? BERTH_OK
                   : error_set(error, BERTH_USAGE, "option %s: \"%s\" is not available; %s",
                               given->name, value, flag->meaning);
    }
    if (flag->option == NULL) {
        compat_note(line, "--%s is not needed: %s", given->name, flag->meaning);
        return BERTH_OK;
    }
    if (flag->option == COMPAT_READ) {
        return BERTH_OK;
    }
    const char *option = flag->option[0] != '\0' ? flag->option : given->name;
    value = translate_value(line, flag, value);
    if (value == NULL) {
        return BERTH_OK;
    }
    if (flag->on != NULL) {
        if (strcmp(value, "true") == 0) {
            compat_set(line, option, flag->on);
        } else if (flag->off != NULL) {
            compat_default(line, option, flag->off);
        }
        return BERTH_OK;
    }
    TRY(check_value(given->name, option, value, error));
    compat_set(line, option, value);
    return BERTH_OK;
}

static void apply_settings(struct compat_line *line) {
    const char *settings = line->program->settings;
    while (settings != NULL && *settings != '\0') {
        const size_t length = strcspn(settings, " "), name = strcspn(settings, "=");
        compat_set(line, compat_text(line, "%.*s", (int)name, settings),
                   compat_text(line, "%.*s", (int)(length - name - 1), settings + name + 1));
        settings += length + strspn(settings + length, " ");
    }
}

// Options of Berth's own that precede the program: "--name=value", or "--name" for true.
static enum berth_status apply_own(struct compat_line *line, size_t count, const char *const *words,
                                   struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        const char *word = words[i] + 2;
        char typed[OPTION_NAME_SIZE];
        const size_t length = strcspn(word, "=");
        snprintf(typed, sizeof typed, "%.*s", (int)length, word);
        const struct option_row *row = option_find(typed);
        const char *value = word[length] == '=' ? word + length + 1 : "true";
        const char *name = row != NULL ? row->name : compat_text(line, "%s", typed);
        TRY(check_value(typed, name, value, error));
        for (size_t k = 0; k < line->plan->command_count; k++) {
            put_option(line->plan, &line->plan->commands[k], name, value);
        }
    }
    return BERTH_OK;
}

static enum berth_status translate(struct compat_line *line, struct berth_error *error) {
    struct compat_plan *plan = line->plan;
    plan->program = line->program;
    plan->command_count = 1;
    plan->commands[0] = (struct compat_command){.verb = line->program->verb};
    apply_settings(line);
    for (size_t i = 0; i < line->given_count; i++) {
        TRY(apply_flag(line, &line->given[i], error));
    }
    return line->program->finish != NULL ? line->program->finish(line, error) : BERTH_OK;
}

// --- which program
// ---------------------------------------------------------------------------------

enum { CANDIDATES_MAX = 8 };

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

// Whether the folder that the path names the program in, or BERTH_AS, is the program's system.
static int is_of_system(const struct compat_program *program, const char *path) {
    const char *name = last_part(path), *named = getenv("BERTH_AS");
    const size_t length = strlen(program->system);
    return (named != NULL && strcmp(named, program->system) == 0) ||
           ((size_t)(name - path) > length &&
            strncmp(name - 1 - length, program->system, length) == 0 &&
            ((size_t)(name - path) == length + 1 || name[-2 - (ptrdiff_t)length] == '/'));
}

static size_t find_programs(const char *path, const struct compat_program *found[CANDIDATES_MAX]) {
    size_t count = 0, chosen = 0;
    for (size_t i = 0; compat_systems[i] != NULL; i++) {
        for (const struct compat_program *program = compat_systems[i]; program->name != NULL;
             program++) {
            if (strcmp(program->name, last_part(path)) == 0 && count < CANDIDATES_MAX) {
                found[count++] = program;
            }
        }
    }
    for (size_t i = 0; count > 1 && i < count; i++) {
        if (is_of_system(found[i], path)) {
            found[chosen++] = found[i];
        }
    }
    return chosen > 0 ? chosen : count;
}

enum berth_status compat_find_program(const char *path, const struct compat_program **found,
                                      struct berth_error *error) {
    const struct compat_program *programs[CANDIDATES_MAX];
    const size_t count = find_programs(path, programs);
    if (count == 0) {
        struct option_spelling nearest = {.distance = ~0u};
        const char *name;
        for (size_t i = 0; (name = compat_program_name(i)) != NULL; i++) {
            option_nearer(last_part(path), name, &nearest);
        }
        return error_set(error, BERTH_USAGE,
                         "\"%s\": `berth as` has no program of that name%s%s%s; `berth as` alone "
                         "lists them",
                         last_part(path), nearest.distance < 8 ? "; did you mean " : "",
                         nearest.distance < 8 ? nearest.text : "", nearest.distance < 8 ? "?" : "");
    }
    *found = programs[0];
    if (count > 1) {
        char names[256] = "";
        for (size_t i = 0; i < count; i++) {
            const size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s%s/%s", i > 0 ? ", " : "",
                     programs[i]->system, programs[i]->name);
        }
        return error_set(error, BERTH_USAGE, "%s is a program of several systems: %s; name one",
                         last_part(path), names);
    }
    return BERTH_OK;
}

// Of several programs of a name, the one whose flags these are.
static enum berth_status choose(struct compat_plan *plan, const char *path, size_t count,
                                const char *const *words, struct compat_line *chosen,
                                struct berth_error *error) {
    const struct compat_program *programs[CANDIDATES_MAX];
    const size_t program_count = find_programs(path, programs);
    struct buffer able = {0}, unable = {0};
    size_t able_count = 0;
    if (program_count == 0) {
        return compat_find_program(path, programs, error);
    }
    for (size_t i = 0; i < program_count; i++) {
        struct compat_line line = {.program = programs[i], .plan = plan};
        const enum berth_status status = read_words(&line, count, words, error);
        if (program_count == 1) {
            *chosen = line;
            return status;
        }
        struct buffer *list = status == BERTH_OK ? &able : &unable;
        buffer_print(list, "%s%s/%s%s%s", list->length > 0 ? ", " : "", programs[i]->system,
                     programs[i]->name, status == BERTH_OK ? "" : ": ",
                     status == BERTH_OK ? "" : error->message);
        if (status == BERTH_OK && able_count++ == 0) {
            *chosen = line;
        } else {
            memory_free(line.given);
        }
    }
    enum berth_status status = BERTH_OK;
    if (able_count != 1) {
        memory_free(chosen->given);
        *chosen = (struct compat_line){0};
        status = able_count > 1
                     ? error_set(error, BERTH_USAGE,
                                 "several programs have these options: %.*s; write `berth as "
                                 "SYSTEM/%s`",
                                 (int)able.length, able.bytes, last_part(path))
                     : error_set(error, BERTH_USAGE, "no %s has these options: %.*s",
                                 last_part(path), (int)unable.length, unable.bytes);
    }
    buffer_done(&able);
    buffer_done(&unable);
    return status;
}

// --- DeepSpeed's launcher
// --------------------------------------------------------------------------

// `deepspeed --num_gpus 8 PROGRAM ...`: reads the launcher's flags. *used: the words before
// PROGRAM.
static enum berth_status read_launcher(struct compat_line *line, size_t count,
                                       const char *const *words, size_t *used,
                                       struct berth_error *error) {
    int64_t nodes, gpus;
    size_t end = 0;
    while (end < count && words[end][0] == '-') {
        end += strchr(words[end], '=') != NULL ? 1 : 2;
    }
    end = end < count ? end : count;
    TRY(read_words(line, end, words, error));
    TRY(compat_integer(line, "num_nodes", 1, 1, &nodes, error));
    TRY(compat_integer(line, "num_gpus", 1, 1, &gpus, error));
    compat_launch_processes(line, nodes * gpus);
    const char *hosts = compat_value(line, "hostfile");
    if (line->plan->launcher_count > 0 && hosts != NULL && strcmp(hosts, "/dev/null") != 0) {
        compat_launch(line, "--hostfile", hosts);
    }
    *used = end;
    return end < count ? BERTH_OK
                       : error_set(error, BERTH_USAGE, "deepspeed needs the name of a program");
}

static int is_launcher(const char *word) {
    const struct compat_program *programs[CANDIDATES_MAX];
    return find_programs(word, programs) == 1 && programs[0]->verb == NULL;
}

// --- the whole line
// --------------------------------------------------------------------------------

static enum berth_status read_program(struct compat_plan *plan, size_t own_count, size_t count,
                                      const char *const *words, struct berth_error *error) {
    struct compat_line line = {0};
    size_t at = own_count;
    enum berth_status status = BERTH_OK;
    if (is_launcher(words[at])) {
        const struct compat_program *programs[CANDIDATES_MAX];
        size_t used = 0;
        find_programs(words[at], programs);
        line = (struct compat_line){.program = programs[0], .plan = plan};
        at++;
        status = read_launcher(&line, count - at, words + at, &used, error);
        at += used;
        memory_free(line.given);
        line = (struct compat_line){0};
    }
    if (status == BERTH_OK) {
        status = choose(plan, words[at], count - at - 1, words + at + 1, &line, error);
    }
    if (status == BERTH_OK) {
        status = translate(&line, error);
    }
    if (status == BERTH_OK) {
        status = apply_own(&line, own_count, words, error);
    }
    memory_free(line.given);
    return status;
}

enum berth_status compat_read(struct compat_plan *plan, size_t count, const char *const *words,
                              struct berth_error *error) {
    size_t own_count = 0;
    *plan = (struct compat_plan){0};
    while (own_count < count && strncmp(words[own_count], "--", 2) == 0) {
        own_count++;
    }
    if (own_count == count) {
        return error_set(error, BERTH_USAGE, "`berth as` needs the name of a program");
    }
    const enum berth_status status = read_program(plan, own_count, count, words, error);
    return status == BERTH_OK && plan->failed
               ? error_set(error, BERTH_NO_MEMORY, "out of memory for a command line")
               : status;
}
