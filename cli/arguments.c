// SPDX-License-Identifier: Apache-2.0
// The command line: "--name value", "--name=value", "name=value" (for verbs without arguments),
// short letters, "--no_flag". Names are looked up among the verb's own options, then in the option
// table, then among the original scripts' flags.
#include "cli.h"
#include "core/number.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define NAME_SIZE 64

// The words that are still to be read.
struct reader {
    char **words;
    int count;
    int next;
};

// --- names ---------------------------------------------------------------------------------------

// Takes the next of the names that are separated by blanks; 0 at the end.
static int next_name(const char **names, char name[NAME_SIZE]) {
    size_t length = strcspn(*names, " ");
    snprintf(name, NAME_SIZE, "%.*s", (int)length, *names);
    *names += length + strspn(*names + length, " ");
    return length > 0;
}

static int is_among(const char *name, const char *names) {
    char other[NAME_SIZE];
    const char *at = names != NULL ? names : "";
    while (next_name(&at, other)) {
        if (option_same_name(name, other)) {
            return 1;
        }
    }
    return 0;
}

static int named(const char *name, const char *known, const char *aliases) {
    return option_same_name(name, known) || is_among(name, aliases);
}

static int find_own(const struct cli_verb *verb, const char *name) {
    for (size_t i = 0; i < verb->option_count; i++) {
        if (named(name, verb->options[i].name, verb->options[i].aliases)) {
            return (int)i;
        }
    }
    return -1;
}

int cli_row_applies(const struct cli_verb *verb, const struct option_row *row) {
    return (row->jobs & verb->jobs) != 0 || strcmp(row->name, "quiet") == 0;
}

int cli_requires(const struct cli_verb *verb, const char *name) {
    return is_among(name, verb->required);
}

// Verbs that stand in for the original scripts.
static int takes_legacy(const struct cli_verb *verb) {
    return (verb->jobs & (JOB_TRAIN | JOB_PREDICT | JOB_SHOW)) != 0;
}

static enum berth_status unknown(const struct cli_call *call, const char *name,
                                 struct berth_error *error) {
    const struct cli_verb *verb = call->verb;
    struct option_spelling nearest;
    option_nearest(name, verb->jobs, &nearest);
    for (size_t i = 0; i < verb->option_count; i++) {
        option_nearer(name, verb->options[i].name, verb->options[i].aliases, &nearest);
    }
    if (takes_legacy(verb)) {
        cli_legacy_nearer(name, &nearest);
    }
    char hint[160] = "";
    if (option_is_near(name, nearest.distance)) {
        snprintf(hint, sizeof hint, "did you mean --%s? ", nearest.text);
    }
    return error_set(error, BERTH_USAGE, "unknown option --%s; %s`berth %s%s%s --help` lists them",
                     name, hint, verb->name, verb->task != NULL ? " " : "",
                     verb->task != NULL ? verb->task : "");
}

// --- values --------------------------------------------------------------------------------------

int cli_is_truth_word(const char *word) {
    int ignored;
    return isalpha((unsigned char)*word) && number_parse_truth(word, &ignored);
}

// A flag's value: what stands after "=", else the next word when it is true, false, ..., else true.
static const char *flag_value(struct reader *reader, const char *attached) {
    if (attached != NULL) {
        return attached;
    }
    if (reader->next < reader->count && cli_is_truth_word(reader->words[reader->next])) {
        return reader->words[reader->next++];
    }
    return "true";
}

static enum berth_status take_value(struct reader *reader, const char *name, const char *attached,
                                    const char **value, struct berth_error *error) {
    if (attached != NULL) {
        *value = attached;
        return BERTH_OK;
    }
    const char *word = reader->next < reader->count ? reader->words[reader->next] : NULL;
    if (word == NULL || (word[0] == '-' && word[1] == '-' && isalpha((unsigned char)word[2]))) {
        return error_set(error, BERTH_USAGE, "option --%s needs a value%s%s%s", name,
                         word != NULL ? ", found the option " : "", word != NULL ? word : "",
                         word != NULL ? " (write --name=VALUE for such a value)" : "");
    }
    reader->next++;
    *value = word;
    return BERTH_OK;
}

