// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint in the background: copies the part of the state that this rank owns; then a
// thread writes and publishes it and removes old checkpoints while training continues. The files
// are identical to those of checkpoint_write.
//
// The thread never calls another rank. The ranks agree on each step in saver_poll, which all of
// them call after every update.
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
    struct device host; // the device of the copy: host memory
    struct state copy;  // what this rank owns of the state
    struct checkpoint_writer *writer;
    struct checkpoint_limits limits; // for rotating after it is published
    enum saver_phase phase;
    int64_t step; // being saved
    pthread_t thread;
    int is_running;           // the thread must be joined
    _Atomic int is_done;      // 1: the thread has finished the phase
    enum berth_status status; // of the phase, once it is done
    struct berth_error error;
};

// Bytes of this rank's copy.
size_t saver_bytes(const struct param_table *table, const struct state_sharding *sharding);

// Allocates the copy. Borrows content and output_dir. Call saver_done even after a failure; it
// abandons a checkpoint that is still being written.
enum berth_status saver_init(struct saver *saver, const struct checkpoint_content *content,
                             const char *output_dir, struct berth_error *error);
void saver_done(struct saver *saver);

// Copies the state and starts writing checkpoint-<progress->step>. The saver must not be busy.
enum berth_status saver_begin(struct saver *saver, const struct checkpoint_limits *limits,
                              struct berth_error *error);

// Starts the next phase if all ranks have finished the current one; with `waits` completes all
// phases. Sets *saved to the step of a checkpoint that was published in this call, else to -1.
// After an error the checkpoint is abandoned; if it was already published, only the removal of old
// ones is.
enum berth_status saver_poll(struct saver *saver, int waits, int64_t *saved,
                             struct berth_error *error);

static inline int saver_is_busy(const struct saver *saver) {
    return saver->phase != SAVER_IDLE;
}

#endif
