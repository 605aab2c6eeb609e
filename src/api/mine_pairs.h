// SPDX-License-Identifier: Apache-2.0
// The pairs of texts that `berth mine` finds negatives for, and the corpus in which it searches:
// numbers of texts, read once from the files that the job's settings name. Only mine.c includes it,
// which embeds the texts and chooses among them.
#ifndef BERTH_API_MINE_PAIRS_H
#define BERTH_API_MINE_PAIRS_H

#include "api/job.h"
#include "core/string_index.h"

#include <stddef.h>
#include <stdint.h>

struct mine_pairs {
    // The texts, each once; each ends with NUL, which counts. The corpus has the second texts of
    // the pairs, too.
    struct string_index queries, corpus;
    size_t rows;         // of the file of pairs
    uint32_t *positives; // [starts[queries.count]] texts of the corpus, query by query, each once
    size_t *starts;      // [queries.count + 1]
    size_t most;         // rows of the file that one query has
};

// Zero-initialise; call mine_pairs_done even on failure.
enum berth_status mine_pairs_read(const struct job *job, struct mine_pairs *pairs,
                                  struct berth_error *error);
void mine_pairs_done(struct mine_pairs *pairs);

#endif
