// SPDX-License-Identifier: Apache-2.0
#include "comm/calls.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

// Messages are cut into pieces, so that a large broadcast is on all links at once.
enum { PIECE = 4 << 20 };

static int rank_of(const struct caller *caller) {
    return caller->courier.topology->rank;
}

static int size_of(const struct caller *caller) {
    return caller->courier.topology->size;
}

// --- one message --------------------------------------------------------------------------------

static enum berth_status send_now(struct caller *caller, int rank, const void *data, size_t bytes,
                                  const char *what, struct berth_error *error) {
    struct message_list list = {.messages = &caller->sent};
    TRY(courier_send(&caller->courier, &list, rank, data, bytes, error));
    return courier_wait(&caller->courier, &list, what, error);
}

static enum berth_status receive_now(struct caller *caller, int rank, void *data, size_t bytes,
                                     const char *what, struct berth_error *error) {
    struct message_list list = {.messages = &caller->received};
    void *first = bytes <= sizeof caller->letter ? caller->letter : data;
    TRY(courier_receive(&caller->courier, &list, rank, first, bytes, error));
    TRY(courier_wait(&caller->courier, &list, what, error));
    if (first != data) {
        memcpy(data, first, bytes);
    }
    return BERTH_OK;
}

// --- from a root to all -------------------------------------------------------------------------

// The tree of a broadcast: ranks are counted from the root on.
struct spread {
    int parent, children[CALL_CHILDREN]; // ranks; parent -1: none
    int child_count;
};

static struct spread spread_of(const struct caller *caller, int root) {
    const int size = size_of(caller), own = (rank_of(caller) - root + size) % size;
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
static enum berth_status spread_piece(struct caller *caller, const struct spread *spread,
                                      struct message_list *sends, void *data, size_t bytes,
                                      const char *what, struct berth_error *error) {
    if (spread->parent >= 0) {
        TRY(receive_now(caller, spread->parent, data, bytes, what, error));
    }
    TRY(courier_wait(&caller->courier, sends, what, error));
    sends->count = sends->done = 0;
    for (int i = 0; i < spread->child_count; i++) {
        TRY(courier_send(&caller->courier, sends, spread->children[i], data, bytes, error));
    }
    return BERTH_OK;
}

static enum berth_status spread_from(struct caller *caller, int root, void *data, size_t bytes,
                                     const char *what, struct berth_error *error) {
    const struct spread spread = spread_of(caller, root);
    struct message_list sends = {.messages = caller->sends};
    for (size_t at = 0; at < bytes; at += PIECE) {
        const size_t piece = bytes - at < PIECE ? bytes - at : PIECE;
        TRY(spread_piece(caller, &spread, &sends, (char *)data + at, piece, what, error));
    }
    return courier_wait(&caller->courier, &sends, what, error);
}

enum berth_status calls_broadcast(struct caller *caller, void *data, size_t bytes, int root,
                                  struct berth_error *error) {
    char what[64];
    snprintf(what, sizeof what, "the broadcast of %zu bytes from rank %d", bytes, root);
    return spread_from(caller, root, data, bytes, what, error);
}

// --- from all to rank 0 and back ----------------------------------------------------------------

// A value of fixed size that two ranks' make one of: `own` takes in that of higher ranks.
struct merger {
    const char *what;
    size_t bytes;
    void (*merge)(void *own, const void *higher, size_t bytes);
};

static enum berth_status merge_all(struct caller *caller, const struct merger *merger, void *own,
                                   struct berth_error *error) {
    const int rank = rank_of(caller);
    for (int step = 1; step < size_of(caller); step *= 2) {
        if (rank & step) {
            TRY(send_now(caller, rank - step, own, merger->bytes, merger->what, error));
            break;
        }
        if (rank + step < size_of(caller)) {
            TRY(receive_now(caller, rank + step, caller->letter, merger->bytes, merger->what,
                            error));
            merger->merge(own, caller->letter, merger->bytes);
        }
    }
    return spread_from(caller, 0, own, merger->bytes, merger->what, error);
}

static void merge_sums(void *own, const void *higher, size_t bytes) {
    double *sums = own;
    const double *others = higher;
    for (size_t i = 0; i < bytes / sizeof *sums; i++) {
        sums[i] += others[i];
    }
}

enum berth_status calls_sum(struct caller *caller, double *values, size_t count,
                            struct berth_error *error) {
    char what[64];
    snprintf(what, sizeof what, "the sum of %zu numbers", count);
    for (size_t at = 0; at < count; at += CALL_NUMBERS) {
        const size_t piece = count - at < CALL_NUMBERS ? count - at : CALL_NUMBERS;
        const struct merger merger = {what, piece * sizeof *values, merge_sums};
        TRY(merge_all(caller, &merger, values + at, error));
    }
    return BERTH_OK;
}

static int is_same_place(const struct call_place *a, const struct call_place *b) {
    return a->begun == b->begun && a->phase == b->phase && a->update == b->update;
}

static void merge_agreements(void *own, const void *higher, size_t bytes) {
    struct agreement *agreement = own;
    const struct agreement *other = higher;
    agreement->stop = agreement->stop > other->stop ? agreement->stop : other->stop;
    agreement->is_apart |= other->is_apart || !is_same_place(&agreement->place, &other->place);
    agreement->failures += other->failures;
    if (agreement->error.status == BERTH_OK) {
        agreement->rank = other->rank;
        agreement->error = other->error;
    }
}

enum berth_status calls_agree(struct caller *caller, struct agreement *agreement,
                              struct berth_error *error) {
    const struct merger merger = {"an agreement", sizeof *agreement, merge_agreements};
    return merge_all(caller, &merger, agreement, error);
}

enum berth_status calls_collect(struct caller *caller, void *blocks, size_t bytes,
                                struct berth_error *error) {
    char *block = blocks;
    const char *what = "the list of ranks";
    if (rank_of(caller) > 0) {
        TRY(send_now(caller, 0, block + (size_t)rank_of(caller) * bytes, bytes, what, error));
    }
    for (int rank = 1; rank < size_of(caller) && rank_of(caller) == 0; rank++) {
        TRY(receive_now(caller, rank, block + (size_t)rank * bytes, bytes, what, error));
    }
    return spread_from(caller, 0, blocks, bytes * (size_t)size_of(caller), what, error);
}
