// SPDX-License-Identifier: Apache-2.0
// Writes checkpoints: builds the pickle in memory (it holds names and shapes only), then writes it
// and the tensors to a zip archive in torch's order. The pickle has plain dictionaries, lists and
// numbers, and for tensors the calls that torch itself writes, so that its restricted loader
// accepts the file. Conversions and train/checkpoint give it the tree to write.
#include "core/memory.h"
#include "format/torch/torch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BATCH 1000 // entries per mark, as in Python's pickler
#define ROOT_SIZE 256

// torch's class for a storage of each data type; NULL: none.
static const char *const storage_classes[TENSOR_OTHER] = {
    [TENSOR_BOOL] = "BoolStorage", [TENSOR_U8] = "ByteStorage",   [TENSOR_I8] = "CharStorage",
    [TENSOR_I16] = "ShortStorage", [TENSOR_F16] = "HalfStorage",  [TENSOR_BF16] = "BFloat16Storage",
    [TENSOR_I32] = "IntStorage",   [TENSOR_F32] = "FloatStorage", [TENSOR_F64] = "DoubleStorage",
    [TENSOR_I64] = "LongStorage"};

struct output {
    const char *path;
    struct buffer pickle;
    size_t tensors; // number so far: the key of the next storage
    struct berth_error *error;
};

// --- the pickle ---------------------------------------------------------------------------------

static void put_code(struct output *out, char code) {
    buffer_put(&out->pickle, &code, 1);
}

static void put_text(struct output *out, const char *text) {
    size_t length = strlen(text);
    put_code(out, 'X'); // BINUNICODE
    buffer_put_number(&out->pickle, length, 4);
    buffer_put(&out->pickle, text, length);
}

// BININT if it fits, else LONG1.
static void put_integer(struct output *out, int64_t value) {
    int small = value >= INT32_MIN && value <= INT32_MAX;
    put_code(out, small ? 'J' : '\x8a');
    if (!small) {
        put_code(out, 8);
    }
    buffer_put_number(&out->pickle, (uint64_t)value, small ? 4 : 8);
}

static void put_truth(struct output *out, int value) {
    put_code(out, value ? '\x88' : '\x89'); // NEWTRUE, NEWFALSE
}

static void put_tuple(struct output *out, const int64_t *numbers, size_t count) {
    put_code(out, '('); // MARK
    for (size_t i = 0; i < count; i++) {
        put_integer(out, numbers[i]);
    }
    put_code(out, 't'); // TUPLE
}

// GLOBAL: module and name, each on a line.
static void put_name(struct output *out, const char *module, const char *name) {
    put_code(out, 'c');
    buffer_put_text(&out->pickle, module);
    buffer_put_text(&out->pickle, "\n");
    buffer_put_text(&out->pickle, name);
    buffer_put_text(&out->pickle, "\n");
}

static void put_ordered_dict(struct output *out) {
    put_name(out, "collections", "OrderedDict");
    buffer_put_text(&out->pickle, ")R"); // EMPTY_TUPLE, REDUCE
}

// The index of the first tensor with the same data as list[index]: they share a storage, as tied
// weights do in torch.
static size_t find_shared_storage(const struct tensor_out *list, size_t index) {
    const struct tensor_out *tensor = &list[index];
    const size_t elements = tensor_out_elements(tensor);
    for (size_t i = 0; i < index && elements > 0; i++) {
        if (list[i].data == tensor->data && list[i].dtype == tensor->dtype &&
            tensor_out_elements(&list[i]) == elements) {
            return i;
        }
    }
    return index;
}

