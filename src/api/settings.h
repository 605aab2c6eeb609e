// SPDX-License-Identifier: Apache-2.0
// Opening what a berth_config names where no model is needed (train/engine/inputs.h opens models).
#ifndef BERTH_API_SETTINGS_H
#define BERTH_API_SETTINGS_H

#include "core/error.h"
#include "text/tokenizer.h"

// The tokenizer of config->vocab_file (vocab.txt or tokenizer.json), else of the one in
// config->model_name_or_path (a folder), by the rules of config->tokenizer and what the folder's
// files say of casing, accents and ideographs where the settings do not. Neither given:
// BERTH_USAGE. Free with tokenizer_close.
enum berth_status settings_tokenizer(const struct berth_config *config,
                                     struct tokenizer **tokenizer, struct berth_error *error);

#endif
