// SPDX-License-Identifier: Apache-2.0
// Flags of the original scripts that are not rows of the option table (BingBertSquad, run_squad,
// run_pretraining, run_qa). Some set a row; others belong to the hardware or the framework and have
// no effect, which a note says.
#include "cli.h"
#include "core/number.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum legacy_kind {
    SETS,           // flag: sets a row; to another value if false
    IGNORED,        // flag without effect
    IGNORED_1,      // option with a value, without effect
    ALIAS,          // sets a row that this verb does not show
    SPECIAL,        // flag handled by name
    SPECIAL_1,      // option with a value handled by name
    FILE_OR_NOTHING // flag, or option with a file for a row
};

struct legacy {
    const char *name;
    enum legacy_kind kind;
    const char *row, *value;
    const char *off;  // SETS: the row's value if the flag is false; NULL: no effect
    const char *note; // why it has no effect
};

static const char padding[] = "there is no padding in Berth";
static const char framework[] = "it belongs to the original's framework";
static const char no_fp16[] = "--precision decides, and nothing runs in fp16";
static const char no_cache[] = "only `finetune squad` and `predict squad` keep features";
static const char own_config[] = "the model folder's config.json is used";

static const struct legacy legacies[] = {
    // do_eval and do_predict of verbs in which they are not rows: the verb predicts, and scores
    // what has labels; SQuAD's fine-tuning uses do_predict for its evaluation.
    {.name = "do_train", .kind = SPECIAL},
    {.name = "do_predict", .kind = SPECIAL},
    {.name = "do_eval", .kind = SPECIAL},
    {.name = "download_only", .kind = SPECIAL},
    {.name = "fp16",
     .kind = SETS,
     .row = "precision",
     .value = "bf16",
     .off = "fp32",
     .note = "fp16 runs as bf16 on the CPU"},
    {.name = "bf16", .kind = SETS, .row = "precision", .value = "bf16", .off = "fp32"},
    {.name = "amp",
     .kind = SETS,
     .row = "precision",
     .value = "bf16",
     .off = "fp32",
     .note = "amp runs as bf16 on the CPU"},
    {.name = "autocast", .kind = SETS, .row = "precision", .value = "bf16", .off = "fp32"},
    {.name = "hmp", .kind = SETS, .row = "precision", .value = "bf16", .off = "fp32"},
    {.name = "fp32", .kind = SETS, .row = "precision", .value = "fp32"},
    {.name = "no_cuda", .kind = SETS, .row = "device", .value = "cpu"},
    {.name = "use_cpu", .kind = SETS, .row = "device", .value = "cpu"},
    {.name = "cased", .kind = SETS, .row = "do_lower_case", .value = "false", .off = "true"},
    {.name = "uncased", .kind = SETS, .row = "do_lower_case", .value = "true", .off = "false"},
    {.name = "predict_file", .kind = ALIAS, .row = "validation_file"},
    {.name = "dropout", .kind = SPECIAL_1},
    {.name = "lr_scheduler_type", .kind = SPECIAL_1},
    {.name = "per_param_grad_clipping", .kind = SETS, .row = "clip_by", .value = "tensor"},
    {.name = "use_fused_lamb", .kind = SETS, .row = "optimizer", .value = "nvlamb"},
    {.name = "deepspeed",
     .kind = FILE_OR_NOTHING,
     .row = "deepspeed_config",
     .note = "--deepspeed_config FILE is read"},
    {.name = "deepspeed_transformer_kernel", .kind = IGNORED, .note = framework},
    {.name = "local_rank", .kind = IGNORED_1, .note = framework},
    {.name = "fp16_opt_level", .kind = IGNORED_1, .note = no_fp16},
    {.name = "fp16_backend", .kind = IGNORED_1, .note = no_fp16},
    {.name = "hmp_bf16", .kind = IGNORED_1, .note = framework},
    {.name = "hmp_fp32", .kind = IGNORED_1, .note = framework},
    {.name = "hmp_opt_level", .kind = IGNORED_1, .note = framework},
    {.name = "hmp_verbose", .kind = IGNORED, .note = framework},
    {.name = "use_habana", .kind = IGNORED, .note = framework},
    {.name = "use_lazy_mode", .kind = IGNORED, .note = framework},
    {.name = "use_hpu_graphs", .kind = IGNORED, .note = framework},
    {.name = "use_fused_adam", .kind = IGNORED, .note = "every optimizer is fused"},
    {.name = "use_tpu", .kind = IGNORED, .note = framework},
    {.name = "use_env", .kind = IGNORED, .note = framework},
    {.name = "tf32", .kind = IGNORED, .note = framework},
    {.name = "verbose_logging", .kind = IGNORED, .note = "--json_summary FILE logs everything"},
    {.name = "profile", .kind = IGNORED, .note = "--wall_clock_breakdown times the phases"},
    {.name = "job_name", .kind = SPECIAL_1},
    {.name = "ckpt_type",
     .kind = IGNORED_1,
     .note = "the checkpoint's own files determine its type"},
    {.name = "origin_bert_config_file", .kind = IGNORED_1, .note = own_config},
    {.name = "bert_config_file", .kind = IGNORED_1, .note = own_config},
    {.name = "config_file", .kind = IGNORED_1, .note = own_config},
    {.name = "config_name", .kind = IGNORED_1, .note = own_config},
    {.name = "tokenizer_name", .kind = IGNORED_1, .note = "the model folder's vocabulary is used"},
    {.name = "cache_dir", .kind = IGNORED_1, .note = no_cache},
    {.name = "overwrite_cache", .kind = IGNORED, .note = no_cache},
    {.name = "skip_cache", .kind = IGNORED, .note = no_cache},
    {.name = "pad_to_max_length", .kind = IGNORED, .note = padding},
    {.name = "group_by_length", .kind = IGNORED, .note = padding},
    {.name = "dataloader_num_workers", .kind = IGNORED_1, .note = framework},
    {.name = "num_inter_threads", .kind = IGNORED_1, .note = framework},
    {.name = "inter_op", .kind = IGNORED_1, .note = framework},
    {.name = "optimized_softmax", .kind = IGNORED, .note = "every kernel is optimised"},
    {.name = "experimental_gelu",
     .kind = IGNORED,
     .note = "hidden_act of config.json determines it"},
    {.name = "mpi_workers_sync_gradients", .kind = IGNORED, .note = "there is one process"},
    {.name = "throughput_warmup_steps",
     .kind = IGNORED_1,
     .note = "samples_per_second is of all updates"},
    {.name = "eval_script", .kind = IGNORED_1, .note = "the official metrics are built in"},
    {.name = "report_to", .kind = IGNORED_1, .note = "--logging_dir DIR writes for TensorBoard"},
    {.name = "trust_remote_code", .kind = IGNORED, .note = "no code is ever loaded"},
    {.name = "logging_strategy", .kind = IGNORED_1, .note = "--logging_steps decides"},
    {.name = "logging_first_step", .kind = IGNORED, .note = "--logging_steps decides"},
    {.name = "optim", .kind = SPECIAL_1},
    {.name = "input_file", .kind = SPECIAL_1}, // of Google's run_pretraining
    {.name = "full_determinism", .kind = IGNORED, .note = "every run is deterministic"},
    {.name = "torch_compile", .kind = IGNORED, .note = framework},
    {.name = "remove_unused_columns", .kind = IGNORED, .note = framework},
    {.name = "use_zero_optimizer", .kind = IGNORED, .note = "there is one process"},
    {.name = "push_to_hub", .kind = IGNORED, .note = "nothing is sent anywhere"},
    {.name = "allreduce_post_accumulation", .kind = IGNORED, .note = "there is one process"},
    {.name = "allreduce_post_accumulation_fp16", .kind = IGNORED, .note = "there is one process"},
    {.name = "enable_packed_data_mode",
     .kind = IGNORED,
     .note = "shards state whether they are packed"},
    {.name = "use_nvidia_dataset", .kind = IGNORED, .note = "shards state their layout"},
    {.name = "profile_steps", .kind = IGNORED_1, .note = "--wall_clock_breakdown times the phases"},
    {.name = "train_option", .kind = IGNORED_1, .note = "the verb determines what is trained"},
};

