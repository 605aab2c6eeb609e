// SPDX-License-Identifier: Apache-2.0
// The sequences of a benchmark: a data set's features or pre-training instances, as they are or
// filled up with [PAD], cut into updates beforehand.
#ifndef BERTH_TRAIN_BENCH_DATA_H
#define BERTH_TRAIN_BENCH_DATA_H

#include "core/error.h"
#include "data/pretraining/instances.h"
#include "train/bench/bench.h"
#include "train/engine/inputs.h"
#include "train/tasks/task.h"

struct bench_data {
    const struct task *task; // SQuAD, or classification where the settings name a task of it; NULL:
                             // pre-training
    struct model_files files; // without weights
    struct task_set set;
    struct instances instances;  // pre-training
    struct packer_source real;   // the sequences without padding
    struct packer_source source; // what is computed on; with pad_to the filled-up sequences
    struct bench_padded *padded; // NULL without pad_to
    uint32_t *order;             // a shuffled epoch, again and again
    size_t *cuts;                // first sequence of each update in `order`, then the end
    int64_t updates;             // warm-up ones included
    struct batch_extent worst;   // of an update as computed
    int64_t row_length; // max_seq_length; of shards, where that was not asked for, the longest
                        // sequence's
};

// But for prediction the file has labels (SQuAD's: one answer a question).
enum berth_status bench_data_open(struct bench_data *data, const struct bench_settings *settings,
                                  struct berth_error *error);
void bench_data_done(struct bench_data *data);

// Of the sequences order[first .. end), without padding.
struct bench_count {
    int64_t sequences, tokens, masked;
    double flops; // needed ones, forward
};
struct bench_count bench_data_count(const struct bench_data *data, size_t first, size_t end);

// --- shards of pre-training instances -----------------------------------------------------------

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
