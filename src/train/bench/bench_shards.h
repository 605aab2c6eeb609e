// SPDX-License-Identifier: Apache-2.0
// Shards of pre-training instances, read for a benchmark.
#ifndef BERTH_TRAIN_BENCH_SHARDS_H
#define BERTH_TRAIN_BENCH_SHARDS_H

#include "core/error.h"
#include "data/pretraining/instances.h"

#include <stdint.h>

struct bench_shards {
    const char *path; // a file of instances, or a folder whose files are read in their names' order
    int64_t tokens;   // enough: further files are not read
    int32_t vocab_size;     // of the geometry
    int64_t max_seq_length; // rows are at most so long; 0: of any length
};

// Appends to `instances`; instances_done is the caller's, also after a failure.
enum berth_status bench_shards_read(const struct bench_shards *shards, struct instances *instances,
                                    struct berth_error *error);

#endif
