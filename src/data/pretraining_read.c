// SPDX-License-Identifier: Apache-2.0
// A file is read in blocks of rows; each row, packed or not, is taken apart into sequences.
#include "core/memory.h"
#include "data/pretraining_file.h"
#include "format/hdf5.h"

#include <inttypes.h>
#include <string.h>

enum { BLOCK_ROWS = 4096, COLUMNS = 9 };

enum { IDS, MASK, SEGMENTS, POSITIONS, LABELS, NEXT, PLACES, NEXT_AT, WEIGHTS };

static const char *const names[COLUMNS] = {"input_ids",
                                           "input_mask",
                                           "segment_ids",
                                           "masked_lm_positions",
                                           "masked_lm_ids",
                                           "next_sentence_labels",
                                           "positions",
                                           "next_sentence_positions",
                                           "next_sentence_weights"};

struct reading {
    struct hdf5_file file;
    const char *path;
    struct instances *to;
    int32_t vocab_size;
    const struct hdf5_dataset *sets[COLUMNS];
    int32_t *values[COLUMNS]; // of a block
    int64_t widths[COLUMNS];
    int64_t rows, row; // row: the present one, for messages
    size_t in_block;   // its number in the block
    int packed;
};

static enum berth_status bad(const struct reading *reading, int column, const char *what,
                             struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA, "%s: %s, row %" PRId64 ": %s", reading->path,
                     names[column], reading->row, what);
}

// --- the data sets
// --------------------------------------------------------------------------------

static int is_integer(enum tensor_dtype dtype) {
    return dtype == TENSOR_I8 || dtype == TENSOR_U8 || dtype == TENSOR_I16 || dtype == TENSOR_U16 ||
           dtype == TENSOR_I32 || dtype == TENSOR_U32 || dtype == TENSOR_I64 || dtype == TENSOR_U64;
}

static enum berth_status find_set(struct reading *reading, int column, int rank,
                                  struct berth_error *error) {
    const struct hdf5_dataset *set = hdf5_find(&reading->file, names[column]);
    if (set == NULL) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: it has no data set %s: expected a file of pre-training instances",
                         reading->path, names[column]);
    }
    if (set->rank != rank || !is_integer(set->dtype) || (rank == 2 && set->shape[1] < 1)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: data set %s: expected integers in %d dimensions, found %s in %d",
                         reading->path, names[column], rank, tensor_dtype_name(set->dtype),
                         set->rank);
    }
    reading->sets[column] = set;
    reading->widths[column] = rank == 2 ? set->shape[1] : 1;
    reading->rows = column == IDS ? set->shape[0] : reading->rows;
    return BERTH_OK;
}

static enum berth_status same_shape(const struct reading *reading, int column, int other,
                                    struct berth_error *error) {
    const struct hdf5_dataset *set = reading->sets[column];
    if (set->shape[0] == reading->rows && reading->widths[column] == reading->widths[other]) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_BAD_DATA,
                     "%s: data set %s has %" PRId64 " rows of %" PRId64
                     " numbers, expected %" PRId64 " of %" PRId64 " as %s has",
                     reading->path, names[column], set->shape[0], reading->widths[column],
                     reading->rows, reading->widths[other], names[other]);
}

static enum berth_status find_sets(struct reading *reading, int max_seq_length,
                                   struct berth_error *error) {
    static const int like[COLUMNS] = {IDS, IDS, IDS, POSITIONS, POSITIONS, NEXT, IDS, NEXT, NEXT};
    reading->packed = hdf5_find(&reading->file, names[PLACES]) != NULL;
    int count = reading->packed ? COLUMNS : NEXT + 1;
    for (int i = 0; i < count; i++) {
        TRY(find_set(reading, i, i == NEXT && !reading->packed ? 1 : 2, error));
    }
    for (int i = 0; i < count; i++) {
        TRY(same_shape(reading, i, like[i], error));
    }
    int64_t most = max_seq_length > 0 ? max_seq_length : INSTANCE_LENGTH_MAX;
    return reading->widths[IDS] <= most ? BERTH_OK
                                        : error_set(error, BERTH_BAD_DATA,
                                                    "%s: its rows have %" PRId64
                                                    " tokens, at most %" PRId64 " are asked for",
                                                    reading->path, reading->widths[IDS], most);
}

// --- a row
// ----------------------------------------------------------------------------------------

static const int32_t *row_of(const struct reading *reading, int column) {
    return reading->values[column] + reading->in_block * (size_t)reading->widths[column];
}

// A part of a row: the tokens [begin, end), and the masked positions [first, last).
struct part {
    int32_t begin, end, first, last, is_random;
};

