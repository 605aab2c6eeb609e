// SPDX-License-Identifier: Apache-2.0
// Reads the words after the verb into a struct cli_call: "--name value", "--name=value",
// "name=value" (for verbs without arguments), short letters, "--no_flag". Names are looked up among
// the verb's own options, then in the option table, which parses the values (settings/settings.c).
// main.c calls it once; whether settings fit together is checked by the job that reads them.
#include "cli.h"
#include "compat/compat.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/utf8.h"
#include "settings/settings.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// The words that are still to be read, and the current option.
struct reader {
    char **words;
    int count;
    int next;
    char name[OPTION_NAME_SIZE]; // without its dashes
    const char *attached;        // what follows "="; NULL: nothing
};

// --- names ---------------------------------------------------------------------------------------

// The number of the verb's own option of that name; -1: none.
static int find_own(const struct cli_verb *verb, const char *name) {
    for (size_t i = 0; i < verb->option_count; i++) {
        if (option_is_named(&verb->options[i], name)) {
            return (int)i;
        }
    }
    return -1;
}

int cli_row_applies(const struct cli_verb *verb, const struct option_row *row) {
    for (size_t i = 0; i < verb->option_count; i++) {
        const struct option_row *own = &verb->options[i];
        if (option_is_named(own, row->name) || option_is_named(row, own->name)) {
            return 0;
        }
    }
    return (row->jobs & verb->jobs) != 0 || strcmp(row->name, "quiet") == 0;
}

int cli_requires(const struct cli_verb *verb, const char *name) {
    const char *required = verb->required;
    char other[OPTION_NAME_SIZE];
    while (option_next_name(&required, other)) {
        if (option_same_name(name, other)) {
            return 1;
        }
    }
    return 0;
}

// What else the name is: an option of other verbs, or of another program.
static void describe_elsewhere(const struct cli_verb *verb, const char *name, char *text,
                               size_t size) {
    // The verb that has the row and is nearest to `verb`: with the same words, the same name, or
    // any.
    const struct option_row *row = option_find(name);
    const struct cli_verb *other, *owner = NULL;
    int best = -1;
    for (size_t i = 0; row != NULL && (other = cli_verb_at(i)) != NULL; i++) {
        const int same_name = strcmp(other->name, verb->name) == 0;
        const int same_task =
            other->task == verb->task ||
            (other->task != NULL && verb->task != NULL && strcmp(other->task, verb->task) == 0);
        const int nearness = 2 * same_name + same_task;
        if (nearness > best && cli_row_applies(other, row)) {
            owner = other;
            best = nearness;
        }
    }
    text[0] = '\0';
    if (owner != NULL) {
        char words[64];
        cli_verb_words(owner, " ", words, sizeof words);
        snprintf(text, size, "`berth %s%s%s` has it", words,
                 cli_shares_words(owner) ? " --objective " : "",
                 cli_shares_words(owner) ? owner->objective : "");
    } else {
        compat_describe_flag(name, text, size);
    }
}

static enum berth_status unknown(const struct cli_call *call, const char *name,
                                 struct berth_error *error) {
    const struct cli_verb *verb = call->verb;
    struct option_spelling nearest;
    char words[64], hint[512];
    cli_verb_words(verb, " ", words, sizeof words);
    describe_elsewhere(verb, name, hint, sizeof hint);
    if (hint[0] == '\0') {
        option_nearest(name, verb->jobs, &nearest);
        for (size_t i = 0; i < verb->option_count; i++) {
            option_row_nearer(name, &verb->options[i], &nearest);
        }
        if (option_is_near(name, nearest.distance)) {
            snprintf(hint, sizeof hint, "did you mean --%s?", nearest.text);
        }
    }
    return error_set(error, BERTH_USAGE,
                     "unknown option --%s; %s%s`berth %s --help all` lists them", name, hint,
                     hint[0] == '\0'                 ? ""
                     : hint[strlen(hint) - 1] == '?' ? " "
                                                     : "; ",
                     words);
}

// --- values --------------------------------------------------------------------------------------

