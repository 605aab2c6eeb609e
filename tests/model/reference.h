// SPDX-License-Identifier: Apache-2.0
// BERT with a span head in plain double precision, one sequence at a time, as a reference for the
// real model. It shares only the parameter table, the config and the dropout definition with
// it.
#ifndef BERTH_TESTS_MODEL_REFERENCE_H
#define BERTH_TESTS_MODEL_REFERENCE_H

#include "model/bert.h"

struct reference {
    const struct bert_config *config;
    const struct param_table *table;
    const double *parameters;    // [total]
    struct bert_dropout dropout; // zero: none
};

struct reference_sequence {
    int64_t length;
    const int32_t *ids, *type_ids;
    int64_t global_index;
    int32_t start, end;         // labels
    int32_t label;              // class; for the class head, which the reference lacks
    float target;               // of a regression
    const float *label_targets; // [label_target_count] for multi-label classification; NULL: none
    int64_t label_target_count;
    int64_t masked_count; // masked tokens, for the pre-training head
    const int32_t *masked_positions, *masked_labels;
};

// Loss of one sequence. logits [length, 2] and gradient [total] may be NULL; to the latter,
// scale * d(loss)/d(parameters) is added.
double reference_run(const struct reference *reference, const struct reference_sequence *sequence,
                     double *logits, double *gradient, double scale);

#endif
