// SPDX-License-Identifier: Apache-2.0
#include "text/word_counts.h"

#include "core/memory.h"
#include "text/basic.h"
#include "text/unicode.h"

enum berth_status word_counts_add(struct word_counts *counts, const char *bytes, size_t length,
                                  uint64_t count, struct berth_error *error) {
    size_t known = counts->words.count;
    uint64_t *grown = memory_grow(counts->counts, &counts->capacity, known + 1, sizeof *grown);
    if (grown == NULL) {
        return error_no_memory(error, (known + 1) * sizeof *grown, "the words' counts");
    }
    counts->counts = grown;
    uint32_t word = string_index_put(&counts->words, bytes, length);
    if (word == STRING_INDEX_NONE) {
        return error_no_memory(error, length, "the words of the text");
    }
    counts->counts[word] = (word == known ? 0 : counts->counts[word]) + count;
    counts->total += count;
    return BERTH_OK;
}

enum berth_status word_counts_add_text(struct word_counts *counts, const char *text, size_t length,
                                       int lower_case, struct berth_error *error) {
    struct basic_rules rules;
    struct basic_walk walk;
    enum berth_status status = BERTH_OK;
    int more = 1;
    basic_rules_init(&rules, UNICODE_HUGGINGFACE, lower_case ? UNICODE_FOLD : UNICODE_AS_IS);
    basic_init(&walk, &rules, text, length);
    while (status == BERTH_OK && (more = basic_next(&walk)) > 0) {
        if (walk.characters <= WORD_CHARACTERS_MAX) {
            status = word_counts_add(counts, walk.bytes, walk.count, 1, error);
        }
    }
    basic_done(&walk);
    return more < 0 ? error_no_memory(error, 0, "a word") : status;
}

void word_counts_done(struct word_counts *counts) {
    string_index_done(&counts->words);
    memory_free(counts->counts);
    *counts = (struct word_counts){.counts = NULL};
}
