// SPDX-License-Identifier: Apache-2.0
// Reads HDF5 files of instances in blocks of rows, and splits each row, packed or not, into
// sequences. shard_stream.c and the pack stage read files through it; a row is checked by
// pretraining_rows.c.
#include "core/memory.h"
#include "data/pretraining/pretraining_file.h"
#include "data/pretraining/pretraining_rows.h"
#include "format/hdf5/hdf5.h"

#include <inttypes.h>
#include <string.h>

enum { BLOCK_ROWS = 4096 };

struct reading {
    struct hdf5_file file;
    struct pretraining_rows rows;
    const struct hdf5_dataset *sets[ROW_COLUMNS];
    int64_t count; // number of rows
    int packed;
};

// --- the data sets ------------------------------------------------------------------------------

static int is_integer(enum tensor_dtype dtype) {
    return dtype == TENSOR_I8 || dtype == TENSOR_U8 || dtype == TENSOR_I16 || dtype == TENSOR_U16 ||
           dtype == TENSOR_I32 || dtype == TENSOR_U32 || dtype == TENSOR_I64 || dtype == TENSOR_U64;
}

static enum berth_status find_set(struct reading *reading, int column, int rank,
                                  struct berth_error *error) {
    const struct hdf5_dataset *set = hdf5_find(&reading->file, pretraining_columns[column]);
    if (set == NULL) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: missing data set %s: expected a file of pre-training instances",
                         reading->rows.path, pretraining_columns[column]);
    }
    if (set->rank != rank || !is_integer(set->dtype)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: data set %s: expected integers in %d dimensions, found %s in %d",
                         reading->rows.path, pretraining_columns[column], rank,
                         tensor_dtype_name(set->dtype), set->rank);
    }
    if (rank == 2 && (set->shape[1] < 1 || set->shape[1] > INSTANCE_LENGTH_MAX)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: data set %s: expected rows of 1 to %d numbers, found %" PRId64,
                         reading->rows.path, pretraining_columns[column], INSTANCE_LENGTH_MAX,
                         set->shape[1]);
    }
    reading->sets[column] = set;
    reading->rows.widths[column] = rank == 2 ? set->shape[1] : 1;
    reading->count = column == ROW_IDS ? set->shape[0] : reading->count;
    return BERTH_OK;
}

static enum berth_status find_sets(struct reading *reading, int max_length,
                                   struct berth_error *error) {
    static const int like[ROW_COLUMNS] = {ROW_IDS,  ROW_IDS, ROW_IDS,  ROW_POSITIONS, ROW_POSITIONS,
                                          ROW_NEXT, ROW_IDS, ROW_NEXT, ROW_NEXT};
    reading->packed = hdf5_find(&reading->file, pretraining_columns[ROW_TOKEN_POSITIONS]) != NULL;
    int count = reading->packed ? ROW_COLUMNS : ROW_PLAIN_COLUMNS;
    for (int i = 0; i < count; i++) {
        TRY(find_set(reading, i, i == ROW_NEXT && !reading->packed ? 1 : 2, error));
    }
    for (int i = 0; i < count; i++) {
        const int other = like[i];
        const struct hdf5_dataset *set = reading->sets[i];
        if (set->shape[0] != reading->count ||
            reading->rows.widths[i] != reading->rows.widths[other]) {
            TRY(error_set(error, BERTH_BAD_DATA,
                          "%s: data set %s has %" PRId64 " rows of %" PRId64
                          " numbers, expected %" PRId64 " of %" PRId64 ", as in %s",
                          reading->rows.path, pretraining_columns[i], set->shape[0],
                          reading->rows.widths[i], reading->count, reading->rows.widths[other],
                          pretraining_columns[other]));
        }
    }
    int64_t limit = max_length > 0 ? max_length : INSTANCE_LENGTH_MAX;
    return reading->rows.widths[ROW_IDS] <= limit
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: rows have %" PRId64 " tokens; the maximum requested is %" PRId64,
                           reading->rows.path, reading->rows.widths[ROW_IDS], limit);
}