// `number` is the key of its storage.
static enum berth_status put_tensor(struct output *out, const struct tensor_out *tensor,
                                    size_t number) {
    int64_t stride[TENSOR_MAX_RANK], step = 1;
    if (tensor->dtype >= TENSOR_OTHER || storage_classes[tensor->dtype] == NULL) {
        return error_set(out->error, BERTH_CANT_CREATE,
                         "cannot create %s: tensor \"%s\": torch has no storage for %s", out->path,
                         tensor->name, tensor_dtype_name(tensor->dtype));
    }
    for (int i = tensor->rank; i-- > 0; step *= tensor->shape[i] > 0 ? tensor->shape[i] : 1) {
        stride[i] = step;
    }
    put_name(out, "torch._utils", "_rebuild_tensor_v2");
    put_code(out, '(');
    // ("storage", class, key, "cpu", elements), BINPERSID.
    const int64_t elements = (int64_t)tensor_out_elements(tensor);
    char key[32];
    snprintf(key, sizeof key, "%zu", number);
    put_code(out, '(');
    put_text(out, "storage");
    put_name(out, "torch", storage_classes[tensor->dtype]);
    put_text(out, key);
    put_text(out, "cpu");
    put_integer(out, elements);
    buffer_put_text(&out->pickle, "tQ");
    put_integer(out, 0);
    put_tuple(out, tensor->shape, (size_t)tensor->rank);
    put_tuple(out, stride, (size_t)tensor->rank);
    put_truth(out, 0); // requires_grad
    put_ordered_dict(out);
    buffer_put_text(&out->pickle, "tR"); // TUPLE, REDUCE
    return BERTH_OK;
}

// --- the tree -----------------------------------------------------------------------------------

// Called before and after entry `index` of `count` of a dictionary or list: `fill` is the opcode
// that adds a batch of entries.
static void begin_entry(struct output *out, size_t index) {
    if (index % BATCH == 0) {
        put_code(out, '(');
    }
}

static void end_entry(struct output *out, size_t index, size_t count, char fill) {
    if (index + 1 == count || index % BATCH == BATCH - 1) {
        put_code(out, fill);
    }
}

static enum berth_status put_tensors(struct output *out, const struct torch_node *node) {
    size_t first = out->tensors;
    out->tensors += node->count;
    put_ordered_dict(out);
    for (size_t i = 0; i < node->count; i++) {
        begin_entry(out, i);
        put_text(out, node->tensors[i].name);
        TRY(put_tensor(out, &node->tensors[i], first + find_shared_storage(node->tensors, i)));
        end_entry(out, i, node->count, 'u'); // SETITEMS
    }
    return BERTH_OK;
}

static enum berth_status put_node(struct output *out, const struct torch_node *node,
                                  unsigned depth);

static enum berth_status put_children(struct output *out, const struct torch_node *node,
                                      unsigned depth) {
    int is_dict = node->kind == TORCH_DICT;
    put_code(out, is_dict ? '}' : ']'); // EMPTY_DICT, EMPTY_LIST
    for (size_t i = 0; i < node->count; i++) {
        begin_entry(out, i);
        const struct torch_node *child = &node->children[i];
        if (child->kind != TORCH_ABSENT) {
            if (node->kind == TORCH_DICT && child->key != NULL) {
                put_text(out, child->key);
            } else if (node->kind == TORCH_DICT) {
                put_integer(out, (int64_t)i);
            }
            TRY(put_node(out, child, depth + 1));
        }
        end_entry(out, i, node->count, is_dict ? 'u' : 'e'); // SETITEMS, APPENDS
    }
    return BERTH_OK;
}

static enum berth_status put_node(struct output *out, const struct torch_node *node,
                                  unsigned depth) {
    if (depth > TORCH_MAX_DEPTH) {
        return error_set(out->error, BERTH_CANT_CREATE,
                         "cannot create %s: dictionaries and lists nested deeper than %u",
                         out->path, TORCH_MAX_DEPTH);
    }
    if (node->kind == TORCH_TENSORS) {
        return put_tensors(out, node);
    }
    if (node->kind == TORCH_TENSOR) {
        return put_tensor(out, node->tensors, out->tensors++);
    }
    if (node->kind == TORCH_DICT || node->kind == TORCH_LIST) {
        return put_children(out, node, depth);
    }
    if (node->kind == TORCH_NONE) {
        put_code(out, 'N');
    } else if (node->kind == TORCH_TRUTH) {
        put_truth(out, node->integer != 0);
    } else if (node->kind == TORCH_INTEGER) {
        put_integer(out, node->integer);
    } else if (node->kind == TORCH_REAL) {
        double value = node->real;
        uint64_t bits;
        memcpy(&bits, &value, sizeof bits);
        put_code(out, 'G');                                          // BINFLOAT
        buffer_put_number(&out->pickle, __builtin_bswap64(bits), 8); // big-endian
    } else if (node->kind == TORCH_TEXT) {
        put_text(out, node->text);
    } else {
        put_name(out, "torch", "Size");
        put_tuple(out, node->shape, node->count);
        buffer_put_text(&out->pickle, "\x85R"); // TUPLE1, REDUCE
    }
    return BERTH_OK;
}

