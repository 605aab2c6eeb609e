// SPDX-License-Identifier: Apache-2.0
// The example scripts of Hugging Face's transformers: questions, classes, tags and masked words.
// Most of their flags are those of its TrainingArguments, whose names Berth's options have. The
// command line is read by translate.c.
#include "core/number.h"
#include "core/text_util.h"
#include "program.h"

#include <string.h>

#define FRAMEWORK "it belongs to PyTorch"
#define THREAD "a thread reads the data beside the updates"
#define UPLOAD "nothing is uploaded"

static const struct compat_flag arguments_flags[] = {
    SAME(COMPAT_VALUE,
         "model_name_or_path train_file validation_file output_dir per_device_train_batch_size "
         "gradient_accumulation_steps learning_rate num_train_epochs max_steps max_seq_length "
         "max_train_samples max_eval_samples weight_decay adam_beta1 adam_beta2 adam_epsilon "
         "max_grad_norm seed save_steps save_strategy save_total_limit eval_strategy eval_steps "
         "eval_delay logging_steps logging_strategy logging_dir metric_for_best_model "
         "label_smoothing_factor"),
    SAME(COMPAT_SWITCH, "overwrite_output_dir load_best_model_at_end greater_is_better tf32 "
                        "dataloader_drop_last gradient_checkpointing logging_first_step "
                        "eval_on_start"),
    TO(COMPAT_VALUE, "per_device_eval_batch_size", "predict_batch_size"),
    TO(COMPAT_VALUE, "per_gpu_eval_batch_size", "predict_batch_size"),
    TO(COMPAT_VALUE, "per_gpu_train_batch_size", "per_device_train_batch_size"),
    TO(COMPAT_VALUE, "evaluation_strategy", "eval_strategy"),
    TO(COMPAT_VALUE, "warmup_ratio", "warmup_proportion"),
    READS(COMPAT_VALUE, "warmup_steps", "--warmup_steps; below 1 --warmup_proportion"),
    TO(COMPAT_VALUE, "ddp_timeout", "comm_timeout"),
    TO(COMPAT_SWITCH, "activation_checkpointing", "gradient_checkpointing"),
    TO(COMPAT_SWITCH, "disable_tqdm", "no_progress"),
    {.names = "lr_scheduler_type",
     .kind = COMPAT_VALUE,
     .option = "schedule",
     .values = "constant_with_warmup=constant_warmup cosine_with_restarts=cosine"},
    {.names = "resume_from_checkpoint",
     .kind = COMPAT_OPTIONAL,
     .option = "",
     .values = "true=auto True=auto false= False="},
    SETS("bf16", "precision", "bf16", "fp32"),
    SETS("no_cuda use_cpu", "device", "cpu", NULL),
    READS(COMPAT_SWITCH, "fp16", "--precision bf16; fp16 on a GPU named by --device"),
    READS(COMPAT_VALUE, "torch_dtype dtype", "--precision, unless bf16 or fp16 is given"),
    READS(COMPAT_VALUE, "optim", "--optimizer adamw, for adamw_torch and its like"),
    READS(COMPAT_OPTIONAL, "deepspeed", "--deepspeed_config FILE"),
    READS(COMPAT_VALUE, "report_to", "tensorboard or all: --logging_dir OUTPUT_DIR/runs"),
    READS(COMPAT_VALUE, "config_name", "--config_file of this folder or model"),
    READS(COMPAT_VALUE, "tokenizer_name", "--vocab_file of this folder or model"),
    READS(COMPAT_SWITCH, "do_train", "trains; without it only evaluates or predicts"),
    READS(COMPAT_SWITCH, "do_eval", "evaluates on validation_file"),
    READS(COMPAT_SWITCH, "do_predict", "predicts test_file"),
    READS(COMPAT_VALUE, "test_file", "--predict_file, with do_predict"),
    READS(COMPAT_VALUE, "max_predict_samples", "--max_eval_samples of the predictions"),
    ONLY(COMPAT_VALUE, "neftune_noise_alpha", "0 0.0", "no noise is added to embeddings"),
    ONLY(COMPAT_OPTIONAL, "ignore_data_skip", "false False 0",
         "a resumed run goes on where it stopped in the data"),
    ONLY(COMPAT_OPTIONAL, "adafactor", "false False 0", "--optimizer chooses among Berth's"),
    ONLY(COMPAT_OPTIONAL, "label_all_tokens", "false False 0",
         "the first piece of a word has its label"),
    ONLY(COMPAT_VALUE, "train_sampling_strategy", "random group_by_length batch_rebalance",
         "every epoch has a random order, and Berth does not pad"),
    ONLY(COMPAT_VALUE, "lr_scheduler_kwargs", "{}",
         "Berth's options of the group learning-rate set them"),
    ONLY(COMPAT_VALUE, "optim_args", "", "Berth's options of the group optimizer set them"),
    ONLY(COMPAT_VALUE, "optim_target_modules", "",
         "Berth's options of the group optimizer set them"),
    ONLY(COMPAT_VALUE, "config_overrides", "", "--config_name names one with these values"),
    ONLY(COMPAT_VALUE, "model_type", "bert roberta xlm-roberta camembert distilbert electra",
         "the model's config.json names its architecture"),
    ONLY(COMPAT_VALUE, "model_revision", "main",
         "`berth fetch NAME --revision REVISION` downloads another one; name its folder"),
    FLAGS_END};

