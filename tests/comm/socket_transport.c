// SPDX-License-Identifier: Apache-2.0
// A transport over socket pairs; see socket_transport.h.
#include "socket_transport.h"

#include "comm/range_message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// The messages in flight to or from a process, in order; each is preceded by its size. A message's
// `request` points to the next one.
struct queue {
    struct transport_message *first, *last;
    uint64_t size; // of the first message, as sent or received
    size_t done;   // its bytes that have moved, those of `size` included
};

struct link {
    int end;
    struct queue out, in;
    uint64_t bytes, messages; // sent
};

struct sockets {
    struct transport transport;
    struct link links[TRANSPORT_CHANNELS][SOCKET_PROCESSES];
    struct socket_faults faults;
    int64_t sent; // messages on TRANSPORT_RANGES and TRANSPORT_RELAYS
    atomic_int is_hanging;
};

static char is_done; // what the request of a completed message points to

static struct sockets *sockets_of(const struct transport *transport) {
    return transport->state;
}

// --- queues -------------------------------------------------------------------------------------

static void append(struct queue *queue, struct transport_message *message) {
    message->request.pointer = NULL;
    if (queue->first == NULL) {
        queue->first = message;
        queue->done = 0;
    } else {
        queue->last->request.pointer = message;
    }
    queue->last = message;
}

static void complete_first(struct queue *queue) {
    struct transport_message *message = queue->first;
    queue->first = message->request.pointer;
    queue->done = 0;
    message->request.pointer = &is_done;
}

typedef ssize_t move_function(int end, void *data, size_t bytes);

