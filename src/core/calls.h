// SPDX-License-Identifier: Apache-2.0
// The library's inner interface: reporters, jobs on files, conversion, data. berth.h's functions
// (open.c, run.c, train.c, job.c) are made of these, and so are the program's verbs for jobs.
#ifndef BERTH_CORE_CALLS_H
#define BERTH_CORE_CALLS_H

#include "core/config.h"

/* A training job also writes its records to OUTPUT_DIR/log.jsonl, in the form of json_summary; a
 * resumed one appends. `berth report` and `berth plot` show such logs.
 *
 * A reporter writes records to `file_descriptor` for people (a progress bar on a terminal,
 * otherwise plain or DeepSpeed-like lines), to config->json_summary as JSON lines, and to
 * config->logging_dir as TensorBoard scalars. BERTH_CANT_CREATE if json_summary is a file of
 * another kind, or the log of a run. */
struct berth_reporter;
enum berth_status berth_reporter_open(const struct berth_config *config, int file_descriptor,
                                      struct berth_reporter **reporter, struct berth_error *error);
struct berth_log berth_reporter_log(struct berth_reporter *reporter);
/* A failed write does not stop the job. Returns BERTH_IO if a line could not be written to standard
 * output (file_descriptor 1, or json_summary "-"), unless the reader of the pipe had closed it. */
enum berth_status berth_reporter_check(const struct berth_reporter *reporter,
                                       struct berth_error *error);
void berth_reporter_close(struct berth_reporter *reporter);

#define BERTH_METRICS_MAX 12

struct berth_metric {
    char name[48]; /* "accuracy", ...; SQuAD 1.1: "exact_match" and "f1" in percent; SQuAD 2.0:
                      the official script's ("exact", "f1", "HasAns_f1", "best_f1_thresh", ...) */
    double value;
};

struct berth_run_result {
    int64_t steps;
    double final_loss;
    struct berth_metric metrics[BERTH_METRICS_MAX]; /* of the last evaluation */
    size_t metric_count;                            /* 0: no evaluation took place */
    double eval_loss;                               /* NaN without an evaluation, and for SQuAD */
    double samples_per_second;
    double tokens_per_second;
    double mfu;      /* model FLOPs utilisation: required FLOPs over the measured peak; NaN if the
                        peak was not measured */
    int64_t workers; /* number of independent workers; 0: none. All other fields are then those
                        of the best one */
    int64_t best_worker; /* its rank; -1: none was evaluated */
    int64_t best_seed;
};

/* The jobs of a task. An unknown task name is BERTH_USAGE; the error lists the known ones.
 *
 * "squad": question answering. Training reads train_file, evaluation validation_file, prediction
 * predict_file. Evaluation and prediction write predictions.json, nbest_predictions.json and, for
 * version 2, null_odds.json.
 *
 * "classify": classification and regression of single texts or pairs, either the tasks of GLUE and
 * XNLI by name (task_name, data_dir) or the user's own files (text_column, ...). Training and
 * evaluation write eval_results.txt and eval_results.json; prediction, and training with
 * do_predict, write test_results.tsv, predict_results_TASK.txt and predict_results.json.
 *
 * "tokens": a class for each word of sentences (CoNLL's columns or JSON lines). Training and
 * evaluation write eval_results.txt and eval_results.json; prediction, and training with
 * do_predict, write predictions.txt and predict_results.json.
 *
 * "embed": sentence embeddings. Training reads pairs, pairs with a score or triplets (train_file),
 * evaluation the same kinds of data (validation_file, else predict_file). The result is a folder of
 * sentence-transformers, which the task embed opens. Evaluation writes eval_results.txt and
 * eval_results.json. There is nothing to predict.
 *
 * "pretrain": masked words and next-sentence prediction, on the shards of input_dir. The model
 * starts from random weights (config_file, vocab_file), from another model (model_name_or_path), or
 * from a checkpoint. It is written with its pre-training head, and the other tasks can start from
 * it. Evaluation and prediction score held-out shards: those of eval_dir, else those of input_dir
 * with "test" in their names. They write eval_results.txt.
 *
 * "mlm": masked words on one's own text, the lines of train_file (text, or text_column of a table).
 * Masks are drawn for each epoch. The model starts as in "pretrain", and is written as
 * Hugging Face's BertForMaskedLM. Evaluation scores validation_file (training
 * without one: the first lines of train_file) with masks that are the same in every evaluation, and
 * writes eval_results.txt.
 *
 * Training writes the model, its checkpoints and the files of evaluation to output_dir.
 *
 * Processes that a launcher started together (mpirun, srun) all call the function and divide its
 * work; the first one reports and writes. With workers "independent" each of them trains a model of
 * its own in output_dir/worker-RANK, with its rank added to the seed; output_dir then gets the
 * files of the best one, and workers.json. A worker that fails leaves the others alone; its status
 * is returned to all after the best of the others was published.
 *
 * After a failure *result holds what was reached before it, or else 0 and NaN. */
