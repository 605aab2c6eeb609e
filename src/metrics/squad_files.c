// SPDX-License-Identifier: Apache-2.0
// Writes the three files of a prediction run in the layout of Google's run_squad.py: one object
// with question ids as keys, in the order of the data set, indent 4, non-ASCII escaped, a final
// newline.
//
//   predictions.json        id -> text
//   nbest_predictions.json  id -> [{text, probability, start_logit, end_logit}, ...], best first
//   null_odds.json          id -> null score - best non-null score (version 2 only)
//
// Called by the task answer; which answers there are is decided by squad_answers.c.
#include "core/file.h"
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

static const struct result_file {
    const char *name;
    json *(*value)(const struct squad_result *);
} files[] = {{"predictions.json", prediction_value},
             {"nbest_predictions.json", nbest_value},
             {"null_odds.json", odds_value}}; // version 2 only

enum { FILES = sizeof files / sizeof *files };

static enum berth_status write_one(struct file_writer *writer, const struct result_file *file,
                                   const struct squad_dataset *dataset,
                                   const struct squad_result *results, struct berth_error *error) {
    struct json_members members = {.writer = writer, .style = JSON_INDENT_4_ASCII};
    for (size_t i = 0; i < dataset->count; i++) {
        TRY(json_members_put(&members, dataset->examples[i].id, file->value(&results[i]), error));
    }
    return json_members_end(&members, error);
}

enum berth_status squad_answers_write(const char *folder, const struct squad_dataset *dataset,
                                      const struct squad_result *results,
                                      const struct squad_answer_options *options,
                                      struct berth_error *error) {
    const size_t count = options->version_2_with_negative ? FILES : FILES - 1;
    struct file_writer writers[FILES];
    size_t opened = 0;
    TRY(squad_check_ids(dataset, dataset->name != NULL ? dataset->name : "the data set", error));
    enum berth_status status = BERTH_OK;
    for (; opened < count && status == BERTH_OK; opened++) {
        struct file_writer *writer = &writers[opened];
        status = file_writer_open_in(writer, folder, files[opened].name, error);
        if (status == BERTH_OK) {
            status = write_one(writer, &files[opened], dataset, results, error);
        }
    }
    if (status == BERTH_OK) {
        return file_writer_commit_all(writers, count, error);
    }
    for (size_t i = 0; i < opened; i++) {
        file_writer_abort(&writers[i]);
    }
    return status;
}
