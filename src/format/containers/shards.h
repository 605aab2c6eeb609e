// SPDX-License-Identifier: Apache-2.0
// A model cut into several files: an index, model.safetensors.index.json or
// pytorch_model.bin.index.json, maps each tensor's name to the file beside it that holds it.
#ifndef BERTH_FORMAT_SHARDS_H
#define BERTH_FORMAT_SHARDS_H

#include "format/tensors/tensor_file.h"

#define SHARDS_ENDING ".index.json"
#define SHARDS_MAX 1000 // files; each stays open

// The container, as one of many. A file that is not beside the index, a tensor that is missing, not
// listed or in another file than listed: an error naming it.
extern const struct tensor_format tensor_shards_format;

#endif
