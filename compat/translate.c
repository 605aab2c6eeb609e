// SPDX-License-Identifier: Apache-2.0
// Reads a command line of another program by its row: finds the program, its flags and their
// values, sets the options that they become, and lets the program's function complete the command.
// Called by cli/as.c; what a flag means is in the program's row.
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "program.h"
#include "settings/settings.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

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
            compat_add_given(line, flag, name, "false");
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
    compat_add_given(line, flag, name, value);
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
        } else if (line->argument_count < line->program->arguments_max) {
            line->arguments[line->argument_count++] = words[reader.next++];
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

// --- what flags become ---------------------------------------------------------------------------

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
            compat_put_option(line->plan, &line->plan->commands[k], name, value);
        }
    }
    return BERTH_OK;
}

static enum berth_status translate(struct compat_line *line, struct berth_error *error) {
    struct compat_plan *plan = line->plan;
    plan->program = line->program;
    plan->command_count = 1;
    plan->commands[0] = (struct compat_command){.verb = line->program->verb};
    const char *settings = line->program->settings;
    while (settings != NULL && *settings != '\0') {
        const size_t length = strcspn(settings, " "), name = strcspn(settings, "=");
        compat_set(line, compat_text(line, "%.*s", (int)name, settings),
                   compat_text(line, "%.*s", (int)(length - name - 1), settings + name + 1));
        settings += length + strspn(settings + length, " ");
    }
    for (size_t i = 0; i < line->given_count; i++) {
        TRY(apply_flag(line, &line->given[i], error));
    }
    return line->program->finish != NULL ? line->program->finish(line, error) : BERTH_OK;
}

// --- which program -------------------------------------------------------------------------------

// Several programs may have one name: chooses the one that has the flags that were given.
static enum berth_status choose(struct compat_plan *plan, const char *path, size_t count,
                                const char *const *words, struct compat_line *chosen,
                                struct berth_error *error) {
    const struct compat_program *programs[COMPAT_CANDIDATES_MAX];
    const size_t program_count = compat_find_programs(path, programs);
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
    if (able_count == 1) {
        compat_note(chosen, "%s/%s, the only %s that has these options", chosen->program->system,
                    chosen->program->name, chosen->program->name);
    } else {
        memory_free(chosen->given);
        *chosen = (struct compat_line){0};
        status = able_count > 1
                     ? error_set(error, BERTH_USAGE,
                                 "several programs have these options: %.*s; write `berth as "
                                 "SYSTEM/%s`",
                                 (int)able.length, able.bytes, compat_last_part(path))
                     : error_set(error, BERTH_USAGE, "no %s has these options: %.*s",
                                 compat_last_part(path), (int)unable.length, unable.bytes);
    }
    buffer_done(&able);
    buffer_done(&unable);
    return status;
}

// --- DeepSpeed's launcher ------------------------------------------------------------------------

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

// --- the whole line ------------------------------------------------------------------------------

static enum berth_status read_program(struct compat_plan *plan, size_t own_count, size_t count,
                                      const char *const *words, struct berth_error *error) {
    struct compat_line line = {0};
    size_t at = own_count;
    enum berth_status status = BERTH_OK;
    const struct compat_program *programs[COMPAT_CANDIDATES_MAX];
    if (compat_find_programs(words[at], programs) == 1 && programs[0]->verb == NULL) {
        size_t used = 0;
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
    // Where memory ran out, a flag may seem to be missing.
    return plan->failed ? error_no_memory(error, 0, "a command line") : status;
}
