// SPDX-License-Identifier: Apache-2.0
// Finds where numbers stopped being finite in an update whose loss or gradient norm is not. It
// computes again, so it is slow, and is called only before a run ends with an error.
#ifndef BERTH_TRAIN_NONFINITE_H
#define BERTH_TRAIN_NONFINITE_H

#include "train/engine/update.h"

// Finds the cause in the update that was just run with `args` and not yet discarded: the first
// weight that is not finite; else the first module with such an output in the forward pass, which
// is recomputed; else the first gradient in the order of the backward pass (head, last layer, ...).
// Writes a sentence to text[size]. All ranks call it.
enum berth_status update_find_nonfinite(struct updater *updater, const struct update_args *args,
                                        char *text, size_t size, struct berth_error *error);

#endif
