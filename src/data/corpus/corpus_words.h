// SPDX-License-Identifier: Apache-2.0
// Counts how often each word of a corpus occurs, with several threads: the first half of the job
// vocab (api/vocab.c), whose second half derives pieces from the counts (text/vocabulary_train.h).
#ifndef BERTH_DATA_CORPUS_WORDS_H
#define BERTH_DATA_CORPUS_WORDS_H

#include "core/log.h"
#include "data/corpus/corpus.h"
#include "text/vocabulary_train.h"

#include <stdatomic.h>
#include <stdint.h>

struct corpus_words_args {
    struct corpus *corpus; // read to its end
    int lower_case;
    const struct text_pipeline *pipeline; // whose words are counted, line by line; NULL: BERT's
    int threads;
    const struct berth_log *log;
    const atomic_int *stop; // may be NULL
};

// Adds the words of all articles to `counts`. Errors: those of corpus.h, BERTH_NO_MEMORY, and
// BERTH_INTERRUPTED once *stop is set. *bytes is the size of the text.
enum berth_status corpus_words(const struct corpus_words_args *args, struct word_counts *counts,
                               uint64_t *bytes, struct berth_error *error);

#endif
