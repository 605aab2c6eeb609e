// SPDX-License-Identifier: Apache-2.0
// The official evaluation of whole files, evaluate-v1.1.py and evaluate-v2.0.py: the same sums in
// the same order, printed as in Python, so that the output is the same text.
//
// Sums are plain left-to-right sums, like those of Python before 3.12. A question without a
// prediction scores 0 in v1.1 and is an error in v2.0, as in the scripts. Predictions that all
// belong to another data set are an error here, whereas evaluate-v1.1.py prints 0. The verb `berth
// evaluate squad` runs it; scores of single answers are squad_metrics.c's.
#include "core/memory.h"
#include "core/utf8.h"
#include "format/json/json.h"
#include "metrics/squad_match.h"
#include "metrics/squad_metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_SIZE 2048
#define MISSING_SHOWN 10 // further warnings are only counted

struct evaluation {
    struct squad_dataset dataset;
    json *predictions, *odds; // odds: NULL without a file
    const struct squad_evaluation_files *files;
    double threshold;
    const struct berth_log *log;
    struct squad_match *scores; // of each example, before thresholding
    struct squad_odds *sorted;  // the file's odds in ascending order
    size_t sorted_count;
    char text[TEXT_SIZE];
    size_t length;
    struct berth_error *error;
};

// --- input --------------------------------------------------------------------------------------

static enum berth_status read_object(const char *path, const char *expected, json **object,
                                     struct berth_error *error) {
    TRY(json_read_file(path, object, error));
    if (!json_is_object_value(*object)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected one JSON object that maps question ids to %s", path,
                         expected);
    }
    return BERTH_OK;
}

// The prediction for an example; NULL if the file has none.
static enum berth_status prediction_of(const struct evaluation *evaluation, size_t index,
                                       const char **prediction) {
    const char *id = evaluation->dataset.examples[index].id;
    const json *value = json_member(evaluation->predictions, id);
    *prediction = json_text(value);
    if (value != NULL && *prediction == NULL) {
        return error_set(evaluation->error, BERTH_BAD_DATA,
                         "%s: key \"%.*s\": expected the answer's text; predictions map each "
                         "question id to one text",
                         evaluation->files->predictions, UTF8_SHOWN(id, 80));
    }
    return BERTH_OK;
}

// Predictions for another data set would score 0, which looks like a bad model.
static enum berth_status check_overlap(const struct evaluation *evaluation) {
    const struct squad_dataset *dataset = &evaluation->dataset;
    for (size_t i = 0; i < dataset->count; i++) {
        if (json_member(evaluation->predictions, dataset->examples[i].id) != NULL) {
            return BERTH_OK;
        }
    }
    struct json_walk walk = {.object = evaluation->predictions};
    if (!json_walk_next(&walk)) {
        return error_set(evaluation->error, BERTH_BAD_DATA,
                         "%s: no predictions; expected an answer for each question id",
                         evaluation->files->predictions);
    }
    return error_set(evaluation->error, BERTH_BAD_DATA,
                     "%s: none of its question ids (\"%.*s\", ...) is in %.*s (\"%.*s\", ...); "
                     "are these predictions for another data set?",
                     evaluation->files->predictions, UTF8_SHOWN(walk.key, 80),
                     UTF8_SHOWN(dataset->name, 300), UTF8_SHOWN(dataset->examples[0].id, 80));
}

// --- output -------------------------------------------------------------------------------------

// Takes ownership of `value`; NULL: out of memory.
static enum berth_status put(struct evaluation *evaluation, const char *separator,
                             const char *prefix, const char *key, json *value) {
    char *number = value == NULL ? NULL : json_write(value, JSON_COMPACT);
    json_free(value);
    if (number == NULL) {
        return error_no_memory(evaluation->error, TEXT_SIZE, "the scores");
    }
    int length = snprintf(evaluation->text + evaluation->length, TEXT_SIZE - evaluation->length,
                          "%s\"%s%s\": %s", separator, prefix, key, number);
    evaluation->length += (size_t)length;
    memory_free(number);
    return BERTH_OK;
}

static enum berth_status put_percent(struct evaluation *evaluation, const char *separator,
                                     const char *prefix, const char *key, double sum,
                                     int64_t total) {
    return put(evaluation, separator, prefix, key, json_new_real(100.0 * sum / (double)total));
}

// --- version 1.1 --------------------------------------------------------------------------------

