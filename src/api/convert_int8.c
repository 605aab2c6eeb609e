// SPDX-License-Identifier: Apache-2.0
// Writes model.safetensors with the encoder's matrices and the tables of words and positions in
// int8, in the layout "int-quantized" of compressed-tensors: a tensor "X.weight" I8 [rows, cols]
// and "X.weight_scale" F32 [rows, groups] for each (core/int8.h); quantization_config in
// config.json names the layers. All other tensors are F32, also the tables of a model that predicts
// words, as no device does that in int8. A target of convert_targets.c.
#include "api/conversion.h"
#include "core/file.h"
#include "core/int8.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "format/json/json.h"
#include "format/safetensors/safetensors.h"
#include "model/architectures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int predicts_words(const struct conversion *conversion) {
    const struct weights *weights = &conversion->weights;
    int tables = 0;
    for (size_t i = 0; i < weights->count; i++) {
        tables += weight_has_word_rows(weights->list[i].name);
    }
    return tables > 1;
}

static int is_quantized(const struct conversion *conversion, const struct tensor_out *tensor) {
    const int is_layer = strstr(tensor->name, ".layer.") != NULL;
    const int is_table = strstr(tensor->name, "embeddings.word_embeddings") != NULL ||
                         strstr(tensor->name, "embeddings.position_embeddings") != NULL;
    return tensor->rank == 2 && tensor->dtype == TENSOR_F32 &&
           text_ends_with(tensor->name, ".weight") &&
           (is_layer || (is_table && !predicts_words(conversion)));
}

// The tensors to be written: the outgoing ones and the scales.
struct quantized {
    struct tensor_out *list;
    char (*names)[WEIGHT_NAME_SIZE + 8]; // of the scales
    size_t count;
    float *scales;
    size_t used;
    const struct conversion *conversion;
};

// A group with a number that is not finite has NaN for a scale.
static void warn_of_nan(const struct quantized *out, const char *name, const float *scales,
                        size_t count) {
    size_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        bad += isnan(scales[i]) != 0;
    }
    if (bad > 0) {
        log_warning(&out->conversion->log,
                    "tensor \"%s\": %zu of %zu groups of numbers have one that is not finite and "
                    "become NaN",
                    name, bad, count);
    }
}

// Replaces the numbers of a matrix, whose memory is large enough; the scales become a tensor.
static enum berth_status quantize(struct quantized *out, struct tensor_out *tensor,
                                  struct berth_error *error) {
    const int64_t rows = tensor->shape[0], cols = tensor->shape[1], groups = int8_groups(cols);
    const float *values = tensor->data;
    signed char *q = (signed char *)tensor->data;
    OWNED signed char *row = memory_new((size_t)cols);
    float *scales = out->scales + out->used;
    if (row == NULL) {
        return error_no_memory(error, (size_t)cols, tensor->name);
    }
    for (int64_t r = 0; r < rows; r++) {
        int8_quantize(values + r * cols, cols, row, scales + r * groups);
        memcpy(q + r * cols, row, (size_t)cols);
    }
    warn_of_nan(out, tensor->name, scales, (size_t)(rows * groups));
    tensor->dtype = TENSOR_I8;
    snprintf(out->names[out->count], sizeof *out->names, "%s_scale", tensor->name);
    out->list[out->count] = (struct tensor_out){.name = out->names[out->count],
                                                .dtype = TENSOR_F32,
                                                .rank = 2,
                                                .shape = {rows, groups},
                                                .data = scales};
    out->count++;
    out->used += (size_t)(rows * groups);
    return BERTH_OK;
}

static enum berth_status allocate(struct quantized *out, const struct outgoing *outgoing,
                                  struct berth_error *error) {
    size_t scales = 0;
    for (size_t i = 0; i < outgoing->count; i++) {
        const struct tensor_out *tensor = &outgoing->list[i];
        scales += is_quantized(out->conversion, tensor)
                      ? (size_t)(tensor->shape[0] * int8_groups(tensor->shape[1]))
                      : 0;
    }
    out->list = memory_array(2 * outgoing->count + 1, sizeof *out->list);
    out->names = memory_array(2 * outgoing->count + 1, sizeof *out->names);
    out->scales = memory_array(scales, sizeof *out->scales);
    return out->list != NULL && out->names != NULL && out->scales != NULL
               ? BERTH_OK
               : error_no_memory(error, scales * sizeof *out->scales, "the scales of int8");
}

static enum berth_status quantize_all(struct quantized *out, const struct outgoing *outgoing,
                                      struct berth_error *error) {
    TRY(allocate(out, outgoing, error));
    for (size_t i = 0; i < outgoing->count; i++) {
        struct tensor_out *tensor = &out->list[out->count++];
        *tensor = outgoing->list[i];
        if (is_quantized(out->conversion, tensor)) {
            TRY(quantize(out, tensor, error));
        }
    }
    return BERTH_OK;
}

static void quantized_done(struct quantized *out) {
    memory_free(out->list);
    memory_free(out->names);
    memory_free(out->scales);
}

