// SPDX-License-Identifier: Apache-2.0
// berth man: manual pages from the tables of verbs, options and topics, in the man(7) language. The
// words of a paragraph are put one after the other, in lines that a manual page may have. Texts are
// those that help.c prints; an installation makes the pages once, when it is built.
#include "core/file.h"
#include "core/memory.h"
#include "rows.h"
#include "topics.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define LINE_WIDTH 78

struct manual {
    struct buffer text;
    size_t line, blank; // where the line and its last blank are; a blank at 0 is none
    int is_bold;        // within `...`
};

// --- roff ----------------------------------------------------------------------------------------

// Characters that roff would read or print as others.
static const struct {
    char character;
    const char *escape;
} escapes[] = {{'\\', "\\e"},  {'-', "\\-"},   {'\'', "\\(aq"},
               {'^', "\\(ha"}, {'~', "\\(ti"}, {'"', "\\(dq"}};

static void put_raw(struct manual *manual, const char *text) {
    buffer_put_text(&manual->text, text);
}

static void put_character(struct manual *manual, char c) {
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        if (escapes[i].character == c) {
            put_raw(manual, escapes[i].escape);
            return;
        }
    }
    if (c == '`') { // what is between two of them is to be typed
        manual->is_bold = !manual->is_bold;
        put_raw(manual, manual->is_bold ? "\\fB" : "\\fR");
        return;
    }
    buffer_put_byte(&manual->text, c);
}

static void put_characters(struct manual *manual, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        put_character(manual, text[i]);
    }
}

static void end_line(struct manual *manual) {
    if (manual->text.length > manual->line) {
        buffer_put_byte(&manual->text, '\n');
    }
    manual->line = manual->text.length;
    manual->blank = 0;
}

// A line that became too long ends at its last blank.
static void break_line(struct manual *manual) {
    if (manual->blank > 0 && !manual->text.failed) {
        manual->text.bytes[manual->blank] = '\n';
        manual->line = manual->blank + 1;
        manual->blank = 0;
    }
}

// The words of a text, after those before it. A point at the start of a line would be a macro.
static void put_words(struct manual *manual, const char *text, size_t length) {
    int starts = manual->text.length == manual->line;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == ' ') {
            manual->blank = manual->text.length;
        }
        if (text[i] == '.' && starts) {
            put_raw(manual, "\\&");
        }
        put_character(manual, text[i]);
        starts = text[i] == ' ';
        if (manual->text.length - manual->line > LINE_WIDTH) {
            break_line(manual);
        }
    }
}

static void put_text(struct manual *manual, const char *text) {
    put_words(manual, text, strlen(text));
}

static void put_macro(struct manual *manual, const char *line) {
    end_line(manual);
    put_raw(manual, line);
    end_line(manual);
}

static void put_bold(struct manual *manual, const char *before, const char *text) {
    put_raw(manual, "\\fB");
    put_text(manual, before);
    put_text(manual, text);
    put_raw(manual, "\\fR");
    if (manual->text.length - manual->line > LINE_WIDTH) {
        break_line(manual);
    }
}

static void put_title(struct manual *manual, const char *name, const char *section,
                      const char *summary) {
    put_raw(manual, ".\\\" Made by `berth man` from the tables of the program.\n.TH ");
    for (const char *at = name; *at != '\0'; at++) {
        put_character(manual, (char)toupper((unsigned char)*at));
    }
    put_raw(manual, " ");
    put_raw(manual, section);
    put_raw(manual, " " BERTH_RELEASE_DATE " \"Berth ");
    put_raw(manual, berth_version());
    put_raw(manual, "\" \"Berth Manual\"\n.ad l\n.nh\n.SH NAME\n");
    end_line(manual);
    put_characters(manual, name, strlen(name));
    put_raw(manual, " \\- ");
    put_text(manual, summary);
    end_line(manual);
}

// --- parts ---------------------------------------------------------------------------------------

static void put_option(struct manual *manual, const struct cli_verb *verb,
                       const struct option_row *row) {
    const char *aliases = row->aliases, *before = "; also ";
    char alias[OPTION_NAME_SIZE];
    struct buffer text DONE_BY(buffer_done) = {0};
    put_macro(manual, ".TP");
    put_bold(manual, "--", row->name);
    cli_row_put_unit(&text, row);
    put_words(manual, text.bytes, text.length);
    end_line(manual);
    buffer_clear(&text);
    cli_row_put_text(&text, verb, row, 1);
    put_words(manual, text.bytes, text.length);
    while (option_next_name(&aliases, alias)) {
        put_text(manual, before);
        put_bold(manual, "--", alias);
        before = ", ";
    }
    manual->text.failed |= text.failed;
}

