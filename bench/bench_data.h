// SPDX-License-Identifier: Apache-2.0
// The sequences of a benchmark: a data set's features or pre-training instances, packed or padded
// with [PAD], divided into updates in advance. bench.c opens them.
#ifndef BERTH_BENCH_DATA_H
#define BERTH_BENCH_DATA_H

#include "bench/bench.h"
#include "core/error.h"
#include "data/pretraining/instances.h"
#include "train/engine/inputs.h"
#include "train/tasks/training_task.h"

struct bench_data {
    const struct training_task *task; // SQuAD, or classification if the settings name such a task;
                                      // NULL: pre-training
    struct model_files files;         // without weights
    struct task_set set;
    struct instances instances;  // only for pre-training
    struct packer_source real;   // the sequences without padding
    struct packer_source source; // the sequences to compute on; with pad_to the padded ones
    struct bench_padded *padded; // NULL without pad_to
    uint32_t *order;             // shuffled epochs, one after the other
    size_t *cuts;                // [updates + 1] index in `order` where each update begins
    int64_t updates;             // including warm-up
    int64_t warm_up;             // not measured
    struct batch_extent worst;   // largest extent of a part of an update
    int64_t max_sequences;       // largest number in an update
    int64_t row_length; // max_seq_length; for shards without that setting, the length of the
                        // longest sequence
};

// Except for prediction, the file must have labels (SQuAD: one answer per question). Updates are
// divided into `parts` (division.h).
enum berth_status bench_data_open(struct bench_data *data, const struct bench_settings *settings,
                                  int64_t parts, struct berth_error *error);
void bench_data_done(struct bench_data *data);

// Totals over the sequences order[first .. end), without padding.
struct bench_count {
    int64_t sequences, tokens, masked;
    double flops; // required, of a forward pass
};
struct bench_count bench_data_count(const struct bench_data *data, size_t first, size_t end);

// --- shards of pre-training instances -----------------------------------------------------------

struct bench_shards {
    const char *path;   // a file of instances, or a folder whose files are read in name order
    int64_t tokens;     // stop reading files after this many tokens
    int32_t vocab_size; // of the geometry
    int64_t max_length; // maximum length of a row; 0: any
};

// Appends to `instances`; the caller calls instances_done even on failure.
enum berth_status bench_shards_read(const struct bench_shards *shards, struct instances *instances,
                                    struct berth_error *error);

#endif
