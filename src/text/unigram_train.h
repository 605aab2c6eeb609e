// SPDX-License-Identifier: Apache-2.0
// Trains a Unigram vocabulary on counted words, as the `tokenizers` library does: of all parts of
// words that occur often, those stay that explain the words best. Expectation and maximization give
// each part its score; again and again, those are left out without which the words lose least.
//
// The same words give the same vocabulary, whatever their order. The job vocab calls it;
// word_models.c runs the result.
#ifndef BERTH_TEXT_UNIGRAM_TRAIN_H
#define BERTH_TEXT_UNIGRAM_TRAIN_H

#include "text/vocabulary_train.h"

struct unigram_pieces {
    struct string_index texts; // in the order of their scores, the highest first
    double *scores;            // [texts.count]
};
void unigram_pieces_done(struct unigram_pieces *pieces);

// Finds `size` pieces less the `specials`, which are the caller's, or fewer if no others occur
// often enough; every character of the words is one. Errors as those of vocabulary_train;
// BERTH_CONFIG if there are too many characters. unigram_pieces_done frees the pieces, also after a
// failure.
enum berth_status unigram_train(const struct word_counts *counts, size_t size, size_t specials,
                                const struct berth_log *log, const atomic_int *stop,
                                struct unigram_pieces *pieces, struct berth_error *error);

#endif
