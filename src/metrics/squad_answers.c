// SPDX-License-Identifier: Apache-2.0
// Google's n-best search and choice of the answer (run_squad.py's write_predictions). Sums
// and softmaxes are computed in double, as in the original.
//
// In the original the padding of a window takes part in the choice of the best starts and ends;
// here there is no padding. squad_text.c cuts the text from the context, squad_files.c writes the
// files. The task answer calls it for a text of a call and at the end of a prediction.
#include "metrics/squad_answers.h"

#include "core/finite.h"
#include "core/memory.h"
#include "core/portable_math.h"
#include "core/utf8.h"
#include "metrics/squad_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EMPTY_NULL_SCORE 1000000.0 // for a question without windows
// With all_spans, a question keeps SPANS_KEPT spans, and SPANS_PER_ANSWER more for each answer.
#define SPANS_KEPT ((size_t)1 << 14)
#define SPANS_PER_ANSWER 16

// A span of one window, before its text is known.
struct span {
    const struct squad_feature *feature;
    int32_t start, end; // rows of the window; 0, 0: no answer
    float start_logit, end_logit;
    double rank;  // the sum of both logits; with by_span the logarithm of P(start) P(end)
    size_t order; // order of creation; breaks ties
};

// The state of the search for one question.
struct search {
    const struct squad_outcome *outcome;
    size_t first, count; // the question's features
    struct span *spans;
    size_t span_count, span_capacity;
    double null_score; // the least of all windows, as is the rank
    double null_rank;
    float null_start, null_end;
    struct squad_text_memo memo;
    struct berth_error *error;
};

static double score(float start_logit, float end_logit) {
    return (double)start_logit + (double)end_logit;
}

static const float *logits_of(const struct search *search, const struct squad_feature *feature) {
    return search->outcome->logits + (size_t)feature->first * 2;
}

enum berth_status squad_check_logits(const struct squad_example *example, const float *logits,
                                     int32_t length, struct berth_error *error) {
    const int i = (int)finite_count(logits, 2 * length);
    if (i < 2 * length) {
        return error_set(error, BERTH_FAILURE,
                         "question \"%.*s\": the %s logit of token %d is not a finite number; "
                         "the model's weights are damaged or its training diverged",
                         UTF8_SHOWN(example->id, 60), i % 2 == 0 ? "start" : "end", i / 2);
    }
    return BERTH_OK;
}

// The rows with the largest values, largest first; of equals, the lower row first.
struct best_rows {
    struct row {
        double value;
        int32_t row;
    } * rows; // [limit]
    size_t count, limit;
};

// Inserts the row into the sorted list, which is short.
static void put_row(struct best_rows *best, double value, int32_t row) {
    struct row *rows = best->rows;
    if (best->count == best->limit && !(value > rows[best->limit - 1].value)) {
        return;
    }
    size_t index = best->count < best->limit ? best->count++ : best->limit - 1;
    while (index > 0 && value > rows[index - 1].value) {
        rows[index] = rows[index - 1];
        index--;
    }
    rows[index] = (struct row){value, row};
}

// One past the last row in which an answer that starts in row `start` may end; `start` itself: no
// answer may start there.
static int32_t end_limit(const struct search *search, const struct squad_feature *feature,
                         int32_t start) {
    const int32_t past = feature->document_begin + feature->document_length;
    const int64_t longest = search->outcome->options->max_answer_length;
    if (!search->outcome->set->max_context[(size_t)feature->first + (size_t)start]) {
        return start;
    }
    return longest < past - start ? start + (int32_t)longest : past;
}

static int is_valid(const struct search *search, const struct squad_feature *feature, int32_t start,
                    int32_t end) {
    int32_t begin = feature->document_begin, past = begin + feature->document_length;
    return start >= begin && start < past && end >= start &&
           end < end_limit(search, feature, start);
}

// A window whose spans are added: its logits, and what a sum of two of them exceeds the rank by.
struct window {
    const struct squad_feature *feature;
    const float *logits;
    double excess;
};