static const struct legacy *find(const char *name) {
    for (size_t i = 0; i < sizeof legacies / sizeof *legacies; i++) {
        if (option_same_name(name, legacies[i].name)) {
            return &legacies[i];
        }
    }
    return NULL;
}

int cli_legacy_find(const char *name, enum cli_legacy_value *value) {
    const struct legacy *legacy = find(name);
    if (legacy == NULL) {
        return 0;
    }
    *value = legacy->kind == FILE_OR_NOTHING ? LEGACY_MAY_HAVE_FILE
             : legacy->kind == IGNORED_1 || legacy->kind == ALIAS || legacy->kind == SPECIAL_1
                 ? LEGACY_NEEDS_VALUE
                 : LEGACY_FLAG;
    return 1;
}

static enum berth_status set(struct cli_call *call, const char *row, const char *value,
                             struct berth_error *error) {
    return option_set(&call->config, option_find(row), value, error);
}

static enum berth_status set_special(struct cli_call *call, const struct legacy *legacy,
                                     int truth) {
    if (strcmp(legacy->name, "download_only") == 0) {
        call->download_only = truth;
    } else if (strcmp(legacy->name, "do_train") == 0) {
        call->do_train = truth;
    } else if (strcmp(legacy->name, "do_predict") == 0) {
        call->do_predict = truth;
    }
    return BERTH_OK;
}