static void put_options(struct manual *manual, const struct cli_verb *verb) {
    const struct option_row *row;
    const char *group = "";
    put_macro(manual, ".SH OPTIONS");
    put_text(manual, cli_rows_note);
    for (size_t i = 0; (row = cli_row_next(verb, &i)) != NULL;) {
        if (row->group == NULL) {
            put_option(manual, verb, row);
        }
    }
    for (size_t i = 0; (row = cli_row_next(verb, &i)) != NULL;) {
        if (row->group != NULL && strcmp(group, row->group) != 0) {
            group = row->group;
            put_macro(manual, ".SS");
            put_macro(manual, group);
        }
        if (row->group != NULL) {
            put_option(manual, verb, row);
        }
    }
}

static void put_entries(struct manual *manual, const struct cli_topic *topic) {
    for (size_t i = 0; i < topic->entry_count; i++) {
        const struct cli_entry *entry = &topic->entries[i];
        end_line(manual);
        if (entry->term == NULL) {
            put_macro(manual, i > 0 ? ".PP" : "");
        } else {
            put_macro(manual, ".TP");
            put_bold(manual, "", entry->term);
            end_line(manual);
        }
        put_text(manual, entry->text);
    }
}

// --- pages ---------------------------------------------------------------------------------------

#define PAGE_NAME_SIZE 80

static void name_page(const struct cli_verb *verb, char name[PAGE_NAME_SIZE]) {
    char words[64];
    cli_verb_words(verb, "-", words, sizeof words);
    const int has_more = cli_shares_words(verb);
    snprintf(name, PAGE_NAME_SIZE, "berth-%s%s%s", words, has_more ? "-" : "",
             has_more ? verb->library_task : "");
}

static void put_verb_page(struct manual *manual, const struct cli_verb *verb) {
    char name[PAGE_NAME_SIZE];
    name_page(verb, name);
    put_title(manual, name, "1", verb->summary);
    char words[64];
    struct cli_line usage = {.next = verb->usage};
    cli_verb_words(verb, " ", words, sizeof words);
    put_macro(manual, ".SH SYNOPSIS");
    while (cli_next_line(&usage)) {
        put_bold(manual, "berth ", words);
        put_text(manual, " ");
        put_words(manual, usage.text, usage.length);
        put_macro(manual, *usage.next != '\0' ? ".br" : "");
    }
    if (verb->notes != NULL) {
        put_macro(manual, ".SH DESCRIPTION");
        put_text(manual, verb->notes);
    }
    put_options(manual, verb);
    put_macro(manual, ".SH \"EXIT STATUS\"");
    put_entries(manual, cli_find_topic("exit-codes"));
    put_macro(manual, ".SH EXAMPLES");
    put_macro(manual, ".nf\n.RS 4");
    struct cli_line line = {.next = verb->example};
    while (cli_next_line(&line)) {
        put_characters(manual, line.text, line.length);
        end_line(manual);
    }
    put_macro(manual, ".RE\n.fi");
    put_macro(manual, ".SH \"SEE ALSO\"");
    put_macro(manual, ".BR berth (1),\n.BR berth\\-options (7),\n.BR berth\\-environment (7)");
}

static void put_topic_page(struct manual *manual, const struct cli_topic *topic) {
    char name[PAGE_NAME_SIZE];
    snprintf(name, sizeof name, "berth-%s", topic->name);
    put_title(manual, name, "7", topic->summary);
    put_macro(manual, ".SH DESCRIPTION");
    put_entries(manual, topic);
    put_macro(manual, ".SH \"SEE ALSO\"");
    put_macro(manual, ".BR berth (1)");
}

// "berth-answer(1)" and its summary.
static void put_reference(struct manual *manual, const char *name, const char *section,
                          const char *summary) {
    put_macro(manual, ".TP");
    put_bold(manual, "", name);
    put_text(manual, section);
    end_line(manual);
    put_text(manual, summary);
}

