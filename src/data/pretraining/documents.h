// SPDX-License-Identifier: Apache-2.0
// The documents of a shard as token ids: the input for pre-training instances.
#ifndef BERTH_DATA_DOCUMENTS_H
#define BERTH_DATA_DOCUMENTS_H

#include "core/error.h"
#include "text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

// Zero-initialise. Sentence i has the tokens [sentences[i], sentences[i + 1]), document i the
// sentences [documents[i], documents[i + 1]).
struct documents {
    int32_t *tokens;
    uint64_t *sentences; // [sentence_count + 1]
    uint32_t *documents; // [count + 1]
    size_t token_count, sentence_count, count;
    size_t token_capacity, sentence_capacity, capacity;
    size_t unknown;           // tokens that are [UNK], of documents_add_text
    struct token_list pieces; // scratch space to encode a line; its ill_formed counts all lines
};

// Appends a sentence to the last document; ignores one without tokens.
enum berth_status documents_add_sentence(struct documents *documents, const int32_t *tokens,
                                         size_t count, struct berth_error *error);
// Completes the last document; drops it if it has no sentences.
enum berth_status documents_end_document(struct documents *documents, struct berth_error *error);
// Appends a shard's text: one sentence per line, an empty line after each document. Lines
// end in LF, CR LF or CR, and a line of Unicode's white space is empty, as in Python.
enum berth_status documents_add_text(struct documents *documents, const struct tokenizer *tokenizer,
                                     const char *text, size_t length, struct berth_error *error);
void documents_done(struct documents *documents);

#endif
