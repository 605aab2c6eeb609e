// SPDX-License-Identifier: Apache-2.0
// The texts of a call as model inputs: what the classifier and the encoder have in common.
#ifndef BERTH_TASK_TEXTS_H
#define BERTH_TASK_TEXTS_H

#include "core/error.h"
#include "data/pairs/pair_features.h"
#include "task/inference.h"

#include <stddef.h>

struct texts_args {
    const struct berth_text *items; // [count]
    size_t count;
    const char *prompt; // prepended to each text; NULL: none
    // [count] filled in by texts_prepare; a NULL text is then an error of its item. NULL: the
    // caller has checked that no text is NULL.
    struct berth_text_status *statuses;
};

// Model inputs of the valid texts.
struct texts {
    struct pair_dataset dataset;
    struct pair_feature_set features;
    size_t *indices; // [dataset.count] index of each among the items
    char *prompted;  // texts with the prompt before them; NULL: no prompt
};

// Call texts_done even on failure.
enum berth_status texts_prepare(struct texts *texts, const struct inference *inference,
                                const struct texts_args *args, struct berth_error *error);
void texts_done(struct texts *texts);

struct packer_source texts_source(const struct texts *texts);

// Gives the text the status BERTH_FAILURE unless all numbers of its result are finite; returns
// whether they are.
int texts_check_finite(struct berth_text_status *status, const float *numbers, size_t count);

#endif
