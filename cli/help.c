// SPDX-License-Identifier: Apache-2.0
// Help from the tables of verbs and options, laid out for the terminal's width. Examples are to be
// copied, so they are not wrapped.
#include "cli.h"
#include "core/buffer.h"
#include "core/terminal.h"

#include <string.h>
#include <unistd.h>

#define ALL "all"

// What is being written.
struct page {
    const struct cli_verb *verb;
    const char *topic; // NULL, ALL or a group
    int width;
    struct berth_config defaults;
    struct buffer text; // of the next paragraph
};

static void put(struct page *page, const char *before, const char *text, const char *after) {
    buffer_put_text(&page->text, before);
    buffer_put_text(&page->text, text);
    buffer_put_text(&page->text, after);
}

static void end_paragraph(struct page *page, int indent) {
    buffer_put_byte(&page->text, '\0');
    if (!page->text.failed) {
        cli_wrap(stdout, page->text.bytes, page->width, indent, 0);
    }
    buffer_clear(&page->text);
}

static void print_bold(const char *text) {
    cli_style(cli_colour() ? "\033[1m" : "");
    fputs(text, stdout);
    cli_style(cli_colour() ? "\033[0m" : "");
    putchar('\n');
}

static void print_heading(const char *text) {
    putchar('\n');
    print_bold(text);
}

// --- one option ----------------------------------------------------------------------------------

// "--learning_rate RATE, --lr"
static void print_names(struct page *page, const struct option_row *row) {
    const char *aliases = row->aliases;
    char alias[OPTION_NAME_SIZE];
    put(page, "--", row->name, "");
    if (row->type != OPTION_FLAG && row->unit != NULL) {
        put(page, row->alone != NULL ? " [" : " ", row->unit, row->alone != NULL ? "]" : "");
    }
    while (option_next_name(&aliases, alias)) {
        put(page, ", --", alias, "");
    }
    end_paragraph(page, 2);
}

// " (a, b, c)"
static void put_choices(struct page *page, const char *choices) {
    buffer_put_text(&page->text, " (");
    for (const char *at = choices; *at != '\0'; at++) {
        if (*at == '|') {
            buffer_put_text(&page->text, ", ");
        } else {
            buffer_put_byte(&page->text, *at);
        }
    }
    buffer_put_text(&page->text, ")");
}

static void put_default(struct page *page, const struct option_row *row) {
    struct option_default otherwise = option_default(row, page->verb->jobs);
    const char *shown = otherwise.shown != NULL ? otherwise.shown : otherwise.value;
    if (shown != NULL) {
        put(page, " [", shown, "]");
    }
}

// For readers of more than the common options.
static void put_details(struct page *page, const struct option_row *row) {
    if (row->deepspeed != NULL && (page->verb->jobs & JOB_TRAIN) != 0) {
        put(page, "; DeepSpeed's key: ", row->deepspeed, "");
    }
    if (row->resume == OPTION_KEPT && (page->verb->jobs & JOB_TRAIN) != 0) {
        put(page, "; ", "a resumed run must keep it", "");
    }
}

static void print_row(struct page *page, const struct option_row *row) {
    print_names(page, row);
    put(page, "", row->help, "");
    if (row->choices != NULL) {
        put_choices(page, row->choices);
    }
    put_default(page, row);
    if (page->topic != NULL) {
        put_details(page, row);
    }
    end_paragraph(page, 8);
}

// --- lists of options ----------------------------------------------------------------------------

static int is_settable(const struct cli_verb *verb, const struct option_row *row) {
    for (size_t i = 0; i < verb->option_count; i++) {
        if (option_is_named(&verb->options[i], row->name)) {
            return 0; // the verb's own option replaces it
        }
    }
    return cli_row_applies(verb, row);
}

// The rows in order: those of the option table, then the flags of the original scripts. Only those
// of the verb. NULL at the end.
static const struct option_row *next_row(const struct cli_verb *verb, size_t *index) {
    while (*index < option_row_count) {
        const struct option_row *row = &option_rows[(*index)++];
        if (is_settable(verb, row)) {
            return row;
        }
    }
    const struct option_row *legacy = NULL;
    do {
        legacy = cli_takes_legacy(verb) ? cli_legacy_row((*index)++ - option_row_count) : NULL;
    } while (legacy != NULL && option_find(legacy->name) != NULL &&
             is_settable(verb, option_find(legacy->name)));
    return legacy;
}

static void print_common(struct page *page) {
    static const struct option_row always[] = {
        {CLI_FLAG("no_color"), .help = "no colours, as with the environment variable NO_COLOR",
         .shown = "colours on a terminal"},
        {CLI_TEXT("help", NULL), .unit = "all|GROUP", .alone = "",
         .help = "this help; with all options, or those of a group; -h for short"}};
    const struct option_row *row;
    print_heading("common options");
    put(page, "",
        "In names - and _ are the same. Defaults are in brackets. A flag takes true, false ",
        "or nothing (true); --no_NAME is false.");
    end_paragraph(page, 2);
    for (size_t i = 0; i < page->verb->option_count; i++) {
        print_row(page, &page->verb->options[i]);
    }
    for (size_t i = 0; (row = next_row(page->verb, &i)) != NULL;) {
        if (row->common) {
            print_row(page, row);
        }
    }
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) {
        print_row(page, &always[i]);
    }
}

// Those of the topic under the names of their groups; of all, those that are not common.
static void print_groups(struct page *page) {
    const int all = option_same_name(page->topic, ALL);
    const struct option_row *row;
    const char *group = "";
    for (size_t i = 0; (row = next_row(page->verb, &i)) != NULL;) {
        if (all ? row->common : !option_same_name(page->topic, row->group)) {
            continue;
        }
        if (strcmp(group, row->group) != 0) {
            print_heading(row->group);
        }
        group = row->group;
        print_row(page, row);
    }
}

