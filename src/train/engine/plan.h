// SPDX-License-Identifier: Apache-2.0
// The memory plan that is reported before the first update. Making it allocates nothing: the
// carving code runs with a NULL base.
#ifndef BERTH_TRAIN_PLAN_H
#define BERTH_TRAIN_PLAN_H

#include "comm/comm.h"
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
    uint64_t resident; // already resident: program, libraries, text and features
    uint64_t exchange; // buffers for exchanges with other ranks
    uint64_t levels;   // gradient sums of parts of an update, in the device's memory
    uint64_t shared;   // this rank's part of the host's shared memory for exchanges
    uint64_t saving;   // for writing checkpoints: the copy of the state that is saved in the
                       // background, and a tensor in another program's format
    uint64_t data;     // data that the run will read later, and results of predictions
    uint64_t staging;  // for loading weights, if the device has its own memory or the weights are
                       // in int8
    uint64_t total;    // peak of the process in the host's memory
    uint64_t device;   // peak in the device's memory; 0 if it is the host's
};

// What a job needs besides the model, and how its batches may be made smaller.
struct plan_args {
    const struct state *state; // its buffers may be NULL
    int has_weights;           // they are in memory already
    const struct bert_config *config;
    const struct engine_shape *shape;
    int64_t update_sequences; // of one rank; the suggested micro-batch divides this; 0: any
    int64_t update_factor; // > 0: the update is suggested, too: this times the micro-batch, any one
    int64_t texts, group;  // texts of a sequence, and sequences that stay together; 0 means 1
    int64_t masked;        // masked tokens of a text in training, at most; 0: any token may be one
    int64_t predict_length; // tokens of a sequence of predict_batch_size; 0: the longest one's
    struct comm *comm;      // of the ranks that all make this call; NULL: only this process does
    int processes;          // that use this host's memory, if comm is NULL; 0: this one alone
    uint64_t data, exchange, levels, shared, saving; // as in struct plan_memory
    const struct berth_log *log;
};

// Makes the plan of a job; errors as engine_measure.
enum berth_status plan_memory_make(struct plan_memory *memory, const struct plan_args *args,
                                   struct berth_error *error);

void plan_memory_report(const struct plan_memory *memory, const struct berth_log *log);

// Bytes of the host and of a device with its own memory that a plan may use.
struct plan_limits {
    struct plan_budget {
        uint64_t available; // bytes
        const char *limit;  // what imposes the limit
    } host, device;
    uint64_t reserved; // bytes that this process has reserved: not in host.available
};
// Refuses (BERTH_CONFIG) a plan that needs more memory than available, and names a size that would
// fit: of the micro-batches in training, of the batches of prediction, or of both.
enum berth_status plan_memory_check(const struct plan_args *args, const struct plan_memory *memory,
                                    const struct plan_limits *limits, struct berth_error *error);

// Makes the plan, reports it, and refuses it if this machine has too little memory for its ranks.
// Sets *total (may be NULL) to the plan's total.
enum berth_status plan_memory_admit(const struct plan_args *args, uint64_t *total,
                                    struct berth_error *error);
// Whether this machine has enough memory if every rank has this rank's plan. Reports nothing.
int plan_memory_fits(const struct plan_args *args);
// Appends a smaller batch size that would fit to the message of an allocation that failed although
// the plan was admitted. Call it after freeing what was allocated.
void plan_memory_advise(const struct plan_args *args, struct berth_error *error);

#endif
