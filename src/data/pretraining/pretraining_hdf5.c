// SPDX-License-Identifier: Apache-2.0
// Writes pre-training instances to HDF5, plain or packed, in blocks of rows, so that memory holds
// one block. The stages call it with a shard's instances (data/stages); pretraining_hdf5_read.c
// reads them back.
#include "core/memory.h"
#include "data/pretraining/pretraining_file.h"
#include "format/hdf5/hdf5.h"

#include <string.h>

enum { BLOCK_ROWS = 64, COLUMNS_MAX = 9 };

// A block of rows that is being filled: one array per column.
struct rows {
    struct hdf5_column columns[COLUMNS_MAX];
    size_t column_count;
    void *values[COLUMNS_MAX]; // [BLOCK_ROWS, width]
    size_t filled;
    int length, predictions; // widths: S, and P or P + K
};

// --- blocks -------------------------------------------------------------------------------------

static size_t row_bytes(const struct hdf5_column *column) {
    return (size_t)(column->width > 0 ? column->width : 1) * tensor_dtype_size(column->dtype);
}

static int32_t *row_i32(const struct rows *rows, size_t column) {
    size_t width = (size_t)rows->columns[column].width;
    return (int32_t *)rows->values[column] + rows->filled * width;
}

static int8_t *row_i8(const struct rows *rows, size_t column) {
    size_t width = rows->columns[column].width > 0 ? (size_t)rows->columns[column].width : 1;
    return (int8_t *)rows->values[column] + rows->filled * width;
}

static enum berth_status flush(struct rows *rows, struct hdf5_writer *writer,
                               struct berth_error *error) {
    for (size_t i = 0; i < rows->column_count; i++) {
        TRY(hdf5_writer_put(writer, i, rows->values[i], rows->filled, error));
        memset(rows->values[i], 0, rows->filled * row_bytes(&rows->columns[i]));
    }
    rows->filled = 0;
    return BERTH_OK;
}

// The items to write: `put` fills a row from item i.
struct source {
    const struct instances *instances;
    const struct pretraining_pack *packs;
    enum berth_status (*put)(struct rows *rows, const struct source *source, size_t i,
                             struct berth_error *error);
    size_t count;
};

static enum berth_status put_all(struct rows *rows, struct hdf5_writer *writer,
                                 const struct source *source, struct berth_error *error) {
    for (size_t i = 0; i < rows->column_count; i++) {
        rows->values[i] = memory_array_zeroed(BLOCK_ROWS, row_bytes(&rows->columns[i]));
        if (rows->values[i] == NULL) {
            return error_no_memory(error, BLOCK_ROWS * row_bytes(&rows->columns[i]), "rows");
        }
    }
    for (size_t i = 0; i < source->count; i++) {
        TRY(source->put(rows, source, i, error));
        if (++rows->filled == BLOCK_ROWS) {
            TRY(flush(rows, writer, error));
        }
    }
    return flush(rows, writer, error);
}

static enum berth_status write_rows(const char *path, struct rows *rows,
                                    const struct source *source, struct berth_error *error) {
    struct hdf5_writer writer;
    enum berth_status status =
        hdf5_writer_open(&writer, rows->columns, rows->column_count, PRETRAINING_GZIP_LEVEL, error);
    if (status == BERTH_OK) {
        status = put_all(rows, &writer, source, error);
    }
    if (status == BERTH_OK) {
        status = hdf5_writer_commit(&writer, path, error);
    }
    hdf5_writer_done(&writer);
    for (size_t i = 0; i < rows->column_count; i++) {
        memory_free(rows->values[i]);
    }
    return status;
}

// --- one instance per row ------------------------------------------------------------------------

enum { IDS, MASK, SEGMENTS, POSITIONS, LABELS, NEXT };

static enum berth_status put_instance(struct rows *rows, const struct source *source, size_t i,
                                      struct berth_error *error) {
    const struct instances *from = source->instances;
    const struct instance *instance = &from->items[i];
    if (instance->length > rows->length || instance->prediction_count > rows->predictions) {
        return error_set(
            error, BERTH_BAD_DATA,
            "instance %zu has %d tokens and %d masked positions, but rows have %d and %d", i,
            instance->length, instance->prediction_count, rows->length, rows->predictions);
    }
    memcpy(row_i32(rows, IDS), from->tokens + instance->tokens, 4 * (size_t)instance->length);
    memset(row_i8(rows, MASK), 1, instance->length);
    memset(row_i8(rows, SEGMENTS) + instance->second, 1,
           (size_t)instance->length - instance->second);
    for (size_t j = 0; j < instance->prediction_count; j++) {
        row_i32(rows, POSITIONS)[j] = from->positions[instance->predictions + j];
        row_i32(rows, LABELS)[j] = from->labels[instance->predictions + j];
    }
    *row_i8(rows, NEXT) = (int8_t)instance->is_random;
    return BERTH_OK;
}

