// SPDX-License-Identifier: Apache-2.0
// The merged model is one more container of tensors (format/tensors/tensor_file.h): its entries are
// those of the model and of the adapter, and a matrix is merged when it is read.
#include "model/adapter.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "format/containers/containers.h"
#include "format/hub/hub_cache.h"
#include "format/json/json.h"
#include "model/names.h"
#include "model/weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BASE_KEY "base_model_name_or_path"
#define FIRST ".lora_A.weight"  // [r, columns]
#define SECOND ".lora_B.weight" // [rows, r]
#define PREFIX "base_model.model."

// Where the numbers of a tensor come from: `base` alone, `own` alone (a saved module's), or `base`
// with the product of `second` and `first`.
struct part {
    const struct tensor_entry *base, *own, *first, *second;
    double factor;
};

struct adapter {
    struct tensor_file base, own;
    struct tensor_entry *entries;
    struct part *parts;
    size_t count;
    uint64_t end;                         // of the offsets given so far
    char (*base_names)[WEIGHT_NAME_SIZE]; // our names of the base's tensors, while opening
    enum name_use *base_uses;             //
    const json *config;                   //
    char config_path[512];                // for messages
};

// --- the configuration --------------------------------------------------------------------------

static enum berth_status read_config(const char *folder, json **config, char **path,
                                     struct berth_error *error) {
    *config = NULL;
    *path = path_join(folder, ADAPTER_CONFIG);
    if (*path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    return file_exists(*path) ? json_read_file(*path, config, error) : BERTH_OK;
}

enum berth_status adapter_is_in(const char *folder, int *found, struct berth_error *error) {
    char *path = path_join(folder, ADAPTER_CONFIG);
    *found = path != NULL && file_exists(path);
    memory_free(path);
    return path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

static enum berth_status find_cached(const char *name, char **folder, struct berth_error *error) {
    char *root = hub_cache_root();
    struct hub_snapshot snapshot = {.folder = NULL};
    enum berth_status status =
        root == NULL ? error_no_memory(error, 0, "a path")
                     : hub_snapshot_find(root, "model", name, HUB_MAIN, &snapshot, error);
    if (status == BERTH_OK) {
        *folder = snapshot.folder;
        snapshot.folder = NULL;
    }
    hub_snapshot_done(&snapshot);
    memory_free(root);
    return status;
}

static enum berth_status find_named(const char *name, char **folder, struct berth_error *error) {
    if (!dir_exists(name)) {
        return hub_is_id(name) ? find_cached(name, folder, error) : BERTH_OK;
    }
    *folder = memory_string(name);
    return *folder != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

enum berth_status adapter_find_base(const char *folder, char **base, struct berth_error *error) {
    json *config;
    char *path;
    *base = NULL;
    enum berth_status status = read_config(folder, &config, &path, error);
    const char *name = json_text(json_member(config, BASE_KEY));
    if (status == BERTH_OK && name != NULL) {
        status = find_named(name, base, error);
    }
    json_free(config);
    memory_free(path);
    return status;
}

// Settings that change more than the products of two matrices, unless they are absent, null, false
// or empty.
static const char *const refused_keys[] = {
    "use_dora",
    "lora_bias",
    "fan_in_fan_out",
    "layer_replication",
    "target_parameters",
    "use_qalora",
    "alora_invocation_tokens",
    "use_bdlora",
    "arrow_config",
    "trainable_token_indices",
    "kasa_config",
    "velora_config",
    "monteclora_config",
};

// Initial matrices for which the model's weights stay as they were.
static const char *const plain_starts[] = {"gaussian", "eva", "orthogonal"};

static enum berth_status refuse_key(const struct adapter *adapter, const char *key,
                                    const char *expected, struct berth_error *error) {
    return error_key(error, BERTH_CONFIG, adapter->config_path, key,
                     "expected %s; merge the adapter with merge_and_unload of PEFT "
                     "and save_pretrained, and use the result",
                     expected);
}

static int is_off(const json *value) {
    return value == NULL || json_is_null_value(value) ||
           (json_is_boolean(value) ? !json_truth(value)
                                   : !json_is_integer_value(value) && json_text(value) == NULL &&
                                         json_length(value) == 0);
}

static enum berth_status check_start(const struct adapter *adapter, struct berth_error *error) {
    static const char key[] = "init_lora_weights";
    const char *start = json_text(json_member(adapter->config, key));
    int is_plain = start == NULL;
    for (size_t i = 0; i < sizeof plain_starts / sizeof *plain_starts; i++) {
        is_plain |= start != NULL && strcmp(start, plain_starts[i]) == 0;
    }
    return is_plain
               ? BERTH_OK
               : refuse_key(adapter, key,
                            "true, false or a start that leaves the model's weights alone", error);
}

static enum berth_status check_config(const struct adapter *adapter, struct berth_error *error) {
    const char *type = "LORA", *bias = "none", *path = adapter->config_path;
    TRY(json_get_text(adapter->config, path, "peft_type", &type, error));
    if (strcmp(type, "LORA") != 0) {
        return refuse_key(adapter, "peft_type", "LORA", error);
    }
    TRY(json_get_text(adapter->config, path, "bias", &bias, error));
    if (strcmp(bias, "none") != 0) {
        return refuse_key(adapter, "bias", "none", error);
    }
    for (size_t i = 0; i < sizeof refused_keys / sizeof *refused_keys; i++) {
        if (!is_off(json_member(adapter->config, refused_keys[i]))) {
            return refuse_key(adapter, refused_keys[i], "false or none", error);
        }
    }
    return check_start(adapter, error);
}

// Whether a key of a pattern is the module, or the last components of its name.
static int is_module(const char *module, const char *key) {
    const size_t length = strlen(module), size = strlen(key);
    return text_ends_with(module, key) && (length == size || module[length - size - 1] == '.');
}

// Patterns are regular expressions; those that are plain names are read.
static enum berth_status find_alpha(const struct adapter *adapter, const char *module,
                                    double *alpha, struct berth_error *error) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    struct json_walk walk = {.object = json_member(adapter->config, "alpha_pattern")};
    *alpha = 8; // PEFT's default
    TRY(json_get_real(adapter->config, adapter->config_path, "lora_alpha", alpha, error));
    while (json_is_object_value(walk.object) && json_walk_next(&walk)) {
        if (walk.key[strspn(walk.key, plain)] != '\0') {
            return refuse_key(adapter, "alpha_pattern", "names of modules, not expressions", error);
        }
        if (is_module(module, walk.key)) {
            return json_get_real(walk.object, adapter->config_path, walk.key, alpha, error);
        }
    }
    return BERTH_OK;
}

// --- the entries --------------------------------------------------------------------------------

static enum berth_status refuse_tensor(const struct adapter *adapter,
                                       const struct tensor_entry *entry, const char *problem,
                                       struct berth_error *error) {
    return error_tensor(error, BERTH_BAD_DATA, adapter->own.path, entry->name,
                        "%s; merge the adapter with merge_and_unload of PEFT and "
                        "save_pretrained, and use the result",
                        problem);
}

// The number of the base's tensor with our name; SIZE_MAX: none.
static size_t find_base(const struct adapter *adapter, const char *name) {
    for (size_t i = 0; i < adapter->base.count; i++) {
        if (strcmp(adapter->base_names[i], name) == 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

// Gives the entry's bytes offsets that no other entry has.
static void place(struct adapter *adapter, struct tensor_entry *entry, uint64_t bytes) {
    entry->begin = adapter->end;
    entry->end = adapter->end += bytes;
}

// The entry's name with the ending replaced, in the adapter's file.
static const struct tensor_entry *find_second(const struct adapter *adapter, const char *first) {
    char name[WEIGHT_NAME_SIZE * 2];
    const int length =
        snprintf(name, sizeof name, "%.*s" SECOND, (int)(strlen(first) - strlen(FIRST)), first);
    return (size_t)length < sizeof name ? tensor_file_find(&adapter->own, name) : NULL;
}

static int is_matrix(const struct tensor_entry *entry, int64_t rows, int64_t cols) {
    return entry->rank == 2 && entry->shape[0] == rows && entry->shape[1] == cols &&
           tensor_is_convertible(entry->dtype);
}

static enum berth_status check_shapes(const struct adapter *adapter, const struct part *part,
                                      enum name_use use, struct berth_error *error) {
    const struct tensor_entry *base = part->base, *first = part->first, *second = part->second;
    if (use != NAME_KEPT || base->rank != 2 || !tensor_is_convertible(base->dtype)) {
        return refuse_tensor(adapter, first,
                             "the model's matrix has another layout or is not of a floating-point "
                             "type, so nothing can be added to it",
                             error);
    }
    if (second == NULL || first->rank != 2 || first->shape[0] < 1 ||
        !is_matrix(first, first->shape[0], base->shape[1]) ||
        !is_matrix(second, base->shape[0], first->shape[0])) {
        return refuse_tensor(adapter, first,
                             "it and its \"lora_B\" do not fit the model's matrix: is this the "
                             "model that the adapter was trained with?",
                             error);
    }
    return BERTH_OK;
}

// The rank is that of the file's matrices, so "rank_pattern" need not be read.
static enum berth_status find_factor(const struct adapter *adapter, struct part *part,
                                     struct berth_error *error) {
    const char *name = part->first->name;
    char module[WEIGHT_NAME_SIZE * 2];
    int root = 0;
    double alpha;
    name += strncmp(name, PREFIX, strlen(PREFIX)) == 0 ? strlen(PREFIX) : 0;
    snprintf(module, sizeof module, "%.*s", (int)(strlen(name) - strlen(FIRST)), name);
    TRY(find_alpha(adapter, module, &alpha, error));
    TRY(json_get_boolean(adapter->config, adapter->config_path, "use_rslora", &root, error));
    const double rank = (double)part->first->shape[0];
    part->factor = alpha / (root ? sqrt(rank) : rank);
    return BERTH_OK;
}

static enum berth_status add_product(struct adapter *adapter, const struct tensor_entry *first,
                                     const char *name, struct berth_error *error) {
    char matrix[WEIGHT_NAME_SIZE];
    snprintf(matrix, sizeof matrix, "%.*s.weight", (int)(strlen(name) - strlen(FIRST)), name);
    const size_t i = find_base(adapter, matrix);
    if (i == SIZE_MAX) {
        return refuse_tensor(adapter, first, "the model has no such linear layer", error);
    }
    struct part *part = &adapter->parts[i];
    part->first = first;
    part->second = find_second(adapter, first->name);
    TRY(check_shapes(adapter, part, adapter->base_uses[i], error));
    struct tensor_entry *entry = &adapter->entries[i];
    tensor_dtype_parse("F32", entry);
    place(adapter, entry, (uint64_t)entry->shape[0] * (uint64_t)entry->shape[1] * sizeof(float));
    return find_factor(adapter, part, error);
}

static enum berth_status add_own(struct adapter *adapter, const struct tensor_entry *own,
                                 struct berth_error *error) {
    char name[WEIGHT_NAME_SIZE];
    if (strncmp(own->name, PREFIX, strlen(PREFIX)) != 0 ||
        name_translate(own->name, name, sizeof name) != NAME_KEPT || name[0] == '\0') {
        return refuse_tensor(adapter, own, "expected a name that begins with \"" PREFIX "\"",
                             error);
    }
    if (text_ends_with(name, FIRST)) {
        return add_product(adapter, own, name, error);
    }
    if (text_ends_with(name, SECOND)) {
        return BERTH_OK; // check_shapes has seen it, or the check of pairs refuses it
    }
    if (strstr(name, ".lora_") != NULL) {
        return refuse_tensor(adapter, own,
                             "only \"lora_A\" and \"lora_B\" of linear layers can be "
                             "merged",
                             error);
    }
    // A whole tensor replaces the model's, or is new: that of a head.
    const size_t found = find_base(adapter, name);
    const size_t i = found != SIZE_MAX ? found : adapter->count++;
    adapter->entries[i] = *own;
    adapter->parts[i] = (struct part){.own = own};
    place(adapter, &adapter->entries[i], own->end - own->begin);
    return BERTH_OK;
}

static enum berth_status list_entries(struct adapter *adapter, struct berth_error *error) {
    const size_t bases = adapter->base.count, most = bases + adapter->own.count;
    adapter->entries = memory_array(most, sizeof *adapter->entries);
    adapter->parts = memory_array_zeroed(most, sizeof *adapter->parts);
    adapter->base_names = memory_array(bases, sizeof *adapter->base_names);
    adapter->base_uses = memory_array(bases, sizeof *adapter->base_uses);
    if (adapter->entries == NULL || adapter->parts == NULL || adapter->base_names == NULL ||
        adapter->base_uses == NULL) {
        return error_no_memory(error, most * sizeof *adapter->entries, adapter->own.path);
    }
    for (size_t i = 0; i < bases; i++) {
        const struct tensor_entry *base = &adapter->base.entries[i];
        adapter->entries[i] = *base;
        adapter->parts[i].base = base;
        adapter->end = base->end > adapter->end ? base->end : adapter->end;
        adapter->base_uses[i] =
            name_translate(base->name, adapter->base_names[i], WEIGHT_NAME_SIZE);
    }
    adapter->count = bases;
    for (size_t i = 0; i < adapter->own.count; i++) {
        TRY(add_own(adapter, &adapter->own.entries[i], error));
    }
    for (size_t i = 0; i < adapter->own.count; i++) {
        const struct tensor_entry *own = &adapter->own.entries[i];
        size_t k = 0;
        while (text_ends_with(own->name, SECOND) && k < adapter->base.count &&
               adapter->parts[k].second != own) {
            k++;
        }
        if (text_ends_with(own->name, SECOND) && k == adapter->base.count) {
            return refuse_tensor(adapter, own, "its \"lora_A\" is missing", error);
        }
    }
    return BERTH_OK;
}

// --- reading ------------------------------------------------------------------------------------

// Rows of a merged matrix, from element `begin` up to `end`; `to` has the base's numbers.
struct rows {
    const float *first, *second; // of these rows
    double *sums;                // [cols]
    int64_t rank, cols, begin, end;
    float *to;
};

static void add_products(const struct rows *rows, double factor) {
    const int64_t first_row = rows->begin / rows->cols;
    for (int64_t at = rows->begin; at < rows->end;) {
        const int64_t row = at / rows->cols, row_end = (row + 1) * rows->cols;
        const float *second = rows->second + (row - first_row) * rows->rank;
        memset(rows->sums, 0, (size_t)rows->cols * sizeof *rows->sums);
        for (int64_t k = 0; k < rows->rank; k++) {
            const double scale = second[k];
            const float *first = rows->first + k * rows->cols;
            for (int64_t i = 0; i < rows->cols; i++) {
                rows->sums[i] += scale * (double)first[i];
            }
        }
        for (; at < rows->end && at < row_end; at++) {
            float *value = &rows->to[at - rows->begin];
            *value = (float)((double)*value + factor * rows->sums[at % rows->cols]);
        }
    }
}

static enum berth_status read_merged(const struct adapter *adapter, const struct part *part,
                                     int64_t begin, int64_t count, float *to,
                                     struct berth_error *error) {
    const int64_t rank = part->first->shape[0], cols = part->base->shape[1];
    const int64_t row = begin / cols, rows = (begin + count - 1) / cols + 1 - row;
    float *first = memory_array((size_t)(rank * cols), sizeof *first);
    float *second = memory_array((size_t)(rank * rows), sizeof *second);
    double *sums = memory_array((size_t)cols, sizeof *sums);
    enum berth_status status =
        first != NULL && second != NULL && sums != NULL
            ? BERTH_OK
            : error_no_memory(error, (size_t)(rank * (cols + rows)) * sizeof *first,
                              part->base->name);
    if (status != BERTH_OK) {
        goto done;
    }
    TRY_DONE(tensor_file_read_f32(&adapter->own, part->first, 0, rank * cols, first, error));
    TRY_DONE(
        tensor_file_read_f32(&adapter->own, part->second, row * rank, rows * rank, second, error));
    TRY_DONE(tensor_file_read_f32(&adapter->base, part->base, begin, count, to, error));
    const struct rows all = {first, second, sums, rank, cols, begin, begin + count, to};
    add_products(&all, part->factor);
done:
    memory_free(first);
    memory_free(second);
    memory_free(sums);
    return status;
}

static enum berth_status read_entry(const struct tensor_file *file,
                                    const struct tensor_entry *entry, uint64_t first, size_t bytes,
                                    void *to, struct berth_error *error) {
    const struct adapter *adapter = file->container;
    const struct part *part = &adapter->parts[entry - adapter->entries];
    if (part->own != NULL) {
        return adapter->own.format->read(&adapter->own, part->own, first, bytes, to, error);
    }
    if (part->first == NULL) {
        return adapter->base.format->read(&adapter->base, part->base, first, bytes, to, error);
    }
    TRY(tensor_check_range(file->path, entry, first, bytes, error));
    return bytes == 0 ? BERTH_OK
                      : read_merged(adapter, part, (int64_t)(first / sizeof(float)),
                                    (int64_t)(bytes / sizeof(float)), to, error);
}

static void close_adapter(void *container) {
    struct adapter *adapter = container;
    tensor_file_close(&adapter->base);
    tensor_file_close(&adapter->own);
    memory_free(adapter->entries);
    memory_free(adapter->parts);
}

// An adapter is made of files that other formats recognise.
static const struct tensor_format merged_format = {.name = "a model and its adapter",
                                                   .container_size = sizeof(struct adapter),
                                                   .read = read_entry,
                                                   .close = close_adapter};

// --- opening ------------------------------------------------------------------------------------

static enum berth_status open_own(struct adapter *adapter, const char *folder,
                                  struct berth_error *error) {
    static const char *const names[] = {"adapter_model.safetensors", "adapter_model.bin"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = path_join(folder, names[i]);
        const int is_there = path != NULL && file_exists(path);
        const enum berth_status status = path == NULL ? error_no_memory(error, 0, "a path")
                                         : is_there   ? tensor_file_open(&adapter->own, path, error)
                                                      : BERTH_OK;
        memory_free(path);
        if (is_there || status != BERTH_OK) {
            return status;
        }
    }
    return error_set(error, BERTH_NO_INPUT,
                     "%s: the adapter's weights are missing: expected %s beside it",
                     adapter->config_path, names[0]);
}

enum berth_status adapter_merge(const char *folder, struct tensor_file *file,
                                struct berth_error *error) {
    struct tensor_file merged = {.format = &merged_format, .formats = file->formats};
    struct adapter *adapter = memory_array_zeroed(1, sizeof *adapter);
    json *config = NULL;
    char *config_path = NULL;
    merged.path = memory_string(file->path);
    enum berth_status status = adapter != NULL && merged.path != NULL
                                   ? read_config(folder, &config, &config_path, error)
                                   : error_no_memory(error, 0, "a path");
    if (status != BERTH_OK) {
        goto done;
    }
    adapter->config = config;
    snprintf(adapter->config_path, sizeof adapter->config_path, "%.*s",
             UTF8_SHOWN(config_path, 500));
    adapter->base = *file;
    TRY_DONE(check_config(adapter, error));
    TRY_DONE(open_own(adapter, folder, error));
    TRY_DONE(list_entries(adapter, error));
    merged.entries = adapter->entries;
    merged.count = adapter->count;
    merged.ignored_keys = file->ignored_keys;
    TRY_DONE(tensor_index_new(merged.entries, merged.count, merged.path, &merged.by_name, error));
    merged.container = adapter;
    *file = merged;
done:
    if (adapter != NULL) {
        memory_free(adapter->base_names);
        memory_free(adapter->base_uses);
    }
    if (status != BERTH_OK) {
        memory_free(merged.by_name);
        memory_free(merged.path);
        if (adapter != NULL) {
            adapter->base = (struct tensor_file){0}; // it stays the caller's
            close_adapter(adapter);
        }
        memory_free(adapter);
    }
    json_free(config);
    memory_free(config_path);
    return status;
}
