// SPDX-License-Identifier: Apache-2.0
// The settings of all jobs as one struct, and what a job of the library writes its records to.
// Filled by the option table (options.h) from the settings that berth.h takes as names and values,
// from the command line and from DeepSpeed's files; read by the rooms that do the work.
#ifndef BERTH_CORE_CONFIG_H
#define BERTH_CORE_CONFIG_H

#include "berth.h"

/* ---------------------------------------------------------------------------------------------
 * Settings. One struct serves every job; a job reads the fields it needs. A field, its command-line
 * flag (--max_seq_length or --max-seq-length) and its log key have the same name. Strings are
 * borrowed only for the duration of the call that receives the struct.
 */
/* BERTH_PRECISION_AUTO, the default: fp32 for the tasks embed, hidden and
 * fill, whose numbers are compared and stored; otherwise the faster precision of the
 * opened device, and the log says which one it is. */
/* BERTH_INT8: only for inference on a CPU; everything but matrix products is in the device's faster
 * precision. */
enum berth_precision { BERTH_FP32, BERTH_BF16, BERTH_FP16, BERTH_INT8, BERTH_PRECISION_AUTO };

struct berth_config {
    char **owned; /* the library's: copies of texts, of a struct made by berth_config_new */

    /* files */
    const char *model_name_or_path; /* model folder to start from */
    const char *vocab_file;         /* overrides the model's vocab.txt; or, except in
                                       berth_prepare, a folder, whose rules and added tokens then
                                       apply */
    int pre_layer_norm;             /* -1: either; 0 or 1: a new model has it, another is refused */
    const char *gelu;               /* "erf" or "tanh": the form that "gelu" of config.json means */
    const char *train_file;
    const char *validation_file;
    const char *predict_file;
    const char *output_dir;
    const char *deepspeed_config;
    int overwrite_output_dir; /* also replaces the file of a job that writes only one; training
                                 first removes the checkpoints and scores of an earlier run */
    int strict;               /* the checkpoint must hold exactly the model's tensors */

    /* classification */
    const char *task_name; /* "mrpc", ...; NULL: the user's own files */
    const char *data_dir;  /* folder with the task's files */
    const char *split;     /* the part to predict: "test", "dev" or "train" */
    const char *language;  /* of XNLI; NULL: "zh" */
    const char *text_column;
    const char *text_pair_column; /* NULL: single texts */
    const char *label_column;
    /* "auto", "single_label_classification", "multi_label_classification" or "regression" */
    const char *problem_type;
    const char *class_weights;     /* "balanced", or a number for each class; NULL: 1 each */
    double label_smoothing_factor; /* of training on classes; 0: none */

    /* sentence embeddings: text_column, text_pair_column, label_column (the score) and these */
    const char *negative_column; /* of the third texts; NULL: none */
    const char *embedding_loss;  /* "auto", "cosine", "negatives" or "triplet" */
    int64_t negatives_batch;     /* examples whose texts are each other's negatives; 0: those of a
                                    micro-batch of per_device_train_batch_size, or of an update */
    double similarity_scale;     /* factor of the cosines of negatives */
    double triplet_margin;
    const char *triplet_distance; /* "euclidean" or "cosine" */
    const char *pooling;          /* "mean", ...; NULL: as the model's folder says, else "mean" */
    int normalize; /* scale embeddings to length 1; -1: as the model's folder says, else 0 */

    /* pre-training */
    const char *input_dir; /* folder or pattern of shards, or one shard */
    const char *eval_dir; /* held-out shards; NULL: files of input_dir with "test" in their names */
    /* config.json for weights that have none beside them, instead of the one beside them, or of a
     * new model, which starts from random weights; for this also "tiny", "minilm", "base", "large"
     */
    const char *config_file;
    const char *recipe;      /* NULL: none; see `berth pretrain --help` */
    int phase2;              /* start the second phase from a checkpoint of the first */
    int64_t phase1_end_step; /* updates of the first phase; 0: as the checkpoint says */
    int64_t resume_step;     /* >= 0: resume from checkpoint-<resume_step> in output_dir */
    int64_t steps_this_run;  /* > 0: save and stop after this many updates */
    int skip_checkpoint;     /* write no checkpoints, only the model at the end */
    int64_t vocab_multiple;  /* round a new model's vocabulary size up to a multiple of this */
    const char *initializer; /* "normal" or "truncated_normal": for a new model's weights */
    int line_by_line;        /* masked words: a sequence for each line, not blocks */
    int64_t validation_split_percentage; /* masked words: of train_file, without validation_file */

