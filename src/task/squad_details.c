// SPDX-License-Identifier: Apache-2.0
// Logs what a report shows about an evaluation of questions: sample answers, and the scores by the
// threshold for "no answer". answer.c calls it after it has scored a set; page/html_results.c draws
// the records.
#include "core/memory.h"
#include "core/utf8.h"
#include "metrics/squad_match.h"
#include "task/details.h"
#include "train/tasks/samples.h"

#include <string.h>

#define CURVE_POINTS 200

// --- sample answers ------------------------------------------------------------------------------

static enum berth_status rank(const struct squad_dataset *dataset,
                              const struct squad_result *result, size_t index,
                              struct sample_rank *rank, struct berth_error *error) {
    struct squad_match match;
    TRY(squad_match_example(&dataset->examples[index], result->prediction, dataset->version_2,
                            &match, error));
    const double chance = result->candidates[squad_result_chosen(result)].probability;
    *rank = (struct sample_rank){(1 - match.f1) * chance, index};
    return BERTH_OK;
}

static enum berth_status log_sample(const struct squad_dataset *dataset,
                                    const struct squad_result *result, size_t index, int64_t step,
                                    const struct berth_log *log, struct berth_error *error) {
    const struct squad_example *example = &dataset->examples[index];
    const struct squad_answer *wanted = example->answer_count > 0 ? &example->answers[0] : NULL;
    const struct squad_candidate *chosen = &result->candidates[squad_result_chosen(result)];
    struct squad_match match;
    struct sample sample = {.question = example->question,
                            .context = example->context,
                            .predicted = result->prediction,
                            .expected = wanted != NULL ? wanted->text : "",
                            .predicted_begin = chosen->begin,
                            .predicted_end = chosen->end,
                            .expected_begin = -1,
                            .expected_end = -1,
                            .probability = chosen->probability};
    TRY(squad_match_example(example, sample.predicted, dataset->version_2, &match, error));
    sample.score = 100 * match.f1;
    if (wanted != NULL && !wanted->misplaced && wanted->start >= 0) {
        sample.expected_begin = wanted->start;
        sample.expected_end = wanted->start + utf8_count(wanted->text, strlen(wanted->text));
    }
    samples_log(log, step, &sample);
    return BERTH_OK;
}

// --- thresholds ----------------------------------------------------------------------------------

// The best answer other than "no answer"; "": there is none.
static const char *text_below(const struct squad_result *result) {
    for (size_t i = 0; i < result->count; i++) {
        if (result->candidates[i].text[0] != '\0') {
            return result->candidates[i].text;
        }
    }
    return "";
}

struct sums {
    double exact, f1;
};

// The scores at each threshold, from "answer nothing" to "answer everything".
static enum berth_status log_curve(const struct squad_dataset *dataset,
                                   const struct squad_result *results, struct squad_odds *odds,
                                   int64_t step, const struct berth_log *log,
                                   struct berth_error *error) {
    const size_t count = dataset->count, every = (count + CURVE_POINTS - 1) / CURVE_POINTS;
    struct sums sums = {0};
    for (size_t i = 0; i < count; i++) {
        const int has_none = dataset->examples[i].answer_count == 0;
        odds[i] = (struct squad_odds){results[i].null_odds, i, i};
        sums.exact += has_none;
        sums.f1 += has_none;
    }
    squad_odds_sort(odds, count);
    for (size_t i = 0; i < count; i++) {
        const struct squad_example *example = &dataset->examples[odds[i].example];
        const int has_none = example->answer_count == 0;
        struct squad_match match;
        TRY(squad_match_example(example, text_below(&results[odds[i].example]), 1, &match, error));
        sums.exact += match.exact - has_none;
        sums.f1 += match.f1 - has_none;
        if ((i + 1) % every == 0 || i + 1 == count) {
            const double scale = 100.0 / (double)dataset->count;
            const struct berth_field fields[] = {
                log_integer("step", step), log_real("threshold", odds[i].odds),
                log_real("exact", scale * sums.exact), log_real("f1", scale * sums.f1)};
            log_fields(log, BERTH_DETAIL, "threshold", fields, sizeof fields / sizeof *fields);
        }
    }
    return BERTH_OK;
}

static enum berth_status log_thresholds(const struct squad_dataset *dataset,
                                        const struct squad_result *results, int64_t step,
                                        const struct berth_log *log, struct berth_error *error) {
    struct squad_odds *odds = memory_array(dataset->count, sizeof *odds);
    if (odds == NULL) {
        return error_no_memory(error, dataset->count * sizeof *odds, "the null odds");
    }
    const enum berth_status status = log_curve(dataset, results, odds, step, log, error);
    memory_free(odds);
    return status;
}

enum berth_status squad_details_log(const struct squad_dataset *dataset,
                                    const struct squad_result *results, int has_odds, int64_t step,
                                    const struct berth_log *log, struct berth_error *error) {
    struct sample_rank *ranks = memory_array(dataset->count, sizeof *ranks);
    enum berth_status status = BERTH_OK;
    if (ranks == NULL) {
        return error_no_memory(error, dataset->count * sizeof *ranks, "the sample answers");
    }
    for (size_t i = 0; i < dataset->count && status == BERTH_OK; i++) {
        status = rank(dataset, &results[i], i, &ranks[i], error);
    }
    const size_t shown = status == BERTH_OK ? samples_choose(ranks, dataset->count) : 0;
    for (size_t i = 0; i < shown && status == BERTH_OK; i++) {
        const size_t index = ranks[i].example;
        status = log_sample(dataset, &results[index], index, step, log, error);
    }
    memory_free(ranks);
    TRY(status);
    return has_odds ? log_thresholds(dataset, results, step, log, error) : BERTH_OK;
}