static ssize_t move_out(int end, void *data, size_t bytes) {
    return send(end, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t move_in(int end, void *data, size_t bytes) {
    const ssize_t moved = recv(end, data, bytes, MSG_DONTWAIT);
    if (moved == 0) {
        errno = ECONNRESET;
        return -1;
    }
    return moved;
}

// Moves as much of a block as is possible now. 0: nothing; -1: the peer is gone.
static int move_block(int end, void *block, size_t bytes, move_function *move, size_t *done) {
    const ssize_t moved = move(end, (char *)block + *done, bytes - *done);
    if (moved < 0) {
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    *done += (size_t)moved;
    return 1;
}

// Moves part of the first message: first its size, then its data.
static int move_first(int end, struct queue *queue, move_function *move) {
    struct transport_message *message = queue->first;
    size_t done = queue->done < sizeof queue->size ? queue->done : queue->done - sizeof queue->size;
    int moved;
    if (queue->done < sizeof queue->size) {
        moved = move_block(end, &queue->size, sizeof queue->size, move, &done);
        queue->done = done;
    } else {
        moved = move_block(end, message->data, message->bytes, move, &done);
        queue->done = sizeof queue->size + done;
    }
    return moved;
}

static enum berth_status progress_queue(struct link *link, struct queue *queue, move_function *move,
                                        int peer, struct berth_error *error) {
    while (queue->first != NULL) {
        if (queue->done == 0) {
            queue->size = queue->first->bytes;
        }
        const int moved = move_first(link->end, queue, move);
        if (moved < 0) {
            return error_set(error, BERTH_UNAVAILABLE, "process %d is gone (%s)", peer,
                             strerror(errno));
        }
        if (moved == 0) {
            return BERTH_OK;
        }
        if (queue->done >= sizeof queue->size && queue->size != queue->first->bytes) {
            return error_set(error, BERTH_INTERNAL,
                             "a message from process %d has %zu bytes, not %zu", peer,
                             (size_t)queue->size, queue->first->bytes);
        }
        if (queue->done == sizeof queue->size + queue->first->bytes) {
            complete_first(queue);
        }
    }
    return BERTH_OK;
}

// --- the transport ------------------------------------------------------------------------------

static void damage(const struct socket_faults *faults, const struct transport_message *message) {
    ((char *)message->data)[faults->flip_byte] ^= 1;
    if (faults->seals_again) {
        range_message_seal(message->data, message->bytes - sizeof(struct range_header));
    }
}

static void hang(const struct sockets *sockets) {
    while (atomic_load(&sockets->is_hanging)) {
        pause();
    }
}

// Removes a message that could not be sent, which then belongs to the caller again.
static void withdraw(struct queue *queue, const struct transport_message *message) {
    struct transport_message *before = NULL;
    for (struct transport_message *at = queue->first; at != NULL; at = at->request.pointer) {
        if (at->request.pointer == message) {
            before = at;
        }
    }
    if (queue->first == message) {
        queue->first = NULL;
    } else if (before != NULL) {
        before->request.pointer = NULL;
        queue->last = before;
    }
}

static enum berth_status sockets_send(struct transport *transport,
                                      struct transport_message *message,
                                      struct berth_error *error) {
    struct sockets *sockets = sockets_of(transport);
    struct link *link = &sockets->links[message->channel][message->peer];
    link->bytes += message->bytes;
    link->messages++;
    const int is_of_range =
        message->channel == TRANSPORT_RANGES || message->channel == TRANSPORT_RELAYS;
    if (is_of_range && ++sockets->sent == sockets->faults.flip_message) {
        damage(&sockets->faults, message);
    }
    append(&link->out, message);
    const enum berth_status status =
        progress_queue(link, &link->out, move_out, message->peer, error);
    if (status != BERTH_OK) {
        withdraw(&link->out, message);
    }
    if (sockets->faults.hangs && message->channel == TRANSPORT_AGREEMENTS) {
        atomic_store(&sockets->is_hanging, 1);
    }
    hang(sockets);
    return status;
}

static enum berth_status sockets_receive(struct transport *transport,
                                         struct transport_message *message,
                                         struct berth_error *error) {
    struct link *link = &sockets_of(transport)->links[message->channel][message->peer];
    append(&link->in, message);
    return BERTH_OK;
}

static enum berth_status progress_link(struct link *link, int peer, struct berth_error *error) {
    TRY(progress_queue(link, &link->out, move_out, peer, error));
    return progress_queue(link, &link->in, move_in, peer, error);
}

static enum berth_status sockets_test(struct transport *transport,
                                      struct transport_message *message, int *done,
                                      struct berth_error *error) {
    struct link *links = sockets_of(transport)->links[message->channel];
    hang(sockets_of(transport));
    for (int peer = 0; peer < transport->size; peer++) {
        struct berth_error *of_peer = peer == message->peer ? error : NULL;
        const enum berth_status status = progress_link(&links[peer], peer, of_peer);
        if (status != BERTH_OK && peer == message->peer) {
            return status;
        }
    }
    *done = message->request.pointer == &is_done;
    return BERTH_OK;
}

static enum berth_status sockets_receive_any(struct transport *transport,
                                             enum transport_channel channel, void *data,
                                             size_t bytes, int *peer, struct berth_error *error) {
    struct link *links = sockets_of(transport)->links[channel];
    char letter[sizeof(uint64_t) + 256];
    const size_t whole = sizeof(uint64_t) + bytes;
    hang(sockets_of(transport));
    for (*peer = 0; *peer < transport->size; ++*peer) {
        const int end = links[*peer].end;
        if (*peer != transport->rank &&
            recv(end, letter, whole, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)whole) {
            (void)recv(end, letter, whole, 0);
            memcpy(data, letter + sizeof(uint64_t), bytes);
            return BERTH_OK;
        }
    }
    *peer = -1;
    return BERTH_OK;
}

static void sockets_close(struct transport *transport, enum transport_end how) {
    struct sockets *sockets = sockets_of(transport);
    for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
        for (int peer = 0; peer < transport->size; peer++) {
            if (peer != transport->rank) {
                close(sockets->links[channel][peer].end);
            }
        }
    }
    free(sockets);
}

static void sockets_abandon(struct transport *transport, const struct berth_error *error) {
    char *words = sockets_of(transport)->faults.last_words;
    if (words != NULL) {
        snprintf(words, LAST_WORDS, "%s", error->message);
    }
    _exit((int)error->status);
}

uint64_t socket_transport_bytes(const struct transport *transport, int peer,
                                enum transport_channel channel) {
    return sockets_of(transport)->links[channel][peer].bytes;
}

uint64_t socket_transport_messages(const struct transport *transport, int peer,
                                   enum transport_channel channel) {
    return sockets_of(transport)->links[channel][peer].messages;
}

struct transport *socket_transport_open(struct socket_job *job, int process,
                                        const struct socket_faults *faults) {
    struct sockets *sockets = calloc(1, sizeof *sockets);
    if (sockets == NULL) {
        abort();
    }
    sockets->transport = (struct transport){.name = "sockets",
                                            .state = sockets,
                                            .rank = process,
                                            .size = job->size,
                                            .version = "test",
                                            .send = sockets_send,
                                            .receive = sockets_receive,
                                            .test = sockets_test,
                                            .receive_any = sockets_receive_any,
                                            .close = sockets_close,
                                            .abandon = sockets_abandon};
    sockets->faults = faults != NULL ? *faults : (struct socket_faults){0};
    for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
        for (int peer = 0; peer < job->size; peer++) {
            sockets->links[channel][peer].end = job->ends[channel][process][peer];
            job->ends[channel][process][peer] = -1;
        }
    }
    return &sockets->transport;
}

// --- jobs ---------------------------------------------------------------------------------------

void socket_job_init(struct socket_job *job, int size) {
    memset(job, -1, sizeof *job);
    job->size = size;
    for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
        for (int i = 0; i < size; i++) {
            for (int j = 0; j < i; j++) {
                int pair[2];
                if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
                    abort();
                }
                job->ends[channel][i][j] = pair[0];
                job->ends[channel][j][i] = pair[1];
            }
        }
    }
}

void socket_job_leave(struct socket_job *job, int process) {
    for (int channel = 0; channel < TRANSPORT_CHANNELS; channel++) {
        for (int i = 0; i < job->size; i++) {
            for (int j = 0; j < job->size && i != process; j++) {
                if (job->ends[channel][i][j] >= 0) {
                    close(job->ends[channel][i][j]);
                    job->ends[channel][i][j] = -1;
                }
            }
        }
    }
}

void socket_job_done(struct socket_job *job) {
    socket_job_leave(job, -1);
}
