// SPDX-License-Identifier: Apache-2.0
// Writes TensorFlow's checkpoints: one data file without gaps. For the same tensors the index is
// byte for byte TensorFlow's.
#include "core/memory.h"
#include "format/checksum/crc32c.h"
#include "format/protobuf/protobuf.h"
#include "format/tensorflow/sorted_table.h"
#include "format/tensorflow/tensorflow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA_ENDING ".data-00000-of-00001"

struct tensorflow_index_entry {
    char *name;
    enum tensor_dtype dtype;
    int rank;
    int64_t shape[TENSOR_MAX_RANK];
    uint64_t offset, size;
    uint32_t checksum;
};

// --- paths --------------------------------------------------------------------------------------

static char *join(const char *prefix, const char *ending, struct berth_error *error) {
    size_t size = strlen(prefix) + strlen(ending) + 1;
    char *path = memory_new(size);
    if (path == NULL) {
        (void)path_no_memory(error);
        return NULL;
    }
    snprintf(path, size, "%s%s", prefix, ending);
    return path;
}

// --- the tensors --------------------------------------------------------------------------------

enum berth_status tensorflow_writer_open(struct tensorflow_writer *writer, const char *prefix,
                                         struct berth_error *error) {
    *writer = (struct tensorflow_writer){.data = {.descriptor = -1}};
    char *path = join(prefix, DATA_ENDING, error);
    writer->prefix = memory_string(prefix);
    if (path == NULL || writer->prefix == NULL) {
        memory_free(path);
        tensorflow_writer_abort(writer);
        return path_no_memory(error);
    }
    enum berth_status status = file_writer_open(&writer->data, path, error);
    memory_free(path);
    if (status != BERTH_OK) {
        tensorflow_writer_abort(writer);
    }
    return status;
}

static enum berth_status make_room(struct tensorflow_writer *writer, struct berth_error *error) {
    size_t needed = writer->count + 1;
    struct tensorflow_index_entry *grown =
        memory_grow(writer->tensors, &writer->capacity, needed, sizeof *grown);
    if (grown == NULL) {
        return error_no_memory(error, needed * sizeof *grown, writer->prefix);
    }
    writer->tensors = grown;
    return BERTH_OK;
}

static enum berth_status check_tensor(const struct tensorflow_writer *writer,
                                      const struct tensor_out *tensor, struct berth_error *error) {
    size_t length = strlen(tensor->name);
    if (length == 0 || length > SORTED_TABLE_KEY_LIMIT) {
        return error_set(error, BERTH_CANT_CREATE,
                         "cannot write %s: the name of a tensor has %zu bytes; expected 1 to %d",
                         writer->prefix, length, SORTED_TABLE_KEY_LIMIT);
    }
    return tensorflow_dtype_number(tensor->dtype) != 0
               ? BERTH_OK
               : error_set(error, BERTH_CANT_CREATE,
                           "cannot write %s: tensor \"%s\" has type %s, which TensorFlow lacks",
                           writer->prefix, tensor->name, tensor_dtype_name(tensor->dtype));
}

enum berth_status tensorflow_writer_put(struct tensorflow_writer *writer,
                                        const struct tensor_out *tensor,
                                        struct berth_error *error) {
    TRY(check_tensor(writer, tensor, error));
    TRY(make_room(writer, error));
    size_t bytes = tensor_out_bytes(tensor);
    struct tensorflow_index_entry *entry = &writer->tensors[writer->count];
    *entry = (struct tensorflow_index_entry){.name = memory_string(tensor->name),
                                             .dtype = tensor->dtype,
                                             .rank = tensor->rank,
                                             .offset = writer->data_bytes,
                                             .size = bytes,
                                             .checksum = crc32c(0, tensor->data, bytes)};
    if (entry->name == NULL) {
        return error_no_memory(error, strlen(tensor->name), "a name");
    }
    memcpy(entry->shape, tensor->shape, sizeof entry->shape);
    writer->count++;
    writer->data_bytes += bytes;
    return file_writer_put(&writer->data, tensor->data, bytes, error);
}

// --- the index ----------------------------------------------------------------------------------

static int compare_names(const void *a, const void *b) {
    const struct tensorflow_index_entry *left = a, *right = b;
    return strcmp(left->name, right->name);
}

// BundleHeaderProto: one data file, little-endian (0, which is not written), version 1.
static void put_header(struct sorted_table_writer *table, struct buffer *message) {
    buffer_clear(message);
    protobuf_put_varint(message, 1, 1);
    size_t version = protobuf_begin(message, 3);
    protobuf_put_varint(message, 1, 1);
    protobuf_end(message, version);
    sorted_table_put(table, "", message->bytes, message->length);
}

