// SPDX-License-Identifier: Apache-2.0
// What the trainer_state.json of a checkpoint says of its run, for those that write the checkpoint
// in another program's format. progress.h reads it to resume.
#ifndef BERTH_TRAIN_RUN_FACTS_H
#define BERTH_TRAIN_RUN_FACTS_H

#include "core/error.h"
#include "format/json/json.h"
#include "train/optimizer/optimizer.h"

#include <stdint.h>

struct run_facts {
    json *state; // the file, to which the settings of `optimizer` refer
    struct optimizer optimizer;
    double learning_rate; // the last one that was logged, else the peak
    int64_t step;         // updates, of all phases
    int64_t skipped;      // of the last phase, because their gradient was not finite
    int64_t updates;      // that the moments are made of
    int64_t sequences;    // of an update
};

// Reads the file `path`. run_facts_done frees.
enum berth_status run_facts_read(struct run_facts *facts, const char *path,
                                 struct berth_error *error);
void run_facts_done(struct run_facts *facts);

#endif
