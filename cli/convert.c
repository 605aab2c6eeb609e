// SPDX-License-Identifier: Apache-2.0
// berth convert: writes a model in another format.
#include "cli.h"

static const struct cli_option options[] = {
    {.name = "to",
     .kind = CLI_TEXT,
     .unit = "FORMAT",
     .fallback = "hf",
     .help =
         "hf: Hugging Face folder; torch: the same with pytorch_model.bin; tensorflow: Google's "
         "checkpoint; nvidia: ckpt_<step>.pt; deepspeed: its checkpoint folder (all of these "
         "keep every tensor in its type); onnx: a graph for ONNX Runtime and others; gguf: the "
         "encoder for llama.cpp"},
    {.name = "dtype",
     .kind = CLI_TEXT,
     .unit = "TYPE",
     .help =
         "f32, f16 or bf16 for all numbers in place of their own types (onnx: f32; gguf: f32, or "
         "f16 for the matrices)"},
    {.name = "names",
     .kind = CLI_TEXT,
     .unit = "NAMES",
     .fallback = "as the model's",
     .help = "deepspeed: names of the tensors for a module of huggingface, of nvidia (BingBert's, "
             "too), or of kernel (DeepSpeed's transformer kernel: attn_qkvw, ...)"},
    {.name = "kernel_layers", .kind = CLI_FLAG, .help = "the same as --names kernel"},
    {.name = "step",
     .kind = CLI_INTEGER,
     .maximum = 1e15,
     .unit = "N",
     .fallback = "0",
     .help = "nvidia, deepspeed: the step in the checkpoint's name"},
    {.name = "allow_lossy",
     .kind = CLI_FLAG,
     .help = "go on when tensors must be left out or get a narrower type"},
};

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    struct berth_convert_settings settings = {.to = cli_value(call, "to"),
                                              .dtype = cli_value(call, "dtype"),
                                              .names = cli_value(call, "names"),
                                              .kernel_layers = cli_flag(call, "kernel_layers"),
                                              .step = cli_integer(call, "step", 0),
                                              .allow_lossy = cli_flag(call, "allow_lossy")};
    if (settings.to == NULL) {
        settings.to = "hf";
    }
    const char *output = call->arguments[1];
    TRY(berth_convert(call->arguments[0], output, &settings, cli_log(call), error));
    cli_note(call, "%s contains the model as %s", output, settings.to);
    return BERTH_OK;
}

const struct cli_verb cli_convert = {
    .name = "convert",
    .summary = "write a model in another format",
    .usage = "IN OUT [--to FORMAT] [--dtype TYPE] [--names NAMES] [--step N] [--kernel_layers] "
             "[--allow_lossy]",
    .example = "berth convert squad-minilm squad-minilm-onnx --to onnx\n"
               "berth convert all-MiniLM-L6-v2 minilm-gguf --to gguf --dtype f16 --allow_lossy",
    .notes = "IN is a model folder of any of the formats but onnx and gguf, or the file of weights "
             "in it, OUT a new folder, which appears as a whole or not at all; "
             "config.json and the tokenizer's files are copied along. When something would be lost "
             "(a tensor that the format has no place for, a narrower type), the tensors are named "
             "and nothing is written without --allow_lossy: exit code 78.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .arguments_least = 2,
    .arguments_most = 2,
    .models = 1,
    .writes = CLI_WRITES,
    .run = run,
};
