// SPDX-License-Identifier: Apache-2.0
// Writes the result files of a run: for every task Hugging Face's all_results.json and its parts;
// for classification and regression also the files of Google's run_classifier.py (eval_results.txt,
// test_results.tsv) and Hugging Face's run_glue (predict_results_TASK.txt). Leaves out the answers
// to SQuAD's questions (squad_answers.h). Every file appears complete or not at all.
#ifndef BERTH_METRICS_RESULTS_H
#define BERTH_METRICS_RESULTS_H

#include "core/error.h"
#include "core/log.h"

#include <stddef.h>
#include <stdint.h>

// FOLDER/eval_results.txt: one "key = value" per line, sorted by key. Values that are not finite
// are nan, inf and -inf.
enum berth_status results_write_eval_text(const char *folder, const struct berth_field *fields,
                                          size_t count, struct berth_error *error);

// FOLDER/SPLIT_results.json ("train", "eval", "predict") with these fields, and
// FOLDER/all_results.json, into which they are merged: one object, indent 4, keys sorted, no final
// newline. Values that are not finite are null. An all_results.json that is not a JSON object is
// BERTH_BAD_DATA.
enum berth_status results_write_json(const char *folder, const char *split,
                                     const struct berth_field *fields, size_t count,
                                     struct berth_error *error);

// Merges FOLDER/SPLIT_results.json, as it is, into FOLDER/all_results.json.
enum berth_status results_merge_json(const char *folder, const char *split,
                                     struct berth_error *error);

// The names of the files with scores of a model and of its training, which are wrong once the model
// is trained further; ends with NULL.
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

// The class with the largest logit; of equal ones the first.
int32_t results_predicted_class(const struct results_predictions *predictions, size_t index);

// How logits become scores.
enum results_function { RESULTS_LOGITS, RESULTS_SIGMOID, RESULTS_SOFTMAX, RESULTS_FUNCTIONS };
// scores[width] of logits[width], computed in double precision; may be the same array.
void results_scores(enum results_function function, const float *logits, size_t width,
                    float *scores);

// FOLDER/NAME ("test_results.tsv"): one example per line, without a header. The line holds the
// tab-separated probabilities of the classes (softmax of the logits; multi-label: the sigmoid of
// each), or the value of a regression.
enum berth_status results_write_probabilities(const char *folder, const char *name,
                                              const struct results_predictions *predictions,
                                              struct berth_error *error);

// FOLDER/NAME ("predict_results_TASK.txt"): a header and the tab-separated columns "index" and
// "prediction". A prediction is the class's name (multi-label: all names, separated by commas), or
// the value of a regression with three decimals.
enum berth_status results_write_predictions(const char *folder, const char *name,
                                            const struct results_predictions *predictions,
                                            struct berth_error *error);

#endif
