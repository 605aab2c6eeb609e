// SPDX-License-Identifier: Apache-2.0
// Writes the three files of a prediction run in the layout of Google's run_squad.py: one object
// with question ids as keys, in the order of the data set, indent 4, non-ASCII escaped, a final
// newline.
//
//   predictions.json        id -> text
//   nbest_predictions.json  id -> [{text, probability, start_logit, end_logit}, ...], best first
//   null_odds.json          id -> null score - best non-null score (version 2 only)
#include "core/file.h"
#include "core/memory.h"
#include "format/json/json.h"
#include "metrics/squad_answers.h"

static json *candidate_value(const struct squad_candidate *candidate) {
    return JSON_OBJECT({"text", json_new_text(candidate->text)},
                       {"probability", json_new_real(candidate->probability)},
                       {"start_logit", json_new_real((double)candidate->start_logit)},
                       {"end_logit", json_new_real((double)candidate->end_logit)});
}

static json *prediction_value(const struct squad_result *result) {
    return json_new_text(result->prediction);
}

static json *nbest_value(const struct squad_result *result) {
    json *list = json_new_array();
    for (size_t i = 0; i < result->count; i++) {
        if (json_append(list, candidate_value(&result->candidates[i])) != 0) {
            json_free(list);
            return NULL;
        }
    }
    return list;
}

static json *odds_value(const struct squad_result *result) {
    return json_new_real(result->null_odds);
}

static enum berth_status write_one(const char *folder, const char *name,
                                   const struct squad_dataset *dataset,
                                   const struct squad_result *results,
                                   json *(*value)(const struct squad_result *),
                                   struct berth_error *error) {
    enum berth_status status = BERTH_OK;
    json *object = json_new_object();
    char *path = path_join(folder, name);
    for (size_t i = 0; i < dataset->count && status == BERTH_OK; i++) {
        if (json_set(object, dataset->examples[i].id, value(&results[i])) != 0) {
            status = error_no_memory(error, dataset->count, name);
        }
    }
    if (status == BERTH_OK && (object == NULL || path == NULL)) {
        status = error_no_memory(error, dataset->count, name);
    }
    if (status == BERTH_OK) {
        status = json_write_file(object, JSON_INDENT_4_ASCII, path, error);
    }
    json_free(object);
    memory_free(path);
    return status;
}

enum berth_status squad_answers_write(const char *folder, const struct squad_dataset *dataset,
                                      const struct squad_result *results,
                                      const struct squad_answer_options *options,
                                      struct berth_error *error) {
    TRY(squad_check_ids(dataset, dataset->name != NULL ? dataset->name : "the data set", error));
    TRY(write_one(folder, "predictions.json", dataset, results, prediction_value, error));
    TRY(write_one(folder, "nbest_predictions.json", dataset, results, nbest_value, error));
    if (options->version_2_with_negative) {
        TRY(write_one(folder, "null_odds.json", dataset, results, odds_value, error));
    }
    return BERTH_OK;
}
