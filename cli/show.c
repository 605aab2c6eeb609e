// SPDX-License-Identifier: Apache-2.0
// berth show squad: shows samples of a data set with the model's answer highlighted: a rule with a
// title, the question, the context, the reference, the scores. If every answer is an entry
// (keras_answers all), the title is the scores as a printed Python dictionary, as in the newer CSCS
// demos. The answers come from task/show.c by way of api/jobs.c; here they are only laid out.
#include "cli.h"
#include "core/json_line.h"
#include "core/number.h"
#include "core/terminal.h"
#include "core/utf8.h"
#include "settings/settings.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGENTA "\033[35m"
#define BOLD "\033[1m"
#define PLAIN "\033[0m"

static const struct option_row options[] = {
    {CLI_INTEGER("start_sample", "0"), BETWEEN(0, 1e12), .unit = "N", .aliases = "start",
     .help = "number of the first question, from 0"},
    {CLI_INTEGER("num_test_samples", "10"), BETWEEN(1, 1e12), .unit = "M", .aliases = "num_samples",
     .help = "number of questions to show"},
    {CLI_INTEGER("random_samples", NULL), BETWEEN(1, 1e12), .unit = "M",
     .shown = "questions in order",
     .help = "number of different questions to draw at random, by --seed"},
    {CLI_FLAG("json"), .help = "print each sample as a JSON object"},
};

struct show {
    int colour, json;
    int scores_first; // the title is the scores
    int width;        // of the rule
    int wrap;         // width of the context; 0: not wrapped
    int64_t shown;
    double exact_match, f1; // sums
    enum berth_status status;
    struct berth_error *error;
};

static void put_rule(const struct show *show, const char *title) {
    int left = show->width - (int)terminal_columns(title, strlen(title)) - 2;
    left = left > 2 ? left : 2;
    cli_style(show->colour ? MAGENTA : "");
    for (int i = 0; i < left / 2; i++) {
        fputs("─", stdout);
    }
    printf(" %s ", title);
    for (int i = left / 2; i < left; i++) {
        fputs("─", stdout);
    }
    cli_style(show->colour ? PLAIN : "");
    putchar('\n');
}

static void put_sample(const struct show *show, const struct berth_sample *sample) {
    char scores[64];
    number_format(scores, sizeof scores, "EM %.1f  F1 %.1f", sample->exact_match, sample->f1);
    char title[256];
    const size_t third = show->width > 60 ? (size_t)show->width / 3 : 0;
    const size_t room = third < 200 ? third : 200;
    if (show->scores_first) {
        number_format(title, sizeof title, "{'exact_match': %.1f, 'f1': %.1f}",
                      100.0 * sample->exact_match, 100.0 * sample->f1);
    } else {
        snprintf(title, sizeof title, "Example %lld%s%.*s", (long long)sample->index,
                 room > 0 && *sample->title != '\0' ? " · " : "", UTF8_SHOWN(sample->title, room));
    }
    put_rule(show, title);
    fputs("❓ ", stdout);
    cli_style(show->colour ? BOLD : "");
    fputs(sample->question, stdout);
    cli_style(show->colour ? PLAIN : "");
    fputs("\n🤖 ", stdout);
    cli_highlight(sample->context, sample->answer.start, sample->answer.end, show->colour,
                  show->wrap, 3);
    if (!show->colour) {
        printf("💬 %s\n", *sample->answer.text != '\0' ? sample->answer.text : "(no answer)");
    }
    const char *reference = *sample->reference != '\0' ? sample->reference : "(no answer)";
    int pad = 30 - (int)terminal_columns(reference, strlen(reference));
    printf("✅ %s%*s %s\n", reference, pad > 0 ? pad : 0, "", scores);
}

