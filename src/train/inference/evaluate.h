// SPDX-License-Identifier: Apache-2.0
// Predicts a whole set of a task and scores the predictions. Ranks divide the prediction; rank 0
// gets the results, scores them and sends the score to the others.
#ifndef BERTH_TRAIN_EVALUATE_H
#define BERTH_TRAIN_EVALUATE_H

#include "core/error.h"
#include "core/log.h"
#include "train/engine/infer.h"
#include "train/machine/rank_facts.h"
#include "train/tasks/training_task.h"

#include <stdatomic.h>

// A set with everything its prediction needs, prepared once.
struct evaluation {
    const struct training_task *task;
    struct task_set set;
    struct batch_extent extent;
    int64_t predict_batch_size; // as requested
    uint64_t checksum;          // of all sequences (packer.h)
};

// Reads the set. Call evaluation_done even on failure.
enum berth_status evaluation_open(struct evaluation *evaluation, const struct training_task *task,
                                  const struct task_open *args, struct berth_error *error);
void evaluation_done(struct evaluation *evaluation);
// Adds the set to what the ranks compare.
void evaluation_add_facts(const struct evaluation *evaluation, struct rank_facts *facts);

// Bytes of the host's memory that a prediction of the set by these ranks takes at most, and that
// its results take: what the plan counts besides the engine.
size_t evaluation_bytes(const struct evaluation *evaluation, const struct bert *model,
                        const struct comm *comm);

// The scores for all-zero logits, which have the same names as those of any evaluation. The loss is
// 0, or NaN if the task has none.
enum berth_status evaluation_check(struct evaluation *evaluation, const struct model_files *files,
                                   struct task_score *score, struct berth_error *error);

// Predicts and scores. If *stop interrupts one of the ranks (stop.h), timing->stopped is 1 and
// there is no score. Called by all ranks, which get the same status (comm_settle), score and
// `stopped`.
struct evaluation_run {
    struct engine *engine;
    const struct model_files *files;
    const struct berth_log *log;
    const atomic_int *stop;
    int64_t step; // of the model, for the log
};
enum berth_status evaluation_predict(struct evaluation *evaluation,
                                     const struct evaluation_run *run, struct infer_result *timing,
                                     struct task_score *score, struct berth_error *error);

#endif
