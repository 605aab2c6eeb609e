// SPDX-License-Identifier: Apache-2.0
// Spikes: updates whose loss or gradient norm is far above those before (--spike_policy,
// --spike_factor).
//
// Each has a moving mean: at first of all updates, then an exponential one over about the last 50.
// After 10 updates, a value above `factor` times the mean is a spike. A spike enters the mean as
// factor times the mean, so a level that persists does not stay a spike forever.
#ifndef BERTH_TRAIN_SPIKES_H
#define BERTH_TRAIN_SPIKES_H

#include "settings/run.h"

#include <stdint.h>

enum spike_policy { SPIKE_NONE, SPIKE_WARN, SPIKE_SKIP, SPIKE_ROLLBACK };

enum spike_policy spike_policy_of(const struct run_settings *settings);

// Saved in checkpoints; all zero at first.
struct spikes {
    double loss, grad_norm; // the means
    int64_t updates;        // in the means
    int64_t found;
};

// Above these a value is a spike; INFINITY: no limit.
struct spike_limits {
    double loss, grad_norm;
};
struct spike_limits spikes_limits(const struct spikes *spikes, double factor);

static inline int spike_limits_exceeded(const struct spike_limits *limits, double loss,
                                        double grad_norm) {
    return loss > limits->loss || grad_norm > limits->grad_norm;
}

// Adds an update. Both values must be finite; `limits` are those before the update.
void spikes_record(struct spikes *spikes, const struct spike_limits *limits, double loss,
                   double grad_norm);

#endif
