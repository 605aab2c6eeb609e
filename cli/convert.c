// SPDX-License-Identifier: Apache-2.0
// berth convert: a model in another format.
#include "cli.h"

static const struct cli_option options[] = {
    {.name = "to",
     .kind = CLI_TEXT,
     .unit = "FORMAT",
     .fallback = "hf",
     .help = "hf: Hugging Face folder, every tensor under its name and in its type; "
             "onnx: a graph for ONNX Runtime and others; gguf: the encoder for llama.cpp"},
    {.name = "dtype",
     .kind = CLI_TEXT,
     .unit = "TYPE",
     .fallback = "f32",
     .help = "type of the matrices: f32, or f16 (gguf only)"},
    {.name = "allow_lossy",
     .kind = CLI_FLAG,
     .help = "go on when tensors must be left out or get a narrower type"},
};

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    struct berth_convert_settings settings = {.to = cli_value(call, "to"),
                                              .dtype = cli_value(call, "dtype"),
                                              .allow_lossy = cli_flag(call, "allow_lossy")};
    if (settings.to == NULL) {
        settings.to = "hf";
    }
    const char *output = call->arguments[1];
    TRY(berth_convert(call->arguments[0], output, &settings, cli_log(call), error));
    cli_note(call, "%s holds the model as %s", output, settings.to);
    return BERTH_OK;
}

const struct cli_verb cli_convert = {
    .name = "convert",
    .summary = "write a model in another format",
    .usage = "IN OUT [--to FORMAT] [--dtype TYPE] [--allow_lossy]",
    .example = "berth convert squad-minilm squad-minilm-onnx --to onnx\n"
               "berth convert all-MiniLM-L6-v2 minilm-gguf --to gguf --dtype f16 --allow_lossy",
    .notes = "IN is a model folder, OUT a new folder, which appears as a whole or not at all; "
             "config.json and the tokenizer's files are copied along. When something would be lost "
             "(a tensor that the format has no place for, a narrower type), the tensors are named "
             "and nothing is written without --allow_lossy: exit code 78.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .arguments_least = 2,
    .arguments_most = 2,
    .models = 1,
    .run = run,
};