static enum berth_status check_own(const struct cli_option *option, const char *value,
                                   struct berth_error *error) {
    int64_t integer = 0;
    double real = 0.0;
    int truth;
    int good = 1;
    const char *expected = "some text";
    if (option->kind == CLI_FLAG) {
        good = number_parse_truth(value, &truth);
        expected = "true or false";
    } else if (option->kind == CLI_INTEGER) {
        good = number_parse_integer(value, &integer) && (double)integer >= option->minimum &&
               (double)integer <= option->maximum;
        expected = "a whole number";
    } else if (option->kind == CLI_REAL) {
        good =
            number_parse_real(value, &real) && real >= option->minimum && real <= option->maximum;
        expected = "a number";
    }
    if (good) {
        return BERTH_OK;
    }
    char range[96] = "";
    if (option->kind == CLI_INTEGER || option->kind == CLI_REAL) {
        number_format(range, sizeof range, " from %.10g to %.10g", option->minimum,
                      option->maximum);
    }
    return error_set(error, BERTH_USAGE, "option %s: expected %s%s, found \"%s\"", option->name,
                     expected, range, value);
}

static int is_option(const char *word) {
    return word[0] == '-' && word[1] != '\0';
}

// Words that were read are no longer needed: the list is gathered in their place.
static enum berth_status take_list(struct cli_call *call, struct reader *reader, int index,
                                   const char *attached, struct berth_error *error) {
    const char *value;
    TRY(take_value(reader, call->verb->options[index].name, attached, &value, error));
    call->values[index] = value;
    call->list = (const char *const *)reader->words;
    reader->words[call->list_count++] = (char *)value;
    while (attached == NULL && reader->next < reader->count &&
           !is_option(reader->words[reader->next])) {
        reader->words[call->list_count++] = reader->words[reader->next++];
    }
    return BERTH_OK;
}

static enum berth_status set_own(struct cli_call *call, struct reader *reader, int index,
                                 const char *attached, struct berth_error *error) {
    const struct cli_option *option = &call->verb->options[index];
    const char *value;
    if (option->kind == CLI_LIST) {
        return take_list(call, reader, index, attached, error);
    }
    if (option->kind == CLI_FLAG) {
        value = flag_value(reader, attached);
    } else {
        TRY(take_value(reader, option->name, attached, &value, error));
    }
    TRY(check_own(option, value, error));
    call->values[index] = value;
    return BERTH_OK;
}

// --bert_model names the geometry where --init_checkpoint or --model_file names the weights.
static int is_mere_label(struct cli_call *call, const char *name, const char *value) {
    if (option_same_name(name, "model_file") && strcmp(value, "0") == 0) {
        return 1; // the originals' word for "none"
    }
    if (option_same_name(name, "init_checkpoint") || option_same_name(name, "model_file")) {
        call->model_is_checkpoint = 1;
    }
    return option_same_name(name, "bert_model") &&
           (call->model_is_checkpoint || (call->verb->jobs & JOB_PRETRAIN) != 0);
}

// Whether no value follows.
static int stands_alone(const struct reader *reader) {
    return reader->next == reader->count || is_option(reader->words[reader->next]);
}

static enum berth_status set_row(struct cli_call *call, struct reader *reader,
                                 const struct option_row *row, const char *name,
                                 const char *attached, struct berth_error *error) {
    const char *value;
    if (row->type == OPTION_FLAG) {
        value = flag_value(reader, attached);
    } else if (row->alone != NULL && attached == NULL && stands_alone(reader)) {
        value = row->alone;
    } else {
        TRY(take_value(reader, name, attached, &value, error));
    }
    if (is_mere_label(call, name, value)) {
        cli_note(call, "--%s %s has no effect: %s", name, value,
                 option_same_name(name, "bert_model") ? "it is only a name here" : "it means none");
        return BERTH_OK;
    }
    return option_set(&call->config, row, value, error);
}

// A row of another job: the originals use one command line for training and prediction.
static enum berth_status skip_row(struct cli_call *call, struct reader *reader,
                                  const struct option_row *row, const char *attached,
                                  struct berth_error *error) {
    const char *value = flag_value(reader, attached);
    if (row->type != OPTION_FLAG && attached == NULL) {
        TRY(take_value(reader, row->name, attached, &value, error));
    }
    cli_note(call, "--%s has no effect in `berth %s`", row->name, call->verb->name);
    return BERTH_OK;
}

// "learning-rate=3e-5": the form of launchers that pass keys on.
static int is_assignment(const struct cli_call *call, const char *word) {
    return call->verb->arguments_most == 0 && isalpha((unsigned char)*word) &&
           strchr(word, '=') != NULL;
}

