// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's launcher, BingBertSquad (BERT-large on SQuAD, with the engine or as a baseline
// without it), BingBert's pre-training, and the official scorers of SQuAD. The command line is read
// by translate.c.
#include "core/file.h"
#include "core/number.h"
#include "format/json/json.h"
#include "program.h"

#include <string.h>

// --- BingBertSquad -------------------------------------------------------------------------------

// The baseline without the engine takes FusedAdam in fp16 and BertAdam in fp32.
static enum berth_status finish_squad(struct compat_line *line, struct berth_error *error) {
    const int engine = compat_get(line, "deepspeed_config") != NULL;
    const char *job = compat_value(line, "job_name"), *dropout = compat_value(line, "dropout");
    compat_half(line, "fp16");
    if (dropout != NULL) {
        compat_set(line, "hidden_dropout_prob", dropout);
        compat_set(line, "attention_probs_dropout_prob", dropout);
    }
    compat_set(line, "recipe",
               engine || compat_is_on(line, "fp16") ? "bing-bert-squad"
                                                    : "bing-bert-squad-baseline");
    compat_set(line, "log_format", "deepspeed-bert");
    if (!engine) {
        TRY(compat_batch_of_process(line, "train_batch_size", "gradient_accumulation_steps", 32,
                                    error));
    }
    if (job != NULL && compat_get(line, "output_dir") != NULL) {
        compat_set(line, "logging_dir",
                   compat_text(line, "%s/runs/%s", compat_get(line, "output_dir"), job));
    }
    const char *name = compat_value(line, "bert_model");
    compat_geometry(line, "bert_model", name);
    compat_default(line, "model_name_or_path", name);
    compat_default(line, "do_lower_case", "false");
    return compat_squad_modes(line, error);
}

static const struct compat_flag squad_flags[] = {
    READS(COMPAT_VALUE, "bert_model",
          "the model, or the configuration and vocabulary of model_file"),
    {.names = "model_file", .kind = COMPAT_VALUE, .option = "model_name_or_path", .values = "0="},
    TO(COMPAT_VALUE, "origin_bert_config_file", "config_file"),
    TO(COMPAT_SWITCH, "preln", "pre_layer_norm"),
    SAME(COMPAT_VALUE, "max_grad_norm loss_plot_alpha max_steps max_steps_per_epoch "
                       "deepspeed_config"),
    SAME(COMPAT_SWITCH, "wall_clock_breakdown"),
    TO(COMPAT_VALUE, "print_steps", "logging_steps"),
    READS(COMPAT_VALUE, "job_name", "--logging_dir OUTPUT_DIR/runs/NAME"),
    READS(COMPAT_VALUE, "dropout",
          "--hidden_dropout_prob and --attention_probs_dropout_prob (no effect in the program)"),
    NOT_NEEDED(COMPAT_VALUE, "ckpt_type", "the type is read from the checkpoint's files"),
    NOT_NEEDED(COMPAT_SWITCH, "deepspeed d", "--deepspeed_config says it"),
    NOT_NEEDED(COMPAT_SWITCH, "deepspeed_transformer_kernel", "every kernel is Berth's own"),
    FLAGS_END};

// --- BingBert's pre-training ---------------------------------------------------------------------

static void set_folder(struct compat_line *line, const char *option, const char *prefix,
                       const char *path) {
    if (path == NULL && prefix != NULL) {
        compat_default(line, option, prefix);
    } else if (path != NULL) {
        compat_default(line, option,
                       prefix == NULL || path[0] == '/' ? compat_text(line, "%s", path)
                                                        : compat_text(line, "%s/%s", prefix, path));
    }
}

