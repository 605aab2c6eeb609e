// SPDX-License-Identifier: Apache-2.0
// The published ways to pre-train BERT, by name: settings and their values.
#ifndef BERTH_TRAIN_RECIPES_H
#define BERTH_TRAIN_RECIPES_H

#include "core/error.h"

// Gives the settings of config->recipe their values where the user chose no other, nor what says
// the same in another way (num_train_epochs for max_steps, ...); they count as given from then on.
// NULL: nothing. An unknown name is BERTH_USAGE.
enum berth_status recipe_apply(struct berth_config *config, struct berth_error *error);

#endif
