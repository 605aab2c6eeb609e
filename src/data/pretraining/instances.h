// SPDX-License-Identifier: Apache-2.0
// Makes pre-training instances from documents: pairs of text segments with masked words, by the
// rules of Google's and NVIDIA's create_pretraining_data.
//
// With `python` the random numbers are those of CPython's random.Random(seed), drawn in the same
// order, so the instances of a shard equal those of the published script bit for bit. Otherwise the
// rules are the same, but the numbers come from the faster generator of core/rng.h, with a stream
// of its own for each shard, which depends on the shard's tokens, sentences and documents. (The
// published script starts every shard with the same numbers.) The instance stage makes them,
// pretraining_file.h writes and reads them, and shard_stream.h feeds a training with them.
#ifndef BERTH_DATA_INSTANCES_H
#define BERTH_DATA_INSTANCES_H

#include "core/error.h"
#include "data/batches/packer.h"
#include "data/pretraining/documents.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct instance_options {
    int max_length;      // [CLS] and two [SEP] included; at least 5, at most INSTANCE_LENGTH_MAX
    int max_predictions; // maximum of masked positions, at least 1
    int dupe_factor;     // passes over the documents
    double masked_lm_prob, short_seq_prob;
    uint64_t seed;
    int python;     // use CPython's random numbers
    int whole_word; // mask all pieces of a word or none
    int32_t cls, sep, mask, vocab_size;
    const atomic_int *stop; // polled; NULL: never
};

enum { INSTANCE_LENGTH_MAX = 8192 };

// One instance: [CLS] A [SEP] B [SEP], masked.
struct instance {
    uint64_t tokens;      // index of its ids in instances->tokens
    uint64_t predictions; // index of its masked positions in instances->positions
    uint16_t length;      // with [CLS] and [SEP]
    uint16_t second;      // tokens before B, which are segment 0
    uint16_t prediction_count;
    uint8_t is_random; // B does not follow A
};

struct instance_counts {             // for statistics
    uint64_t masked, kept, replaced; // predictions that became [MASK], stayed, became a random id
    uint64_t random_next, short_target;
    uint64_t cut; // pairs that lost more than half of their tokens to truncation
};

struct instances {
    struct instance *items; // in the order in which they are written
    size_t count, capacity;
    int32_t *tokens;
    size_t token_count, token_capacity;
    uint16_t *positions; // of the predictions, ascending within an instance
    int32_t *labels;     // the original ids
    size_t prediction_count, prediction_capacity;
    struct instance_counts counts;
};

// BERTH_BAD_DATA if a number is out of range; the message names the first such number.
enum berth_status instance_options_check(const struct instance_options *options,
                                         struct berth_error *error);
// Makes the instances of one shard. BERTH_BAD_DATA: an option is out of range, or there are
// more than 2^32 instances. BERTH_INTERRUPTED: a stop was requested. `instances` must be
// zero-initialised; free it with instances_done, also after a failure.
enum berth_status instances_make(const struct documents *documents,
                                 const struct instance_options *options,
                                 struct instances *instances, struct berth_error *error);
// Reserves memory for one more instance with so many tokens and predictions, or BERTH_NO_MEMORY.
enum berth_status instances_reserve(struct instances *instances, size_t tokens, size_t predictions,
                                    struct berth_error *error);
// Copies `count` of the instances, in the order of their numbers `chosen`, to `to`, which is
// zero-initialised; instances_done frees it, also after a failure.
enum berth_status instances_select(const struct instances *from, const uint32_t *chosen,
                                   size_t count, struct instances *to, struct berth_error *error);
void instances_done(struct instances *instances);

// The instances as a source for the packer. The class says whether the second segment is random.
// Borrows the instances, which have at most INSTANCE_LENGTH_MAX tokens each.
struct packer_source instance_source(const struct instances *instances);

#endif
