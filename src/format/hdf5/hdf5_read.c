// SPDX-License-Identifier: Apache-2.0
// Reads rows of an HDF5 data set, by gathering what each of its chunks has of them, and converts
// integers. Readers of pre-training data call it block after block; where chunks are is found by
// hdf5_chunks.c, and what is compressed is read by hdf5_decompress.c.
#include "core/little_endian.h"
#include "core/memory.h"
#include "format/hdf5/hdf5_internal.h"

#include <inttypes.h>
#include <string.h>

uint64_t hdf5_row_bytes(const struct hdf5_dataset *set) {
    uint64_t bytes = tensor_dtype_size(set->dtype);
    for (int i = 1; i < set->rank; i++) {
        bytes *= (uint64_t)set->shape[i];
    }
    return bytes;
}

// One call: the rows that it reads.
struct row_reader {
    struct hdf5_file *file;
    const struct hdf5_dataset *set;
    int64_t first, rows;
    unsigned char *to;
    unsigned char *selected, *unshuffled; // the requested rows of one chunk, shuffled and not
    size_t row_bytes, chunk_bytes;        // of a chunk
};

// --- one chunk ----------------------------------------------------------------------------------

static enum berth_status read_uncompressed(const struct row_reader *reader,
                                           const struct hdf5_slice *slice,
                                           struct berth_error *error) {
    for (size_t i = 0; i < slice->plane_count; i++) {
        TRY(hdf5_read_bytes(reader->file,
                            slice->chunk->address + (uint64_t)i * slice->plane_bytes + slice->begin,
                            reader->selected + i * slice->length, slice->length, error));
    }
    return BERTH_OK;
}

// The requested rows of a chunk.
struct span {
    int64_t first, count;
    int is_last; // the rest of the chunk has no row of the data set
};

// Reads their bytes and undoes the filters.
static enum berth_status read_span(struct row_reader *reader, const struct hdf5_chunk *chunk,
                                   const struct span *span, const unsigned char **bytes,
                                   struct berth_error *error) {
    const struct hdf5_dataset *set = reader->set;
    int shuffled = hdf5_has_filter(set, chunk, HDF5_SHUFFLE);
    struct hdf5_slice slice = {.chunk = chunk,
                               .plane_count = shuffled ? tensor_dtype_size(set->dtype) : 1,
                               .is_last = span->is_last};
    slice.plane_bytes = reader->chunk_bytes / slice.plane_count;
    slice.begin = (size_t)span->first * reader->row_bytes / slice.plane_count;
    slice.length = (size_t)span->count * reader->row_bytes / slice.plane_count;
    TRY(hdf5_has_filter(set, chunk, HDF5_DEFLATE)
            ? hdf5_decompress(reader->file, set, &slice, reader->selected, error)
            : read_uncompressed(reader, &slice, error));
    *bytes = reader->selected;
    if (shuffled) {
        // Undoes the shuffle filter, which groups byte b of all numbers.
        for (size_t i = 0; i < slice.length; i++) {
            for (size_t b = 0; b < slice.plane_count; b++) {
                reader->unshuffled[i * slice.plane_count + b] =
                    reader->selected[b * slice.length + i];
            }
        }
        *bytes = reader->unshuffled;
    }
    return BERTH_OK;
}

// --- the part of a chunk ------------------------------------------------------------------------

// A part of a chunk: its start in the data set, and its shape.
struct box {
    int64_t start[TENSOR_MAX_RANK], shape[TENSOR_MAX_RANK];
    int rank;
};

// Advances the index to the next line (all dimensions except the last); 0 after the last line.
static int next_line(const struct box *box, int64_t index[TENSOR_MAX_RANK]) {
    for (int i = box->rank - 2; i >= 0; i--) {
        if (++index[i] < box->shape[i]) {
            return 1;
        }
        index[i] = 0;
    }
    return 0;
}

// `from` begins with the first row of the chunk that is in the box.
static void copy_box(const struct row_reader *reader, const struct box *box,
                     const unsigned char *from) {
    const struct hdf5_dataset *set = reader->set;
    size_t size = tensor_dtype_size(set->dtype);
    int last = box->rank - 1;
    int64_t index[TENSOR_MAX_RANK] = {0};
    do {
        int64_t source = 0, target = 0;
        for (int i = 0; i < box->rank; i++) {
            int64_t begin = i == 0 ? reader->first : 0;
            source = source * set->chunk[i] + index[i];
            target =
                target * (i == 0 ? reader->rows : set->shape[i]) + box->start[i] + index[i] - begin;
        }
        memcpy(reader->to + (size_t)target * size, from + (size_t)source * size,
               (size_t)box->shape[last] * size);
    } while (next_line(box, index));
}

// The part of chunk `number` that is within the rows.
static void find_box(const struct row_reader *reader, size_t number, struct box *box,
                     struct span *span) {
    const struct hdf5_dataset *set = reader->set;
    int64_t left = (int64_t)number;
    box->rank = set->rank;
    for (int i = set->rank; i-- > 0;) {
        box->start[i] = left % set->grid[i] * set->chunk[i];
        left /= set->grid[i];
        int64_t room = set->shape[i] - box->start[i];
        box->shape[i] = room < set->chunk[i] ? room : set->chunk[i];
    }
    int64_t end = reader->first + reader->rows;
    int64_t chunk_end = box->start[0] + box->shape[0];
    int64_t from = box->start[0] > reader->first ? box->start[0] : reader->first;
    int64_t to = chunk_end < end ? chunk_end : end;
    *span = (struct span){from - box->start[0], to - from, to == chunk_end};
    box->start[0] = from;
    box->shape[0] = to - from;
}