// A word that may be a file: neither an option nor "key=value".
static int file_follows(const struct cli_call *call, const struct reader *reader) {
    return !stands_alone(reader) && !is_assignment(call, reader->words[reader->next]);
}

static enum berth_status set_legacy(struct cli_call *call, struct reader *reader, const char *name,
                                    enum cli_legacy_value kind, const char *attached,
                                    struct berth_error *error) {
    const char *value;
    if (kind == LEGACY_NEEDS_VALUE ||
        (kind == LEGACY_MAY_HAVE_FILE && attached == NULL && file_follows(call, reader))) {
        TRY(take_value(reader, name, attached, &value, error));
    } else {
        value = flag_value(reader, attached);
    }
    return cli_legacy_set(call, name, value, error);
}

// --- one option ----------------------------------------------------------------------------------

// "--no_flag" for a flag that the verb has.
static const struct option_row *negated(const struct cli_verb *verb, const char *name) {
    if (strncmp(name, "no_", 3) != 0 && strncmp(name, "no-", 3) != 0) {
        return NULL;
    }
    const struct option_row *row = option_find(name + 3);
    return row != NULL && row->type == OPTION_FLAG && cli_row_applies(verb, row) ? row : NULL;
}

static enum berth_status set_option(struct cli_call *call, struct reader *reader, const char *name,
                                    const char *attached, struct berth_error *error) {
    const unsigned model_runs = JOB_TRAIN | JOB_PREDICT;
    if (option_same_name(name, "no_color") || option_same_name(name, "no_colour")) {
        cli_forbid_colours();
        return BERTH_OK;
    }
    int own = find_own(call->verb, name);
    cli_legacy_note_spelling(call, name);
    if (own >= 0) {
        return set_own(call, reader, own, attached, error);
    }
    const struct option_row *row = option_find(name);
    if (row != NULL && cli_row_applies(call->verb, row)) {
        return set_row(call, reader, row, name, attached, error);
    }
    const struct option_row *off = negated(call->verb, name);
    if (off != NULL && attached == NULL) {
        return option_set(&call->config, off, "false", error);
    }
    enum cli_legacy_value value;
    if (takes_legacy(call->verb) && cli_legacy_find(name, &value)) {
        return set_legacy(call, reader, name, value, attached, error);
    }
    if (row != NULL && (call->verb->jobs & model_runs) != 0) {
        return skip_row(call, reader, row, attached, error);
    }
    return unknown(call, name, error);
}

// "name" and, after "=", the attached value of a word without its dashes.
static enum berth_status split(const char *word, char name[NAME_SIZE], const char **attached,
                               struct berth_error *error) {
    size_t length = strcspn(word, "=");
    if (length >= NAME_SIZE || length == 0) {
        return error_set(error, BERTH_USAGE, "unknown option --%.80s", word);
    }
    memcpy(name, word, length);
    name[length] = '\0';
    *attached = word[length] == '=' ? word + length + 1 : NULL;
    return BERTH_OK;
}

static const char *long_name(char letter) {
    static const struct {
        char letter;
        const char *name;
    } letters[] = {{'m', "model"}, {'o', "output"}, {'q', "quiet"}, {'n', "dry_run"}};
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++) {
        if (letters[i].letter == letter) {
            return letters[i].name;
        }
    }
    return NULL;
}

static enum berth_status read_short(struct cli_call *call, struct reader *reader, const char *word,
                                    struct berth_error *error) {
    const char *name = long_name(word[1]);
    if (name == NULL || word[2] != '\0') {
        return error_set(error, BERTH_USAGE,
                         "unknown option %s; the short ones are -h, -m, -o, -q and -n", word);
    }
    return set_option(call, reader, name, NULL, error);
}

static enum berth_status read_argument(struct cli_call *call, const char *word,
                                       struct berth_error *error) {
    if (call->argument_count >= call->verb->arguments_most) {
        return error_set(error, BERTH_USAGE, "unexpected argument \"%s\"; usage: berth %s%s%s %s",
                         word, call->verb->name, call->verb->task != NULL ? " " : "",
                         call->verb->task != NULL ? call->verb->task : "", call->verb->usage);
    }
    call->arguments[call->argument_count++] = word;
    return BERTH_OK;
}