static enum berth_status write_weights(const struct conversion *conversion, const char *path,
                                       struct berth_error *error) {
    static const char *const metadata[] = {"format", "pt", NULL};
    struct outgoing outgoing DONE_BY(outgoing_done) = {0};
    struct quantized out DONE_BY(quantized_done) = {.conversion = conversion};
    TRY(outgoing_read(conversion, &outgoing, error));
    TRY(quantize_all(&out, &outgoing, error));
    return safetensors_write(path, out.list, out.count, metadata, error);
}

// --- config.json --------------------------------------------------------------------------------

// The layers' inputs are quantized while the model runs, when their values are known.
#define INPUTS                                                                                     \
    "{\"num_bits\": 8, \"type\": \"int\", \"symmetric\": false, \"dynamic\": true,"                \
    " \"strategy\": \"token\"}"

// One entry of config_groups: the layers whose names match, with rows of so many columns. Without a
// format of its own, compressed-tensors expects a group without inputs to be packed.
static void write_layers(char *text, size_t size, const char *pattern, int64_t columns,
                         const char *inputs) {
    char strategy[64] = "\"strategy\": \"channel\"";
    if (int8_group(columns) < columns) {
        snprintf(strategy, sizeof strategy, "\"strategy\": \"group\", \"group_size\": %d",
                 INT8_GROUP);
    }
    snprintf(text, size,
             "{\"targets\": [\"re:%s\"], \"format\": \"int-quantized\","
             " \"weights\": {\"num_bits\": 8, \"type\": \"int\","
             " \"symmetric\": true, \"dynamic\": false, %s}, \"input_activations\": %s}",
             pattern, strategy, inputs);
}

// Adds the architecture's name of a matrix of a layer, with "[.]" for each '.', to alternatives.
static void add_alternative(char *pattern, size_t size, const struct architecture *row,
                            const char *matrix) {
    char ours[WEIGHT_NAME_SIZE], name[WEIGHT_NAME_SIZE];
    snprintf(ours, sizeof ours, "bert.encoder.layer.0.%s.", matrix);
    name_for_architecture(row, ours, name, sizeof name);
    const char *rest = strstr(name, ".0.") + strlen(".0.");
    size_t used = strlen(pattern);
    const char *separator = used > 0 ? "|" : "";
    while (rest[0] != '\0') {
        const size_t length = strcspn(rest, ".");
        used +=
            (size_t)snprintf(pattern + used, size - used, "%s%.*s", separator, (int)length, rest);
        rest += length + 1; // a '.' follows every part
        separator = "[.]";
    }
}

static void write_settings(char *text, size_t size, const struct conversion *conversion) {
    const struct bert_config *config = &conversion->config;
    static const char *const narrow[] = {"attention.self.query", "attention.self.key",
                                         "attention.self.value", "attention.output.dense",
                                         "intermediate.dense"};
    const struct architecture *row = bert_architecture(config);
    char names[256] = "", wide[64] = "", pattern[320], hidden[768], intermediate[768];
    char tables[512] = "", tables_group[528] = "";
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++) {
        add_alternative(names, sizeof names, row, narrow[i]);
    }
    add_alternative(wide, sizeof wide, row, "output.dense");
    snprintf(pattern, sizeof pattern, ".*layer[.][0-9]+[.](%s)", names);
    write_layers(hidden, sizeof hidden, pattern, config->hidden_size, INPUTS);
    snprintf(pattern, sizeof pattern, ".*layer[.][0-9]+[.]%s", wide);
    write_layers(intermediate, sizeof intermediate, pattern, config->intermediate_size, INPUTS);
    if (!predicts_words(conversion)) {
        write_layers(tables, sizeof tables, ".*embeddings[.](word|position)_embeddings",
                     bert_embedding_size(config), "null");
        snprintf(tables_group, sizeof tables_group, ", \"group_2\": %s", tables);
    }
    snprintf(text, size,
             "{\"quant_method\": \"compressed-tensors\", \"format\": \"int-quantized\","
             " \"quantization_status\": \"compressed\", \"ignore\": [],"
             " \"config_groups\": {\"group_0\": %s, \"group_1\": %s%s}}",
             hidden, intermediate, tables_group);
}

static enum berth_status write_config(const struct conversion *conversion, const char *path,
                                      struct berth_error *error) {
    char text[3072];
    json *config, *settings;
    write_settings(text, sizeof text, conversion);
    TRY(json_read_file(path, &config, error));
    enum berth_status status =
        json_read_memory("quantization_config", text, strlen(text), &settings, error);
    if (status == BERTH_OK) {
        status = json_set(config, "quantization_config", settings) == 0
                     ? json_write_file(config, JSON_INDENT_2_SORTED, path, error)
                     : error_no_memory(error, sizeof text, path);
    }
    json_free(config);
    return status;
}

enum berth_status convert_to_int8(const struct conversion *conversion, struct berth_error *error) {
    TRY(write_config(conversion, path_in(conversion->folder, "config.json").text, error));
    return write_weights(conversion, path_in(conversion->folder, "model.safetensors").text, error);
}
