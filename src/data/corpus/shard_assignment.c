// SPDX-License-Identifier: Apache-2.0
// Splits the articles into training and test articles, then assigns each set to its shards, longest
// article first, with a heap of the shards by their sentences. The shard stage calls it between its
// two readings of the corpora.
#include "data/corpus/shard_assignment.h"

#include "core/memory.h"
#include "core/rng.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_TEST_ARTICLES = 11, ARTICLES_MIN = 2 };

// Articles in some order. An item has the sort key in its upper half and the article's index in its
// lower half.
struct order {
    uint64_t *items;
    size_t count;
};

static uint32_t article_of(uint64_t item) {
    return (uint32_t)item;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static enum berth_status check_plan(const struct shard_plan *plan, uint64_t count,
                                    struct berth_error *error) {
    if (plan->training >= 1 && plan->training <= SHARDS_LIMIT && plan->test <= SHARDS_LIMIT &&
        plan->test_fraction >= 0 && plan->test_fraction < 1 && count < UINT32_MAX) {
        return BERTH_OK;
    }
    return error_set(
        error, BERTH_CONFIG,
        "%" PRIu64
        " articles in %u training and %u test shards with a test fraction of %g: expected 1 to %d "
        "and 0 to %d shards, a fraction from 0 to below 1, and fewer than 2^32 - 1 articles",
        count, plan->training, plan->test, plan->test_fraction, SHARDS_LIMIT, SHARDS_LIMIT);
}

// --- training or testing ------------------------------------------------------------------------

// Moves the test articles to the end of the order; returns their number. An article that would
// exceed the quota by more than half its length stays with the training articles, of which at least
// two remain.
static size_t move_test_articles(const struct shard_plan *plan, const uint32_t *sentences,
                                 struct order *order) {
    double all = 0, taken = 0;
    size_t tests = 0, kept = 0;
    for (size_t i = 0; i < order->count; i++) {
        all += sentences[article_of(order->items[i])];
    }
    double quota = plan->test > 0 ? plan->test_fraction * all : 0;
    while (kept + tests < order->count) {
        uint64_t item = order->items[kept];
        double length = sentences[article_of(item)];
        int is_test =
            taken + length / 2 <= quota && order->count - tests > ARTICLES_MIN && quota > 0;
        if (is_test) {
            size_t last = order->count - 1 - tests++;
            order->items[kept] = order->items[last];
            order->items[last] = item;
            taken += length;
        } else {
            kept++;
        }
    }
    return tests;
}

// --- training or test shards ---------------------------------------------------------------------

struct load {
    uint64_t sentences;
    uint32_t shard, articles;
};

static int is_lighter(const struct load *a, const struct load *b) {
    return a->sentences != b->sentences ? a->sentences < b->sentences : a->shard < b->shard;
}

// Restores the heap (lightest shard first) after the load at `at` has grown.
static void sift_down(struct load *heap, size_t count, size_t at) {
    for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        child += child + 1 < count && is_lighter(&heap[child + 1], &heap[child]);
        if (is_lighter(&heap[at], &heap[child])) {
            return;
        }
        struct load moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

// The first shard that has fewer articles than it needs; the last one if there is none.
static size_t find_incomplete(const struct load *heap, size_t count) {
    size_t at = 0;
    while (at + 1 < count && heap[at].articles >= ARTICLES_MIN) {
        at++;
    }
    return at;
}

// Assigns the articles of `order`, in this order, to shards [first, first + count).
static enum berth_status assign_in_order(const struct order *order, const uint32_t *sentences,
                                         uint32_t first, uint32_t count, uint16_t *shards,
                                         struct berth_error *error) {
    struct load *heap = memory_array_zeroed(count + 1, sizeof *heap);
    uint64_t missing = (uint64_t)count * ARTICLES_MIN;
    if (heap == NULL) {
        return error_no_memory(error, (count + 1) * sizeof *heap, "the shards' loads");
    }
    for (uint32_t i = 0; i < count; i++) {
        heap[i].shard = i;
    }
    for (size_t i = 0; i < order->count; i++) {
        // The last articles go to shards that still need some.
        size_t at = order->count - i <= missing ? find_incomplete(heap, count) : 0;
        uint32_t article = article_of(order->items[i]);
        shards[article] = (uint16_t)(first + heap[at].shard);
        missing -= heap[at].articles < ARTICLES_MIN;
        heap[at].articles++;
        heap[at].sentences += sentences[article];
        sift_down(heap, count, at);
    }
    memory_free(heap);
    return BERTH_OK;
}

// Longest first; of equals, the lower index first.
static void sort_by_length(struct order *order, const uint32_t *sentences) {
    for (size_t i = 0; i < order->count; i++) {
        uint32_t article = article_of(order->items[i]);
        order->items[i] = (uint64_t)(UINT32_MAX - sentences[article]) << 32 | article;
    }
    qsort(order->items, order->count, sizeof *order->items, compare);
}

// --- all shards ----------------------------------------------------------------------------------

// How many of so many shards the articles can fill; a single article makes one.
static uint32_t fillable_shards(uint32_t shards, size_t articles) {
    const size_t limit = articles < ARTICLES_MIN ? articles : articles / ARTICLES_MIN;
    return limit < shards ? (uint32_t)limit : shards;
}

static enum berth_status assign_all(struct shard_plan *plan, const uint32_t *sentences,
                                    struct order order, uint16_t *shards,
                                    struct berth_error *error) {
    size_t tests = move_test_articles(plan, sentences, &order);
    struct order sets[2] = {{order.items, order.count - tests},
                            {order.items + (order.count - tests), tests}};
    plan->training = fillable_shards(plan->training, sets[0].count);
    plan->test = fillable_shards(plan->test, tests);
    sort_by_length(&sets[0], sentences);
    sort_by_length(&sets[1], sentences);
    TRY(assign_in_order(&sets[0], sentences, 0, plan->training, shards, error));
    return tests > 0
               ? assign_in_order(&sets[1], sentences, plan->training, plan->test, shards, error)
               : BERTH_OK;
}

enum berth_status shard_assignment_make(struct shard_plan *plan, const uint32_t *sentences,
                                        uint64_t count, struct shard_assignment *assignment,
                                        struct berth_error *error) {
    *assignment = (struct shard_assignment){.count = count};
    TRY(check_plan(plan, count, error));
    uint64_t *items = memory_array((size_t)count + 1, sizeof *items);
    assignment->shards = memory_array((size_t)count + 1, sizeof *assignment->shards);
    enum berth_status status = BERTH_OK;
    if (items == NULL || assignment->shards == NULL) {
        status =
            error_no_memory(error, (size_t)count * sizeof *items, "the assignment of articles");
    } else {
        memset(assignment->shards, 0xff,
               (size_t)count * sizeof *assignment->shards); // SHARD_UNASSIGNED
        // All articles with sentences, in a random order.
        struct order order = {.items = items};
        for (uint64_t i = 0; i < count; i++) {
            if (sentences[i] > 0) {
                uint64_t index = i;
                uint64_t random = rng_draw(plan->seed, STREAM_TEST_ARTICLES, &index);
                items[order.count++] = random << 32 | i;
            }
        }
        qsort(items, order.count, sizeof *items, compare);
        status = order.count > 0 ? assign_all(plan, sentences, order, assignment->shards, error)
                                 : error_set(error, BERTH_BAD_DATA,
                                             "none of %" PRIu64 " articles has a sentence", count);
    }
    memory_free(items);
    if (status != BERTH_OK) {
        shard_assignment_done(assignment);
    }
    return status;
}

void shard_assignment_done(struct shard_assignment *assignment) {
    memory_free(assignment->shards);
    *assignment = (struct shard_assignment){0};
}