// Hugging Face's names adamw_torch, adamw_hf, adamw_apex_fused, ... all mean one optimizer.
static enum berth_status set_optim(struct cli_call *call, const char *value,
                                   struct berth_error *error) {
    static const char *const others[] = {"8bit", "4bit", "anyprecision", "bnb"};
    int known = strncmp(value, "adamw", 5) == 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        known &= strstr(value, others[i]) == NULL;
    }
    return known ? set(call, "optimizer", "adamw", error)
                 : error_set(error, BERTH_USAGE,
                             "option optim: \"%s\" is not available; expected adamw_torch, or "
                             "--optimizer NAME",
                             value);
}

static enum berth_status set_input(struct cli_call *call, const char *value,
                                   struct berth_error *error) {
    if ((call->verb->jobs & (JOB_PRETRAIN | JOB_EVALUATE_PRETRAIN)) != 0) {
        return set(call, "input_dir", value, error);
    }
    cli_note(call, "--input_file has no effect in `berth %s`", call->verb->name);
    return BERTH_OK;
}

static enum berth_status set_special_value(struct cli_call *call, const struct legacy *legacy,
                                           const char *value, struct berth_error *error) {
    if (strcmp(legacy->name, "dropout") == 0) {
        TRY(set(call, "hidden_dropout_prob", value, error));
        return set(call, "attention_probs_dropout_prob", value, error);
    }
    if (strcmp(legacy->name, "job_name") == 0) {
        call->job_name = value;
        return BERTH_OK;
    }
    if (strcmp(legacy->name, "lr_scheduler_type") == 0) { // one of Hugging Face's values has a
                                                          // different name
        int differs = strcmp(value, "constant_with_warmup") == 0;
        return set(call, "schedule", differs ? "constant_warmup" : value, error);
    }
    if (strcmp(legacy->name, "optim") == 0) {
        return set_optim(call, value, error);
    }
    return set_input(call, value, error);
}

// Handles a flag that is false. An earlier setting takes precedence: `--bf16 --fp16 false` is bf16.
static enum berth_status set_off(struct cli_call *call, const struct legacy *legacy,
                                 struct berth_error *error) {
    if (legacy->kind == SETS && legacy->off != NULL) {
        return option_is_given(&call->config, option_find(legacy->row))
                   ? BERTH_OK
                   : set(call, legacy->row, legacy->off, error);
    }
    cli_note(call, "--%s false has no effect%s%s", legacy->name, legacy->note != NULL ? ": " : "",
             legacy->note != NULL ? legacy->note : "");
    return BERTH_OK;
}

