/* SPDX-License-Identifier: Apache-2.0
 *
 * libberth: BERT in C. The only installed header.
 *
 * Conventions
 * - Every fallible function returns an enum berth_status and fills an optional struct berth_error.
 *   The library never prints and never exits. It changes neither the locale, nor the working
 * folder, nor signal handlers, and its results depend on none of them.
 * - Strings are UTF-8 and NUL-terminated. Character offsets count Unicode code points.
 * - Handles are opaque; whoever opens one closes it with the function of the same noun. Closing
 *   NULL does nothing.
 * - NULL where a value is needed is BERTH_USAGE and names the argument; a function without a status
 *   then does nothing, or gives 0, NaN or a silent log. NULL may be given for `error`, `stop`, a
 *   callback's context, outputs that the caller does not want, and what the comments say. Handles,
 * and arrays with their counts, are wanted always. A struct berth_config filled by hand with a
 * value that berth_config_set would refuse is BERTH_USAGE, too.
 * - Threads: any number may share a struct berth_model, encoder or tokenizer, which are read-only
 * once they are open, and any number may work with handles of their own. A struct berth_config, a
 *   reporter, and a handle that is being closed belong to one thread at a time.
 */
#ifndef BERTH_H
#define BERTH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BERTH_VERSION "0.1.0"

/* With BERTH_CHECK_STATUS defined, clang warns of every status that is not read; the library's own
 * sources are compiled so. */
#if defined(BERTH_CHECK_STATUS) && defined(__clang__)
#define BERTH_MUST_BE_READ __attribute__((warn_unused_result))
#else
#define BERTH_MUST_BE_READ
#endif

/* The values are the exit codes of the program. */
enum BERTH_MUST_BE_READ berth_status {
    BERTH_OK = 0,
    BERTH_FAILURE = 1,      /* the run failed (for instance: the loss is not finite) */
    BERTH_USAGE = 2,        /* wrong arguments */
    BERTH_BAD_DATA = 65,    /* input data is malformed */
    BERTH_NO_INPUT = 66,    /* an input file is missing or unreadable */
    BERTH_UNAVAILABLE = 69, /* a device, service or peer is not there */
    BERTH_INTERNAL = 70,    /* a bug, or a library that failed */
    BERTH_NO_MEMORY = 71,   /* memory is out; the program exits with 70 */
    BERTH_CANT_CREATE = 73, /* an output cannot be created */
    BERTH_IO = 74,          /* reading or writing failed half-way (disk full, ...) */
    BERTH_INTERRUPTED = 75, /* stopped on request; everything needed to resume is saved */
    BERTH_CONFIG = 78       /* a configuration contradicts itself or the model */
};

struct berth_error {
    enum berth_status status;
    char message[1024];
};

/* "bad data", "I/O error", ...: a short name for a status. */
const char *berth_status_name(enum berth_status status);

/* The library's version, as BERTH_VERSION was when it was built. */
const char *berth_version(void);

/* ---------------------------------------------------------------------------------------------
 * Settings. One struct for every job; a job reads the fields it needs. Field, command-line flag
 * (--max_seq_length or --max-seq-length) and log key carry the same name. Strings are borrowed for
 * the call that gets the struct, no longer.
 */
/* BERTH_PRECISION_AUTO: the faster one on the device that is opened; the log says which. */
enum berth_precision { BERTH_FP32, BERTH_BF16, BERTH_PRECISION_AUTO };

struct berth_config {
    /* files */
    const char *model_name_or_path; /* model folder to start from */
    const char *vocab_file;         /* overrides the model's vocab.txt */
    int pre_layer_norm;             /* -1: as the model is; 0, 1: refuse another */
    const char *train_file;
    const char *validation_file;
    const char *predict_file;
    const char *output_dir;
    const char *deepspeed_config;
    int overwrite_output_dir; /* of a job that writes one file: that file */
    int strict;               /* the checkpoint must hold the model's tensors and no others */

    /* classification */
    const char *task_name; /* "mrpc", ...; NULL: files of the user's own */
    const char *data_dir;  /* folder with the task's files */
    const char *split;     /* which of them to predict: "test", "dev" or "train" */
    const char *language;  /* XNLI's; NULL: "zh" */
    const char *text_column;
    const char *text_pair_column; /* NULL: single texts */
    const char *label_column;
    /* "auto", "single_label_classification", "multi_label_classification" or "regression" */
    const char *problem_type;

