// SPDX-License-Identifier: Apache-2.0
// One process of a job whose processes exchange messages over a transport: every pair, both
// channels at once from two threads, sizes from nothing to above every MPI's eager limit. test_mpi.sh
// starts it under real launchers.
//
// usage: launched MODULE [stay | again]
// stay: leaves without closing, as after an error; again: opens a second time after closing.
#include "comm/mpi.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 3
#define LARGEST ((size_t)3 << 20)

static const size_t sizes[] = {0, 1, 4, 1000, 4096, 65536, 70001, LARGEST};
#define SIZES (sizeof sizes / sizeof *sizes)

struct lane {
    struct transport *transport;
    enum transport_channel channel;
    uint64_t wrong;
};

// What a byte of a message is, so that any message in the wrong place is noticed.
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

// All messages to and from one peer at once: they arrive in the order in which they were sent.
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

int main(int count, char **words) {
    const char *manner = count > 2 ? words[2] : "";
    struct launch launch = launch_find();
    struct transport *transport;
    struct berth_error error;
    must(mpi_transport_open(words[1], &launch, &transport, &error), &error);
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
    if (strcmp(manner, "stay") == 0) {
        transport->close(transport, 1);
        return 75;
    }
    transport->close(transport, 0);
    if (strcmp(manner, "again") == 0) {
        must(mpi_transport_open(words[1], &launch, &transport, &error), &error);
    }
    return wrong == 0 ? 0 : 1;
}