static enum berth_status set_flag(struct cli_call *call, const struct legacy *legacy,
                                  const char *value, struct berth_error *error) {
    int truth;
    if (!number_parse_truth(value, &truth)) {
        return error_set(error, BERTH_USAGE, "option %s: expected true or false, found \"%s\"",
                         legacy->name, value);
    }
    if (legacy->kind == SPECIAL) {
        return set_special(call, legacy, truth);
    }
    if (!truth) {
        return set_off(call, legacy, error);
    }
    if (legacy->note != NULL) {
        cli_note(call, "--%s: %s", legacy->name, legacy->note);
    }
    return legacy->kind == SETS ? set(call, legacy->row, legacy->value, error) : BERTH_OK;
}

// Sets a row that the verb may not have.
static enum berth_status set_file(struct cli_call *call, const struct legacy *legacy,
                                  const char *value, struct berth_error *error) {
    if (cli_row_applies(call->verb, option_find(legacy->row))) {
        return set(call, legacy->row, value, error);
    }
    cli_note(call, "--%s has no effect in `berth %s`", legacy->name, call->verb->name);
    return BERTH_OK;
}

enum berth_status cli_legacy_set(struct cli_call *call, const char *name, const char *value,
                                 struct berth_error *error) {
    const struct legacy *legacy = find(name);
    switch (legacy->kind) {
    case ALIAS:
        if (call->config.validation_file == NULL) {
            return set(call, legacy->row, value, error);
        }
        cli_note(call, "--%s has no effect together with --%s", legacy->name, legacy->row);
        return BERTH_OK;
    case FILE_OR_NOTHING:
        return !cli_is_truth_word(value) ? set_file(call, legacy, value, error)
                                         : set_flag(call, legacy, value, error);
    case SPECIAL_1:
        return set_special_value(call, legacy, value, error);
    case IGNORED_1:
        cli_note(call, "--%s has no effect: %s", legacy->name, legacy->note);
        return BERTH_OK;
    default:
        return set_flag(call, legacy, value, error);
    }
}

// BingBertSquad's --job_name NAME: TensorBoard files in OUTPUT_DIR/runs/NAME.
static void name_runs(struct cli_call *call) {
    const struct berth_config *config = &call->config;
    if (call->job_name == NULL || config->output_dir == NULL) {
        return;
    }
    if (config->logging_dir != NULL || (call->verb->jobs & JOB_TRAIN) == 0) {
        cli_note(call, "--job_name has no effect %s",
                 config->logging_dir != NULL ? "together with --logging_dir" : "without training");
        return;
    }
    size_t size = sizeof call->logging_dir;
    int used = snprintf(call->logging_dir, size, "%s/runs/%s", config->output_dir, call->job_name);
    if (used > 0 && (size_t)used < size) {
        call->config.logging_dir = call->logging_dir;
    }
}

void cli_legacy_nearer(const char *name, struct option_spelling *nearest) {
    for (size_t i = 0; i < sizeof legacies / sizeof *legacies; i++) {
        option_nearer(name, legacies[i].name, NULL, nearest);
    }
}

// Google's name of a checkpoint, DIR/bert_model.ckpt, is the prefix of its files' names.
static int is_checkpoint_prefix(const char *path) {
    char index[4096];
    struct stat status;
    int used = snprintf(index, sizeof index, "%s.index", path);
    return used > 0 && (size_t)used < sizeof index && stat(index, &status) == 0 &&
           stat(path, &status) != 0;
}

// Replaces a model given as a file, or as the name of a checkpoint, by its folder.
static void folder_of_model(struct cli_call *call) {
    static const char *const files[] = {"model.safetensors", "pytorch_model.bin"};
    const char *path = call->config.model_name_or_path;
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    const char *name = slash != NULL ? slash + 1 : path;
    struct stat status;
    int prefix = path != NULL && is_checkpoint_prefix(path);
    if (path == NULL || (!prefix && (stat(path, &status) != 0 || !S_ISREG(status.st_mode)))) {
        return;
    }
    size_t length = slash != NULL ? (size_t)(slash - path) : 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if ((prefix || strcmp(name, files[i]) == 0) && length + 2 < sizeof call->model_folder) {
            memcpy(call->model_folder, length > 0 ? path : ".", length > 0 ? length : 1);
            call->model_folder[length > 0 ? length : 1] = '\0';
            call->config.model_name_or_path = call->model_folder;
        }
    }
}