    /* pre-training */
    const char *input_dir; /* folder of shards, or one shard */
    const char *eval_dir; /* the same, held out; NULL: files of input_dir with "test" in the name */
    const char *config_file; /* shape of a model that starts from random weights */
    const char *recipe;      /* NULL: none; see `berth pretrain --help` */
    int phase2;              /* begin the second phase from a checkpoint of the first */
    int64_t phase1_end_step; /* updates of the first phase; 0: those of the checkpoint */
    int64_t resume_step;     /* >= 0: resume from checkpoint-<this> of output_dir */
    int64_t steps_this_run;  /* > 0: save and end after that many updates */
    int skip_checkpoint;     /* write no checkpoints, only the model at the end */
    int64_t vocab_multiple;  /* a new model's vocabulary is rounded up to a multiple of this */
    const char *initializer; /* "normal" or "truncated_normal": a new model's weights */

    /* text and features */
    int64_t max_seq_length; /* the default, 384, gives way to a model with fewer positions */
    int64_t doc_stride;
    int64_t max_query_length;
    int do_lower_case; /* -1: as the model's tokenizer_config.json says, else 1 */
    /* "auto" (where text is lower-cased), "true" or "false"; NULL: as the model's files say */
    const char *strip_accents;
    int tokenize_chinese_chars; /* ideographs are words; -1: as the model's files say, else 1 */
    const char *tokenizer;      /* "huggingface" or "google" */
    int64_t max_word_length;    /* characters; 0: as the tokenizer's rules say, 100 or 200 */
    int split_special;          /* -1: as the tokenizer's rules say; 0: [CLS], ... stay tokens */
    const char *features;       /* "google" (windows) or "keras" (context first, no windows) */
    const char *keras_answers;  /* "first" or "all": which of a training question's answers */
    const char *keras_end;      /* "inclusive" or "exclusive": the row of an answer's end */
    const char *window_filter;  /* "none" or "words": training windows that stay */
    const char *cache_dir;      /* folder that keeps SQuAD features; NULL: they are built anew */
    int skip_cache;             /* neither read nor write there */
    int overwrite_cache;        /* build anew and write */
    int version_2_with_negative;
    int strict_answers;        /* refuse a file with an answer that is not at its answer_start */
    int64_t max_train_samples; /* use only the first N questions; 0: all */
    int64_t max_eval_samples;

    /* data for pre-training */
    int64_t max_predictions_per_seq; /* masked positions of an instance at most; in training: that
                                        count, the first so many */
    int64_t dupe_factor;             /* rounds through the documents, each masked anew */
    double masked_lm_prob;           /* share of the tokens that is predicted */
    double short_seq_prob;           /* share of the documents that is cut shorter */
    int whole_word_mask;             /* mask all pieces of a word or none */
    const char *rng;                 /* "fast", or "python": the numbers of CPython's random */
    int64_t shards;                  /* for training */
    int64_t test_shards;             /* < 0: as many */
    double fraction_test_set;        /* of the sentences */
    const char *stages;              /* of "text,shards,hdf5,pack"; NULL: all but pack */
    int pack;                        /* also the stage pack */
    const char *format;              /* "hdf5" or "tfrecord" */

    /* training */
    int64_t train_batch_size;            /* sequences in one update over all processes */
    int64_t per_device_train_batch_size; /* sequences in one micro-batch; 0: derived */
    int64_t gradient_accumulation_steps; /* 0: derived */
    int gradient_checkpointing;          /* compute activations again instead of keeping them */
    double num_train_epochs;
    int64_t max_steps; /* > 0: stop after that many updates */
    int64_t max_steps_per_epoch;
    double learning_rate;
    double warmup_proportion;
    int64_t warmup_steps; /* > 0: overrides warmup_proportion */
    const char *schedule; /* see `berth finetune squad --help all` */
    double warmup_min_lr;
    double lr_offset;  /* added to the rate of every update */
    double decay_rate; /* schedules EE and LE */
    int64_t decay_step;
    double cos_min_ratio;  /* schedules warmup_cosine_...: where the cosine ends */
    int rewarmup;          /* resuming: start the schedule again */
    const char *optimizer; /* see `berth finetune squad --help all` */
    double weight_decay;   /* < 0: the optimizer's */
    double adam_beta1, adam_beta2;
    double adam_epsilon; /* < 0: the optimizer's */
    int eps_inside_sqrt;
    int bias_correction; /* -1: as the optimizer does */
    int adam_w_mode;
    const char *no_decay;        /* a list's name or parts of names; NULL: the optimizer's */
    double max_grad_norm;        /* 0: no clipping */
    const char *clip_by;         /* "global", "tensor", "both"; NULL: as the optimizer does */
    double max_coeff, min_coeff; /* of lamb */
    const char *loss_scale;      /* "none", "dynamic" or "0", a number, "static": init_loss_scale */
    const char *loss_scaler;     /* "zero" or "plain": the rule of a dynamic scale */
    double init_loss_scale, min_loss_scale;
    int64_t loss_scale_window, hysteresis;
    int consecutive_hysteresis;
    double hidden_dropout_prob;          /* < 0: as the model's config.json says */
    double attention_probs_dropout_prob; /* < 0: as the model's config.json says */
    const char *loss_average;            /* "update" or "micro" */
    int64_t seed;
    enum berth_precision precision;
    int do_eval;                       /* evaluate on validation_file or, by task_name, on the
                                          task's development set */
    int evaluate_every_epoch;          /* after each epoch, and not only after the last */
    int64_t eval_steps;                /* > 0: also every that many updates */
    const char *eval_strategy;         /* "no", "epoch" or "steps"; NULL: as the two above say */
    const char *metric_for_best_model; /* "f1", "loss", ...; NULL: the task's */
    int greater_is_better;             /* of that metric; -1: by its name */
    int64_t early_stopping_patience;   /* > 0: stop after so many evaluations without a gain */
    double early_stopping_threshold;   /* smaller gains are none */
    int do_predict;                    /* classification: after training predict predict_file, or
                                          the task's test set; -1: where there is a predict_file */

