// SPDX-License-Identifier: Apache-2.0
// Sample answers of an evaluation for reports (BERTH_DETAIL, "sample"): the worst errors first,
// then some right answers. A task fills in its examples; the report page shows them.
#ifndef BERTH_TRAIN_SAMPLES_H
#define BERTH_TRAIN_SAMPLES_H

#include "core/log.h"

#include <stddef.h>
#include <stdint.h>

struct sample {
    const char *question;             // or the text
    const char *context;              // NULL: none
    const char *predicted, *expected; // "": no answer
    // Characters of the context, end exclusive; negative: not in it.
    int64_t predicted_begin, predicted_end, expected_begin, expected_end;
    double score;       // percent
    double probability; // of the prediction
};

// How wrong the answer to an example is: 0 if it is right, else up to 1.
struct sample_rank {
    double badness;
    size_t example;
};

// Orders ranks[count], worst first with some right ones at the end, and returns how many to show.
size_t samples_choose(struct sample_rank *ranks, size_t count);
// The most memory that ranks[count] take, with a copy for sorting.
static inline size_t samples_bytes(size_t count) {
    return 2 * count * sizeof(struct sample_rank);
}
// Long contexts are cut around the answers.
void samples_log(const struct berth_log *log, int64_t step, const struct sample *sample);

#endif
