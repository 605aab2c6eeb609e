// SPDX-License-Identifier: Apache-2.0
// berth completion: the scripts that complete words in a shell (completion/). They ask the program
// itself, which knows its verbs and options: cli_complete. What a verb or an option means is taken
// from their tables; the names of files are left to the shell.
#include "completion.h"

#include "rows.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

// --- candidates ----------------------------------------------------------------------------------

// What the word that is being completed can be.
enum expected { EXPECT_WORDS, EXPECT_FOLDERS, EXPECT_FILES };

struct candidates {
    struct buffer lines;
    const char *typed; // the word so far
    enum expected expected;
};

static int begins(const char *word, const char *typed) {
    for (; *typed != '\0' && (*word == *typed || (*word == '_' && *typed == '-')); word++) {
        typed++;
    }
    return *typed == '\0';
}

// Puts the word with "-" or "_" within names, whichever the user has typed so far.
static void put_spelled(struct candidates *out, const char *word) {
    const size_t dashes = strspn(out->typed, "-");
    const int has_dashes = strchr(out->typed + dashes, '-') != NULL;
    for (; *word != '\0'; word++) {
        buffer_put_byte(&out->lines, has_dashes && *word == '_' ? '-' : *word);
    }
}

// A candidate of `before` and `word`, if the user's word so far begins it, and what it means.
static void offer(struct candidates *out, const char *before, const char *word,
                  const char *meaning) {
    char whole[OPTION_NAME_SIZE + 2];
    snprintf(whole, sizeof whole, "%s%s", before, word);
    if (begins(whole, out->typed)) {
        put_spelled(out, whole);
        buffer_put_byte(&out->lines, '\t');
        buffer_put_text(&out->lines, meaning);
        buffer_put_byte(&out->lines, '\n');
    }
}

static int is_before(const char *(*at)(size_t index), size_t index) {
    size_t i = 0;
    while (strcmp(at(i), at(index)) != 0) {
        i++;
    }
    return i < index;
}

// Each word once: verbs of several tasks have one name.
static void offer_each(struct candidates *out, const char *(*at)(size_t index)) {
    const char *word;
    for (size_t i = 0; (word = at(i)) != NULL; i++) {
        if (!is_before(at, i)) {
            offer(out, "", word, "");
        }
    }
}

// --- verbs ---------------------------------------------------------------------------------------

static void offer_verbs(struct candidates *out) {
    const struct cli_verb *verb;
    const char *last = "";
    for (size_t i = 0; (verb = cli_verb_at(i)) != NULL; i++) {
        const int is_first = cli_find_verb(verb->name, NULL, NULL) == verb;
        if (is_first && strcmp(verb->name, last) != 0) {
            offer(out, "", verb->name, verb->summary);
        }
        last = verb->name;
    }
    if (out->typed[0] == '-') {
        offer(out, "--", "help", "the verbs");
        offer(out, "--", "version", "the version");
        offer(out, "--", "no_color", "no colours");
    }
}

static void offer_tasks(struct candidates *out, const char *name) {
    const struct cli_verb *verb;
    for (size_t i = 0; (verb = cli_verb_at(i)) != NULL; i++) {
        if (strcmp(name, verb->name) == 0 && verb->task != NULL && !cli_shares_words(verb)) {
            offer(out, "", verb->task, verb->summary);
        }
    }
}

// --- options -------------------------------------------------------------------------------------

// If only dashes were typed, offers the common options by their first names, otherwise every
// spelling of every option.
static void offer_options(struct candidates *out, const struct cli_verb *verb) {
    const int is_short = strlen(out->typed) <= 2;
    const struct option_row *row;
    char alias[OPTION_NAME_SIZE];
    for (size_t i = 0; (row = cli_row_next(verb, &i)) != NULL;) {
        const char *aliases = is_short ? NULL : row->aliases;
        const char *help = option_help(row, verb->jobs).help;
        if (!is_short || cli_row_is_common(row)) {
            offer(out, "--", row->name, help);
        }
        while (option_next_name(&aliases, alias)) {
            offer(out, "--", alias, help);
        }
    }
}

// The values among the names of a list "a|b[:N]|FILE": those in small letters.
static void offer_choices(struct candidates *out, const char *list) {
    while (*list != '\0') {
        char word[OPTION_NAME_SIZE];
        const size_t length = strcspn(list, "|");
        const size_t stem = strcspn(list, "|[");
        snprintf(word, sizeof word, "%.*s", (int)stem, list);
        if (islower((unsigned char)word[0])) {
            offer(out, "", word, "");
        }
        list += length + (list[length] == '|');
    }
}

static void offer_value(struct candidates *out, const struct cli_verb *verb,
                        const struct option_row *row) {
    const char *choices = option_help(row, verb->jobs).choices;
    const char *unit = row->unit != NULL ? row->unit : "";
    offer_choices(out, row->type == OPTION_FLAG ? "true|false" : "");
    offer_choices(out, choices != NULL ? choices : unit);
    out->expected = strstr(unit, "FILE") != NULL  ? EXPECT_FILES
                    : strstr(unit, "DIR") != NULL ? EXPECT_FOLDERS
                                                  : EXPECT_WORDS;
}

