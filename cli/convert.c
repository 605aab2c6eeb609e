// SPDX-License-Identifier: Apache-2.0
// berth convert: writes a model in another format.
#include "api/conversion.h"
#include "cli.h"

#include <string.h>

static const struct option_row options[] = {
    {CLI_TEXT("to", "hf"), .unit = "FORMAT",
     .choices = "hf|torch|tensorflow|nvidia|deepspeed|trainer|onnx|gguf|int8",
     .help =
         "hf: Hugging Face folder; torch: the same with pytorch_model.bin; tensorflow: "
         "Google's checkpoint; nvidia: ckpt_N.pt; deepspeed: DeepSpeed's checkpoint folder "
         "(these five keep the type of every tensor); trainer: a checkpoint of transformers' "
         "Trainer with the moments of Berth's checkpoint IN; onnx: a graph for ONNX Runtime; gguf: "
         "the encoder for llama.cpp; int8: a Hugging Face folder with the encoder's matrices in "
         "int8 (compressed-tensors)"},
    {CLI_TEXT("dtype", NULL), .unit = "f32|f16|bf16",
     .help = "number format of all tensors: f32, f16 or bf16 (trainer, onnx and int8: f32; gguf: "
             "f32, or f16 for the matrices)"},
    {CLI_TEXT("names", NULL), .unit = "huggingface|nvidia|kernel", .shown = "as in the model",
     .help = "deepspeed: names of the tensors as in huggingface, in nvidia (also BingBert's), or "
             "in kernel (DeepSpeed's transformer kernel: attn_qkvw and so on)"},
    {CLI_FLAG("kernel_layers"), .help = "the same as --names kernel"},
    {CLI_INTEGER("step", "0"), BETWEEN(0, 1e15), .unit = "N",
     .help = "nvidia, deepspeed: step in the name of the checkpoint"},
    {CLI_TEXT("zero_stage", NULL), .unit = "STAGE", .shown = "the model alone",
     .help =
         "deepspeed: also write the optimizer's state of the checkpoint IN; 0: as a run without "
         "ZeRO has it; 1 or 2: as ZeRO's shards"},
    {CLI_INTEGER("ranks", "0"), BETWEEN(0, 1000), .unit = "N", .shown = "1",
     .help = "with --zero_stage 1 or 2: number of shards, one for each process"},
    {CLI_TEXT("config_file", NULL), .unit = "FILE", .shown = "beside the weights",
     .help = "config.json of weights that have none beside them"},
    {CLI_TEXT("vocab_file", NULL), .aliases = "vocab", .unit = "FILE",
     .shown = "beside the weights", .help = "vocabulary of weights that have none beside them"},
    {CLI_FLAG("allow_lossy"),
     .help = "convert even if tensors must be left out or converted to a narrower type"},
};

static enum berth_status run(struct cli_call *call, struct berth_error *error) {
    struct berth_convert_settings settings = {.to = cli_value(call, "to"),
                                              .dtype = cli_value(call, "dtype"),
                                              .names = cli_value(call, "names"),
                                              .kernel_layers = cli_flag(call, "kernel_layers"),
                                              .step = cli_integer(call, "step"),
                                              .zero_stage = cli_value(call, "zero_stage"),
                                              .ranks = cli_integer(call, "ranks"),
                                              .config_file = cli_value(call, "config_file"),
                                              .vocab_file = cli_value(call, "vocab_file"),
                                              .allow_lossy = cli_flag(call, "allow_lossy")};
    const char *output = call->arguments[1];
    if (cli_is_given(call, "step") && strcmp(settings.to, "nvidia") != 0 &&
        strcmp(settings.to, "deepspeed") != 0) {
        cli_note(call, "--step has no effect with --to %s", settings.to);
    }
    TRY(cli_check_output(call, "OUT", output, error));
    TRY(convert_until(call->arguments[0], output, &settings, cli_log(call),
                      cli_stop_on_signals("nothing will be written"), error));
    cli_note(call, "%s contains the model as %s", output, settings.to);
    return BERTH_OK;
}

const struct cli_verb cli_convert = {
    .name = "convert",
    .summary = "write a model in another format",
    .usage =
        "IN OUT [--to FORMAT] [--dtype TYPE] [--names NAMES] [--step N] [--kernel_layers] "
        "[--zero_stage STAGE] [--ranks N] [--config_file FILE] [--vocab_file FILE] [--allow_lossy]",
    .example = "berth convert squad-minilm squad-minilm-onnx --to onnx\n"
               "berth convert all-MiniLM-L6-v2 minilm-gguf --to gguf --dtype f16 --allow_lossy\n"
               "berth convert squad-minilm squad-minilm-int8 --to int8",
    .notes = "IN is a model folder in any of the formats except onnx and gguf, or the file of "
             "weights in it; OUT is a new folder, which appears complete or not at all. "
             "config.json and the tokenizer's files are copied along. If something would be lost "
             "(a tensor that the format cannot hold, a narrower type), the tensors are named and "
             "nothing is written without --allow_lossy: exit code 78.",
    CLI_OWN_OPTIONS(options),
    .arguments_min = 2,
    .arguments_max = 2,
    .models = 1,
    .processes = CLI_ALONE,
    .run = run,
};