int cli_is_truth_word(const char *word) {
    int ignored;
    return isalpha((unsigned char)*word) && number_parse_boolean(word, &ignored);
}

// Whether the word after a flag is its value. 0 and 1 may be arguments of the verb.
static int is_truth(const struct cli_call *call, const char *word) {
    int ignored;
    return call->verb->arguments_max == 0 ? number_parse_boolean(word, &ignored)
                                          : cli_is_truth_word(word);
}

static int is_option(const char *word) {
    return word[0] == '-' && word[1] != '\0';
}

// "learning-rate=3e-5": the form of launchers that pass keys on.
static int is_assignment(const struct cli_call *call, const char *word) {
    return call->verb->arguments_max == 0 && isalpha((unsigned char)*word) &&
           strchr(word, '=') != NULL;
}

// The next word, if the current option has no value attached; NULL at the end.
static const char *next_word(const struct reader *reader) {
    return reader->attached == NULL && reader->next < reader->count ? reader->words[reader->next]
                                                                    : NULL;
}

static enum berth_status require_word(struct reader *reader, const char **value,
                                      struct berth_error *error) {
    const char *word = next_word(reader);
    if (reader->attached != NULL) {
        *value = reader->attached;
        return BERTH_OK;
    }
    if (word == NULL || (word[0] == '-' && word[1] == '-' && isalpha((unsigned char)word[2]))) {
        return error_set(error, BERTH_USAGE, "option --%s needs a value%s%s%s", reader->name,
                         word != NULL ? ", found the option " : "", word != NULL ? word : "",
                         word != NULL ? " (write --name=VALUE for such a value)" : "");
    }
    reader->next++;
    *value = word;
    return BERTH_OK;
}

// The value of the current option. A flag takes the next word only if that is true, false, ...
static enum berth_status read_value(const struct cli_call *call, struct reader *reader,
                                    const struct option_row *row, const char **value,
                                    struct berth_error *error) {
    const char *word = next_word(reader);
    // Refuses 0 and 1 after a flag: elsewhere they are its value, in this verb files.
    if (row->type == OPTION_FLAG) {
        int ignored;
        if (word != NULL && !is_truth(call, word) && number_parse_boolean(word, &ignored)) {
            return error_set(
                error, BERTH_USAGE,
                "option %s: write --%s=%s for that value, or ./%s for a file of that name",
                row->name, row->name, word, word);
        }
    }
    *value = row->type == OPTION_FLAG ? "true" : row->alone;
    int is_value = row->type == OPTION_FLAG
                       ? word != NULL && is_truth(call, word)
                       : word != NULL && !is_option(word) && !is_assignment(call, word);
    return *value != NULL && reader->attached == NULL && !is_value
               ? BERTH_OK
               : require_word(reader, value, error);
}

// The message of a wrong value names the option as it was typed.
static enum berth_status check_value(const char *name, const struct option_row *row,
                                     const char *value, struct berth_error *error) {
    struct option_row typed = *row;
    union option_value ignored;
    typed.name = name;
    return option_parse(&typed, value, &ignored, error);
}

static enum berth_status set_own(struct cli_call *call, struct reader *reader, int index,
                                 struct berth_error *error) {
    const struct option_row *row = &call->verb->options[index];
    const char *value;
    TRY(read_value(call, reader, row, &value, error));
    TRY(check_value(reader->name, row, value, error));
    call->values[index] = value;
    if (row->type == OPTION_LIST) {
        // The list overwrites words that were already parsed.
        call->list = (const char *const *)reader->words;
        reader->words[call->list_count++] = (char *)value;
        while (next_word(reader) != NULL && !is_option(next_word(reader))) {
            reader->words[call->list_count++] = reader->words[reader->next++];
        }
    }
    return BERTH_OK;
}

// warmup_steps below 1 is a fraction of the updates.
static const struct option_row *row_of_value(const struct option_row *row, const char *value) {
    double number;
    const int is_fraction = number_parse_real(value, &number) && number > 0 && number < 1;
    return is_fraction && strcmp(row->name, "warmup_steps") == 0 ? option_find("warmup_proportion")
                                                                 : row;
}

