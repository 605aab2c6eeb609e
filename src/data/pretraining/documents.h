// SPDX-License-Identifier: Apache-2.0
// The documents of a shard as token ids, sentence by sentence: what pre-training instances are made
// from (instances.h). A line is tokenized when it is added; an empty one ends the document.
#ifndef BERTH_DATA_DOCUMENTS_H
#define BERTH_DATA_DOCUMENTS_H

#include "core/error.h"
#include "text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

// Zero-initialise. Sentence i is the tokens [sentences[i], sentences[i + 1]); document i is the
// sentences [documents[i], documents[i + 1]).
struct documents {
    int32_t *tokens;
    unsigned char *continues; // of each token: whether it is in the same word as the one before it
    uint64_t *sentences;      // [sentence_count + 1]
    uint32_t *documents;      // [count + 1]
    size_t token_count, sentence_count, count;
    size_t token_capacity, continues_capacity, sentence_capacity, capacity;
    size_t unknown;           // [UNK] tokens that documents_add_text added
    struct token_list pieces; // of one line, scratch space; pieces.ill_formed is for all lines
};

// Appends a sentence to the current document; ignores one without tokens. `continues`: as in struct
// documents; NULL: each token is a word.
enum berth_status documents_add_sentence(struct documents *documents, const int32_t *tokens,
                                         const unsigned char *continues, size_t count,
                                         struct berth_error *error);
// Ends the current document; drops it if it has no sentences.
enum berth_status documents_end_document(struct documents *documents, struct berth_error *error);
// Appends the text of a shard: one sentence per line, an empty line after each document. As in
// Python, lines end in LF, CR LF or CR, and a line of nothing but Unicode white space is empty.
enum berth_status documents_add_text(struct documents *documents, const struct tokenizer *tokenizer,
                                     const char *text, size_t length, struct berth_error *error);
void documents_done(struct documents *documents);

#endif
