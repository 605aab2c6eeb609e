// SPDX-License-Identifier: Apache-2.0
// What exchanges take of this machine's processor, measured in one thread with the functions that
// exchanges use. Messages go through a pipe: copies and system calls as those of a connection
// within the machine, without a network's protocol.
#include "comm/numbers.h"
#include "core/checksum.h"
#include "core/clock.h"
#include "core/comm_forecast.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

// Large enough to be in memory, not in a cache; a chunk of a step; a pipe's capacity.
enum { LARGE = 16 << 20, CHUNK = 128 * 1024, PIPE = 64 * 1024, ROUNDS = 5, MESSAGES = 500 };

struct buffers {
    float *from, *to; // [LARGE]
    int ends[2];      // of the pipe
};

static double convert(const struct buffers *buffers) {
    numbers_convert(buffers->to, DTYPE_BF16, buffers->from, DTYPE_F32, LARGE);
    return (double)LARGE * (double)(dtype_size(DTYPE_F32) + dtype_size(DTYPE_BF16));
}

static double add(const struct buffers *buffers) {
    const struct addend addends[] = {{buffers->from, DTYPE_F32}, {buffers->to, DTYPE_F32}};
    numbers_sum(buffers->to, DTYPE_F32, addends, 2, CHUNK);
    return 2.0 * CHUNK;
}

static double check(const struct buffers *buffers) {
    // The result is used, so that the call stays.
    buffers->to[0] = (float)(checksum_bytes(buffers->from, CHUNK * sizeof(float)) & 1);
    return (double)(CHUNK * sizeof(float));
}

// Every message is written and read: two copies, two calls.
static double pass(const struct buffers *buffers, size_t bytes) {
    for (int i = 0; i < MESSAGES; i++) {
        if (write(buffers->ends[1], buffers->from, bytes) != (ssize_t)bytes ||
            read(buffers->ends[0], buffers->to, bytes) != (ssize_t)bytes) {
            return 0;
        }
    }
    return 2.0 * MESSAGES;
}

static double pass_small(const struct buffers *buffers) {
    return pass(buffers, 64);
}

static double pass_large(const struct buffers *buffers) {
    return pass(buffers, PIPE) * PIPE;
}

// Seconds for one of what `run` counts; the best of a few rounds.
static double best(const struct buffers *buffers, double (*run)(const struct buffers *buffers)) {
    double least = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const double start = clock_now(), done = run(buffers);
        const double seconds = (clock_now() - start) / done;
        least = round == 0 || seconds < least ? seconds : least;
    }
    return least;
}

static void measure(const struct buffers *buffers, struct comm_costs *costs) {
    memset(buffers->from, 0, LARGE * sizeof(float));
    memset(buffers->to, 0, LARGE * sizeof(float));
    costs->memory = best(buffers, convert);
    costs->addend = best(buffers, add);
    costs->checksum = best(buffers, check);
    costs->copy = best(buffers, pass_large);
    costs->message = best(buffers, pass_small);
}

enum berth_status comm_costs_measure(struct comm_costs *costs, struct berth_error *error) {
    const size_t bytes = LARGE * sizeof(float);
    struct buffers buffers = {memory_pages(bytes), memory_pages(bytes), {-1, -1}};
    enum berth_status status = BERTH_OK;
    if (buffers.from == NULL || buffers.to == NULL) {
        status = error_no_memory(error, 2 * bytes, "the measurement of exchanges");
    } else if (pipe2(buffers.ends, O_CLOEXEC) != 0) {
        status = error_set_errno(error, BERTH_UNAVAILABLE, errno, "cannot make a pipe");
    } else {
        measure(&buffers, costs);
        close(buffers.ends[0]);
        close(buffers.ends[1]);
    }
    memory_pages_free(buffers.from, bytes);
    memory_pages_free(buffers.to, bytes);
    return status;
}
