// SPDX-License-Identifier: Apache-2.0
// The pairs of neighbouring pieces in the words of a text: how often each stands there, in which
// words it may be found, and which is the most frequent.
#ifndef BERTH_TEXT_PAIR_TABLE_H
#define BERTH_TEXT_PAIR_TABLE_H

#include "core/string_index.h"

#include <stddef.h>
#include <stdint.h>

struct pair {
    int32_t left, right; // pieces
    uint64_t count;
    uint32_t *words; // [word_count] where it stood when it was added; some more than once
    size_t word_count, word_capacity;
    int is_fresh; // its count grew since the last pair_table_settle
};

struct pair_table {
    struct string_index keys; // of (left, right)
    struct pair *items;       // [keys.count]
    size_t capacity;
    uint32_t *fresh; // pairs whose count grew
    size_t fresh_count, fresh_capacity;
    struct pair_rank { // a heap, the most frequent pair first; counts may be old and too large
        uint64_t count;
        uint32_t pair;
    } * heap;
    size_t heap_count, heap_capacity;
};

// Counts `times` more of the pair, in the word `word`. 0 when memory is out. Zero-initialise the
// table before the first.
int pair_table_add(struct pair_table *table, int32_t left, int32_t right, uint32_t word,
                   uint64_t times);
// Counts so many fewer of a pair that was added.
void pair_table_subtract(struct pair_table *table, int32_t left, int32_t right, uint64_t times);
// After a series of additions: makes their counts known to pair_table_take. 0: memory is out.
int pair_table_settle(struct pair_table *table);
// The most frequent pair, of those as frequent the one of the smallest left, then right piece, of
// all that stand `least` (at least 1) times or more; NULL when there is none. Its words are then
// the caller's (memory_free), and the table's list of them is empty. Valid until the next addition.
struct pair *pair_table_take(struct pair_table *table, uint64_t least);
void pair_table_done(struct pair_table *table);

#endif
