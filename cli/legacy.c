// SPDX-License-Identifier: Apache-2.0
// Flags of the original scripts that are not rows of the option table (BingBertSquad, run_squad,
// run_pretraining, run_qa). Some set a row; others have no effect (ignored.c), which a note says.
// What several mean together is legacy_finish.c's.
#include "cli.h"
#include "core/number.h"
#include "core/words.h"

#include <stdio.h>
#include <string.h>

struct legacy {
    struct option_row option;
    const char *setting;  // the row of the option table that it sets: a flag to `on`, or to `off`
                          // (NULL: not at all) where it is false; a text to the value
    const char *on, *off; // of a flag
    enum berth_status (*set)(struct cli_call *call, const struct legacy *legacy, const char *value,
                             struct berth_error *error);
};

// Sets the field of struct cli_call at option.offset.
static enum berth_status set_answer(struct cli_call *call, const struct legacy *legacy,
                                    const char *value, struct berth_error *error) {
    union option_value answer;
    TRY(option_parse(&legacy->option, value, &answer, error));
    *(int *)((char *)call + legacy->option.offset) = answer.flag;
    return BERTH_OK;
}

static enum berth_status set_text(struct cli_call *call, const struct legacy *legacy,
                                  const char *value, struct berth_error *error) {
    (void)error;
    *(const char **)((char *)call + legacy->option.offset) = value;
    return BERTH_OK;
}

// choose_half decides when --device was read, too.
static enum berth_status set_half(struct cli_call *call, const struct legacy *legacy,
                                  const char *value, struct berth_error *error) {
    TRY(set_answer(call, legacy, value, error));
    const int given = cli_is_given(call, "precision");
    // `--bf16 --fp16 false` is bf16.
    return !call->legacy.fp16 && given
               ? BERTH_OK
               : cli_set(call, "precision", call->legacy.fp16 ? "bf16" : "fp32", error);
}

// A data set of the hub whose files Berth downloads as they were published.
static enum berth_status set_dataset(struct cli_call *call, const struct legacy *legacy,
                                     const char *value, struct berth_error *error) {
    static const char *const rows[] = {"train_file", "validation_file", "predict_file"};
    const int trains = (call->verb->jobs & JOB_TRAIN) != 0;
    if (!cli_is_data_set(value) ||
        (call->verb->jobs & (JOB_FINETUNE_SQUAD | JOB_PREDICT_SQUAD | JOB_SHOW)) == 0) {
        return error_set(error, BERTH_USAGE,
                         "option %s: \"%s\" is not available; expected squad or squad_v2 for "
                         "questions, else the data's files",
                         legacy->option.name, value);
    }
    for (size_t i = trains ? 0 : 2; i < (trains ? 2 : 3); i++) {
        if (cli_is_given(call, rows[i])) {
            cli_note(call, "--%s %s has no effect beside --%s", legacy->option.name, value,
                     rows[i]);
        }
        TRY(cli_set_default(call, rows[i], value, error));
    }
    return BERTH_OK;
}

// A setting that Berth does not have; accepted at the values (`on`) with which it changes nothing.
static enum berth_status set_unavailable(struct cli_call *call, const struct legacy *legacy,
                                         const char *value, struct berth_error *error) {
    if (words_contain(legacy->on, ' ', value)) {
        cli_note(call, "--%s %s has no effect: it asks for what Berth does anyway",
                 legacy->option.name, value);
        return BERTH_OK;
    }
    return error_set(error, BERTH_USAGE, "option %s: \"%s\" is not available; %s",
                     legacy->option.name, value, legacy->option.help);
}

// Habana's scripts write scalars beside the result.
static enum berth_status set_tensorboard(struct cli_call *call, const struct legacy *legacy,
                                         const char *value, struct berth_error *error) {
    union option_value answer;
    TRY(option_parse(&legacy->option, value, &answer, error));
    call->legacy.report_to = answer.flag ? "tensorboard" : call->legacy.report_to;
    return BERTH_OK;
}

