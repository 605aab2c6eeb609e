// SPDX-License-Identifier: Apache-2.0
// What all weight formats do alike: recognise a file, find a tensor by its name, check a range,
// read a piece and convert it in place. model/weights.c and the conversions read any file through
// here; where the bytes of a tensor are is the format's own function (struct tensor_format).
#include "format/tensors/tensor_file.h"

#include "core/file.h"
#include "core/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// --- opening ------------------------------------------------------------------------------------

enum berth_status tensor_file_head(const char *path, unsigned char head[TENSOR_HEAD_BYTES],
                                   size_t *length, struct berth_error *error) {
    struct file_reader reader;
    TRY(file_reader_open(&reader, path, error));
    *length = reader.size < TENSOR_HEAD_BYTES ? (size_t)reader.size : TENSOR_HEAD_BYTES;
    const enum berth_status status = file_reader_at(&reader, 0, head, *length, error);
    file_reader_close(&reader);
    return status;
}

static enum berth_status recognise(struct tensor_file *file, struct berth_error *error) {
    const struct tensor_formats *formats = file->formats;
    unsigned char head[TENSOR_HEAD_BYTES];
    size_t length;
    TRY(tensor_file_head(file->path, head, &length, error));
    for (size_t i = 0; i < formats->count; i++) {
        if (formats->rows[i]->recognise(file->path, head, length)) {
            file->format = formats->rows[i];
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_BAD_DATA, "%s: unknown format of weights (known: %s)", file->path,
                     formats->names);
}

static int compare_names(const void *a, const void *b) {
    const struct tensor_entry *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

enum berth_status tensor_index_new(const struct tensor_entry *entries, size_t count,
                                   const char *path, const struct tensor_entry ***by_name,
                                   struct berth_error *error) {
    const struct tensor_entry **index = memory_array(count, sizeof *index);
    if (index == NULL) {
        return error_no_memory(error, count * sizeof *index, path);
    }
    *by_name = index;
    for (size_t i = 0; i < count; i++) {
        index[i] = &entries[i];
    }
    qsort(index, count, sizeof *index, compare_names);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(index[i - 1]->name, index[i]->name) == 0) {
            return error_set(error, BERTH_BAD_DATA, "%s: duplicate tensor \"%s\"", path,
                             index[i]->name);
        }
    }
    return BERTH_OK;
}

enum berth_status tensor_file_open_as(struct tensor_file *file, const char *path,
                                      const struct tensor_formats *formats,
                                      struct berth_error *error) {
    enum berth_status status;
    *file = (struct tensor_file){.path = memory_string(path), .formats = formats};
    if (file->path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    TRY_DONE(recognise(file, error));
    file->container = memory_array_zeroed(1, file->format->container_size);
    if (file->container == NULL) {
        status = error_no_memory(error, file->format->container_size, path);
        goto done;
    }
    TRY_DONE(file->format->open(file, error));
    TRY_DONE(tensor_index_new(file->entries, file->count, file->path, &file->by_name, error));
done:
    if (status != BERTH_OK) {
        tensor_file_close(file);
    }
    return status;
}

void tensor_file_close(struct tensor_file *file) {
    if (file->container != NULL) {
        file->format->close(file->container);
        memory_free(file->container);
    }
    memory_free(file->by_name);
    memory_free(file->path);
    *file = (struct tensor_file){0};
}

// --- looking things up --------------------------------------------------------------------------

static int compare_with_name(const void *name, const void *entry) {
    return strcmp(name, (*(const struct tensor_entry *const *)entry)->name);
}

const struct tensor_entry *tensor_index_find(const struct tensor_entry *const *by_name,
                                             size_t count, const char *name) {
    const struct tensor_entry *const *found =
        bsearch(name, by_name, count, sizeof *by_name, compare_with_name);
    return found != NULL ? *found : NULL;
}

const struct tensor_entry *tensor_file_find(const struct tensor_file *file, const char *name) {
    return tensor_index_find(file->by_name, file->count, name);
}

// --- data ---------------------------------------------------------------------------------------

enum berth_status tensor_check_range(const char *path, const struct tensor_entry *entry,
                                     uint64_t first, size_t bytes, struct berth_error *error) {
    const uint64_t size = entry->end - entry->begin;
    return first <= size && bytes <= size - first
               ? BERTH_OK
               : error_tensor(error, BERTH_INTERNAL, path, entry->name,
                              "read at offset %" PRIu64 " of %zu bytes is out of range", first,
                              bytes);
}

enum berth_status tensor_file_read(const struct tensor_file *file, const struct tensor_entry *entry,
                                   void *to, struct berth_error *error) {
    return file->format->read(file, entry, 0, (size_t)(entry->end - entry->begin), to, error);
}

#define PIECE_BYTES 32768

// tensor_convert when `from` may be at the end of `to`'s own memory.
static void convert_within(const struct tensor_entry *entry, const char *from, size_t count,
                           float *to) {
    char piece[PIECE_BYTES];
    const size_t size = tensor_dtype_size(entry->dtype), most = sizeof piece / size;
    for (size_t done = 0, now; done < count; done += now) {
        now = count - done < most ? count - done : most;
        memcpy(piece, from + done * size, now * size);
        tensor_convert(entry->dtype, piece, now, to + done);
    }
}

enum berth_status tensor_file_read_f32(const struct tensor_file *file,
                                       const struct tensor_entry *entry, int64_t first,
                                       int64_t count, float *to, struct berth_error *error) {
    if (!tensor_is_convertible(entry->dtype)) {
        return error_tensor(error, BERTH_BAD_DATA, file->path, entry->name,
                            "expected F32, F16, BF16 or F64, found %s", entry->dtype_name);
    }
    size_t size = tensor_dtype_size(entry->dtype);
    if (entry->dtype == TENSOR_F32) {
        return file->format->read(file, entry, (uint64_t)first * size, (size_t)count * size, to,
                                  error);
    }
    // Each piece is read into the end of `to` that is still unused, then converted downwards to the
    // front. Pieces are as large as fits, because a part of a transposed tensor is spread over most
    // of the file's bytes.
    char small[PIECE_BYTES];
    const size_t total = (size_t)count;
    for (size_t done = 0, now; done < total; done += now) {
        const size_t left = total - done, fits = left * sizeof *to / size;
        const int is_small = left <= sizeof small / size;
        now = is_small || fits > left ? left : fits;
        char *from = is_small ? small : (char *)(to + total) - now * size;
        TRY(file->format->read(file, entry, ((uint64_t)first + done) * size, now * size, from,
                               error));
        convert_within(entry, from, now, to + done);
    }
    return BERTH_OK;
}
