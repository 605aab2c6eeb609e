// SPDX-License-Identifier: Apache-2.0
// The checks of a storage, a tensor and a dictionary's keys, which the machine makes when it
// creates them, so that whoever reads the finished pickle (pickle.h) can rely on them.
#ifndef BERTH_FORMAT_PICKLE_TREE_H
#define BERTH_FORMAT_PICKLE_TREE_H

#include "format/torch/pickle.h"

// What is wrong with the arguments of a storage or a tensor ("without ..."), or NULL.
const char *pickle_check_storage(const struct pickle *pickle, const struct pickle_value *id);
const char *pickle_check_tensor(const struct pickle *pickle, const struct pickle_value *arguments);

// Refuses duplicate keys in dictionaries (strings and integers): readers would disagree on the
// value.
enum berth_status pickle_check_keys(const struct pickle *pickle, const char *path,
                                    struct berth_error *error);

#endif
