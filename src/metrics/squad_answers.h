// SPDX-License-Identifier: Apache-2.0
// Turns span logits into answers: the n best spans over all windows of a question, the text of the
// answer as in the context, and the files predictions.json, nbest_predictions.json and
// null_odds.json. The logits come from task/squad_input.h; answers are scored by squad_metrics.h.
#ifndef BERTH_METRICS_SQUAD_ANSWERS_H
#define BERTH_METRICS_SQUAD_ANSWERS_H

#include "core/error.h"
#include "data/squad/squad.h"
#include "data/squad/squad_features.h"

#include <stddef.h>
#include <stdint.h>

#define SQUAD_N_BEST_MAX 65536

struct squad_answer_options {
    int64_t n_best_size;
    int64_t max_answer_length; // tokens
    int version_2_with_negative;
    double null_score_diff_threshold;
    // 1: the best of all spans, as written in the context; a context with words always has one. 0:
    // as in the original, the best span between one of the n best starts and one of the n best
    // ends, with single blanks, and if there is none, the word "empty".
    int all_spans;
    int whole_words; // 1: answers consist of whole words of the tokenizer
    // 1: the probability of a span, which orders the candidates, is P(start) P(end), each a softmax
    // over [CLS] and the document part of its window, as in transformers' pipeline; that of "no
    // answer" is the least of all windows. 0: as in the original, the softmax over the candidates
    // of the sum of both logits.
    int by_span;
};

struct squad_candidate {
    char *text; // owned
    double probability;
    float start_logit, end_logit;
    int64_t begin, end; // characters of the context, end exclusive; -1 for "no answer"
};

// The answer to one question.
struct squad_result {
    struct squad_candidate *candidates; // n-best, best first; at least one
    size_t count;
    char *prediction; // the final text ("" for no answer); owned
    double null_odds; // null score - best non-null score; 0 for version 1
};
void squad_result_done(struct squad_result *result);
// The index of the candidate that became the prediction; with version 2 it need not be 0.
size_t squad_result_chosen(const struct squad_result *result);

// The output of a model for a data set: logits[set->token_count][2]; those of feature f begin at
// row features[f].first.
struct squad_outcome {
    const struct squad_dataset *dataset;
    const struct squad_feature_set *set;
    const float *logits;
    const struct tokenizer *tokenizer;
    const struct squad_answer_options *options;
};

// BERTH_FAILURE if one of logits[length][2] is not finite; the message names the question and the
// token.
enum berth_status squad_check_logits(const struct squad_example *example, const float *logits,
                                     int32_t length, struct berth_error *error);

// Answers one question. Its features are adjacent: [first, first + count).
enum berth_status squad_answer_question(const struct squad_outcome *outcome, size_t first,
                                        size_t count, struct squad_result *result,
                                        struct berth_error *error);

// Answers a question with a single feature by Keras's rules, as the CSCS demos do: the best start
// and the best end are chosen independently, and the answer is the slice of the context between
// them: "" if the end precedes the start, the rest of the context if the end is beyond it. A start
// outside the context gives no candidate (count 0, prediction NULL). Needs neither tokenizer nor
// options.
enum berth_status squad_answer_separately(const struct squad_outcome *outcome,
                                          const struct squad_feature *feature,
                                          struct squad_result *result, struct berth_error *error);

// Answers every question of a data set, results[dataset->count], on `threads` threads.
enum berth_status squad_answer_all(const struct squad_outcome *outcome, int threads,
                                   struct squad_result **results, struct berth_error *error);
void squad_results_free(struct squad_result *results, size_t count);
// The most memory that squad_answer_all takes, and that its results keep, if texts of
// max_answer_length tokens are no longer than the average of their context. Logits and tokenizer
// are not needed.
size_t squad_answers_bytes(const struct squad_outcome *outcome, int threads);

// Writes predictions.json, nbest_predictions.json and, for version 2, null_odds.json to `folder`:
// all of them, or none after a failure.
enum berth_status squad_answers_write(const char *folder, const struct squad_dataset *dataset,
                                      const struct squad_result *results,
                                      const struct squad_answer_options *options,
                                      struct berth_error *error);

#endif