    /* checkpoints */
    int64_t save_steps; /* 0: only at the end of each epoch */
    int64_t save_total_limit;
    const char *save_strategy;          /* "no", "epoch", "steps" or "best"; NULL: as save_steps
                                           says */
    int load_best_model_at_end;         /* the best evaluated model is the result, not the last */
    const char *resume_from_checkpoint; /* NULL: start from the beginning;
                                           "auto": newest good; or one of them */
    const char *on_save_error;          /* "stop" or "continue" */

    /* prediction */
    int64_t predict_batch_size;
    int64_t n_best_size;
    int64_t max_answer_length;
    double null_score_diff_threshold;

    /* machine */
    const char *device;       /* "cpu", "cuda" or "auto" */
    int64_t threads;          /* 0: all that the process may use */
    const char *instructions; /* "auto", "generic", "avx2", "avx512", "avx512bf16" */

    /* ranks: the processes of a job */
    const char *comm;      /* "self", "openmpi", "mpich"; "auto": as the launcher says */
    int64_t comm_timeout;  /* seconds to wait for another process */
    int64_t zero_stage;    /* what they divide: 1 moments and master weights, 2 gradients too */
    int64_t virtual_ranks; /* parts of an update, added in a fixed order; 0: one for each rank */
    const char *communication_data_type; /* of exchanged gradients: "fp32", "bf16"; NULL: that of
                                            the precision */

    /* reports */
    int64_t logging_steps;
    const char *log_format;   /* "plain", "deepspeed" or "dllogger" */
    const char *json_summary; /* file for JSON lines, in dllogger's form with its
                                 log_format; NULL: none */
    const char *logging_dir;  /* folder for TensorBoard's files; NULL: as a DeepSpeed file says */
    double loss_plot_alpha;   /* share of the former mean in train_ema_loss there */
    int wall_clock_breakdown;
    int no_progress;
    int quiet;
    int dry_run;

    uint64_t given[4]; /* settings that were set by name (berth_config_set): these win over a
                          DeepSpeed file's */
};

/* Fills in the defaults. */
void berth_config_init(struct berth_config *config);

/* Sets a field by its name or one of its aliases ("learning_rate", "3e-5"); `value` must outlive
 * the config. Unknown names are BERTH_USAGE and name the nearest known one. */
enum berth_status berth_config_set(struct berth_config *config, const char *name, const char *value,
                                   struct berth_error *error);

/* ---------------------------------------------------------------------------------------------
 * Reports. A job tells what happens as records of named fields; the caller decides what to do with
 * them. Calls come from one thread at a time.
 */
enum berth_record_kind {
    BERTH_RECORD_NOTE,     /* text for people */
    BERTH_RECORD_WARNING,  /* text for people */
    BERTH_RECORD_PLAN,     /* one part of the plan before start: text names it */
    BERTH_RECORD_STEP,     /* one update: step, epoch, loss, learning_rate, ... */
    BERTH_RECORD_PROGRESS, /* done, total, or done_bytes, total_bytes; text names the phase */
    BERTH_RECORD_EVAL,     /* exact_match, f1, ... */
    BERTH_RECORD_SUMMARY,  /* the end of the run */
    BERTH_RECORD_VALUES,   /* step, then a number for each of many parts: text names what */
    BERTH_RECORD_EVENT     /* a moment of the run, for other programs: text names it, fields tell
                              more */
};

