// SPDX-License-Identifier: Apache-2.0
// A stream of the emulated GPU. What is added to it waits until somebody waits for the stream, as
// late as a GPU may do it: whoever reads a result or reuses memory too early finds out. While a
// graph is captured, what is added goes to the graph.
#ifndef BERTH_GPU_EMULATION_STREAM_H
#define BERTH_GPU_EMULATION_STREAM_H

#include <functional>
#include <stdint.h>

struct emulated_task {
    const char *name;
    unsigned threads;             // of a block; with the name, what a graph cannot be updated in
    std::function<void(int)> run; // with that many threads of the host
    // Whether it may run; asked again and again until it may. Empty: always.
    std::function<bool()> may_run = nullptr;
};

struct emulated_stream;
struct emulated_graph;

// BERTH_EMULATION_GPUS, or 1.
int emulated_gpus(void);
// The GPU that the calling thread of the host uses from now on; before, 0.
void emulated_use_gpu(int index);

// Of the thread's GPU.
struct emulated_stream *emulated_stream_open(int threads);
bool emulated_stream_is_here(const struct emulated_stream *stream);
// Does what still waits. NULL: nothing.
void emulated_stream_close(struct emulated_stream *stream);
int emulated_stream_threads(const struct emulated_stream *stream);
void emulated_stream_add(struct emulated_stream *stream, struct emulated_task task);
// The number of tasks that were added so far.
uint64_t emulated_stream_position(const struct emulated_stream *stream);
bool emulated_stream_is_done(const struct emulated_stream *stream, uint64_t position);
// Does the tasks up to that position, as far as they may run; true: all of them.
bool emulated_stream_advance(struct emulated_stream *stream, uint64_t position);
// Does the tasks up to that position.
void emulated_stream_wait(struct emulated_stream *stream, uint64_t position);
void emulated_stream_wait_all(void);
// Whether any stream captures a graph.
bool emulated_stream_captures(void);

void emulated_capture_begin(struct emulated_stream *stream);
// *graph, NULL or of an earlier capture, becomes what was captured.
void emulated_capture_end(struct emulated_stream *stream, struct emulated_graph **graph);
void emulated_graph_start(const struct emulated_graph *graph, struct emulated_stream *stream);
void emulated_graph_free(struct emulated_graph *graph);

#endif
