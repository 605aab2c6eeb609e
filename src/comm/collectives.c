// SPDX-License-Identifier: Apache-2.0
// Small collectives over binomial trees, for the operations of a communicator that move little:
// agreements on errors and stops, sums of numbers, broadcasts. The calling thread sends and waits
// through its own courier; ranges of the flat buffers take another way (pipeline.c).
#include "comm/collectives.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

// Large messages are sent in chunks, so that a broadcast keeps all links busy at once.
enum { CHUNK_BYTES = 4 << 20 };

static int rank_of(const struct collectives *collectives) {
    return collectives->courier.topology->rank;
}

static int size_of(const struct collectives *collectives) {
    return collectives->courier.topology->size;
}

// --- one message --------------------------------------------------------------------------------

static enum berth_status send_now(struct collectives *collectives, int rank, const void *data,
                                  size_t bytes, const char *what, struct berth_error *error) {
    struct message_list list = {.messages = &collectives->sent};
    TRY(courier_send(&collectives->courier, &list, rank, data, bytes, error));
    return courier_wait(&collectives->courier, &list, what, error);
}

static enum berth_status receive_now(struct collectives *collectives, int rank, void *data,
                                     size_t bytes, const char *what, struct berth_error *error) {
    struct message_list list = {.messages = &collectives->received};
    void *first = bytes <= sizeof collectives->buffer ? collectives->buffer : data;
    TRY(courier_receive(&collectives->courier, &list, rank, first, bytes, error));
    TRY(courier_wait(&collectives->courier, &list, what, error));
    if (first != data) {
        memcpy(data, first, bytes);
    }
    return BERTH_OK;
}

// --- from a root to all -------------------------------------------------------------------------

// This rank's neighbours in the tree of a broadcast, in which ranks are numbered from the root.
struct tree {
    int parent, children[MAX_TREE_CHILDREN]; // ranks; parent is -1 at the root
    int child_count;
};

static struct tree tree_of(const struct collectives *collectives, int root) {
    const int size = size_of(collectives), own = (rank_of(collectives) - root + size) % size;
    struct tree tree = {.parent = -1};
    int step = 1;
    while (step < size && (own & step) == 0) {
        step *= 2;
    }
    if (own > 0) {
        tree.parent = (own - step + root) % size;
    }
    for (step /= 2; step > 0; step /= 2) { // the largest subtree first
        if (own + step < size) {
            tree.children[tree.child_count++] = (own + step + root) % size;
        }
    }
    return tree;
}

// A chunk of a broadcast.
struct chunk {
    void *data;
    size_t bytes;
    const char *what; // describes the whole broadcast in errors
};

// Forwards a chunk to the children while the next one arrives from the parent.
static enum berth_status forward_chunk(struct collectives *collectives, const struct tree *tree,
                                       struct message_list *sends, const struct chunk *chunk,
                                       struct berth_error *error) {
    struct courier *courier = &collectives->courier;
    if (tree->parent >= 0) {
        TRY(receive_now(collectives, tree->parent, chunk->data, chunk->bytes, chunk->what, error));
    }
    TRY(courier_wait(courier, sends, chunk->what, error));
    sends->count = sends->done = 0;
    for (int i = 0; i < tree->child_count; i++) {
        TRY(courier_send(courier, sends, tree->children[i], chunk->data, chunk->bytes, error));
    }
    return BERTH_OK;
}

static enum berth_status broadcast_from(struct collectives *collectives, int root, void *data,
                                        size_t bytes, const char *what, struct berth_error *error) {
    const struct tree tree = tree_of(collectives, root);
    struct message_list sends = {.messages = collectives->sends};
    for (size_t offset = 0; offset < bytes; offset += CHUNK_BYTES) {
        const size_t left = bytes - offset;
        const struct chunk chunk = {(char *)data + offset, left < CHUNK_BYTES ? left : CHUNK_BYTES,
                                    what};
        TRY(forward_chunk(collectives, &tree, &sends, &chunk, error));
    }
    return courier_wait(&collectives->courier, &sends, what, error);
}

