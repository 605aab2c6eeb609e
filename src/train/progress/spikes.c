// SPDX-License-Identifier: Apache-2.0
// The moving means of loss and gradient norm, and the limits that follow from them. The training
// loop records every update that was applied; loop_spikes.c decides what is done with one above a
// limit.
#include "train/progress/spikes.h"

#include <math.h>
#include <string.h>

#define MIN_UPDATES 10
#define WINDOW_UPDATES 50

enum spike_policy spike_policy_of(const struct run_settings *settings) {
    static const char *const names[] = {
        [SPIKE_WARN] = "warn", [SPIKE_SKIP] = "skip", [SPIKE_ROLLBACK] = "rollback"};
    for (int policy = SPIKE_WARN; policy <= SPIKE_ROLLBACK; policy++) {
        if (settings->spike_policy != NULL && strcmp(settings->spike_policy, names[policy]) == 0) {
            return (enum spike_policy)policy;
        }
    }
    return SPIKE_NONE;
}

static double limit_of(double mean, double factor) {
    return mean > 0 ? factor * mean : INFINITY;
}

struct spike_limits spikes_limits(const struct spikes *spikes, double factor) {
    return spikes->updates < MIN_UPDATES
               ? (struct spike_limits){INFINITY, INFINITY}
               : (struct spike_limits){limit_of(spikes->loss, factor),
                                       limit_of(spikes->grad_norm, factor)};
}

static double moving_mean(double mean, double value, double weight) {
    return mean + weight * (value - mean);
}

void spikes_record(struct spikes *spikes, const struct spike_limits *limits, double loss,
                   double grad_norm) {
    spikes->found += spike_limits_exceeded(limits, loss, grad_norm);
    spikes->updates++;
    const double weight =
        1.0 / (double)(spikes->updates < WINDOW_UPDATES ? spikes->updates : WINDOW_UPDATES);
    spikes->loss = moving_mean(spikes->loss, fmin(loss, limits->loss), weight);
    spikes->grad_norm = moving_mean(spikes->grad_norm, fmin(grad_norm, limits->grad_norm), weight);
}
