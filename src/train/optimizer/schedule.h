// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules. They are pure functions of the update's number, so a checkpoint stores
// only settings and, after a restart of the schedule, its start; a resumed run computes the same
// rates.
//
// Leaves out: OneCycle and LRRangeTest of DeepSpeed, and every schedule that depends on the loss.
#ifndef BERTH_TRAIN_SCHEDULE_H
#define BERTH_TRAIN_SCHEDULE_H

#include "core/error.h"
#include "settings/optimizer.h"

#include <stddef.h>
#include <stdint.h>

struct schedule_row;

struct schedule {
    const struct schedule_row *row;
    double peak;       // highest rate, with the factor
    double minimum;    // warmup_min_lr, with the factor: where DeepSpeed's warm-ups start
    double offset;     // lr_offset: added to every rate
    double decay_rate; // EE, LE: factor per decay_steps updates
    int64_t decay_steps;
    double cosine_minimum; // WarmupCosineLR: final fraction of the rate
    int64_t warmup_steps;  // updates below the peak because of warm-up
    double warmup;         // fraction of all updates that warm up, 0 to 1
    int64_t total_steps;   // of the schedule, counted from `first`
    int64_t first;         // update at which the schedule starts
};

// The meaning of warmup_proportion, a fraction of the updates.
enum schedule_warmup {
    WARMUP_CEIL,  // an update that begins within the fraction is part of the warm-up
    WARMUP_FLOOR, // an update that ends within the fraction is part of the warm-up
    WARMUP_NONE   // no warm-up
};

// With step counted from `first`, T = total_steps, x = step / T, p = (step + 1) / T, w = warmup, n
// = warmup_steps, r = decay_rate, k = decay_steps:
struct schedule_row {
    const char *name;
    const char *formula; // for --help and the plan
    double (*rate)(const struct schedule *schedule, int64_t step);
    enum schedule_warmup warmup;
};

extern const struct schedule_row schedule_rows[];
extern const size_t schedule_row_count;

// The factor of the rule lr_scaling for a number of processes.
double schedule_factor(const char *rule, int processes);

// The schedule of a run of `total_steps` updates, its rates times `factor`. warmup_steps > 0
// overrides warmup_proportion.
struct schedule schedule_of(const struct optimizer_settings *settings, double factor,
                            int64_t total_steps);

// Restarts the schedule, including warm-up, at update `first`, over the rest of the run.
void schedule_restart(struct schedule *schedule, const struct optimizer_settings *settings,
                      int64_t first);

// The rate of update `step`, counted from 0 at the start of the run, without skipped updates.
double schedule_rate(const struct schedule *schedule, int64_t step);

// Whether all of the run's updates have the rate 0, so that nothing is trained.
int schedule_is_zero(const struct schedule *schedule, int64_t updates);

#endif
