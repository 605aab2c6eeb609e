// SPDX-License-Identifier: Apache-2.0
// Statistics of pre-training instances, of one shard or of several: how many sequences and tokens,
// how long they are, how many are random next sentences. The instance stage keeps them in its
// manifest and logs their sums at the end.
#ifndef BERTH_DATA_PRETRAINING_STATISTICS_H
#define BERTH_DATA_PRETRAINING_STATISTICS_H

#include "core/error.h"
#include "data/pretraining/instances.h"
#include "format/json/json.h"

#include <stdint.h>

struct pretraining_statistics {
    int64_t instances, tokens;
    int64_t predictions;            // masked positions
    int64_t masked, kept, replaced; // of these: became [MASK], stayed, became a random id; known
                                    // only for instances that this program made
    int64_t random_next;            // instances with a random second segment
    int64_t lengths[INSTANCE_LENGTH_MAX + 1];
};

// Adds the instances of a shard.
void pretraining_statistics_add(struct pretraining_statistics *statistics,
                                const struct instances *instances);
// Converts the counts to a JSON object (json_free; NULL when out of memory), and adds such an
// object to the counts.
json *pretraining_statistics_to_json(const struct pretraining_statistics *statistics,
                                     int max_length);
void pretraining_statistics_add_json(struct pretraining_statistics *statistics, const json *object);

// Writes JSON, atomically: instances, tokens, predictions, fill (the fraction of the rows that
// is not padding), masked, kept and replaced (fractions of the predictions), random_next (fraction
// of the instances), and lengths: the number of instances with 0, 1, ... max_length tokens. A
// fraction of nothing is null.
enum berth_status pretraining_statistics_write(const struct pretraining_statistics *statistics,
                                               int max_length, const char *path,
                                               struct berth_error *error);

#endif
