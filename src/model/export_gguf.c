// SPDX-License-Identifier: Apache-2.0
// Writes a GGUF file from tables of keys, tensor names and tokenizers. Word pieces have the
// "phantom space" form of llama.cpp: one that begins a word gets a U+2581 prefix, one that
// continues a word loses its "##"; special tokens are unchanged. Other tokens are as in
// tokenizer.json.
#include "model/export_gguf.h"

#include "core/memory.h"
#include "format/export/gguf_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define MAX_VALUES 40

// --- tensors ------------------------------------------------------------------------------------

// A prefix of a parameter's name and its replacement; for a layer, what follows
// "bert.encoder.layer.N." and "blk.N.".
struct name_row {
    const char *ours, *theirs;
};

static const struct name_row embedding_names[] = {
    {"bert.embeddings.word_embeddings.", "token_embd."},
    {"bert.embeddings.position_embeddings.", "position_embd."},
    {"bert.embeddings.token_type_embeddings.", "token_types."},
    {"bert.embeddings.LayerNorm.", "token_embd_norm."},
};
static const struct name_row layer_names[] = {
    {"attention.self.query.", "attn_q."},
    {"attention.self.key.", "attn_k."},
    {"attention.self.value.", "attn_v."},
    {"attention.output.dense.", "attn_output."},
    {"attention.output.LayerNorm.", "attn_output_norm."},
    {"intermediate.dense.", "ffn_up."},
    {"output.dense.", "ffn_down."},
    {"output.LayerNorm.", "layer_output_norm."},
};

struct tensor_name {
    char text[GGUF_NAME_LIMIT + 1];
};

// Replaces the start of `rest` with `prefix` and the row's name; 0 if no row matches.
static int translate(const struct name_row *rows, size_t count, const char *prefix,
                     const char *rest, struct tensor_name *name) {
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(rows[i].ours);
        if (strncmp(rest, rows[i].ours, length) == 0) {
            snprintf(name->text, sizeof name->text, "%s%s%s", prefix, rows[i].theirs,
                     rest + length);
            return 1;
        }
    }
    return 0;
}

// 0 for a parameter that the format cannot hold.
static int name_tensor(const struct param *param, struct tensor_name *name) {
    const char *rest;
    const int64_t layer = param_layer_of(param->name, &rest);
    if (layer >= 0) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blk.%" PRId64 ".", layer);
        return translate(layer_names, LENGTH(layer_names), prefix, rest, name);
    }
    return translate(embedding_names, LENGTH(embedding_names), "", param->name, name);
}

int export_gguf_is_matrix(const struct param *param) {
    return param->rank == 2 && strstr(param->name, "position_embeddings") == NULL &&
           strstr(param->name, "token_type_embeddings") == NULL;
}

// Fills tensors[table->count] and names[table->count]; returns the number of tensors.
static size_t list_tensors(const struct export_gguf *export, struct gguf_tensor *tensors,
                           struct tensor_name *names) {
    size_t count = 0;
    for (size_t i = 0; i < export->table->count; i++) {
        const struct param *param = &export->table->params[i];
        if (!name_tensor(param, &names[count])) {
            continue;
        }
        struct tensor_out *tensor = &tensors[count].tensor;
        *tensor = (struct tensor_out){.name = names[count].text,
                                      .dtype = TENSOR_F32,
                                      .rank = param->rank,
                                      .shape = {param->rows, param->cols},
                                      .data = export->buffer + param->offset};
        if (param->rank == 1) {
            tensor->shape[0] = param->cols;
        }
        // llama.cpp counts positions from 0: the rows before a text's first one are left out.
        const int64_t first = export->config->first_position;
        if (strcmp(param->name, "bert.embeddings.position_embeddings.weight") == 0) {
            tensor->shape[0] = param->rows - first;
            tensor->data = export->buffer + param->offset + first * param->cols;
        }
        tensors[count].stored = export_gguf_is_matrix(param) ? export->matrices : TENSOR_F32;
        count++;
    }
    return count;
}

// --- tokens -------------------------------------------------------------------------------------

struct tokens {
    const char **texts; // [count]
    int32_t *types;     // [count]
    float *scores;      // [count]; NULL: none
    size_t count;
    char *block; // memory of the texts
};

#define UNUSED_SCORE (-10000.0F) // so that no text has the token

static const char *text_of(const struct export_gguf_tokens *from, size_t i) {
    return i < from->count && from->texts[i][0] != '\0' ? from->texts[i] : NULL;
}

static size_t block_size(const struct export_gguf_tokens *from, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const char *text = text_of(from, i);
        bytes += text != NULL ? strlen(text) + 4 : 40;
    }
    return bytes;
}

