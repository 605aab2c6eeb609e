// SPDX-License-Identifier: Apache-2.0
// The masking rules of pre-training: chooses the words of an instance to be predicted and replaces
// their tokens: 80 % by [MASK], 10 % by a random id; 10 % stay unchanged. For instances made by
// `berth prepare`; text that is masked while a model trains has rules of its own
// (data/masked/word_masks.h).
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
    struct word *words;       // of one instance that may be masked
    uint32_t *candidates;     // indices of words, in the order of their choice
    unsigned char *continues; // [max_length] of the instance: whether it is in the word before
    unsigned char *covered;   // [max_length] positions that are predicted
    int32_t *labels;          // [max_length] the original ids
};

// Allocates the arrays; the caller has set the other fields. Free with masking_done, also after a
// failure.
enum berth_status masking_reserve(struct masking *masking, struct berth_error *error);
void masking_done(struct masking *masking);
// The number of masked positions of an instance of `length` tokens; whole words may fill fewer.
size_t masking_count(const struct instance_options *options, size_t length);
// Masks the tokens of an instance, the last of `instances`, and adds its predictions, for which the
// caller has reserved room; it has also set `continues`.
void masking_apply(struct masking *masking, struct instance *instance);

#endif
