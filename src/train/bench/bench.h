// SPDX-License-Identifier: Apache-2.0
// Whole steps of training, prediction and pre-training, measured: random weights of a given
// geometry on the real lengths of a data set, SQuAD's or a classification task's, or on
// pre-training's shards.
//
// needed FLOPs of training = sum over real sequences of 6 S L (4 H^2 + 2 H I) + 12 L S^2 H, of
// prediction a third of it; of pre-training 6 (H^2 + H V) more for each masked token, which alone
// the head's transform and decoder need. Nothing for embeddings, recomputation, slack or padding.
// MFU = needed FLOPs / seconds / peak, the peak being the best of ten readings, five before and
// five after.
#ifndef BERTH_TRAIN_BENCH_H
#define BERTH_TRAIN_BENCH_H

#include "core/error.h"
#include "core/log.h"

#include <stdint.h>

enum bench_kind { BENCH_TRAIN, BENCH_PREDICT, BENCH_PRETRAIN };

struct bench_settings {
    enum bench_kind kind;
    struct berth_config
        *config; // precision (auto becomes what was chosen), threads, device, instructions, seed,
                 // dropouts, optimizer, max_seq_length, vocab_file, ...
    const char *geometry;  // tiny, minilm, base, large, a model folder or a config.json
    const char *data;      // file; NULL: config's task_name and data_dir say. Of pre-training an
                           // HDF5 file or a folder of them
    int64_t update_tokens; // an update (a batch of prediction) holds as many sequences as fit
    int64_t steps;         // measured updates (batches)
    int64_t warm_up_steps; // not measured
    int64_t pad_to;        // > 0: every sequence is filled up to so many tokens (same sequences)
    struct berth_log log;  // gets the plan and notes
    const volatile int *stop;
};

struct bench_figures {
    int64_t steps, sequences, tokens; // measured; tokens without padding
    int64_t masked;                   // of these tokens; pre-training
    double fill; // tokens / (sequences x the length of the files' rows); pre-training
    double seconds;
    double samples_per_second, tokens_per_second;
    double model_gflops; // needed GFLOP per second
    double peak_gflops;  // of the matrix products' dtype
    double mfu;
    int64_t plan_bytes, peak_rss_bytes;
    double forward_seconds, backward_seconds, step_seconds; // training
};

// The vocabulary is config->vocab_file, else vocab.txt in the geometry's folder, else vocab.txt
// beside the data or a *vocab*.txt in ../vocab of it.
enum berth_status bench_run(const struct bench_settings *settings, struct bench_figures *figures,
                            struct berth_error *error);

#endif
