// SPDX-License-Identifier: Apache-2.0
// The plan that is printed before the first update: parameters, memory by part, batch arithmetic,
// updates, files. Nothing is allocated to make it: the carving code runs with a NULL base.
#ifndef BERTH_TRAIN_PLAN_H
#define BERTH_TRAIN_PLAN_H

#include "core/error.h"
#include "core/log.h"
#include "model/config.h"
#include "train/engine/batching.h"
#include "train/engine/engine.h"
#include "train/optimizer/state.h"

#include <stdint.h>

struct plan_memory {
    struct state_bytes state;
    struct engine_bytes engine;
    uint64_t resident; // already in use: program, libraries, text and features
    uint64_t data;     // what will be read while the run goes on
    uint64_t staging;  // host copies for saving, where the device has memory of its own
    uint64_t total;    // what the process will hold at its peak, in the host's memory
    uint64_t device;   // the same in the device's; 0 where that is the host's
};

// `state` needs device, table and compute only; its buffers may be NULL.
enum berth_status plan_memory_make(struct plan_memory *memory, const struct state *state,
                                   const struct bert_config *config,
                                   const struct engine_shape *shape, struct berth_error *error);

void plan_memory_report(const struct plan_memory *memory, const struct berth_log *log);

// Refuses (BERTH_CONFIG) a plan that needs more memory than there is, and names the size that
// would fit: the micro-batch in training, predict_batch_size in prediction.
struct plan_limit_args {
    const struct plan_memory *memory;
    const struct state *state;
    const struct bert_config *config;
    const struct engine_shape *shape;
    int64_t update_sequences; // a micro-batch that is advised divides it; 0: any
    struct plan_room {
        uint64_t available; // bytes
        const char *limit;  // what sets it
    } host, device;
};
enum berth_status plan_memory_check(const struct plan_limit_args *args, struct berth_error *error);

// The whole: makes the plan, reports it, refuses it where this machine has too little memory left.
// *total gets the plan's total; may be NULL.
struct plan_args {
    const struct state *state;
    const struct bert_config *config;
    const struct engine_shape *shape;
    int64_t update_sequences; // as in struct plan_limit_args
    uint64_t data;            // as in struct plan_memory
    const struct berth_log *log;
};
enum berth_status plan_memory_admit(const struct plan_args *args, uint64_t *total,
                                    struct berth_error *error);

#endif
