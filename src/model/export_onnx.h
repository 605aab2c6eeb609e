// SPDX-License-Identifier: Apache-2.0
// Writes a model as an ONNX graph, with weights under the names that Hugging Face has for BERT's.
//
// Inputs: input_ids, attention_mask, and token_type_ids where these separate the texts of a pair
// (int64 [batch, sequence], both dimensions dynamic; the mask is 1 for tokens, 0 for padding).
// Outputs (f32): start_logits and end_logits [batch, sequence] with the span head,
// last_hidden_state [batch, sequence, H] without a head, and logits with the others: [batch,
// labels] of a classifier, [batch, sequence, labels] of a token classifier, [batch, sequence, V] of
// masked words.
#ifndef BERTH_MODEL_EXPORT_ONNX_H
#define BERTH_MODEL_EXPORT_ONNX_H

#include "core/error.h"
#include "model/config.h"
#include "model/params.h"

#include <stdint.h>

// Opset 17 is the first with LayerNormalization, so a layer norm is one node with its epsilon
// instead of nine. Every runtime since 2022 supports it.
#define EXPORT_ONNX_OPSET 17

// Writes `buffer` (with the table's layout) to `path`. The weights go to PATH.data if the file
// would be larger than `file_limit` bytes (0: 2 GiB - 1).
enum berth_status export_onnx_write(const char *path, const struct bert_config *config,
                                    const struct param_table *table, const float *buffer,
                                    uint64_t file_limit, struct berth_error *error);

#endif