// --- one option ----------------------------------------------------------------------------------

// The option of that name: the verb's own, or one of the option table; NULL: none.
static const struct option_row *find_option(const struct cli_verb *verb, const char *name) {
    const int own = find_own(verb, name);
    const struct option_row *row = option_find(name);
    return own >= 0 ? &verb->options[own] : row != NULL && cli_row_applies(verb, row) ? row : NULL;
}

// The name of the flag in "--no_flag" (argparse) or "--noflag" (absl); NULL: the verb has no such
// flag.
static const char *negated(const struct cli_verb *verb, const char *name) {
    if (strncmp(name, "no", 2) != 0) {
        return NULL;
    }
    const char *flag = name + (name[2] == '_' || name[2] == '-' ? 3 : 2);
    const struct option_row *row = find_option(verb, flag);
    return row != NULL && row->type == OPTION_FLAG ? flag : NULL;
}

static int is_no_colour(const char *name) {
    return option_same_name(name, "no_color") || option_same_name(name, "no_colour");
}

static enum berth_status set_option(struct cli_call *call, struct reader *reader,
                                    struct berth_error *error) {
    const char *name = reader->name;
    if (is_no_colour(name)) {
        cli_forbid_colours();
        return BERTH_OK;
    }
    int own = find_own(call->verb, name);
    if (own >= 0) {
        return set_own(call, reader, own, error);
    }
    const struct option_row *row = option_find(name);
    if (row != NULL && cli_row_applies(call->verb, row)) {
        const char *value;
        TRY(read_value(call, reader, row, &value, error));
        row = row_of_value(row, value);
        TRY(check_value(reader->name, row, value, error));
        if (row->unit != NULL && strcmp(row->unit, "FILE") == 0 &&
            settings_row_is_given(&call->config, row)) {
            cli_note(call, "--%s replaces the file that was given before: only one is read",
                     reader->name);
        }
        return settings_set_row(&call->config, row, value, error);
    }
    return unknown(call, name, error);
}

// Parses a word without its dashes: a name and, after "=", its value.
static enum berth_status read_option(struct cli_call *call, struct reader *reader, const char *word,
                                     struct berth_error *error) {
    size_t length = strcspn(word, "=");
    if (length >= sizeof reader->name || length == 0) {
        return error_set(error, BERTH_USAGE, "unknown option --%.*s", UTF8_SHOWN(word, 80));
    }
    memcpy(reader->name, word, length);
    reader->name[length] = '\0';
    reader->attached = word[length] == '=' ? word + length + 1 : NULL;
    // A negated flag is the flag with the value false.
    const char *name = reader->name, *flag = negated(call->verb, name);
    const int is_known = option_find(name) != NULL || find_option(call->verb, name) != NULL;
    if (flag != NULL && reader->attached == NULL && !is_known) {
        memmove(reader->name, flag, strlen(flag) + 1);
        reader->attached = "false";
    }
    return set_option(call, reader, error);
}

// The option of a letter.
static const struct letter {
    char letter;
    const char *option;
} letters[] = {{'m', "model"}, {'o', "output"}, {'q', "quiet"}, {'n', "dry_run"}};

static const struct letter *find_letter(const char *word) {
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        if (letters[i].letter == word[1] && word[2] == '\0') {
            return &letters[i];
        }
    }
    return NULL;
}

const char *cli_option_name(const char *word) {
    const int is_long = word[0] == '-' && word[1] == '-' && word[2] != '\0';
    const struct letter *letter = word[0] == '-' && word[1] != '\0' ? find_letter(word) : NULL;
    return is_long ? word + 2 : letter != NULL ? letter->option : NULL;
}

#define USAGE_SIZE 512

// Prints "berth VERB TASK USAGE" with the first form of the usage.
static void print_usage(const struct cli_verb *verb, char *text, size_t size) {
    char words[64];
    cli_verb_words(verb, " ", words, sizeof words);
    snprintf(text, size, "berth %s %.*s", words, (int)strcspn(verb->usage, "\n"), verb->usage);
}

