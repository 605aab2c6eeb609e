// SPDX-License-Identifier: Apache-2.0
// Benchmarks of whole steps of training, prediction and pre-training, with random weights of a
// given geometry on the sequence lengths of a data set (SQuAD, a classification task, or
// pre-training shards).
//
// Required FLOPs of training = sum over the sequences of 6 S L (4 H^2 + 2 H I) + 12 L S^2 H; of
// prediction a third of that. Pre-training adds 6 (H^2 + H V) for each masked token, the only ones
// that the head's transform and decoder need. Embeddings, recomputation, slack and padding do not
// count. MFU = required FLOPs / seconds / peak; the peak is the best of ten measurements, five
// before and five after. `berth bench` prints the result (cli/bench.c); single operations are
// measured by operations/bench_ops.h.
#ifndef BERTH_BENCH_H
#define BERTH_BENCH_H

#include "comm/comm_forecast.h"
#include "core/error.h"
#include "core/log.h"
#include "settings/settings.h"

#include <stdint.h>

enum bench_kind { BENCH_TRAIN, BENCH_PREDICT, BENCH_PRETRAIN, BENCH_RANKS };

struct bench_settings {
    enum bench_kind kind;
    struct settings
        *config; // precision (auto is replaced by the choice), threads, device, instructions, seed,
                 // dropouts, optimizer, max_seq_length, vocab_file, ...
    const char *geometry; // tiny, minilm, base, large, a model folder or a config.json
    const char *data;     // file, for pre-training an HDF5 file or a folder of them; NULL:
                          // config's task_name and data_dir
    // Sequences of an update (in prediction: of a batch); 0: as many as fit into update_tokens.
    int64_t update_sequences, update_tokens;
    int64_t steps;         // measured updates (batches); 0: predict every sequence once
    int64_t warm_up_steps; // not measured
    int64_t pad_to;        // > 0: pad every sequence to this many tokens
    int no_exchange;       // training: also measure each update without its exchange between ranks
    // Training by several ranks: a file saved by BENCH_RANKS, with the seconds that each rank
    // sleeps instead of computing; exchanges are real. NULL: compute.
    const char *replay_compute;
    const struct bench_cluster *cluster; // only for BENCH_RANKS
    struct berth_log log;                // receives the plan and notes
};

// The cluster of a forecast: BENCH_RANKS measures on this machine what rank 0 computes, and
// predicts the measured updates for all ranks.
struct bench_cluster {
    int hosts, ranks_per_host;
    int rack_hosts; // of each rack; 0: all are in one
    const struct comm_link *links; // [link_count]
    size_t link_count;
    struct bench_forecast *forecasts; // [link_count] out
    const char *save_times;           // file for the measured times; NULL: none
};

struct bench_forecast {
    double seconds, samples_per_second; // of the measured updates
    double comm_exposed_seconds;        // that rank 0 waits
    int64_t comm_bytes;                 // that rank 0 sends to other hosts
    double efficiency;                  // seconds that a rank with the mean load computes / seconds
};

struct bench_figures {
    int rank, ranks; // of this process among those that compute the updates together
    int64_t steps, sequences, tokens; // measured, of all ranks; tokens without padding
    int64_t masked;                   // masked tokens; only for pre-training
    double fill; // tokens / (sequences x row length of the files); only for pre-training
    double seconds;
    double p50_seconds, p99_seconds; // of an update or batch
    double samples_per_second, tokens_per_second;
    double model_gflops; // required GFLOP per second
    double peak_gflops;  // of all ranks at once, for the dtype of the matrix products
    double mfu;
    int64_t plan_bytes, peak_rss_bytes; // of this rank
    int64_t host_plan_bytes;            // only for BENCH_RANKS: of all ranks of a host
    double forward_seconds, backward_seconds, step_seconds; // only for training
    // Only for several ranks: the updates' mean ratio of the largest part's predicted time to the
    // mean of all parts, and what this rank exchanged.
    double imbalance, comm_exposed_seconds, comm_hidden_seconds;
    int64_t comm_bytes;
    double no_exchange_seconds; // only with no_exchange: of the same updates without exchanges
};

// All processes that were started together call it; each computes its part of every training
// update. Prediction is measured in one process. Only rank 0 writes to the log.
//
// The vocabulary is config->vocab_file, else vocab.txt in the geometry's folder, else vocab.txt
// next to the data or a *vocab*.txt in its sibling folder ../vocab.
enum berth_status bench_run(const struct bench_settings *settings, struct bench_figures *figures,
                            struct berth_error *error);

#endif
