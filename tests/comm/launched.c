// SPDX-License-Identifier: Apache-2.0
// One process of a job that a real launcher starts (test_mpi.sh, ../lab/test_hosts.sh).
//
// usage: launched MODULE [stay | again]    messages over the transport between every pair, on all
//                                          channels at once, one thread each, of sizes from 0 to
//                                          more than every MPI's eager limit. stay: leave as after
//                                          an error; again: repeat after closing
//        launched MODULE letter FILE       two processes of a host: the first one sends and then
//                                          creates FILE; the second one waits for FILE and must
//                                          find the message in its first poll
//        launched NAME ranks ELEMENTS [native]   a communicator: a sum, and a range of so many
//        elements
//                                          reduced and gathered, then reduced to all; in bf16 once
//                                          more
//        launched NAME expect              expects others for half a second, and none comes
#include "comm/comm.h"
#include "comm/mpi.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 3
#define LARGEST ((size_t)3 << 20)

static const size_t sizes[] = {0, 1, 4, 1000, 4096, 65536, 70001, LARGEST};
#define SIZES (sizeof sizes / sizeof *sizes)

struct lane {
    struct transport *transport;
    enum transport_channel channel;
    uint64_t wrong;
};

// The value of a byte of a message, such that a message that is delivered wrongly is noticed.
static uint8_t byte_of(int from, int to, int channel, size_t message, size_t at) {
    return (uint8_t)(from * 31 + to * 17 + channel * 101 + (int)message * 7 + (int)(at * 13 % 251));
}

static void must(enum berth_status status, const struct berth_error *error) {
    if (status != BERTH_OK) {
        fprintf(stderr, "launched: %s\n", error->message);
        exit(status);
    }
}

static void finish(struct transport *transport, struct transport_message *message) {
    struct berth_error error;
    for (int done = 0; !done;) {
        must(transport->test(transport, message, &done, &error), &error);
        sched_yield();
    }
}

// Exchanges all messages with one peer at once; they must arrive in the order in which they were
// sent.
static void exchange_with(struct lane *lane, int peer) {
    struct transport *transport = lane->transport;
    struct transport_message sent[SIZES], received[SIZES];
    struct berth_error error;
    for (size_t i = 0; i < SIZES; i++) {
        uint8_t *out = malloc(sizes[i] + 1), *in = malloc(sizes[i] + 1);
        for (size_t j = 0; j < sizes[i]; j++) {
            out[j] = byte_of(transport->rank, peer, lane->channel, i, j);
        }
        in[sizes[i]] = 0xA5;
        sent[i] = (struct transport_message){
            .peer = peer, .channel = lane->channel, .data = out, .bytes = sizes[i]};
        received[i] = (struct transport_message){
            .peer = peer, .channel = lane->channel, .data = in, .bytes = sizes[i]};
        must(transport->receive(transport, &received[i], &error), &error);
        must(transport->send(transport, &sent[i], &error), &error);
    }
    for (size_t i = SIZES; i-- > 0;) {
        finish(transport, &received[i]);
        finish(transport, &sent[i]);
        const uint8_t *in = received[i].data;
        for (size_t j = 0; j < sizes[i]; j++) {
            lane->wrong += in[j] != byte_of(peer, transport->rank, lane->channel, i, j);
        }
        lane->wrong += in[sizes[i]] != 0xA5;
        free(sent[i].data);
        free(received[i].data);
    }
}

static void *run_lane(void *argument) {
    struct lane *lane = argument;
    for (int round = 0; round < ROUNDS; round++) {
        for (int peer = 0; peer < lane->transport->size; peer++) {
            if (peer != lane->transport->rank) {
                exchange_with(lane, peer);
            }
        }
    }
    return NULL;
}

// --- a communicator -----------------------------------------------------------------------------

// Element i of rank r's range is (r + 1) (i % period), so that sums are exact.
static void fill(float *values, const struct comm *comm, int64_t count, int period) {
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)(comm->rank + 1) * (float)(i % period);
    }
}

static int64_t count_wrong(const float *values, const struct comm *comm, int64_t count,
                           int period) {
    const float total = (float)comm->size * (float)(comm->size + 1) / 2.0f;
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        wrong += values[i] != total * (float)(i % period);
    }
    return wrong;
}

// Reduces and gathers, then reduces to all.
static int64_t exchange_range(struct comm *comm, struct comm_range range, int period) {
    int64_t wrong = 0;
    fill(range.data, comm, range.count, period);
    comm->wait(comm, comm->reduce_begin(comm, &range));
    comm->wait(comm, comm->gather_begin(comm, &range));
    wrong += count_wrong(range.data, comm, range.count, period);
    fill(range.data, comm, range.count, period);
    range.to_all = 1;
    comm->wait(comm, comm->reduce_begin(comm, &range));
    return wrong + count_wrong(range.data, comm, range.count, period);
}

