// SPDX-License-Identifier: Apache-2.0
// Writes the encoder as a GGUF file of the architecture "bert", with the keys and names of
// llama.cpp's own converter. Heads are left out: such a file cannot hold one.
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
    const float *buffer;           // [table->total]
    const char *name;              // general.name
    enum tensor_dtype matrices;    // TENSOR_F32 or TENSOR_F16: for the word table and the linear
                                   // layers; the rest is F32
    const char *const *tokens;     // [token_count] as in vocab.txt; NULL: no tokenizer in the file
    size_t token_count;            // at most vocab_size; rows without a token are marked unused
    int lower_case, strip_accents; // of the tokenizer
    int pooling;                   // llama.cpp's pooling number; 0: unspecified
};

enum berth_status export_gguf_write(const char *path, const struct export_gguf *export,
                                    struct berth_error *error);

// Whether `matrices` applies to the parameter.
int export_gguf_is_matrix(const struct param *param);

#endif