static const struct compat_flag ignored_flags[] = {
    NOT_NEEDED(COMPAT_VALUE,
               "local_rank torch_compile_backend torch_compile_mode torch_empty_cache_steps "
               "torchdynamo liger_kernel_config accelerator_config parallelism_config "
               "ddp_bucket_cap_mb activation_checkpointing_kwargs gradient_checkpointing_kwargs "
               "past_index eval_accumulation_steps ray_scope length_column_name mp_parameters "
               "xpu_backend server_ip server_port",
               FRAMEWORK),
    NOT_NEEDED(COMPAT_SWITCH,
               "torch_compile use_liger_kernel remove_unused_columns use_cache use_ipex "
               "use_mps_device jit_mode_eval ddp_find_unused_parameters ddp_broadcast_buffers "
               "ddp_static_graph eval_do_concat_batches eval_use_gather_object batch_eval_metrics "
               "include_inputs_for_metrics save_on_each_node log_on_each_node "
               "restore_callback_states_from_checkpoint low_cpu_mem_usage split_batches "
               "dispatch_batches use_legacy_prediction_loop",
               FRAMEWORK),
    NOT_NEEDED(COMPAT_OPTIONAL, "debug", FRAMEWORK),
    NOT_NEEDED(COMPAT_LIST, "include_for_metrics", FRAMEWORK),
    NOT_NEEDED(COMPAT_OPTIONAL,
               "fsdp fsdp_config fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap "
               "sharded_ddp",
               "--zero_stage says what processes divide among them"),
    NOT_NEEDED(COMPAT_LIST, "label_names", "--label_column names the column"),
    NOT_NEEDED(COMPAT_VALUE, "tpu_num_cores", "Berth does not use TPUs"),
    NOT_NEEDED(COMPAT_SWITCH, "tpu_metrics_debug", "Berth does not use TPUs"),
    NOT_NEEDED(COMPAT_VALUE,
               "dataloader_num_workers dataloader_prefetch_factor "
               "dataloader_multiprocessing_context",
               THREAD),
    NOT_NEEDED(COMPAT_SWITCH,
               "dataloader_pin_memory dataloader_persistent_workers dataloader_in_order streaming",
               THREAD),
    NOT_NEEDED(COMPAT_VALUE, "preprocessing_num_workers",
               "all threads tokenize; --threads says how many"),
    NOT_NEEDED(COMPAT_VALUE, "ddp_backend", "--comm decides"),
    NOT_NEEDED(COMPAT_VALUE, "fp16_opt_level fp16_backend half_precision_backend",
               "--precision decides"),
    NOT_NEEDED(COMPAT_SWITCH, "bf16_full_eval fp16_full_eval",
               "--precision is that of evaluations, too"),
    NOT_NEEDED(COMPAT_SWITCH, "skip_memory_metrics",
               "the plan shows the memory, and the summary its peak"),
    NOT_NEEDED(COMPAT_SWITCH, "auto_find_batch_size",
               "a plan that exceeds the memory is refused with the batch size that fits"),
    NOT_NEEDED(COMPAT_SWITCH, "average_tokens_across_devices",
               "the loss of an update is that of all processes"),
    NOT_NEEDED(COMPAT_SWITCH, "prediction_loss_only", "evaluations report all scores"),
    NOT_NEEDED(COMPAT_SWITCH, "save_only_model",
               "a checkpoint has the moments, so that a run can resume"),
    NOT_NEEDED(COMPAT_SWITCH, "save_safetensors",
               "weights are always safetensors; --save_format adds other formats"),
    NOT_NEEDED(COMPAT_SWITCH, "enable_jit_checkpoint", "a run that is stopped saves itself"),
    NOT_NEEDED(COMPAT_VALUE, "data_seed", "--seed decides the order of the data, too"),
    NOT_NEEDED(COMPAT_SWITCH, "ignore_mismatched_sizes",
               "a head that does not fit is newly initialised"),
    NOT_NEEDED(COMPAT_SWITCH, "return_entity_level_metrics", "scores of each type are reported"),
    NOT_NEEDED(COMPAT_SWITCH, "use_fast_tokenizer", "there is one tokenizer"),
    NOT_NEEDED(COMPAT_VALUE, "dataset_config_name", "dataset_name decides"),
    NOT_NEEDED(COMPAT_OPTIONAL, "token use_auth_token hub_token",
               "only `berth fetch` asks the hub"),
    NOT_NEEDED(COMPAT_VALUE, "log_level log_level_replica", "--quiet decides what is printed"),
    NOT_NEEDED(COMPAT_SWITCH, "logging_nan_inf_filter", "a loss is reported as it is"),
    NOT_NEEDED(COMPAT_OPTIONAL, "include_num_input_tokens_seen include_tokens_per_second",
               "tokens_per_second is always reported"),
    NOT_NEEDED(COMPAT_VALUE,
               "run_name project trackio_space_id trackio_bucket_id trackio_static_space_id",
               "--logging_dir and --json_summary write records to files"),
    NOT_NEEDED(COMPAT_SWITCH, "pad_to_max_length group_by_length", "Berth does not pad"),
    NOT_NEEDED(COMPAT_SWITCH, "trust_remote_code", "no code is ever loaded"),
    NOT_NEEDED(COMPAT_SWITCH, "full_determinism", "every run is deterministic"),
    NOT_NEEDED(COMPAT_SWITCH, "push_to_hub hub_private_repo hub_always_push", UPLOAD),
    NOT_NEEDED(COMPAT_VALUE,
               "hub_model_id hub_strategy hub_revision push_to_hub_model_id "
               "push_to_hub_organization push_to_hub_token",
               UPLOAD),
    NOT_NEEDED(COMPAT_VALUE, "cache_dir",
               "models and data are found in Hugging Face's cache (HF_HOME)"),
    NOT_NEEDED(COMPAT_SWITCH, "overwrite_cache", "features are made in seconds and not kept"),
    FLAGS_END};