// Intel's launcher has -1 for all of them.
static enum berth_status set_cores(struct cli_call *call, const struct legacy *legacy,
                                   const char *value, struct berth_error *error) {
    return cli_set(call, legacy->setting, strcmp(value, "-1") == 0 ? "0" : value, error);
}

static enum berth_status set_dropout(struct cli_call *call, const struct legacy *legacy,
                                     const char *value, struct berth_error *error) {
    TRY(cli_set(call, legacy->setting, value, error));
    return cli_set(call, "attention_probs_dropout_prob", value, error);
}

// Translates the names that differ. transformers' cosine with its default of one cycle never
// restarts.
static enum berth_status set_scheduler(struct cli_call *call, const struct legacy *legacy,
                                       const char *value, struct berth_error *error) {
    static const char *const names[][2] = {{"constant_with_warmup", "constant_warmup"},
                                           {"cosine_with_restarts", "cosine"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        value = strcmp(value, names[i][0]) == 0 ? names[i][1] : value;
    }
    const enum berth_status status = cli_set(call, legacy->setting, value, error);
    return status != BERTH_USAGE
               ? status
               : error_set(error, BERTH_USAGE,
                           "option lr_scheduler_type: \"%s\" is not available; expected linear, "
                           "cosine, cosine_with_restarts, polynomial, constant, "
                           "constant_with_warmup or inverse_sqrt, or --schedule NAME",
                           value);
}

// Hugging Face's names adamw_torch, adamw_hf, adamw_apex_fused, ... all mean one optimizer.
static enum berth_status set_optim(struct cli_call *call, const struct legacy *legacy,
                                   const char *value, struct berth_error *error) {
    static const char *const others[] = {"8bit", "4bit", "anyprecision", "bnb"};
    int known = strncmp(value, "adamw", 5) == 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        known &= strstr(value, others[i]) == NULL;
    }
    return known ? cli_set(call, legacy->setting, "adamw", error)
                 : error_set(error, BERTH_USAGE,
                             "option optim: \"%s\" is not available; expected adamw_torch, or "
                             "--optimizer NAME",
                             value);
}

// Sets a row that the verb may lack.
static enum berth_status set_if_known(struct cli_call *call, const struct legacy *legacy,
                                      const char *value, struct berth_error *error) {
    if (cli_row_applies(call->verb, option_find(legacy->setting))) {
        return cli_set(call, legacy->setting, value, error);
    }
    cli_note(call, "--%s has no effect in `berth %s`", legacy->option.name, call->verb->name);
    return BERTH_OK;
}

// Intel's run_squad has independent workers unless it is given.
static enum berth_status set_workers(struct cli_call *call, const struct legacy *legacy,
                                     const char *value, struct berth_error *error) {
    union option_value answer;
    TRY(option_parse(&legacy->option, value, &answer, error));
    return set_if_known(call, legacy, answer.flag ? "synchronous" : "independent", error);
}

// transformers' --deepspeed FILE; in DeepSpeed's own scripts it is a flag.
static enum berth_status set_deepspeed(struct cli_call *call, const struct legacy *legacy,
                                       const char *value, struct berth_error *error) {
    if (!cli_is_truth_word(value)) {
        return set_if_known(call, legacy, value, error);
    }
    cli_note(call, "--deepspeed: --deepspeed_config FILE is read");
    return BERTH_OK;
}

static enum berth_status set_validation(struct cli_call *call, const struct legacy *legacy,
                                        const char *value, struct berth_error *error) {
    if (call->config.validation_file == NULL) {
        return cli_set(call, legacy->setting, value, error);
    }
    cli_note(call, "--%s has no effect together with --%s", legacy->option.name, legacy->setting);
    return BERTH_OK;
}

