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
#include <stdint.h>

enum gguf_token_type { // llama.cpp's numbers
    GGUF_TOKEN_NORMAL = 1,
    GGUF_TOKEN_UNKNOWN = 2,
    GGUF_TOKEN_CONTROL = 3,
    GGUF_TOKEN_ADDED = 4, // found in a text before it is split
    GGUF_TOKEN_UNUSED = 5
};

enum gguf_tokenizer { GGUF_WORD_PIECES, GGUF_BYTE_PAIRS, GGUF_UNIGRAM };

// Everything is borrowed.
struct export_gguf_tokens {
    enum gguf_tokenizer kind;
    const char *const *texts; // [count], of word pieces as in vocab.txt; "": no token has the id
    const int32_t *types;     // [count] enum gguf_token_type
    size_t count;             // at most vocab_size, whose other rows are marked unused; 0: there is
                              // no tokenizer in the file
    int32_t pad, unknown, cls, sep, mask; // ids; -1: none
    int lower_case, strip_accents;        // of word pieces
    const char *const *merges;            // [merge_count] of byte pairs: two pieces and a blank
    size_t merge_count;
    const float *scores;           // [count] of a unigram model
    int adds_blank, merges_blanks; // of the same: one before a text, and several become one
    const char *charsmap;          // of the same: sentencepiece's table of replacements
    size_t charsmap_length;        // 0: none
};

// Everything is borrowed.
struct export_gguf {
    const struct bert_config *config;
    const struct param_table *table;
    const float *buffer;        // [table->total]
    const char *name;           // general.name
    enum tensor_dtype matrices; // TENSOR_F32 or TENSOR_F16: for the word table and the linear
                                // layers; the rest is F32
    int pooling;                // llama.cpp's pooling number; 0: unspecified
    struct export_gguf_tokens tokens;
};

enum berth_status export_gguf_write(const char *path, const struct export_gguf *export,
                                    struct berth_error *error);

// Whether `matrices` applies to the parameter.
int export_gguf_is_matrix(const struct param *param);

#endif
