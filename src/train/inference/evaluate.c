// SPDX-License-Identifier: Apache-2.0
// Evaluates a set with the model as it is: predicts through train/engine/infer.c, lets the task
// conclude and score on rank 0, and sends the score to the others. The training loop calls it
// between updates, predict.c for a job of its own.
#include "train/inference/evaluate.h"

#include "core/finite.h"
#include "train/engine/input_facts.h"

#include <inttypes.h>
#include <math.h>

enum berth_status evaluation_open(struct evaluation *evaluation, const struct training_task *task,
                                  const struct task_open *args, struct berth_error *error) {
    *evaluation = (struct evaluation){.task = task,
                                      .predict_batch_size = args->config->task.predict_batch_size};
    TRY(task_set_open(&evaluation->set, task, args, error));
    evaluation->checksum = packer_checksum(&evaluation->set.source);
    return infer_find_worst(&evaluation->set.source, args->config->task.predict_batch_size,
                            args->files->length, &evaluation->extent, error);
}

void evaluation_add_facts(const struct evaluation *evaluation, struct rank_facts *facts) {
    const struct task_set *set = &evaluation->set;
    input_facts_add_sequences(facts, "evaluation", set->path, set->source.count,
                              evaluation->checksum);
}

void evaluation_done(struct evaluation *evaluation) {
    if (evaluation->task != NULL) {
        task_set_close(&evaluation->set, evaluation->task);
    }
    *evaluation = (struct evaluation){0};
}

size_t evaluation_bytes(const struct evaluation *evaluation, const struct bert *model,
                        const struct comm *comm) {
    const struct training_task *task = evaluation->task;
    const struct task_set *set = &evaluation->set;
    const int has_results = comm->rank == 0 && task->result_bytes != NULL;
    return infer_bytes(model, &set->source, &evaluation->extent, comm->size) +
           (has_results ? task->result_bytes(set) : 0);
}

// --- numbers that are not finite ----------------------------------------------------------------

// Passes results on to the task and remembers the first non-finite number: scores would hide it,
// because comparisons with NaN are false.
struct receiver {
    const struct training_task *task;
    struct task_set *set;
    const char *found; // what is not finite; NULL: nothing
    size_t sequence;
    int64_t position, count;
};

static void check_numbers(struct receiver *receiver, const char *what, size_t sequence,
                          const float *numbers, int64_t count) {
    const int64_t finite = finite_count(numbers, count);
    if (finite < count && receiver->found == NULL) {
        receiver->found = what;
        receiver->sequence = sequence;
        receiver->position = finite;
        receiver->count = count;
    }
}

static void receive(void *context, size_t index, const float *logits, int64_t count) {
    struct receiver *receiver = context;
    check_numbers(receiver, "output", index, logits, count);
    receiver->task->receive(receiver->set, index, logits, count);
}

static void receive_masked(void *context, size_t index, const struct infer_masked *masked) {
    struct receiver *receiver = context;
    check_numbers(receiver, "the loss of masked token", index, masked->losses, masked->count);
    receiver->task->receive_masked(receiver->set, index, masked);
}

static enum berth_status check_finite(const struct receiver *receiver, struct berth_error *error) {
    return receiver->found == NULL
               ? BERTH_OK
               : error_set(error, BERTH_FAILURE,
                           "%s: sequence %zu of %zu: %s %" PRId64 " of %" PRId64
                           " is not a finite number; the model's weights are damaged or its "
                           "training diverged",
                           receiver->set->path, receiver->sequence + 1, receiver->set->source.count,
                           receiver->found, receiver->position + 1, receiver->count);
}

// --- scores -------------------------------------------------------------------------------------

// receiver NULL: scores all-zero logits.
static enum berth_status score_set(struct evaluation *evaluation, const struct model_files *files,
                                   const struct receiver *receiver, struct task_score *score,
                                   struct berth_error *error) {
    const struct training_task *task = evaluation->task;
    TRY(task->conclude != NULL ? task->conclude(&evaluation->set, files, error) : BERTH_OK);
    TRY(receiver != NULL ? check_finite(receiver, error) : BERTH_OK);
    return task->score(&evaluation->set, score, error);
}

enum berth_status evaluation_check(struct evaluation *evaluation, const struct model_files *files,
                                   struct task_score *score, struct berth_error *error) {
    TRY(score_set(evaluation, files, NULL, score, error));
    score->loss = evaluation->task->has_loss ? 0 : NAN;
    return BERTH_OK;
}

// Rank 0 only, which has the results.
static enum berth_status conclude(struct evaluation *evaluation, const struct evaluation_run *run,
                                  const struct receiver *receiver, struct task_score *score,
                                  struct berth_error *error) {
    const struct training_task *task = evaluation->task;
    TRY(score_set(evaluation, run->files, receiver, score, error));
    return task->detail != NULL && run->log->write != NULL
               ? task->detail(&evaluation->set, run->step, run->log, error)
               : BERTH_OK;
}

enum berth_status evaluation_predict(struct evaluation *evaluation,
                                     const struct evaluation_run *run, struct infer_result *timing,
                                     struct task_score *score, struct berth_error *error) {
    *score = (struct task_score){.loss = NAN};
    struct receiver receiver = {.task = evaluation->task, .set = &evaluation->set};
    struct infer_args args = {.source = &evaluation->set.source,
                              .extent = &evaluation->extent,
                              .log = run->log,
                              .phase = "predict",
                              .stop = run->stop,
                              .receive = receive,
                              .receive_masked =
                                  evaluation->task->receive_masked != NULL ? receive_masked : NULL,
                              .context = &receiver};
    log_event(run->log, "infer_start");
    LOG_RECORD(run->log, BERTH_EVENT, NULL, log_integer("eval_samples", evaluation->set.examples),
               log_integer("eval_features", (int64_t)evaluation->set.source.count),
               log_integer("predict_batch_size", evaluation->predict_batch_size));
    TRY(infer_run(run->engine, &args, timing, error));
    if (timing->stopped) {
        return BERTH_OK;
    }
    LOG_RECORD(run->log, BERTH_EVENT, NULL, log_integer("sample_number", timing->sequences));
    log_event(run->log, "eval_start");
    struct comm *comm = run->engine->comm;
    TRY(comm_settle(comm,
                    comm->rank == 0 ? conclude(evaluation, run, &receiver, score, error) : BERTH_OK,
                    error));
    comm->broadcast(comm, score, sizeof *score, 0);
    return comm->status(comm, error);
}
