// SPDX-License-Identifier: Apache-2.0
// Copies the tensors of any file that Berth reads into a TensorFlow checkpoint, in the order of
// their names: tensorflow_copy FILE PREFIX. For dev/check_tensorflow.py.
#include "core/memory.h"
#include "format/containers/containers.h"
#include "format/tensorflow/tensorflow.h"

#include <stdio.h>
#include <string.h>

static enum berth_status copy_tensor(const struct tensor_file *file,
                                     const struct tensor_entry *entry,
                                     struct tensorflow_writer *writer, struct berth_error *error) {
    void *data = memory_new((size_t)(entry->end - entry->begin));
    if (data == NULL) {
        return error_no_memory(error, (size_t)(entry->end - entry->begin), entry->name);
    }
    struct tensor_out tensor = {
        .name = entry->name, .dtype = entry->dtype, .rank = entry->rank, .data = data};
    memcpy(tensor.shape, entry->shape, sizeof tensor.shape);
    enum berth_status status = tensor_file_read(file, entry, data, error);
    if (status == BERTH_OK) {
        status = tensorflow_writer_put(writer, &tensor, error);
    }
    memory_free(data);
    return status;
}

static enum berth_status copy(const char *from, const char *prefix, struct berth_error *error) {
    struct tensor_file file;
    struct tensorflow_writer writer;
    TRY(tensor_file_open(&file, from, error));
    enum berth_status status = tensorflow_writer_open(&writer, prefix, error);
    for (size_t i = 0; i < file.count && status == BERTH_OK; i++) {
        status = copy_tensor(&file, file.by_name[i], &writer, error);
    }
    if (status == BERTH_OK) {
        status = tensorflow_writer_commit(&writer, error);
    }
    tensorflow_writer_abort(&writer);
    tensor_file_close(&file);
    return status;
}

int main(int count, char **arguments) {
    struct berth_error error;
    if (count != 3) {
        fprintf(stderr, "usage: tensorflow_copy FILE PREFIX\n");
        return BERTH_USAGE;
    }
    if (copy(arguments[1], arguments[2], &error) != BERTH_OK) {
        fprintf(stderr, "%s\n", error.message);
        return (int)error.status;
    }
    return 0;
}