enum berth_status job_train(const char *task, const struct berth_config *config,
                            struct berth_log log, const volatile int *stop,
                            struct berth_run_result *result, struct berth_error *error);
/* Predicts the prediction set with the model of model_name_or_path, and scores it if it has
 * labels. */
enum berth_status job_predict(const char *task, const struct berth_config *config,
                              struct berth_log log, const volatile int *stop,
                              struct berth_run_result *result, struct berth_error *error);
/* Scores the model of model_name_or_path on the evaluation set, as training does at its end. */
enum berth_status job_evaluate(const char *task, const struct berth_config *config,
                               struct berth_log log, const volatile int *stop,
                               struct berth_run_result *result, struct berth_error *error);

/* The value of the metric `name`; NaN if the result has no such metric. */
double berth_run_metric(const struct berth_run_result *result, const char *name);

/* How tags of words are scored. Columns as those of berth_config; "0" is not allowed. */
struct berth_tag_scoring {
    const char *text_column, *label_column;
    const char *scheme; /* NULL: tags are read as conlleval does, seqeval's default; "IOB1", "IOB2",
                           "IOE1", "IOE2", "IOBES" or "BILOU": as seqeval's mode "strict" */
};

/* Scores predictions.txt, a line of tags for each sentence, as seqeval does. *json is one JSON
 * object: precision, recall, f1, accuracy, and the first three of each type of entities; free it
 * with berth_string_free. BERTH_BAD_DATA if the sentences are not those of the data set. */
enum berth_status berth_evaluate_tokens(const char *dataset_path, const char *predictions_path,
                                        const struct berth_tag_scoring *scoring, char **json,
                                        struct berth_error *error);

/* Evaluates a file of predictions as the official SQuAD script does. *json is one JSON object; free
 * it with berth_string_free. The script is that of version 2 if null_odds_path is given or the data
 * set is of version 2. BERTH_BAD_DATA if none of the predictions belongs to the data set, or it has
 * no answers. */
enum berth_status berth_evaluate_squad(const char *dataset_path, const char *predictions_path,
                                       const char *null_odds_path, double null_threshold,
                                       struct berth_log log, char **json,
                                       struct berth_error *error);

void berth_string_free(char *text);

struct berth_answer {
    char *text;         /* characters [start, end) of the context; "" for "no answer" */
    double probability; /* as config->answer_score says */
    double start_logit, end_logit;
    int64_t start, end; /* characters of the context, end exclusive; -1 for "no answer" */
};

/* One question of a data set with the model's answer. Strings are valid until the callback
 * returns. */
struct berth_sample {
    int64_t index;
    const char *title, *question, *context, *reference;
    struct berth_answer answer;
    double exact_match, f1;
};

/* Which samples: `count` of them from index `first` on, or, with `random`, `count` distinct ones
 * drawn with config->seed, in ascending order. */
struct berth_selection {
    int64_t first, count;
    int random; /* ignores `first` */
};

/* Answers questions of config->predict_file and passes each to `visit`, which returns 0 to
 * continue. BERTH_USAGE if no sample has the index `first`; if fewer than `count` samples exist,
 * all of them are visited. */
enum berth_status berth_show_squad(const struct berth_config *config,
                                   struct berth_selection samples, struct berth_log log,
                                   int (*visit)(void *context, const struct berth_sample *sample),
                                   void *context, struct berth_error *error);

/* How a text's logits become its scores. */
enum berth_score {
    BERTH_SCORE_USUAL, /* softmax for a single label, sigmoid for several, none for a regression,
                          but sigmoid where one label has no problem_type: as in transformers */
    BERTH_SCORE_NONE,  /* the logits themselves */
    BERTH_SCORE_SIGMOID,
    BERTH_SCORE_SOFTMAX
};

enum berth_pooling {
    BERTH_POOL_MEAN,             /* mean of the last layer's rows, including [CLS] and [SEP] */
    BERTH_POOL_CLS,              /* the row of [CLS] */
    BERTH_POOL_MAX,              /* maximum of each column */
    BERTH_POOL_MEAN_SQRT_LENGTH, /* sum of the rows, divided by the square root of their number */
    BERTH_POOL_WEIGHTED_MEAN,    /* mean of the rows, with weight i for row i (from 1) */
    BERTH_POOL_LAST              /* the last row, which is that of [SEP] */
};