// Writes row i of the vocabulary to `to`; returns the number of characters, including the NUL.
static size_t print_token(const struct export_gguf_tokens *from, size_t i, struct tokens *tokens,
                          char *to) {
    const char *space = from->kind == GGUF_WORD_PIECES ? "\xE2\x96\x81" : ""; // U+2581
    const char *text = text_of(from, i);
    tokens->texts[i] = to;
    if (text == NULL) {
        tokens->types[i] = GGUF_TOKEN_UNUSED;
        return (size_t)sprintf(to, "%s[PAD%zu]", space, i) + 1;
    }
    tokens->types[i] = from->types[i];
    if (from->types[i] == GGUF_TOKEN_CONTROL) {
        return (size_t)sprintf(to, "%s", text) + 1;
    }
    const int continues = from->kind == GGUF_WORD_PIECES && strncmp(text, "##", 2) == 0;
    return (size_t)sprintf(to, "%s%s", continues ? "" : space, text + 2 * continues) + 1;
}

static void tokens_done(struct tokens *tokens) {
    memory_free(tokens->texts);
    memory_free(tokens->types);
    memory_free(tokens->scores);
    memory_free(tokens->block);
}

static enum berth_status tokens_make(const struct export_gguf *export, struct tokens *tokens,
                                     struct berth_error *error) {
    const struct export_gguf_tokens *from = &export->tokens;
    *tokens = (struct tokens){0};
    if (from->count == 0) {
        return BERTH_OK;
    }
    const size_t count = (size_t) export->config->vocab_size, bytes = block_size(from, count);
    const int is_scored = from->scores != NULL;
    tokens->texts = memory_array(count, sizeof *tokens->texts);
    tokens->types = memory_array(count, sizeof *tokens->types);
    tokens->scores = is_scored ? memory_array(count, sizeof *tokens->scores) : NULL;
    tokens->block = memory_new(bytes);
    if (tokens->texts == NULL || tokens->types == NULL || tokens->block == NULL ||
        (is_scored && tokens->scores == NULL)) {
        tokens_done(tokens);
        return error_no_memory(error, bytes, "the tokens");
    }
    tokens->count = count;
    char *to = tokens->block;
    for (size_t i = 0; i < tokens->count; i++) {
        to += print_token(from, i, tokens, to);
        if (tokens->scores != NULL) {
            tokens->scores[i] = text_of(from, i) != NULL ? from->scores[i] : UNUSED_SCORE;
        }
    }
    return BERTH_OK;
}

// --- key-values ---------------------------------------------------------------------------------

struct values {
    struct gguf_value list[MAX_VALUES];
    size_t count;
};

static void add_integer(struct values *values, const char *key, enum gguf_type type,
                        int64_t integer) {
    values->list[values->count++] =
        (struct gguf_value){.key = key, .type = type, .integer = integer};
}

static void add_text(struct values *values, const char *key, const char *text) {
    values->list[values->count++] =
        (struct gguf_value){.key = key, .type = GGUF_TEXT, .text = text};
}

static void add_array(struct values *values, const char *key, enum gguf_type type,
                      const void *elements, size_t count) {
    values->list[values->count++] =
        (struct gguf_value){.key = key, .type = type, .elements = elements, .count = count};
}

// llama.cpp puts CLS and SEP around word pieces by itself.
static void add_ends(struct values *values, const struct export_gguf_tokens *from) {
    add_integer(values, "tokenizer.ggml.add_bos_token", GGUF_BOOL, from->cls >= 0);
    add_integer(values, "tokenizer.ggml.add_eos_token", GGUF_BOOL, from->sep >= 0);
    add_integer(values, "tokenizer.ggml.add_sep_token", GGUF_BOOL, from->sep >= 0);
}

static void add_word_pieces(struct values *values, const struct export_gguf_tokens *from) {
    add_integer(values, "tokenizer.ggml.normalizer.lowercase", GGUF_BOOL, from->lower_case);
    add_integer(values, "tokenizer.ggml.normalizer.strip_accents", GGUF_BOOL, from->strip_accents);
}

static void add_byte_pairs(struct values *values, const struct export_gguf_tokens *from) {
    add_ends(values, from);
    add_array(values, "tokenizer.ggml.merges", GGUF_TEXT, from->merges, from->merge_count);
}

static void add_unigram(struct values *values, const struct export_gguf_tokens *from) {
    add_ends(values, from);
    add_integer(values, "tokenizer.ggml.add_space_prefix", GGUF_BOOL, from->adds_blank);
    add_integer(values, "tokenizer.ggml.remove_extra_whitespaces", GGUF_BOOL, from->merges_blanks);
    if (from->charsmap_length > 0) {
        add_array(values, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, from->charsmap,
                  from->charsmap_length);
    }
}

