// SPDX-License-Identifier: Apache-2.0
// A task as the jobs see it: what it reads, which head it trains, how predictions are scored and
// written. Jobs (training_job.h, predict.h) know a task by its row alone.
#ifndef BERTH_TRAIN_TASKS_TASK_H
#define BERTH_TRAIN_TASKS_TASK_H

#include "core/error.h"
#include "core/log.h"
#include "data/batches/packer.h"
#include "data/pretraining/shard_stream.h"
#include "model/params.h"
#include "train/engine/inputs.h"

#include <stddef.h>
#include <stdint.h>

// What a set of examples is for.
enum task_use {
    TASK_TRAIN,    // labels are needed
    TASK_VALIDATE, // scored during training
    TASK_PREDICT   // scored where there are labels
};

// The scores of a prediction, in the task's order.
struct task_score {
    struct berth_metric items[BERTH_METRICS_MAX];
    size_t count;        // 0: there was nothing to score against
    double loss;         // mean over the examples; NaN where the task has none
    size_t best_by;      // the item that tells the best model
    int lower_is_better; // of that item
};

// Examples made ready for the model. `own` is the task's.
struct task_set {
    struct packer_source source;
    // Training on shards: these, and how they are read; `source` is empty then.
    const struct shard_list *shards;
    struct shard_stream_settings stream;
    const char *path; // of the file, owned by the set
    int64_t examples, tokens;
    int new_head; // training: the model's own head is for other labels and starts anew
    void *own;
};

struct task_open {
    enum task_use use;
    const struct berth_config *config;
    struct model_files *files; // a training set's labels become the model's
    const struct berth_log *log;
};

// Where the results of a run go, and what is written along with them.
struct task_results {
    enum task_use use;
    const char *folder;
    const struct task_score *score;
    int64_t step;
    double train_loss; // NaN: not of a training run
    double seconds;    // of the prediction
};

struct infer_masked;

struct task {
    const char *name;  // the verbs' second word: "squad"
    const char *title; // of the run's summary: "finetune squad"
    unsigned jobs;     // whose settings training has (core/options.h)
    unsigned defaults; // whose defaults these settings have
    enum param_head head;
    const char *held_out; // what an evaluation during training needs: "name ... with --..."
    int predicts_apart;   // do_predict after training is a job of its own, by the written model
    // Fills in the task's own defaults and asks for the settings that it cannot do without.
    enum berth_status (*settle)(struct berth_config *config, enum task_use use,
                                struct berth_error *error);
    // 1 when the settings name a set for TASK_VALIDATE; one that is not there is an error.
    enum berth_status (*validates)(const struct berth_config *config, int *answer,
                                   struct berth_error *error);
    // Reads a set. `close` is due after a failure, too.
    enum berth_status (*open)(struct task_set *set, const struct task_open *args,
                              struct berth_error *error);
    void (*close)(struct task_set *set);
    // Takes the logits of sequence `index` (infer.h).
    void (*take)(void *set, size_t index, const float *logits, int64_t count);
    // Takes the masked tokens of sequence `index`; NULL but for the pre-training head.
    void (*take_masked)(void *set, size_t index, const struct infer_masked *masked);
    // After all were taken: what they say. May be called again after another prediction.
    enum berth_status (*conclude)(struct task_set *set, const struct model_files *files,
                                  struct berth_error *error);
    enum berth_status (*score)(const struct task_set *set, struct task_score *score,
                               struct berth_error *error);
    enum berth_status (*write)(const struct task_set *set, const struct task_results *results,
                               struct berth_error *error);
};

// Every task: `row` is applied to its name.
#define TASKS(row) row(squad) row(classify) row(pretrain)

#define TASK_DECLARE(name) extern const struct task task_##name;
TASKS(TASK_DECLARE)

extern const struct task *const tasks[]; // [task_count]
extern const size_t task_count;

// --- settings of every task ---------------------------------------------------------------------

// The file that is named for a use, or NULL.
const char *task_file(const struct berth_config *config, enum task_use use);
// BERTH_USAGE where the setting `name` is empty or NULL; `otherwise` says what else would do.
enum berth_status task_need(const char *value, const char *name, const char *otherwise,
                            struct berth_error *error);
// The same of the file that is named for a use.
enum berth_status task_need_file(const struct berth_config *config, enum task_use use,
                                 const char *otherwise, struct berth_error *error);
// As `validates`, of a validation_file; `what` it should be: "a SQuAD file".
enum berth_status task_validates(const struct berth_config *config, const char *what, int *answer,
                                 struct berth_error *error);
// Adds a score; there is room for BERTH_METRICS_MAX of them.
void task_score_add(struct task_score *score, const char *name, double value);
// Whether do_predict asks for a prediction after training.
int task_predicts(const struct berth_config *config);

#endif