static enum berth_status evaluate_v1(struct evaluation *evaluation) {
    const struct squad_dataset *dataset = &evaluation->dataset;
    size_t missing = 0;
    double exact = 0.0, f1 = 0.0;
    for (size_t i = 0; i < dataset->count; i++) {
        const char *prediction;
        struct squad_match best;
        TRY(prediction_of(evaluation, i, &prediction));
        if (prediction == NULL) {
            if (missing++ < MISSING_SHOWN) {
                log_warning(evaluation->log, "Unanswered question %s will receive score 0.",
                            dataset->examples[i].id);
            }
            continue;
        }
        TRY(squad_match_example(&dataset->examples[i], prediction, 0, &best, evaluation->error));
        exact += best.exact;
        f1 += best.f1;
    }
    if (missing > MISSING_SHOWN) {
        log_warning(evaluation->log, "%s: %zu questions without a prediction receive score 0",
                    evaluation->files->predictions, missing);
    }
    TRY(put_percent(evaluation, "{", "", "exact_match", exact, (int64_t)dataset->count));
    TRY(put_percent(evaluation, ", ", "", "f1", f1, (int64_t)dataset->count));
    evaluation->length += (size_t)sprintf(evaluation->text + evaluation->length, "}");
    return BERTH_OK;
}

// --- version 2.0 --------------------------------------------------------------------------------

// The exact match and F1 of an example after applying the no-answer threshold.
static enum berth_status score_with_threshold(const struct evaluation *evaluation, size_t index,
                                              double *exact, double *f1) {
    const struct squad_example *example = &evaluation->dataset.examples[index];
    double odds = 0.0;
    if (evaluation->odds != NULL) {
        const json *value = json_member(evaluation->odds, example->id);
        if (!json_is_number_value(value)) {
            return error_set(evaluation->error, BERTH_BAD_DATA,
                             "%s: key \"%.*s\": expected a number for every question",
                             evaluation->files->null_odds, UTF8_SHOWN(example->id, 80));
        }
        odds = json_as_real(value);
    }
    *exact = evaluation->scores[index].exact;
    *f1 = evaluation->scores[index].f1;
    if (odds > evaluation->threshold) {
        *exact = *f1 = example->answer_count == 0;
    }
    return BERTH_OK;
}

enum subset { SUBSET_ALL, SUBSET_ANSWERED, SUBSET_UNANSWERED };

static enum berth_status put_subset(struct evaluation *evaluation, enum subset subset,
                                    const char *prefix) {
    const struct squad_dataset *dataset = &evaluation->dataset;
    double exact_sum = 0.0, f1_sum = 0.0;
    int64_t total = 0;
    for (size_t i = 0; i < dataset->count; i++) {
        double exact = 0.0, f1 = 0.0;
        int answered = dataset->examples[i].answer_count > 0;
        if ((subset == SUBSET_ANSWERED && !answered) || (subset == SUBSET_UNANSWERED && answered)) {
            continue;
        }
        TRY(score_with_threshold(evaluation, i, &exact, &f1));
        exact_sum += exact;
        f1_sum += f1;
        total++;
    }
    if (total > 0) {
        const char *separator = subset == SUBSET_ALL ? "{\n  " : ",\n  ";
        TRY(put_percent(evaluation, separator, prefix, "exact", exact_sum, total));
        TRY(put_percent(evaluation, ",\n  ", prefix, "f1", f1_sum, total));
        TRY(put(evaluation, ",\n  ", prefix, "total", json_new_integer(total)));
    }
    return BERTH_OK;
}

static int by_id(const void *a, const void *b) {
    const struct squad_example *x = *(const struct squad_example *const *)a;
    const struct squad_example *y = *(const struct squad_example *const *)b;
    return strcmp(x->id, y->id);
}

// Prints the best score and its threshold, which is written exactly as in the file.
static enum berth_status put_best(struct evaluation *evaluation, const char *const *predictions,
                                  const char *name, int is_f1) {
    const struct squad_dataset *dataset = &evaluation->dataset;
    char key[32];
    struct squad_best best =
        squad_best_threshold(dataset, evaluation->scores, predictions, evaluation->sorted,
                             evaluation->sorted_count, is_f1);
    TRY(put_percent(evaluation, ",\n  ", "best_", name, best.sum, (int64_t)dataset->count));
    snprintf(key, sizeof key, "best_%s", name);
    json *threshold = NULL;
    if (best.index == SIZE_MAX) {
        threshold = json_new_real(0.0);
    } else {
        const char *id = dataset->examples[evaluation->sorted[best.index].example].id;
        threshold = json_copy_deep(json_member(evaluation->odds, id));
    }
    return put(evaluation, ",\n  ", key, "_thresh", threshold);
}

