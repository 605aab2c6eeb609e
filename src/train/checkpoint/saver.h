// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint beside the next updates: copies the part of the state that this rank owns,
// and a thread writes it, publishes it and removes old ones, while training goes on. Its bytes are
// those of checkpoint_write.
//
// The thread never calls another rank. The ranks agree on each step in saver_poll, which all of
// them call after each update.
#ifndef BERTH_TRAIN_SAVER_H
#define BERTH_TRAIN_SAVER_H

#include "core/error.h"
#include "train/checkpoint/checkpoint.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum saver_phase { SAVER_IDLE, SAVER_FILLING, SAVER_PUBLISHING, SAVER_ROTATING };

struct saver {
    const struct checkpoint_content *content;
    const char *output_dir;
    struct device host; // where the copy is
    struct state copy;  // of what this rank owns of the state
    struct checkpoint_writer *writer;
    struct checkpoint_limits limits; // once it is published
    enum saver_phase phase;
    int64_t step; // that is saved
    pthread_t thread;
    int is_running;           // the thread is to be joined
    _Atomic int is_done;      // with the phase
    enum berth_status status; // of the phase, once it is done
    struct berth_error error;
};

// Bytes of the copy: at most what the largest part of any rank takes.
size_t saver_bytes(const struct param_table *table, const struct state_sharding *sharding);

// Takes the memory. Borrows content and output_dir. saver_done frees, also after a failure; what is
// still being written is given up then.
enum berth_status saver_init(struct saver *saver, const struct checkpoint_content *content,
                             const char *output_dir, struct berth_error *error);
void saver_done(struct saver *saver);

// Copies the state and begins to write checkpoint-<progress->step>. Nothing may be under way.
enum berth_status saver_begin(struct saver *saver, const struct checkpoint_limits *limits,
                              struct berth_error *error);

// Takes the next steps whose turn it is; waits for all of them if `waits`. Sets *saved to the step
// of a checkpoint that was published in this call, else to -1. An error gives up what was under
// way; if the checkpoint was published before, only the old ones are still there.
enum berth_status saver_poll(struct saver *saver, int waits, int64_t *saved,
                             struct berth_error *error);

static inline int saver_is_busy(const struct saver *saver) {
    return saver->phase != SAVER_IDLE;
}

#endif