enum berth_status collectives_broadcast(struct collectives *collectives, void *data, size_t bytes,
                                        int root, struct berth_error *error) {
    char what[64];
    snprintf(what, sizeof what, "the broadcast of %zu bytes from rank %d", bytes, root);
    return broadcast_from(collectives, root, data, bytes, what, error);
}

// --- from all to rank 0 and back ----------------------------------------------------------------

// How two ranks' values of fixed size become one: `own` absorbs that of the higher ranks.
struct reduction {
    const char *what;
    size_t bytes;
    void (*merge)(void *own, const void *higher, size_t bytes);
};

static enum berth_status all_reduce(struct collectives *collectives,
                                    const struct reduction *reduction, void *own,
                                    struct berth_error *error) {
    const int rank = rank_of(collectives);
    for (int step = 1; step < size_of(collectives); step *= 2) {
        if (rank & step) {
            TRY(send_now(collectives, rank - step, own, reduction->bytes, reduction->what, error));
            break;
        }
        if (rank + step < size_of(collectives)) {
            TRY(receive_now(collectives, rank + step, collectives->buffer, reduction->bytes,
                            reduction->what, error));
            reduction->merge(own, collectives->buffer, reduction->bytes);
        }
    }
    return broadcast_from(collectives, 0, own, reduction->bytes, reduction->what, error);
}

static void merge_sums(void *own, const void *higher, size_t bytes) {
    double *sums = own;
    const double *others = higher;
    for (size_t i = 0; i < bytes / sizeof *sums; i++) {
        sums[i] += others[i];
    }
}

enum berth_status collectives_sum(struct collectives *collectives, double *values, size_t count,
                                  struct berth_error *error) {
    char what[64];
    snprintf(what, sizeof what, "the sum of %zu numbers", count);
    for (size_t offset = 0; offset < count; offset += COLLECTIVE_DOUBLES) {
        const size_t chunk =
            count - offset < COLLECTIVE_DOUBLES ? count - offset : COLLECTIVE_DOUBLES;
        const struct reduction reduction = {what, chunk * sizeof *values, merge_sums};
        TRY(all_reduce(collectives, &reduction, values + offset, error));
    }
    return BERTH_OK;
}

static void merge_agreements(void *own, const void *higher, size_t bytes) {
    struct agreement *agreement = own;
    const struct agreement *other = higher;
    agreement->stop = agreement->stop > other->stop ? agreement->stop : other->stop;
    agreement->positions_differ |=
        other->positions_differ || !(agreement->position.begun == other->position.begun &&
                                     agreement->position.phase == other->position.phase &&
                                     agreement->position.update == other->position.update);
    agreement->failures += other->failures;
    if (agreement->error.status == BERTH_OK) {
        agreement->rank = other->rank;
        agreement->error = other->error;
    }
}

enum berth_status collectives_agree(struct collectives *collectives, struct agreement *agreement,
                                    struct berth_error *error) {
    const struct reduction reduction = {"an agreement", sizeof *agreement, merge_agreements};
    return all_reduce(collectives, &reduction, agreement, error);
}

enum berth_status collectives_all_gather(struct collectives *collectives, void *blocks,
                                         size_t bytes, struct berth_error *error) {
    char *block = blocks;
    const char *what = "the list of ranks";
    const int rank = rank_of(collectives), size = size_of(collectives);
    // Before each step, a rank has the blocks of `step` ranks from its own on.
    for (int step = 1; step < size; step *= 2) {
        const int from = rank & step ? rank : rank + step;
        const int count = size - from < step ? size - from : step;
        if (rank & step) {
            TRY(send_now(collectives, rank - step, block + (size_t)from * bytes,
                         (size_t)count * bytes, what, error));
            break;
        }
        if (count > 0) {
            TRY(receive_now(collectives, from, block + (size_t)from * bytes, (size_t)count * bytes,
                            what, error));
        }
    }
    return broadcast_from(collectives, 0, blocks, bytes * (size_t)size, what, error);
}
