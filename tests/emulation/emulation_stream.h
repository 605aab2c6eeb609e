// SPDX-License-Identifier: Apache-2.0
// A stream of the emulated GPU. A task runs only when the host waits for it, as late as on a real
// GPU, so code that reads a result or reuses memory too early fails.
#ifndef BERTH_EMULATION_STREAM_H
#define BERTH_EMULATION_STREAM_H

#include <functional>
#include <stdint.h>

struct emulated_task {
    std::function<void(int)> run; // its argument is the number of host threads
    // Whether it may run yet; called until it returns true. Empty: it may.
    std::function<bool()> may_run = nullptr;
};

struct emulated_stream;

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

#endif
