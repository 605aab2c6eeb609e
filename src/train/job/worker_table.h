// SPDX-License-Identifier: Apache-2.0
// The results of independent workers, gathered when all have ended: which one is the best, the
// report of all, and the best one's files in the output folder. workers.c runs the workers.
#ifndef BERTH_TRAIN_WORKER_TABLE_H
#define BERTH_TRAIN_WORKER_TABLE_H

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "train/job/training_job.h"

// Plain data, because the processes send it to each other.
struct worker_row {
    char host[64];
    int64_t seed;
    struct training_outcome outcome;
    struct berth_error error; // status BERTH_OK: the worker has finished
};

struct worker_table {
    const char *output_dir;
    struct worker_row *rows; // [count], by rank
    int count;
    int best; // -1: none
};

// The path <output_dir>/worker-<rank>.
struct path worker_folder(const char *output_dir, int rank);

// Sets `best` to the finished worker with the best score; among equals to the first.
void worker_table_pick(struct worker_table *table);

// The first worker that was stopped by a request, else the first that failed; -1: all have
// finished.
int worker_table_unfinished(const struct worker_table *table);

// Logs a line for each worker.
void worker_table_report(const struct worker_table *table, const struct berth_log *log);

// Copies the files of the best worker to output_dir and writes workers.json. Weights are removed
// first and copied last, so if there are weights, everything next to them is from the same worker.
// The caller must hold the lock of output_dir.
enum berth_status worker_table_publish(const struct worker_table *table, struct berth_error *error);

#endif
