// SPDX-License-Identifier: Apache-2.0
#include "text/pair_table.h"

#include "core/memory.h"

#include <string.h>

// --- the heap -----------------------------------------------------------------------------------

static int ranks_before(const struct pair_table *table, struct pair_rank a, struct pair_rank b) {
    const struct pair *x = &table->items[a.pair], *y = &table->items[b.pair];
    if (a.count != b.count) {
        return a.count > b.count;
    }
    return x->left != y->left ? x->left < y->left : x->right < y->right;
}

static int heap_push(struct pair_table *table, uint32_t pair) {
    struct pair_rank *heap =
        memory_grow(table->heap, &table->heap_capacity, table->heap_count + 1, sizeof *heap);
    if (heap == NULL) {
        return 0;
    }
    table->heap = heap;
    struct pair_rank rank = {table->items[pair].count, pair};
    size_t at = table->heap_count++;
    for (; at > 0 && ranks_before(table, rank, table->heap[(at - 1) / 2]); at = (at - 1) / 2) {
        table->heap[at] = table->heap[(at - 1) / 2];
    }
    table->heap[at] = rank;
    return 1;
}

// Replaces the first element with `rank`.
static void heap_replace(struct pair_table *table, struct pair_rank rank) {
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < table->heap_count &&
            ranks_before(table, table->heap[child + 1], table->heap[child])) {
            child++;
        }
        if (child >= table->heap_count || !ranks_before(table, table->heap[child], rank)) {
            break;
        }
        table->heap[at] = table->heap[child];
        at = child;
    }
    table->heap[at] = rank;
}

static void heap_pop(struct pair_table *table) {
    struct pair_rank last = table->heap[--table->heap_count];
    if (table->heap_count > 0) {
        heap_replace(table, last);
    }
}

// --- the pairs ----------------------------------------------------------------------------------

static void make_key(char *key, int32_t left, int32_t right) {
    memcpy(key, &left, sizeof left);
    memcpy(key + sizeof left, &right, sizeof right);
}

static struct pair *find_or_make(struct pair_table *table, int32_t left, int32_t right) {
    char key[2 * sizeof left];
    make_key(key, left, right);
    size_t known = table->keys.count;
    struct pair *items = memory_grow(table->items, &table->capacity, known + 1, sizeof *items);
    if (items == NULL) {
        return NULL;
    }
    table->items = items;
    uint32_t number = string_index_put(&table->keys, key, sizeof key);
    if (number == STRING_INDEX_NONE) {
        return NULL;
    }
    if (number == known) {
        table->items[number] = (struct pair){.left = left, .right = right};
    }
    return &table->items[number];
}

int pair_table_add(struct pair_table *table, int32_t left, int32_t right, uint32_t word,
                   uint64_t times) {
    struct pair *pair = find_or_make(table, left, right);
    if (pair == NULL) {
        return 0;
    }
    pair->count += times;
    if (pair->word_count == 0 || pair->words[pair->word_count - 1] != word) {
        uint32_t *words =
            memory_grow(pair->words, &pair->word_capacity, pair->word_count + 1, sizeof *words);
        if (words == NULL) {
            return 0;
        }
        pair->words = words;
        pair->words[pair->word_count++] = word;
    }
    if (!pair->is_fresh) {
        uint32_t *fresh = memory_grow(table->fresh, &table->fresh_capacity, table->fresh_count + 1,
                                      sizeof *fresh);
        if (fresh == NULL) {
            return 0;
        }
        table->fresh = fresh;
        pair->is_fresh = 1;
        table->fresh[table->fresh_count++] = (uint32_t)(pair - table->items);
    }
    return 1;
}

void pair_table_subtract(struct pair_table *table, int32_t left, int32_t right, uint64_t times) {
    char key[2 * sizeof left];
    make_key(key, left, right);
    table->items[string_index_find(&table->keys, key, sizeof key)].count -= times;
}

int pair_table_settle(struct pair_table *table) {
    for (; table->fresh_count > 0; table->fresh_count--) {
        uint32_t pair = table->fresh[table->fresh_count - 1];
        table->items[pair].is_fresh = 0;
        if (table->items[pair].count > 0 && !heap_push(table, pair)) {
            return 0;
        }
    }
    return 1;
}

struct pair *pair_table_pop(struct pair_table *table, uint64_t min_count) {
    while (table->heap_count > 0) {
        struct pair_rank first = table->heap[0];
        struct pair *pair = &table->items[first.pair];
        if (pair->count < min_count) {
            heap_pop(table);
        } else if (pair->count != first.count) {
            first.count = pair->count;
            heap_replace(table, first);
        } else {
            heap_pop(table);
            return pair;
        }
    }
    return NULL;
}

void pair_table_done(struct pair_table *table) {
    for (size_t i = 0; i < table->keys.count; i++) {
        memory_free(table->items[i].words);
    }
    memory_free(table->items);
    memory_free(table->fresh);
    memory_free(table->heap);
    string_index_done(&table->keys);
    *table = (struct pair_table){.items = NULL};
}
