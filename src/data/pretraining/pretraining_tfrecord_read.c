// SPDX-License-Identifier: Apache-2.0
// Reads instances from TFRecord: the features of a record become the columns of one row. Lists may
// be packed or not; features may come in any order; unknown ones are ignored. A row is then checked
// by pretraining_rows.c.
#include "core/little_endian.h"
#include "core/memory.h"
#include "data/pretraining/pretraining_file.h"
#include "data/pretraining/pretraining_rows.h"
#include "format/protobuf/protobuf.h"
#include "format/tensorflow/tfrecord.h"

#include <string.h>

// Field numbers of Example and its nested messages, as in pretraining_tfrecord.c.
enum { FEATURES = 1, ENTRY = 1, KEY = 1, VALUE = 2, FLOATS = 2, INTEGERS = 3, ITEMS = 1 };

struct reading {
    struct tfrecord_reader file;
    struct pretraining_rows rows;
    int32_t *weights; // [INSTANCE_LENGTH_MAX] nonzero: a prediction
    int64_t weight_count;
    unsigned seen; // bit i: column i; bit ROW_PLAIN_COLUMNS: weights
};

// --- lists of numbers ---------------------------------------------------------------------------

static enum berth_status column_error(const struct reading *reading, int column,
                                      const char *problem, struct berth_error *error) {
    if (column < ROW_PLAIN_COLUMNS) {
        return pretraining_row_error(&reading->rows, column, error, "%s", problem);
    }
    return error_set(error, BERTH_BAD_DATA, "%s: masked_lm_weights, row %lld: %s",
                     reading->rows.path, (long long)reading->rows.row, problem);
}

// The array of a column, and its length so far.
static int32_t *values_of(struct reading *reading, int column, int64_t **count) {
    int is_column = column < ROW_PLAIN_COLUMNS;
    *count = is_column ? &reading->rows.widths[column] : &reading->weight_count;
    return is_column ? reading->rows.values[column] : reading->weights;
}

static enum berth_status put_number(struct reading *reading, int column, uint64_t bits,
                                    struct berth_error *error) {
    int64_t *count, number = (int64_t)bits;
    int32_t *values = values_of(reading, column, &count);
    if (column == ROW_PLAIN_COLUMNS) {
        number = (bits & 0x7fffffffu) != 0; // a nonzero float
    }
    if (*count == INSTANCE_LENGTH_MAX || number < INT32_MIN || number > INT32_MAX) {
        return column_error(
            reading, column,
            *count == INSTANCE_LENGTH_MAX ? "too many numbers" : "a number out of range", error);
    }
    values[(*count)++] = (int32_t)number;
    return BERTH_OK;
}

static enum berth_status put_floats(struct reading *reading, int column,
                                    const struct protobuf_field *field, struct berth_error *error) {
    if (field->length % 4 != 0) {
        return column_error(reading, column, "truncated packed floats", error);
    }
    for (size_t i = 0; i < field->length; i += 4) {
        TRY(put_number(reading, column, little_endian_u32(field->bytes + i), error));
    }
    return BERTH_OK;
}

// Reads the content of a FloatList or an Int64List.
static enum berth_status read_list(struct reading *reading, int column, struct protobuf_reader list,
                                   struct berth_error *error) {
    struct protobuf_field field;
    int is_float = column == ROW_PLAIN_COLUMNS, more;
    for (;;) {
        TRY(protobuf_next(&list, &field, &more, error));
        if (!more) {
            return BERTH_OK;
        }
        if (field.number != ITEMS) {
            continue;
        }
        if (field.wire == PROTOBUF_BYTES && is_float) {
            TRY(put_floats(reading, column, &field, error));
        } else if (field.wire == PROTOBUF_BYTES) {
            struct protobuf_reader packed = protobuf_inside(&list, &field);
            while (packed.at < packed.end) {
                uint64_t number;
                TRY(protobuf_varint(&packed, &number, error));
                TRY(put_number(reading, column, number, error));
            }
        } else {
            TRY(protobuf_expect(&list, &field, is_float ? PROTOBUF_FIXED32 : PROTOBUF_VARINT,
                                error));
            TRY(put_number(reading, column, field.value, error));
        }
    }
}