/* How the rows of a text become one embedding. */
struct berth_embedding {
    enum berth_pooling pooling;
    int normalize; /* scale to length 1 */
};

/* ---------------------------------------------------------------------------------------------
 * Checkpoints.
 */
struct berth_tensor_info {
    const char *name, *dtype;
    int64_t shape[8];
    int rank;
    uint64_t bytes;
};

/* Calls `tensor` for every tensor of a model folder, checkpoint or file, then sets *config_json to
 * the text of the folder's config.json (NULL if there is none); free it with berth_string_free.
 * `tensor` may be NULL: the weights in a folder are then not read. */
enum berth_status berth_inspect(const char *path,
                                void (*tensor)(void *context, const struct berth_tensor_info *info),
                                void *context, char **config_json, struct berth_error *error);

/* The contents of files of pre-training instances, packed or not. */
struct berth_data_info {
    int64_t files; /* 0: the path holds no such data */
    int64_t rows;
    int64_t max_seq_length; /* tokens of an HDF5 row; 0: TFRecord only */
    int64_t instances, tokens, predictions;
    int64_t random_next;       /* instances whose second segment is random */
    int64_t shortest, longest; /* tokens of an instance */
};

/* Reads one file of instances (HDF5, or TFRecord by its name) or all of a folder (.hdf5, .h5,
 * .tfrecord) and checks every row. BERTH_BAD_DATA names file, column and row. For other files,
 * info->files is 0. */
enum berth_status berth_inspect_data(const char *path, struct berth_data_info *info,
                                     struct berth_error *error);

/* Verifies the sizes and hashes of a checkpoint's files; sets *files to their number. A folder
 * without a manifest is BERTH_BAD_DATA. */
enum berth_status berth_verify(const char *path, int64_t *files, struct berth_error *error);

/* Writes a Hugging Face folder with random weights. `name_or_file` is tiny, minilm, base, large or
 * the path of a config.json or its folder. */
enum berth_status berth_init_model(const char *name_or_file, const char *output_dir, int64_t seed,
                                   struct berth_error *error);

struct berth_convert_settings {
    const char *to;    /* "hf", "torch", "tensorflow", "nvidia", "deepspeed", "trainer" (of a
                          checkpoint), "onnx", "gguf", "int8" */
    const char *dtype; /* "f32", "f16" or "bf16" for every floating-point tensor; "trainer" and
                          "onnx": only "f32"; "gguf": "f32", or "f16" for the matrices. NULL: "f32"
                          for "onnx" and "gguf", otherwise each tensor keeps its type */
    int allow_lossy;   /* continue if tensors must be left out or narrowed */
    const char *names; /* names of the tensors, for "deepspeed": "huggingface", "nvidia" (also
                          BingBert's), or "kernel" (those of DeepSpeed's transformer kernel).
                          NULL: "nvidia" for a model with such names, otherwise "huggingface".
                          Other formats have only one set of names */
    int kernel_layers; /* same as names = "kernel" */
    int64_t step;      /* training step in the checkpoint's name, for "nvidia" and "deepspeed"; 0
                          with zero_stage: that of the checkpoint */
    const char *zero_stage;  /* "deepspeed" of a checkpoint: also write the optimizer's state: "0":
                                whole, "1" or "2": as ZeRO's shards. NULL: the model alone */
    int64_t ranks;           /* number of ZeRO's shards; 0: 1 */
    const char *config_file; /* NULL: the configuration beside the weights */
    const char *vocab_file;  /* NULL: the vocabulary beside the weights */
};

/* Converts the model `input`, a folder or a file of weights inside one, to another format. Writes
 * the new folder `output_dir`, which appears complete or not at all, and copies config.json and the
 * tokenizer's files to it. A lossy conversion is a warning in the log with allow_lossy, otherwise
 * BERTH_CONFIG, which names the tensors. An existing output that is not empty is BERTH_CANT_CREATE,
 * an unknown format BERTH_USAGE. */
enum berth_status berth_convert(const char *input, const char *output_dir,
                                const struct berth_convert_settings *settings, struct berth_log log,
                                struct berth_error *error);

/* One tensor of the two models. */
struct berth_difference {
    const char *name;   /* its Hugging Face name */
    const char *remark; /* why the values were not compared ("only in A", "shapes ..."), or NULL */
    int64_t elements;
    double largest; /* largest absolute difference; infinite if only one of two values is NaN;
                       NaN if the values were not compared */
    double cosine;  /* cosine similarity of the two tensors as vectors; NaN if the values were
                       not compared */
    int differs;    /* `largest` exceeds the tolerance, or the values were not compared and are not
                       the same bytes of the same type */
};

