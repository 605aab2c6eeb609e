// SPDX-License-Identifier: Apache-2.0
// A predictor in memory that any number of threads may use; the common part of question answering,
// the classifier and the encoder. Threads process text concurrently; in the network they take
// turns, batch by batch.
#ifndef BERTH_TASK_INFERENCE_H
#define BERTH_TASK_INFERENCE_H

#include "train/engine/infer.h"
#include "train/inference/predict.h"

struct inference {
    struct berth_config config;
    struct predictor predictor;
    struct batch_extent extent; // of the largest batch
    int threads;                // for the texts of a call
    struct fair_lock *lock;     // held while a batch passes through the network
};

// What a handle of the library is opened with; borrowed until load returns.
struct inference_source {
    const struct berth_config *config;
    struct comm *comm;
    const struct berth_log *log;
};

// A kind of handle: a struct whose first member is a struct inference.
struct inference_kind {
    size_t size;
    const char *what; // "a classifier", for messages
    unsigned job;     // whose precision is the default
    // Opens the predictor, reads whatever else the handle needs, and calls inference_load. The
    // config is already in the handle.
    enum berth_status (*load)(void *handle, const struct inference_source *source,
                              struct berth_error *error);
    void (*done)(void *handle); // frees the handle's other members; NULL: it has none
};

// Allocates and loads a handle; the caller closes it with inference_close. NULL after a failure.
enum berth_status inference_open(const struct inference_kind *kind,
                                 const struct inference_source *source, void **handle,
                                 struct berth_error *error);
// Allows NULL.
void inference_close(const struct inference_kind *kind, void *handle);

// Sets the extent: batches of predict_batch_size sequences of full length, at most INFER_TOKENS
// tokens, filled with as many sequences as fit. Call it after predictor_open.
void inference_set_extent(struct inference *inference);
// Allocates memory and reads the weights. Call it after predictor_open, with config and extent set.
// Clears the config's strings, which are borrowed and needed only for opening.
enum berth_status inference_load(struct inference *inference, const struct berth_log *log,
                                 struct berth_error *error);
// The number of threads for a call's texts, of which there are `count`; 1 if others cannot be
// started, which inference_run refuses.
int inference_threads(const struct inference *inference, size_t count);
// Fills in the extent and the lock, and calls infer_run.
enum berth_status inference_run(const struct inference *inference, struct infer_args args,
                                struct berth_error *error);

#endif