enum berth_status pretraining_write_hdf5(const char *path, const struct instances *instances,
                                         int max_length, int max_predictions,
                                         struct berth_error *error) {
    struct rows rows = {.columns = {{"input_ids", TENSOR_I32, max_length},
                                    {"input_mask", TENSOR_I8, max_length},
                                    {"segment_ids", TENSOR_I8, max_length},
                                    {"masked_lm_positions", TENSOR_I32, max_predictions},
                                    {"masked_lm_ids", TENSOR_I32, max_predictions},
                                    {"next_sentence_labels", TENSOR_I8, 0}},
                        .column_count = 6,
                        .length = max_length,
                        .predictions = max_predictions};
    struct source source = {.instances = instances, .put = put_instance, .count = instances->count};
    return write_rows(path, &rows, &source, error);
}

// --- several per row -----------------------------------------------------------------------------

enum {
    PACK_IDS,
    PACK_MASK,
    PACK_SEGMENTS,
    PACK_TOKEN_POSITIONS,
    PACK_POSITIONS,
    PACK_LABELS,
    PACK_NEXT_POSITIONS,
    PACK_NEXT,
    PACK_WEIGHTS
};

// The contents of a row so far.
struct packed {
    int length, predictions, sequences;
};

static void put_sequence(struct rows *rows, const struct instances *from,
                         const struct instance *instance, struct packed *packed) {
    for (int i = 0; i < instance->length; i++) {
        int at = packed->length + i;
        row_i32(rows, PACK_IDS)[at] = from->tokens[instance->tokens + (size_t)i];
        row_i32(rows, PACK_MASK)[at] = packed->sequences + 1;
        row_i8(rows, PACK_SEGMENTS)[at] = i >= instance->second;
        row_i32(rows, PACK_TOKEN_POSITIONS)[at] = i;
    }
    for (size_t i = 0; i < instance->prediction_count; i++, packed->predictions++) {
        row_i32(rows, PACK_POSITIONS)[packed->predictions] =
            packed->length + from->positions[instance->predictions + i];
        row_i32(rows, PACK_LABELS)[packed->predictions] = from->labels[instance->predictions + i];
    }
    row_i32(rows, PACK_NEXT_POSITIONS)[packed->sequences] = packed->length;
    row_i8(rows, PACK_NEXT)[packed->sequences] = (int8_t)instance->is_random;
    row_i32(rows, PACK_WEIGHTS)[packed->sequences] = 1;
    packed->length += instance->length;
    packed->sequences++;
}

static enum berth_status put_pack(struct rows *rows, const struct source *source, size_t i,
                                  struct berth_error *error) {
    struct packed packed = {0};
    for (int j = 0; j < PRETRAINING_PACK_MAX; j++) {
        uint32_t number = source->packs[i].instances[j];
        if (number == PRETRAINING_NONE) {
            continue;
        }
        const struct instance *instance = &source->instances->items[number];
        if (packed.length + instance->length > rows->length ||
            packed.predictions + instance->prediction_count > rows->predictions) {
            return error_set(error, BERTH_BAD_DATA,
                             "packed row %zu needs %d tokens and %d masked positions, but rows "
                             "have %d and %d: raise max_predictions_per_seq",
                             i, packed.length + instance->length,
                             packed.predictions + instance->prediction_count, rows->length,
                             rows->predictions);
        }
        put_sequence(rows, source->instances, instance, &packed);
    }
    return BERTH_OK;
}

enum berth_status pretraining_write_packed(const char *path, const struct instances *instances,
                                           struct pretraining_packs packs, int max_length,
                                           int max_predictions, struct berth_error *error) {
    int predictions = max_predictions + PRETRAINING_PACK_MAX;
    struct rows rows = {.columns = {{"input_ids", TENSOR_I32, max_length},
                                    {"input_mask", TENSOR_I32, max_length},
                                    {"segment_ids", TENSOR_I8, max_length},
                                    {"positions", TENSOR_I32, max_length},
                                    {"masked_lm_positions", TENSOR_I32, predictions},
                                    {"masked_lm_ids", TENSOR_I32, predictions},
                                    {"next_sentence_positions", TENSOR_I32, PRETRAINING_PACK_MAX},
                                    {"next_sentence_labels", TENSOR_I8, PRETRAINING_PACK_MAX},
                                    {"next_sentence_weights", TENSOR_I32, PRETRAINING_PACK_MAX}},
                        .column_count = 9,
                        .length = max_length,
                        .predictions = predictions};
    struct source source = {
        .instances = instances, .packs = packs.items, .put = put_pack, .count = packs.count};
    return write_rows(path, &rows, &source, error);
}