struct berth_comparison {
    int64_t tensors;   /* in either model */
    int64_t compared;  /* tensors whose values were compared */
    int64_t differing; /* tensors with `differs` */
    double largest;    /* over all compared tensors */
    double cosine;     /* smallest over all compared tensors */
};

/* Compares the tensors of two model folders or files by their Hugging Face names. Calls `tensor`
 * (may be NULL) for each, sorted by name. Types may differ: values are compared. Differences are
 * not errors; see comparison->differing. */
enum berth_status
berth_compare(const char *a, const char *b, double tolerance,
              void (*tensor)(void *context, const struct berth_difference *difference),
              void *context, struct berth_comparison *comparison, struct berth_error *error);

/* ---------------------------------------------------------------------------------------------
 * Models and data sets by name, in the cache of Hugging Face's hub, which `berth fetch` fills.
 */
/* Sets *path to the file that a data set's name denotes; free it with berth_string_free. That is
 * the name itself, unless it is one of "squad" and "squad_v2" and no such file exists: then the
 * file of `split` ("train" or "dev") that `berth fetch` has downloaded. BERTH_NO_INPUT if the cache
 * does not have it. */
enum berth_status berth_find_data(const char *name, const char *split, char **path,
                                  struct berth_error *error);

/* Sets *path to the folder or file that a model's name denotes; free it with berth_string_free.
 * That is the name itself if such a file exists or if it is not a hub name, NAME.index for the name
 * of a TensorFlow checkpoint, otherwise the cached snapshot of the hub's branch main.
 * BERTH_NO_INPUT if the snapshot is not in the cache or is incomplete; BERTH_BAD_DATA if a link
 * leads out of the cache. */
enum berth_status berth_find_model(const char *name_or_path, char **path,
                                   struct berth_error *error);

/* ---------------------------------------------------------------------------------------------
 * Data for pre-training (doc/pretraining-data.md): text, shards of sentences, instances.
 */
/* Sources of articles. All of them together form one corpus, in this order. */
struct berth_prepare_input {
    const char *wikipedia; /* dump in MediaWiki's XML, which only the program reads (else
                              BERTH_UNAVAILABLE); NULL: none */
    const char *extracted; /* folder written by WikiExtractor or the stage text; NULL: none */
    const char *books;     /* folder with one file per book; NULL: none */
    const char *const
        *texts; /* [text_count] files or folders of files; an empty line ends an article */
    size_t text_count;
    int64_t file_size; /* maximum bytes of one file of the dump's text; 0: 100 MiB */
    const char *name;  /* of the corpus in the files' names, without /; NULL: by the sources. With a
                          name the stages after the shards need no source */
    const char *sentences; /* text with one sentence per line and an empty line after each document,
                              for output_file: files, folders of files *.txt and patterns, separated
                              by commas; NULL: none */
    const char *output_file; /* the file for the instances of `sentences`, or several, separated by
                                commas; without them for the articles, one on each line: no stage
                                runs, config->output_dir is not used; NULL: none. TFRecord if the
                                name ends in .tfrecord and `format` is not given */
};

/* A stage and its cost. */
struct berth_prepare_stage {
    const char *name; /* "text", "shards", "hdf5", "pack"; NULL: not requested */
    double seconds;
    int64_t bytes; /* read in this run: of XML, text, text, and ids; 0: the stage was already
                      complete, or an earlier run had started the dump's text */
};
enum { BERTH_PREPARE_STAGES = 4 };

/* The result of packing. */
struct berth_pack_result {
    int64_t sequences, tokens; /* in the input */
    int64_t rows, files;       /* in the output */
    int64_t max_seq_length;    /* tokens per row */
    double efficiency;         /* fraction of the output that is not padding, at most 1 */
    double speed_up;           /* sequences per row */
    double speed_up_limit;     /* the same without any padding */
};

struct berth_prepare_result {
    /* pages of the dump */
    int64_t pages, articles;
    int64_t redirects, other_namespaces, empty; /* left out */
    int64_t oversize, damaged;                  /* skipped: too long; invalid UTF-8 */
    int64_t xml_bytes, text_bytes, files;

    /* shards */
    int64_t training_shards, test_shards;
    int64_t shard_articles, sentences, shard_bytes;

