// SPDX-License-Identifier: Apache-2.0
// berth vocab: trains a WordPiece vocabulary.
#include "cli.h"
#include "core/json_line.h"
#include "core/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const struct option_row options[] = {
    {CLI_LIST("text"), .unit = "FILE...", .help = "text files (UTF-8)"},
    {CLI_TEXT("extracted", NULL), .unit = "DIR",
     .help = "folder with the text of a Wikipedia dump, as written by `berth prepare` or "
             "WikiExtractor"},
    {CLI_INTEGER("size", "30522"), BETWEEN(6, 1 << 24), .unit = "N", .aliases = "vocab_size",
     .help = "number of pieces in the vocabulary"},
    {CLI_INTEGER("limit_alphabet", "1000"), BETWEEN(1, 0x110000), .unit = "N",
     .help = "maximum number of different characters, the most frequent first; words with other "
             "characters become [UNK]"},
    {CLI_INTEGER("min_frequency", "2"), BETWEEN(1, 1e15), .unit = "N",
     .help = "how often a pair of pieces must occur to be merged"},
    {CLI_TEXT("output", NULL), .unit = "FILE", .help = "file for the vocabulary (vocab.txt)"},
    {CLI_FLAG("cased"), .help = "the same as --do_lower_case false"},
    {CLI_FLAG("json"), .help = "print the counts as one JSON object"},
};

static enum berth_status print(const struct cli_call *call, const struct berth_vocab_result *result,
                               struct berth_error *error) {
    if (!cli_flag(call, "json")) {
        printf("%" PRId64 " pieces from %" PRId64 " words, %" PRId64 " of them different\n",
               result->pieces, result->words, result->distinct_words);
        return BERTH_OK;
    }
    struct json_line line = {0};
    json_line_open(&line, NULL, '{');
    json_line_integer(&line, "pieces", result->pieces);
    json_line_integer(&line, "words", result->words);
    json_line_integer(&line, "distinct_words", result->distinct_words);
    json_line_integer(&line, "text_bytes", result->text_bytes);
    json_line_close(&line, '}');
    enum berth_status status = cli_put_json(&line, error);
    json_line_done(&line);
    return status;
}

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    const struct berth_vocab_settings settings = {
        .texts = call->list,
        .text_count = call->list_count,
        .extracted = cli_value(call, "extracted"),
        .output = cli_value(call, "output"),
        .size = cli_integer(call, "size"),
        .limit_alphabet = cli_integer(call, "limit_alphabet"),
        .min_frequency = cli_integer(call, "min_frequency")};
    struct berth_reporter *reporter;
    struct berth_vocab_result result;
    TRY(cli_apply_cased(call, error));
    call->config.no_progress |= !terminal_is(STDERR_FILENO);
    TRY(berth_reporter_open(&call->config, STDERR_FILENO, &reporter, error));
    enum berth_status status =
        berth_vocab_train(&call->config, &settings, berth_reporter_log(reporter),
                          cli_stop_on_signals("nothing will be written"), &result, error);
    berth_reporter_close(reporter);
    return status == BERTH_OK ? print(call, &result, error) : status;
}

const struct cli_verb cli_vocab = {
    .name = "vocab",
    .summary = "train a WordPiece vocabulary",
    .usage = "--text FILE... | --extracted DIR --output vocab.txt [--size 30522]",
    .example = "berth vocab --text corpus/*.txt --size 30522 --output vocab.txt",
    .notes =
        "The special pieces [PAD] [UNK] [CLS] [SEP] [MASK] come first, then single characters, "
        "then longer pieces, the most useful first. Fewer pieces than requested are written if "
        "nothing else is frequent enough. Use the vocabulary with the casing (do_lower_case) that "
        "it was made with.",
    .jobs = JOB_VOCAB,
    CLI_OWN_OPTIONS(options),
    .required = "output",
    .processes = CLI_ALONE,
    .run = run,
};
