// SPDX-License-Identifier: Apache-2.0
// Writes GGUF: "GGUF", version, number of tensors, number of key-values; the key-values; for each
// tensor its name, shape (fastest dimension first), type and offset in the data; padding; the data,
// each tensor padded to the alignment. Called by model/export_gguf.c at the end of a conversion.
#include "format/export/gguf_write.h"

#include "core/file.h"

#include <string.h>

#define GGUF_VERSION 3
#define GGUF_ARRAY 9
#define BATCH 4096 // numbers converted at a time

static const size_t type_sizes[] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};

static const struct {
    enum tensor_dtype dtype;
    uint32_t number;
} tensor_types[] = {{TENSOR_F32, 0},  {TENSOR_F16, 1},  {TENSOR_I8, 24},  {TENSOR_I16, 25},
                    {TENSOR_I32, 26}, {TENSOR_I64, 27}, {TENSOR_F64, 28}, {TENSOR_BF16, 30}};
#define NO_TYPE UINT32_MAX

// The file in progress. Puts after a failure do nothing; the commit reports the failure.
struct out {
    struct file_writer writer;
    struct berth_error *error;
    uint64_t position;
};

static void put(struct out *out, const void *bytes, size_t length) {
    (void)file_writer_put(&out->writer, bytes, length, out->error);
    out->position += length;
}

static void put_number(struct out *out, uint64_t number, size_t bytes) {
    put(out, &number, bytes); // little-endian, as memory is (tensor.c)
}

static void put_text(struct out *out, const char *text) {
    size_t length = strlen(text);
    put_number(out, length, 8);
    put(out, text, length);
}

static uint64_t align(uint64_t position) {
    return (position + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT;
}

static void pad(struct out *out) {
    static const char zeros[GGUF_ALIGNMENT];
    put(out, zeros, (size_t)(align(out->position) - out->position));
}

// --- key-values ---------------------------------------------------------------------------------

static void put_array(struct out *out, const struct gguf_value *value) {
    put_number(out, GGUF_ARRAY, 4);
    put_number(out, value->type, 4);
    put_number(out, value->count, 8);
    if (value->type != GGUF_TEXT) {
        put(out, value->elements, value->count * type_sizes[value->type]);
        return;
    }
    for (size_t i = 0; i < value->count; i++) {
        put_text(out, ((const char *const *)value->elements)[i]);
    }
}

static void put_single(struct out *out, const struct gguf_value *value) {
    put_number(out, value->type, 4);
    if (value->type == GGUF_TEXT) {
        put_text(out, value->text);
    } else if (value->type == GGUF_F64) {
        put(out, &value->real, sizeof value->real);
    } else if (value->type == GGUF_F32) {
        float real = (float)value->real;
        put(out, &real, sizeof real);
    } else {
        put_number(out, (uint64_t)value->integer, type_sizes[value->type]);
    }
}

// --- tensors ------------------------------------------------------------------------------------

static uint32_t type_number(enum tensor_dtype dtype) {
    for (size_t i = 0; i < sizeof tensor_types / sizeof *tensor_types; i++) {
        if (tensor_types[i].dtype == dtype) {
            return tensor_types[i].number;
        }
    }
    return NO_TYPE;
}

static int is_narrowing(const struct gguf_tensor *tensor) {
    return tensor->tensor.dtype == TENSOR_F32 &&
           (tensor->stored == TENSOR_F16 || tensor->stored == TENSOR_BF16);
}

static enum berth_status check_tensor(const char *path, const struct gguf_tensor *tensor,
                                      struct berth_error *error) {
    const struct tensor_out *out = &tensor->tensor;
    const char *problem = NULL;
    if (strlen(out->name) > GGUF_NAME_LIMIT) {
        problem = "its name is longer than the 63 bytes that GGUF allows";
    } else if (out->rank > GGUF_MAX_DIMENSIONS) {
        problem = "it has more than the 4 dimensions that GGUF allows";
    } else if (type_number(tensor->stored) == NO_TYPE) {
        problem = "GGUF has no such data type";
    } else if (out->dtype != tensor->stored && !is_narrowing(tensor)) {
        problem = "only F32 can be narrowed, to F16 or BF16";
    }
    return problem == NULL ? BERTH_OK
                           : error_set(error, BERTH_CANT_CREATE,
                                       "cannot create %s: tensor \"%s\" (%s as %s): %s", path,
                                       out->name, tensor_dtype_name(out->dtype),
                                       tensor_dtype_name(tensor->stored), problem);
}

static void put_data(struct out *out, const struct gguf_tensor *tensor) {
    if (tensor->stored != tensor->tensor.dtype) {
        const float *from = tensor->tensor.data;
        size_t left = tensor_out_elements(&tensor->tensor);
        uint16_t batch[BATCH];
        while (left > 0) {
            size_t count = left < BATCH ? left : BATCH;
            tensor_narrow(tensor->stored, from, count, batch);
            put(out, batch, count * sizeof *batch);
            from += count;
            left -= count;
        }
    } else {
        put(out, tensor->tensor.data,
            tensor_out_elements(&tensor->tensor) * tensor_dtype_size(tensor->stored));
    }
}

// --- the file -----------------------------------------------------------------------------------

static void put_header(struct out *out, const struct gguf_content *content) {
    put(out, "GGUF", 4);
    put_number(out, GGUF_VERSION, 4);
    put_number(out, content->tensor_count, 8);
    put_number(out, content->value_count, 8);
    for (size_t i = 0; i < content->value_count; i++) {
        const struct gguf_value *value = &content->values[i];
        put_text(out, value->key);
        if (value->elements != NULL) {
            put_array(out, value);
        } else {
            put_single(out, value);
        }
    }
}

static void put_tensors(struct out *out, const struct gguf_content *content) {
    uint64_t offset = 0;
    for (size_t i = 0; i < content->tensor_count; i++) {
        const struct gguf_tensor *tensor = &content->tensors[i];
        const struct tensor_out *shape = &tensor->tensor;
        put_text(out, shape->name);
        put_number(out, (uint64_t)shape->rank, 4);
        for (int k = shape->rank - 1; k >= 0; k--) {
            put_number(out, (uint64_t)shape->shape[k], 8);
        }
        put_number(out, type_number(tensor->stored), 4);
        put_number(out, offset, 8);
        offset = align(offset +
                       tensor_out_elements(&tensor->tensor) * tensor_dtype_size(tensor->stored));
    }
    pad(out);
    for (size_t i = 0; i < content->tensor_count; i++) {
        put_data(out, &content->tensors[i]);
        pad(out);
    }
}

enum berth_status gguf_write(const char *path, const struct gguf_content *content,
                             struct berth_error *error) {
    for (size_t i = 0; i < content->tensor_count; i++) {
        TRY(check_tensor(path, &content->tensors[i], error));
    }
    struct out out = {.error = error};
    TRY(file_writer_open(&out.writer, path, error));
    put_header(&out, content);
    put_tensors(&out, content);
    return file_writer_commit(&out.writer, error);
}