// --- a record -----------------------------------------------------------------------------------

// The column of a feature's name; -1: unknown.
static int column_of(const unsigned char *name, size_t length) {
    for (int i = 0; i <= ROW_PLAIN_COLUMNS; i++) {
        const char *own = i < ROW_PLAIN_COLUMNS ? pretraining_columns[i] : "masked_lm_weights";
        if (strlen(own) == length && memcmp(own, name, length) == 0) {
            return i;
        }
    }
    return -1;
}

static enum berth_status read_feature(struct reading *reading, int column,
                                      struct protobuf_reader feature, struct berth_error *error) {
    uint32_t kind = column == ROW_PLAIN_COLUMNS ? FLOATS : INTEGERS;
    struct protobuf_field field;
    int more;
    for (;;) {
        TRY(protobuf_next(&feature, &field, &more, error));
        if (!more) {
            return BERTH_OK;
        }
        if (field.number != kind) {
            return column_error(reading, column,
                                kind == FLOATS ? "expected floats" : "expected integers", error);
        }
        TRY(protobuf_expect(&feature, &field, PROTOBUF_BYTES, error));
        TRY(read_list(reading, column, protobuf_inside(&feature, &field), error));
    }
}

// Reads an entry of the map: a name and its feature.
static enum berth_status read_entry(struct reading *reading, struct protobuf_reader entry,
                                    struct berth_error *error) {
    struct protobuf_field field, key = {0}, value = {0};
    int more;
    for (;;) {
        TRY(protobuf_next(&entry, &field, &more, error));
        if (!more) {
            break;
        }
        TRY(protobuf_expect(&entry, &field, PROTOBUF_BYTES, error));
        key = field.number == KEY ? field : key;
        value = field.number == VALUE ? field : value;
    }
    int column = key.length > 0 ? column_of(key.bytes, key.length) : -1;
    if (column < 0 || value.bytes == NULL) {
        return BERTH_OK;
    }
    if ((reading->seen >> column & 1) != 0) {
        return column_error(reading, column, "duplicate feature", error);
    }
    reading->seen |= 1u << column;
    return read_feature(reading, column, protobuf_inside(&entry, &value), error);
}

// Reads the entries: an Example contains Features, which contains them.
static enum berth_status read_example(struct reading *reading, struct protobuf_reader example,
                                      struct berth_error *error) {
    struct protobuf_field field;
    int more;
    for (;;) {
        TRY(protobuf_next(&example, &field, &more, error));
        if (!more) {
            return BERTH_OK;
        }
        if (field.number != FEATURES) {
            continue;
        }
        TRY(protobuf_expect(&example, &field, PROTOBUF_BYTES, error));
        struct protobuf_reader features = protobuf_inside(&example, &field);
        for (;;) {
            TRY(protobuf_next(&features, &field, &more, error));
            if (!more) {
                break;
            }
            if (field.number == ENTRY) {
                TRY(protobuf_expect(&features, &field, PROTOBUF_BYTES, error));
                TRY(read_entry(reading, protobuf_inside(&features, &field), error));
            }
        }
    }
}

// Checks that the weights, if any, are nonzero exactly for the predictions.
static enum berth_status check_weights(const struct reading *reading, struct berth_error *error) {
    const struct instances *to = reading->rows.to;
    int64_t count = to->items[to->count - 1].prediction_count;
    if ((reading->seen >> ROW_PLAIN_COLUMNS & 1) == 0) {
        return BERTH_OK;
    }
    int fits = reading->weight_count == reading->rows.widths[ROW_POSITIONS];
    for (int64_t i = 0; i < reading->weight_count; i++) {
        fits &= (reading->weights[i] != 0) == (i < count);
    }
    return fits ? BERTH_OK
                : column_error(reading, ROW_PLAIN_COLUMNS,
                               "the weights contradict masked_lm_positions", error);
}

