// SPDX-License-Identifier: Apache-2.0
// A task as jobs with files see it (training_job.h, predict.h): what it reads, which head it
// trains, and how predictions are scored and written. Jobs use a task only through this struct. The
// task itself, which also runs on texts, is a struct task_row (task/task.h), whose `training` is
// this.
#ifndef BERTH_TRAIN_TASKS_TRAINING_TASK_H
#define BERTH_TRAIN_TASKS_TRAINING_TASK_H

#include "core/error.h"
#include "core/log.h"
#include "data/batches/packer.h"
#include "data/masked/word_masks.h"
#include "data/pretraining/shard_stream.h"
#include "model/params.h"
#include "settings/settings.h"
#include "train/engine/feed.h"
#include "train/engine/inputs.h"
#include "train/tasks/run_result.h"

#include <stddef.h>
#include <stdint.h>

// The use of a set of examples.
enum task_use {
    TASK_TRAIN,    // labels are required
    TASK_VALIDATE, // scored during training
    TASK_PREDICT   // scored if there are labels
};

// The scores of a prediction, in the task's order.
struct task_score {
    struct berth_metric items[BERTH_METRICS_MAX];
    size_t count;        // 0: there was nothing to score against
    double loss;         // mean over the examples; NaN if the task has none
    size_t best_by;      // index of the item that determines the best model
    int lower_is_better; // whether lower values of that item are better
};

#define TASK_LABELS_SIZE 512

// Examples prepared for the model. `own` belongs to the task.
struct task_set {
    struct packer_source source;
    // Training on several data sets, owned by the set: `source` then has only their items together,
    // and the most texts and the largest group.
    const struct packer_source *sources; // [source_count]
    const char *const *source_names;
    size_t source_count; // 0: `source` alone
    enum feed_mixing mixing;
    // Training on shards: the shards, and how to read them; `source` is then empty.
    const struct shard_list *shards;
    struct shard_stream_settings stream;
    // Training on masked text: the text, and how to mask it; `source` is the text without masks.
    const struct text_sequences *text;
    struct word_mask_rules masks;
    const char *path; // path of the file, owned by the set
    int64_t examples, tokens;
    // Training on classes that count differently, or smoothed: [num_labels], owned by the set.
    double *class_weights;
    int new_head; // training: the model's head is for other labels, so a new one is initialised
    char labels[TASK_LABELS_SIZE]; // training: a description of the labels; "": there are none
    int unscored;                  // there are no answers to score predictions against
    void *own;
};

struct task_open {
    enum task_use use;
    struct settings *config;   // training: settings that depend on the data are resolved
    struct model_files *files; // a training set's labels are stored in the model
    const struct berth_log *log;
    int after_training; // a prediction by the settings of a training, which has noted unused ones
};

// The destination of a run's results, and what is written with them.
struct task_results {
    enum task_use use;
    const char *folder;
    const struct task_score *score;
    int is_training; // 1: of a training run, after `step` updates
    int64_t step;
    double epoch;    // of a training run
    int64_t samples; // examples predicted
    double seconds;  // duration of the prediction
};

struct infer_masked;
struct json_line;

// Sums over the masked tokens of a prediction.
struct task_masked {
    double loss;
    int64_t count, hits;
};

// A verb of the program that runs the task with files (cli/tasks.c), and what its help says.
struct task_command {
    const char *verb, *name; // its words: "finetune", "squad"; name NULL: it has one
    const char *objective;   // the value of its option --objective; NULL: it has none
    enum task_use use;
    unsigned jobs; // whose settings are its options (core/options.h)
    const char *summary, *usage, *example, *notes; // usage NULL: the usual one; notes NULL: none
    const char *required; // settings; NULL: the model, the file for this use and output_dir
};

// How examples in memory become a file that the task reads.
struct task_form {
    const char *ending;  // of the file's name
    const char *columns; // "NAME=COLUMN" of the option table, separated by blanks
    int is_document;     // SQuAD's, with all of them in its list "data"; otherwise one on each line
    enum berth_status (*write)(struct json_line *line, const struct berth_text *example,
                               size_t index, int is_trained, struct berth_error *error);
};

