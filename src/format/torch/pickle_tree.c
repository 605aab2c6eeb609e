// SPDX-License-Identifier: Apache-2.0
// Looks things up in a finished pickle: members of dictionaries, items of lists, and which storage,
// type and shape a tensor has. torch.c finds the tensors of a checkpoint with it, and readers of
// training states their numbers; the checks of storages and tensors are made while the machine
// still runs.
#include "format/torch/pickle_tree.h"

#include "core/memory.h"
#include "core/utf8.h"
#include "format/torch/pickle_names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void pickle_done(struct pickle *pickle) {
    memory_free(pickle->values);
    memory_free(pickle->items);
    memory_free(pickle->texts);
    *pickle = (struct pickle){0};
}

// --- looking at values --------------------------------------------------------------------------

int pickle_is(const struct pickle_value *value, enum pickle_kind kind) {
    return value != NULL && value->kind == kind;
}

static int is_sequence(const struct pickle_value *value) {
    return pickle_is(value, PICKLE_TUPLE) || pickle_is(value, PICKLE_LIST);
}

size_t pickle_length(const struct pickle_value *value) {
    return pickle_is(value, PICKLE_DICT) ? value->count / 2 : is_sequence(value) ? value->count : 0;
}

static const struct pickle_value *slot(const struct pickle *pickle,
                                       const struct pickle_value *value, size_t index) {
    return &pickle->values[pickle->items[value->index + index]];
}

const struct pickle_value *pickle_item(const struct pickle *pickle,
                                       const struct pickle_value *value, size_t index) {
    if (index >= pickle_length(value)) {
        return NULL;
    }
    return slot(pickle, value, value->kind == PICKLE_DICT ? 2 * index + 1 : index);
}

const struct pickle_value *pickle_key(const struct pickle *pickle, const struct pickle_value *dict,
                                      size_t index) {
    return pickle_is(dict, PICKLE_DICT) && index < pickle_length(dict)
               ? slot(pickle, dict, 2 * index)
               : NULL;
}

const struct pickle_value *pickle_member(const struct pickle *pickle,
                                         const struct pickle_value *dict, const char *key) {
    size_t length = strlen(key), count = pickle_is(dict, PICKLE_DICT) ? pickle_length(dict) : 0;
    for (size_t i = 0; i < count; i++) {
        const struct pickle_value *found = pickle_key(pickle, dict, i);
        if (found->kind == PICKLE_TEXT && found->count == length &&
            memcmp(pickle->texts + found->index, key, length) == 0) {
            return pickle_item(pickle, dict, i);
        }
    }
    return NULL;
}

const char *pickle_text(const struct pickle *pickle, const struct pickle_value *value) {
    return pickle_is(value, PICKLE_TEXT) || pickle_is(value, PICKLE_NAME)
               ? pickle->texts + value->index
               : NULL;
}

int pickle_integer(const struct pickle_value *value, int64_t *number) {
    if (!pickle_is(value, PICKLE_INTEGER)) {
        return 0;
    }
    *number = value->integer;
    return 1;
}

const struct pickle_value *pickle_arguments(const struct pickle *pickle,
                                            const struct pickle_value *value) {
    return pickle_is(value, PICKLE_OPAQUE) && value->count == 1 ? &pickle->values[value->index]
                                                                : NULL;
}

// --- storages and tensors -----------------------------------------------------------------------

static int is_size(const struct pickle_value *value) {
    return pickle_is(value, PICKLE_INTEGER) && value->integer >= 0;
}

static int is_name_text(const struct pickle *pickle, const struct pickle_value *value) {
    return pickle_is(value, PICKLE_TEXT) && strlen(pickle->texts + value->index) == value->count;
}

// torch.QInt8Storage, torch.QUInt4x2Storage, ...
static int is_quantized(const char *name) {
    static const char start[] = "torch.Q";
    return strncmp(name, start, strlen(start)) == 0;
}

