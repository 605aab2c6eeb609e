// SPDX-License-Identifier: Apache-2.0
// The masking rules of pre-training: which words of an instance are predicted, and what becomes of
// their tokens: [MASK] in 80 of 100 cases, the token itself in 10, any id in 10.
#ifndef BERTH_DATA_MASKING_H
#define BERTH_DATA_MASKING_H

#include "core/error.h"
#include "data/pretraining/draws.h"
#include "data/pretraining/instances.h"

// The pieces of a word that are masked together: tokens [begin, begin + count).
struct word {
    uint16_t begin, count;
};

struct masking {
    const struct instance_options *options;
    struct draws *draws;
    struct instances *instances;
    struct word *words;     // candidates of one instance
    uint32_t *candidates;   // numbers of words, shuffled
    unsigned char *covered; // [max_seq_length] positions that are predicted
    int32_t *labels;        // [max_seq_length] what stood there
};

// Fills in the arrays; the rest is set. Free with masking_done, also after a failure.
enum berth_status masking_reserve(struct masking *masking, struct berth_error *error);
void masking_done(struct masking *masking);
// Masks the tokens of an instance, the last of `instances`, and adds its predictions, for which
// there is room.
void masking_apply(struct masking *masking, struct instance *instance);

#endif