    /* text and features */
    int64_t max_seq_length; /* the default of 384 is reduced to the model's positions */
    int64_t doc_stride;
    int64_t max_query_length;
    int do_lower_case; /* -1: as the model's files say, else 1 */
    /* "true", "false" or "auto" (when text is lower-cased); NULL: as the model's files say */
    const char *strip_accents;
    int tokenize_chinese_chars; /* each ideograph is a word; -1: as the model's files say, else 1 */
    const char *tokenizer;      /* "huggingface" or "google" */
    int64_t max_word_length;    /* characters; 0: as the tokenizer's rules say, 100 or 200 */
    int split_special;          /* -1: as the tokenizer's rules say; 0: keep [CLS], ... whole */
    const char *features;       /* "google" (windows) or "keras" (context first, no windows) */
    const char *keras_answers;  /* "first" or "all": which answers of a training question to use */
    const char *keras_end;      /* "inclusive" or "exclusive": the end position of an answer */
    const char *window_filter;  /* "none" or "words": which training windows to keep */
    int version_2_with_negative;
    int strict_answers;        /* refuse a file with an answer that is not at its answer_start */
    int64_t max_train_samples; /* use only the first N examples; 0: all */
    int64_t max_eval_samples;

    /* data for pre-training */
    int64_t max_predictions_per_seq; /* most masked positions of an instance; training uses the
                                        first ones of each instance, up to this number */
    int64_t dupe_factor;             /* passes over the documents, each with new masks */
    double masked_lm_prob;           /* fraction of the tokens to predict; also of masked words */
    double short_seq_prob;           /* fraction of the documents to cut into shorter instances */
    int whole_word_mask;             /* mask all pieces of a word or none; also of masked words */
    const char *rng;                 /* "fast", or "python": the generator of CPython's random */
    int64_t shards;                  /* number of training shards */
    int64_t test_shards;             /* number of test shards; -1: as many as training shards */
    double fraction_test_set;        /* fraction of the sentences */
    const char *stages;              /* a list from "text,shards,hdf5,pack"; NULL: all except
                                        pack */
    int pack;                        /* also run the stage pack */
    const char *format;              /* "hdf5" or "tfrecord" */

    /* training */
    int64_t train_batch_size;            /* sequences per update over all processes */
    int64_t per_device_train_batch_size; /* sequences per micro-batch; 0: derived */
    int64_t gradient_accumulation_steps; /* micro-batches per update; 0: derived */
    int gradient_checkpointing;          /* recompute activations instead of keeping them */
    double num_train_epochs;
    int64_t max_steps; /* > 0: stop after this many updates */
    int64_t max_steps_per_epoch;
    int dataloader_drop_last; /* leave out the incomplete update at the end of an epoch */
    double learning_rate;
    const char *lr_scaling; /* factor of learning_rate by the number K of processes: "none", "sqrt"
                               (of K) or "linear" (K) */
    double warmup_proportion;
    int64_t warmup_steps; /* > 0: overrides warmup_proportion; 0: no warm-up if it was set by
                             berth_config_set, and warmup_proportion was not */
    const char *schedule; /* see `berth finetune squad --help all` */
    double warmup_min_lr;
    double lr_offset;  /* added to the learning rate of every update */
    double decay_rate; /* of schedules EE and LE */
    int64_t decay_step;
    double cos_min_ratio;  /* of schedules warmup_cosine_...: final fraction of the rate */
    int rewarmup;          /* on resume, restart the schedule */
    const char *optimizer; /* see `berth finetune squad --help all` */
    double weight_decay;   /* NaN: the optimizer's default */
    double adam_beta1, adam_beta2;
    double adam_epsilon; /* NaN: the optimizer's default */
    int eps_inside_sqrt;
    int bias_correction; /* -1: the optimizer's default */
    int adam_w_mode;
    const char *no_decay;        /* name of a list, or parts of parameter names; NULL: the
                                    optimizer's default */
    int64_t freeze_layers;       /* number of layers, the lowest first, that are not trained */
    int freeze_embeddings;       /* do not train the embeddings and their layer norm */
    double max_grad_norm;        /* 0: no clipping */
    const char *clip_by;         /* "global", "tensor" or "both"; NULL: the optimizer's default */
    double max_coeff, min_coeff; /* of lamb */
    const char *loss_scale;      /* "none", "dynamic" (also "0"), "static" (init_loss_scale) or a
                                    number */
    const char *loss_scaler;     /* "zero" or "plain": rule of a dynamic loss scale */
    double init_loss_scale, min_loss_scale;
    int64_t loss_scale_window, hysteresis;
    int consecutive_hysteresis;
    double hidden_dropout_prob;          /* NaN: the value in the model's config.json */
    double attention_probs_dropout_prob; /* NaN: the value in the model's config.json */
    const char *loss_average;            /* "update" or "micro" */
    int64_t seed;
    enum berth_precision precision;
    int do_eval;                       /* evaluate on validation_file, or on the development set
                                          of task_name */
    int evaluate_every_epoch;          /* evaluate after every epoch, not only after the last */
    int64_t eval_steps;                /* > 0: also evaluate every eval_steps updates.
                                          berth_config_set also takes a fraction of the
                                          updates, such as "0.1", for this, save_steps and
                                          logging_steps */
    const char *eval_strategy;         /* "no", "epoch" or "steps"; NULL: decided by the two
                                          fields above */
    const char *metric_for_best_model; /* "f1", "loss", ...; NULL: the task's metric */
    int greater_is_better;             /* whether larger is better; -1: decided by the metric's
                                          name */
    int64_t early_stopping_patience;   /* > 0: stop after this many evaluations without
                                          improvement */
    double early_stopping_threshold;   /* a smaller improvement counts as none */
    int do_predict;                    /* classification: predict predict_file, or the test set
                                          of task_name, after training; -1: if predict_file is
                                          set */