// The file of an experiment: the model's geometry beside data, vocabulary and settings, some of
// them named by the sequences' length.
static void read_experiment(struct compat_line *line, const json *root) {
    static const char *const settings[][2] = {
        {"learning_rate", "learning_rate"}, {"warmup_proportion", "warmup_proportion"},
        {"decay_rate", "decay_rate"},       {"decay_step", "decay_step"},
        {"weight_decay", "weight_decay"},   {"total_training_steps", "max_steps"}};
    const char *length = compat_get(line, "max_seq_length");
    length = length != NULL ? length : "512";
    const json *mixed = json_member(json_member(root, "mixed_seq_training"), length);
    const json *training = mixed != NULL ? mixed : json_member(root, "training");
    const char *end = compat_get(line, "max_steps");
    if (end != NULL && json_is_number_value(json_member(training, "total_training_steps"))) {
        compat_rename(line, "max_steps", "steps_this_run"); // the schedule is that of the file
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        // A setting of the experiment's file, unless a flag has it.
        const json *value = json_member(training, settings[i][0]);
        char text[NUMBER_TEXT_SIZE];
        if (json_is_number_value(value)) {
            json_print_number(value, text);
            compat_default(line, settings[i][1], compat_text(line, "%s", text));
        }
    }
    const json *sets = json_member(json_member(root, "data"), "mixed_seq_datasets");
    set_folder(line, "input_dir", compat_value(line, "data_path_prefix"),
               json_text(json_member(json_member(sets, length), "pretrain_dataset")));
    if (compat_value(line, "validation_data_path_prefix") != NULL) {
        set_folder(line, "eval_dir", compat_value(line, "validation_data_path_prefix"),
                   json_text(json_member(json_member(root, "validation"), "path")));
    }
    const char *vocabulary = json_text(json_member(root, "bert_token_file"));
    if (vocabulary != NULL) {
        compat_default(line, "vocab_file", compat_text(line, "%s", vocabulary));
    }
    if (compat_get(line, "model_name_or_path") == NULL) {
        compat_default(line, "vocab_multiple", "8");
    }
}

static enum berth_status finish_pretraining(struct compat_line *line, struct berth_error *error) {
    const char *config = compat_get(line, "config_file"), *job = compat_value(line, "job_name");
    const char *folder = compat_value(line, "load_training_checkpoint load_cp");
    const char *id = compat_value(line, "load_checkpoint_id load_cp_id");
    json *root = NULL;
    if (config == NULL) {
        return error_set(error, BERTH_USAGE, "deepspeed_train.py needs the option --cf");
    }
    if (folder != NULL) {
        compat_set(line, "model_name_or_path",
                   id != NULL ? compat_text(line, "%s/%s", folder, id) : folder);
        compat_note(line,
                    "--load_training_checkpoint: the weights of %s; the moments start at "
                    "zero, and steps count from 0",
                    compat_get(line, "model_name_or_path"));
    }
    if (file_exists(config)) {
        TRY(json_read_file(config, &root, error));
    }
    if (json_member(root, "bert_model_config") != NULL) {
        read_experiment(line, root);
    } else {
        set_folder(line, "input_dir", compat_value(line, "data_path_prefix"), NULL);
        set_folder(line, "eval_dir", compat_value(line, "validation_data_path_prefix"), NULL);
    }
    json_free(root);
    compat_set(line, "log_format", "deepspeed-bert");
    if (job != NULL && compat_get(line, "output_dir") != NULL) {
        compat_set(line, "logging_dir",
                   compat_text(line, "%s/runs/%s", compat_get(line, "output_dir"), job));
    }
    return BERTH_OK;
}

