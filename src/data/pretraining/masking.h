// SPDX-License-Identifier: Apache-2.0
// The masking rules of pre-training: chooses the words of an instance to predict, and replaces
// their tokens: by [MASK] in 80 of 100 cases, by any id in 10; 10 stay as they are.
#ifndef BERTH_DATA_MASKING_H
#define BERTH_DATA_MASKING_H

#include "core/error.h"
#include "data/pretraining/draws.h"
#include "data/pretraining/instances.h"

// Pieces that are masked together: tokens [begin, begin + count).
struct word {
    uint16_t begin, count;
};

struct masking {
    const struct instance_options *options;
    struct draws *draws;
    struct instances *instances;
    struct word *words;     // candidates of one instance
    uint32_t *candidates;   // indices of words, shuffled
    unsigned char *covered; // [max_seq_length] positions that are predicted
    int32_t *labels;        // [max_seq_length] the original ids
};

// Allocates the arrays; the caller has set the other fields. Free with masking_done, also after a
// failure.
enum berth_status masking_reserve(struct masking *masking, struct berth_error *error);
void masking_done(struct masking *masking);
// The masked positions of an instance of `length` tokens; fewer if whole words do not fill them.
size_t masking_count(const struct instance_options *options, size_t length);
// Masks the tokens of an instance, the last of `instances`, and adds its predictions, for which the
// caller has reserved room.
void masking_apply(struct masking *masking, struct instance *instance);

#endif