// --- the archive --------------------------------------------------------------------------------

// An archive in progress; `root` is its folder with a slash.
struct archive {
    struct zip_writer zip;
    char root[ROOT_SIZE];
    size_t tensors;
    struct berth_error *error;
};

static enum berth_status add(struct archive *archive, const char *name, const void *data,
                             uint64_t size) {
    char path[ROOT_SIZE + 32];
    snprintf(path, sizeof path, "%s%s", archive->root, name);
    return zip_writer_add(&archive->zip, path, data, size, archive->error);
}

static enum berth_status add_loaded(struct archive *archive, const char *name,
                                    const struct torch_node *node, const struct tensor_out *tensor,
                                    size_t bytes) {
    void *block = memory_pages(bytes);
    if (block == NULL) {
        return error_no_memory(archive->error, bytes, tensor->name);
    }
    enum berth_status status = node->load(node, tensor, block, bytes, archive->error);
    if (status == BERTH_OK) {
        status = add(archive, name, block, bytes);
    }
    memory_pages_free(block, bytes);
    return status;
}

static enum berth_status add_data(struct archive *archive, const struct torch_node *node) {
    size_t tensors = node->kind == TORCH_TENSORS ? node->count : node->kind == TORCH_TENSOR ? 1 : 0;
    size_t children = node->kind == TORCH_DICT || node->kind == TORCH_LIST ? node->count : 0;
    for (size_t i = 0; i < tensors; i++) {
        size_t number = archive->tensors++;
        if (find_shared_storage(node->tensors, i) == i) {
            const struct tensor_out *tensor = &node->tensors[i];
            const size_t bytes = tensor_out_bytes(tensor);
            char name[32];
            snprintf(name, sizeof name, "data/%zu", number);
            TRY(node->load != NULL ? add_loaded(archive, name, node, tensor, bytes)
                                   : add(archive, name, tensor->data, bytes));
        }
    }
    for (size_t i = 0; i < children; i++) {
        TRY(add_data(archive, &node->children[i]));
    }
    return BERTH_OK;
}

// The folder's name as in torch: the name of the file without its ending.
static void name_root(const char *path, char *root) {
    const char *name = path_name(path);
    const char *dot = strrchr(name, '.');
    size_t length = dot != NULL ? (size_t)(dot - name) : strlen(name);
    int plain = length > 0 && length < ROOT_SIZE - 1;
    for (size_t i = 0; i < length && plain; i++) {
        plain = name[i] > 0x20 && name[i] < 0x7F && name[i] != '\\';
    }
    plain = plain && strspn(name, ".") < length;
    snprintf(root, ROOT_SIZE, "%.*s/", plain ? (int)length : 7, plain ? name : "archive");
}

static enum berth_status add_all(struct archive *archive, const struct buffer *pickle,
                                 const struct torch_node *root) {
    TRY(add(archive, "data.pkl", pickle->bytes, pickle->length));
    TRY(add(archive, "byteorder", "little", 6));
    TRY(add_data(archive, root));
    TRY(add(archive, "version", "3\n", 2));
    return zip_writer_commit(&archive->zip, archive->error);
}

enum berth_status torch_write(const char *path, const struct torch_node *root,
                              struct berth_error *error) {
    struct output out = {.path = path, .error = error};
    struct archive archive = {.error = error};
    buffer_put(&out.pickle, "\x80\x02", 2); // PROTO
    enum berth_status status = put_node(&out, root, 0);
    put_code(&out, '.'); // STOP
    if (status == BERTH_OK && out.pickle.failed) {
        status = error_no_memory(error, out.pickle.length, path);
    }
    if (status == BERTH_OK) {
        name_root(path, archive.root);
        status = zip_writer_open(&archive.zip, path, error);
    }
    if (status == BERTH_OK) {
        status = add_all(&archive, &out.pickle, root);
        zip_writer_abort(&archive.zip);
    }
    buffer_done(&out.pickle);
    return status;
}