static const struct compat_flag pretraining_flags[] = {
    TO(COMPAT_VALUE, "config_file cf", "config_file"),
    SAME(COMPAT_VALUE, "output_dir max_seq_length max_predictions_per_seq seed lr_offset max_steps "
                       "deepspeed_config"),
    TO(COMPAT_VALUE, "max_pred", "max_predictions_per_seq"),
    TO(COMPAT_VALUE, "lr_schedule", "schedule"),
    TO(COMPAT_VALUE, "print_steps", "logging_steps"),
    SAME(COMPAT_SWITCH, "rewarmup"),
    READS(COMPAT_VALUE, "job_name", "--logging_dir OUTPUT_DIR/runs/NAME"),
    READS(COMPAT_VALUE, "data_path_prefix", "--input_dir, or the folder of the file's data"),
    READS(COMPAT_VALUE, "validation_data_path_prefix",
          "--eval_dir, or the folder of the file's held-out data"),
    READS(COMPAT_VALUE, "load_training_checkpoint load_cp", "--model_name_or_path DIR/ID"),
    READS(COMPAT_VALUE, "load_checkpoint_id load_cp_id", "ID of load_training_checkpoint"),
    NOT_NEEDED(COMPAT_VALUE, "max_steps_per_epoch",
               "updates continue across epochs; --steps_this_run ends a run early"),
    NOT_NEEDED(COMPAT_SWITCH, "do_lower_case", "the shards are tokens already"),
    NOT_NEEDED(COMPAT_VALUE, "local_rank", "the launcher numbers processes"),
    NOT_NEEDED(COMPAT_SWITCH, "use_pretrain finetune", "the checkpoint that is named is read"),
    NOT_NEEDED(COMPAT_VALUE, "refresh_bucket_size", "gradients are exchanged every update"),
    NOT_NEEDED(COMPAT_SWITCH, "use_nvidia_dataset", "the layout of shards is recognised"),
    NOT_NEEDED(COMPAT_LIST, "ckpt_to_save", "--save_steps says how often to save"),
    NOT_NEEDED(COMPAT_SWITCH, "deepspeed d", "--deepspeed_config says it"),
    NOT_NEEDED(COMPAT_SWITCH, "deepspeed_transformer_kernel stochastic_mode",
               "every kernel is Berth's own"),
    NOT_NEEDED(COMPAT_SWITCH, "attention_dropout_checkpoint gelu_checkpoint normalize_invertible",
               "--gradient_checkpointing saves memory"),
    NOT_NEEDED(COMPAT_SWITCH, "deepspeed_sparse_attention", "attention is dense"),
    NOT_NEEDED(COMPAT_SWITCH, "progressive_layer_drop", "every layer is computed"),
    FLAGS_END};

// --- the launcher, the scorers -------------------------------------------------------------------

static const struct compat_flag launcher_flags[] = {
    READS(COMPAT_VALUE, "num_gpus num_nodes", "mpirun -np of their product"),
    READS(COMPAT_VALUE, "hostfile", "mpirun --hostfile"),
    NOT_NEEDED(COMPAT_VALUE, "master_port master_addr", "the MPI finds its own"), FLAGS_END};

static enum berth_status finish_scorer(struct compat_line *line, struct berth_error *error) {
    if (line->argument_count != 2) {
        return error_set(error, BERTH_USAGE, "%s needs two files: a data set and predictions",
                         line->program->name);
    }
    compat_argument(line, line->arguments[0]);
    compat_argument(line, line->arguments[1]);
    return BERTH_OK;
}

static const struct compat_flag scorer_flags[] = {
    TO(COMPAT_VALUE, "na_prob_file n", "null_odds"),
    TO(COMPAT_VALUE, "na_prob_thresh t", "null_threshold"), FLAGS_END};
static const struct compat_flag no_flags[] = {FLAGS_END};

#define BING_SQUAD                                                                                 \
    .verb = "finetune squad", .required = "bert_model output_dir",                                 \
    .flags = {squad_flags, compat_question_flags, compat_pytorch_flags}, .finish = finish_squad

const struct compat_program compat_deepspeed[] = {
    {.system = "deepspeed",
     .name = "deepspeed",
     .flags = {launcher_flags},
     .summary = "the launcher: deepspeed --num_gpus 8 PROGRAM ..."},
    {.system = "deepspeed",
     .name = "nvidia_run_squad_deepspeed.py",
     BING_SQUAD,
     .summary = "BingBertSquad: BERT-large on SQuAD with DeepSpeed's engine"},
    {.system = "deepspeed",
     .name = "nvidia_run_squad_baseline.py",
     BING_SQUAD,
     .summary = "BingBertSquad without the engine"},
    {.system = "deepspeed",
     .name = "deepspeed_train.py",
     .verb = "pretrain",
     .settings = "recipe=bing-bert",
     .required = "output_dir",
     .flags = {pretraining_flags},
     .finish = finish_pretraining,
     .summary = "BingBert: pre-training"},
    {.system = "squad",
     .name = "evaluate-v1.1.py",
     .verb = "evaluate squad",
     .flags = {no_flags},
     .arguments_max = 2,
     .finish = finish_scorer,
     .summary = "the official scores of SQuAD 1.1"},
    {.system = "squad",
     .name = "evaluate-v2.0.py",
     .verb = "evaluate squad",
     .flags = {scorer_flags},
     .arguments_max = 2,
     .finish = finish_scorer,
     .summary = "the official scores of SQuAD 2.0"},
    {.name = NULL}};