enum berth_field_type { BERTH_INTEGER, BERTH_REAL, BERTH_TEXT };

struct berth_field {
    const char *key;
    enum berth_field_type type;
    int64_t integer;
    double real;
    const char *text;
};

struct berth_record {
    enum berth_record_kind kind;
    const char *text; /* may be NULL */
    const struct berth_field *fields;
    size_t field_count;
};

struct berth_log {
    void (*write)(void *context, const struct berth_record *record);
    void *context;
};

/* A reporter prints records for people (progress bar on a terminal, plain or DeepSpeed-like lines
 * otherwise) on `file_descriptor`, JSON lines into config->json_summary and scalars for TensorBoard
 * into config->logging_dir. */
struct berth_reporter;
enum berth_status berth_reporter_open(const struct berth_config *config, int file_descriptor,
                                      struct berth_reporter **reporter, struct berth_error *error);
struct berth_log berth_reporter_log(struct berth_reporter *reporter);
/* Lines that cannot be written stop no job. BERTH_IO when one for standard output could not (by
 * file_descriptor 1, or json_summary "-"), unless its reader went away. */
enum berth_status berth_reporter_check(const struct berth_reporter *reporter,
                                       struct berth_error *error);
void berth_reporter_close(struct berth_reporter *reporter);

/* ---------------------------------------------------------------------------------------------
 * Jobs. `stop` may be NULL; it is read once an update and may be set from a signal handler:
 * 1 asks to save and stop, 2 to stop at once.
 */
#define BERTH_METRICS_MAX 12

struct berth_metric {
    char name[48]; /* "exact_match" and "f1" in percent, of SQuAD 2.0 the official script's
                      ("exact", "f1", "HasAns_f1", "best_f1_thresh", ...); "accuracy", ... */
    double value;
};

struct berth_run_result {
    int64_t steps;
    double final_loss;
    struct berth_metric metrics[BERTH_METRICS_MAX]; /* of the last evaluation */
    size_t metric_count;                            /* 0: nothing was evaluated */
    double eval_loss; /* NaN when nothing was evaluated, and for SQuAD */
    double samples_per_second;
    double tokens_per_second;
    double mfu; /* needed FLOPs over the measured peak; NaN when the peak was not measured */
};

/* The jobs of a task, by its name; another name is BERTH_USAGE and lists those there are.
 *
 * "squad": question answering. Training reads train_file, evaluation validation_file, prediction
 * predict_file. The last two write predictions.json, nbest_predictions.json and, for version 2,
 * null_odds.json.
 *
 * "classify": classification and regression of single texts or pairs, either the tasks of GLUE and
 * XNLI by name (task_name, data_dir) or the user's own files (text_column, ...). Training and
 * evaluation write eval_results.txt and eval_results.json; prediction, and training with
 * do_predict, write test_results.tsv, predict_results_TASK.txt and predict_results.json.
 *
 * "pretrain": masked words and next sentences, on the shards of input_dir. The model starts from
 * random weights (config_file, vocab_file), from another model (model_name_or_path), or from a
 * checkpoint, and is written with its pre-training head; the other tasks can start from it.
 * Evaluation and prediction score held-out shards: those of eval_dir, else those of input_dir with
 * "test" in their names. They write eval_results.txt.
 *
 * Training writes into output_dir the model, its checkpoints and what evaluation writes. */
enum berth_status berth_train(const char *task, const struct berth_config *config,
                              struct berth_log log, const volatile int *stop,
                              struct berth_run_result *result, struct berth_error *error);
/* Applies the model of model_name_or_path to the set for prediction, and scores it where it has
 * labels. */
enum berth_status berth_predict(const char *task, const struct berth_config *config,
                                struct berth_log log, const volatile int *stop,
                                struct berth_run_result *result, struct berth_error *error);
/* Scores the model of model_name_or_path on the set for evaluation, as training does at its end. */
enum berth_status berth_evaluate(const char *task, const struct berth_config *config,
                                 struct berth_log log, const volatile int *stop,
                                 struct berth_run_result *result, struct berth_error *error);

/* The metric of that name; NaN when it is not there. */
double berth_run_metric(const struct berth_run_result *result, const char *name);

/* The official evaluation. *json is one JSON object, to be freed with berth_string_free.
 * Predictions of which none belongs to the data set are BERTH_BAD_DATA. */
enum berth_status berth_evaluate_squad(const char *dataset_path, const char *predictions_path,
                                       const char *null_odds_path, double null_threshold,
                                       struct berth_log log, char **json,
                                       struct berth_error *error);

