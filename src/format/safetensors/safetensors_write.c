// SPDX-License-Identifier: Apache-2.0
// Writes safetensors, byte for byte as the reference implementation does. It sorts tensors by data
// type, in descending order of enum tensor_dtype, then by name; so each tensor is aligned to the
// size of its type. model/folder.c and train/checkpoint save through it.
#include "core/json_line.h"
#include "core/little_endian.h"
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
    json_line_integer(header, NULL, (int64_t)(begin + tensor_out_bytes(tensor)));
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
        begin += tensor_out_bytes(sorted[i]);
    }
    json_line_close(header, '}');
}

// The start of a file: the length of the header, the header, and spaces up to a multiple of 8.
struct head {
    const struct tensor_out **sorted; // the tensors in file order
    unsigned char *bytes;
    size_t length;
};

static void head_done(struct head *head) {
    memory_free(head->sorted);
    memory_free(head->bytes);
}

static enum berth_status build_head(struct head *head, const struct json_line *header,
                                    const char *path, struct berth_error *error) {
    if (header->failed) {
        return error_set(error, BERTH_NO_MEMORY, "out of memory for the header of %s", path);
    }
    if (header->length > HEADER_LIMIT) {
        return error_set(error, BERTH_CANT_CREATE,
                         "cannot create %s: its header would have %zu bytes; the limit is %zu",
                         path, header->length, HEADER_LIMIT);
    }
    const uint64_t length = (header->length + 7) / 8 * 8;
    head->length = sizeof length + (size_t)length;
    head->bytes = memory_new(head->length);
    if (head->bytes == NULL) {
        return error_no_memory(error, head->length, path);
    }
    little_endian_put(head->bytes, length, sizeof length);
    memset(head->bytes + sizeof length, ' ', (size_t)length);
    memcpy(head->bytes + sizeof length, header->text, header->length);
    return BERTH_OK;
}

// head_done frees, also after a failure.
static enum berth_status head_make(struct head *head, const char *path,
                                   const struct tensor_out *tensors, size_t count,
                                   const char *const *metadata, struct berth_error *error) {
    *head = (struct head){.sorted = memory_array(count, sizeof *head->sorted)};
    if (head->sorted == NULL) {
        return error_no_memory(error, count * sizeof *head->sorted, path);
    }
    for (size_t i = 0; i < count; i++) {
        head->sorted[i] = &tensors[i];
    }
    qsort(head->sorted, count, sizeof *head->sorted, compare_tensors);
    struct json_line header = {0};
    put_header(&header, head->sorted, count, metadata);
    enum berth_status status = build_head(head, &header, path, error);
    json_line_done(&header);
    return status;
}

static enum berth_status write_tensors(const char *path, const struct head *head, size_t count,
                                       struct berth_error *error) {
    struct file_writer writer;
    TRY(file_writer_open(&writer, path, error));
    (void)file_writer_put(&writer, head->bytes, head->length, error);
    for (size_t i = 0; i < count; i++) {
        const struct tensor_out *tensor = head->sorted[i];
        (void)file_writer_put(&writer, tensor->data, tensor_out_bytes(tensor), error);
    }
    return file_writer_commit(&writer, error);
}

enum berth_status safetensors_write(const char *path, const struct tensor_out *tensors,
                                    size_t count, const char *const *metadata,
                                    struct berth_error *error) {
    struct head head;
    enum berth_status status = head_make(&head, path, tensors, count, metadata, error);
    if (status == BERTH_OK) {
        status = write_tensors(path, &head, count, error);
    }
    head_done(&head);
    return status;
}

enum berth_status safetensors_make(const char *path, const struct tensor_out *tensors, size_t count,
                                   const char *const *metadata, struct berth_error *error) {
    struct head head;
    enum berth_status status = head_make(&head, path, tensors, count, metadata, error);
    if (status == BERTH_OK) {
        uint64_t size = head.length;
        for (size_t i = 0; i < count; i++) {
            size += tensor_out_bytes(&tensors[i]);
        }
        status = file_ranges_make(path, head.bytes, head.length, size, error);
    }
    head_done(&head);
    return status;
}