    /* checkpoints */
    int64_t save_steps; /* > 0: save every save_steps updates; 0: at the end of each epoch; -1: at
                           the interval that loses the least time (--save_steps auto) */
    double mean_time_to_failure; /* seconds, of the whole job, for save_steps -1 */
    int async_save; /* write checkpoints while training continues, where memory allows */
    int64_t save_total_limit;
    const char *save_format;            /* formats of the result, separated by commas: "hf" (always
                                           written), "torch" (pytorch_model.bin), "nvidia"
                                           (ckpt_<step>.pt, also with every checkpoint),
                                           "tensorflow" (model.ckpt-<step>) */
    const char *save_strategy;          /* "no", "epoch", "steps" or "best"; NULL: decided by
                                           save_steps */
    int load_best_model_at_end;         /* the result is the best evaluated model, not the last
                                           one */
    const char *resume_from_checkpoint; /* NULL: start from the beginning; "auto": the newest
                                           intact checkpoint; else the path of a checkpoint */
    const char *on_save_error;          /* "stop" or "continue" */

    /* prediction */
    int64_t predict_batch_size;
    int64_t n_best_size;
    int64_t max_answer_length;
    double null_score_diff_threshold;

    /* machine */
    const char *device;       /* "auto", "cpu", "cuda", "cuda:1", "hip", "emulated" */
    int64_t threads;          /* 0: all that the process may use */
    const char *instructions; /* "auto", "generic", "avx2", "avx512", "avx512bf16" */

    /* ranks: the processes of a job */
    const char *comm;        /* "openmpi", "mpich"; "self": none, refused in one of several that
                                a launcher started; "auto": as the launcher says */
    int64_t comm_timeout;    /* seconds to wait for another process; see start_timeout */
    const char *workers;     /* "synchronous": they divide each update; "independent": each trains a
                                model of its own */
    int64_t zero_stage;      /* what they divide: 1 moments and master weights, 2 gradients too */
    int64_t virtual_ranks;   /* parts of an update, added in a fixed order; 0: one for each rank */
    const char *shard_order; /* of pre-training: "global", one stream; "rank", files by process */
    const char *communication_data_type; /* of exchanged gradients: "fp32", "bf16", "fp16"; NULL:
                                            bf16 with the precision bf16, else fp32 */
    int overlap_comm;                    /* 0: computing waits for every exchange */
    int64_t reduce_bucket_size;    /* elements of gradients exchanged at a time, at most; 0: as
                                      many as the memory for exchanges holds */
    int64_t allgather_bucket_size; /* the same of weights */
    int64_t replica_check_steps;   /* updates between comparisons of the processes' weights and
                                      moments; 0: no checks of them at all */