// --- Google's pre-training ----------------------------------------------------------------------

void cli_legacy_note_spelling(struct cli_call *call, const char *name) {
    static const char *const google[] = {"num_train_steps", "num_warmup_steps", "input_file",
                                         "save_checkpoints_steps", "bert_config_file"};
    for (size_t i = 0; i < sizeof google / sizeof *google; i++) {
        if (call->google_flag == NULL && option_same_name(name, google[i])) {
            call->google_flag = google[i];
        }
    }
}

// A command line of Google's or Intel's run_pretraining also implies their optimizer and schedule.
static enum berth_status follow_google(struct cli_call *call, struct berth_error *error) {
    if (call->google_flag == NULL || (call->verb->jobs & JOB_PRETRAIN) == 0 ||
        call->config.recipe != NULL) {
        return BERTH_OK;
    }
    cli_note(call,
             "--%s is a flag of Google's run_pretraining: other settings default to its values "
             "(--recipe google: its optimizer, schedule and defaults)",
             call->google_flag);
    return set(call, "recipe", "google", error);
}

// --- without training ---------------------------------------------------------------------------

static int is_given(const struct cli_call *call, const char *row) {
    return option_is_given(&call->config, option_find(row));
}

static void note_unused_rows(const struct cli_call *call) {
    char names[1024] = "";
    size_t used = 0;
    for (size_t i = 0; i < option_row_count && used < sizeof names; i++) {
        const struct option_row *row = &option_rows[i];
        const int said =
            strncmp(row->name, "do_", 3) == 0 ||
            (strcmp(row->name, "validation_file") == 0 && call->config.validation_file != NULL);
        if (option_is_given(&call->config, row) && !cli_row_applies(call->verb, row) && !said) {
            used += (size_t)snprintf(names + used, sizeof names - used, "%s--%s",
                                     used > 0 ? ", " : "", row->name);
        }
    }
    if (used > 0) {
        cli_note(call, "without --do_train these have no effect: %s", names);
    }
}

// --do_train false: predicts, evaluates or both, as the original programs do.
static enum berth_status leave_out_training(struct cli_call *call, struct berth_error *error) {
    struct berth_config *config = &call->config;
    const int evaluates = is_given(call, "do_eval") && config->do_eval;
    const int predicts =
        call->do_predict == 1 || (is_given(call, "do_predict") && config->do_predict);
    const struct cli_verb *verb = cli_without_training(call->verb);
    if (verb == NULL) {
        return error_set(error, BERTH_USAGE, "--do_train false: `berth %s` only trains",
                         call->verb->name);
    }
    const int can_predict = cli_row_applies(verb, option_find("predict_file"));
    if (!evaluates && !(predicts && can_predict)) {
        return error_set(error, BERTH_USAGE,
                         "--do_train false leaves nothing to do; add %s, or see `berth %s %s`",
                         can_predict ? "--do_predict or --do_eval" : "--do_eval", verb->name,
                         verb->task);
    }
    call->verb = verb;
    config->do_eval = evaluates;
    config->do_predict = predicts;
    if (cli_requires(verb, "predict_file") && config->predict_file == NULL &&
        config->validation_file != NULL) {
        TRY(set(call, "predict_file", config->validation_file, error));
    }
    note_unused_rows(call);
    return BERTH_OK;
}

enum berth_status cli_legacy_finish(struct cli_call *call, struct berth_error *error) {
    int trains = (call->verb->jobs & JOB_TRAIN) != 0;
    if (!trains && call->do_train == 1) {
        cli_note(call, "--do_train has no effect in `berth %s`", call->verb->name);
    }
    // SQuAD's scripts predict the development file; unless an option says otherwise, do_eval means
    // the same.
    if (trains &&
        (call->do_predict == 1 ||
         (call->do_predict == 0 && !option_is_given(&call->config, option_find("do_eval"))))) {
        TRY(set(call, "do_eval", call->do_predict ? "true" : "false", error));
    }
    TRY(trains && call->do_train == 0 ? leave_out_training(call, error)
                                      : follow_google(call, error));
    folder_of_model(call);
    name_runs(call);
    return BERTH_OK;
}