// The logarithm of the sum of exp over [CLS] and the document part, of side 0 (start) or 1 (end).
static double log_sum(const struct search *search, const struct squad_feature *feature, int side) {
    const float *logits = logits_of(search, feature) + side;
    const int32_t first = feature->document_begin + side * search->outcome->set->end_shift;
    float largest_logit = logits[0]; // GCC 12 for ARM64 fails where this is a double
    for (int32_t row = first; row < first + feature->document_length; row++) {
        largest_logit = fmaxf(largest_logit, logits[2 * row]);
    }
    const double largest = (double)largest_logit;
    double sum = math_exp((double)logits[0] - largest);
    for (int32_t row = first; row < first + feature->document_length; row++) {
        sum += math_exp((double)logits[2 * row] - largest);
    }
    return largest + math_log(sum);
}

static struct window window_of(const struct search *search, const struct squad_feature *feature) {
    return (struct window){.feature = feature,
                           .logits = logits_of(search, feature),
                           .excess = search->outcome->options->by_span
                                         ? log_sum(search, feature, 0) + log_sum(search, feature, 1)
                                         : 0.0};
}

static enum berth_status put_span(struct search *search, struct span span) {
    size_t needed = search->span_count + 1;
    struct span *spans = memory_grow(search->spans, &search->span_capacity, needed, sizeof *spans);
    if (spans == NULL) {
        return error_no_memory(search->error, needed * sizeof *spans, "answers");
    }
    search->spans = spans;
    span.order = search->span_count;
    search->spans[search->span_count++] = span;
    return BERTH_OK;
}

static enum berth_status add_span(struct search *search, const struct window *window, int32_t start,
                                  int32_t end) {
    const float start_logit = window->logits[2 * start],
                end_logit = window->logits[2 * (end + search->outcome->set->end_shift) + 1];
    return put_span(search, (struct span){.feature = window->feature,
                                          .start = start,
                                          .end = end,
                                          .start_logit = start_logit,
                                          .end_logit = end_logit,
                                          .rank = score(start_logit, end_logit) - window->excess});
}

// Google's search: the spans between the n best starts and the n best ends of all rows.
static enum berth_status add_pairs(struct search *search, const struct window *window,
                                   struct best_rows *starts, struct best_rows *ends) {
    const struct squad_feature *feature = window->feature;
    const float *logits = window->logits;
    for (int32_t row = 0; row < feature->length; row++) {
        put_row(starts, (double)logits[2 * row], row);
        put_row(ends, (double)logits[2 * row + 1], row);
    }
    for (size_t s = 0; s < starts->count; s++) {
        for (size_t e = 0; e < ends->count; e++) {
            int32_t start = starts->rows[s].row;
            int32_t end = ends->rows[e].row - search->outcome->set->end_shift;
            if (is_valid(search, feature, start, end)) {
                TRY(add_span(search, window, start, end));
            }
        }
    }
    return BERTH_OK;
}

// The best score of a span that starts in row `start`.
static double best_score(const struct search *search, const struct squad_feature *feature,
                         int32_t start) {
    const float *logits = logits_of(search, feature);
    const float *ends = logits + 2 * search->outcome->set->end_shift + 1;
    const int32_t past = end_limit(search, feature, start);
    double best = -INFINITY;
    for (int32_t end = start; end < past; end++) {
        const double own = score(logits[2 * start], ends[2 * end]);
        best = own > best ? own : best;
    }
    return best;
}

// The n best of all spans start in the n rows whose best spans have the highest scores.
static enum berth_status add_best(struct search *search, const struct window *window,
                                  struct best_rows *starts) {
    const struct squad_feature *feature = window->feature;
    for (int32_t i = 0; i < feature->document_length; i++) {
        const int32_t start = feature->document_begin + i;
        put_row(starts, best_score(search, feature, start), start);
    }
    for (size_t s = 0; s < starts->count; s++) {
        const int32_t start = starts->rows[s].row, past = end_limit(search, feature, start);
        for (int32_t end = start; end < past; end++) {
            TRY(add_span(search, window, start, end));
        }
    }
    return BERTH_OK;
}

static enum berth_status add_window(struct search *search, const struct squad_feature *feature,
                                    struct row *rows) {
    const float *logits = logits_of(search, feature);
    const size_t n = (size_t)search->outcome->options->n_best_size;
    struct best_rows starts = {.rows = rows, .limit = n}, ends = {.rows = rows + n, .limit = n};
    TRY(squad_check_logits(&search->outcome->dataset->examples[feature->example], logits,
                           feature->length, search->error));
    const struct window window = window_of(search, feature);
    search->null_rank = fmin(search->null_rank, score(logits[0], logits[1]) - window.excess);
    if (score(logits[0], logits[1]) < search->null_score) {
        search->null_score = score(logits[0], logits[1]);
        search->null_start = logits[0];
        search->null_end = logits[1];
    }
    return search->outcome->options->all_spans ? add_best(search, &window, &starts)
                                               : add_pairs(search, &window, &starts, &ends);
}