static enum berth_status copy_chunk_rows(struct row_reader *reader, size_t number,
                                         struct berth_error *error) {
    struct box box;
    struct span span;
    const unsigned char *bytes;
    find_box(reader, number, &box, &span);
    TRY(read_span(reader, &reader->set->chunks[number], &span, &bytes, error));
    copy_box(reader, &box, bytes);
    return BERTH_OK;
}

static enum berth_status read_chunks(struct row_reader *reader, struct berth_error *error) {
    const struct hdf5_dataset *set = reader->set;
    size_t slabs = (size_t)set->grid[0], each = set->chunk_count / slabs;
    size_t first = (size_t)(reader->first / set->chunk[0]) * each;
    int64_t rows = reader->rows < set->chunk[0] ? reader->rows : set->chunk[0];
    reader->row_bytes = reader->chunk_bytes / (size_t)set->chunk[0];
    reader->selected = memory_array((size_t)rows, reader->row_bytes);
    reader->unshuffled = memory_array((size_t)rows, reader->row_bytes);
    if (reader->selected == NULL || reader->unshuffled == NULL) {
        return error_no_memory(error, 2 * (size_t)rows * reader->row_bytes, set->name);
    }
    int64_t end = reader->first + reader->rows;
    size_t last = (size_t)((end - 1) / set->chunk[0] + 1) * each;
    hdf5_drop_partial_chunks(reader->file, set, first, last);
    for (size_t i = first; i < last; i++) {
        TRY(copy_chunk_rows(reader, i, error));
    }
    return BERTH_OK;
}

// --- reading ------------------------------------------------------------------------------------

enum berth_status hdf5_read(struct hdf5_file *file, const struct hdf5_dataset *set, int64_t first,
                            int64_t rows, void *to, struct berth_error *error) {
    int64_t all = set->rank > 0 ? set->shape[0] : 1;
    if (first < 0 || rows < 0 || first > all || rows > all - first) {
        return error_set(error, BERTH_INTERNAL,
                         "%s: rows %" PRId64 " to %" PRId64 " of %s, which has %" PRId64,
                         file->file.path, first, first + rows, set->name, all);
    }
    uint64_t row = hdf5_row_bytes(set);
    if (rows == 0 || row == 0) {
        return BERTH_OK;
    }
    if (set->chunk_count == 0) {
        return hdf5_read_bytes(file, set->address + (uint64_t)first * row, to,
                               (size_t)((uint64_t)rows * row), error);
    }
    struct row_reader reader = {.file = file,
                                .set = set,
                                .first = first,
                                .rows = rows,
                                .to = to,
                                .chunk_bytes = (size_t)hdf5_chunk_bytes(set)};
    enum berth_status status = read_chunks(&reader, error);
    memory_free(reader.selected);
    memory_free(reader.unshuffled);
    return status;
}

static int64_t integer_at(const unsigned char *bytes, size_t size, int is_signed) {
    uint64_t number = little_endian(bytes, size);
    if (is_signed && size < 8 && number >> (8 * size - 1) != 0) {
        number |= UINT64_MAX << 8 * size;
    }
    return is_signed || number <= INT64_MAX ? (int64_t)number : INT64_MAX;
}

// Whether the type is an integer type, and whether it is signed.
static int is_integer(enum tensor_dtype dtype, int *is_signed) {
    *is_signed =
        dtype == TENSOR_I8 || dtype == TENSOR_I16 || dtype == TENSOR_I32 || dtype == TENSOR_I64;
    return *is_signed || dtype == TENSOR_U8 || dtype == TENSOR_U16 || dtype == TENSOR_U32 ||
           dtype == TENSOR_U64;
}

static enum berth_status convert(const struct hdf5_file *file, const struct hdf5_dataset *set,
                                 const unsigned char *from, size_t count, int32_t *to,
                                 struct berth_error *error) {
    size_t size = tensor_dtype_size(set->dtype);
    int is_signed;
    if (!is_integer(set->dtype, &is_signed)) {
        return error_set(error, BERTH_BAD_DATA, "%s: data set %s: expected integers, found %s",
                         file->file.path, set->name, tensor_dtype_name(set->dtype));
    }
    for (size_t i = 0; i < count; i++) {
        int64_t number = integer_at(from + i * size, size, is_signed);
        if (number < INT32_MIN || number > INT32_MAX) {
            return error_set(
                error, BERTH_BAD_DATA,
                "%s: data set %s: a number exceeds 32 bits, so it is no id, mask or position",
                file->file.path, set->name);
        }
        to[i] = (int32_t)number;
    }
    return BERTH_OK;
}

enum berth_status hdf5_read_i32(struct hdf5_file *file, const struct hdf5_dataset *set,
                                int64_t first, int64_t rows, int32_t *to,
                                struct berth_error *error) {
    uint64_t row = hdf5_row_bytes(set);
    if (set->dtype == TENSOR_I32) {
        return hdf5_read(file, set, first, rows, to, error);
    }
    unsigned char *buffer = memory_array((size_t)rows, (size_t)row);
    if (buffer == NULL) {
        return error_no_memory(error, (size_t)((uint64_t)rows * row), set->name);
    }
    enum berth_status status = hdf5_read(file, set, first, rows, buffer, error);
    if (status == BERTH_OK) {
        size_t count = (size_t)((uint64_t)rows * row) / tensor_dtype_size(set->dtype);
        status = convert(file, set, buffer, count, to, error);
    }
    memory_free(buffer);
    return status;
}
