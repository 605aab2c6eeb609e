// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules: pure functions of the update's number, so a checkpoint stores settings
// and, for a schedule that was started again, where; a resumed run computes the same rates.
//
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
    double offset;        // lr_offset: added to every rate
    double decay_rate;    // EE, LE: what the rate is multiplied with in decay_steps updates
    int64_t decay_steps;
    double cosine_minimum; // WarmupCosineLR: the share of the rate that its cosine ends with
    int64_t warmup_steps;  // updates that are below the peak for the warm-up
    double warmup;         // the warm-up's share of all updates, 0 to 1
    int64_t total_steps;   // of the schedule: from `first` on
    int64_t first;         // the update it begins with
};

// What a share of the updates, warmup_proportion, means.
enum schedule_warmup {
    WARMUP_SHARE, // an update that begins within it is part of the warm-up
    WARMUP_WHOLE, // an update that ends within it is
    WARMUP_NONE   // nothing: there is no warm-up
};

// With step counted from `first`, T = total_steps, x = step / T, p = (step + 1) / T, w = warmup,
// n = warmup_steps, r = decay_rate, k = decay_steps:
struct schedule_row {
    const char *name;
    const char *formula; // for --help and the plan
    double (*rate)(const struct schedule *schedule, int64_t step);
    enum schedule_warmup warmup;
};

extern const struct schedule_row schedule_rows[];
extern const size_t schedule_row_count;

// warmup_steps > 0 wins over warmup_proportion. Unknown names are BERTH_USAGE and list the known.
enum berth_status schedule_init(struct schedule *schedule, const struct berth_config *config,
                                int64_t total_steps, struct berth_error *error);

// Begins the schedule again at update `first` (warm-up included), over what is left of the run.
void schedule_restart(struct schedule *schedule, const struct berth_config *config, int64_t first);

// The rate of update `step`, counted from the run's first, 0; skipped ones are not counted.
double schedule_rate(const struct schedule *schedule, int64_t step);

// 1 when every update of the run has the rate 0, so that nothing is trained.
int schedule_is_zero(const struct schedule *schedule);

#endif