static enum berth_status check_part(const struct reading *reading, const struct part *part,
                                    struct berth_error *error) {
    const int32_t *ids = row_of(reading, IDS), *segments = row_of(reading, SEGMENTS);
    const int32_t *positions = row_of(reading, POSITIONS), *labels = row_of(reading, LABELS);
    for (int32_t i = part->begin; i < part->end; i++) {
        if (ids[i] < 0 || ids[i] >= reading->vocab_size) {
            return bad(reading, IDS, "an id outside the vocabulary", error);
        }
        int32_t before = i > part->begin ? segments[i - 1] : 0;
        if (segments[i] < before || segments[i] > 1) {
            return bad(reading, SEGMENTS, "expected zeros, then ones", error);
        }
    }
    for (int32_t i = part->first; i < part->last; i++) {
        if (positions[i] < part->begin || positions[i] >= part->end) {
            return bad(reading, POSITIONS, "a position outside its sequence", error);
        }
        if (labels[i] < 0 || labels[i] >= reading->vocab_size) {
            return bad(reading, LABELS, "an id outside the vocabulary", error);
        }
    }
    return part->is_random == 0 || part->is_random == 1
               ? BERTH_OK
               : bad(reading, NEXT, "expected 0 or 1", error);
}

static enum berth_status grow(void **block, size_t *room, size_t needed, size_t size,
                              struct berth_error *error) {
    if (needed <= *room) {
        return BERTH_OK;
    }
    size_t more = needed * 3 / 2 + 1024;
    void *grown = memory_resize(*block, more, size);
    if (grown == NULL) {
        return error_no_memory(error, more * size, "pre-training instances");
    }
    *block = grown;
    *room = more;
    return BERTH_OK;
}

static enum berth_status reserve(struct instances *to, const struct part *part,
                                 struct berth_error *error) {
    size_t length = (size_t)(part->end - part->begin), rooms = to->prediction_room;
    size_t predictions = to->prediction_count + (size_t)(part->last - part->first);
    TRY(grow((void **)&to->items, &to->room, to->count + 1, sizeof *to->items, error));
    TRY(grow((void **)&to->tokens, &to->token_room, to->token_count + length, 4, error));
    TRY(grow((void **)&to->positions, &rooms, predictions, 2, error));
    return grow((void **)&to->labels, &to->prediction_room, predictions, 4, error);
}

static enum berth_status put_part(struct reading *reading, const struct part *part,
                                  struct berth_error *error) {
    struct instances *to = reading->to;
    const int32_t *segments = row_of(reading, SEGMENTS), *positions = row_of(reading, POSITIONS);
    TRY(check_part(reading, part, error));
    TRY(reserve(to, part, error));
    struct instance *instance = &to->items[to->count++];
    size_t length = (size_t)(part->end - part->begin);
    *instance = (struct instance){.tokens = to->token_count,
                                  .predictions = to->prediction_count,
                                  .length = (uint16_t)length,
                                  .prediction_count = (uint16_t)(part->last - part->first),
                                  .is_random = (uint8_t)part->is_random};
    while (instance->second < length && segments[part->begin + instance->second] == 0) {
        instance->second++;
    }
    memcpy(to->tokens + to->token_count, row_of(reading, IDS) + part->begin, 4 * length);
    to->token_count += length;
    for (int32_t i = part->first; i < part->last; i++) {
        to->positions[to->prediction_count] = (uint16_t)(positions[i] - part->begin);
        to->labels[to->prediction_count++] = row_of(reading, LABELS)[i];
    }
    return BERTH_OK;
}

// Where a run of `value` that begins at `from` ends.
static int32_t run_end(const int32_t *values, int32_t from, int64_t width, int32_t value) {
    while (from < width && values[from] == value) {
        from++;
    }
    return from;
}

static enum berth_status put_plain(struct reading *reading, struct berth_error *error) {
    const int32_t *positions = row_of(reading, POSITIONS);
    int64_t width = reading->widths[IDS];
    struct part part = {.end = run_end(row_of(reading, MASK), 0, width, 1),
                        .is_random = *row_of(reading, NEXT)};
    if (part.end == 0 || run_end(row_of(reading, MASK), part.end, width, 0) < width) {
        return bad(reading, MASK, "expected ones, then zeros", error);
    }
    while (part.last < reading->widths[POSITIONS] && positions[part.last] != 0) {
        part.last++;
    }
    return put_part(reading, &part, error);
}