    /* instances of all shards */
    int64_t instances, tokens, predictions;
    int64_t masked, kept, replaced; /* of the predictions */
    int64_t random_next;            /* of the instances */
    double fill;                    /* fraction of the rows that is not padding */
    int64_t lengths[8];             /* instances by length, in eighths of max_seq_length */
    int64_t empty_shards;           /* yielded no instance and no file */

    struct berth_pack_result pack;

    struct berth_prepare_stage stages[BERTH_PREPARE_STAGES];
    int threads;

    int sentences_left_out; /* of the dump's text, because of templates that are not known */
};

/* Runs the stages that config->stages names, each on the output of the previous one in
 * config->output_dir:
 *
 *   extracted/wikicorpus_en/AA/wiki_00
 *   sharded_training_shards_N_test_shards_M_fraction_F/NAME/NAME_training_0.txt
 *   hdf5_lower_case_1_seq_len_S_max_pred_P_masked_lm_prob_X_random_seed_R_dupe_factor_D/NAME/
 *       NAME_training_0.hdf5, statistics.json
 *   the same with "_packed" after hdf5_...: NAME/mixed_strategies_part_0.hdf5, NAME_metadata.json
 *
 * NAME is wikicorpus_en, bookscorpus, books_wiki_en_corpus or corpus. Shards may also be another
 * program's: a folder of files *.txt without a manifest. Other settings that apply:
 * vocab_file and the tokenizer's settings, max_seq_length (default 128), seed (default 12345),
 * threads. Every file appears complete or not at all, and finished files of an earlier run are
 * kept. The same input and settings give the same bytes, regardless of the number of threads, of
 * processes that were started together (comm, comm_timeout) and of interruptions. Of several
 * processes only the first one has the result. `stop` works as for jobs. BERTH_USAGE: unknown
 * stage, no input. BERTH_BAD_DATA: truncated or damaged dump, invalid UTF-8. BERTH_CONFIG: the
 * folder belongs to another input or other settings; the error names the first difference.
 * BERTH_NO_INPUT: a file or the previous stage's output is missing. BERTH_IO: full disk. */
enum berth_status berth_prepare(const struct berth_config *config,
                                const struct berth_prepare_input *input, struct berth_log log,
                                const volatile int *stop, struct berth_prepare_result *result,
                                struct berth_error *error);

/* Packs the instances of a folder's HDF5 and TFRecord files with "training" in their names into
 * rows of up to three: output_dir/mixed_strategies_part_0.hdf5 and so on, 4,480 rows each, and
 * output_dir_metadata.json next to output_dir. Of the config, only seed (default 12345), threads,
 * comm, comm_timeout and, if it was set by name, max_seq_length apply; it is then
 * the length that the rows must have. Resumes an interrupted run; the same input and seed give the
 * same bytes. Errors are those of berth_prepare. */
enum berth_status berth_pack(const struct berth_config *config, const char *input_dir,
                             const char *output_dir, struct berth_log log, const volatile int *stop,
                             struct berth_pack_result *result, struct berth_error *error);

/* ---------------------------------------------------------------------------------------------
 * Training of a WordPiece vocabulary (doc/pretraining-data.md).
 */
struct berth_vocab_settings {
    const char *const *texts; /* [text_count] text files */
    size_t text_count;
    const char *extracted;  /* folder written by WikiExtractor; NULL: none */
    const char *output;     /* the vocabulary file: one piece per line */
    int64_t size;           /* number of pieces; 0: 30522 */
    int64_t limit_alphabet; /* most distinct characters; 0: 1000 */
    int64_t min_frequency;  /* of a pair, to become a piece; 0: 2 */
};

struct berth_vocab_result {
    int64_t pieces; /* may be fewer than requested */
    int64_t words;  /* of the text */
    int64_t distinct_words;
    int64_t text_bytes;
};

/* Counts the words of the files and trains a vocabulary on them. Of the config, these apply:
 * do_lower_case (which also strips accents; tokenize with the same setting later), threads, and
 * overwrite_output_dir (without it, an existing output is refused). The same text gives the same
 * bytes, regardless of the number of threads. BERTH_USAGE: no text. BERTH_NO_INPUT: a file is
 * missing. BERTH_BAD_DATA: a file is not UTF-8 or has no words. BERTH_CONFIG: `size` is too small
 * for the characters. BERTH_CANT_CREATE, BERTH_IO: the output cannot be written. BERTH_INTERRUPTED:
 * *stop was set (`stop` may be NULL). */
enum berth_status berth_vocab_train(const struct berth_config *config,
                                    const struct berth_vocab_settings *settings,
                                    struct berth_log log, const volatile int *stop,
                                    struct berth_vocab_result *result, struct berth_error *error);

#endif