// "roberta-bpe" is how llama.cpp cuts a text into words: as GPT-2.
static const struct tokenizer_row {
    const char *model, *pre;
    void (*add)(struct values *values, const struct export_gguf_tokens *from);
} tokenizer_rows[] = {[GGUF_WORD_PIECES] = {"bert", "default", add_word_pieces},
                      [GGUF_BYTE_PAIRS] = {"gpt2", "roberta-bpe", add_byte_pairs},
                      [GGUF_UNIGRAM] = {"t5", "default", add_unigram}};

static void add_model(struct values *values, const struct export_gguf *export) {
    const struct bert_config *config = export->config;
    add_text(values, "general.architecture", "bert"); // readers expect it first
    add_text(values, "general.type", "model");
    add_text(values, "general.name", export->name);
    add_integer(values, "general.file_type", GGUF_U32, export->matrices == TENSOR_F16);
    add_integer(values, "bert.vocab_size", GGUF_U32, config->vocab_size);
    add_integer(values, "bert.context_length", GGUF_U32, bert_positions(config));
    add_integer(values, "bert.embedding_length", GGUF_U32, config->hidden_size);
    add_integer(values, "bert.block_count", GGUF_U32, config->num_hidden_layers);
    add_integer(values, "bert.feed_forward_length", GGUF_U32, config->intermediate_size);
    add_integer(values, "bert.attention.head_count", GGUF_U32, config->num_attention_heads);
    values->list[values->count++] = (struct gguf_value){.key = "bert.attention.layer_norm_epsilon",
                                                        .type = GGUF_F32,
                                                        .real = config->layer_norm_eps};
    add_integer(values, "bert.attention.causal", GGUF_BOOL, 0);
    if (export->pooling > 0) {
        add_integer(values, "bert.pooling_type", GGUF_U32, export->pooling);
    }
    // llama.cpp refuses 0, also for a model without a table of types.
    add_integer(values, "tokenizer.ggml.token_type_count", GGUF_U32,
                config->type_vocab_size > 0 ? config->type_vocab_size : 1);
}

// --- the file -----------------------------------------------------------------------------------

static enum berth_status write_content(const char *path, const struct export_gguf *export,
                                       const struct tokens *tokens, struct gguf_tensor *tensors,
                                       struct tensor_name *names, struct berth_error *error) {
    struct values values = {.count = 0};
    add_model(&values, export);
    if (tokens->count > 0) {
        const struct export_gguf_tokens *from = &export->tokens;
        const struct tokenizer_row *row = &tokenizer_rows[from->kind];
        add_text(&values, "tokenizer.ggml.model", row->model);
        add_text(&values, "tokenizer.ggml.pre", row->pre);
        row->add(&values, from);
        add_array(&values, "tokenizer.ggml.tokens", GGUF_TEXT, tokens->texts, tokens->count);
        if (tokens->scores != NULL) {
            add_array(&values, "tokenizer.ggml.scores", GGUF_F32, tokens->scores, tokens->count);
        }
        add_array(&values, "tokenizer.ggml.token_type", GGUF_I32, tokens->types, tokens->count);
        // A text begins with CLS and ends with SEP; "seperator" is the key's spelling.
        const struct {
            const char *key;
            int32_t id;
        } rows[] = {{"tokenizer.ggml.bos_token_id", from->cls},
                    {"tokenizer.ggml.cls_token_id", from->cls},
                    {"tokenizer.ggml.eos_token_id", from->sep},
                    {"tokenizer.ggml.seperator_token_id", from->sep},
                    {"tokenizer.ggml.unknown_token_id", from->unknown},
                    {"tokenizer.ggml.padding_token_id", from->pad},
                    {"tokenizer.ggml.mask_token_id", from->mask}};
        for (size_t i = 0; i < LENGTH(rows); i++) {
            if (rows[i].id >= 0) {
                add_integer(&values, rows[i].key, GGUF_U32, rows[i].id);
            }
        }
    }
    struct gguf_content content = {.values = values.list,
                                   .value_count = values.count,
                                   .tensors = tensors,
                                   .tensor_count = list_tensors(export, tensors, names)};
    return gguf_write(path, &content, error);
}

enum berth_status export_gguf_write(const char *path, const struct export_gguf *export,
                                    struct berth_error *error) {
    size_t count = export->table->count;
    struct tokens tokens;
    TRY(tokens_make(export, &tokens, error));
    struct gguf_tensor *tensors = memory_array_zeroed(count, sizeof *tensors);
    struct tensor_name *names = memory_array_zeroed(count, sizeof *names);
    enum berth_status status =
        tensors != NULL && names != NULL
            ? write_content(path, export, &tokens, tensors, names, error)
            : error_no_memory(error, count * (sizeof *tensors + sizeof *names), path);
    memory_free(tensors);
    memory_free(names);
    tokens_done(&tokens);
    return status;
}
