// SPDX-License-Identifier: Apache-2.0
// Loss scaling: the gradient of the loss is multiplied by a scale before the backward pass so that
// small gradients are not lost in a narrow type; the optimizer divides by it again. An update whose
// gradient is not finite is skipped. The rules are DeepSpeed's and independent of devices and
// types:
//
//   static             the scale never changes
//   dynamic, "zero"    the rule of its ZeRO optimizers. An overflow uses up one of `hysteresis`
//                      tolerated ones; the last of them halves the scale, down to the minimum; at
//                      the minimum it ends the run. An update without overflow that is `window` (or
//                      twice, ...) updates after the last overflow doubles the scale and restores
//                      all tolerated overflows; with `consecutive` every update without overflow
//                      restores them.
//   dynamic, "plain"   the rule of its fp16 optimizer without ZeRO. An overflow halves the scale,
//                      down to the minimum, and never ends the run. An update doubles it if the
//                      number of updates between it and the last overflow is a multiple of
//                      `window`, not 0.
//
// At the start, "the last overflow" is the update before the first. If an overflow neither lowers
// the scale nor ends the run (static, or "plain" at its minimum), LOSS_SCALE_STUCK_LIMIT of them in
// a row end it. This is not a rule of DeepSpeed, which would skip forever.
#ifndef BERTH_TRAIN_LOSS_SCALE_H
#define BERTH_TRAIN_LOSS_SCALE_H

#include "core/error.h"
#include "settings/optimizer.h"

#include <stddef.h>
#include <stdint.h>

#define LOSS_SCALE_STUCK_LIMIT 50

enum loss_scale_kind { LOSS_SCALE_NONE, LOSS_SCALE_STATIC, LOSS_SCALE_ZERO, LOSS_SCALE_PLAIN };

struct loss_scale {
    enum loss_scale_kind kind;
    double minimum;
    int64_t window, hysteresis;
    int consecutive;
    // The part that changes from update to update; a checkpoint of a dynamic scale contains it.
    double scale;            // 1 for LOSS_SCALE_NONE
    int64_t updates;         // number so far
    int64_t last_overflow;   // number of the last update that overflowed, from 0; -1: none
    int64_t hysteresis_left; // overflows until the scale is lowered
    int64_t stuck;           // overflows in a row at a scale that cannot be lowered; not saved
    int restored;            // 1: the four above come from a checkpoint
};

enum loss_scale_event {
    SCALE_KEPT,      // no overflow, nothing changed
    SCALE_RAISED,    // no overflow, the scale was doubled
    SCALE_LOWERED,   // overflow: skip the update
    SCALE_TOLERATED, // overflow: skip the update; the scale is unchanged
    SCALE_EXHAUSTED  // overflow, and by the rules above it ends the run
};

// Initialises from the settings loss_scale ("none", "dynamic" or 0, a number), loss_scaler,
// init_loss_scale, loss_scale_window, hysteresis, consecutive_hysteresis, min_loss_scale. The
// changing part gets its initial values unless it was restored. Another loss_scale is BERTH_USAGE,
// an init_loss_scale below the minimum BERTH_CONFIG.
enum berth_status loss_scale_settle(struct loss_scale *scale,
                                    const struct optimizer_settings *settings, int is_fp16,
                                    struct berth_error *error);

// Only the checks of loss_scale_settle.
enum berth_status loss_scale_check(const struct optimizer_settings *settings, int is_fp16,
                                   struct berth_error *error);

// Records an update and whether its gradient overflowed. Not for LOSS_SCALE_NONE.
enum loss_scale_event loss_scale_update(struct loss_scale *scale, int overflow);

int loss_scale_is_dynamic(const struct loss_scale *scale);

#endif
