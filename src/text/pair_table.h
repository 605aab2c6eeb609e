// SPDX-License-Identifier: Apache-2.0
// Pairs of neighbouring pieces in the words of a text: how often each pair occurs, in which words,
// and which pair is the most frequent.
#ifndef BERTH_TEXT_PAIR_TABLE_H
#define BERTH_TEXT_PAIR_TABLE_H

#include "core/string_index.h"

#include <stddef.h>
#include <stdint.h>

struct pair {
    int32_t left, right; // pieces
    uint64_t count;
    uint32_t
        *words; // [word_count] words to which it was added; it may be gone from them; may repeat
    size_t word_count, word_capacity;
    int is_fresh; // the count has grown since the last pair_table_settle
};

struct pair_table {
    struct string_index keys; // of (left, right)
    struct pair *items;       // [keys.count]
    size_t capacity;
    uint32_t *fresh; // pairs whose count has grown
    size_t fresh_count, fresh_capacity;
    struct pair_rank { // a heap, most frequent pair first; an outdated count is too large
        uint64_t count;
        uint32_t pair;
    } * heap;
    size_t heap_count, heap_capacity;
};

// Adds `times` to the count of the pair, which occurs in the word `word`. 0 when out of memory.
// Zero-initialise the table before the first call.
int pair_table_add(struct pair_table *table, int32_t left, int32_t right, uint32_t word,
                   uint64_t times);
// Subtracts `times` from the count of a pair that was added.
void pair_table_subtract(struct pair_table *table, int32_t left, int32_t right, uint64_t times);
// Makes the counts of a series of additions visible to pair_table_pop. 0 when out of memory.
int pair_table_settle(struct pair_table *table);
// Removes the most frequent pair from the table if it occurs at least `min_count` (1 or more)
// times, otherwise returns NULL. Of equally frequent pairs the one with the smallest left piece,
// then right piece. The caller takes over its list of words (memory_free). Valid until the next
// addition.
struct pair *pair_table_pop(struct pair_table *table, uint64_t min_count);
void pair_table_done(struct pair_table *table);

#endif