void berth_string_free(char *text);

/* ---------------------------------------------------------------------------------------------
 * A model in memory, for questions.
 */
struct berth_model;

/* Opens config->model_name_or_path for inference (precision, device, threads, vocab_file, ...). */
enum berth_status berth_model_open(const struct berth_config *config, struct berth_log log,
                                   struct berth_model **model, struct berth_error *error);
void berth_model_close(struct berth_model *model);

struct berth_answer {
    char *text;         /* as it stands in the context; "" for "no answer" */
    double probability; /* soft-max over the candidates */
    double start_logit, end_logit;
    int64_t start, end; /* characters of the context, end exclusive; -1 for "no answer" */
};

/* Answers a question from a context: up to `capacity` best answers, best first, into answers[];
 * *count of them. With version_2_with_negative the first is what null_score_diff_threshold decides
 * for. Free with berth_answers_free. A question without words is BERTH_USAGE, a context
 * without words BERTH_BAD_DATA. */
enum berth_status berth_model_answer(const struct berth_model *model, const char *question,
                                     const char *context, struct berth_answer *answers,
                                     size_t capacity, size_t *count, struct berth_error *error);
void berth_answers_free(struct berth_answer *answers, size_t count);

/* One question of a data set with the model's answer, for viewers. Strings are borrowed until the
 * callback returns. */
struct berth_sample {
    int64_t index;
    const char *title, *question, *context, *reference;
    struct berth_answer answer;
    double exact_match, f1;
};

/* Which samples: `count` from number `first` on, or as many drawn from all by config->seed, none
 * twice, in ascending order. */
struct berth_selection {
    int64_t first, count;
    int random; /* draw; first means nothing */
};

/* Answers questions of config->predict_file and hands each to `visit`, which returns 0 to go on. A
 * `first` that is not there is BERTH_USAGE; where there are fewer than `count`, these are shown. */
enum berth_status berth_show_squad(const struct berth_config *config,
                                   struct berth_selection samples, struct berth_log log,
                                   int (*visit)(void *context, const struct berth_sample *sample),
                                   void *context, struct berth_error *error);

/* ---------------------------------------------------------------------------------------------
 * Embeddings of texts, from any encoder's checkpoint.
 */
struct berth_encoder;

enum berth_pooling {
    BERTH_POOL_MEAN,             /* of the last layer's rows, [CLS] and [SEP] among them */
    BERTH_POOL_CLS,              /* the row of [CLS] */
    BERTH_POOL_MAX,              /* the largest of each column */
    BERTH_POOL_MEAN_SQRT_LENGTH, /* the sum of the rows divided by the square root of their number
                                  */
    BERTH_POOL_WEIGHTED_MEAN,    /* the mean, row i (from 1) counted i times */
    BERTH_POOL_LAST              /* the last row, that of [SEP] */
};

/* What becomes of a text's rows. */
struct berth_embedding {
    enum berth_pooling pooling;
    int normalize; /* scale to length 1 */
};

/* Opens config->model_name_or_path (max_seq_length, precision, device, threads, ...). Any number of
 * threads may share an encoder. A folder of sentence-transformers (modules.json) says the length of
 * texts and the prompt before each, unless max_seq_length was set; modules other than Transformer,
 * Pooling and Normalize are BERTH_CONFIG. */
enum berth_status berth_encoder_open(const struct berth_config *config, struct berth_log log,
                                     struct berth_encoder **encoder, struct berth_error *error);
void berth_encoder_close(struct berth_encoder *encoder);
/* What the model's folder asks for: its modules where it is one of sentence-transformers, else the
 * mean, scaled to length 1. */
struct berth_embedding berth_encoder_usual(const struct berth_encoder *encoder);
/* Numbers of one embedding. */
size_t berth_encoder_size(const struct berth_encoder *encoder);
/* embeddings[count][size]: those of texts[count], each cut to max_seq_length. An unknown pooling is
 * BERTH_USAGE. */
enum berth_status berth_encoder_embed(const struct berth_encoder *encoder, const char *const *texts,
                                      size_t count, struct berth_embedding how, float *embeddings,
                                      struct berth_error *error);

/* ---------------------------------------------------------------------------------------------
 * Tokens.
 */
struct berth_tokenizer;

struct berth_token {
    const char *piece; /* borrowed from the tokenizer */
    int32_t id;
    int64_t start, end; /* characters of the text */
};

