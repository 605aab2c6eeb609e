// SPDX-License-Identifier: Apache-2.0
// Queues of tasks, and graphs; see emulation_stream.h.
#include "gpu/emulation_stream.h"

#include "gpu/gpu_api.h"

#include <deque>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vector>

struct emulated_graph {
    std::vector<struct emulated_task> tasks;
};

struct emulated_stream {
    int gpu, threads;
    std::deque<struct emulated_task> queued;
    uint64_t added, done;
    bool is_capturing, is_invalid; // a capture that a forbidden call has spoilt
    std::vector<struct emulated_task> captured;
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
    struct emulated_stream *stream =
        new emulated_stream{current_gpu, threads, {}, 0, 0, false, false, {}};
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
    if (stream->is_capturing) {
        stream->captured.push_back(std::move(task));
    } else {
        stream->queued.push_back(std::move(task));
        stream->added++;
    }
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

bool emulated_stream_is_capturing(void) {
    for (const struct emulated_stream *stream : streams) {
        if (stream->is_capturing) {
            return true;
        }
    }
    return false;
}

// --- graphs -------------------------------------------------------------------------------------

void emulated_capture_begin(struct emulated_stream *stream) {
    stream->is_capturing = true;
    stream->is_invalid = false;
    stream->captured.clear();
}

void emulated_captures_spoil(void) {
    for (struct emulated_stream *stream : streams) {
        stream->is_invalid = stream->is_capturing;
    }
}

static bool has_same_kernels(const struct emulated_graph *graph,
                             const std::vector<struct emulated_task> &tasks) {
    bool same = graph->tasks.size() == tasks.size();
    for (size_t i = 0; same && i < tasks.size(); i++) {
        same = strcmp(graph->tasks[i].name, tasks[i].name) == 0 &&
               graph->tasks[i].threads == tasks[i].threads;
    }
    return same;
}

static std::vector<struct emulated_task> end_capture(struct emulated_stream *stream) {
    stream->is_capturing = false;
    return std::move(stream->captured);
}

bool emulated_capture_end(struct emulated_stream *stream, struct emulated_graph **graph) {
    std::vector<struct emulated_task> captured = end_capture(stream);
    if (stream->is_invalid) {
        return false;
    }
    const bool updates = *graph != NULL && has_same_kernels(*graph, captured);
    emulated_counts_add(updates ? "graph update" : "graph instantiation", gpu_cost{0, 0, 0});
    if (!updates) {
        delete *graph;
        *graph = new emulated_graph;
    }
    (*graph)->tasks = std::move(captured);
    return true;
}

// Copies the tasks, because the graph may be updated before they run.
void emulated_graph_start(const struct emulated_graph *graph, struct emulated_stream *stream) {
    const std::vector<struct emulated_task> tasks = graph->tasks;
    emulated_stream_add(stream, {"graph", 0, [tasks](int threads) {
                                     emulated_counts_add("graph launch", gpu_cost{0, 0, 0});
                                     for (const struct emulated_task &task : tasks) {
                                         task.run(threads);
                                     }
                                 }});
}

void emulated_graph_free(struct emulated_graph *graph) {
    delete graph;
}
