// SPDX-License-Identifier: Apache-2.0
// Writing safetensors: the same bytes as the reference implementation writes. Its order of tensors
// is by data type, falling in the order of enum tensor_dtype, then by name; so each tensor is
// aligned to its type's size.
#include "core/json_line.h"
#include "core/memory.h"
#include "format/safetensors/safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_LIMIT ((size_t)16 << 20)

static int compare_tensors(const void *a, const void *b) {
    const struct tensor_out *left = *(const struct tensor_out *const *)a;
    const struct tensor_out *right = *(const struct tensor_out *const *)b;
    if (left->dtype != right->dtype) {
        return left->dtype > right->dtype ? -1 : 1;
    }
    return strcmp(left->name, right->name);
}

static size_t tensor_bytes(const struct tensor_out *tensor) {
    size_t bytes = tensor_dtype_size(tensor->dtype);
    for (int i = 0; i < tensor->rank; i++) {
        bytes *= (size_t)tensor->shape[i];
    }
    return bytes;
}

static void put_tensor(struct json_line *header, const struct tensor_out *tensor, size_t begin) {
    json_line_open(header, tensor->name, '{');
    json_line_text(header, "dtype", tensor_dtype_name(tensor->dtype));
    json_line_open(header, "shape", '[');
    for (int i = 0; i < tensor->rank; i++) {
        json_line_integer(header, NULL, tensor->shape[i]);
    }
    json_line_close(header, ']');
    json_line_open(header, "data_offsets", '[');
    json_line_integer(header, NULL, (int64_t)begin);
    json_line_integer(header, NULL, (int64_t)(begin + tensor_bytes(tensor)));
    json_line_close(header, ']');
    json_line_close(header, '}');
}

// The header without its padding.
static void put_header(struct json_line *header, const struct tensor_out *const *sorted,
                       size_t count, const char *const *metadata) {
    size_t begin = 0;
    json_line_open(header, NULL, '{');
    if (metadata != NULL) {
        json_line_open(header, "__metadata__", '{');
        for (; metadata[0] != NULL; metadata += 2) {
            json_line_text(header, metadata[0], metadata[1]);
        }
        json_line_close(header, '}');
    }
    for (size_t i = 0; i < count; i++) {
        put_tensor(header, sorted[i], begin);
        begin += tensor_bytes(sorted[i]);
    }
    json_line_close(header, '}');
}

static enum berth_status write_parts(const char *path, const struct json_line *header,
                                     const struct tensor_out *const *sorted, size_t count,
                                     struct berth_error *error) {
    uint64_t length = (header->length + 7) / 8 * 8;
    unsigned char length_bytes[8];
    for (size_t i = 0; i < sizeof length_bytes; i++) {
        length_bytes[i] = (unsigned char)(length >> (8 * i));
    }
    struct file_writer writer;
    TRY(file_writer_open(&writer, path, error));
    (void)file_writer_put(&writer, length_bytes, sizeof length_bytes, error);
    (void)file_writer_put(&writer, header->text, header->length, error);
    (void)file_writer_put(&writer, "       ", (size_t)length - header->length, error);
    for (size_t i = 0; i < count; i++) {
        (void)file_writer_put(&writer, sorted[i]->data, tensor_bytes(sorted[i]), error);
    }
    return file_writer_commit(&writer, error);
}

enum berth_status safetensors_write(const char *path, const struct tensor_out *tensors,
                                    size_t count, const char *const *metadata,
                                    struct berth_error *error) {
    const struct tensor_out **sorted = memory_array(count, sizeof *sorted);
    if (sorted == NULL) {
        return error_no_memory(error, count * sizeof *sorted, path);
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &tensors[i];
    }
    qsort(sorted, count, sizeof *sorted, compare_tensors);
    struct json_line header = {0};
    put_header(&header, sorted, count, metadata);
    enum berth_status status;
    if (header.failed) {
        status = error_set(error, BERTH_NO_MEMORY, "out of memory for the header of %s", path);
    } else if (header.length > HEADER_LIMIT) {
        status = error_set(error, BERTH_CANT_CREATE,
                           "cannot create %s: its header would have %zu bytes, the limit is %zu",
                           path, header.length, HEADER_LIMIT);
    } else {
        status = write_parts(path, &header, sorted, count, error);
    }
    json_line_done(&header);
    memory_free(sorted);
    return status;
}
