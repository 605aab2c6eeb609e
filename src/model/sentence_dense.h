// SPDX-License-Identifier: Apache-2.0
// The Dense modules of a sentence-transformers folder: y = f(W x + b) of a pooled vector x, which a
// Normalize may scale to length 1 before. Computed in double on the host, because a model makes one
// such vector of a text.
//
// Leaves out training them, residual connections, and modules that read or write anything but the
// embedding; the latter are refused by name.
#ifndef BERTH_MODEL_SENTENCE_DENSE_H
#define BERTH_MODEL_SENTENCE_DENSE_H

#include "core/error.h"

#include <stdint.h>

struct sentence_dense {
    int normalizes; // its input is scaled to length 1
    int64_t inputs, outputs;
    float *weight; // [outputs, inputs]
    float *bias;   // [outputs]; NULL: none
    double (*activation)(double x);
};

// Reads FOLDER/MODULE: config.json and the weights beside it. Call sentence_dense_done even after
// an error.
enum berth_status sentence_dense_read(const char *folder, const char *module,
                                      struct sentence_dense *dense, struct berth_error *error);
void sentence_dense_done(struct sentence_dense *dense);
// Writes the module's output [outputs]; overwrites x [inputs] if it normalizes.
void sentence_dense_apply(const struct sentence_dense *dense, float *x, float *y);

// Scales to length 1, as sentence-transformers does: a length below 1e-12 counts as this.
void sentence_scale_to_one(float *values, int64_t size);

#endif
