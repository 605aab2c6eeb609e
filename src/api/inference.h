// SPDX-License-Identifier: Apache-2.0
// What a model for questions and an encoder share: a predictor in memory that any number of threads
// may ask. Text work runs at once; passes through the network take turns.
#ifndef BERTH_API_INFERENCE_H
#define BERTH_API_INFERENCE_H

#include "train/engine/infer.h"
#include "train/inference/predict.h"

#include <pthread.h>

struct inference {
    struct berth_config config;
    struct predictor predictor;
    struct batch_extent extent; // of the largest batch
    pthread_mutex_t *pass;      // held during a pass through the network
};

// After predictor_open, with config and extent set: takes the memory and reads the weights. The
// config's texts are forgotten: they are borrowed, and opening alone needs them.
enum berth_status inference_load(struct inference *inference, const struct berth_log *log,
                                 struct berth_error *error);
// infer_run with the extent filled in, when it is this call's turn.
enum berth_status inference_run(const struct inference *inference, struct infer_args args,
                                struct berth_error *error);
void inference_done(struct inference *inference);

#endif