static enum berth_status read_argument(struct cli_call *call, const char *word,
                                       struct berth_error *error) {
    if (call->argument_count >= CLI_ARGUMENTS_MAX) {
        return error_set(error, BERTH_USAGE, "\"%s\": `berth %s` takes at most %d names", word,
                         call->verb->name, CLI_ARGUMENTS_MAX);
    }
    if (call->argument_count >= call->verb->arguments_max) {
        char usage[USAGE_SIZE];
        print_usage(call->verb, usage, sizeof usage);
        return error_set(error, BERTH_USAGE, "unexpected argument \"%s\"; %susage: %s", word,
                         cli_is_arguments_file(call->verb, word)
                             ? "a file of options comes before the options; "
                             : "",
                         usage);
    }
    call->arguments[call->argument_count++] = word;
    return BERTH_OK;
}

// Whether `berth help --name` asks for the help of that option.
static int is_asked_for(const struct cli_call *call, const char *name) {
    const struct option_row *row = option_find(name);
    return call->verb->names_options && find_own(call->verb, name) < 0 && !is_no_colour(name) &&
           (row == NULL || !cli_row_applies(call->verb, row));
}

static enum berth_status read_word(struct cli_call *call, struct reader *reader,
                                   struct berth_error *error) {
    const char *word = reader->words[reader->next++];
    if (word[0] == '-' && word[1] == '-' && is_asked_for(call, word + 2)) {
        return read_argument(call, word + 2, error);
    }
    if (word[0] == '-' && word[1] == '-') {
        return read_option(call, reader, word + 2, error);
    }
    if (is_assignment(call, word)) {
        return read_option(call, reader, word, error);
    }
    if (is_option(word)) {
        const struct letter *found = find_letter(word);
        if (found == NULL) {
            return error_set(error, BERTH_USAGE,
                             "unknown option %s; the short ones are -h, -m, -o, -q and -n", word);
        }
        return read_option(call, reader, found->option, error);
    }
    return read_argument(call, word, error);
}

// --- the whole line ------------------------------------------------------------------------------

enum berth_status cli_missing_option(const struct cli_verb *verb, const char *name,
                                     struct berth_error *error) {
    char usage[USAGE_SIZE];
    print_usage(verb, usage, sizeof usage);
    return error_set(error, BERTH_USAGE, "option --%s is required; usage: %s", name, usage);
}

static enum berth_status check_required(const struct cli_call *call, struct berth_error *error) {
    const struct cli_verb *verb = call->verb;
    const char *required = verb->required;
    char name[OPTION_NAME_SIZE], usage[USAGE_SIZE];
    while (option_next_name(&required, name)) {
        if (!cli_is_given(call, name)) {
            return cli_missing_option(verb, name, error);
        }
    }
    if (call->argument_count < verb->arguments_min) {
        print_usage(verb, usage, sizeof usage);
        return error_set(error, BERTH_USAGE, "an argument is missing; usage: %s", usage);
    }
    return BERTH_OK;
}

static const char *text_of(const struct cli_call *call, const char *name) {
    const struct option_row *row = option_find(name);
    return find_own(call->verb, name) >= 0 ? cli_value(call, name)
           : row != NULL && settings_row_is_given(&call->config, row)
               ? *(const char *const *)((const char *)&call->config + row->offset)
               : NULL;
}

enum berth_status cli_check_output(const struct cli_call *call, const char *name, const char *value,
                                   struct berth_error *error) {
    char words[64];
    if (value == NULL || strcmp(value, "-") != 0 || call->verb->streams_output) {
        return BERTH_OK;
    }
    cli_verb_words(call->verb, " ", words, sizeof words);
    return error_set(error, BERTH_USAGE,
                     "%s -: `berth %s` does not write this to standard output; give it a name",
                     name, words);
}