static int by_rank(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    if (x->rank != y->rank) {
        return x->rank > y->rank ? -1 : 1;
    }
    return (x->order > y->order) - (x->order < y->order);
}

static void sort_spans(struct search *search) {
    if (search->span_count > 0) {
        qsort(search->spans, search->span_count, sizeof *search->spans, by_rank);
    }
}

static enum berth_status collect_spans(struct search *search) {
    size_t n = (size_t)search->outcome->options->n_best_size;
    struct row *rows = memory_array(n, 2 * sizeof *rows);
    if (rows == NULL) {
        return error_no_memory(search->error, n * 2 * sizeof *rows, "the best rows");
    }
    enum berth_status status = BERTH_OK;
    for (size_t f = 0; f < search->count && status == BERTH_OK; f++) {
        status = add_window(search, &search->outcome->set->features[search->first + f], rows);
        // Bounds the memory: the spans of all windows of a long context would need more than the
        // model.
        const size_t k = (size_t)search->outcome->options->n_best_size;
        const size_t limit = SPANS_KEPT + SPANS_PER_ANSWER * k;
        if (search->outcome->options->all_spans && search->span_count > 2 * limit) {
            sort_spans(search);
            search->span_count = limit;
            for (size_t i = 0; i < limit; i++) {
                search->spans[i].order = i;
            }
        }
    }
    memory_free(rows);
    TRY(status);
    if (search->outcome->options->version_2_with_negative) {
        TRY(put_span(search, (struct span){.start_logit = search->null_start,
                                           .end_logit = search->null_end,
                                           .rank = search->null_rank}));
    }
    sort_spans(search);
    return BERTH_OK;
}

// --- candidates ---------------------------------------------------------------------------------

static int is_seen(const struct squad_result *result, const char *text) {
    for (size_t i = 0; i < result->count; i++) {
        if (strcmp(result->candidates[i].text, text) == 0) {
            return 1;
        }
    }
    return 0;
}

// Takes ownership of candidate.text, which may be NULL (out of memory). candidates has room for it.
static enum berth_status add_candidate(const struct search *search, struct squad_result *result,
                                       size_t index, struct squad_candidate candidate) {
    if (candidate.text == NULL) {
        return error_no_memory(search->error, 1, "an answer");
    }
    memmove(result->candidates + index + 1, result->candidates + index,
            (result->count - index) * sizeof candidate);
    result->candidates[index] = candidate;
    result->count++;
    return BERTH_OK;
}

// `rank` -INFINITY: a text that is no answer.
static enum berth_status add_plain(const struct search *search, struct squad_result *result,
                                   size_t index, const char *text, const struct span *span) {
    return add_candidate(search, result, index,
                         (struct squad_candidate){.text = memory_string(text),
                                                  .probability = math_exp(span->rank),
                                                  .start_logit = span->start_logit,
                                                  .end_logit = span->end_logit,
                                                  .begin = -1,
                                                  .end = -1});
}

static enum berth_status add_answer(struct search *search, const struct span *span,
                                    struct squad_result *result) {
    struct squad_text answer;
    const struct squad_text_source source = {
        .example = &search->outcome->dataset->examples[span->feature->example],
        .set = search->outcome->set,
        .tokenizer = search->outcome->tokenizer,
        .whole_words = search->outcome->options->whole_words,
        .as_written = search->outcome->options->all_spans,
        .memo = &search->memo};
    const char *context = source.example->context;
    TRY(squad_text_of_span(&source, span->feature, span->start, span->end, &answer, search->error));
    if (answer.text == NULL || is_seen(result, answer.text)) {
        memory_free(answer.text);
        return BERTH_OK;
    }
    return add_candidate(search, result, result->count,
                         (struct squad_candidate){.text = answer.text,
                                                  .probability = math_exp(span->rank),
                                                  .start_logit = span->start_logit,
                                                  .end_logit = span->end_logit,
                                                  .begin = utf8_count(context, answer.begin),
                                                  .end = utf8_count(context, answer.end)});
}

