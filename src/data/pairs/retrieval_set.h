// SPDX-License-Identifier: Apache-2.0
// Sets of retrieval: queries, a corpus of documents, and which documents are relevant to which
// query. Read from BEIR's files, or made of pairs of texts.
//
//   queries   a table (table.h) with the columns _id and text
//   corpus    a table with the columns _id, text and, if it has one, title, which comes before the
//             text with a blank between them
//   relevant  a table with the columns query-id, corpus-id and score; or TREC's four columns
//             without a header, separated by blanks: query, a word that is not read, document,
//             relevance
//
// A relevance is a whole number; 0 or less: not relevant. Queries without a judgement are left out.
// task/embed_retrieval.c scores what a model finds in such a set.
#ifndef BERTH_DATA_RETRIEVAL_SET_H
#define BERTH_DATA_RETRIEVAL_SET_H

#include "core/error.h"
#include "data/pairs/text_examples.h"

#include <stddef.h>
#include <stdint.h>

struct retrieval_files {
    const char *queries, *corpus, *relevant;
};

struct retrieval_judgement {
    uint32_t document;
    int64_t relevance;
};

struct retrieval_set {
    const char **texts; // [query_count], then [document_count]
    size_t query_count, document_count;
    size_t left_out;                        // queries without a judgement
    size_t *starts;                         // [query_count + 1]: first judgement of each query
    struct retrieval_judgement *judgements; // of each query by ascending number of the document
    size_t relevant_count;                  // judgements above 0
    void *storage;                          // owns the texts of files
};

// Reads the first `limit` queries that have a judgement; 0: all of them. Free with
// retrieval_set_done, also after a failure. Errors are those of table.h, and (BERTH_BAD_DATA, with
// file and line) an id that occurs twice, a query without text, a judgement of an unknown query or
// document, a second one of the same, a relevance that is not a whole number, a set in which
// nothing is relevant.
enum berth_status retrieval_set_read(const struct retrieval_files *files, size_t limit,
                                     struct retrieval_set *set, struct berth_error *error);
// The distinct first texts of pairs are queries, the distinct second texts documents, and those of
// a pair are relevant by 1. The texts are borrowed. The only error is BERTH_NO_MEMORY.
enum berth_status retrieval_set_of_pairs(const struct text_examples *pairs,
                                         struct retrieval_set *set, struct berth_error *error);
// Frees the texts alone.
void retrieval_set_drop_texts(struct retrieval_set *set);
void retrieval_set_done(struct retrieval_set *set);

#endif
