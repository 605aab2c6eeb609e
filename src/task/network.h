// SPDX-License-Identifier: Apache-2.0
// How a task's row opens and runs the network of its model. Threads prepare texts concurrently; in
// the network they take turns, batch by batch, and the short calls of threads that wait for their
// turns are run as one. Weights and devices belong to the predictor (train/inference/predictor.h),
// batches to train/engine/infer.h.
#ifndef BERTH_TASK_NETWORK_H
#define BERTH_TASK_NETWORK_H

#include "core/thread.h"
#include "data/pairs/pair_features.h"
#include "task/task.h"
#include "train/engine/infer.h"
#include "train/inference/predict.h"

struct waiting_call;

struct network {
    struct predictor predictor;
    struct batch_extent extent;   // of the largest batch
    int threads;                  // for the texts of a call
    struct fair_lock *lock;       // held while a batch passes through
    struct fair_lock own_lock;    // unless it is that of the network whose weights this one uses
    pthread_mutex_t list;         // guards:
    struct waiting_call *waiting; // short calls that no thread has begun to run
};

// Opens files and device (predictor_open), and sets the extent: batches of predict_batch_size
// sequences of full length, at most INFER_TOKENS tokens, filled with as many sequences as fit, of
// which each has at least `least` tokens.
enum berth_status network_open(struct task_model *model, const struct predictor_kind *kind,
                               int64_t least, const struct task_opening *opening,
                               struct berth_error *error);
// Then allocates memory and reads the weights. Clears the config's strings, which are borrowed and
// needed only for opening.
enum berth_status network_load(struct task_model *model, const struct task_opening *opening,
                               struct berth_error *error);
void network_close(struct network *network);
// The number of threads for a call's texts, of which there are `count`; 1 if others cannot be
// started, which network_run refuses.
int network_threads(const struct task_model *model, size_t count);
// Calls infer_run, with the extent, the group and the lock of the network; perhaps together with
// those of other threads, whose functions it then calls.
enum berth_status network_run(const struct task_model *model, struct infer_args args,
                              struct berth_error *error);

// Model inputs of the texts of a call that are valid: feature i is of texts[i]. Those of a text
// that has windows follow each other.
struct text_inputs {
    struct task_text **texts; // [features.count]
    struct pair_dataset dataset;
    struct pair_feature_set features;
    char *prompted; // texts with a prompt before them; NULL: none has one
};
// `prompt`: NULL: nothing is put before texts. Call text_inputs_done even on failure.
enum berth_status text_inputs_make(struct text_inputs *inputs, const struct task_model *model,
                                   prompt_finder *prompt, struct task_text *const *texts,
                                   size_t count, struct berth_error *error);
void text_inputs_done(struct text_inputs *inputs);
struct packer_source text_inputs_source(const struct text_inputs *inputs);

// Whether a text's result is finite; otherwise the text fails.
int text_check_finite(struct task_text *text, const float *numbers, size_t count);
// Allocates a text's rows, zeros. NULL: out of memory, and the text has failed.
float *task_text_rows(struct task_text *text, size_t count, size_t width);
// Writes the numbers of a text as a list.
void task_write_numbers(struct json_line *line, const struct task_model *model,
                        const struct task_text *text);

#endif