// BundleEntryProto; zeros are not written, as in proto3.
static void put_entry(struct sorted_table_writer *table, struct buffer *message,
                      const struct tensorflow_index_entry *tensor) {
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
    if (tensor->offset != 0) {
        protobuf_put_varint(message, 4, tensor->offset);
    }
    if (tensor->size != 0) {
        protobuf_put_varint(message, 5, tensor->size);
    }
    protobuf_put_fixed32(message, 6, crc32c_mask(tensor->checksum));
    sorted_table_put(table, tensor->name, message->bytes, message->length);
}

static enum berth_status make_index(struct tensorflow_writer *writer,
                                    struct sorted_table_writer *table, struct berth_error *error) {
    struct buffer message = {0};
    if (writer->count > 0) {
        qsort(writer->tensors, writer->count, sizeof *writer->tensors, compare_names);
    }
    put_header(table, &message);
    for (size_t i = 0; i < writer->count; i++) {
        put_entry(table, &message, &writer->tensors[i]);
        if (i > 0 && strcmp(writer->tensors[i - 1].name, writer->tensors[i].name) == 0) {
            buffer_done(&message);
            return error_set(error, BERTH_INTERNAL, "cannot write %s: duplicate tensor \"%s\"",
                             writer->prefix, writer->tensors[i].name);
        }
    }
    const int failed = message.failed;
    buffer_done(&message);
    sorted_table_finish(table);
    return failed || table->bytes.failed ? error_no_memory(error, table->bytes.length, "an index")
                                         : BERTH_OK;
}

// --- the file `checkpoint` ----------------------------------------------------------------------

// Writes a quoted string of protocol buffers' text format.
static void put_quoted(struct file_writer *file, const char *text, struct berth_error *error) {
    (void)file_writer_put(file, "\"", 1, error);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            (void)file_writer_put(file, "\\", 1, error);
        }
        (void)file_writer_put(file, text, 1, error);
    }
    (void)file_writer_put(file, "\"\n", 2, error);
}

static enum berth_status write_state(const char *prefix, struct berth_error *error) {
    static const char *const keys[] = {"model_checkpoint_path: ", "all_model_checkpoint_paths: "};
    char *folder = file_parent(prefix);
    char *path = folder != NULL ? path_join(folder, "checkpoint") : NULL;
    memory_free(folder);
    if (path == NULL) {
        return path_no_memory(error);
    }
    struct file_writer file;
    enum berth_status status = file_writer_open(&file, path, error);
    memory_free(path);
    TRY(status);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        (void)file_writer_put(&file, keys[i], strlen(keys[i]), error);
        put_quoted(&file, path_name(prefix), error);
    }
    return file_writer_commit(&file, error);
}

// --- committing ---------------------------------------------------------------------------------

static enum berth_status commit(struct tensorflow_writer *writer,
                                const struct sorted_table_writer *table,
                                struct berth_error *error) {
    char *path = join(writer->prefix, ".index", error);
    if (path == NULL) {
        return BERTH_NO_MEMORY;
    }
    enum berth_status status;
    TRY_DONE(file_remove(path, error));
    TRY_DONE(file_writer_commit(&writer->data, error));
    TRY_DONE(file_write(path, table->bytes.bytes, table->bytes.length, error));
    TRY_DONE(write_state(writer->prefix, error));
done:
    memory_free(path);
    return status;
}

enum berth_status tensorflow_writer_commit(struct tensorflow_writer *writer,
                                           struct berth_error *error) {
    struct sorted_table_writer table = {0};
    enum berth_status status = make_index(writer, &table, error);
    if (status == BERTH_OK) {
        status = commit(writer, &table, error);
    }
    sorted_table_writer_done(&table);
    tensorflow_writer_abort(writer); // frees the writer; what is committed stays
    return status;
}

void tensorflow_writer_abort(struct tensorflow_writer *writer) {
    file_writer_abort(&writer->data);
    for (size_t i = 0; i < writer->count; i++) {
        memory_free(writer->tensors[i].name);
    }
    memory_free(writer->tensors);
    memory_free(writer->prefix);
    *writer = (struct tensorflow_writer){.data = {.descriptor = -1}};
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
    struct tensorflow_writer writer;
    enum berth_status status = tensorflow_writer_open(&writer, prefix, error);
    for (size_t i = 0; i < count && status == BERTH_OK; i++) {
        status = tensorflow_writer_put(&writer, sorted[i], error);
    }
    memory_free(sorted);
    if (status == BERTH_OK) {
        return tensorflow_writer_commit(&writer, error);
    }
    tensorflow_writer_abort(&writer);
    return status;
}
