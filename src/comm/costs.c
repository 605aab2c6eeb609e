// SPDX-License-Identifier: Apache-2.0
// Measures the processor time that exchanges take on this machine, in one thread and with the
// functions that exchanges use. Messages go through a pipe, which costs the copies and system calls
// of a local connection but no network protocol.
#include "comm/comm_forecast.h"
#include "comm/numbers.h"
#include "core/checksum.h"
#include "core/clock.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

// LARGE exceeds the caches; CHUNK is a chunk of a step; a pipe usually holds PIPE bytes.
enum { LARGE = 16 << 20, CHUNK = 128 * 1024, PIPE = 64 * 1024, ROUNDS = 5, MESSAGES = 500 };

const struct comm_costs comm_costs_usual = {
    .memory = 1e-10, .addend = 4e-10, .checksum = 1e-10, .copy = 3e-10, .message = 1e-6};

struct buffers {
    float *from, *to; // [LARGE]
    int pipe[2];
    size_t message; // bytes of a large message: it fits into the pipe
};

static double convert(const struct buffers *buffers) {
    numbers_convert(buffers->to, DTYPE_BF16, buffers->from, DTYPE_F32, LARGE);
    return (double)LARGE * (double)(dtype_size(DTYPE_F32) + dtype_size(DTYPE_BF16));
}

static double add(const struct buffers *buffers) {
    const struct addend addends[] = {{buffers->from, DTYPE_F32, 1}, {buffers->to, DTYPE_F32, 1}};
    numbers_sum(buffers->to, DTYPE_F32, addends, 2, CHUNK);
    return 2.0 * CHUNK;
}

static double check(const struct buffers *buffers) {
    // The result is used so that the compiler keeps the call.
    buffers->to[0] = (float)(checksum_bytes(buffers->from, CHUNK * sizeof(float)) & 1);
    return (double)(CHUNK * sizeof(float));
}

// Each message is written and read: two copies, two system calls.
static double pass(const struct buffers *buffers, size_t bytes) {
    for (int i = 0; i < MESSAGES; i++) {
        if (write(buffers->pipe[1], buffers->from, bytes) != (ssize_t)bytes ||
            read(buffers->pipe[0], buffers->to, bytes) != (ssize_t)bytes) {
            return 0;
        }
    }
    return 2.0 * MESSAGES;
}

static double pass_small(const struct buffers *buffers) {
    return pass(buffers, 64);
}

static double pass_large(const struct buffers *buffers) {
    return pass(buffers, buffers->message) * (double)buffers->message;
}

// Seconds for each unit that `run` returns a count of; the fastest of a few rounds.
static double fastest(const struct buffers *buffers, double (*run)(const struct buffers *buffers)) {
    double min = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const double start = clock_now(), done = run(buffers);
        const double seconds = (clock_now() - start) / done;
        min = round == 0 || seconds < min ? seconds : min;
    }
    return min;
}

// The pipes of a user who has many are small.
static size_t find_message(const struct buffers *buffers) {
    const int held = fcntl(buffers->pipe[1], F_GETPIPE_SZ);
    return held < 0 ? PIPE_BUF : held < PIPE ? (size_t)held : PIPE;
}

static void measure(const struct buffers *buffers, struct comm_costs *costs) {
    memset(buffers->from, 0, LARGE * sizeof(float));
    memset(buffers->to, 0, LARGE * sizeof(float));
    costs->memory = fastest(buffers, convert);
    costs->addend = fastest(buffers, add);
    costs->checksum = fastest(buffers, check);
    costs->copy = fastest(buffers, pass_large);
    costs->message = fastest(buffers, pass_small);
}

enum berth_status comm_costs_measure(struct comm_costs *costs, struct berth_error *error) {
    const size_t bytes = LARGE * sizeof(float);
    struct buffers buffers = {.from = memory_pages(bytes), .to = memory_pages(bytes)};
    enum berth_status status = BERTH_OK;
    if (buffers.from == NULL || buffers.to == NULL) {
        status = error_no_memory(error, 2 * bytes, "the measurement of exchanges");
    } else if (pipe2(buffers.pipe, O_CLOEXEC) != 0) {
        status = error_set_errno(error, BERTH_UNAVAILABLE, errno, "cannot create a pipe");
    } else {
        buffers.message = find_message(&buffers);
        measure(&buffers, costs);
        close(buffers.pipe[0]);
        close(buffers.pipe[1]);
    }
    memory_pages_free(buffers.from, bytes);
    memory_pages_free(buffers.to, bytes);
    return status;
}
