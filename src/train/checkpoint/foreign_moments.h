// SPDX-License-Identifier: Apache-2.0
// The moments in ckpt_<step>.pt of NVIDIA's, Habana's and Berth's pre-training and in optimizer.pt
// of transformers' Trainer: those of FusedLAMB, FusedAdam and torch's own optimizers, whose
// state_dict numbers the parameters in the order of the module, first those that decay; frozen ones
// may have no number.
#ifndef BERTH_TRAIN_FOREIGN_MOMENTS_H
#define BERTH_TRAIN_FOREIGN_MOMENTS_H

#include "core/error.h"
#include "model/weights.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/state.h"

#include <stdint.h>

struct foreign_moments {
    const struct weights *weights;
    const struct tensor_file *file;    // with the moments; NULL: there is none
    const struct optimizer *optimizer; // of Berth's run that wrote the file, else of this run
    int64_t step;
};
struct foreign_moments_found {
    int64_t updates;     // that went into the moments; `step` if the file does not say
    const char *missing; // why there are no usable moments, a static text; NULL: it has some
};
// Reads the moments from the open file, whose dictionary, or its "optimizer", they are in; leaves
// them unchanged if it has no usable ones.
enum berth_status foreign_moments_read(const struct foreign_moments *from, struct state *state,
                                       struct foreign_moments_found *found,
                                       struct berth_error *error);

#endif
