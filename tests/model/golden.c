// SPDX-License-Identifier: Apache-2.0
#include "golden.h"

#include "core/harness.h"
#include "format/json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_ok(enum berth_status status, const struct berth_error *error) {
    if (status != BERTH_OK) {
        fail_msg("%s", error->message);
    }
}

static void read_config(struct golden *golden, const char *path) {
    static const struct {
        const char *key;
        size_t offset;
    } integers[] = {
        {"vocab_size", offsetof(struct bert_config, vocab_size)},
        {"hidden_size", offsetof(struct bert_config, hidden_size)},
        {"num_hidden_layers", offsetof(struct bert_config, num_hidden_layers)},
        {"num_attention_heads", offsetof(struct bert_config, num_attention_heads)},
        {"intermediate_size", offsetof(struct bert_config, intermediate_size)},
        {"max_position_embeddings", offsetof(struct bert_config, max_position_embeddings)},
        {"type_vocab_size", offsetof(struct bert_config, type_vocab_size)},
    };
    struct berth_error error = {0};
    const char *text = safetensors_metadata(&golden->file, "config");
    assert_non_null(text);
    json *root = NULL;
    assert_ok(json_read_memory(path, text, strlen(text), &root, &error), &error);
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        int64_t *to = (int64_t *)(void *)((char *)&golden->config + integers[i].offset);
        assert_ok(json_get_integer(root, path, integers[i].key, to, &error), &error);
        assert_true(*to > 0);
    }
    assert_ok(json_get_real(root, path, "layer_norm_eps", &golden->config.layer_norm_eps, &error),
              &error);
    assert_ok(json_get_integer(root, path, "pad_token_id", &golden->config.pad_token_id, &error),
              &error);
    const char *activation = "";
    assert_ok(json_get_text(root, path, "hidden_act", &activation, &error), &error);
    golden->config.hidden_act =
        strcmp(activation, "gelu") == 0 ? ACTIVATION_GELU_ERF : ACTIVATION_GELU_TANH;
    json_free(root);
    golden->config.pre_layer_norm = safetensors_metadata(&golden->file, "pre_layer_norm") != NULL;
}

void golden_open(struct golden *golden, const char *path) {
    *golden = (struct golden){0};
    golden_file_open(&golden->file, path);
    read_config(golden, path);
}

void golden_close(struct golden *golden) {
    safetensors_close(&golden->file);
}

void golden_sequences_read(const struct golden *golden, const char *suffix,
                           struct golden_sequences *all) {
    *all = (struct golden_sequences){0};
    int64_t count;
    all->ids = golden_integers(&golden->file, "ids", suffix, &all->tokens);
    all->type_ids = golden_integers(&golden->file, "token_type_ids", suffix, &count);
    all->cu_seqlens = golden_integers(&golden->file, "cu_seqlens", suffix, &count);
    all->count = count - 1;
    if (golden_has(&golden->file, "start_positions", suffix)) {
        all->starts = golden_integers(&golden->file, "start_positions", suffix, &count);
        all->ends = golden_integers(&golden->file, "end_positions", suffix, &count);
    }
    if (golden_has(&golden->file, "labels", suffix)) {
        all->labels = golden_integers(&golden->file, "labels", suffix, &count);
    }
    if (golden_has(&golden->file, "targets", suffix)) {
        all->targets = golden_floats(&golden->file, "targets", suffix, &count);
    }
    int64_t label_targets = 0; // of all sequences
    if (golden_has(&golden->file, "shares", suffix)) {
        all->label_targets = golden_floats(&golden->file, "shares", suffix, &label_targets);
    }
    if (golden_has(&golden->file, "masked_counts", suffix)) {
        all->masked_counts = golden_integers(&golden->file, "masked_counts", suffix, &count);
        all->masked_labels = golden_integers(&golden->file, "masked_labels", suffix, &count);
        all->masked_positions =
            golden_integers(&golden->file, "masked_positions", suffix, &all->masked_count);
    }
    int64_t masked = 0;
    all->sequences = calloc((size_t)all->count, sizeof *all->sequences);
    assert_non_null(all->sequences);
    for (int64_t s = 0; s < all->count; s++) {
        int32_t first = all->cu_seqlens[s];
        int64_t length = all->cu_seqlens[s + 1] - first;
        all->sequences[s] = (struct reference_sequence){
            .length = length,
            .ids = all->ids + first,
            .type_ids = all->type_ids + first,
            .global_index = s,
            .start = all->starts ? all->starts[s] : 0,
            .end = all->ends ? all->ends[s] : 0,
            .label = all->labels ? all->labels[s] : -1,
            .target = all->targets ? all->targets[s] : NAN,
            .label_targets =
                all->label_targets ? all->label_targets + s * (label_targets / all->count) : NULL,
            .label_target_count = label_targets / all->count,
        };
        if (all->masked_counts) {
            all->sequences[s].masked_count = all->masked_counts[s];
            all->sequences[s].masked_positions = all->masked_positions + masked;
            all->sequences[s].masked_labels = all->masked_labels + masked;
            masked += all->masked_counts[s];
        }
        all->longest = length > all->longest ? length : all->longest;
    }
}

void golden_sequences_free(struct golden_sequences *all) {
    free(all->sequences);
    free(all->ids);
    free(all->type_ids);
    free(all->cu_seqlens);
    free(all->starts);
    free(all->ends);
    free(all->labels);
    free(all->targets);
    free(all->label_targets);
    free(all->masked_counts);
    free(all->masked_positions);
    free(all->masked_labels);
}

static float *whole_layout(const struct param_table *table) {
    float *values = calloc((size_t)table->total, sizeof *values);
    assert_non_null(values);
    return values;
}

static void read_parameter(const struct safetensors *file, const struct tensor_entry *entry,
                           const struct param *param, float *values) {
    struct berth_error error = {0};
    int64_t count = param->rows * param->cols;
    assert_int_equal(golden_count(entry), count);
    assert_ok(safetensors_read_f32(file, entry, 0, count, values + param->offset, &error), &error);
}

float *golden_parameters(const struct golden *golden, const struct param_table *table,
                         const struct safetensors *model) {
    float *values = whole_layout(table);
    for (size_t p = 0; p < table->count; p++) {
        const struct param *param = &table->params[p];
        const struct safetensors *file = &golden->file;
        const struct tensor_entry *entry = safetensors_find(file, param->name);
        if (!entry && model) {
            file = model;
            entry = safetensors_find(file, param->name);
            if (!entry && strncmp(param->name, "bert.", 5) == 0) {
                entry = safetensors_find(file, param->name + 5);
            }
        }
        if (!entry) {
            fail_msg("no tensor %s", param->name);
        }
        read_parameter(file, entry, param, values);
    }
    return values;
}

float *golden_layout(const struct golden *golden, const struct param_table *table,
                     const char *prefix) {
    float *values = whole_layout(table);
    for (size_t p = 0; p < table->count; p++) {
        read_parameter(&golden->file, golden_entry(&golden->file, prefix, table->params[p].name),
                       &table->params[p], values);
    }
    return values;
}
