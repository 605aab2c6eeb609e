// SPDX-License-Identifier: Apache-2.0
// The tokenizer.json of a vocabulary that was trained here: byte-level BPE as RoBERTa's, or Unigram
// as XLM-RoBERTa's. The job vocab writes it; any program that reads tokenizer.json can open it.
#ifndef BERTH_TEXT_VOCABULARY_FORM_H
#define BERTH_TEXT_VOCABULARY_FORM_H

#include "text/unigram_train.h"

struct json_t;

enum vocabulary_form { FORM_BPE, FORM_UNIGRAM };

#define FORM_SPECIALS 5
extern const char *const form_specials[FORM_SPECIALS]; // by their ids

// Values of tokenizer.json; NULL: out of memory. Before the training, without words: it splits
// texts into the words that are counted.
struct json_t *form_splitter(enum vocabulary_form form, int lower_case);
struct json_t *form_of_merges(int lower_case, const struct string_index *pieces,
                              const struct vocabulary_merges *merges);
struct json_t *form_of_scores(int lower_case, const struct unigram_pieces *pieces);

#endif
