// SPDX-License-Identifier: Apache-2.0
// Checks on a pickle's values, for the machine that makes them.
#ifndef BERTH_FORMAT_PICKLE_TREE_H
#define BERTH_FORMAT_PICKLE_TREE_H

#include "format/torch/pickle.h"

// What is wrong with the arguments of a storage or a tensor ("has ..."), NULL when nothing is.
const char *pickle_check_storage(const struct pickle *pickle, const struct pickle_value *id);
const char *pickle_check_tensor(const struct pickle *pickle, const struct pickle_value *arguments);

// No dictionary gives a text or an integer twice as a key: readers would disagree on its value.
enum berth_status pickle_check_keys(const struct pickle *pickle, const char *path,
                                    struct berth_error *error);

#endif
