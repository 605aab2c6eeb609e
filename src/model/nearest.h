// SPDX-License-Identifier: Apache-2.0
// Exact search of the nearest vectors: of each query the rows of a corpus with the largest inner
// products, which are cosines where all vectors have length 1. Products are the device's, of blocks
// of queries and blocks of the corpus, so the matrix of all scores is never in memory.
#ifndef BERTH_MODEL_NEAREST_H
#define BERTH_MODEL_NEAREST_H

#include "core/error.h"
#include "core/log.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct device;

// The queries of a block. A query has the same scores in any search of one corpus if its number is
// the same modulo this; on the host it always has.
enum { NEAREST_QUERIES = 256 };

// Finite numbers in the host's memory.
struct nearest_args {
    struct device *device;
    const float *queries; // [query_count][size]
    const float *corpus;  // [corpus_count][size]
    size_t query_count, corpus_count, size;
    size_t count;           // rows to find for each query: 1 to corpus_count
    const atomic_int *stop; // read between blocks; NULL: nobody stops it
    struct berth_log log;   // for the progress, in rows of the corpus
};

struct nearest {
    uint32_t index; // of a row of the corpus
    float score;
};

// Fills found[query_count][count], the largest score first; of equal scores the lower index first.
// The same for any number of threads. Errors: BERTH_NO_MEMORY, BERTH_INTERRUPTED, and the device's.
enum berth_status nearest_find(const struct nearest_args *args, struct nearest *found,
                               struct berth_error *error);
// The most that nearest_find allocates in the memory of the device; where that is not the host's,
// the scores, a part of it, again there. Independent of the number of queries and of `count`.
size_t nearest_bytes(size_t corpus_count, size_t size);

#endif