// Reads the columns of the current row and checks their widths.
static enum berth_status read_columns(struct reading *reading, const unsigned char *bytes,
                                      size_t length, int max_length, struct berth_error *error) {
    reading->seen = 0;
    reading->weight_count = 0;
    memset(reading->rows.widths, 0, sizeof reading->rows.widths);
    TRY(read_example(reading, protobuf_read(bytes, length, reading->rows.path), error));
    static const int like[ROW_PLAIN_COLUMNS] = {ROW_IDS,       ROW_IDS,       ROW_IDS,
                                                ROW_POSITIONS, ROW_POSITIONS, ROW_NEXT};
    const int64_t *widths = reading->rows.widths;
    for (int i = 0; i < ROW_PLAIN_COLUMNS; i++) {
        if ((reading->seen >> i & 1) == 0) {
            return column_error(reading, i, "missing feature", error);
        }
        if (widths[i] != widths[like[i]]) {
            return column_error(reading, i, "the number of values differs from the other features'",
                                error);
        }
    }
    if (widths[ROW_NEXT] != 1) {
        return column_error(reading, ROW_NEXT, "expected one value", error);
    }
    return max_length == 0 || widths[ROW_IDS] <= max_length
               ? BERTH_OK
               : column_error(reading, ROW_IDS, "more tokens than the maximum requested", error);
}

// --- the file -----------------------------------------------------------------------------------

// Opens the file; allocates the columns for the widest record as one block at rows.values[0].
static enum berth_status open_file(struct reading *reading, const char *path,
                                   struct berth_error *error) {
    reading->rows.path = path;
    TRY(tfrecord_open(&reading->file, path, error));
    int32_t *columns = memory_array(ROW_PLAIN_COLUMNS + 1, INSTANCE_LENGTH_MAX * sizeof *columns);
    if (columns == NULL) {
        return error_no_memory(error, (size_t)INSTANCE_LENGTH_MAX * 4, path);
    }
    for (int i = 0; i < ROW_PLAIN_COLUMNS; i++) {
        reading->rows.values[i] = columns + (size_t)i * INSTANCE_LENGTH_MAX;
    }
    reading->weights = columns + (size_t)ROW_PLAIN_COLUMNS * INSTANCE_LENGTH_MAX;
    return BERTH_OK;
}

static void close_file(struct reading *reading) {
    memory_free(reading->rows.values[0]);
    tfrecord_close(&reading->file);
}

static enum berth_status read_all(struct reading *reading, int max_length,
                                  struct berth_error *error) {
    const unsigned char *bytes;
    size_t length;
    int more;
    for (;; reading->rows.row++) {
        TRY(tfrecord_next(&reading->file, &bytes, &length, &more, error));
        if (!more) {
            return BERTH_OK;
        }
        TRY(read_columns(reading, bytes, length, max_length, error));
        TRY(pretraining_put_plain(&reading->rows, error));
        TRY(check_weights(reading, error));
    }
}

enum berth_status pretraining_read_tfrecord(const char *path, int32_t vocab_size, int max_length,
                                            struct instances *instances,
                                            struct berth_error *error) {
    struct reading reading = {.rows = {.to = instances, .vocab_size = vocab_size}};
    enum berth_status status = open_file(&reading, path, error);
    if (status == BERTH_OK) {
        status = read_all(&reading, max_length, error);
    }
    close_file(&reading);
    return status;
}

static enum berth_status measure(struct reading *reading, int max_length,
                                 struct pretraining_size *size, struct berth_error *error) {
    const unsigned char *bytes;
    size_t length;
    int more;
    TRY(tfrecord_next(&reading->file, &bytes, &length, &more, error));
    if (more) {
        TRY(read_columns(reading, bytes, length, max_length, error));
        size->length = reading->rows.widths[ROW_IDS];
        size->predictions = reading->rows.widths[ROW_POSITIONS];
    }
    while (more) {
        size->sequences++;
        TRY(tfrecord_skip(&reading->file, &more, error));
    }
    return BERTH_OK;
}

enum berth_status pretraining_measure_tfrecord(const char *path, int max_length,
                                               struct pretraining_size *size,
                                               struct berth_error *error) {
    struct reading reading = {0};
    *size = (struct pretraining_size){0};
    enum berth_status status = open_file(&reading, path, error);
    if (status == BERTH_OK) {
        status = measure(&reading, max_length, size, error);
    }
    close_file(&reading);
    return status;
}