/* From config->vocab_file or config->model_name_or_path. */
enum berth_status berth_tokenizer_open(const struct berth_config *config,
                                       struct berth_tokenizer **tokenizer,
                                       struct berth_error *error);
void berth_tokenizer_close(struct berth_tokenizer *tokenizer);
/* *tokens has *count entries; free with berth_tokens_free. *ill_formed (may be NULL) counts
 * ill-formed UTF-8 sequences. */
enum berth_status berth_tokenizer_encode(const struct berth_tokenizer *tokenizer, const char *text,
                                         size_t length, struct berth_token **tokens, size_t *count,
                                         size_t *ill_formed, struct berth_error *error);
void berth_tokens_free(struct berth_token *tokens);

/* ---------------------------------------------------------------------------------------------
 * Checkpoints.
 */
struct berth_tensor_info {
    const char *name, *dtype;
    int64_t shape[8];
    int rank;
    uint64_t bytes;
};

/* Calls `tensor` (may be NULL) for every tensor of a model folder, checkpoint or file, then gives
 * the folder's config.json in *config_json (NULL when there is none; berth_string_free). */
enum berth_status berth_inspect(const char *path,
                                void (*tensor)(void *context, const struct berth_tensor_info *info),
                                void *context, char **config_json, struct berth_error *error);

/* What files of pre-training instances hold, packed or not. */
struct berth_data_info {
    int64_t files; /* 0: no such data */
    int64_t rows;
    int64_t max_seq_length; /* tokens of a row of HDF5; 0: TFRecord only */
    int64_t instances, tokens, predictions;
    int64_t random_next;       /* instances whose second text is random */
    int64_t shortest, longest; /* tokens of an instance */
};

/* Reads a file of instances (HDF5; TFRecord by its name), or all of a folder (.hdf5, .h5,
 * .tfrecord), and checks every row: BERTH_BAD_DATA names file, column and row. Other files leave
 * info->files 0. */
enum berth_status berth_inspect_data(const char *path, struct berth_data_info *info,
                                     struct berth_error *error);

/* Checks a checkpoint's sizes and hashes; *files gets their number. A folder without a manifest is
 * BERTH_BAD_DATA. */
enum berth_status berth_verify(const char *path, int64_t *files, struct berth_error *error);

/* Writes a randomly initialised Hugging Face folder. `name_or_file`: tiny, minilm, base, large or
 * a config.json. */
enum berth_status berth_init_model(const char *name_or_file, const char *output_dir, int64_t seed,
                                   struct berth_error *error);

struct berth_convert_settings {
    const char *to;    /* "hf", "torch", "tensorflow", "nvidia", "deepspeed", "onnx" or "gguf" */
    const char *dtype; /* "f32", "f16" or "bf16" for every tensor of numbers; "onnx": "f32" only;
                          "gguf": "f32", or "f16" for the matrices. NULL: "onnx" and "gguf" take
                          "f32", the others keep each tensor's type */
    int allow_lossy;   /* go on when tensors must be left out or get a narrower type */
    const char *names; /* deepspeed: "huggingface", "nvidia" (also BingBert's), or "kernel" (those
                          of its transformer kernel). NULL: NVIDIA's for a model that has them, else
                          Hugging Face's. The other formats have one set of names each */
    int kernel_layers; /* the same as names "kernel" */
    int64_t step;      /* nvidia, deepspeed: of training, in the name of the checkpoint */
};

/* Writes the model `input`, a folder or the file of weights in one, in another format into the new
 * folder `output_dir`, which appears as a whole or not at all; config.json and the tokenizer's
 * files are copied along. What is lost is a warning in the log with allow_lossy, else BERTH_CONFIG
 * naming the tensors. An output that is there and not empty is BERTH_CANT_CREATE, an unknown format
 * BERTH_USAGE. */
enum berth_status berth_convert(const char *input, const char *output_dir,
                                const struct berth_convert_settings *settings, struct berth_log log,
                                struct berth_error *error);

/* One tensor of two models. */
struct berth_difference {
    const char *name;   /* in Hugging Face's spelling */
    const char *remark; /* why the numbers were not compared ("only in A", "shapes ..."), or NULL */
    int64_t elements;
    double largest; /* largest absolute difference; infinite where only one is a number; NaN when
                       the numbers were not compared */
    double cosine;  /* of the two tensors as vectors; NaN when the numbers were not compared */
    int differs;    /* not compared, or `largest` beyond the tolerance */
};

struct berth_comparison {
    int64_t tensors;   /* names in either */
    int64_t compared;  /* those whose numbers were compared */
    int64_t differing; /* those with `differs` */
    double largest;    /* of all that were compared */
    double cosine;     /* the smallest */
};

