// SPDX-License-Identifier: Apache-2.0
#include "serve/reader.h"

#include "core/memory.h"
#include "core/thread.h"
#include "serve/turns.h"

#include <pthread.h>

struct reader {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t not_empty;
    struct turns turns;
    int has_ended;
    void (*read)(void *context, struct call *call);
    void *context;
};

// NULL: the reader has ended.
static struct call *take(struct reader *reader) {
    pthread_mutex_lock(&reader->lock);
    while (turns_first(&reader->turns) == NULL && !reader->has_ended) {
        pthread_cond_wait(&reader->not_empty, &reader->lock);
    }
    struct call *call = turns_first(&reader->turns);
    if (call != NULL) {
        turns_next(&reader->turns, 1);
    }
    pthread_mutex_unlock(&reader->lock);
    return call;
}

static void *run(void *context) {
    struct reader *reader = context;
    (void)pthread_setname_np(pthread_self(), "berth-reader");
    for (struct call *call; (call = take(reader)) != NULL;) {
        reader->read(reader->context, call);
    }
    return NULL;
}

enum berth_status reader_open(void (*read)(void *context, struct call *call), void *context,
                              struct reader **reader, struct berth_error *error) {
    struct reader *opened = memory_array_zeroed(1, sizeof *opened);
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "a thread");
    }
    opened->read = read;
    opened->context = context;
    pthread_mutex_init(&opened->lock, NULL);
    pthread_cond_init(&opened->not_empty, NULL);
    enum berth_status status = thread_open(&opened->thread, run, opened, error);
    if (status != BERTH_OK) {
        reader_close(opened);
        return status;
    }
    *reader = opened;
    return BERTH_OK;
}

static enum berth_status put(struct reader *reader, struct call *call, struct berth_error *error) {
    if (reader->has_ended) {
        return error_set(error, BERTH_UNAVAILABLE, "the server is shutting down");
    }
    if (!turns_put(&reader->turns, call, 0)) {
        return error_no_memory(error, sizeof(struct client), "a client");
    }
    pthread_cond_signal(&reader->not_empty);
    return BERTH_OK;
}

enum berth_status reader_put(struct reader *reader, struct call *call, struct berth_error *error) {
    pthread_mutex_lock(&reader->lock);
    enum berth_status status = put(reader, call, error);
    pthread_mutex_unlock(&reader->lock);
    return status;
}

void reader_end(struct reader *reader) {
    if (reader != NULL) {
        pthread_mutex_lock(&reader->lock);
        reader->has_ended = 1;
        pthread_cond_signal(&reader->not_empty);
        pthread_mutex_unlock(&reader->lock);
        pthread_join(reader->thread, NULL);
    }
}

void reader_close(struct reader *reader) {
    if (reader != NULL) {
        pthread_cond_destroy(&reader->not_empty);
        pthread_mutex_destroy(&reader->lock);
        memory_free(reader);
    }
}
