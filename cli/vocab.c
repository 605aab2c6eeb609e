// SPDX-License-Identifier: Apache-2.0
// berth vocab: trains a WordPiece vocabulary.
#include "cli.h"
#include "core/json_line.h"
#include "core/terminal.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const struct cli_option options[] = {
    {.name = "text", .kind = CLI_LIST, .unit = "FILE...", .help = "files of text, UTF-8"},
    {.name = "extracted",
     .kind = CLI_TEXT,
     .unit = "DIR",
     .help = "folder with the text of a Wikipedia dump, as `berth prepare` or WikiExtractor writes "
             "it"},
    {.name = "size",
     .aliases = "vocab_size",
     .kind = CLI_INTEGER,
     .minimum = 6,
     .maximum = 1 << 24,
     .unit = "N",
     .fallback = "30522",
     .help = "pieces of the vocabulary"},
    {.name = "limit_alphabet",
     .kind = CLI_INTEGER,
     .minimum = 1,
     .maximum = 0x110000,
     .unit = "N",
     .fallback = "1000",
     .help =
         "different characters at most, the most frequent ones; words with others become [UNK]"},
    {.name = "min_frequency",
     .kind = CLI_INTEGER,
     .minimum = 1,
     .maximum = 1e15,
     .unit = "N",
     .fallback = "2",
     .help = "how often two pieces must stand beside each other to become one"},
    {.name = "output", .kind = CLI_TEXT, .unit = "FILE", .help = "the vocabulary: vocab.txt"},
    {.name = "json", .kind = CLI_FLAG, .help = "the counts as one JSON object"},
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
        .size = cli_integer(call, "size", 0),
        .limit_alphabet = cli_integer(call, "limit_alphabet", 0),
        .min_frequency = cli_integer(call, "min_frequency", 0)};
    struct berth_reporter *reporter;
    struct berth_vocab_result result;
    call->config.no_progress |= !terminal_is(STDERR_FILENO);
    TRY(berth_reporter_open(&call->config, STDERR_FILENO, &reporter, error));
    enum berth_status status =
        berth_vocab_train(&call->config, &settings, berth_reporter_log(reporter),
                          cli_stop_on_signals("nothing is written"), &result, error);
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
        "then longer pieces, the most useful first. Fewer pieces than asked for are written "
        "when nothing is left that is frequent enough. Use the vocabulary with the casing "
        "(do_lower_case) that it was made with.",
    .jobs = JOB_VOCAB,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .required = "output",
    .writes = CLI_WRITES,
    .run = run,
};
