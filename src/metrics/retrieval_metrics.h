// SPDX-License-Identifier: Apache-2.0
// Metrics of retrieval: how well a ranking of documents finds those that are relevant to a query.
// Names are those of MTEB, numbers those of ranx and trec_eval. task/embed_retrieval.c takes their
// means.
#ifndef BERTH_METRICS_RETRIEVAL_METRICS_H
#define BERTH_METRICS_RETRIEVAL_METRICS_H

#include "data/pairs/retrieval_set.h"

#include <stddef.h>
#include <stdint.h>

// The documents of a ranking that the metrics read.
#define RETRIEVAL_DEPTH 100

// The documents found for a query, the best first, and what is known of its documents, in ascending
// order of their numbers. A document without a judgement is not relevant.
struct retrieval_ranking {
    const uint32_t *found; // [found_count]
    size_t found_count;
    const struct retrieval_judgement *judged; // [judged_count]
    size_t judged_count;
};

// What the metrics read of a ranking.
struct retrieval_view {
    int64_t gains[RETRIEVAL_DEPTH]; // relevance of each found document; 0: not relevant
    size_t found_count;             // at most RETRIEVAL_DEPTH
    int64_t best[RETRIEVAL_DEPTH];  // the largest relevances of judged documents, descending
    size_t best_count;              // at most RETRIEVAL_DEPTH
    size_t relevant_count;
};

struct retrieval_metric {
    const char *name; // "ndcg_at_10"
    double (*score)(const struct retrieval_view *view, size_t depth);
    size_t depth;
};
#define RETRIEVAL_METRICS 12
// The first one says which model is the best.
extern const struct retrieval_metric retrieval_metrics[RETRIEVAL_METRICS];

// Writes the score of every metric, 0 without a relevant document.
void retrieval_score(const struct retrieval_ranking *ranking, double scores[RETRIEVAL_METRICS]);

#endif