static enum berth_status set_input_file(struct cli_call *call, const struct legacy *legacy,
                                        const char *value, struct berth_error *error) {
    TRY(set_text(call, legacy, value, error));
    return set_if_known(call, legacy, value, error);
}

// Training on SQuAD predicts no file of its own.
static enum berth_status set_test_file(struct cli_call *call, const struct legacy *legacy,
                                       const char *value, struct berth_error *error) {
    if ((call->verb->jobs & JOB_FINETUNE_SQUAD) != 0) {
        return set_text(call, legacy, value, error);
    }
    cli_note(call, "--%s has no effect in `berth %s`", legacy->option.name, call->verb->name);
    return BERTH_OK;
}

static enum berth_status set_mode(struct cli_call *call, const struct legacy *legacy,
                                  const char *value, struct berth_error *error) {
    const int trains = strcmp(value, "training") == 0;
    if (!trains && strcmp(value, "inference") != 0) {
        return error_set(error, BERTH_USAGE,
                         "option %s: expected training or inference, found \"%s\"",
                         legacy->option.name, value);
    }
    call->legacy.do_train = trains;
    call->legacy.do_predict = trains ? call->legacy.do_predict : 1;
    return BERTH_OK;
}

static enum berth_status set_training(struct cli_call *call, const struct legacy *legacy,
                                      const char *value, struct berth_error *error) {
    (void)legacy;
    return cli_launcher_check_verb(call, value, error);
}

// A flag that only tells whose command line it is has an effect on other settings (scripts.c).
static const char *of_its_own(const struct cli_call *call, const char *name) {
    return option_same_name(name, call->origin.flag) ? " of its own" : "";
}

static enum berth_status set_model_name(struct cli_call *call, const struct legacy *legacy,
                                        const char *value, struct berth_error *error) {
    (void)error;
    call->launcher.is_used = 1;
    cli_note(call, "--%s %s has no effect%s: %s", legacy->option.name, value,
             of_its_own(call, legacy->option.name), legacy->option.help);
    return BERTH_OK;
}

// -1: no socket in particular.
static enum berth_status set_socket(struct cli_call *call, const struct legacy *legacy,
                                    const char *value, struct berth_error *error) {
    int64_t socket;
    if (!number_parse_integer(value, &socket) || socket < -1) {
        return error_set(error, BERTH_USAGE, "option %s: expected an integer, found \"%s\"",
                         legacy->option.name, value);
    }
    if (socket >= 0) {
        cli_note(call, "--%s has no effect: `numactl -N %s -m %s berth ...` runs on that socket",
                 legacy->option.name, value, value);
    }
    return BERTH_OK;
}

static enum berth_status set_instances(struct cli_call *call, const struct legacy *legacy,
                                       const char *value, struct berth_error *error) {
    (void)call;
    return strcmp(value, "1") == 0
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "option %s: %s runs side by side are %s commands with output folders "
                           "of their own; one run of several processes is mpi_num_processes",
                           legacy->option.name, value, value);
}

#define GROUP .group = "original-scripts"
#define SWITCH(own) CLI_ROW(OPTION_FLAG, own, NULL)

