// SPDX-License-Identifier: Apache-2.0
// The encoder as a GGUF file of the architecture "bert", with the keys and names of llama.cpp's own
// converter. A head has no place in such a file.
#ifndef BERTH_MODEL_EXPORT_GGUF_H
#define BERTH_MODEL_EXPORT_GGUF_H

#include "core/error.h"
#include "format/tensors/tensor.h"
#include "model/config.h"
#include "model/params.h"

#include <stddef.h>

// Everything is borrowed.
struct export_gguf {
    const struct bert_config *config;
    const struct param_table *table;
    const float *buffer;        // [table->total]
    const char *name;           // general.name
    enum tensor_dtype matrices; // TENSOR_F32 or TENSOR_F16: the word table and the linear layers;
                                // the rest is F32
    const char *const *tokens;  // [token_count] as in vocab.txt; NULL: no tokenizer in the file
    size_t token_count;         // at most vocab_size; rows without a token are marked unused
    int lower_case, strip_accents; // of the tokenizer
    int pooling;                   // llama.cpp's number of how texts are pooled; 0: not said
};

enum berth_status export_gguf_write(const char *path, const struct export_gguf *export,
                                    struct berth_error *error);

// Whether `matrices` concerns the parameter.
int export_gguf_is_matrix(const struct param *param);

#endif