static enum berth_status put_json(const struct berth_sample *sample, struct berth_error *error) {
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_integer(&line, "index", sample->index);
    json_line_text(&line, "title", sample->title);
    json_line_text(&line, "question", sample->question);
    json_line_text(&line, "context", sample->context);
    json_line_text(&line, "reference", sample->reference);
    json_line_text(&line, "answer", sample->answer.text);
    json_line_real(&line, "probability", sample->answer.probability);
    json_line_integer(&line, "start", sample->answer.start);
    json_line_integer(&line, "end", sample->answer.end);
    json_line_real(&line, "exact_match", sample->exact_match);
    json_line_real(&line, "f1", sample->f1);
    json_line_close(&line, '}');
    enum berth_status status = cli_put_json(&line, error);
    json_line_done(&line);
    return status;
}

static int visit(void *context, const struct berth_sample *sample) {
    struct show *show = context;
    show->shown++;
    show->exact_match += sample->exact_match;
    show->f1 += sample->f1;
    if (show->json) {
        show->status = put_json(sample, show->error);
    } else {
        put_sample(show, sample);
    }
    return show->status != BERTH_OK || ferror(stdout);
}

static enum berth_status choose(const struct cli_call *call, struct berth_selection *samples,
                                struct berth_error *error) {
    int64_t drawn = cli_integer(call, "random_samples");
    int in_order = cli_is_given(call, "start_sample") || cli_is_given(call, "num_test_samples");
    if (drawn > 0 && in_order) {
        return error_set(error, BERTH_USAGE,
                         "--random_samples draws samples, but --start_sample and "
                         "--num_test_samples take them in order: give one or the other");
    }
    if (drawn == 0 && cli_is_given(call, "seed")) {
        cli_note(call, "--seed has no effect without --random_samples");
    }
    *samples =
        (struct berth_selection){.first = cli_integer(call, "start_sample"),
                                 .count = drawn > 0 ? drawn : cli_integer(call, "num_test_samples"),
                                 .random = drawn > 0};
    return BERTH_OK;
}

enum berth_status cli_show_samples(struct cli_call *call, const struct settings *config,
                                   struct berth_selection samples, struct berth_error *error) {
    struct show show = {.colour = cli_colour(),
                        .json = cli_flag(call, "json"),
                        .scores_first = strcmp(config->features.keras_answers, "all") == 0,
                        .width = terminal_width(STDOUT_FILENO),
                        .error = error};
    show.wrap = terminal_is(STDOUT_FILENO) ? show.width : 0;
    TRY(berth_show_squad(config, samples, cli_log(call), visit, &show, error));
    if (show.status == BERTH_OK && show.shown > 0 && !show.json) {
        char title[96];
        number_format(title, sizeof title, "%lld sample%s · EM %.1f · F1 %.1f",
                      (long long)show.shown, number_plural(show.shown),
                      show.exact_match / (double)show.shown, show.f1 / (double)show.shown);
        put_rule(&show, title);
    }
    return show.status;
}

static enum berth_status run_show(struct cli_call *call, struct berth_error *error) {
    struct berth_selection samples;
    TRY(choose(call, &samples, error));
    return cli_show_samples(call, &call->config, samples, error);
}

const struct cli_verb cli_show = {
    .name = "show",
    .task = "squad",
    .summary = "show samples with the model's answer highlighted",
    .usage = "--model DIR --input FILE [--start-sample N] [--num-test-samples M] [--json]\n"
             "--model DIR --input FILE --random-samples M [--seed N]",
    .example = "berth show squad --model squad-minilm --input dev-v1.1.json \\\n"
               "    --start-sample 100 --num-test-samples 5\n"
               "berth show squad --model squad-minilm --input dev-v1.1.json --random-samples 50",
    .notes = "A sample is the question, the context with the model's answer highlighted (without "
             "colours that answer follows on a line of its own), and the reference, whether or not "
             "the answer is right, with the scores of the answer. With --features keras, samples "
             "and answers follow Keras's recipe: the best start and the best end are chosen "
             "independently.",
    .jobs = JOB_SHOW,
    CLI_OWN_OPTIONS(options),
    .required = "model_name_or_path predict_file",
    .processes = CLI_FIRST,
    .run = run_show,
};