static void put_program_page(struct manual *manual) {
    const struct cli_verb *verb;
    const struct cli_topic *topic;
    char name[PAGE_NAME_SIZE];
    put_title(manual, "berth", "1", "pre-train, fine-tune and query BERT, in C, without padding");
    put_macro(manual, ".SH SYNOPSIS");
    put_macro(manual, ".B berth\nVERB [options]");
    put_macro(manual, ".SH VERBS");
    for (size_t i = 0; (verb = cli_verb_at(i)) != NULL; i++) {
        name_page(verb, name);
        put_reference(manual, name, "(1)", verb->summary);
    }
    put_macro(manual, ".SH TOPICS");
    for (size_t i = 0; (topic = cli_topic_at(i)) != NULL; i++) {
        snprintf(name, sizeof name, "berth-%s", topic->name);
        put_reference(manual, name, "(7)", topic->summary);
    }
    put_macro(manual, ".SH \"EXIT STATUS\"");
    put_entries(manual, cli_find_topic("exit-codes"));
}

// --- output --------------------------------------------------------------------------------------

static enum berth_status write_page(struct manual *manual, const char *folder, const char *name,
                                    const char *section, struct berth_error *error) {
    const struct path path = path_format("%s/%s.%s", folder, name, section);
    end_line(manual);
    enum berth_status status =
        manual->text.failed ? error_no_memory(error, 0, "a manual page")
                            : file_write(path.text, manual->text.bytes, manual->text.length, error);
    buffer_clear(&manual->text);
    manual->line = 0;
    return status;
}

static enum berth_status write_all(struct manual *manual, const char *folder,
                                   struct berth_error *error) {
    const struct cli_verb *verb;
    const struct cli_topic *topic;
    char name[PAGE_NAME_SIZE];
    TRY(dir_make(folder, error));
    put_program_page(manual);
    TRY(write_page(manual, folder, "berth", "1", error));
    for (size_t i = 0; (verb = cli_verb_at(i)) != NULL; i++) {
        name_page(verb, name);
        put_verb_page(manual, verb);
        TRY(write_page(manual, folder, name, "1", error));
    }
    for (size_t i = 0; (topic = cli_topic_at(i)) != NULL; i++) {
        snprintf(name, sizeof name, "berth-%s", topic->name);
        put_topic_page(manual, topic);
        TRY(write_page(manual, folder, name, "7", error));
    }
    return BERTH_OK;
}

static enum berth_status print_page(struct manual *manual, const struct cli_call *call,
                                    struct berth_error *error) {
    const char *const *words = call->arguments, *task = call->argument_count > 1 ? words[1] : NULL;
    const char *name = call->argument_count > 0 ? words[0] : "";
    const struct cli_verb *verb = cli_find_verb(name, task, cli_value(call, "objective"));
    const struct cli_topic *topic = cli_find_topic(name);
    if (call->argument_count == 0) {
        put_program_page(manual);
    } else if (verb != NULL) {
        put_verb_page(manual, verb);
    } else if (topic != NULL) {
        put_topic_page(manual, topic);
    } else {
        return cli_unknown_word("verb or topic", name, error);
    }
    end_line(manual);
    if (manual->text.failed) {
        return error_no_memory(error, 0, "a manual page");
    }
    fwrite(manual->text.bytes, 1, manual->text.length, stdout);
    return BERTH_OK;
}

// --- the verb ------------------------------------------------------------------------------------

static const struct option_row options[] = {
    {CLI_TEXT("output", NULL), .unit = "DIR",
     .help = "write the pages of the program, all verbs and all topics to this folder"},
    {CLI_TEXT("objective", NULL), .unit = "WHAT", .choices = "mlm+nsp|mlm",
     .help = "which of the verbs with the same name"}};

static enum berth_status run_man(struct cli_call *call, struct berth_error *error) {
    struct manual manual = {0};
    const char *folder = cli_value(call, "output");
    enum berth_status status =
        folder != NULL ? write_all(&manual, folder, error) : print_page(&manual, call, error);
    buffer_done(&manual.text);
    return status;
}

const struct cli_verb cli_man = {
    .name = "man",
    .summary = "print the manual page of a verb or a topic",
    .usage = "[VERB [TASK] | TOPIC]\n--output DIR",
    .example = "berth man finetune squad | man -l -\nberth man --output share/man/man1",
    .notes = "Prints the page in the man(7) language, without arguments that of the program. An "
             "installed Berth has all pages: `man berth-finetune-squad`.",
    CLI_OWN_OPTIONS(options),
    .arguments_max = 2,
    .argument_at = cli_subject_at,
    .processes = CLI_FIRST,
    .run = run_man,
};
