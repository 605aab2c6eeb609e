// SPDX-License-Identifier: Apache-2.0
// measure_exchange RANKS [RANKS_PER_HOST [bf16 [WINDOW_MIB]]]: how fast processes on this machine
// reduce and gather the gradients of BERT-base, compared with a copy of them. Not a test;
// doc/develop/performance.md has results.
#include "comm/courier.h"
#include "comm/ranks.h"
#include "core/clock.h"
#include "core/memory.h"
#include "socket_transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ELEMENTS = 110000000, RANGES = 14, ROUNDS = 5 };

struct measurement {
    int size, local_size;
    enum dtype wire;
    size_t window_bytes;
};

typedef int64_t begin_function(struct comm *comm, const struct comm_range *range);

static double exchange(struct comm *comm, begin_function *begin, float *data, enum dtype wire) {
    int64_t starts[RANGES][SOCKET_PROCESSES + 1], ticket = 0;
    double ready = 0;
    comm->sum(comm, &ready, 1);
    const double start = clock_now();
    for (int i = 0; i < RANGES; i++) {
        const int64_t first = (int64_t)ELEMENTS / RANGES * i, count = ELEMENTS / RANGES;
        for (int rank = 0; rank <= comm->size; rank++) {
            starts[i][rank] = first + count * rank / comm->size;
        }
        const struct comm_range range = {.name = "gradients",
                                         .data = data + first,
                                         .first = first,
                                         .count = count,
                                         .dtype = DTYPE_F32,
                                         .wire = wire,
                                         .starts = starts[i]};
        ticket = begin(comm, &range);
    }
    comm->wait(comm, ticket);
    return clock_now() - start;
}

static double copy(float *data, float *other) {
    const double start = clock_now();
    memcpy(other, data, ELEMENTS * sizeof(float));
    return clock_now() - start;
}

static void measure(struct comm *comm, const struct measurement *measurement) {
    float *data = memory_pages(ELEMENTS * sizeof(float));
    float *other = memory_pages(ELEMENTS * sizeof(float));
    if (data == NULL || other == NULL) {
        fprintf(stderr, "measure_exchange: out of memory\n");
        exit(1);
    }
    memset(data, 0, ELEMENTS * sizeof(float));
    memset(other, 0, ELEMENTS * sizeof(float));
    for (int round = 0; round < ROUNDS; round++) {
        const double reduce = exchange(comm, comm->reduce_begin, data, measurement->wire);
        const double gather = exchange(comm, comm->gather_begin, data, measurement->wire);
        const double memory = copy(data, other);
        if (comm->rank == 0) {
            const double gigabytes = ELEMENTS * sizeof(float) * 1e-9;
            printf("reduce %.3f s (%.2f GB/s), gather %.3f s (%.2f GB/s), copy %.3f s (%.2f "
                   "GB/s)\n",
                   reduce, gigabytes / reduce, gather, gigabytes / gather, memory,
                   gigabytes / memory);
        }
    }
    memory_pages_free(data, ELEMENTS * sizeof(float));
    memory_pages_free(other, ELEMENTS * sizeof(float));
}

static int run(struct socket_job *job, int process, const struct measurement *measurement) {
    char host[16];
    struct berth_error error;
    struct comm *comm;
    snprintf(host, sizeof host, "%d", process / measurement->local_size);
    const struct comm_settings settings = {
        .timeout_seconds = 60, .host = host, .window_bytes = measurement->window_bytes};
    socket_job_leave(job, process);
    if (comm_ranks_open(socket_transport_open(job, process, NULL), &settings, &comm, &error) !=
        BERTH_OK) {
        fprintf(stderr, "measure_exchange: %s\n", error.message);
        return 1;
    }
    measure(comm, measurement);
    const int failed = comm->status(comm, &error) != BERTH_OK;
    if (failed) {
        fprintf(stderr, "measure_exchange: %s\n", error.message);
    }
    comm->close(comm);
    return failed;
}

int main(int count, char **arguments) {
    struct measurement measurement = {.size = count > 1 ? atoi(arguments[1]) : 2};
    measurement.local_size = count > 2 ? atoi(arguments[2]) : measurement.size;
    measurement.wire = count > 3 && strcmp(arguments[3], "bf16") == 0 ? DTYPE_BF16 : DTYPE_F32;
    measurement.window_bytes = (size_t)(count > 4 ? atoi(arguments[4]) : 0) << 20;
    struct socket_job job;
    int status, failed = 0;
    socket_job_init(&job, measurement.size);
    for (int process = 0; process < measurement.size; process++) {
        if (fork() == 0) {
            return run(&job, process, &measurement);
        }
    }
    socket_job_done(&job);
    while (wait(&status) > 0) {
        failed |= status != 0;
    }
    return failed;
}
