// SPDX-License-Identifier: Apache-2.0
// Answers for a whole SQuAD file, and their score.
#ifndef BERTH_TRAIN_EVALUATE_H
#define BERTH_TRAIN_EVALUATE_H

#include "core/error.h"
#include "core/log.h"
#include "task/squad_answers.h"
#include "task/squad_metrics.h"
#include "train/infer.h"
#include "train/inputs.h"
#include "train/trainer.h"

// A data set with what its evaluation needs, prepared once.
struct evaluation {
    struct squad_input input;
    const char *path;
    struct packer_source source;
    struct infer_shape shape;
    struct squad_answer_options options;
    int threads;
    float *logits;                // [2 * tokens]
    struct squad_result *results; // of the last run; NULL before
};

// Reads the file; the tokenizer is borrowed. evaluation_done frees.
enum berth_status evaluation_open(struct evaluation *evaluation, const char *path, int64_t limit,
                                  const struct berth_config *config,
                                  const struct tokenizer *tokenizer, const struct berth_log *log,
                                  struct berth_error *error);
void evaluation_done(struct evaluation *evaluation);

// Predicts and fills evaluation->results. With *stop set, results stay NULL and timing->stopped is
// 1.
enum berth_status evaluation_predict(struct evaluation *evaluation, struct trainer *trainer,
                                     const struct tokenizer *tokenizer, const struct berth_log *log,
                                     const volatile int *stop, struct infer_result *timing,
                                     struct berth_error *error);

// 1 when the file has reference answers to score against.
int evaluation_has_references(const struct evaluation *evaluation);

// Exact match and F1 of the last prediction in per cent, by the rules of the data set's version.
enum berth_status evaluation_score(const struct evaluation *evaluation, double *exact_match,
                                   double *f1, struct berth_error *error);

// predictions.json, nbest_predictions.json and, for version 2, null_odds.json.
enum berth_status evaluation_write(const struct evaluation *evaluation, const char *folder,
                                   struct berth_error *error);

#endif