// Sequence number k of a row begins where the one before ended; so do its masked positions.
static enum berth_status put_packed(struct reading *reading, struct berth_error *error) {
    const int32_t *mask = row_of(reading, MASK), *positions = row_of(reading, POSITIONS);
    struct part part = {0};
    for (int32_t k = 0; k < reading->widths[NEXT]; k++) {
        if (row_of(reading, WEIGHTS)[k] == 0) {
            continue;
        }
        part.begin = part.end;
        part.first = part.last;
        part.end = run_end(mask, part.begin, reading->widths[IDS], k + 1);
        part.is_random = row_of(reading, NEXT)[k];
        if (part.end == part.begin || row_of(reading, NEXT_AT)[k] != part.begin) {
            return bad(reading, MASK, "the sequences are not where next_sentence_positions says",
                       error);
        }
        while (part.last < reading->widths[POSITIONS] && positions[part.last] != 0 &&
               positions[part.last] < part.end) {
            part.last++;
        }
        TRY(put_part(reading, &part, error));
    }
    if (run_end(mask, part.end, reading->widths[IDS], 0) < reading->widths[IDS]) {
        return bad(reading, MASK, "expected zeros behind the last sequence", error);
    }
    return part.last == reading->widths[POSITIONS] || positions[part.last] == 0
               ? BERTH_OK
               : bad(reading, POSITIONS, "a position outside its sequence", error);
}

// --- the file
// -------------------------------------------------------------------------------------

static enum berth_status read_blocks(struct reading *reading, struct berth_error *error) {
    for (int64_t first = 0; first < reading->rows; first += BLOCK_ROWS) {
        int64_t left = reading->rows - first, count = left < BLOCK_ROWS ? left : BLOCK_ROWS;
        for (int i = 0; i < COLUMNS && reading->sets[i] != NULL; i++) {
            TRY(hdf5_read_i32(&reading->file, reading->sets[i], first, count, reading->values[i],
                              error));
        }
        for (int64_t i = 0; i < count; i++) {
            reading->row = first + i;
            reading->in_block = (size_t)i;
            TRY(reading->packed ? put_packed(reading, error) : put_plain(reading, error));
        }
    }
    return BERTH_OK;
}

static enum berth_status read_all(struct reading *reading, int max_seq_length,
                                  struct berth_error *error) {
    TRY(find_sets(reading, max_seq_length, error));
    size_t rows = reading->rows < BLOCK_ROWS ? (size_t)reading->rows : BLOCK_ROWS;
    for (int i = 0; i < COLUMNS && reading->sets[i] != NULL; i++) {
        size_t width = (size_t)reading->widths[i];
        reading->values[i] = memory_array(rows * width + 1, sizeof(int32_t));
        if (reading->values[i] == NULL) {
            return error_no_memory(error, rows * width * sizeof(int32_t), reading->path);
        }
    }
    return read_blocks(reading, error);
}

enum berth_status pretraining_shape_hdf5(const char *path, struct pretraining_shape *shape,
                                         struct berth_error *error) {
    struct reading reading = {.path = path};
    TRY(hdf5_open(&reading.file, path, error));
    enum berth_status status = find_sets(&reading, 0, error);
    if (status == BERTH_OK) {
        *shape = (struct pretraining_shape){.rows = reading.rows,
                                            .max_seq_length = (int)reading.widths[IDS],
                                            .max_predictions = (int)reading.widths[POSITIONS],
                                            .packed = reading.packed};
    }
    hdf5_close(&reading.file);
    return status;
}

enum berth_status pretraining_read_hdf5(const char *path, int32_t vocab_size, int max_seq_length,
                                        struct instances *instances, struct berth_error *error) {
    struct reading reading = {.path = path, .to = instances, .vocab_size = vocab_size};
    TRY(hdf5_open(&reading.file, path, error));
    enum berth_status status = read_all(&reading, max_seq_length, error);
    for (int i = 0; i < COLUMNS; i++) {
        memory_free(reading.values[i]);
    }
    hdf5_close(&reading.file);
    return status;
}

// --- measuring
// ------------------------------------------------------------------------------------

static enum berth_status count_packed(struct reading *reading, int64_t *sequences,
                                      struct berth_error *error) {
    int64_t width = reading->widths[WEIGHTS], rows = reading->rows;
    int32_t *weights = memory_array((size_t)(rows * width) + 1, sizeof *weights);
    if (weights == NULL) {
        return error_no_memory(error, (size_t)(rows * width) * sizeof *weights, reading->path);
    }
    enum berth_status status =
        hdf5_read_i32(&reading->file, reading->sets[WEIGHTS], 0, rows, weights, error);
    for (int64_t i = 0; i < rows * width && status == BERTH_OK; i++) {
        *sequences += weights[i] != 0;
    }
    memory_free(weights);
    return status;
}

enum berth_status pretraining_measure_hdf5(const char *path, int max_seq_length,
                                           struct pretraining_size *size,
                                           struct berth_error *error) {
    struct reading reading = {.path = path};
    *size = (struct pretraining_size){0};
    TRY(hdf5_open(&reading.file, path, error));
    enum berth_status status = find_sets(&reading, max_seq_length, error);
    if (status == BERTH_OK) {
        size->length = reading.widths[IDS];
        size->predictions = reading.widths[POSITIONS];
        size->sequences = reading.packed ? 0 : reading.rows;
        status = reading.packed ? count_packed(&reading, &size->sequences, error) : BERTH_OK;
    }
    hdf5_close(&reading.file);
    return status;
}
