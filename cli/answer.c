// SPDX-License-Identifier: Apache-2.0
// berth answer: answers a question from a text and highlights the answer in it.
#include "cli.h"
#include "core/encoding.h"
#include "core/json_line.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/terminal.h"
#include "core/utf8.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TOP_MAX 100
#define WINDOWS                                                                                    \
    8 // of a text that pass through the network together; memory for more is seldom used

static const struct option_row options[] = {
    {CLI_TEXT("question", NULL), .unit = "TEXT", .help = "the question"},
    {CLI_TEXT("context", NULL), .unit = "TEXT", .help = "the text to find the answer in"},
    {CLI_TEXT("context_file", NULL), .unit = "FILE", .shown = "standard input",
     .help = "file with that text; - is standard input"},
    {CLI_INTEGER("top", "1"), BETWEEN(1, TOP_MAX), .unit = "N", .aliases = "top_k",
     .help = "number of answers to print, best first"},
    {CLI_FLAG("json"), .help = "print one JSON object"},
};

static int is_blank(const char *text) {
    return text[strspn(text, " \t\n\v\f\r")] == '\0';
}

// Checks the options before standard input is read or a model is opened.
static enum berth_status check_options(const struct cli_call *call, struct berth_error *error) {
    const char *context = cli_value(call, "context");
    if (is_blank(cli_value(call, "question"))) {
        return error_set(error, BERTH_USAGE, "--question is blank; expected a question");
    }
    if (context != NULL && cli_value(call, "context_file") != NULL) {
        return error_set(error, BERTH_USAGE, "give --context or --context_file, not both");
    }
    if (context != NULL && is_blank(context)) {
        return error_set(error, BERTH_USAGE,
                         "--context is blank; expected the text that holds the answer");
    }
    return BERTH_OK;
}

static enum berth_status read_context(struct cli_call *call, char **owned, const char **context,
                                      struct berth_error *error) {
    *context = cli_value(call, "context");
    if (*context != NULL) {
        return BERTH_OK;
    }
    const char *path = cli_value(call, "context_file");
    char *text;
    size_t length;
    if (path == NULL && terminal_is(STDIN_FILENO)) {
        cli_note(call, "reading the text from the terminal; Ctrl-D ends it");
    }
    TRY(cli_read(path != NULL ? path : "-", owned, &length, error));
    path = path != NULL ? path : "standard input";
    TRY(encoding_normalise_owned(path, owned, &text, &length, error));
    while (length > 0 && text[length - 1] == '\n') {
        text[--length] = '\0';
    }
    *context = text;
    if (strlen(text) != length) {
        return error_set(error, BERTH_BAD_DATA, "%s: byte %zu of the context is NUL; expected text",
                         path, strlen(text));
    }
    if (is_blank(text)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: blank; expected the text that holds the answer", path);
    }
    return BERTH_OK;
}

// Ill-formed sequences count as U+FFFD, which the tokenizer drops.
static void warn_of_ill_formed(const char *name, const char *text) {
    size_t length = strlen(text), valid = utf8_valid_prefix(text, length);
    if (valid < length) {
        cli_warning("the %s contains ill-formed UTF-8 (first at byte %zu), which is dropped", name,
                    valid);
    }
}

static void print_people(const struct cli_call *call, const char *context,
                         const struct berth_answer *answers, size_t count) {
    int colour = cli_colour();
    int top = cli_integer(call, "top") > 1;
    for (size_t i = 0; i < count; i++) {
        char percent[32];
        number_format(percent, sizeof percent, "%5.1f %%", 100.0 * answers[i].probability);
        if (top) {
            printf("%3zu. %s  ", i + 1, percent);
        }
        puts(*answers[i].text != '\0' ? answers[i].text : "(no answer)");
    }
    if (!call->config.quiet && count > 0) {
        int width = terminal_is(STDOUT_FILENO) ? terminal_width(STDOUT_FILENO) : 0;
        putchar('\n');
        cli_highlight(context, answers[0].start, answers[0].end, colour, width, 0);
    }
}

static enum berth_status print_json(const char *question, const struct berth_answer *answers,
                                    size_t count, struct berth_error *error) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_text(&line, "question", question);
    json_line_text(&line, "answer", count > 0 ? answers[0].text : "");
    json_line_open(&line, "answers", '[');
    for (size_t i = 0; i < count; i++) {
        json_line_open(&line, NULL, '{');
        json_line_text(&line, "text", answers[i].text);
        json_line_real(&line, "probability", answers[i].probability);
        json_line_integer(&line, "start", answers[i].start);
        json_line_integer(&line, "end", answers[i].end);
        json_line_real(&line, "start_logit", answers[i].start_logit);
        json_line_real(&line, "end_logit", answers[i].end_logit);
        json_line_close(&line, '}');
    }
    json_line_close(&line, ']');
    json_line_close(&line, '}');
    enum berth_status status = cli_put_json(&line, error);
    json_line_done(&line);
    return status;
}

static enum berth_status answer(struct cli_call *call, const char *context,
                                struct berth_error *error) {
    const char *question = cli_value(call, "question");
    struct berth_answer answers[TOP_MAX];
    size_t count = 0;
    struct berth_answerer *model;
    call->config.predict_batch_size = WINDOWS;
    if (!call->config.version_2_with_negative && cli_is_given(call, "null_score_diff_threshold")) {
        cli_note(call, "null_score_diff_threshold has no effect without version_2_with_negative");
    }
    TRY(berth_answerer_open(&call->config, cli_log(call), &model, error));
    enum berth_status status = berth_answerer_answer(model, question, context, answers,
                                                  (size_t)cli_integer(call, "top"), &count, error);
    if (status == BERTH_OK && cli_flag(call, "json")) {
        status = print_json(question, answers, count, error);
    } else if (status == BERTH_OK) {
        print_people(call, context, answers, count);
    }
    berth_answers_free(answers, count);
    berth_answerer_close(model);
    return status;
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    char *owned = NULL;
    const char *context;
    TRY(check_options(call, error));
    enum berth_status status = read_context(call, &owned, &context, error);
    if (status == BERTH_OK) {
        warn_of_ill_formed("question", cli_value(call, "question"));
        warn_of_ill_formed("context", context);
        status = answer(call, context, error);
    }
    memory_free(owned);
    return status;
}

const struct cli_verb cli_answer = {
    .name = "answer",
    .summary = "answer a question from a text",
    .usage =
        "--model DIR --question TEXT [--context TEXT | --context-file FILE] [--top N] [--json]",
    .example = "berth answer --model squad-minilm --question 'Where do I live?' \\\n"
               "    --context 'I live in Bern.'\n"
               "berth answer --model squad-minilm --question 'Who won?' --top 3 < article.txt",
    .notes = "The answer comes first, then the text with the answer highlighted (black on light "
             "green) where colours are on; --quiet prints the answer only.",
    .jobs = JOB_ANSWER,
    CLI_OWN_OPTIONS(options),
    .required = "model_name_or_path question",
    .processes = CLI_FIRST,
    .run = run,
};
