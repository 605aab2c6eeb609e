// SPDX-License-Identifier: Apache-2.0
// The moments in ckpt_<step>.pt of NVIDIA's, Habana's and Berth's pre-training: those of FusedLAMB,
// FusedAdam and torch's own optimizers, whose state_dict numbers the parameters in the order of the
// module, first those that decay.
#ifndef BERTH_TRAIN_ORIGINAL_MOMENTS_H
#define BERTH_TRAIN_ORIGINAL_MOMENTS_H

#include "core/error.h"
#include "model/weights.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/state.h"

#include <stdint.h>

// Reads the moments from the open file. Sets *updates to the number of updates that went into them,
// or to `step` if the file does not say. Sets *missing to NULL, or to a static text that says why
// the file has no usable moments, which are then unchanged.
struct original_moments {
    const struct weights *weights;
    const struct optimizer *optimizer; // of the run that resumes
    int64_t step;
};
enum berth_status original_moments_read(const struct original_moments *from, struct state *state,
                                        int64_t *updates, const char **missing,
                                        struct berth_error *error);

#endif
