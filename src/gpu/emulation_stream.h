// SPDX-License-Identifier: Apache-2.0
// A stream of the emulated GPU. A task runs only when the host waits for it, as late as on a real
// GPU, so code that reads a result or reuses memory too early fails. While a graph is captured,
// tasks are added to the graph instead.
#ifndef BERTH_GPU_EMULATION_STREAM_H
#define BERTH_GPU_EMULATION_STREAM_H

#include <functional>
#include <stdint.h>

struct emulated_task {
    const char *name;
    unsigned threads;             // of a block; like the name, fixed in a graph
    std::function<void(int)> run; // its argument is the number of host threads
    // Whether it may run yet; called until it returns true. Empty: it may.
    std::function<bool()> may_run = nullptr;
};

struct emulated_stream;
struct emulated_graph;

// BERTH_EMULATION_GPUS, or 1.
int emulated_gpus(void);
// Selects the GPU of the calling host thread; initially it is 0.
void emulated_use_gpu(int index);

// A stream of the thread's current GPU.
struct emulated_stream *emulated_stream_open(int threads);
bool emulated_stream_is_current(const struct emulated_stream *stream);
// Runs the tasks that remain. NULL is allowed.
void emulated_stream_close(struct emulated_stream *stream);
void emulated_stream_add(struct emulated_stream *stream, struct emulated_task task);
// The number of tasks added so far.
uint64_t emulated_stream_position(const struct emulated_stream *stream);
bool emulated_stream_is_done(const struct emulated_stream *stream, uint64_t position);
// Runs the tasks up to that position as far as they may run; true: all of them have run.
bool emulated_stream_advance(struct emulated_stream *stream, uint64_t position);
// Runs the tasks up to that position.
void emulated_stream_wait(struct emulated_stream *stream, uint64_t position);
void emulated_stream_wait_all(void);
// Whether any stream is capturing a graph.
bool emulated_stream_is_capturing(void);

void emulated_capture_begin(struct emulated_stream *stream);
// A call that captures forbid was made: ending any that is under way fails.
void emulated_captures_spoil(void);
// *graph, NULL or from an earlier capture, becomes what was captured. Returns false, and leaves it
// as it was, if the capture is spoilt.
bool emulated_capture_end(struct emulated_stream *stream, struct emulated_graph **graph);
void emulated_graph_start(const struct emulated_graph *graph, struct emulated_stream *stream);
void emulated_graph_free(struct emulated_graph *graph);

#endif
