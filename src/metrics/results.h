// SPDX-License-Identifier: Apache-2.0
// Writes the result files of a run: for every task Hugging Face's all_results.json and the
// SPLIT_results.json it is merged from; for classification and regression also the files of
// Google's run_classifier.py (eval_results.txt, test_results.tsv) and of Hugging Face's run_glue
// (predict_results_TASK.txt). squad_answers.h writes answers to SQuAD's questions. Every file
// appears complete or not at all. Tasks call it at the end; the scores are computed by the other
// files here.
#ifndef BERTH_METRICS_RESULTS_H
#define BERTH_METRICS_RESULTS_H

#include "core/error.h"
#include "core/log.h"
#include "format/json/json.h"

#include <stddef.h>
#include <stdint.h>

// FOLDER/eval_results.txt: one "key = value" per line, sorted by key. Values that are not finite
// are written as nan, inf and -inf.
enum berth_status results_write_eval_text(const char *folder, const struct berth_field *fields,
                                          size_t count, struct berth_error *error);

// Writes the fields to FOLDER/SPLIT_results.json ("train", "eval", "predict") and merges them into
// FOLDER/all_results.json: one object, indent 4, keys sorted, no final newline. Values that are not
// finite are null. BERTH_BAD_DATA: all_results.json is not a JSON object.
enum berth_status results_write_json(const char *folder, const char *split,
                                     const struct berth_field *fields, size_t count,
                                     struct berth_error *error);

// A field's value; a text that there is not is null.
json *results_value(const struct berth_field *field);

// Merges the existing FOLDER/SPLIT_results.json into FOLDER/all_results.json.
enum berth_status results_merge_json(const char *folder, const char *split,
                                     struct berth_error *error);

// The names of the files with the scores of a model and of its training, which are outdated once
// the model is trained further; NULL-terminated.
extern const char *const results_of_model[];
// Removes them.
enum berth_status results_remove(const char *folder, struct berth_error *error);

// A model's output for each example: logits[count][width]. A width of 1 without labels is a
// regression.
struct results_predictions {
    const float *logits;
    size_t count, width;
    const char *const *labels; // names of the classes; NULL: regression
    int multi_label;           // multi-label: each class whose sigmoid is above one half applies
};

// The class with the largest logit; of equals, the first.
int32_t results_best_class(const float *logits, size_t classes);
// That of an example.
int32_t results_predicted_class(const struct results_predictions *predictions, size_t index);

// How logits become scores.
enum results_function { RESULTS_LOGITS, RESULTS_SIGMOID, RESULTS_SOFTMAX, RESULTS_FUNCTIONS };
// Computes scores[width] from logits[width] in double precision; they may be the same array.
void results_scores(enum results_function function, const float *logits, size_t width,
                    float *scores);

// The names of two files, each with a line for each example:
struct results_names {
    // "test_results.tsv": without a header. The line has the tab-separated probabilities of the
    // classes (softmax of the logits; multi-label: the sigmoid of each), or the value of a
    // regression.
    const char *probabilities;
    // "predict_results_TASK.txt": a header and the tab-separated columns "index" and "prediction".
    // A prediction is the class's name (multi-label: all names, separated by commas), or the value
    // of a regression with three decimals.
    const char *predictions;
};
// Writes both to `folder`, or none after a failure.
enum berth_status results_write_predictions(const char *folder, const struct results_names *names,
                                            const struct results_predictions *predictions,
                                            struct berth_error *error);

#endif
