// SPDX-License-Identifier: Apache-2.0
// Prints help from the tables of verbs and options, laid out for the terminal's width (layout.c).
// Examples are to be copied, so they are not wrapped. What an option says is made by rows.c, as for
// manual pages and completion; pages that are about no verb are in topics.c.
#include "core/memory.h"
#include "core/terminal.h"
#include "rows.h"
#include "topics.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALL "all"

// What is being written.
struct page {
    const struct cli_verb *verb;
    const char *topic; // NULL, ALL or a group
    int width;
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

static int usage_has(const struct cli_verb *verb, const char *name) {
    char word[OPTION_NAME_SIZE + 3];
    snprintf(word, sizeof word, "--%s ", name);
    return verb != NULL && name[0] != '\0' && strstr(verb->usage, word) != NULL;
}

// "--learning_rate RATE, --lr"; first the name that the usage has.
static void print_names(struct page *page, const struct option_row *row) {
    const char *aliases = row->aliases;
    char first[OPTION_NAME_SIZE] = "", alias[OPTION_NAME_SIZE];
    while (!usage_has(page->verb, first) && option_next_name(&aliases, first)) {
    }
    const int has_alias = usage_has(page->verb, first);
    put(page, "--", has_alias ? first : row->name, "");
    cli_row_put_unit(&page->text, row);
    put(page, has_alias ? ", --" : "", has_alias ? row->name : "", "");
    for (aliases = row->aliases; option_next_name(&aliases, alias);) {
        if (!has_alias || strcmp(alias, first) != 0) {
            put(page, ", --", alias, "");
        }
    }
    end_paragraph(page, 2);
}
static void print_row(struct page *page, const struct option_row *row) {
    print_names(page, row);
    cli_row_put_text(&page->text, page->verb, row, page->topic != NULL);
    end_paragraph(page, 8);
}

// --- lists of options ----------------------------------------------------------------------------

static void print_required(struct page *page) {
    const struct option_row *row;
    print_heading("required options");
    for (size_t i = 0; (row = cli_row_next(page->verb, &i)) != NULL;) {
        if (cli_requires(page->verb, row->name)) {
            print_row(page, row);
        }
    }
}

static void print_common(struct page *page) {
    const struct option_row *row;
    if (page->verb->required != NULL) {
        print_required(page);
    }
    print_heading("common options");
    put(page, "", cli_rows_note, "");
    end_paragraph(page, 2);
    for (size_t i = 0; (row = cli_row_next(page->verb, &i)) != NULL;) {
        if (cli_row_is_common(row) && !cli_requires(page->verb, row->name)) {
            print_row(page, row);
        }
    }
}

static int is_in_group(const struct option_row *row, const char *group) {
    return row->group != NULL && option_same_name(group, row->group);
}

// Prints the options of the topic under the names of their groups. The topic "all" begins with
// the common options, so here are the others.
static void print_groups(struct page *page) {
    const int all = option_same_name(page->topic, ALL);
    const struct option_row *row;
    const char *group = "";
    for (size_t i = 0; (row = cli_row_next(page->verb, &i)) != NULL;) {
        if (all ? cli_row_is_common(row) : !is_in_group(row, page->topic)) {
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
    for (size_t i = 0; (row = cli_row_next(verb, &i)) != NULL;) {
        if (!cli_row_is_common(row) && strcmp(group, row->group) != 0) {
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

static void print_more(struct page *page) {
    struct buffer groups DONE_BY(buffer_done) = {0};
    if (list_groups(page->verb, &groups)) {
        buffer_put_byte(&groups, '\0');
        putchar('\n');
        put_verb(page, "More options: `berth ",
                 " --help all`, --help NAME for one of them, or --help GROUP for a group: ");
        put(page, "", groups.failed ? "" : groups.bytes, "");
        end_paragraph(page, 0);
    }
}

static void print_verb(struct page *page) {
    const struct cli_verb *verb = page->verb;
    cli_wrap(stdout, verb->summary, page->width, 0, 0);
    print_heading("usage");
    struct cli_line usage = {.next = page->verb->usage};
    while (cli_next_line(&usage)) {
        put_verb(page, "berth ", " ");
        buffer_put(&page->text, usage.text, usage.length);
        end_paragraph(page, 2);
    }
    // Names the tasks of a verb that has several.
    char tasks[128];
    cli_list_tasks(verb->name, tasks, sizeof tasks);
    if (verb->task != NULL && strchr(tasks, ' ') != NULL) {
        putchar('\n');
        put(page, "The task is ", tasks, "; ");
        put(page, "`berth ", verb->name, " TASK --help` shows the help of each");
        end_paragraph(page, 0);
    }
    print_heading("example");
    struct cli_line line = {.next = verb->example};
    while (cli_next_line(&line)) {
        printf("  %.*s\n", (int)line.length, line.text);
    }
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
    cli_wrap(stdout,
             "Exit codes: `berth help exit-codes`. Where the documents are: the end of `berth "
             "--help`.",
             page->width, 0, 0);
}

static int has_group(const struct cli_verb *verb, const char *group) {
    const struct option_row *row;
    for (size_t i = 0; (row = cli_row_next(verb, &i)) != NULL;) {
        if (is_in_group(row, group)) {
            return 1;
        }
    }
    return 0;
}

enum berth_status cli_help_verb(const struct cli_verb *verb, const char *topic,
                                struct berth_error *error) {
    struct page page = {.verb = verb, .topic = topic, .width = terminal_width(STDOUT_FILENO)};
    const int is_group = topic != NULL && !option_same_name(topic, ALL) && has_group(verb, topic);
    const int is_whole = topic == NULL || option_same_name(topic, ALL);
    const struct option_row *option = is_whole || is_group ? NULL : cli_row_named(verb, topic);
    if (!is_whole && !is_group && option == NULL) {
        struct buffer groups DONE_BY(buffer_done) = {0};
        list_groups(verb, &groups);
        return error_set(error, BERTH_USAGE, "--help %s: expected %s%s%.*s, or an option's name",
                         topic, ALL, groups.length > 0 ? ", " : "", (int)groups.length,
                         groups.bytes);
    }
    put_verb(&page, "berth ", "");
    buffer_put_byte(&page.text, '\0');
    print_bold(page.text.failed ? verb->name : page.text.bytes);
    buffer_clear(&page.text);
    if (option != NULL) {
        print_row(&page, option);
    } else if (is_group) {
        print_groups(&page);
    } else {
        print_verb(&page);
    }
    const int failed = page.text.failed;
    buffer_done(&page.text);
    return failed ? error_no_memory(error, 0, "the help") : BERTH_OK;
}

// --- topics --------------------------------------------------------------------------------------

// What the option means in the verb; 0: the verb does not have it.
static int describe(const struct cli_verb *verb, const char *name, struct buffer *text) {
    const struct option_row *row = cli_row_named(verb, name);
    buffer_clear(text);
    if (row != NULL) {
        cli_row_put_text(text, verb, row, 1);
    }
    return row != NULL;
}

static int same_text(const struct buffer *a, const struct buffer *b) {
    return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

// Whether a verb before the one with that number has the option with the same text.
static int is_described(size_t index, const char *name, const struct buffer *text) {
    struct buffer other DONE_BY(buffer_done) = {0};
    int found = 0;
    for (size_t i = 0; i < index && !found; i++) {
        found = describe(cli_verb_at(i), name, &other) && same_text(&other, text);
    }
    return found;
}

// "in berth answer, berth fill, ...": the verbs from that number on in which it has this text.
static void put_verbs(struct page *page, size_t index, const char *name,
                      const struct buffer *text) {
    struct buffer other DONE_BY(buffer_done) = {0};
    const char *before = "in ";
    const struct cli_verb *verb;
    for (size_t i = index; (verb = cli_verb_at(i)) != NULL; i++) {
        if (describe(verb, name, &other) && same_text(&other, text)) {
            page->verb = verb;
            put(page, before, "berth ", "");
            put_verb(page, "", cli_shares_words(verb) ? " --objective mlm" : "");
            before = ", ";
        }
    }
}

// The option in every verb that has it; each different text once. 0: no verb has it.
static int print_option(struct page *page, const char *name) {
    struct buffer text DONE_BY(buffer_done) = {0};
    const struct cli_verb *verb;
    int found = 0;
    for (size_t i = 0; (verb = cli_verb_at(i)) != NULL; i++) {
        if (!describe(verb, name, &text) || is_described(i, name, &text)) {
            continue;
        }
        print_names(page, cli_row_named(verb, name));
        buffer_put(&page->text, text.bytes, text.length);
        end_paragraph(page, 8);
        put_verbs(page, i, name, &text);
        end_paragraph(page, 8);
        found = 1;
    }
    page->text.failed |= text.failed;
    return found;
}

static enum berth_status print_words(struct page *page, const struct cli_call *call,
                                     struct berth_error *error) {
    const char *const *words = call->arguments, *task = call->argument_count > 1 ? words[1] : NULL;
    const struct cli_topic *topic = cli_find_topic(words[0]);
    const struct cli_verb *verb = cli_find_verb(words[0], task, cli_value(call, "objective"));
    if (verb != NULL) {
        const size_t read = 1 + (task != NULL && cli_is_task(verb, task));
        return cli_help_verb(verb, read < call->argument_count ? words[read] : NULL, error);
    }
    if (topic != NULL) {
        print_bold(topic->summary);
        for (size_t i = 0; i < topic->entry_count; i++) {
            const struct cli_entry *entry = &topic->entries[i];
            if (entry->term == NULL) {
                putchar('\n');
            } else {
                cli_wrap(stdout, entry->term, page->width, 2, 0);
            }
            cli_wrap(stdout, entry->text, page->width, entry->term != NULL ? 8 : 0, 0);
        }
        return BERTH_OK;
    }
    return print_option(page, words[0])
               ? BERTH_OK
               : cli_unknown_word("verb, topic or option", words[0], error);
}

static const struct option_row objective_option[] = {
    {CLI_TEXT("objective", NULL), .unit = "WHAT", .choices = "mlm+nsp|mlm",
     .help = "which of the verbs with the same name"}};

static enum berth_status run_help(struct cli_call *call, struct berth_error *error) {
    if (call->argument_count == 0) {
        cli_help_program(stdout);
        return BERTH_OK;
    }
    struct page page = {.topic = ALL, .width = terminal_width(STDOUT_FILENO)};
    const enum berth_status status = print_words(&page, call, error);
    const int failed = page.text.failed;
    buffer_done(&page.text);
    return status == BERTH_OK && failed ? error_no_memory(error, 0, "the help") : status;
}

const char *cli_subject_at(size_t index) {
    size_t verbs = 0;
    while (cli_verb_at(verbs) != NULL) {
        verbs++;
    }
    const struct cli_topic *topic = index < verbs ? NULL : cli_topic_at(index - verbs);
    return index < verbs ? cli_verb_at(index)->name : topic != NULL ? topic->name : NULL;
}

const struct cli_verb cli_help = {
    .name = "help",
    .names_options = 1,
    .summary = "show the help of a verb, a topic or an option",
    .usage = "VERB [TASK] [all|GROUP|OPTION]\nTOPIC\nOPTION",
    .example = "berth help finetune squad all\nberth help environment\nberth help learning_rate",
    .notes = "The topics are options, environment, exit-codes and formats. For an option, shows "
             "its meaning and its default in every verb that has it.",
    CLI_OWN_OPTIONS(objective_option),
    .arguments_max = 3,
    .argument_at = cli_subject_at,
    .processes = CLI_FIRST,
    .run = run_help,
};

// --- the program ---------------------------------------------------------------------------------

static void print_topics(FILE *out, int width) {
    const struct cli_topic *topic;
    char text[256] = "berth help TOPIC:";
    size_t used = strlen(text);
    for (size_t i = 0; (topic = cli_topic_at(i)) != NULL && used < sizeof text; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, " %s,", topic->name);
    }
    snprintf(text + used, sizeof text - used, " or the name of an option");
    cli_wrap(out, text, width, 7, 0);
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
    print_topics(out, width);
    fputc('\n', out);
    for (size_t i = 0; (verb = cli_verb_at(i)) != NULL; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s %s", verb->name, verb->task != NULL ? verb->task : "");
        cli_wrap(out, verb->summary, width, 21, fprintf(out, "  %-18s", name));
    }
    cli_flush_early(); // before the buffer is full, as what failed is known only here
    fputs("\nexample:\n"
          "  berth finetune squad --model minilm --train train-v1.1.json \\\n"
          "      --dev dev-v1.1.json --output squad-minilm\n"
          "  berth answer --model squad-minilm --question 'Where?' \\\n"
          "      --context 'It is in Bern.'\n",
          out);
    // Where the documents are: those that help and messages call doc/NAME.md.
    static const char *const folders[] = {BERTH_DOCUMENTS_FROM_PROGRAM, "../.."};
    char path[CLI_PATH_SIZE], whole[PATH_MAX];
    const char *index =
        cli_beside_program(folders, sizeof folders / sizeof *folders, "doc/index.md", path);
    if (index != NULL && realpath(index, whole) != NULL) {
        fprintf(out, "\ndocuments:\n  %s\n", whole);
    }
}
