// SPDX-License-Identifier: Apache-2.0
// Benchmarks of whole steps of training, prediction and pre-training: random weights of a given
// geometry, on the real lengths of a data set (SQuAD, a classification task, or pre-training
// shards).
//
// Required FLOPs of training = sum over the sequences of 6 S L (4 H^2 + 2 H I) + 12 L S^2 H; of
// prediction a third of that. Pre-training adds 6 (H^2 + H V) for each masked token, the only ones
// that the head's transform and decoder need. Embeddings, recomputation, slack and padding count
// nothing. MFU = required FLOPs / seconds / peak; the peak is the best of ten measurements, five
// before and five after.
#ifndef BERTH_TRAIN_BENCH_H
#define BERTH_TRAIN_BENCH_H

#include "core/error.h"
#include "core/log.h"

#include <stdint.h>

enum bench_kind { BENCH_TRAIN, BENCH_PREDICT, BENCH_PRETRAIN };

struct bench_settings {
    enum bench_kind kind;
    struct berth_config
        *config; // precision (auto is replaced by the choice), threads, device, instructions, seed,
                 // dropouts, optimizer, max_seq_length, vocab_file, ...
    const char *geometry;  // tiny, minilm, base, large, a model folder or a config.json
    const char *data;      // file, for pre-training an HDF5 file or a folder of them; NULL:
                           // config's task_name and data_dir
    int64_t update_tokens; // an update (batch of prediction) holds as many sequences as fit
    int64_t steps;         // measured updates (batches)
    int64_t warm_up_steps; // not measured
    int64_t pad_to;        // > 0: pad every sequence to this many tokens (same sequences)
    struct berth_log log;  // receives the plan and notes
    const volatile int *stop;
};

struct bench_figures {
    int64_t steps, sequences, tokens; // measured ones; tokens without padding
    int64_t masked;                   // of these tokens; only for pre-training
    double fill; // tokens / (sequences x row length of the files); only for pre-training
    double seconds;
    double samples_per_second, tokens_per_second;
    double model_gflops; // required GFLOP per second
    double peak_gflops;  // for the dtype of the matrix products
    double mfu;
    int64_t plan_bytes, peak_rss_bytes;
    double forward_seconds, backward_seconds, step_seconds; // only for training
};

// The vocabulary is config->vocab_file, else vocab.txt in the geometry's folder, else vocab.txt
// next to the data or a *vocab*.txt in its sibling folder ../vocab.
enum berth_status bench_run(const struct bench_settings *settings, struct bench_figures *figures,
                            struct berth_error *error);

#endif