/* Compares the tensors of two model folders or files, after translating their names to Hugging
 * Face's; calls `tensor` (may be NULL) for each in the order of the names. Types may differ:
 * numbers are compared. Nothing is said by the status: see comparison->differing. */
enum berth_status
berth_compare(const char *a, const char *b, double tolerance,
              void (*tensor)(void *context, const struct berth_difference *difference),
              void *context, struct berth_comparison *comparison, struct berth_error *error);

/* ---------------------------------------------------------------------------------------------
 * Downloads. berth_fetch is the only function that uses the network.
 */
struct berth_fetch_settings {
    const char *revision;   /* branch, tag or commit of the hub; NULL: "main" */
    const char *files;      /* patterns, separated by commas, of the files to take; NULL: those that
                               a BERT model needs, or all of a data set */
    const char *sha256;     /* of what a URL gives; NULL: not known */
    const char *md5;        /* the same; only against accidents */
    const char *cache_dir;  /* NULL: by HF_HUB_CACHE, HF_HOME and so on */
    const char *token_file; /* NULL: HF_TOKEN, else the file of HF_TOKEN_PATH or $HF_HOME/token */
    int dataset;            /* the name is that of a data set of the hub, not of a model */
    int64_t retries;        /* after a failure that may pass; < 0: 5 */
};

/* Downloads `name`: a model or data set of the Hugging Face hub ("org/name"; HF_ENDPOINT), a data
 * set known by name ("squad", "squad_v2"), or an http(s) URL, into Hugging Face's cache layout;
 * `settings` may be NULL: the usual ones. *path (for berth_string_free) is the snapshot's folder,
 * of a URL the file. What is there already is not downloaded again; what was cut off is resumed;
 * contents are checked against the digests that are known. With HF_HUB_OFFLINE or
 * TRANSFORMERS_OFFLINE (data sets and URLs: HF_DATASETS_OFFLINE, too) nothing is asked of the
 * network: what the cache does not hold is BERTH_UNAVAILABLE. `stop` as for jobs. No connection:
 * BERTH_UNAVAILABLE; not found: BERTH_NO_INPUT; wrong content, a listing with hostile paths:
 * BERTH_BAD_DATA; a full disk: BERTH_IO. */
enum berth_status berth_fetch(const char *name, const struct berth_fetch_settings *settings,
                              struct berth_log log, const volatile int *stop, char **path,
                              struct berth_error *error);

/* The folder or file that a model's name means, in *path (berth_string_free): the name itself,
 * unless nothing of that name is there and it is one of the hub's: then the snapshot of its branch
 * main in the cache. Not in the cache, or not all of it: BERTH_NO_INPUT; links that leave the
 * cache: BERTH_BAD_DATA. */
enum berth_status berth_find_model(const char *name_or_path, char **path,
                                   struct berth_error *error);

/* ---------------------------------------------------------------------------------------------
 * Data for pre-training (doc/pretraining-data.md): text, shards of sentences, instances.
 */
/* Where the articles come from; several are one corpus, in this order. */
struct berth_prepare_input {
    const char *wikipedia; /* dump: MediaWiki's XML, plain or bzip2; NULL: none */
    const char *extracted; /* folder that WikiExtractor or the stage text made; NULL: none */
    const char *books;     /* folder with a file a book; NULL: none */
    const char *const
        *texts; /* [text_count] files, or folders of files; an empty line ends an article */
    size_t text_count;
    int64_t file_size; /* bytes of a file of the dump's text at most; 0: 100 MiB */
};

/* A stage that ran. */
struct berth_prepare_stage {
    const char *name; /* "text", "shards", "hdf5", "pack"; NULL: it was not asked for */
    double seconds;
    int64_t bytes; /* that it read in this run: XML, text, text, ids; 0: nothing was left to do,
                      or the dump's text was begun by an earlier run */
};
enum { BERTH_PREPARE_STAGES = 4 };

/* What packing came to. */
struct berth_pack_result {
    int64_t sequences, tokens; /* of the input */
    int64_t rows, files;       /* of the output */
    int64_t max_seq_length;    /* tokens of a row */
    double efficiency;         /* share of the rows that is not padding; at best 1 */
    double speed_up;           /* sequences a row */
    double speed_up_limit;     /* what it would be without any padding */
};

struct berth_prepare_result {
    /* the dump's pages */
    int64_t pages, articles;
    int64_t redirects, other_namespaces, empty; /* left out */
    int64_t oversize, damaged;                  /* skipped: too long; bytes that are no UTF-8 */
    int64_t xml_bytes, text_bytes, files;

