// SPDX-License-Identifier: Apache-2.0
#include "comm/calls.h"

#include <stdint.h>
#include <stdio.h>

// Messages are cut into pieces, so that a large broadcast is on all links at once.
enum { PIECE = 4 << 20, SUM_PIECE = 4096, CHILDREN = 32 };

static int rank_of(const struct courier *courier) {
    return courier->topology->rank;
}

static int size_of(const struct courier *courier) {
    return courier->topology->size;
}

// --- one message --------------------------------------------------------------------------------

static enum berth_status send_now(struct courier *courier, int rank, const void *data, size_t bytes,
                                  const char *what, struct berth_error *error) {
    struct transport_message message;
    struct message_list list = {.messages = &message};
    TRY(courier_send(courier, &list, rank, data, bytes, error));
    return courier_wait(courier, &list, what, error);
}

static enum berth_status receive_now(struct courier *courier, int rank, void *data, size_t bytes,
                                     const char *what, struct berth_error *error) {
    struct transport_message message;
    struct message_list list = {.messages = &message};
    TRY(courier_receive(courier, &list, rank, data, bytes, error));
    return courier_wait(courier, &list, what, error);
}

// --- from a root to all -------------------------------------------------------------------------

// The tree of a broadcast: ranks are counted from the root on.
struct spread {
    int parent, children[CHILDREN]; // ranks; parent -1: none
    int child_count;
};

static struct spread spread_of(const struct courier *courier, int root) {
    const int size = size_of(courier), own = (rank_of(courier) - root + size) % size;
    struct spread spread = {.parent = -1};
    int step = 1;
    while (step < size && (own & step) == 0) {
        step *= 2;
    }
    if (own > 0) {
        spread.parent = (own - step + root) % size;
    }
    for (step /= 2; step > 0; step /= 2) { // the largest subtree first
        if (own + step < size) {
            spread.children[spread.child_count++] = (own + step + root) % size;
        }
    }
    return spread;
}

// A piece goes on to the children while the next one comes from the parent.
static enum berth_status spread_piece(struct courier *courier, const struct spread *spread,
                                      struct message_list *sends, void *data, size_t bytes,
                                      const char *what, struct berth_error *error) {
    if (spread->parent >= 0) {
        TRY(receive_now(courier, spread->parent, data, bytes, what, error));
    }
    TRY(courier_wait(courier, sends, what, error));
    sends->count = sends->done = 0;
    for (int i = 0; i < spread->child_count; i++) {
        TRY(courier_send(courier, sends, spread->children[i], data, bytes, error));
    }
    return BERTH_OK;
}

static enum berth_status spread_from(struct courier *courier, int root, void *data, size_t bytes,
                                     const char *what, struct berth_error *error) {
    const struct spread spread = spread_of(courier, root);
    struct transport_message messages[CHILDREN];
    struct message_list sends = {.messages = messages};
    for (size_t at = 0; at < bytes; at += PIECE) {
        const size_t piece = bytes - at < PIECE ? bytes - at : PIECE;
        TRY(spread_piece(courier, &spread, &sends, (char *)data + at, piece, what, error));
    }
    return courier_wait(courier, &sends, what, error);
}

enum berth_status calls_broadcast(struct courier *courier, void *data, size_t bytes, int root,
                                  struct berth_error *error) {
    char what[64];
    snprintf(what, sizeof what, "the broadcast of %zu bytes from rank %d", bytes, root);
    return spread_from(courier, root, data, bytes, what, error);
}

// --- from all to rank 0 and back ----------------------------------------------------------------

// A value of fixed size that two ranks' make one of: `own` takes in that of higher ranks.
struct merger {
    const char *what;
    size_t bytes;
    void (*merge)(void *own, const void *higher, size_t bytes);
};

static enum berth_status merge_all(struct courier *courier, const struct merger *merger, void *own,
                                   void *other, struct berth_error *error) {
    const int rank = rank_of(courier);
    for (int step = 1; step < size_of(courier); step *= 2) {
        if (rank & step) {
            TRY(send_now(courier, rank - step, own, merger->bytes, merger->what, error));
            break;
        }
        if (rank + step < size_of(courier)) {
            TRY(receive_now(courier, rank + step, other, merger->bytes, merger->what, error));
            merger->merge(own, other, merger->bytes);
        }
    }
    return spread_from(courier, 0, own, merger->bytes, merger->what, error);
}

static void merge_sums(void *own, const void *higher, size_t bytes) {
    double *sums = own;
    const double *others = higher;
    for (size_t i = 0; i < bytes / sizeof *sums; i++) {
        sums[i] += others[i];
    }
}

enum berth_status calls_sum(struct courier *courier, double *values, size_t count,
                            struct berth_error *error) {
    double others[SUM_PIECE];
    char what[64];
    snprintf(what, sizeof what, "the sum of %zu numbers", count);
    for (size_t at = 0; at < count; at += SUM_PIECE) {
        const size_t piece = count - at < SUM_PIECE ? count - at : SUM_PIECE;
        const struct merger merger = {what, piece * sizeof *values, merge_sums};
        TRY(merge_all(courier, &merger, values + at, others, error));
    }
    return BERTH_OK;
}

static void merge_agreements(void *own, const void *higher, size_t bytes) {
    struct agreement *agreement = own;
    const struct agreement *other = higher;
    const int stop = agreement->stop > other->stop ? agreement->stop : other->stop;
    if (agreement->error.status == BERTH_OK) {
        *agreement = *other;
    }
    agreement->stop = stop;
}

enum berth_status calls_agree(struct courier *courier, struct agreement *agreement,
                              struct berth_error *error) {
    struct agreement other;
    const struct merger merger = {"an agreement", sizeof *agreement, merge_agreements};
    return merge_all(courier, &merger, agreement, &other, error);
}

enum berth_status calls_collect(struct courier *courier, void *blocks, size_t bytes,
                                struct berth_error *error) {
    char *block = blocks;
    const char *what = "the list of ranks";
    if (rank_of(courier) > 0) {
        TRY(send_now(courier, 0, block + (size_t)rank_of(courier) * bytes, bytes, what, error));
    }
    for (int rank = 1; rank < size_of(courier) && rank_of(courier) == 0; rank++) {
        TRY(receive_now(courier, rank, block + (size_t)rank * bytes, bytes, what, error));
    }
    return spread_from(courier, 0, blocks, bytes * (size_t)size_of(courier), what, error);
}
