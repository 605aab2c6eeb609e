// SPDX-License-Identifier: Apache-2.0
// berth fill: the best words for each [MASK] of a text, one line of JSON for each line of text.
#include "cli.h"
#include "core/json_line.h"
#include "core/memory.h"
#include "core/number.h"

static const struct option_row options[] = {
    {CLI_INTEGER("top_k", "5"), BETWEEN(1, 1 << 24), .unit = "N", .aliases = "top",
     .help = "number of words for each [MASK]"},
    {CLI_TEXT("text", NULL), .unit = "TEXT", .shown = "the lines of FILE or of standard input",
     .help = "a single text"},
};

#define ROUND 512 // texts that are filled in and printed together

static void put_word(struct json_line *line, const struct berth_word *word) {
    char score[NUMBER_TEXT_SIZE];
    number_format(score, sizeof score, "%.9g", word->score);
    json_line_open(line, NULL, '{');
    json_line_raw(line, "score", score);
    json_line_integer(line, "token", word->token);
    json_line_text(line, "token_str", word->token_str);
    json_line_text(line, "sequence", word->sequence);
    json_line_close(line, '}');
}

// A list of words, or of such lists if the text has several masks.
static enum berth_status put_text(struct json_line *line, const struct berth_filled *filled,
                                  struct berth_error *error) {
    json_line_open(line, NULL, '[');
    for (size_t mask = 0; mask < filled->masks; mask++) {
        if (filled->masks > 1) {
            json_line_open(line, NULL, '[');
        }
        for (size_t i = 0; i < filled->top_k; i++) {
            put_word(line, &filled->words[mask * filled->top_k + i]);
        }
        if (filled->masks > 1) {
            json_line_close(line, ']');
        }
    }
    json_line_close(line, ']');
    return cli_put_json(line, error);
}

struct job {
    const struct cli_call *call;
    const struct cli_lines *lines;
    struct berth_filler *filler;
    struct berth_text_status *statuses; // [ROUND]
    size_t cut, first_cut;              // texts that were truncated, and the index of the first
};

// Of texts `first` to `first + count`: the error of the first that failed.
static enum berth_status first_failure(const struct job *job, size_t first, size_t count,
                                       struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        const struct berth_error *own = &job->statuses[i].error;
        if (own->status != BERTH_OK) {
            return error_set(error, own->status, "%s: line %zu: %s", job->lines->name,
                             first + i + 1, own->message);
        }
    }
    return BERTH_OK;
}

static void count_cut(struct job *job, size_t first, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (job->statuses[i].truncated && job->cut++ == 0) {
            job->first_cut = first + i;
        }
    }
}

static void note_cut(const struct job *job) {
    if (job->cut > 0) {
        cli_note(job->call,
                 "%zu of %zu texts have more tokens than the model reads, and what is beyond was "
                 "left out; the first is text %zu",
                 job->cut, job->lines->count, job->first_cut + 1);
    }
}

static enum berth_status fill_round(struct job *job, size_t first, struct berth_error *error) {
    struct berth_filled filled[ROUND];
    struct json_line line = {0};
    const size_t left = job->lines->count - first, count = left < ROUND ? left : ROUND;
    TRY(berth_fill_many(job->filler, job->lines->items + first, count,
                        (size_t)cli_integer(job->call, "top_k"), filled, job->statuses, error));
    enum berth_status status = first_failure(job, first, count, error);
    count_cut(job, first, count);
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        status = put_text(&line, &filled[i], error);
    }
    json_line_done(&line);
    berth_filled_free(filled, count);
    return status;
}

static enum berth_status fill_all(struct cli_call *call, const struct cli_lines *lines,
                                  struct berth_error *error) {
    struct job job = {.call = call, .lines = lines};
    TRY(berth_filler_open(&call->config, cli_log(call), &job.filler, error));
    job.statuses = memory_array(ROUND, sizeof *job.statuses);
    enum berth_status status =
        job.statuses != NULL ? BERTH_OK
                             : error_no_memory(error, ROUND * sizeof *job.statuses, "the texts");
    for (size_t first = 0; first < lines->count && status == BERTH_OK; first += ROUND) {
        status = fill_round(&job, first, error);
    }
    if (status == BERTH_OK) {
        note_cut(&job);
    }
    memory_free(job.statuses);
    berth_filler_close(job.filler);
    return status;
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    const char *text = cli_value(call, "text");
    struct cli_lines lines = {.name = "--text", .items = &text, .count = 1};
    if (text != NULL && call->argument_count > 0) {
        return error_set(error, BERTH_USAGE, "--text and the file %s contradict each other",
                         call->arguments[0]);
    }
    if (text != NULL) {
        return fill_all(call, &lines, error);
    }
    enum berth_status status = cli_read_lines(call, &lines, error);
    if (status == BERTH_OK) {
        status = fill_all(call, &lines, error);
    }
    cli_lines_done(&lines);
    return status;
}

const struct cli_verb cli_fill = {
    .name = "fill",
    .summary = "find the best words for each [MASK] of a text",
    .usage = "--model DIR [--top_k N] [--text TEXT | FILE]",
    .example = "berth fill --model notes-bert --text 'It was [MASK] today.'\n"
               "berth fill --model notes-bert --top_k 3 sentences.txt > words.jsonl",
    .notes =
        "Each line of FILE, or of standard input, is a text with one or more [MASK]. Output is a "
        "line of JSON for each text, as from the fill-mask pipeline of transformers: a list of "
        "{\"score\": P, \"token\": ID, \"token_str\": \"...\", \"sequence\": \"...\"}, best first; "
        "for a text with several [MASK] a list of such lists. Each [MASK] is filled by itself.",
    .jobs = JOB_FILL,
    CLI_OWN_OPTIONS(options),
    .required = "model_name_or_path",
    .arguments_max = 1,
    .processes = CLI_FIRST,
    .run = run,
};