static int run_ranks(const char *name, int64_t count, int native) {
    const struct comm_options options = {.name = name, .timeout_seconds = 60.0};
    struct comm *comm;
    struct berth_error error;
    must(comm_open(&options, &comm, &error), &error);
    const int size = comm->size;
    float *values = malloc((size_t)count * sizeof *values);
    int64_t *starts = malloc(((size_t)size + 1) * sizeof *starts);
    for (int i = 0; i <= size; i++) {
        starts[i] = count * i / size;
    }
    struct comm_range range = {.name = "test",
                               .data = values,
                               .count = count,
                               .dtype = DTYPE_F32,
                               .wire = DTYPE_F32,
                               .starts = starts,
                               .native = native};
    if (native && comm->native_missing != NULL) {
        // One write. A compiler makes puts() of "%s\n", which writes the end of the line apart,
        // because MPICH makes stdout unbuffered.
        printf("not native: %s\n", comm->native_missing);
    }
    double sum = comm->rank;
    comm->sum(comm, &sum, 1);
    int64_t wrong = sum != size * (size - 1) / 2.0;
    wrong += exchange_range(comm, range, 1000);
    const uint64_t sent = comm->stats(comm).bytes;
    range.wire = DTYPE_BF16;
    wrong += exchange_range(comm, range, 3);
    range.wire = DTYPE_F16;
    wrong += exchange_range(comm, range, 3);
    must(comm->agree(comm, BERTH_OK, &(int){0}, &error), &error);
    printf("%s rank %d of %d, local rank %d of %d on host %d of %d, %llu bytes sent: %lld wrong\n",
           comm->name, comm->rank, size, comm->local_rank, comm->local_size, comm->host,
           comm->host_count, (unsigned long long)sent, (long long)wrong);
    comm->close(comm);
    free(values);
    free(starts);
    return wrong == 0 ? 0 : 1;
}

// --- messages -----------------------------------------------------------------------------------

static int run_messages(const char *module, int fails) {
    struct launch launch = launch_find();
    struct transport *transport;
    struct berth_error error;
    must(mpi_transport_open(module, &launch, &transport, &error), &error);
    struct lane lanes[TRANSPORT_CHANNELS];
    pthread_t threads[TRANSPORT_CHANNELS];
    for (int i = 0; i < TRANSPORT_CHANNELS; i++) {
        lanes[i] = (struct lane){.transport = transport, .channel = (enum transport_channel)i};
        if (pthread_create(&threads[i], NULL, run_lane, &lanes[i]) != 0) {
            return 1;
        }
    }
    uint64_t wrong = 0;
    for (int i = 0; i < TRANSPORT_CHANNELS; i++) {
        pthread_join(threads[i], NULL);
        wrong += lanes[i].wrong;
    }
    printf("%s process %d of %d, %s: %llu wrong\n", transport->name, transport->rank,
           transport->size, transport->version, (unsigned long long)wrong);
    fflush(stdout);
    transport->close(transport, fails);
    return wrong == 0 ? 0 : 1;
}

static int run_letter(const char *module, const char *file) {
    struct launch launch = launch_find();
    struct transport *transport;
    struct berth_error error;
    int64_t letter = 17, found = 0;
    int peer = -1;
    must(mpi_transport_open(module, &launch, &transport, &error), &error);
    if (transport->rank == 0) {
        struct transport_message message = {
            .peer = 1, .channel = TRANSPORT_MONITOR, .data = &letter, .bytes = sizeof letter};
        must(transport->send(transport, &message, &error), &error);
        finish(transport, &message);
        fclose(fopen(file, "w"));
    } else {
        while (access(file, F_OK) != 0) {
            sched_yield();
        }
        must(transport->receive_any(transport, TRANSPORT_MONITOR, &found, sizeof found, &peer,
                                    &error),
             &error);
        printf("from process %d: %d\n", peer, (int)found);
        fflush(stdout);
    }
    transport->close(transport, TRANSPORT_DONE);
    return 0;
}

int main(int count, char **words) {
    if (count > 3 && strcmp(words[2], "letter") == 0) {
        return run_letter(words[1], words[3]);
    }
    if (count > 3) {
        return run_ranks(words[1], atoll(words[3]), count > 4 && strcmp(words[4], "native") == 0);
    }
    const char *mode = count > 2 ? words[2] : "";
    if (strcmp(mode, "expect") == 0) {
        struct berth_error error;
        must(comm_expect(0.5, &error), &error);
        pause();
    }
    const int stays = strcmp(mode, "stay") == 0;
    int failed = run_messages(words[1], stays);
    if (strcmp(mode, "again") == 0) {
        failed |= run_messages(words[1], 0);
    }
    return stays ? 75 : failed;
}