struct training_task {
    const char *name;                    // "squad"
    const struct task_form *form;        // NULL: it does not train on examples in memory
    const struct task_command *commands; // up to one without a verb; NULL: none
    const char *title;                   // title of the run's summary: "finetune squad"
    unsigned jobs;                       // jobs whose settings apply to training (core/options.h)
    unsigned defaults;                   // job whose defaults these settings have
    enum param_head head;
    const char
        *validation_advice;  // how to get an evaluation during training: "name ... with --..."
    int has_loss;            // an evaluation has a loss
    int predicts_separately; // do_predict runs as a separate job after training, with the saved
                             // model
    // Fits the settings to what a model that was trained for the task says of itself; NULL: it says
    // nothing.
    enum berth_status (*follow)(struct settings *config, const struct model_files *files,
                                const struct berth_log *log, struct berth_error *error);
    // Sets the task's own defaults and checks that required settings are present.
    enum berth_status (*settle)(struct settings *config, enum task_use use,
                                struct berth_error *error);
    // Sets *answer to 1 if the settings name a set for TASK_VALIDATE; a missing file is an error.
    enum berth_status (*has_validation)(const struct settings *config, int *answer,
                                        struct berth_error *error);
    size_t own_size; // of task_set's `own`
    // For task_set_open: reads the set, whose `own` is zeroed.
    enum berth_status (*open)(struct task_set *set, const struct task_open *args,
                              struct berth_error *error);
    // For task_set_close: frees what `own` refers to, also after a failure of `open`.
    void (*done)(void *own);
    // Receives the logits of sequence `index` (infer.h). Only rank 0 receives, concludes, scores
    // and writes.
    void (*receive)(void *set, size_t index, const float *logits, int64_t count);
    // Receives the masked tokens of sequence `index`; NULL except for heads that decode.
    void (*receive_masked)(void *set, size_t index, const struct infer_masked *masked);
    // Computes the result after all logits were received; may be NULL. It may be called again after
    // another prediction, and before any, as if all logits were zero.
    enum berth_status (*conclude)(struct task_set *set, const struct model_files *files,
                                  struct berth_error *error);
    // The memory that a prediction of the set takes from `receive` to `write`, at most: bytes that
    // these functions allocate, and those that `open` has allocated but not filled. NULL: few.
    size_t (*result_bytes)(const struct task_set *set);
    enum berth_status (*score)(const struct task_set *set, struct task_score *score,
                               struct berth_error *error);
    // Logs the parts of the result that only reports show (BERTH_DETAIL); NULL: none.
    enum berth_status (*detail)(const struct task_set *set, int64_t step,
                                const struct berth_log *log, struct berth_error *error);
    enum berth_status (*write)(const struct task_set *set, const struct task_results *results,
                               struct berth_error *error);
};

// Reads a set. Call task_set_close even on failure.
enum berth_status task_set_open(struct task_set *set, const struct training_task *task,
                                const struct task_open *args, struct berth_error *error);
void task_set_close(struct task_set *set, const struct training_task *task);

// --- settings common to all tasks ----------------------------------------------------------------

// The file named for a use, or NULL.
const char *task_file(const struct settings *config, enum task_use use);
// The same for a task that predicts nothing, of which `evaluate` scores predict_file.
const char *task_file_to_score(const struct settings *config, enum task_use use);
// BERTH_USAGE if the setting `name` is empty or NULL; `otherwise` names alternatives.
enum berth_status task_need(const char *value, const char *name, const char *otherwise,
                            struct berth_error *error);
// The same for the file named for a use.
enum berth_status task_need_file(const struct settings *config, enum task_use use,
                                 const char *otherwise, struct berth_error *error);
// Implements `has_validation` for a validation_file; `expected` describes the file: "a SQuAD file".
enum berth_status task_has_validation(const struct settings *config, const char *expected,
                                      int *answer, struct berth_error *error);
// Logs the settings of these jobs (JOB_...). A length that is not set is shown as the task's
// default, because it is fitted to the model only later.
enum berth_status task_log_settings(const struct training_task *task, const struct settings *config,
                                    unsigned jobs, const struct berth_log *log,
                                    struct berth_error *error);
// Adds a score; there is room for BERTH_METRICS_MAX of them.
void task_score_add(struct task_score *score, const char *name, double value);
// -log softmax(logits)[label]
double task_cross_entropy(const float *logits, size_t width, int32_t label);
// The same with the fraction `smoothing` of the target spread evenly over all classes.
double task_smoothed_loss(const float *logits, size_t width, int32_t label, double smoothing);
// Adds the masked tokens of a sequence.
void task_masked_add(struct task_masked *sums, const struct infer_masked *masked);
// The mean of a sum over the masked tokens; NaN if there were none.
double task_masked_mean(const struct task_masked *sums, double sum);
// Writes eval_results.txt: the scores as "eval_NAME", the step of a training run, and the
// evaluation's loss, if there is one, once more as "loss".
enum berth_status task_write_evaluation(const struct task_results *results,
                                        struct berth_error *error);
// Writes eval_results.json: the scores as "eval_NAME", the loss if there is one, the time, the
// number of examples and the epoch of a training run.
enum berth_status task_write_scores(const struct task_results *results, struct berth_error *error);
// Writes predict_results.json: the scores as "predict_NAME", the time and the number of examples.
// Without scores it writes nothing.
enum berth_status task_write_prediction(const struct task_set *set,
                                        const struct task_results *results,
                                        struct berth_error *error);
// Whether do_predict requests a prediction after training.
int task_predicts(const struct settings *config);

// Resolves max_seq_length within the limits of a model, also as *fitted; BERTH_CONFIG if a given
// one exceeds the positions.
enum berth_status task_fit_length(struct settings *config, const struct length_limits *limits,
                                  int64_t *fitted, const struct berth_log *log,
                                  struct berth_error *error);

#endif
