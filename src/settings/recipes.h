// SPDX-License-Identifier: Apache-2.0
// The published recipes for pre-training and fine-tuning BERT, by name: settings and their values.
// A job applies its --recipe before everything that the user has given, and asks here what else the
// published program did differently. What those programs' flags mean is compat's.
#ifndef BERTH_SETTINGS_RECIPES_H
#define BERTH_SETTINGS_RECIPES_H

#include "settings/settings.h"

// Applies config->recipe (NULL: nothing). A setting keeps its value if the user or a DeepSpeed file
// set it or an equivalent one (num_train_epochs for max_steps, ...), unless the program of the
// recipe overrides the file; `typed` is the config before that file was read. From then on settings
// of the recipe count as given. An unknown name, or a recipe for another job, is BERTH_USAGE.
enum berth_status recipe_apply(struct settings *config, const struct settings *typed, unsigned job,
                               struct berth_error *error);

// Whether the program of this recipe (NULL: none) computes in fp32 by default, though the recipe
// does not set the precision.
int recipe_is_fp32(const char *name, unsigned job);

// Whether in the program of this recipe (NULL: none) the batch sizes, precision, learning rate and
// report interval of a DeepSpeed file override the command line.
int recipe_prefers_file(const char *name);

#endif
