// SPDX-License-Identifier: Apache-2.0
// Other people's architectures, so that their checkpoints are called by name in place of failing on
// a tensor that is missing.
#ifndef BERTH_MODEL_ARCHITECTURES_H
#define BERTH_MODEL_ARCHITECTURES_H

// What a model with a tensor of that (translated) name is: "a RoBERTa"; NULL: maybe a BERT.
const char *architecture_of_tensor(const char *name);
// The same for the "model_type" of a config.json; NULL for one that is not in the table.
const char *architecture_of_type(const char *model_type);

#endif