    /* shards */
    int64_t training_shards, test_shards;
    int64_t shard_articles, sentences, shard_bytes;

    /* instances of all shards */
    int64_t instances, tokens, predictions;
    int64_t masked, kept, replaced; /* of the predictions */
    int64_t random_next;            /* of the instances */
    double fill;                    /* share of the rows that is not padding */
    int64_t lengths[8];             /* instances by length, in eighths of max_seq_length */
    int64_t empty_shards;           /* gave no instance: no file */

    struct berth_pack_result pack;

    struct berth_prepare_stage stages[BERTH_PREPARE_STAGES];
    int threads;
};

/* Runs the stages that config->stages names, each on what the one before left in
 * config->output_dir:
 *
 *   extracted/wikicorpus_en/AA/wiki_00
 *   sharded_training_shards_N_test_shards_M_fraction_F/NAME/NAME_training_0.txt
 *   hdf5_lower_case_1_seq_len_S_max_pred_P_masked_lm_prob_X_random_seed_R_dupe_factor_D/NAME/
 *       NAME_training_0.hdf5, statistics.json
 *   the same with "_packed" behind hdf5_...: NAME/mixed_strategies_part_0.hdf5, NAME_metadata.json
 *
 * NAME is wikicorpus_en, bookscorpus, books_wiki_en_corpus, or corpus. Of the config also counts:
 * vocab_file with its tokenizer's settings, max_seq_length (128 unless it was set), seed (12345
 * unless it was set), threads. Files appear whole or not at all; what an earlier run has finished
 * is kept, and the same input and settings give the same bytes whatever the number of threads and
 * however often the work was stopped. `stop` as for jobs. BERTH_USAGE: an unknown stage, no input;
 * BERTH_BAD_DATA: a cut or broken dump, text that is no UTF-8; BERTH_CONFIG: the folder holds the
 * work of another input or other settings, of which the first is named; BERTH_NO_INPUT: a file, or
 * the work of the stage before, is missing; BERTH_IO: a full disk. */
enum berth_status berth_prepare(const struct berth_config *config,
                                const struct berth_prepare_input *input, struct berth_log log,
                                const volatile int *stop, struct berth_prepare_result *result,
                                struct berth_error *error);

/* Packs the instances of a folder's HDF5 and TFRecord files (those with "training" in their name)
 * into rows of up to three: output_dir/mixed_strategies_part_0.hdf5 and so on, 4,480 rows each, and
 * output_dir_metadata.json beside it. Of the config count seed (12345 unless it was set) and
 * threads. Goes on where an earlier run was stopped; the same input and seed give the same bytes.
 * Errors as of berth_prepare. */
enum berth_status berth_pack(const struct berth_config *config, const char *input_dir,
                             const char *output_dir, struct berth_log log, const volatile int *stop,
                             struct berth_pack_result *result, struct berth_error *error);

/* ---------------------------------------------------------------------------------------------
 * Training of a WordPiece vocabulary (doc/pretraining-data.md).
 */
struct berth_vocab_settings {
    const char *const *texts; /* [text_count] files of text */
    size_t text_count;
    const char *extracted;  /* folder of WikiExtractor's files; NULL: none */
    const char *output;     /* the vocabulary: a piece a line */
    int64_t size;           /* pieces; 0: 30522 */
    int64_t limit_alphabet; /* different characters at most; 0: 1000 */
    int64_t min_frequency;  /* of a pair that becomes a piece; 0: 2 */
};

struct berth_vocab_result {
    int64_t pieces; /* may be fewer than were asked for */
    int64_t words;  /* of the text */
    int64_t distinct_words;
    int64_t text_bytes;
};

/* Counts the words of the files and trains a vocabulary on them. Of the config count do_lower_case
 * (which also strips accents; use the vocabulary with the same casing), threads, and
 * overwrite_output_dir: an output that is there is replaced, else refused. The same text gives the
 * same bytes, whatever the number of threads. BERTH_USAGE: no text is named; BERTH_NO_INPUT,
 * BERTH_BAD_DATA: a file is missing, no UTF-8, or holds no words; BERTH_CONFIG: `size` is too small
 * for the characters; BERTH_CANT_CREATE, BERTH_IO: the output; BERTH_INTERRUPTED after *stop (may
 * be NULL). */
enum berth_status berth_vocab_train(const struct berth_config *config,
                                    const struct berth_vocab_settings *settings,
                                    struct berth_log log, const volatile int *stop,
                                    struct berth_vocab_result *result, struct berth_error *error);

#ifdef __cplusplus
}
#endif

#endif