static enum berth_status put_thresholds(struct evaluation *evaluation) {
    size_t count = evaluation->dataset.count;
    const struct squad_example **ids = memory_array(count, sizeof *ids);
    const char **predictions = memory_array(count, sizeof *predictions);
    evaluation->sorted = memory_array(count, sizeof *evaluation->sorted);
    enum berth_status status;
    if (ids == NULL || predictions == NULL || evaluation->sorted == NULL) {
        status = error_no_memory(evaluation->error, count * sizeof *ids, "the thresholds");
        goto done;
    }
    // Sorts the odds of known questions in ascending order; equal ones stay in file order.
    const struct squad_dataset *dataset = &evaluation->dataset;
    struct json_walk walk = {.object = evaluation->odds};
    for (size_t i = 0; i < dataset->count; i++) {
        ids[i] = &dataset->examples[i];
    }
    qsort(ids, dataset->count, sizeof *ids, by_id);
    for (size_t i = 0; json_walk_next(&walk); i++) {
        struct squad_example wanted = {.id = walk.key};
        const struct squad_example *pointer = &wanted;
        const struct squad_example **found =
            bsearch(&pointer, ids, dataset->count, sizeof *ids, by_id);
        if (found != NULL) {
            evaluation->sorted[evaluation->sorted_count++] = (struct squad_odds){
                json_as_real(walk.value), (size_t)(*found - dataset->examples), i};
        }
    }
    squad_odds_sort(evaluation->sorted, evaluation->sorted_count);
    for (size_t i = 0; i < count; i++) {
        TRY_DONE(prediction_of(evaluation, i, &predictions[i]));
    }
    TRY_DONE(put_best(evaluation, predictions, "exact", 0));
    TRY_DONE(put_best(evaluation, predictions, "f1", 1));
done:
    memory_free(ids);
    memory_free(predictions);
    return status;
}

static enum berth_status evaluate_v2(struct evaluation *evaluation) {
    TRY(squad_check_ids(&evaluation->dataset, evaluation->dataset.name, evaluation->error));
    const struct squad_dataset *dataset = &evaluation->dataset;
    evaluation->scores = memory_array_zeroed(dataset->count, sizeof *evaluation->scores);
    if (evaluation->scores == NULL) {
        return error_no_memory(evaluation->error, dataset->count, "the scores");
    }
    for (size_t i = 0; i < dataset->count; i++) {
        const char *prediction;
        TRY(prediction_of(evaluation, i, &prediction));
        if (prediction == NULL) {
            return error_set(evaluation->error, BERTH_BAD_DATA,
                             "%s: no prediction for question \"%.*s\" of %.*s; SQuAD 2.0 scores "
                             "need one for every question (\"\" for no answer)",
                             evaluation->files->predictions,
                             UTF8_SHOWN(dataset->examples[i].id, 80),
                             UTF8_SHOWN(dataset->name, 300));
        }
        TRY(squad_match_example(&dataset->examples[i], prediction, 1, &evaluation->scores[i],
                                evaluation->error));
    }
    TRY(put_subset(evaluation, SUBSET_ALL, ""));
    TRY(put_subset(evaluation, SUBSET_ANSWERED, "HasAns_"));
    TRY(put_subset(evaluation, SUBSET_UNANSWERED, "NoAns_"));
    if (evaluation->odds != NULL) {
        TRY(put_thresholds(evaluation));
    }
    evaluation->length += (size_t)sprintf(evaluation->text + evaluation->length, "\n}");
    return BERTH_OK;
}

// --- evaluation ----------------------------------------------------------------------------------

static enum berth_status evaluate(struct evaluation *evaluation, struct berth_error *error) {
    const char *dataset_path = evaluation->files->dataset;
    TRY(squad_read_references(dataset_path, &evaluation->dataset, error));
    TRY(read_object(evaluation->files->predictions, "answers", &evaluation->predictions, error));
    if (!squad_has_references(&evaluation->dataset)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: no question has an answer to compare with; expected \"answers\" that "
                         "are not empty or, where every question is impossible, is_impossible",
                         dataset_path);
    }
    if (evaluation->files->null_odds != NULL) {
        TRY(read_object(evaluation->files->null_odds, "null odds", &evaluation->odds, error));
    }
    TRY(check_overlap(evaluation));
    return evaluation->dataset.version_2 || evaluation->odds != NULL ? evaluate_v2(evaluation)
                                                                     : evaluate_v1(evaluation);
}

enum berth_status squad_evaluate_files(const struct squad_evaluation_files *files,
                                       double null_threshold, const struct berth_log *log,
                                       char **json_text, struct berth_error *error) {
    struct evaluation evaluation = {
        .files = files, .threshold = null_threshold, .log = log, .error = error};
    *json_text = NULL;
    enum berth_status status = evaluate(&evaluation, error);
    if (status == BERTH_OK) {
        *json_text = memory_string_of(evaluation.text, evaluation.length);
        if (*json_text == NULL) {
            status = error_no_memory(error, evaluation.length, "the scores");
        }
    }
    json_free(evaluation.predictions);
    json_free(evaluation.odds);
    squad_dataset_done(&evaluation.dataset);
    memory_free(evaluation.scores);
    memory_free(evaluation.sorted);
    return status;
}
