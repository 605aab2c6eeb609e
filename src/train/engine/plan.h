// SPDX-License-Identifier: Apache-2.0
// The plan that is reported before the first update: parameters, memory by part, batch arithmetic,
// updates, files. Making it allocates nothing: the carving code runs with a NULL base.
#ifndef BERTH_TRAIN_PLAN_H
#define BERTH_TRAIN_PLAN_H

#include "core/comm.h"
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
    uint64_t exchange; // with other ranks
    uint64_t levels;   // sums of parts of updates, in the device's memory
    uint64_t shared;   // with the ranks of the host, for exchanges: what this rank uses
    uint64_t saving;   // while a checkpoint is written: the copy of the state beside the updates,
                       // and a tensor of another program's form
    uint64_t data;     // data that the run will read later
    uint64_t staging;  // for loading weights, if the device has its own memory or the weights are
                       // in int8
    uint64_t total;    // peak of the process in the host's memory
    uint64_t device;   // peak in the device's memory; 0 if it is the host's
};

// Of `state`, only device, table and compute are used; its buffers may be NULL.
enum berth_status plan_memory_make(struct plan_memory *memory, const struct state *state,
                                   const struct bert_config *config,
                                   const struct engine_shape *shape, struct berth_error *error);

void plan_memory_report(const struct plan_memory *memory, const struct berth_log *log);

// Refuses (BERTH_CONFIG) a plan that needs more memory than available, and names a size that would
// fit: the micro-batch in training, predict_batch_size in prediction.
struct plan_limit_args {
    const struct plan_memory *memory;
    const struct state *state;
    const struct bert_config *config;
    const struct engine_shape *shape;
    int64_t update_sequences; // the suggested micro-batch divides this; 0: any
    int64_t texts, group;     // sequences of one of these, and how many stay together; 0: 1
    struct plan_budget {
        uint64_t available; // bytes
        const char *limit;  // what imposes the limit
    } host, device;
};
enum berth_status plan_memory_check(const struct plan_limit_args *args, struct berth_error *error);

// Makes the plan, reports it, and refuses it if this machine has too little memory for all of its
// ranks. Sets *total (may be NULL) to the plan's total.
struct plan_args {
    const struct state *state;
    const struct bert_config *config;
    const struct engine_shape *shape;
    int64_t update_sequences, texts, group; // as in struct plan_limit_args
    struct comm *comm; // of ranks that all call this and report together; NULL: none does
    int processes;     // that share this host's memory where comm is NULL; 0: this one alone
    uint64_t data, exchange, levels, shared, saving; // as in struct plan_memory
    const struct berth_log *log;
};
enum berth_status plan_memory_admit(const struct plan_args *args, uint64_t *total,
                                    struct berth_error *error);
// Whether this machine has enough memory for the plan, by this rank's alone and without a report.
int plan_memory_fits(const struct plan_args *args);
// Appends to the message of an allocation that failed although the plan was admitted: a smaller
// batch that would fit. Called when what was allocated is freed again.
void plan_memory_advise(const struct plan_args *args, struct berth_error *error);

#endif
