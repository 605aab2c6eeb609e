// SPDX-License-Identifier: Apache-2.0
// Converts sentences of words to model inputs: [CLS] pieces [SEP] of type 0, with a label on the
// first piece of each word, as in Hugging Face's run_ner.
//
// A sentence that is longer than max_length becomes overlapping windows of whole words. A word is
// labelled in only one of them: where the smaller of its distances to both ends is largest (of
// equals, in the first). So no word is lost or counted twice. A word without pieces (only blanks
// and control characters) has no label; of a word that is longer than a window the first pieces
// remain. The task tag has a set's windows built when it opens it, and those of a call's texts.
#ifndef BERTH_DATA_WORD_WINDOWS_H
#define BERTH_DATA_WORD_WINDOWS_H

#include "core/error.h"
#include "data/batches/packer.h"
#include "data/tagging/tagged.h"
#include "text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

struct word_window {
    size_t first;   // index in the pools of tokens
    int32_t length; // tokens, special ones included
    size_t labels;  // index in the pools of labels
    int32_t label_count;
};

struct word_window_set {
    struct word_window *windows;
    size_t count;
    // Pools of tokens. All type ids are 0; type_ids has enough for the longest window.
    int32_t *ids;
    int8_t *type_ids;
    size_t token_count;
    // Pools of labels, one per labelled word: the row of its first piece in the window, its class
    // (-1: unknown), its index in the data set.
    uint16_t *positions;
    int32_t *classes;
    uint32_t *words;
    size_t label_count;
    size_t split_sentences; // sentences with more than one window
    size_t truncated;       // words that are longer than a window
    size_t token_capacity, window_capacity, label_capacity;
};

// How long sentences are split into windows.
struct word_window_rule {
    int64_t max_length; // 8 or more, below 65536
    int64_t stride; // tokens between the starts of neighbouring windows; at most what fits in one
    struct tokenizer_special special;
};

// The pieces of a sentence's words: those of word i are ids[starts[i] .. starts[i + 1]).
struct word_pieces {
    const int32_t *ids;
    const size_t *starts; // [count + 1]
    size_t count;
    const int32_t *classes; // [count]; NULL: unknown
    size_t first_word;      // index of the first one in the data set
};

// Adds the windows of a sentence. Zero-initialise the set before the first call.
enum berth_status word_windows_add(struct word_window_set *set, const struct word_window_rule *rule,
                                   const struct word_pieces *pieces, struct berth_error *error);
// Makes the windows of a data set. Free with word_windows_done, also after a failure.
enum berth_status word_windows_build(struct word_window_set *set,
                                     const struct word_window_rule *rule,
                                     const struct tagged_dataset *dataset,
                                     const struct tokenizer *tokenizer, struct berth_error *error);
void word_windows_done(struct word_window_set *set);

// Window `index` of a struct word_window_set, for packer_source.get. The labelled words take the
// place of masked tokens.
struct packer_sequence word_windows_sequence(const void *set, size_t index);

#endif
