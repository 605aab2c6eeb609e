// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules: pure functions of the update's number, so a checkpoint stores settings
// and no schedule state, and a resumed run computes the same rates.
//
// Sources: systems.md 3.3 (BertAdam, NVIDIA), 4 (DeepSpeed), 5.4 (Google), 6.8 (poly).
// Leaves out: OneCycle and LRRangeTest of DeepSpeed, and every schedule that looks at the loss.
#ifndef BERTH_TRAIN_SCHEDULE_H
#define BERTH_TRAIN_SCHEDULE_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct schedule_row;

struct schedule {
    const struct schedule_row *row;
    double learning_rate; // the peak
    double minimum;       // warmup_min_lr: where DeepSpeed's warm-ups start
    int64_t warmup_steps; // whole updates
    double warmup;        // the warm-up's share of all updates, 0 to 1
    int64_t total_steps;
};

// With x = step / total_steps, p = (step + 1) / total_steps, w = warmup, n = warmup_steps:
struct schedule_row {
    const char *name;
    const char *formula; // for --help and the plan
    double (*rate)(const struct schedule *schedule, int64_t step);
};

extern const struct schedule_row schedule_rows[];
extern const size_t schedule_row_count;

// warmup_steps > 0 wins over warmup_proportion. Unknown names are BERTH_USAGE and list the known.
enum berth_status schedule_init(struct schedule *schedule, const struct berth_config *config,
                                int64_t total_steps, struct berth_error *error);

// The rate of update `step`, counted from 0.
double schedule_rate(const struct schedule *schedule, int64_t step);

#endif