// "files, features, ...": the groups with options that are not common; 0 where there are none.
static int list_groups(const struct cli_verb *verb, struct buffer *text) {
    const struct option_row *row;
    const char *group = "";
    for (size_t i = 0; (row = next_row(verb, &i)) != NULL;) {
        if (!row->common && strcmp(group, row->group) != 0) {
            buffer_put_text(text, *group != '\0' ? ", " : "");
            buffer_put_text(text, row->group);
            group = row->group;
        }
    }
    return *group != '\0';
}

// --- verbs ---------------------------------------------------------------------------------------

static void put_verb(struct page *page, const char *before, const char *after) {
    const char *task = page->verb->task;
    put(page, before, page->verb->name, task != NULL ? " " : "");
    put(page, task != NULL ? task : "", after, "");
}

static void print_example(const char *example) {
    for (const char *at = example; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        printf("  %.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
}

// A usage of several lines is as many commands.
static void print_usage(struct page *page) {
    const char *usage = page->verb->usage;
    put_verb(page, "berth ", " ");
    for (const char *at = usage; *at != '\0'; at++) {
        if (*at == '\n') {
            end_paragraph(page, 2);
            at += strspn(at + 1, " ");
        } else {
            buffer_put_byte(&page->text, *at);
        }
    }
    end_paragraph(page, 2);
}

static void print_more(struct page *page) {
    struct buffer groups = {0};
    if (list_groups(page->verb, &groups)) {
        buffer_put_byte(&groups, '\0');
        putchar('\n');
        put_verb(page, "More options: `berth ", " --help all`, or --help GROUP for a group: ");
        put(page, "", groups.failed ? "" : groups.bytes, "");
        end_paragraph(page, 0);
    }
    buffer_done(&groups);
}

static void print_verb(struct page *page) {
    const struct cli_verb *verb = page->verb;
    cli_wrap(stdout, verb->summary, page->width, 0, 0);
    print_heading("usage");
    print_usage(page);
    print_heading("example");
    print_example(verb->example);
    print_common(page);
    if (page->topic == NULL) {
        print_more(page);
    } else {
        print_groups(page);
    }
    if (verb->notes != NULL) {
        putchar('\n');
        cli_wrap(stdout, verb->notes, page->width, 0, 0);
    }
    putchar('\n');
    cli_wrap(
        stdout,
        "exit codes: 0 success, 1 the run failed, 2 wrong arguments, 65 bad data, 66 missing "
        "input, 69 not available, 70 internal error or out of memory, 73 cannot create output, "
        "74 I/O error, 75 stopped by SIGUSR1, 78 bad configuration, 129 SIGHUP, 130 Ctrl-C, "
        "143 SIGTERM, 152 SIGXCPU",
        page->width, 0, 0);
}

static enum berth_status unknown_topic(const struct cli_verb *verb, const char *topic,
                                       struct berth_error *error) {
    struct buffer groups = {0};
    list_groups(verb, &groups);
    enum berth_status status =
        error_set(error, BERTH_USAGE, "--help %s: expected %s%s%.*s", topic, ALL,
                  groups.length > 0 ? ", " : "", (int)groups.length, groups.bytes);
    buffer_done(&groups);
    return status;
}

static int has_group(const struct cli_verb *verb, const char *group) {
    const struct option_row *row;
    for (size_t i = 0; (row = next_row(verb, &i)) != NULL;) {
        if (option_same_name(group, row->group)) {
            return 1;
        }
    }
    return 0;
}

enum berth_status cli_help_verb(const struct cli_verb *verb, const char *topic,
                                struct berth_error *error) {
    struct page page = {.verb = verb, .topic = topic, .width = terminal_width(STDOUT_FILENO)};
    const int is_group = topic != NULL && !option_same_name(topic, ALL);
    if (is_group && !has_group(verb, topic)) {
        return unknown_topic(verb, topic, error);
    }
    put_verb(&page, "berth ", "");
    buffer_put_byte(&page.text, '\0');
    print_bold(page.text.failed ? verb->name : page.text.bytes);
    buffer_clear(&page.text);
    if (is_group) {
        print_groups(&page);
    } else {
        print_verb(&page);
    }
    const int failed = page.text.failed;
    buffer_done(&page.text);
    return failed ? error_no_memory(error, 0, "the help") : BERTH_OK;
}

void cli_help_program(FILE *out) {
    const struct cli_verb *verb;
    const int descriptor = out == stderr ? STDERR_FILENO : STDOUT_FILENO;
    const int width = terminal_width(descriptor);
    const int used = fprintf(out, "berth %s:", berth_version());
    cli_wrap(out, "pre-trains, fine-tunes and queries BERT, in C, without padding", width, 0, used);
    fputc('\n', out);
    cli_wrap(out, "usage: berth VERB [options]", width, 0, 0);
    cli_wrap(out, "berth VERB --help: the options of a verb and their defaults", width, 7, 0);
    fputc('\n', out);
    for (size_t i = 0; (verb = cli_verb_at(i)) != NULL; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s %s", verb->name, verb->task != NULL ? verb->task : "");
        cli_wrap(out, verb->summary, width, 21, fprintf(out, "  %-18s", name));
    }
    fputs("\nexample:\n"
          "  berth finetune squad --model minilm --train train-v1.1.json \\\n"
          "      --dev dev-v1.1.json --output squad-minilm\n"
          "  berth answer --model squad-minilm --question 'Where?' \\\n"
          "      --context 'It is in Bern.'\n",
          out);
}