static enum berth_status collect_candidates(struct search *search, struct squad_result *result) {
    const struct squad_answer_options *options = search->outcome->options;
    const struct span none = {.rank = -INFINITY}, null = {.start_logit = search->null_start,
                                                          .end_logit = search->null_end,
                                                          .rank = search->null_rank};
    size_t n = (size_t)options->n_best_size;
    size_t limit = search->span_count < n ? search->span_count : n;
    result->candidates = memory_array_zeroed(limit + 2, sizeof *result->candidates);
    if (result->candidates == NULL) {
        return error_no_memory(search->error, limit * sizeof *result->candidates, "answers");
    }
    for (size_t i = 0; i < search->span_count && result->count < n; i++) {
        const struct span *span = &search->spans[i];
        if (span->feature == NULL) {
            TRY(add_plain(search, result, result->count, "", span));
        } else {
            TRY(add_answer(search, span, result));
        }
    }
    if (options->version_2_with_negative) {
        if (!is_seen(result, "")) {
            TRY(add_plain(search, result, result->count, "", &null));
        }
        if (result->count == 1 && !options->all_spans) {
            TRY(add_plain(search, result, 0, "empty", &none));
        }
    }
    const char *placeholder = options->all_spans ? "" : "empty";
    return result->count > 0 ? BERTH_OK : add_plain(search, result, 0, placeholder, &none);
}

// Softmax over the scores of the kept candidates.
static void set_probabilities(struct squad_result *result) {
    double largest = -INFINITY, total = 0.0;
    for (size_t i = 0; i < result->count; i++) {
        const struct squad_candidate *candidate = &result->candidates[i];
        largest = fmax(largest, score(candidate->start_logit, candidate->end_logit));
    }
    for (size_t i = 0; i < result->count; i++) {
        struct squad_candidate *candidate = &result->candidates[i];
        candidate->probability =
            math_exp(score(candidate->start_logit, candidate->end_logit) - largest);
        total += candidate->probability;
    }
    for (size_t i = 0; i < result->count; i++) {
        result->candidates[i].probability /= total;
    }
}

static enum berth_status choose(const struct search *search, struct squad_result *result) {
    const struct squad_candidate *best = result->candidates;
    if (search->outcome->options->version_2_with_negative) {
        while (best < result->candidates + result->count && *best->text == '\0') {
            best++;
        }
        if (best == result->candidates + result->count) { // every text is empty
            best = result->candidates;
        }
        result->null_odds =
            search->null_score - (double)best->start_logit - (double)best->end_logit;
    }
    int is_null = search->outcome->options->version_2_with_negative &&
                  result->null_odds > search->outcome->options->null_score_diff_threshold;
    result->prediction = memory_string(is_null ? "" : best->text);
    return result->prediction != NULL ? BERTH_OK
                                      : error_no_memory(search->error, 1, "a prediction");
}

size_t squad_result_chosen(const struct squad_result *result) {
    for (size_t i = 0; i < result->count; i++) {
        if (strcmp(result->candidates[i].text, result->prediction) == 0) {
            return i;
        }
    }
    return 0;
}

enum berth_status squad_answer_question(const struct squad_outcome *outcome, size_t first,
                                        size_t count, struct squad_result *result,
                                        struct berth_error *error) {
    struct search search = {.outcome = outcome,
                            .first = first,
                            .count = count,
                            .null_score = EMPTY_NULL_SCORE,
                            .null_rank = outcome->options->by_span ? 0.0 : EMPTY_NULL_SCORE,
                            .error = error};
    enum berth_status status;
    *result = (struct squad_result){0};
    TRY_DONE(
        error_outside(error, "n_best_size", 1, SQUAD_N_BEST_MAX, outcome->options->n_best_size));
    TRY_DONE(error_outside(error, "max_answer_length", 1, INT64_MAX,
                           outcome->options->max_answer_length));
    TRY_DONE(collect_spans(&search));
    TRY_DONE(collect_candidates(&search, result));
    if (!outcome->options->by_span) {
        set_probabilities(result);
    }
    TRY_DONE(choose(&search, result));
done:
    memory_free(search.spans);
    squad_text_memo_done(&search.memo);
    if (status != BERTH_OK) {
        squad_result_done(result);
    }
    return status;
}

void squad_result_done(struct squad_result *result) {
    for (size_t i = 0; i < result->count; i++) {
        memory_free(result->candidates[i].text);
    }
    memory_free(result->candidates);
    memory_free(result->prediction);
    *result = (struct squad_result){0};
}

