// SPDX-License-Identifier: Apache-2.0
// Copies the tensors of any file that Berth reads into a TensorFlow checkpoint:
// tensorflow_copy FILE PREFIX. For dev/others.
#include "core/memory.h"
#include "format/containers/containers.h"
#include "format/tensorflow/tensorflow.h"

#include <stdio.h>
#include <string.h>

static enum berth_status read_tensor(const struct tensor_file *file,
                                     const struct tensor_entry *entry, struct tensor_out *tensor,
                                     struct berth_error *error) {
    void *data = memory_new((size_t)(entry->end - entry->begin));
    *tensor = (struct tensor_out){
        .name = entry->name, .dtype = entry->dtype, .rank = entry->rank, .data = data};
    memcpy(tensor->shape, entry->shape, sizeof tensor->shape);
    return data != NULL ? tensor_file_read(file, entry, data, error)
                        : error_no_memory(error, (size_t)(entry->end - entry->begin), entry->name);
}

static enum berth_status copy(const char *from, const char *prefix, struct berth_error *error) {
    struct tensor_file file;
    TRY(tensor_file_open(&file, from, error));
    struct tensor_out *tensors = memory_array_zeroed(file.count, sizeof *tensors);
    enum berth_status status =
        tensors != NULL ? BERTH_OK : error_no_memory(error, file.count * sizeof *tensors, from);
    for (size_t i = 0; i < file.count && status == BERTH_OK; i++) {
        status = read_tensor(&file, &file.entries[i], &tensors[i], error);
    }
    if (status == BERTH_OK) {
        status = tensorflow_write(prefix, tensors, file.count, error);
    }
    for (size_t i = 0; tensors != NULL && i < file.count; i++) {
        memory_free((void *)tensors[i].data);
    }
    memory_free(tensors);
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