// ("storage", type, key, device, numel[, None]); the sixth field is that of the older format.
const char *pickle_check_storage(const struct pickle *pickle, const struct pickle_value *id) {
    const char *kind = is_sequence(id) ? pickle_text(pickle, pickle_item(pickle, id, 0)) : NULL;
    if (kind != NULL && strcmp(kind, "module") == 0) {
        return "of a pickled module: save its state_dict instead";
    }
    if (!pickle_is(id, PICKLE_TUPLE) || (id->count != 5 && id->count != 6)) {
        return "that is not a tuple of five or six fields";
    }
    const struct pickle_value *type = slot(pickle, id, 1);
    if (kind == NULL || strcmp(kind, "storage") != 0) {
        return "of something other than a storage";
    }
    if (!pickle_is(type, PICKLE_NAME) ||
        pickle_names[type->detail].meaning != PICKLE_MEANS_STORAGE) {
        return pickle_is(type, PICKLE_NAME) && is_quantized(pickle->texts + type->index)
                   ? "of quantized numbers: save the tensors by their dequantize()"
                   : "of a storage of unknown type";
    }
    if (!is_name_text(pickle, slot(pickle, id, 2)) || !is_size(slot(pickle, id, 4))) {
        return "without a key or a number of elements";
    }
    if (id->count == 6 && !pickle_is(slot(pickle, id, 5), PICKLE_NONE)) {
        return "of a view of another storage";
    }
    return NULL;
}

static int are_sizes(const struct pickle *pickle, const struct pickle_value *tuple) {
    int good = pickle_is(tuple, PICKLE_TUPLE);
    for (size_t i = 0; good && i < tuple->count; i++) {
        good = is_size(slot(pickle, tuple, i));
    }
    return good;
}

// (storage, offset, shape, strides, requires_grad, hooks[, type][, metadata])
const char *pickle_check_tensor(const struct pickle *pickle, const struct pickle_value *arguments) {
    if (arguments->count < 4 || !pickle_is(slot(pickle, arguments, 0), PICKLE_STORAGE)) {
        return "without a storage, offset, shape and strides";
    }
    const struct pickle_value *shape = slot(pickle, arguments, 2);
    const struct pickle_value *stride = slot(pickle, arguments, 3);
    if (!is_size(slot(pickle, arguments, 1)) || !are_sizes(pickle, shape) ||
        !are_sizes(pickle, stride) || shape->count != stride->count) {
        return "whose offset, shape or strides are negative or not integers";
    }
    return shape->count > TENSOR_MAX_RANK ? "of more than 8 dimensions" : NULL;
}

_Static_assert(TENSOR_MAX_RANK == 8, "as the message says");

int pickle_storage(const struct pickle *pickle, const struct pickle_value *value,
                   struct pickle_storage *storage) {
    if (!pickle_is(value, PICKLE_STORAGE)) {
        return 0;
    }
    const struct pickle_value *id = &pickle->values[value->index];
    *storage = (struct pickle_storage){
        .dtype_name = pickle_names[slot(pickle, id, 1)->detail].dtype_name,
        .key = pickle->texts + slot(pickle, id, 2)->index,
        .numel = slot(pickle, id, 4)->integer,
    };
    return 1;
}

// Whether the metadata of a tensor sets one of these bits, which torch calls "neg" and "conj".
static int is_negated(const struct pickle *pickle, const struct pickle_value *metadata) {
    static const char *const bits[] = {"neg", "conj"};
    int is_set = 0;
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        const struct pickle_value *bit = pickle_member(pickle, metadata, bits[i]);
        is_set |= pickle_is(bit, PICKLE_TRUTH) && bit->integer != 0;
    }
    return is_set;
}

