// SPDX-License-Identifier: Apache-2.0
// Recognises other architectures, so that an error can name the model that a checkpoint holds
// instead of reporting a missing tensor.
#ifndef BERTH_MODEL_ARCHITECTURES_H
#define BERTH_MODEL_ARCHITECTURES_H

// The architecture that has a tensor of this (translated) name: "a RoBERTa"; NULL: possibly a BERT.
const char *architecture_of_tensor(const char *name);
// The same for the "model_type" of a config.json; NULL if the type is not in the table.
const char *architecture_of_type(const char *model_type);

#endif
