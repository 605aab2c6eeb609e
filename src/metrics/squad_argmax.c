// SPDX-License-Identifier: Apache-2.0
// The answer of the CSCS demos: the row with the best start logit and, independently, the row with
// the best end logit. Only `berth show squad` asks for it (task/show.c); all other answers are
// squad_answers.c's.
#include "core/memory.h"
#include "core/portable_math.h"
#include "core/utf8.h"
#include "metrics/squad_answers.h"
#include "metrics/squad_text.h"

#include <math.h>

// Of equal logits, the lower row, as in NumPy's argmax.
static int32_t best_row(const float *logits, int32_t length, int side) {
    int32_t best = 0;
    for (int32_t row = 1; row < length; row++) {
        if (logits[2 * row + side] > logits[2 * best + side]) {
            best = row;
        }
    }
    return best;
}

// The softmax over all rows of one side, at its best row `row`.
static double probability(const float *logits, int32_t length, int side, int32_t row) {
    double sum = 0.0;
    for (int32_t i = 0; i < length; i++) {
        sum += math_exp((double)logits[2 * i + side] - (double)logits[2 * row + side]);
    }
    return 1.0 / sum;
}

// Rows [start, end] of the document part; empty if end precedes start.
static enum berth_status cut(const struct squad_text_source *source,
                             const struct squad_feature *feature, int32_t start, int32_t end,
                             struct squad_candidate *answer, struct berth_error *error) {
    int32_t last = end < start ? start : end;
    struct squad_text whole;
    TRY(squad_text_of_span(source, feature, start, last, &whole, error));
    if (end < start) {
        whole.text[0] = '\0';
        whole.end = whole.begin;
    }
    answer->text = whole.text;
    answer->begin = utf8_count(source->example->context, whole.begin);
    answer->end = utf8_count(source->example->context, whole.end);
    return BERTH_OK;
}

enum berth_status squad_answer_separately(const struct squad_outcome *outcome,
                                          const struct squad_feature *feature,
                                          struct squad_result *result, struct berth_error *error) {
    const struct squad_example *example = &outcome->dataset->examples[feature->example];
    const float *own = outcome->logits + (size_t)feature->first * 2;
    int32_t length = feature->length;
    *result = (struct squad_result){0};
    TRY(squad_check_logits(example, own, length, error));
    int32_t start = best_row(own, length, 0), end = best_row(own, length, 1);
    struct squad_candidate answer = {.probability = probability(own, length, 0, start) *
                                                    probability(own, length, 1, end),
                                     .start_logit = own[2 * start],
                                     .end_logit = own[2 * end + 1]};
    int32_t past = feature->document_begin + feature->document_length;
    if (start < feature->document_begin || start >= past) {
        return BERTH_OK;
    }
    end -= outcome->set->end_shift;
    const struct squad_text_source source = {.example = example, .set = outcome->set};
    TRY(cut(&source, feature, start, end < past ? end : past - 1, &answer, error));
    result->candidates = memory_new(sizeof *result->candidates);
    result->prediction = memory_string(answer.text);
    if (result->candidates == NULL || result->prediction == NULL) {
        memory_free(answer.text);
        squad_result_done(result);
        return error_no_memory(error, sizeof answer, "an answer");
    }
    result->candidates[0] = answer;
    result->count = 1;
    return BERTH_OK;
}
