// SPDX-License-Identifier: Apache-2.0
// The published recipes for pre-training BERT, by name: settings and their values.
#ifndef BERTH_TRAIN_RECIPES_H
#define BERTH_TRAIN_RECIPES_H

#include "core/error.h"

// Applies config->recipe (NULL: nothing). A setting keeps its value if the user set it or an
// equivalent one (num_train_epochs for max_steps, ...). Settings of the recipe count as given from
// then on. An unknown name is BERTH_USAGE.
enum berth_status recipe_apply(struct berth_config *config, struct berth_error *error);

#endif