// --- the file -----------------------------------------------------------------------------------

static enum berth_status read_all(struct reading *reading, int max_length,
                                  struct berth_error *error) {
    TRY(find_sets(reading, max_length, error));
    size_t rows = reading->count < BLOCK_ROWS ? (size_t)reading->count : BLOCK_ROWS;
    for (int i = 0; i < ROW_COLUMNS && reading->sets[i] != NULL; i++) {
        size_t width = (size_t)reading->rows.widths[i];
        reading->rows.values[i] = memory_array(rows * width + 1, sizeof(int32_t));
        if (reading->rows.values[i] == NULL) {
            return error_no_memory(error, rows * width * sizeof(int32_t), reading->rows.path);
        }
    }
    for (int64_t first = 0; first < reading->count; first += BLOCK_ROWS) {
        int64_t left = reading->count - first, count = left < BLOCK_ROWS ? left : BLOCK_ROWS;
        for (int i = 0; i < ROW_COLUMNS && reading->sets[i] != NULL; i++) {
            TRY(hdf5_read_i32(&reading->file, reading->sets[i], first, count,
                              reading->rows.values[i], error));
        }
        for (int64_t i = 0; i < count; i++) {
            reading->rows.row = first + i;
            reading->rows.in_block = (size_t)i;
            TRY(reading->packed ? pretraining_put_packed(&reading->rows, error)
                                : pretraining_put_plain(&reading->rows, error));
        }
    }
    return BERTH_OK;
}

enum berth_status pretraining_read_hdf5(const char *path, int32_t vocab_size, int max_length,
                                        struct instances *instances, struct berth_error *error) {
    struct reading reading = {.rows = {.path = path, .to = instances, .vocab_size = vocab_size}};
    TRY(hdf5_open(&reading.file, path, error));
    enum berth_status status = read_all(&reading, max_length, error);
    for (int i = 0; i < ROW_COLUMNS; i++) {
        memory_free(reading.rows.values[i]);
    }
    hdf5_close(&reading.file);
    return status;
}

// --- measuring ----------------------------------------------------------------------------------

static enum berth_status count_packed(struct reading *reading, int64_t *sequences,
                                      struct berth_error *error) {
    int64_t width = reading->rows.widths[ROW_PACK_WEIGHTS];
    int64_t block = reading->count < BLOCK_ROWS ? reading->count : BLOCK_ROWS;
    int32_t *weights = memory_array((size_t)(block * width) + 1, sizeof *weights);
    if (weights == NULL) {
        return error_no_memory(error, (size_t)(block * width) * sizeof *weights,
                               reading->rows.path);
    }
    enum berth_status status = BERTH_OK;
    for (int64_t first = 0; first < reading->count && status == BERTH_OK; first += BLOCK_ROWS) {
        int64_t left = reading->count - first, rows = left < BLOCK_ROWS ? left : BLOCK_ROWS;
        status = hdf5_read_i32(&reading->file, reading->sets[ROW_PACK_WEIGHTS], first, rows,
                               weights, error);
        for (int64_t i = 0; i < rows * width && status == BERTH_OK; i++) {
            *sequences += weights[i] != 0;
        }
    }
    memory_free(weights);
    return status;
}

enum berth_status pretraining_measure_hdf5(const char *path, int max_length,
                                           struct pretraining_size *size,
                                           struct berth_error *error) {
    struct reading reading = {.rows.path = path};
    *size = (struct pretraining_size){0};
    TRY(hdf5_open(&reading.file, path, error));
    enum berth_status status = find_sets(&reading, max_length, error);
    if (status == BERTH_OK) {
        size->length = reading.rows.widths[ROW_IDS];
        size->predictions = reading.rows.widths[ROW_POSITIONS];
        size->sequences = reading.packed ? 0 : reading.count;
        size->packed = reading.packed;
        status = reading.packed ? count_packed(&reading, &size->sequences, error) : BERTH_OK;
    }
    hdf5_close(&reading.file);
    return status;
}