int pickle_tensor(const struct pickle *pickle, const struct pickle_value *value,
                  struct pickle_tensor *tensor) {
    if (!pickle_is(value, PICKLE_TENSOR)) {
        return 0;
    }
    const struct pickle_value *arguments = &pickle->values[value->index];
    const struct pickle_value *shape = slot(pickle, arguments, 2);
    const struct pickle_value *stride = slot(pickle, arguments, 3);
    *tensor = (struct pickle_tensor){.offset = slot(pickle, arguments, 1)->integer,
                                     .rank = (int)shape->count};
    pickle_storage(pickle, slot(pickle, arguments, 0), &tensor->storage);
    // What the call says besides storage and shape.
    const struct pickle_value *type = pickle_item(pickle, arguments, 6);
    tensor->dtype_name = tensor->storage.dtype_name;
    if (pickle_is(type, PICKLE_NAME)) {
        const struct pickle_name *row = &pickle_names[type->detail];
        tensor->type = pickle_text(pickle, type);
        tensor->dtype_name = row->meaning == PICKLE_MEANS_TYPE ? row->dtype_name : NULL;
    }
    tensor->is_negated =
        is_negated(pickle, pickle_item(pickle, arguments, tensor->type != NULL ? 7 : 6));
    for (size_t i = 0; i < shape->count; i++) {
        tensor->shape[i] = slot(pickle, shape, i)->integer;
        tensor->stride[i] = slot(pickle, stride, i)->integer;
    }
    return 1;
}

// --- keys ---------------------------------------------------------------------------------------

static int compare_keys(const void *a, const void *b, void *context) {
    const struct pickle *pickle = context;
    const struct pickle_value *left = &pickle->values[*(const uint32_t *)a];
    const struct pickle_value *right = &pickle->values[*(const uint32_t *)b];
    if (left->kind != right->kind) {
        return left->kind < right->kind ? -1 : 1;
    }
    if (left->kind == PICKLE_INTEGER) {
        return left->integer < right->integer ? -1 : left->integer > right->integer;
    }
    if (left->count != right->count) {
        return left->count < right->count ? -1 : 1;
    }
    return memcmp(pickle->texts + left->index, pickle->texts + right->index, left->count);
}

static enum berth_status check_dict(const struct pickle *pickle, const struct pickle_value *dict,
                                    uint32_t *keys, const char *path, struct berth_error *error) {
    size_t count = 0;
    for (size_t i = 0; i < dict->count; i += 2) {
        unsigned kind = slot(pickle, dict, i)->kind;
        if (kind == PICKLE_TEXT || kind == PICKLE_INTEGER) {
            keys[count++] = pickle->items[dict->index + i];
        }
    }
    qsort_r(keys, count, sizeof *keys, compare_keys, (void *)pickle);
    for (size_t i = 1; i < count; i++) {
        if (compare_keys(&keys[i - 1], &keys[i], (void *)pickle) == 0) {
            const struct pickle_value *key = &pickle->values[keys[i]];
            return key->kind == PICKLE_TEXT
                       ? error_set(error, BERTH_BAD_DATA,
                                   "%s: duplicate key \"%.*s\" in a dictionary", path,
                                   UTF8_SHOWN(pickle->texts + key->index, 200))
                       : error_set(error, BERTH_BAD_DATA,
                                   "%s: duplicate key %" PRId64 " in a dictionary", path,
                                   key->integer);
        }
    }
    return BERTH_OK;
}

enum berth_status pickle_check_keys(const struct pickle *pickle, const char *path,
                                    struct berth_error *error) {
    size_t max_entries = 0;
    for (size_t i = 0; i < pickle->count; i++) {
        size_t entries =
            pickle_is(&pickle->values[i], PICKLE_DICT) ? pickle->values[i].count / 2 : 0;
        max_entries = entries > max_entries ? entries : max_entries;
    }
    if (max_entries < 2) {
        return BERTH_OK;
    }
    uint32_t *keys = memory_array(max_entries, sizeof *keys);
    if (keys == NULL) {
        return error_no_memory(error, max_entries * sizeof *keys, path);
    }
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; i < pickle->count && status == BERTH_OK; i++) {
        if (pickle->values[i].kind == PICKLE_DICT && pickle->values[i].count > 2) {
            status = check_dict(pickle, &pickle->values[i], keys, path, error);
        }
    }
    memory_free(keys);
    return status;
}
