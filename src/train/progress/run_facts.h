// SPDX-License-Identifier: Apache-2.0
// What a checkpoint's trainer_state.json says about its run, for writing the checkpoint in another
// program's format. progress.h reads the file to resume.
#ifndef BERTH_TRAIN_RUN_FACTS_H
#define BERTH_TRAIN_RUN_FACTS_H

#include "core/error.h"
#include "format/json/json.h"
#include "settings/optimizer.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/schedule.h"

#include <stdint.h>

struct run_facts {
    json *state; // the file; `optimizer` points to its texts
    struct optimizer optimizer;
    double last_rate;         // the last one logged, else the peak rate
    int64_t step;             // updates of all phases
    int64_t skipped;          // skipped updates of the last phase
    int64_t updates;          // updates that went into the moments
    int64_t sequences;        // of an update
    struct schedule schedule; // of the last phase; its row is NULL if the file does not tell it all
    int64_t scheduled; // updates that it counted: those of the last phase, without skipped ones
    double next_rate;  // of the next update; without a schedule `last_rate`
};

// Reads the file `path`. run_facts_done frees.
enum berth_status run_facts_read(struct run_facts *facts, const char *path,
                                 struct berth_error *error);
void run_facts_done(struct run_facts *facts);

// Only the settings of the optimizer and the learning rate, completed by optimizer_settle; the
// others are the defaults. Their texts are borrowed from `state`, the contents of such a file.
enum berth_status run_facts_settings(const json *state, struct optimizer_settings *found,
                                     struct berth_error *error);

#endif