// --- the word being completed --------------------------------------------------------------------

static const struct option_row *row_of(const struct cli_verb *verb, const char *word) {
    const char *name = cli_option_name(word);
    return name != NULL ? cli_row_named(verb, name) : NULL;
}

// The row of the option whose value is the word after words[count]; NULL: it is none. A list goes
// on to the next option.
static const struct option_row *takes_value(const struct cli_verb *verb, size_t count,
                                            const char *const *words) {
    size_t last = count - 1;
    const struct option_row *row = row_of(verb, words[last]);
    while (last > 0 && words[last][0] != '-') {
        row = row_of(verb, words[--last]);
    }
    const int is_next = last == count - 1;
    return row != NULL && (is_next ? row->type != OPTION_FLAG : row->type == OPTION_LIST) ? row
                                                                                          : NULL;
}

// "--name=value", of which only the value is completed; 0: it is no such word.
static int offer_assigned(struct candidates *out, const struct cli_verb *verb) {
    char name[OPTION_NAME_SIZE + 2];
    const char *equals = strchr(out->typed, '=');
    if (equals == NULL || strncmp(out->typed, "--", 2) != 0) {
        return 0;
    }
    snprintf(name, sizeof name, "%.*s", (int)(equals - out->typed - 2), out->typed + 2);
    const struct option_row *row = cli_row_named(verb, name);
    out->typed = equals + 1;
    if (row != NULL) {
        offer_value(out, verb, row);
    }
    return 1;
}

// `words` are those before the word being completed, the verb first.
static void offer_words(struct candidates *out, size_t count, const char *const *words) {
    const struct cli_verb *verb =
        cli_find_verb(words[0], count > 1 ? words[1] : NULL, cli_objective_of(count, words));
    if (verb == NULL) {
        return;
    }
    const char *before = words[count - 1];
    const struct option_row *row = takes_value(verb, count, words);
    if (row != NULL && (row->type != OPTION_LIST || out->typed[0] != '-')) {
        offer_value(out, verb, row);
    } else if (verb->task != NULL && count == 1 && out->typed[0] != '-') {
        offer_tasks(out, words[0]);
    } else if (!offer_assigned(out, verb) && out->typed[0] == '-') {
        offer_options(out, verb);
    } else if (out->typed[0] != '-') {
        if (verb->argument_at != NULL && cli_find_verb(before, NULL, NULL) == verb) {
            offer_each(out, verb->argument_at);
        } else if (verb->argument_at != NULL) {
            offer_tasks(out, before); // of `berth help finetune`
        } else if (verb->arguments_max > 0) {
            out->expected = EXPECT_FILES;
        }
    }
}

enum berth_status cli_complete(size_t count, const char *const *words, struct berth_error *error) {
    static const char *const names[] = {"words", "folders", "files"};
    struct candidates out = {.typed = count > 0 ? words[count - 1] : ""};
    if (count <= 1) {
        offer_verbs(&out);
    } else {
        offer_words(&out, count - 1, words);
    }
    puts(names[out.expected]);
    if (out.lines.length > 0) {
        fwrite(out.lines.bytes, 1, out.lines.length, stdout);
    }
    const int failed = out.lines.failed;
    buffer_done(&out.lines);
    return failed ? error_no_memory(error, 0, "the candidates") : BERTH_OK;
}

// --- the verb ------------------------------------------------------------------------------------

static const struct shell {
    const char *name, *script;
} shells[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};

static const char *shell_at(size_t index) {
    return index < sizeof shells / sizeof *shells ? shells[index].name : NULL;
}

static enum berth_status run_completion(struct cli_call *call, struct berth_error *error) {
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (strcmp(call->arguments[0], shells[i].name) == 0) {
            fputs(shells[i].script, stdout);
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_USAGE, "unknown shell \"%s\"; expected bash, zsh or fish",
                     call->arguments[0]);
}

const struct cli_verb cli_completion = {
    .name = "completion",
    .summary = "print the script that completes words of `berth` in a shell",
    .usage = "bash | zsh | fish",
    .example = "eval \"$(berth completion bash)\"                          # in ~/.bashrc\n"
               "berth completion zsh > ~/.zfunc/_berth                   # a folder of $fpath\n"
               "berth completion fish > ~/.config/fish/completions/berth.fish",
    .notes = "Completes verbs, tasks, options, their choices, and files or folders where an option "
             "takes one. The script calls the program for that. An installed Berth has the scripts "
             "where the shells look for them.",
    .arguments_min = 1,
    .arguments_max = 1,
    .argument_at = shell_at,
    .processes = CLI_FIRST,
    .run = run_completion,
};