static const struct legacy legacies[] = {
    {.option = {SWITCH("do_train"), GROUP, .offset = offsetof(struct cli_call, legacy.do_train),
                .help = "false: only evaluate or predict"},
     .set = set_answer},
    {.option = {SWITCH("do_predict"), GROUP, .offset = offsetof(struct cli_call, legacy.do_predict),
                .help = "in fine-tuning on SQuAD: evaluate on validation_file"},
     .set = set_answer},
    {.option = {SWITCH("download_only"), GROUP, .offset = offsetof(struct cli_call, download_only),
                .help = "download the model and the data named squad or squad_v2, and stop"},
     .set = set_answer},
    {.option = {SWITCH("fp16"), .aliases = "amp", GROUP,
                .offset = offsetof(struct cli_call, legacy.fp16),
                .help = "fp16 runs as bf16 unless --device names a GPU"},
     .set = set_half},
    {.option = {SWITCH("bf16"), .aliases = "autocast hmp", GROUP, .help = "--precision bf16"},
     .setting = "precision",
     .on = "bf16",
     .off = "fp32"},
    {.option = {SWITCH("fp32"), GROUP, .help = "--precision fp32"},
     .setting = "precision",
     .on = "fp32"},
    {.option = {SWITCH("no_cuda"), .aliases = "use_cpu", GROUP, .help = "--device cpu"},
     .setting = "device",
     .on = "cpu"},
    {.option = {SWITCH("cased"), GROUP, .help = "--do_lower_case false"},
     .setting = "do_lower_case",
     .on = "false",
     .off = "true"},
    {.option = {SWITCH("uncased"), GROUP, .help = "--do_lower_case true"},
     .setting = "do_lower_case",
     .on = "true",
     .off = "false"},
    {.option = {SWITCH("per_param_grad_clipping"), GROUP,
                .help = "--clip_by both, as in Habana's run_squad"},
     .setting = "clip_by",
     .on = "both"},
    {.option = {SWITCH("use_fused_lamb"), GROUP, .help = "--optimizer nvlamb"},
     .setting = "optimizer",
     .on = "nvlamb"},
    {.option = {SWITCH("use_zero_optimizer"), GROUP, .help = "--zero_stage 1"},
     .setting = "zero_stage",
     .on = "1"},
    {.option = {CLI_TEXT("predict_file", NULL), GROUP, .unit = "FILE", .help = "--validation_file"},
     .setting = "validation_file",
     .set = set_validation},
    {.option = {CLI_TEXT("test_file", NULL), GROUP, .unit = "FILE",
                .offset = offsetof(struct cli_call, legacy.test_file),
                .help = "predicted without --do_train; after training, `berth predict squad "
                        "--predict_file FILE` predicts it"},
     .set = set_test_file},
    {.option = {CLI_TEXT("input_file", NULL), GROUP, .unit = "FILE",
                .offset = offsetof(struct cli_call, legacy.input_file),
                .help = "--input_dir, of Google's run_pretraining; with --do_eval its files are "
                        "also those to evaluate on"},
     .setting = "input_dir",
     .set = set_input_file},
    {.option = {CLI_TEXT("dropout", NULL), GROUP, .unit = "X",
                .help = "--hidden_dropout_prob and --attention_probs_dropout_prob"},
     .setting = "hidden_dropout_prob",
     .set = set_dropout},
    {.option = {CLI_TEXT("num_cores", NULL), GROUP, .unit = "N", .help = "--threads; -1: all"},
     .setting = "threads",
     .set = set_cores},
    {.option = {CLI_TEXT("lr_scheduler_type", NULL), GROUP, .unit = "NAME", .help = "--schedule"},
     .setting = "schedule",
     .set = set_scheduler},
    {.option = {CLI_TEXT("optim", NULL), GROUP, .unit = "NAME",
                .help = "--optimizer adamw for adamw_torch"},
     .setting = "optimizer",
     .set = set_optim},
    {.option = {CLI_TEXT("deepspeed", NULL), GROUP, .unit = "FILE", .alone = "true",
                .help = "--deepspeed_config; without a file it has no effect"},
     .setting = "deepspeed_config",
     .set = set_deepspeed},
    {.option = {CLI_TEXT("config_name", NULL), GROUP, .unit = "DIR",
                .offset = offsetof(struct cli_call, legacy.config_name),
                .help = "--config_file of this folder or model"},
     .set = set_text},
    {.option =
         {CLI_TEXT("tokenizer_name", NULL), GROUP,
          .unit = "DIR", .offset = offsetof(struct cli_call, legacy.tokenizer_name),
          .help = "the tokenizer of this folder or model: its vocabulary, rules and added tokens"},
     .set = set_text},
    {.option = {CLI_TEXT("data_path_prefix", NULL), GROUP, .unit = "DIR",
                .offset = offsetof(struct cli_call, bing_bert.data_prefix),
                .help = "--input_dir, or the folder of the experiment's data sets"},
     .set = set_text},
    {.option = {CLI_TEXT("validation_data_path_prefix", NULL), GROUP, .unit = "DIR",
                .offset = offsetof(struct cli_call, bing_bert.validation_prefix),
                .help = "--eval_dir, or the folder of the experiment's held-out data"},
     .set = set_text},
    {.option = {CLI_TEXT("load_training_checkpoint", NULL), .aliases = "load_cp", GROUP,
                .unit = "DIR", .offset = offsetof(struct cli_call, bing_bert.training_checkpoint),
                .help = "--model DIR/ID, the weights of a checkpoint of DeepSpeed"},
     .set = set_text},
    {.option = {CLI_TEXT("load_checkpoint_id", NULL), .aliases = "load_cp_id", GROUP, .unit = "ID",
                .offset = offsetof(struct cli_call, bing_bert.checkpoint_id),
                .help = "ID of --load_training_checkpoint"},
     .set = set_text},
    {.option = {CLI_TEXT("dataset_name", NULL), GROUP, .unit = "NAME",
                .help = "--train_file and --validation_file, or --predict_file, of squad or "
                        "squad_v2, which `berth fetch` downloads"},
     .set = set_dataset},
    {.option = {CLI_TEXT("job_name", NULL), GROUP,
                .offset = offsetof(struct cli_call, legacy.job_name), .unit = "NAME",
                .help = "--logging_dir OUTPUT_DIR/runs/NAME"},
     .set = set_text},
    {.option = {CLI_TEXT("report_to", NULL), GROUP,
                .offset = offsetof(struct cli_call, legacy.report_to), .unit = "NAMES",
                .help = "tensorboard or all: --logging_dir OUTPUT_DIR/runs"},
     .set = set_text},
    {.option = {CLI_TEXT("model_name", NULL), GROUP, .unit = "NAME",
                .help = "init_checkpoint or --checkpoint names the model"},
     .set = set_model_name},
    {.option = {CLI_TEXT("train_option", NULL), GROUP, .unit = "NAME",
                .help = "what to train, as the verb says: SQuAD, Classifier or Pretraining"},
     .set = set_training},
    {.option = {CLI_TEXT("mode", NULL), GROUP, .unit = "MODE",
                .help = "training; inference: --do_train false --do_predict"},
     .set = set_mode},
    {.option = {CLI_TEXT("checkpoint", NULL), GROUP, .unit = "DIR",
                .offset = offsetof(struct cli_call, launcher.checkpoint),
                .help = "--model; without it the variable CHECKPOINT_DIR"},
     .set = set_text},
    {.option = {CLI_TEXT("data_location", NULL), GROUP, .unit = "DIR",
                .offset = offsetof(struct cli_call, launcher.data),
                .help = "folder of the data that no other option names; without it the variable "
                        "DATASET_DIR"},
     .set = set_text},
    {.option = {CLI_TEXT("mpi_num_processes", NULL), GROUP, .unit = "N",
                .offset = offsetof(struct cli_call, launcher.processes),
                .help = "start N processes by mpirun, one on each socket in turn"},
     .set = set_text},
    {.option = {CLI_TEXT("mpi_num_processes_per_socket", NULL), GROUP, .unit = "N",
                .offset = offsetof(struct cli_call, launcher.per_socket),
                .help = "of mpi_num_processes: so many on each socket"},
     .set = set_text},
    {.option = {CLI_TEXT("mpi_hostnames", NULL), GROUP, .unit = "HOSTS",
                .offset = offsetof(struct cli_call, launcher.hosts),
                .help = "of mpi_num_processes: on these hosts"},
     .set = set_text},
    {.option = {CLI_TEXT("socket_id", NULL), GROUP, .unit = "N",
                .help = "-1; for another socket, see numactl"},
     .set = set_socket},
    {.option = {CLI_TEXT("num_instances", NULL), GROUP, .unit = "N", .help = "1"},
     .set = set_instances},
    {.option = {CLI_TEXT("max_eval_steps", NULL), GROUP, .unit = "N",
                .offset = offsetof(struct cli_call, legacy.eval_steps),
                .help = "--max_eval_samples of N batches of eval_batch_size (8)"},
     .set = set_text},
    {.option = {CLI_TEXT("max_predict_samples", NULL), GROUP, .unit = "N",
                .offset = offsetof(struct cli_call, legacy.predict_samples),
                .help = "--max_eval_samples of a run that only predicts"},
     .set = set_text},
    {.option = {SWITCH("mpi_workers_sync_gradients"), GROUP,
                .help = "--workers synchronous; false: --workers independent"},
     .setting = "workers",
     .set = set_workers},
    {.option = {SWITCH("enable_tensorboard_logging"), GROUP,
                .help = "--logging_dir OUTPUT_DIR/runs"},
     .set = set_tensorboard},
    {.option = {CLI_TEXT("ddp_timeout", NULL), GROUP, .unit = "SECONDS", .help = "--comm_timeout"},
     .setting = "comm_timeout",
     .set = set_if_known},
    {.option = {CLI_TEXT("neftune_noise_alpha", NULL), GROUP, .unit = "X",
                .help = "only 0: no noise is added to embeddings"},
     .on = "0 0.0",
     .set = set_unavailable},
    {.option = {CLI_TEXT("ignore_data_skip", NULL), GROUP, .unit = "TRUTH", .alone = "true",
                .help = "only false: a resumed run goes on where it stopped in the data"},
     .on = "false False 0",
     .set = set_unavailable},
    {.option = {CLI_TEXT("label_all_tokens", NULL), GROUP, .unit = "TRUTH", .alone = "true",
                .help = "only false: the first piece of a word has its label"},
     .on = "false False 0",
     .set = set_unavailable},
    {.option = {CLI_TEXT("adafactor", NULL), GROUP, .unit = "TRUTH", .alone = "true",
                .help = "only false: --optimizer NAME chooses among Berth's"},
     .on = "false False 0",
     .set = set_unavailable},
    {.option = {CLI_TEXT("train_sampling_strategy", NULL), GROUP, .unit = "NAME",
                .help = "only random, group_by_length or batch_rebalance: every epoch has a random "
                        "order, and Berth does not pad"},
     .on = "random group_by_length batch_rebalance",
     .set = set_unavailable},
    {.option = {CLI_TEXT("lr_scheduler_kwargs", NULL), GROUP, .unit = "JSON",
                .help = "only {}: Berth's options of the group learning-rate set them"},
     .on = "{}",
     .set = set_unavailable},
    {.option = {CLI_TEXT("optim_args", NULL), .aliases = "optim_target_modules", GROUP,
                .unit = "TEXT",
                .help = "the options of the group optimizer set what Berth has of it"},
     .on = "",
     .set = set_unavailable},
    {.option = {CLI_TEXT("config_overrides", NULL), GROUP, .unit = "TEXT",
                .help = "--config_file names a configuration with these values"},
     .on = "",
     .set = set_unavailable},
    {.option = {CLI_TEXT("model_type", NULL), GROUP, .unit = "NAME", .help = "only bert"},
     .on = "bert",
     .set = set_unavailable},
    {.option = {CLI_TEXT("model_revision", NULL), GROUP, .unit = "NAME",
                .help = "only main: `berth fetch NAME --revision REVISION` downloads another one; "
                        "name its folder"},
     .on = "main",
     .set = set_unavailable},
};