// --- what several flags mean together ------------------------------------------------------------

// The type of the weights there is that of computing here.
static enum berth_status set_type(struct compat_line *line, struct berth_error *error) {
    static const char *const names[][2] = {
        {"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}, {"auto", NULL}};
    const char *type = compat_value(line, "torch_dtype");
    type = type != NULL ? type : compat_value(line, "dtype");
    for (size_t i = 0; type != NULL && i < sizeof names / sizeof *names; i++) {
        if (strcmp(type, names[i][0]) == 0) {
            if (names[i][1] != NULL && compat_get(line, "precision") == NULL) {
                compat_set(line, "precision", names[i][1]);
            }
            return BERTH_OK;
        }
    }
    return type == NULL ? BERTH_OK
                        : error_set(error, BERTH_USAGE,
                                    "option torch_dtype: expected bfloat16, float16, float32 or "
                                    "auto, found \"%s\"",
                                    type);
}

static enum berth_status set_reports(struct compat_line *line, struct berth_error *error) {
    const char *names = compat_value(line, "report_to"), *folder = compat_get(line, "output_dir");
    (void)error;
    if (names == NULL || strcmp(names, "none") == 0) {
        return BERTH_OK;
    }
    if (!words_contain(names, ',', "tensorboard") && !words_contain(names, ',', "all")) {
        compat_note(line,
                    "--report_to %s is not needed: Berth writes for TensorBoard, and "
                    "--json_summary FILE has every record",
                    names);
    } else if (folder != NULL) {
        compat_default(line, "logging_dir", compat_text(line, "%s/runs", folder));
    }
    return BERTH_OK;
}

// Flags that every script has.
static enum berth_status finish_arguments(struct compat_line *line, struct berth_error *error) {
    const char *steps = compat_value(line, "warmup_steps"),
               *engine = compat_value(line, "deepspeed");
    double fraction;
    int truth;
    if (steps != NULL) {
        const int is_fraction = number_parse_real(steps, &fraction) && fraction > 0 && fraction < 1;
        compat_set(line, is_fraction ? "warmup_proportion" : "warmup_steps", steps);
    }
    if (engine != NULL && !number_parse_boolean(engine, &truth)) {
        compat_set(line, "deepspeed_config", engine);
        compat_set(line, "log_format", "deepspeed");
    }
    compat_half(line, "fp16");
    TRY(set_type(line, error));
    static const char *const others[] = {"8bit", "4bit", "anyprecision", "bnb"};
    const char *name = compat_value(line, "optim");
    if (name != NULL) {
        int known = strncmp(name, "adamw", 5) == 0;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
            known &= strstr(name, others[i]) == NULL;
        }
        compat_set(line, "optimizer", "adamw");
        if (!known) {
            return error_set(error, BERTH_USAGE,
                             "option optim: \"%s\" is not available; expected adamw_torch", name);
        }
    }
    TRY(set_reports(line, error));
    if (compat_value(line, "config_name") != NULL) {
        compat_default(line, "config_file", compat_value(line, "config_name"));
    }
    if (compat_value(line, "tokenizer_name") != NULL) {
        compat_default(line, "vocab_file", compat_value(line, "tokenizer_name"));
    }
    if (!compat_is_on(line, "do_train") && !compat_is_on(line, "do_eval") &&
        !compat_is_on(line, "do_predict")) {
        return error_set(error, BERTH_USAGE,
                         "nothing to do: give --do_train, --do_eval or --do_predict");
    }
    return BERTH_OK;
}

// Turns the last command into predictions of the test file.
static void predict_test(struct compat_line *line) {
    const char *samples = compat_value(line, "max_predict_samples");
    compat_set(line, "predict_file", compat_value(line, "test_file"));
    compat_drop(line, "max_eval_samples");
    if (samples != NULL) {
        compat_set(line, "max_eval_samples", samples);
    }
}

// Questions: evaluations and predictions of a test file are commands of their own, in a folder of
// their own.
static enum berth_status finish_qa(struct compat_line *line, struct berth_error *error) {
    const char *set = compat_value(line, "dataset_name"), *output = compat_get(line, "output_dir");
    const int trains = compat_is_on(line, "do_train"), evaluates = compat_is_on(line, "do_eval"),
              predicts = compat_is_on(line, "do_predict");
    const char *doc_stride = compat_value(line, "doc_stride");
    TRY(finish_arguments(line, error));
    if (compat_is_on(line, "do_predict") && compat_value(line, "test_file") == NULL) {
        return error_set(error, BERTH_USAGE, "--do_predict needs --test_file");
    }
    compat_set(line, "doc_overlap", doc_stride != NULL ? doc_stride : "128");
    if (set != NULL) {
        if (strcmp(set, "squad") != 0 && strcmp(set, "squad_v2") != 0) {
            return error_set(error, BERTH_USAGE,
                             "option dataset_name: \"%s\" is not available; expected squad or "
                             "squad_v2, or the data's files",
                             set);
        }
        compat_default(line, "train_file", set);
        compat_default(line, "validation_file", set);
    }
    if (trains) {
        compat_set(line, "do_eval", evaluates ? "true" : "false");
    } else if (evaluates) {
        compat_set(line, "predict_file", compat_get(line, "validation_file"));
        compat_verb(line, "predict squad");
    }
    if (predicts && (trains || evaluates)) {
        compat_then(line, "predict squad");
        if (trains) {
            compat_set(line, "model_name_or_path", output);
            compat_drop(line, "config_file");
            compat_drop(line, "vocab_file");
        }
        compat_set(line, "output_dir", compat_text(line, "%s/predict", output));
        predict_test(line);
    } else if (predicts) {
        compat_verb(line, "predict squad");
        predict_test(line);
    }
    return BERTH_OK;
}

// Classes and tags: a run evaluates and predicts by itself.
static enum berth_status finish_rows(struct compat_line *line, const char *predict_verb,
                                     struct berth_error *error) {
    const int trains = compat_is_on(line, "do_train"), evaluates = compat_is_on(line, "do_eval"),
              predicts = compat_is_on(line, "do_predict");
    TRY(finish_arguments(line, error));
    if (!trains) {
        compat_verb(line, predict_verb);
    }
    compat_set(line, "do_eval", evaluates ? "true" : "false");
    compat_set(line, "do_predict", predicts ? "true" : "false");
    if (predicts && compat_value(line, "test_file") != NULL) {
        compat_set(line, "predict_file", compat_value(line, "test_file"));
    }
    if (!evaluates && compat_value(line, "max_predict_samples") != NULL) {
        compat_set(line, "max_eval_samples", compat_value(line, "max_predict_samples"));
    } else if (compat_value(line, "max_predict_samples") != NULL) {
        compat_note(line, "--max_predict_samples is not needed: predictions are limited as "
                          "evaluations are, by --max_eval_samples");
    }
    return BERTH_OK;
}

static enum berth_status finish_glue(struct compat_line *line, struct berth_error *error) {
    return finish_rows(line, "predict classify", error);
}

static enum berth_status finish_ner(struct compat_line *line, struct berth_error *error) {
    return finish_rows(line, "predict tokens", error);
}

static enum berth_status finish_mlm(struct compat_line *line, struct berth_error *error) {
    const int trains = compat_is_on(line, "do_train"), evaluates = compat_is_on(line, "do_eval");
    TRY(finish_arguments(line, error));
    if (trains) {
        compat_set(line, "do_eval", evaluates ? "true" : "false");
    } else if (evaluates) {
        compat_verb(line, "evaluate pretrain --objective mlm");
    } else {
        return error_set(error, BERTH_USAGE, "nothing to do: give --do_train or --do_eval");
    }
    return BERTH_OK;
}

static const struct compat_flag qa_flags[] = {
    SAME(COMPAT_VALUE, "n_best_size max_answer_length null_score_diff_threshold"),
    SAME(COMPAT_SWITCH, "version_2_with_negative"),
    READS(COMPAT_VALUE, "doc_stride", "--doc_overlap (128)"),
    READS(COMPAT_VALUE, "dataset_name", "squad or squad_v2: --train_file and --validation_file"),
    FLAGS_END};
static const struct compat_flag glue_flags[] = {
    SAME(COMPAT_VALUE, "task_name"),
    ONLY(COMPAT_VALUE, "dataset_name", "", "name the data's files"), FLAGS_END};
static const struct compat_flag ner_flags[] = {
    TO(COMPAT_VALUE, "text_column_name", "text_column"),
    TO(COMPAT_VALUE, "label_column_name", "label_column"),
    NOT_NEEDED(COMPAT_VALUE, "task_name", "it is only a name"),
    ONLY(COMPAT_VALUE, "dataset_name", "", "name the data's files"), FLAGS_END};
static const struct compat_flag mlm_flags[] = {
    TO(COMPAT_VALUE, "mlm_probability", "masked_lm_prob"),
    SAME(COMPAT_VALUE, "validation_split_percentage"), SAME(COMPAT_SWITCH, "line_by_line"),
    ONLY(COMPAT_VALUE, "dataset_name", "", "name the data's files"), FLAGS_END};

#define SCRIPT .system = "hugging-face", .settings = "recipe=hugging-face", .required = "output_dir"

const struct compat_program compat_hugging_face[] = {
    {SCRIPT, .name = "run_qa.py", .verb = "finetune squad",
     .flags = {arguments_flags, ignored_flags, qa_flags}, .finish = finish_qa,
     .summary = "fine-tuning on SQuAD"},
    {SCRIPT, .name = "run_glue.py", .verb = "finetune classify",
     .flags = {arguments_flags, ignored_flags, glue_flags}, .finish = finish_glue,
     .summary = "fine-tuning on GLUE or a table of texts"},
    {SCRIPT, .name = "run_ner.py", .verb = "finetune tokens",
     .flags = {arguments_flags, ignored_flags, ner_flags}, .finish = finish_ner,
     .summary = "fine-tuning on words with tags"},
    {SCRIPT, .name = "run_mlm.py", .verb = "pretrain --objective mlm",
     .flags = {arguments_flags, ignored_flags, mlm_flags}, .finish = finish_mlm,
     .summary = "training on masked words"},
    {.name = NULL}};