    /* reports */
    int64_t logging_steps;
    const char *log_format;   /* "plain", "deepspeed", "deepspeed-bert" or "dllogger" */
    const char *json_summary; /* JSON lines file, in dllogger's form if log_format is "dllogger";
                                 NULL: none */
    const char *logging_dir;  /* folder for TensorBoard files; NULL: the one of the DeepSpeed
                                 file, if any */
    const char *logging_axis; /* x of its scalars: "samples" or "steps" */
    double loss_plot_alpha;   /* weight of the previous mean in TensorBoard's train_ema_loss */
    int wall_clock_breakdown;
    int no_progress;
    int quiet;
    int dry_run;

    uint64_t given[4]; /* bit set of the fields set by berth_config_set, which override a
                          DeepSpeed file */

    const char *report;   /* HTML file for the run's report, which only the program writes (else
                             BERTH_UNAVAILABLE); NULL: none */
    int64_t report_every; /* seconds between updates of the report while the run goes on; 0: it is
                             written at the end */

    const char *spike_policy; /* "none", "warn", "skip" or "rollback": what to do with an update
                                 whose loss or gradient norm is a spike */
    double spike_factor;      /* a spike is above this many times the running mean */

    const char *profile;        /* "a:b": record where the time of updates a to b goes; NULL: no */
    const char *profile_output; /* file for that record, in the JSON of Chrome's tracing; NULL:
                                   profile.json in output_dir */

    const char *gpu_exchange; /* of ranks on GPUs: "nccl", "mpi"; "auto": NCCL where it can be */

    int tf32; /* round the operands of fp32 products to TF32, on devices that do */

    const char *steps_rule; /* what num_train_epochs means for the schedule: "run", "epochs" or
                               "examples" */
    int warmup_round_up;    /* the number of updates that warmup_proportion makes is rounded up */

    const char *logging_strategy; /* "no", "epoch" or "steps": which updates to report besides the
                                     last one */
    int logging_first_step;       /* also report the first update */
    int eval_on_start;            /* also evaluate before the first update */
    double eval_delay;            /* no evaluation before this many epochs or, with eval_steps,
                                     updates */

    int64_t start_timeout; /* seconds until all processes of a job have come, from the call of the
                              first job; then the process ends with BERTH_UNAVAILABLE. 0: none */
    int allow_new_head;    /* inference: a head that the weights lack gets random values */
    int align_to_words;    /* answers begin and end with words, not within one */
    const char *answer_score; /* the probability of an answer: "probability", P(start) P(end) over
                                 [CLS] and the context of its window; "softmax", over the
                                 candidates, of the sums of both logits */
    const char *pair_truncation; /* "huggingface" or "google": which text of a pair that is cut
                                    keeps the odd token; NULL: as the model's files say, else
                                    "huggingface" */
    int64_t doc_overlap; /* > 0: tokens that successive windows share, in place of doc_stride */
};

/* Sets every field to its default; required before a struct is used. */
void berth_config_init(struct berth_config *config);

/* A struct with the defaults, for programs that set every field by its name, as those in other
 * languages do: they need not know the fields. NULL: out of memory. */
struct berth_config *berth_config_new(void);
void berth_config_free(struct berth_config *config);

/* Sets a field by its name or one of its aliases ("learning_rate", "3e-5"). A struct made by
 * berth_config_new copies `value`; any other borrows it, and `value` must outlive it. An unknown
 * name is BERTH_USAGE; the error suggests the nearest known one.
 * Some jobs and recipes have defaults of their own for some fields. A field that was set by its
 * name keeps its value; one that was assigned keeps it if it differs from berth_config_init's. */
enum berth_status berth_config_set(struct berth_config *config, const char *name, const char *value,
                                   struct berth_error *error);

struct berth_log {
    void (*write)(void *context, const struct berth_record *record);
    void *context;
};

/* What a job is asked to do while it runs. *stop is read once per update and after every STEP and
 * EVAL record, so that a rule that such a record fulfils prevents the next update. Of several
 * requests, also of other processes, BERTH_STOP_AT_ONCE counts first, then BERTH_STOP_AND_SAVE.
 * Prediction and evaluation go on to their end with BERTH_STOP_FINISH. Other jobs stop alike for
 * every value but 0.
 */
enum berth_stop {
    BERTH_STOP_NONE = 0,
    BERTH_STOP_AND_SAVE = 1, /* save the state and stop: BERTH_INTERRUPTED */
    BERTH_STOP_AT_ONCE = 2,  /* stop without saving: BERTH_INTERRUPTED */
    BERTH_STOP_FINISH = 3 /* end as if max_steps had been reached: the last report, evaluation and
                             checkpoint as the settings say, the model is written, BERTH_OK. Of
                             an independent worker, only its own training ends, perhaps some
                             updates later */
};
#endif