static enum berth_status read_words(struct cli_call *call, struct reader *reader,
                                    struct berth_error *error) {
    int only_arguments = 0;
    while (reader->next < reader->count) {
        if (!only_arguments && strcmp(reader->words[reader->next], "--") == 0) {
            reader->next++;
            only_arguments = call->verb->arguments_max > 0; // before keys, "--" only separates
        } else if (only_arguments) {
            TRY(read_argument(call, reader->words[reader->next++], error));
        } else {
            TRY(read_word(call, reader, error));
        }
    }
    return BERTH_OK;
}

// Puts the options of the file that the first word names in its place: later ones win. *of_file:
// their number.
static enum berth_status read_options_file(int *count, char ***words, int *of_file,
                                           struct berth_error *error) {
    char **own;
    TRY(cli_read_arguments_file((*words)[0], of_file, &own, error));
    const size_t others = (size_t)*count - 1;
    char **all = cli_own(memory_array((size_t)*of_file + others + 1, sizeof *all));
    if (all == NULL) {
        return error_no_memory(error, 0, (*words)[0]);
    }
    memcpy(all, own, (size_t)*of_file * sizeof *all);
    memcpy(all + *of_file, *words + 1, others * sizeof *all);
    *count = *of_file + (int)others;
    *words = all;
    return BERTH_OK;
}

enum berth_status cli_parse(struct cli_call *call, const struct cli_verb *verb, int count,
                            char **words, struct berth_error *error) {
    *call = (struct cli_call){.verb = verb};
    settings_init(&call->config);
    int of_file = 0;
    const char *file = count > 0 && cli_is_arguments_file(verb, words[0]) ? words[0] : NULL;
    if (file != NULL) {
        TRY(read_options_file(&count, &words, &of_file, error));
    }
    struct reader reader = {.words = words, .count = count};
    const enum berth_status status = read_words(call, &reader, error);
    if (status != BERTH_OK) {
        return reader.next <= of_file ? error_prefix(error, status, "%s", file) : status;
    }
    TRY(verb->settle != NULL ? verb->settle(call, error) : BERTH_OK);
    static const char *const names[] = {"--output", "--output_dir", "--output_file",
                                        "--profile_output"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        TRY(cli_check_output(call, names[i], text_of(call, names[i] + strlen("--")), error));
    }
    return check_required(call, error);
}

// --- values --------------------------------------------------------------------------------------

int cli_is_given(const struct cli_call *call, const char *name) {
    int own = find_own(call->verb, name);
    if (own >= 0) {
        return call->values[own] != NULL;
    }
    const struct option_row *row = option_find(name);
    return row != NULL && settings_row_is_given(&call->config, row);
}

enum berth_status cli_set(struct cli_call *call, const char *row, const char *value,
                          struct berth_error *error) {
    return settings_set_row(&call->config, option_find(row), value, error);
}

enum berth_status cli_set_default(struct cli_call *call, const char *row, const char *value,
                                  struct berth_error *error) {
    return cli_is_given(call, row) ? BERTH_OK : cli_set(call, row, value, error);
}

const char *cli_value(const struct cli_call *call, const char *name) {
    int own = find_own(call->verb, name);
    return own < 0                     ? NULL
           : call->values[own] != NULL ? call->values[own]
                                       : call->verb->options[own].default_value;
}

// Values were checked when they were read.
static union option_value parsed(const struct cli_call *call, const char *name) {
    union option_value value = {0};
    const char *text = cli_value(call, name);
    if (text != NULL) {
        (void)option_parse(&call->verb->options[find_own(call->verb, name)], text, &value, NULL);
    }
    return value;
}

int64_t cli_integer(const struct cli_call *call, const char *name) {
    return parsed(call, name).integer;
}

double cli_real(const struct cli_call *call, const char *name) {
    return parsed(call, name).real;
}

int cli_flag(const struct cli_call *call, const char *name) {
    return parsed(call, name).flag;
}

enum berth_status cli_apply_cased(struct cli_call *call, struct berth_error *error) {
    if (cli_flag(call, "cased")) {
        if (call->config.model.do_lower_case > 0) {
            return error_set(error, BERTH_USAGE,
                             "--cased and --do_lower_case true contradict each other: give one");
        }
        return cli_set(call, "do_lower_case", "false", error);
    }
    return BERTH_OK;
}