#define LEGACY_COUNT (sizeof legacies / sizeof *legacies)

const struct option_row *cli_legacy_row(size_t index) {
    return index < LEGACY_COUNT                       ? &legacies[index].option
           : index < LEGACY_COUNT + cli_ignored_count ? &cli_ignored[index - LEGACY_COUNT]
                                                      : NULL;
}

const struct option_row *cli_legacy_find(const char *name) {
    const struct option_row *row;
    for (size_t i = 0; (row = cli_legacy_row(i)) != NULL && !option_is_named(row, name);) {
        i++;
    }
    return row;
}

void cli_legacy_nearer(const char *name, struct option_spelling *nearest) {
    const struct option_row *row;
    for (size_t i = 0; (row = cli_legacy_row(i)) != NULL; i++) {
        option_row_nearer(name, row, nearest);
    }
}

int cli_legacy_value(const char *name, const char **value) {
    static const struct {
        const char *name, *theirs, *ours; // ours NULL: none
    } values[] = {{"model_file", "0", NULL},
                  {"tensorboard_logdir", "", NULL},
                  {"batch_size", "-1", NULL},
                  {"precision", "bfloat16", "bf16"},
                  {"precision", "float16", "fp16"},
                  {"precision", "float32", "fp32"},
                  {"dtype", "bfloat16", "bf16"},
                  {"dtype", "float16", "fp16"},
                  {"dtype", "float32", "fp32"},
                  {"torch_dtype", "bfloat16", "bf16"},
                  {"torch_dtype", "float16", "fp16"},
                  {"torch_dtype", "float32", "fp32"},
                  {"resume_from_checkpoint", "true", "auto"},
                  {"resume_from_checkpoint", "false", NULL}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (option_same_name(name, values[i].name) && strcmp(*value, values[i].theirs) == 0) {
            *value = values[i].ours;
            return values[i].ours != NULL;
        }
    }
    return 1;
}

