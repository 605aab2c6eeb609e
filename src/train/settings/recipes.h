// SPDX-License-Identifier: Apache-2.0
// The published recipes for pre-training and fine-tuning BERT, by name: settings and their values.
#ifndef BERTH_TRAIN_RECIPES_H
#define BERTH_TRAIN_RECIPES_H

#include "core/error.h"

// Applies config->recipe (NULL: nothing). A setting keeps its value if the user set it or an
// equivalent one (num_train_epochs for max_steps, ...), or a DeepSpeed file, unless the program of
// the recipe overrides the file; `typed` is the config before that file was read. Settings of the
// recipe count as given from then on. An unknown name, or a recipe of another job, is BERTH_USAGE.
enum berth_status recipe_apply(struct berth_config *config, const struct berth_config *typed,
                               unsigned job, struct berth_error *error);

// Whether the program of this recipe (NULL: none) computes in fp32 unless a flag or a DeepSpeed
// file says otherwise, while the recipe leaves the precision open.
int recipe_is_fp32(const char *name, unsigned job);

// Whether in the program of this recipe (NULL: none) a DeepSpeed file's batch sizes, precision,
// learning rate and report interval override the command line.
int recipe_prefers_file(const char *name);

#endif
