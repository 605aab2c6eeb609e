// SPDX-License-Identifier: Apache-2.0
// Writes TensorFlow's checkpoints: one data file without gaps, in the order of the names. For the
// same tensors the files are byte for byte TensorFlow's. The conversion to TensorFlow calls it
// (api/convert_checkpoints.c).
#include "core/file.h"
#include "core/memory.h"
#include "format/checksum/crc32c.h"
#include "format/protobuf/protobuf.h"
#include "format/tensorflow/sorted_table.h"
#include "format/tensorflow/tensorflow.h"

#include <stdlib.h>
#include <string.h>

#define DATA_ENDING ".data-00000-of-00001"

// A bundle in progress.
struct bundle {
    const char *prefix;
    struct file_writer data;
    uint64_t data_bytes;
    struct sorted_table_writer index;
    struct buffer message; // of the index, one at a time
};

// --- the index ----------------------------------------------------------------------------------

// BundleEntryProto of the tensor whose data comes next; zeros are not written, as in proto3.
static void put_entry(struct bundle *bundle, const struct tensor_out *tensor) {
    struct buffer *message = &bundle->message;
    const size_t bytes = tensor_out_bytes(tensor);
    buffer_clear(message);
    protobuf_put_varint(message, 1, tensorflow_dtype_number(tensor->dtype));
    size_t shape = protobuf_begin(message, 2);
    for (int i = 0; i < tensor->rank; i++) {
        size_t dimension = protobuf_begin(message, 2);
        if (tensor->shape[i] != 0) {
            protobuf_put_varint(message, 1, (uint64_t)tensor->shape[i]);
        }
        protobuf_end(message, dimension);
    }
    protobuf_end(message, shape);
    if (bundle->data_bytes != 0) {
        protobuf_put_varint(message, 4, bundle->data_bytes);
    }
    if (bytes != 0) {
        protobuf_put_varint(message, 5, bytes);
    }
    protobuf_put_fixed32(message, 6, crc32c_mask(crc32c(0, tensor->data, bytes)));
    sorted_table_put(&bundle->index, tensor->name, message->bytes, message->length);
}

// --- the tensors --------------------------------------------------------------------------------

static enum berth_status put_tensors(struct bundle *bundle, const struct tensor_out *const *sorted,
                                     size_t count, struct berth_error *error) {
    // BundleHeaderProto: one data file, little-endian (0, which is not written), version 1.
    struct buffer *message = &bundle->message;
    protobuf_put_varint(message, 1, 1);
    size_t version = protobuf_begin(message, 3);
    protobuf_put_varint(message, 1, 1);
    protobuf_end(message, version);
    sorted_table_put(&bundle->index, "", message->bytes, message->length);
    for (size_t i = 0; i < count; i++) {
        const size_t bytes = tensor_out_bytes(sorted[i]);
        size_t length = strlen(sorted[i]->name);
        if (length == 0 || length > SORTED_TABLE_KEY_LIMIT) {
            return error_set(
                error, BERTH_CANT_CREATE,
                "cannot write %s: the name of a tensor has %zu bytes; expected 1 to %d",
                bundle->prefix, length, SORTED_TABLE_KEY_LIMIT);
        }
        if (tensorflow_dtype_number(sorted[i]->dtype) == 0) {
            return error_set(error, BERTH_CANT_CREATE,
                             "cannot write %s: tensor \"%s\" has type %s, which TensorFlow lacks",
                             bundle->prefix, sorted[i]->name, tensor_dtype_name(sorted[i]->dtype));
        }
        if (i > 0 && strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
            return error_set(error, BERTH_INTERNAL, "cannot write %s: duplicate tensor \"%s\"",
                             bundle->prefix, sorted[i]->name);
        }
        put_entry(bundle, sorted[i]);
        TRY(file_writer_put(&bundle->data, sorted[i]->data, bytes, error));
        bundle->data_bytes += bytes;
    }
    sorted_table_finish(&bundle->index);
    return bundle->message.failed || bundle->index.bytes.failed
               ? error_no_memory(error, bundle->index.bytes.length, "an index")
               : BERTH_OK;
}

// --- the file `checkpoint` ----------------------------------------------------------------------

// --- the bundle ---------------------------------------------------------------------------------

static enum berth_status commit(struct bundle *bundle, struct berth_error *error) {
    const struct path path = path_format("%s.index", bundle->prefix);
    TRY(file_remove(path.text, error));
    TRY(file_writer_commit(&bundle->data, error));
    TRY(file_write(path.text, bundle->index.bytes.bytes, bundle->index.bytes.length, error));
    static const char *const keys[] = {"model_checkpoint_path: ", "all_model_checkpoint_paths: "};
    struct file_writer file;
    TRY(file_writer_open_in(&file, path_parent(bundle->prefix).text, "checkpoint", error));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        (void)file_writer_put(&file, keys[i], strlen(keys[i]), error);
        // Writes a quoted string of protocol buffers' text format.
        const char *text = path_name(bundle->prefix);
        (void)file_writer_put(&file, "\"", 1, error);
        for (; *text != '\0'; text++) {
            if (*text == '"' || *text == '\\') {
                (void)file_writer_put(&file, "\\", 1, error);
            }
            (void)file_writer_put(&file, text, 1, error);
        }
        (void)file_writer_put(&file, "\"\n", 2, error);
    }
    return file_writer_commit(&file, error);
}

static int compare_tensors(const void *a, const void *b) {
    const struct tensor_out *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

enum berth_status tensorflow_write(const char *prefix, const struct tensor_out *tensors,
                                   size_t count, struct berth_error *error) {
    const struct tensor_out **sorted = memory_array(count, sizeof *sorted);
    if (sorted == NULL) {
        return error_no_memory(error, count * sizeof *sorted, prefix);
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &tensors[i];
    }
    qsort(sorted, count, sizeof *sorted, compare_tensors);
    struct bundle bundle = {.prefix = prefix, .data = {.descriptor = -1}};
    enum berth_status status;
    TRY_DONE(
        file_writer_open(&bundle.data, path_format("%s" DATA_ENDING, bundle.prefix).text, error));
    TRY_DONE(put_tensors(&bundle, sorted, count, error));
    TRY_DONE(commit(&bundle, error));
done:
    file_writer_abort(&bundle.data);
    sorted_table_writer_done(&bundle.index);
    buffer_done(&bundle.message);
    memory_free(sorted);
    return status;
}
