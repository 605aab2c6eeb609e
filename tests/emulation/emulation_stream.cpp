// SPDX-License-Identifier: Apache-2.0
// Queues of tasks; see emulation_stream.h.
#include "emulation/emulation_stream.h"

#include "device/gpu/gpu_api.h"

#include <deque>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vector>

struct emulated_stream {
    int gpu, threads;
    std::deque<struct emulated_task> queued;
    uint64_t added, done;
};

static std::vector<struct emulated_stream *> streams; // all that are open
static thread_local int current_gpu;

int emulated_gpus(void) {
    const char *given = getenv("BERTH_EMULATION_GPUS");
    return given != NULL ? atoi(given) : 1;
}

void emulated_use_gpu(int index) {
    current_gpu = index;
}

struct emulated_stream *emulated_stream_open(int threads) {
    struct emulated_stream *stream = new emulated_stream{current_gpu, threads, {}, 0, 0};
    streams.push_back(stream);
    return stream;
}

void emulated_stream_close(struct emulated_stream *stream) {
    if (stream == NULL) {
        return;
    }
    emulated_stream_wait(stream, UINT64_MAX);
    for (size_t i = 0; i < streams.size(); i++) {
        if (streams[i] == stream) {
            streams.erase(streams.begin() + (ptrdiff_t)i);
            break;
        }
    }
    delete stream;
}

bool emulated_stream_is_current(const struct emulated_stream *stream) {
    return stream->gpu == current_gpu;
}

void emulated_stream_add(struct emulated_stream *stream, struct emulated_task task) {
    stream->queued.push_back(std::move(task));
    stream->added++;
}

uint64_t emulated_stream_position(const struct emulated_stream *stream) {
    return stream->added;
}

bool emulated_stream_is_done(const struct emulated_stream *stream, uint64_t position) {
    return stream->done >= position;
}

bool emulated_stream_advance(struct emulated_stream *stream, uint64_t position) {
    while (stream->done < position && !stream->queued.empty()) {
        if (stream->queued.front().may_run && !stream->queued.front().may_run()) {
            return false;
        }
        const struct emulated_task task = std::move(stream->queued.front());
        stream->queued.pop_front();
        stream->done++;
        task.run(stream->threads);
    }
    return true;
}

void emulated_stream_wait(struct emulated_stream *stream, uint64_t position) {
    while (!emulated_stream_advance(stream, position)) {
        usleep(100);
    }
}

void emulated_stream_wait_all(void) {
    for (struct emulated_stream *stream : streams) {
        emulated_stream_wait(stream, UINT64_MAX);
    }
}