// --- a whole data set ---------------------------------------------------------------------------

// Sets first[i] to the first feature of example i, and first[count] to the number of features.
static void find_features(const struct squad_dataset *dataset, const struct squad_feature_set *set,
                          size_t *first) {
    size_t feature = 0;
    for (size_t i = 0; i < dataset->count; i++) {
        first[i] = feature;
        while (feature < set->count && (size_t)set->features[feature].example == i) {
            feature++;
        }
    }
    first[dataset->count] = feature;
}

enum berth_status squad_answer_all(const struct squad_outcome *outcome, int threads,
                                   struct squad_result **results, struct berth_error *error) {
    const struct squad_dataset *dataset = outcome->dataset;
    enum berth_status status = BERTH_OK;
    size_t failed = SIZE_MAX;
    *results = memory_array_zeroed(dataset->count + 1, sizeof **results);
    size_t *first = memory_array(dataset->count + 1, sizeof *first);
    if (*results == NULL || first == NULL) {
        memory_free(*results);
        memory_free(first);
        *results = NULL;
        return error_no_memory(error, dataset->count * sizeof **results, "answers");
    }
    find_features(dataset, outcome->set, first);
#pragma omp parallel for schedule(dynamic, 8) num_threads(threads < 1 ? 1 : threads)
    for (size_t i = 0; i < dataset->count; i++) {
        struct berth_error own_error = {0};
        enum berth_status own_status = squad_answer_question(
            outcome, first[i], first[i + 1] - first[i], &(*results)[i], &own_error);
        if (own_status != BERTH_OK) {
#pragma omp critical(squad_answers_failure)
            if (i < failed) { // the first question's error, whatever the number of threads
                failed = i;
                status = own_status;
                if (error != NULL) {
                    *error = own_error;
                }
            }
        }
    }
    memory_free(first);
    if (status != BERTH_OK) {
        squad_results_free(*results, dataset->count);
        *results = NULL;
    }
    return status;
}

#define BLOCK_BYTES 24 // what the allocator adds to a text

// Adds up max_spans of a question's features; *tokens is the length of the context.
static size_t max_question_spans(const struct squad_outcome *outcome, size_t first, size_t count,
                                 size_t *tokens) {
    size_t spans = 0;
    *tokens = 1;
    for (size_t f = first; f < first + count; f++) {
        const struct squad_feature *feature = &outcome->set->features[f];
        const size_t end = (size_t)feature->document_start + (size_t)feature->document_length;
        *tokens = end > *tokens ? end : *tokens;
        // The most spans that a window yields.
        const size_t n = (size_t)outcome->options->n_best_size,
                     rows = (size_t)feature->document_length;
        const size_t longest = (size_t)outcome->options->max_answer_length;
        const size_t ends = outcome->options->all_spans || longest < n ? longest : n;
        spans += (n < rows ? n : rows) * (ends < rows ? ends : rows);
    }
    return spans;
}

size_t squad_answers_bytes(const struct squad_outcome *outcome, int threads) {
    const struct squad_dataset *dataset = outcome->dataset;
    const struct squad_feature_set *set = outcome->set;
    size_t bytes = 0, most_spans = 0, first = 0;
    for (size_t i = 0; i < dataset->count; i++) {
        size_t tokens, end = first;
        while (end < set->count && (size_t)set->features[end].example == i) {
            end++;
        }
        const size_t spans = max_question_spans(outcome, first, end - first, &tokens);
        const size_t n = (size_t)outcome->options->n_best_size;
        const size_t longest = (size_t)outcome->options->max_answer_length;
        const size_t text = BLOCK_BYTES + strlen(dataset->examples[i].context) *
                                              (longest < tokens ? longest : tokens) / tokens;
        bytes += sizeof(struct squad_result) + text +
                 (2 + (spans < n ? spans : n)) * (sizeof(struct squad_candidate) + text);
        most_spans = spans > most_spans ? spans : most_spans;
        first = end;
    }
    const size_t growing = 3 * most_spans * sizeof(struct span); // memory_grow copies and doubles
    return bytes + (size_t)(threads < 1 ? 1 : threads) * growing;
}

void squad_results_free(struct squad_result *results, size_t count) {
    for (size_t i = 0; results != NULL && i < count; i++) {
        squad_result_done(&results[i]);
    }
    memory_free(results);
}
