// SPDX-License-Identifier: Apache-2.0
// Scores of one query's ranking, which the search (model/nearest.h) has made. The means over the
// queries are task/embed_retrieval.c's; which documents are relevant, data/pairs/retrieval_set.h's.
#include "metrics/retrieval_metrics.h"

#include "core/portable_math.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

// --- what is read of a ranking -------------------------------------------------------------------

static int by_document(const void *a, const void *b) {
    const uint32_t x = *(const uint32_t *)a, y = ((const struct retrieval_judgement *)b)->document;
    return (x > y) - (x < y);
}

static void look(const struct retrieval_ranking *ranking, struct retrieval_view *view) {
    *view = (struct retrieval_view){.found_count = least(ranking->found_count, RETRIEVAL_DEPTH)};
    for (size_t i = 0; i < view->found_count; i++) {
        uint32_t document = ranking->found[i];
        const struct retrieval_judgement *found =
            bsearch(&document, ranking->judged, ranking->judged_count, sizeof *ranking->judged,
                    by_document);
        view->gains[i] = found != NULL && found->relevance > 0 ? found->relevance : 0;
    }
    for (size_t i = 0; i < ranking->judged_count; i++) {
        if (ranking->judged[i].relevance > 0) {
            view->relevant_count++;
            const int64_t relevance = ranking->judged[i].relevance;
            size_t place = view->best_count;
            while (place > 0 && view->best[place - 1] < relevance) {
                place--;
            }
            if (place != RETRIEVAL_DEPTH) {
                view->best_count = least(view->best_count + 1, RETRIEVAL_DEPTH);
                memmove(view->best + place + 1, view->best + place,
                        (view->best_count - place - 1) * sizeof *view->best);
                view->best[place] = relevance;
            }
        }
    }
}

// --- the metrics of a query with a relevant document ---------------------------------------------

// The discount is the natural logarithm: the base cancels in a quotient of gains.
static double discounted_gain(const int64_t *gains, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)gains[i] / math_log((double)(i + 2));
    }
    return sum;
}

static double ndcg(const struct retrieval_view *view, size_t depth) {
    return discounted_gain(view->gains, least(depth, view->found_count)) /
           discounted_gain(view->best, least(depth, view->best_count));
}

static double reciprocal_rank(const struct retrieval_view *view, size_t depth) {
    for (size_t i = 0; i < least(depth, view->found_count); i++) {
        if (view->gains[i] > 0) {
            return 1 / (double)(i + 1);
        }
    }
    return 0;
}

static double average_precision(const struct retrieval_view *view, size_t depth) {
    double sum = 0;
    size_t hits = 0;
    for (size_t i = 0; i < least(depth, view->found_count); i++) {
        if (view->gains[i] > 0) {
            hits++;
            sum += (double)hits / (double)(i + 1);
        }
    }
    return sum / (double)view->relevant_count;
}

static double hits_of(const struct retrieval_view *view, size_t depth) {
    size_t hits = 0;
    for (size_t i = 0; i < least(depth, view->found_count); i++) {
        hits += view->gains[i] > 0;
    }
    return (double)hits;
}

static double recall(const struct retrieval_view *view, size_t depth) {
    return hits_of(view, depth) / (double)view->relevant_count;
}

static double precision(const struct retrieval_view *view, size_t depth) {
    return hits_of(view, depth) / (double)depth;
}

const struct retrieval_metric retrieval_metrics[RETRIEVAL_METRICS] = {
    {"ndcg_at_10", ndcg, 10},
    {"mrr_at_10", reciprocal_rank, 10},
    {"map_at_100", average_precision, 100},
    {"recall_at_1", recall, 1},
    {"recall_at_3", recall, 3},
    {"recall_at_5", recall, 5},
    {"recall_at_10", recall, 10},
    {"recall_at_100", recall, 100},
    {"precision_at_1", precision, 1},
    {"precision_at_3", precision, 3},
    {"precision_at_5", precision, 5},
    {"precision_at_10", precision, 10}};

void retrieval_score(const struct retrieval_ranking *ranking, double scores[RETRIEVAL_METRICS]) {
    struct retrieval_view view;
    look(ranking, &view);
    for (size_t i = 0; i < RETRIEVAL_METRICS; i++) {
        const struct retrieval_metric *metric = &retrieval_metrics[i];
        scores[i] = view.relevant_count > 0 ? metric->score(&view, metric->depth) : 0;
    }
}
