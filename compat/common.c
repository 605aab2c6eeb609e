// SPDX-License-Identifier: Apache-2.0
// What the programs of several systems have in common: the batch of a process, half precision,
// which of training and prediction runs, and flags that many of them have. Called by the programs'
// own files while translate.c completes a command.
#include "core/file.h"
#include "core/number.h"
#include "core/text_util.h"
#include "program.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FRAMEWORK "it belongs to the framework of the program"

const struct compat_flag compat_tensorflow_flags[] = {
    NOT_NEEDED(COMPAT_SWITCH, "use_tpu", "Berth does not use TPUs"),
    NOT_NEEDED(COMPAT_VALUE,
               "tpu_name tpu_zone gcp_project master num_tpu_cores iterations_per_loop",
               "Berth does not use TPUs"),
    NOT_NEEDED(COMPAT_VALUE, "debug_nans verbosity", FRAMEWORK), FLAGS_END};

// Questions: Google's program, and those that came from it.
const struct compat_flag compat_question_flags[] = {
    SAME(COMPAT_VALUE, "output_dir train_file vocab_file max_seq_length doc_stride "
                       "max_query_length predict_batch_size learning_rate num_train_epochs "
                       "warmup_proportion n_best_size max_answer_length "
                       "null_score_diff_threshold"),
    SAME(COMPAT_SWITCH, "do_lower_case version_2_with_negative"),
    READS(COMPAT_SWITCH, "do_train", "berth finetune squad; without it berth predict squad"),
    READS(COMPAT_SWITCH, "do_predict", "predicts the questions of predict_file"),
    READS(COMPAT_VALUE, "predict_file", "--validation_file; without do_train --predict_file"),
    NOT_NEEDED(COMPAT_SWITCH, "verbose_logging", "--json_summary FILE writes every record"),
    FLAGS_END};

// Programs of PyTorch that came from Google's.
const struct compat_flag compat_pytorch_flags[] = {
    SAME(COMPAT_VALUE, "seed"),
    READS(COMPAT_VALUE, "train_batch_size",
          "sequences of one process: --per_device_train_batch_size x "
          "--gradient_accumulation_steps"),
    READS(COMPAT_VALUE, "gradient_accumulation_steps", "--gradient_accumulation_steps"),
    READS(COMPAT_SWITCH, "fp16 amp", "--precision bf16; fp16 on a GPU named by --device"),
    SETS("no_cuda", "device", "cpu", NULL),
    {.names = "loss_scale", .kind = COMPAT_VALUE, .option = "", .values = "0=dynamic 0.0=dynamic"},
    NOT_NEEDED(COMPAT_VALUE, "local_rank server_ip server_port", "the launcher numbers processes"),
    NOT_NEEDED(COMPAT_SWITCH, "use_env", "the launcher numbers processes"),
    FLAGS_END};

// The log of NVIDIA's and Habana's programs.
const struct compat_flag compat_dllogger_flags[] = {
    SAME(COMPAT_VALUE, "json_summary"), TO(COMPAT_VALUE, "log_freq", "logging_steps"),
    TO(COMPAT_SWITCH, "disable_progress_bar", "no_progress"),
    SAME(COMPAT_SWITCH, "skip_checkpoint"), FLAGS_END};

enum berth_status compat_batch_of_process(struct compat_line *line, const char *batch,
                                          const char *accumulation, int64_t otherwise,
                                          struct berth_error *error) {
    int64_t sequences, parts;
    TRY(compat_integer(line, batch, 1, otherwise, &sequences, error));
    TRY(compat_integer(line, accumulation, 1, 1, &parts, error));
    if (sequences % parts != 0 || sequences < parts) {
        return error_set(error, BERTH_USAGE,
                         "option %s: %" PRId64 " sequences are not a multiple of %s %" PRId64,
                         batch, sequences, accumulation, parts);
    }
    compat_set_integer(line, "per_device_train_batch_size", sequences / parts);
    compat_set_integer(line, "gradient_accumulation_steps", parts);
    return BERTH_OK;
}

void compat_half(struct compat_line *line, const char *flag) {
    if (compat_is_on(line, flag)) {
        compat_set(line, "precision", "bf16");
        compat_note(line,
                    "--%s: bf16, which needs no loss scale; `berth as --precision=fp16 "
                    "--device=cuda ...` computes in fp16 on a GPU",
                    flag);
    }
}

enum berth_status compat_squad_modes(struct compat_line *line, struct berth_error *error) {
    const int trains = compat_is_on(line, "do_train"),
              predicts = compat_is_on(line, "do_predict") || compat_is_on(line, "do_eval");
    const char *file = compat_value(line, "predict_file");
    if (!trains && !predicts) {
        return error_set(error, BERTH_USAGE,
                         "nothing to do: give --do_train, --do_predict or both");
    }
    if (predicts && file == NULL) {
        return error_set(error, BERTH_USAGE, "--do_predict needs --predict_file");
    }
    if (trains && compat_get(line, "train_file") == NULL) {
        return error_set(error, BERTH_USAGE, "--do_train needs --train_file");
    }
    if (!trains) {
        compat_verb(line, "predict squad");
        compat_set(line, "predict_file", file);
    } else if (predicts) {
        compat_set(line, "validation_file", file);
    }
    return BERTH_OK;
}

enum berth_status compat_classify_modes(struct compat_line *line, struct berth_error *error) {
    const int trains = compat_is_on(line, "do_train"), evaluates = compat_is_on(line, "do_eval"),
              predicts = compat_is_on(line, "do_predict");
    if (!trains && !evaluates && !predicts) {
        return error_set(error, BERTH_USAGE,
                         "nothing to do: give --do_train, --do_eval or --do_predict");
    }
    if (!trains) {
        compat_verb(line, "predict classify");
    }
    compat_set(line, "do_eval", evaluates ? "true" : "false");
    compat_set(line, "do_predict", predicts ? "true" : "false");
    return BERTH_OK;
}

const char *compat_file_in(struct compat_line *line, const char *folder, const char *name) {
    const char *path = compat_text(line, "%s/%s", folder, name);
    return file_exists(path) || dir_exists(path) ? path : NULL;
}

// Whether `path` is a file of weights without a configuration beside it.
static int has_no_config(struct compat_line *line, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *folder = slash != NULL ? compat_text(line, "%.*s", (int)(slash - path), path) : ".";
    return !dir_exists(path) && compat_file_in(line, folder, "config.json") == NULL &&
           compat_file_in(line, folder, "bert_config.json") == NULL;
}

void compat_geometry(struct compat_line *line, const char *flag, const char *name) {
    const char *weights = compat_get(line, "model_name_or_path");
    if (name == NULL || weights == NULL) {
        return;
    }
    if (!has_no_config(line, weights)) {
        compat_note(line, "--%s %s is not needed: %s has a configuration", flag, name, weights);
        return;
    }
    compat_default(line, "config_file", name);
    compat_default(line, "vocab_file", name);
}
