// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint beside the next updates (async_save): the training loop begins it with a copy
// of the state in the host's memory, a thread does the steps of checkpoint.c, and after every
// update all ranks agree whether each has finished the current step.
#include "train/checkpoint/saver.h"

#include "core/memory.h"
#include "core/thread.h"

#include <string.h>

// --- the copy -----------------------------------------------------------------------------------

// Elements that a thread copies at a time.
#define CHUNK ((int64_t)1 << 20)

size_t saver_bytes(const struct param_table *table, const struct state_sharding *sharding) {
    const struct partition_rule rule = state_partition_rule(sharding);
    return 3 * (size_t)partition_elements(table, &rule, sharding->rank, table->total) *
           sizeof(float);
}

static enum berth_status host_status(struct device *device, struct berth_error *error) {
    return BERTH_OK;
}

static void copy_elements(const struct state *state, float *to, const float *from, int64_t count) {
    struct device *device = state->device;
    if (!device->is_host) {
        device->download(device, to, from, (size_t)count * sizeof *to);
        return;
    }
#pragma omp parallel for num_threads(device->threads) schedule(static)
    for (int64_t first = 0; first < count; first += CHUNK) {
        const int64_t some = count - first < CHUNK ? count - first : CHUNK;
        memcpy(to + first, from + first, (size_t)some * sizeof *to);
    }
}

enum berth_status saver_init(struct saver *saver, const struct checkpoint_content *content,
                             const char *output_dir, struct berth_error *error) {
    *saver = (struct saver){.content = content, .output_dir = output_dir};
    // The copy's weights have the layout of the whole table, but only the owned part takes memory;
    // its moments have the layout of that part.
    const struct state *state = saver->content->state;
    struct state *copy = &saver->copy;
    const size_t all = (size_t)state->table->total * sizeof(float);
    const size_t own = (size_t)state->own.elements * sizeof(float);
    saver->host =
        (struct device){.is_host = 1, .threads = state->device->threads, .status = host_status};
    *copy = (struct state){.device = &saver->host,
                           .table = state->table,
                           .partition = state->own,
                           .own = state->own,
                           .sharding = state->sharding};
    copy->master = memory_pages(all);
    copy->moment1 = memory_pages(own);
    copy->moment2 = memory_pages(own);
    return copy->master != NULL && copy->moment1 != NULL && copy->moment2 != NULL
               ? BERTH_OK
               : error_no_memory(error, 3 * own, "a copy of the state");
}

// --- the thread ---------------------------------------------------------------------------------

static enum berth_status do_phase(struct saver *saver, struct berth_error *error) {
    if (saver->phase == SAVER_FILLING) {
        return checkpoint_fill(saver->writer, &saver->copy, error);
    }
    if (saver->phase == SAVER_PUBLISHING) {
        return checkpoint_publish(saver->writer, error);
    }
    return saver->content->comm->rank == 0
               ? checkpoint_rotate(saver->output_dir, &saver->limits, error)
               : BERTH_OK;
}

static void *write_in_background(void *context) {
    struct saver *saver = context;
    saver->status = do_phase(saver, &saver->error);
    atomic_store(&saver->is_done, 1);
    return NULL;
}

// If no thread can be started, the phase runs in this one.
static void start(struct saver *saver, enum saver_phase phase) {
    saver->phase = phase;
    saver->status = BERTH_OK;
    atomic_store(&saver->is_done, 0);
    saver->is_running = thread_start(&saver->thread, write_in_background, saver) == 0;
    if (!saver->is_running) {
        (void)write_in_background(saver);
    }
}

static void join(struct saver *saver) {
    if (saver->is_running) {
        pthread_join(saver->thread, NULL);
        saver->is_running = 0;
    }
}

// --- the steps ----------------------------------------------------------------------------------

static void stop_saving(struct saver *saver, enum berth_status status) {
    if (saver->writer != NULL) {
        checkpoint_end(saver->writer, status);
        saver->writer = NULL;
    }
    saver->phase = SAVER_IDLE;
}

enum berth_status saver_begin(struct saver *saver, const struct checkpoint_limits *limits,
                              struct berth_error *error) {
    TRY(checkpoint_begin(saver->content, saver->output_dir, &saver->writer, error));
    const struct state *state = saver->content->state;
    const int is_whole = state->partition.elements == state->table->total;
    for (size_t i = 0; i < state->own.count; i++) {
        const struct partition_span *span = &state->own.spans[i];
        const int64_t held = is_whole ? span->first : span->offset;
        copy_elements(state, saver->copy.master + span->first, state->master + span->first,
                      span->count);
        copy_elements(state, saver->copy.moment1 + span->offset, state->moment1 + held,
                      span->count);
        copy_elements(state, saver->copy.moment2 + span->offset, state->moment2 + held,
                      span->count);
    }
    const enum berth_status status = checkpoint_check(saver->content, error);
    if (status != BERTH_OK) {
        stop_saving(saver, status);
        return status;
    }
    saver->limits = *limits;
    saver->step = saver->content->progress->step;
    start(saver, SAVER_FILLING);
    return BERTH_OK;
}

static void advance(struct saver *saver, int64_t *saved) {
    join(saver);
    if (saver->phase == SAVER_FILLING) {
        start(saver, SAVER_PUBLISHING);
    } else if (saver->phase == SAVER_PUBLISHING) {
        *saved = saver->step;
        checkpoint_end(saver->writer, BERTH_OK);
        saver->writer = NULL;
        start(saver, SAVER_ROTATING);
    } else {
        stop_saving(saver, BERTH_OK);
    }
}

enum berth_status saver_poll(struct saver *saver, int waits, int64_t *saved,
                             struct berth_error *error) {
    struct comm *comm = saver->content->comm;
    *saved = -1;
    while (saver_is_busy(saver)) {
        if (waits) {
            join(saver);
        }
        int is_busy = !atomic_load(&saver->is_done); // becomes the maximum over all ranks
        enum berth_status status = is_busy ? BERTH_OK : saver->status;
        if (status != BERTH_OK && error != NULL) {
            *error = saver->error;
        }
        status = comm->agree(comm, status, &is_busy, error);
        if (status != BERTH_OK) {
            // All ranks come here: none may still be writing to the folder when rank 0 removes it.
            int stop = 0;
            join(saver);
            (void)saver->content->comm->agree(saver->content->comm, BERTH_OK, &stop, NULL);
            stop_saving(saver, status);
            return status;
        }
        if (is_busy) {
            return BERTH_OK;
        }
        advance(saver, saved);
    }
    return BERTH_OK;
}

void saver_done(struct saver *saver) {
    if (saver->content == NULL) {
        return;
    }
    const size_t own = (size_t)saver->copy.own.elements * sizeof(float);
    join(saver);
    stop_saving(saver, BERTH_INTERRUPTED);
    memory_pages_free(saver->copy.master, (size_t)saver->copy.table->total * sizeof(float));
    memory_pages_free(saver->copy.moment1, own);
    memory_pages_free(saver->copy.moment2, own);
    *saver = (struct saver){0};
}
