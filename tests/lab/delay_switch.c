// SPDX-License-Identifier: Apache-2.0
// A network switch that delivers each frame a fixed time after it was sent, for kernels without
// netem.
//
//   delay_switch LAB HOSTS MILLISECONDS
//
// Each network namespace LABh1 ... LABhHOSTS gets a tap as its eth0, without an address. The switch
// learns the hosts' addresses, keeps frames in order and runs until it is killed. Not simulated:
// jitter, loss, the rate of a link (hosts.sh shapes the host's side).

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_HOSTS = 16,
    FRAME_BYTES = 1600,
    QUEUE_FRAMES = 16384, // 10 ms of eight hosts at 1 Gbit/s are 6,700 full frames
    ADDRESS_BYTES = 6,
    BURST = 64, // frames read from one host before the next one
};

struct frame {
    double due;   // seconds of the monotonic clock
    int from, to; // hosts from 0; to is -1 for all others
    int bytes;
    unsigned char data[FRAME_BYTES]; // destination, source, the rest
};

struct switch_state {
    int hosts;
    double delay; // seconds
    int taps[MAX_HOSTS];
    unsigned char addresses[MAX_HOSTS][ADDRESS_BYTES];
    struct frame *queue; // QUEUE_FRAMES, a ring
    size_t added, sent;
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

// The tap becomes eth0 of the namespace in which it is created; its descriptor works in any.
static int open_tap(const char *lab, int host) {
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%sh%d", lab, host + 1);
    int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC),
        theirs = open(path, O_RDONLY | O_CLOEXEC);
    if (own < 0 || theirs < 0 || setns(theirs, CLONE_NEWNET))
        die(path);
    struct ifreq request = {.ifr_name = "eth0", .ifr_flags = IFF_TAP | IFF_NO_PI};
    int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tap < 0 || ioctl(tap, TUNSETIFF, &request) < 0)
        die("/dev/net/tun");
    if (setns(own, CLONE_NEWNET))
        die("setns");
    close(own);
    close(theirs);
    return tap;
}

static int host_of(const struct switch_state *state, const unsigned char *address) {
    for (int host = 0; host < state->hosts; host++)
        if (memcmp(state->addresses[host], address, ADDRESS_BYTES) == 0)
            return host;
    return -1;
}

static void take_frames(struct switch_state *state, int host) {
    for (int burst = 0; burst < BURST && state->added - state->sent < QUEUE_FRAMES; burst++) {
        struct frame *frame = &state->queue[state->added % QUEUE_FRAMES];
        ssize_t bytes = read(state->taps[host], frame->data, FRAME_BYTES);
        if (bytes < 2 * ADDRESS_BYTES)
            return;
        memcpy(state->addresses[host], frame->data + ADDRESS_BYTES, ADDRESS_BYTES);
        frame->bytes = (int)bytes;
        frame->from = host;
        frame->to = host_of(state, frame->data);
        frame->due = now() + state->delay;
        state->added++;
    }
}

// A frame is lost if the host's queue is full or its network is down.
static void deliver(int tap, const struct frame *frame) {
    if (write(tap, frame->data, (size_t)frame->bytes) < 0 && errno != EAGAIN && errno != EIO)
        die("write");
}

static void send_due_frames(struct switch_state *state) {
    double time = now();
    for (; state->sent != state->added; state->sent++) {
        const struct frame *frame = &state->queue[state->sent % QUEUE_FRAMES];
        if (frame->due > time)
            return;
        for (int host = 0; host < state->hosts; host++) {
            bool wanted = frame->to < 0 ? host != frame->from : host == frame->to;
            if (wanted)
                deliver(state->taps[host], frame);
        }
    }
}

static void wait_for_frames(const struct switch_state *state) {
    struct pollfd polled[MAX_HOSTS];
    for (int host = 0; host < state->hosts; host++)
        polled[host] = (struct pollfd){.fd = state->taps[host], .events = POLLIN};
    double wait = 1;
    if (state->sent != state->added)
        wait = state->queue[state->sent % QUEUE_FRAMES].due - now();
    if (wait < 0)
        wait = 0;
    struct timespec limit = {.tv_sec = (time_t)wait,
                             .tv_nsec = (long)((wait - (double)(time_t)wait) * 1e9)};
    ppoll(polled, (nfds_t)state->hosts, &limit, NULL);
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    struct switch_state state = {.hosts = atoi(argv[2]), .delay = atof(argv[3]) / 1e3};
    if (state.hosts < 1 || state.hosts > MAX_HOSTS)
        return 2;
    state.queue = malloc(QUEUE_FRAMES * sizeof *state.queue);
    if (state.queue == NULL)
        die("malloc");
    for (int host = 0; host < state.hosts; host++)
        state.taps[host] = open_tap(argv[1], host);
    puts("ready");
    fflush(stdout);
    for (;;) {
        wait_for_frames(&state);
        for (int host = 0; host < state.hosts; host++)
            take_frames(&state, host);
        send_due_frames(&state);
    }
}