static enum berth_status read_word(struct cli_call *call, struct reader *reader,
                                   struct berth_error *error) {
    const char *word = reader->words[reader->next++];
    char name[NAME_SIZE];
    const char *attached = NULL;
    if (word[0] == '-' && word[1] == '-') {
        TRY(split(word + 2, name, &attached, error));
        return set_option(call, reader, name, attached, error);
    }
    if (is_assignment(call, word)) {
        TRY(split(word, name, &attached, error));
        return set_option(call, reader, name, attached, error);
    }
    if (is_option(word)) {
        return read_short(call, reader, word, error);
    }
    return read_argument(call, word, error);
}

// --- the whole line ------------------------------------------------------------------------------

static int was_given(const struct cli_call *call, const char *name) {
    int own = find_own(call->verb, name);
    if (own >= 0) {
        return call->values[own] != NULL;
    }
    const struct option_row *row = option_find(name);
    return row != NULL && option_is_given(&call->config, row);
}

static enum berth_status check_required(const struct cli_call *call, struct berth_error *error) {
    const struct cli_verb *verb = call->verb;
    if (call->download_only) {
        return BERTH_OK; // what the verb needs to run is not needed for that
    }
    char name[NAME_SIZE];
    for (const char *at = verb->required != NULL ? verb->required : ""; next_name(&at, name);) {
        if (!was_given(call, name)) {
            return error_set(error, BERTH_USAGE, "option --%s is needed; usage: berth %s%s%s %s",
                             name, verb->name, verb->task != NULL ? " " : "",
                             verb->task != NULL ? verb->task : "", verb->usage);
        }
    }
    if (call->argument_count < verb->arguments_least) {
        return error_set(error, BERTH_USAGE, "an argument is missing; usage: berth %s%s%s %s",
                         verb->name, verb->task != NULL ? " " : "",
                         verb->task != NULL ? verb->task : "", verb->usage);
    }
    return BERTH_OK;
}

enum berth_status cli_parse(struct cli_call *call, const struct cli_verb *verb, int count,
                            char **words, struct berth_error *error) {
    *call = (struct cli_call){.verb = verb, .do_train = -1, .do_predict = -1};
    berth_config_init(&call->config);
    struct reader reader = {.words = words, .count = count};
    int only_arguments = 0;
    while (reader.next < count) {
        if (!only_arguments && strcmp(words[reader.next], "--") == 0) {
            reader.next++;
            only_arguments = verb->arguments_most > 0; // before keys, "--" is a mere separator
        } else if (only_arguments) {
            TRY(read_argument(call, words[reader.next++], error));
        } else {
            TRY(read_word(call, &reader, error));
        }
    }
    TRY(cli_legacy_finish(call, error));
    return check_required(call, error);
}

// The path is the process's: it is used until the end.
static enum berth_status find_model(const char **name, struct berth_error *error) {
    char *path;
    if (*name == NULL) {
        return BERTH_OK;
    }
    TRY(berth_find_model(*name, &path, error));
    if (strcmp(path, *name) == 0) {
        berth_string_free(path);
        return BERTH_OK;
    }
    *name = path;
    return BERTH_OK;
}

enum berth_status cli_find_models(struct cli_call *call, struct berth_error *error) {
    for (size_t i = 0; i < call->verb->models && i < call->argument_count; i++) {
        TRY(find_model(&call->arguments[i], error));
    }
    return find_model(&call->config.model_name_or_path, error);
}

// --- values of the verb's own options ------------------------------------------------------------

const char *cli_value(const struct cli_call *call, const char *name) {
    int own = find_own(call->verb, name);
    return own >= 0 ? call->values[own] : NULL;
}

int64_t cli_integer(const struct cli_call *call, const char *name, int64_t otherwise) {
    const char *value = cli_value(call, name);
    int64_t number = otherwise;
    if (value != NULL) {
        number_parse_integer(value, &number);
    }
    return number;
}

double cli_real(const struct cli_call *call, const char *name, double otherwise) {
    const char *value = cli_value(call, name);
    double number = otherwise;
    if (value != NULL) {
        number_parse_real(value, &number);
    }
    return number;
}

int cli_flag(const struct cli_call *call, const char *name) {
    const char *value = cli_value(call, name);
    int truth = 0;
    if (value != NULL) {
        number_parse_truth(value, &truth);
    }
    return truth;
}
