// SPDX-License-Identifier: Apache-2.0
// Makes pre-training instances from documents: pairs of sentences with masked words, by the rules
// of Google's and NVIDIA's create_pretraining_data.
//
// With `python` the random numbers are those of CPython's random.Random(seed), drawn in the same
// order, so the instances of a shard equal those of the published script bit for bit. Without it
// the rules are the same and the numbers come from a counter (core/rng.h), which is faster, with a
// stream for each shard: it depends on the shard's tokens, sentences and documents. The published
// script begins each shard with the same numbers.
#ifndef BERTH_DATA_INSTANCES_H
#define BERTH_DATA_INSTANCES_H

#include "core/error.h"
#include "data/batches/packer.h"
#include "data/pretraining/documents.h"

#include <stddef.h>
#include <stdint.h>

struct instance_options {
    int max_seq_length;  // [CLS] and two [SEP] included; at least 5, at most INSTANCE_LENGTH_MAX
    int max_predictions; // masked positions at most, 1 or more
    int dupe_factor;     // rounds through the documents
    double masked_lm_prob, short_seq_prob;
    uint64_t seed;
    int python;     // use the numbers of CPython's random
    int whole_word; // mask all pieces of a word or none
    int32_t cls, sep, mask, vocab_size;
    const unsigned char *continues; // [vocab_size] 1: the id is a piece within a word ("##"); for
                                    // whole_word, may be NULL otherwise
    const volatile int *stop;       // polled; NULL: never
};

enum { INSTANCE_LENGTH_MAX = 8192 };

// One instance: [CLS] A [SEP] B [SEP], masked.
struct instance {
    uint64_t tokens;      // index of its ids in instances->tokens
    uint64_t predictions; // index of its masked positions in instances->positions
    uint16_t length;      // with [CLS] and [SEP]
    uint16_t second;      // tokens before B: segment 0
    uint16_t prediction_count;
    uint8_t is_random; // B does not follow A
};

struct instance_counts {             // for statistics
    uint64_t masked, kept, replaced; // predictions that became [MASK], stayed, became another id
    uint64_t random_next, short_target;
    uint64_t cut; // pairs that lost more than half of their tokens because they were too long
};

struct instances {
    struct instance *items; // in the order of writing
    size_t count, capacity;
    int32_t *tokens;
    size_t token_count, token_capacity;
    uint16_t *positions; // of predictions, ascending within an instance
    int32_t *labels;     // the original ids
    size_t prediction_count, prediction_capacity;
    struct instance_counts counts;
};

// BERTH_BAD_DATA when a number is out of range; the message names the first one.
enum berth_status instance_options_check(const struct instance_options *options,
                                         struct berth_error *error);
// Makes the instances of one shard. Options out of range and more than 2^32 instances are
// BERTH_BAD_DATA; BERTH_INTERRUPTED: a stop was requested. `instances` must be zero-initialised;
// free it with instances_done, also after a failure.
enum berth_status instances_make(const struct documents *documents,
                                 const struct instance_options *options,
                                 struct instances *instances, struct berth_error *error);
// Makes room for one more instance with these numbers of tokens and predictions, or
// BERTH_NO_MEMORY.
enum berth_status instances_reserve(struct instances *instances, size_t tokens, size_t predictions,
                                    struct berth_error *error);
void instances_done(struct instances *instances);

// The instances as a source for the packer: masked tokens with their original ids, and as the class
// whether the second sentence is random. Borrows the instances, which have at most
// INSTANCE_LENGTH_MAX tokens each.
struct packer_source instance_source(const struct instances *instances);

#endif
