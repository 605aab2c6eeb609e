// SPDX-License-Identifier: Apache-2.0
// The dense modules of a folder of sentence embeddings: opened by sentence.c with the folder's
// other modules, applied by task/embed.c to each pooled vector, and written with the model.
#include "model/sentence_dense.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/portable_math.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "format/json/json.h"
#include "model/folder.h"
#include "model/weights.h"

#include <math.h>
#include <string.h>

#define FEATURES_LIMIT (1 << 20)

// --- activations --------------------------------------------------------------------------------

static double identity(double x) {
    return x;
}

static double gelu(double x) {
    return x / 2 * (1 + math_erf(x / sqrt(2)));
}

static double relu(double x) {
    return x > 0 ? x : 0 * x; // NaN stays NaN
}

static double sigmoid(double x) {
    return 1 / (1 + math_exp(-x));
}

static double silu(double x) {
    return x * sigmoid(x);
}

// torch's classes, without their Python module.
static const struct activation_row {
    const char *name;
    double (*function)(double x);
} activation_rows[] = {{"Identity", identity}, {"Tanh", tanh},       {"ReLU", relu},
                       {"GELU", gelu},         {"Sigmoid", sigmoid}, {"SiLU", silu}};
#define ACTIVATIONS (sizeof activation_rows / sizeof *activation_rows)

// --- reading ------------------------------------------------------------------------------------

static enum berth_status read_activation(const json *object, const char *path,
                                         struct sentence_dense *dense, struct berth_error *error) {
    const char *type = "torch.nn.modules.activation.Tanh"; // sentence-transformers' default
    char known[128] = "";
    TRY(json_get_text(object, path, "activation_function", &type, error));
    const char *dot = strrchr(type, '.'), *name = dot != NULL ? dot + 1 : type;
    for (size_t i = 0; i < ACTIVATIONS; i++) {
        words_add(known, sizeof known, activation_rows[i].name);
        if (strcmp(activation_rows[i].name, name) == 0) {
            dense->activation = activation_rows[i].function;
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_CONFIG,
                     "%s: key \"activation_function\": expected a class of torch named %s, found "
                     "\"%.*s\"; use a model with one of these",
                     path, known, UTF8_SHOWN(type, 80));
}

static enum berth_status read_size(const json *object, const char *path, const char *key,
                                   int64_t *size, struct berth_error *error) {
    TRY(json_get_integer(object, path, key, size, error));
    return *size >= 1 && *size <= FEATURES_LIMIT
               ? BERTH_OK
               : error_key(error, BERTH_CONFIG, path, key, "expected 1 to %d, found %lld",
                           FEATURES_LIMIT, (long long)*size);
}

static enum berth_status read_config(const char *path, struct sentence_dense *dense, int *has_bias,
                                     struct berth_error *error) {
    json *object;
    enum berth_status status;
    TRY(json_read_file(path, &object, error));
    TRY_DONE(read_size(object, path, "in_features", &dense->inputs, error));
    TRY_DONE(read_size(object, path, "out_features", &dense->outputs, error));
    TRY_DONE(json_get_boolean(object, path, "bias", has_bias, error));
    static const char *const keys[] = {"module_input_name", "module_output_name"};
    int has_residual = 0;
    for (size_t i = 0; i < 2; i++) {
        const char *name = "sentence_embedding";
        if (!json_is_null_value(json_member(object, keys[i]))) {
            TRY_DONE(json_get_text(object, path, keys[i], &name, error));
        }
        if (strcmp(name, "sentence_embedding") != 0) {
            TRY_DONE(error_key(error, BERTH_CONFIG, path, keys[i],
                               "expected \"sentence_embedding\", found \"%.*s\": a "
                               "module of single tokens is not supported",
                               UTF8_SHOWN(name, 40)));
        }
    }
    TRY_DONE(json_get_boolean(object, path, "use_residual", &has_residual, error));
    if (has_residual) {
        TRY_DONE(error_set(error, BERTH_CONFIG,
                           "%s: key \"use_residual\": expected false, found true; use a "
                           "model without residual connections",
                           path));
    }
    TRY_DONE(read_activation(object, path, dense, error));
done:
    json_free(object);
    return status;
}

// *values is [rows * cols]; a vector has 1 row.
static enum berth_status read_tensor(const struct weights *weights, const char *name, int64_t rows,
                                     int64_t cols, float **values, struct berth_error *error) {
    const struct weight *weight = weights_find(weights, name);
    const int rank = rows > 1 || strcmp(name, "linear.weight") == 0 ? 2 : 1;
    if (weight == NULL || weight->rank != rank || weight->shape[rank - 1] != cols ||
        (rank == 2 && weight->shape[0] != rows)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected the tensor \"%s\" with %lld x %lld numbers, as config.json "
                         "says, found %s",
                         weights->file.path, name, (long long)rows, (long long)cols,
                         weight == NULL ? "none" : "another shape");
    }
    *values = memory_array((size_t)(rows * cols), sizeof **values);
    return *values != NULL ? weights_read_f32(weights, weight, *values, error)
                           : error_no_memory(error, (size_t)(rows * cols) * sizeof **values, name);
}

enum berth_status sentence_dense_read(const char *folder, const char *module,
                                      struct sentence_dense *dense, struct berth_error *error) {
    OWNED char *inside = folder_file(folder, module);
    OWNED char *path = inside != NULL ? path_join(inside, "config.json") : NULL;
    int has_bias = 1;
    *dense = (struct sentence_dense){.inputs = 0};
    if (path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    TRY(read_config(path, dense, &has_bias, error));
    struct weights weights;
    enum berth_status status;
    TRY(weights_open(&weights, inside, 0, error));
    TRY_DONE(read_tensor(&weights, "linear.weight", dense->outputs, dense->inputs, &dense->weight,
                         error));
    if (has_bias) {
        TRY_DONE(read_tensor(&weights, "linear.bias", 1, dense->outputs, &dense->bias, error));
    }
done:
    weights_close(&weights);
    return status;
}

void sentence_dense_done(struct sentence_dense *dense) {
    memory_free(dense->weight);
    memory_free(dense->bias);
    dense->weight = dense->bias = NULL;
}

// --- applying -----------------------------------------------------------------------------------

void sentence_scale_to_one(float *values, int64_t size) {
    double sum = 0;
    for (int64_t i = 0; i < size; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    const double length = fmax(sqrt(sum), 1e-12);
    for (int64_t i = 0; i < size; i++) {
        values[i] = (float)((double)values[i] / length);
    }
}

void sentence_dense_apply(const struct sentence_dense *dense, float *x, float *y) {
    if (dense->normalizes) {
        sentence_scale_to_one(x, dense->inputs);
    }
    for (int64_t i = 0; i < dense->outputs; i++) {
        const float *row = dense->weight + i * dense->inputs;
        double sum = dense->bias != NULL ? (double)dense->bias[i] : 0;
        for (int64_t k = 0; k < dense->inputs; k++) {
            sum += (double)row[k] * (double)x[k];
        }
        y[i] = (float)dense->activation(sum);
    }
}
