// SPDX-License-Identifier: Apache-2.0
// The files of results that runs leave behind: of every task Hugging Face's all_results.json and
// its parts; of classification and regression also those of Google's run_classifier.py
// (eval_results.txt, test_results.tsv) and Hugging Face's run_glue (predict_results_TASK.txt).
// Answers to SQuAD's questions: squad_answers.h. Every file is written whole or not at all.
#ifndef BERTH_METRICS_RESULTS_H
#define BERTH_METRICS_RESULTS_H

#include "core/error.h"
#include "core/log.h"

#include <stddef.h>
#include <stdint.h>

// FOLDER/eval_results.txt: "key = value", one a line, keys sorted. Values that are not finite are
// nan, inf and -inf.
enum berth_status results_write_eval_text(const char *folder, const struct berth_field *fields,
                                          size_t count, struct berth_error *error);

// FOLDER/SPLIT_results.json ("train", "eval", "predict") with these fields, and
// FOLDER/all_results.json, where they join and replace what is there: one object, indent 4, keys
// sorted, no final newline. Values that are not finite are null. An all_results.json that is no
// JSON object is BERTH_BAD_DATA.
enum berth_status results_write_json(const char *folder, const char *split,
                                     const struct berth_field *fields, size_t count,
                                     struct berth_error *error);

// What a model said of each example: logits[count][width]. A width of 1 with no labels is a
// regression.
struct results_predictions {
    const float *logits;
    size_t count, width;
    const char *const *labels; // names of the classes; NULL: regression
    int several;               // each class holds by itself: where its sigmoid is above one half
};

// The class with the largest logit, the first of equal ones.
int32_t results_predicted_class(const struct results_predictions *predictions, size_t index);

// FOLDER/NAME ("test_results.tsv"): the classes' probabilities (softmax of the logits, of
// several at once the sigmoid of each), one example
// a line, between tabs; for a regression the value. No header.
enum berth_status results_write_probabilities(const char *folder, const char *name,
                                              const struct results_predictions *predictions,
                                              struct berth_error *error);

// FOLDER/NAME ("predict_results_TASK.txt"): "index" and "prediction" between tabs, a header first;
// the class's name, of several at once all with commas between them, for a regression the value
// with three decimals.
enum berth_status results_write_predictions(const char *folder, const char *name,
                                            const struct results_predictions *predictions,
                                            struct berth_error *error);

#endif