// The name as help spells it.
static void spell(const char *name, char spelling[OPTION_NAME_SIZE]) {
    size_t i = 0;
    for (; name[i] != '\0' && i + 1 < OPTION_NAME_SIZE; i++) {
        spelling[i] = name[i] == '-' ? '_' : name[i];
    }
    spelling[i] = '\0';
}

static enum berth_status set_flag(struct cli_call *call, const struct legacy *legacy,
                                  const char *name, int truth, struct berth_error *error) {
    int given = cli_is_given(call, legacy->setting);
    if (!truth && legacy->off == NULL) {
        cli_note(call, "--%s false has no effect", name);
        return BERTH_OK;
    }
    // `--bf16 --fp16 false` is bf16.
    return !truth && given
               ? BERTH_OK
               : cli_set(call, legacy->setting, truth ? legacy->on : legacy->off, error);
}

enum berth_status cli_legacy_set(struct cli_call *call, const char *name, const char *value,
                                 struct berth_error *error) {
    const struct option_row *row = cli_legacy_find(name);
    const struct legacy *legacy = NULL;
    union option_value parsed = {.flag = 1};
    char spelling[OPTION_NAME_SIZE];
    spell(name, spelling);
    for (size_t i = 0; i < LEGACY_COUNT; i++) {
        legacy = row == &legacies[i].option ? &legacies[i] : legacy;
    }
    if (legacy != NULL && legacy->set != NULL) {
        struct legacy typed = *legacy; // messages name the flag that was typed
        typed.option.name = spelling;
        return typed.set(call, &typed, value, error);
    }
    if (row->type == OPTION_FLAG) {
        TRY(option_parse(row, value, &parsed, error));
    }
    if (legacy != NULL) {
        return set_flag(call, legacy, spelling, parsed.flag, error);
    }
    cli_note(call, "--%s%s has no effect%s: %s", spelling, parsed.flag ? "" : " false",
             of_its_own(call, name), row->help);
    return BERTH_OK;
}
