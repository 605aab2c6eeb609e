// SPDX-License-Identifier: Apache-2.0
// Sharded models: an index, model.safetensors.index.json or pytorch_model.bin.index.json, maps the
// name of each tensor to a file in the same folder. containers.c has its row; to its users it is
// one file of tensors.
#ifndef BERTH_FORMAT_SHARDS_H
#define BERTH_FORMAT_SHARDS_H

#include "format/tensors/tensor_file.h"

#define SHARDS_ENDING ".index.json"
#define SHARDS_MAX 1000 // files; all stay open

// The format for tensor_file.h. Errors name the file that is missing from the index's folder, or
// the tensor that is missing, not listed or not in the file that the index says.
extern const struct tensor_format tensor_shards_format;

#endif
