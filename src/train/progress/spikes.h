// SPDX-License-Identifier: Apache-2.0
// Spikes: updates whose loss or gradient norm is far above those before (--spike_policy,
// --spike_factor).
//
// The mean of each follows the updates: the mean of all of them at first, then of about the last
// 50, with weights that decrease. Above `factor` times the mean is a spike, once there were 10
// updates. A spike counts as factor times the mean, so a level that stays is none for ever.
#ifndef BERTH_TRAIN_SPIKES_H
#define BERTH_TRAIN_SPIKES_H

#include "berth.h"

#include <stdint.h>

enum spike_policy { SPIKE_NONE, SPIKE_WARN, SPIKE_SKIP, SPIKE_ROLLBACK };

enum spike_policy spike_policy_of(const struct berth_config *config);

// Saved in checkpoints; all zero at first.
struct spikes {
    double loss, grad_norm; // the means
    int64_t updates;        // that they follow
    int64_t found;
};

// INFINITY: there is none.
struct spike_limits {
    double loss, grad_norm;
};
struct spike_limits spikes_limits(const struct spikes *spikes, double factor);

static inline int spike_limits_exceeded(const struct spike_limits *limits, double loss,
                                        double grad_norm) {
    return loss > limits->loss || grad_norm > limits->grad_norm;
}

// Both must be finite, and `limits` those from before.
void spikes_record(struct spikes *spikes, const struct spike_limits *limits, double loss,
                   double grad_norm);

#endif
