// SPDX-License-Identifier: Apache-2.0
// Help from the tables: what an option is, its other names, its default.
#include "cli.h"
#include "core/number.h"
#include "core/terminal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void bold(void) {
    cli_style(cli_colour() ? "\033[1m" : "");
}

static void plain(void) {
    cli_style(cli_colour() ? "\033[0m" : "");
}

static void heading(const char *text) {
    putchar('\n');
    bold();
    fputs(text, stdout);
    plain();
    putchar('\n');
}

// "  --learning_rate RATE, --lr"
static void print_names(const char *name, const char *aliases, const char *unit) {
    char text[512];
    int used = snprintf(text, sizeof text, "--%s%s%s", name, unit != NULL ? " " : "",
                        unit != NULL ? unit : "");
    for (const char *at = aliases != NULL ? aliases : ""; *at != '\0';) {
        size_t length = strcspn(at, " ");
        used += snprintf(text + used, sizeof text - (size_t)used, ", --%.*s", (int)length, at);
        at += length + strspn(at + length, " ");
    }
    cli_wrap(text, terminal_width(STDOUT_FILENO), 2);
}

// The help, then the values it takes, then the default in brackets.
static void print_help(const char *help, const char *choices, const char *fallback) {
    char text[768];
    int used = snprintf(text, sizeof text, "%s", help);
    if (choices != NULL) {
        used += snprintf(text + used, sizeof text - (size_t)used, " (");
        for (const char *at = choices; *at != '\0' && used + 4 < (int)sizeof text; at++) {
            if (*at == '|') {
                text[used++] = ',';
                text[used++] = ' ';
            } else {
                text[used++] = *at;
            }
        }
        text[used++] = ')';
        text[used] = '\0';
    }
    if (fallback != NULL && *fallback != '\0') {
        snprintf(text + used, sizeof text - (size_t)used, " [%s]", fallback);
    }
    cli_wrap(text, terminal_width(STDOUT_FILENO), 8);
}

static void print_row(const struct option_row *row, const struct berth_config *defaults) {
    char fallback[128];
    option_print(defaults, row, fallback, sizeof fallback);
    print_names(row->name, row->aliases, row->type == OPTION_FLAG ? NULL : row->unit);
    print_help(row->help, row->choices, row->fallback != NULL ? row->fallback : fallback);
}

static void print_own(const struct cli_option *option) {
    print_names(option->name, option->aliases, option->kind == CLI_FLAG ? NULL : option->unit);
    const char *none = option->kind == CLI_FLAG ? "false" : NULL;
    print_help(option->help, NULL, option->fallback != NULL ? option->fallback : none);
}

static void print_example(const char *example) {
    for (const char *at = example; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        printf("  %.*s\n", (int)length, at);
        at += length + (at[length] == '\n');
    }
}

// A usage of several lines is as many commands.
static void print_usage(const struct cli_verb *verb) {
    char text[512];
    int width = terminal_width(STDOUT_FILENO);
    snprintf(text, sizeof text, "berth %s%s%s %s", verb->name, verb->task != NULL ? " " : "",
             verb->task != NULL ? verb->task : "", verb->usage);
    for (char *line = text, *next; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        cli_wrap(line + strspn(line, " "), width, 2);
    }
}

void cli_help_verb(const struct cli_verb *verb) {
    struct berth_config defaults;
    int width = terminal_width(STDOUT_FILENO);
    berth_config_init(&defaults);
    option_job_defaults(&defaults, verb->jobs);
    bold();
    printf("berth %s%s%s", verb->name, verb->task != NULL ? " " : "",
           verb->task != NULL ? verb->task : "");
    plain();
    putchar('\n');
    cli_wrap(verb->summary, width, 0);
    heading("usage");
    print_usage(verb);
    heading("example");
    print_example(verb->example);
    heading("options");
    cli_wrap(
        "In names - and _ are the same. Defaults stand in brackets. A flag takes true or false "
        "or nothing; --no_NAME switches it off.",
        width, 2);
    for (size_t i = 0; i < verb->option_count; i++) {
        print_own(&verb->options[i]);
    }
    for (size_t i = 0; i < option_row_count; i++) {
        if (cli_row_applies(verb, &option_rows[i])) {
            print_row(&option_rows[i], &defaults);
        }
    }
    print_names("no_color", NULL, NULL);
    print_help("no colours, as with the environment's NO_COLOR", NULL, "colours on a terminal");
    print_names("help", NULL, NULL);
    print_help("this help; -h for short", NULL, NULL);
    if (verb->notes != NULL) {
        putchar('\n');
        cli_wrap(verb->notes, width, 0);
    }
    putchar('\n');
    cli_wrap("exit codes: 0 good, 1 the run failed, 2 wrong arguments, 65 bad data, 66 missing "
             "input, 69 not available, 70 internal or out of memory, 73 cannot create output, 74 "
             "I/O error, 75 stopped by SIGUSR1, 78 bad configuration, 129 SIGHUP, 130 Ctrl-C, 143 "
             "SIGTERM, 152 SIGXCPU",
             width, 0);
}
