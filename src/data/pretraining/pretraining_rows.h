// SPDX-License-Identifier: Apache-2.0
// Checks rows of pre-training files, given as columns of numbers, and splits them into instances.
// Shared by the readers of HDF5 and TFRecord. Where the columns are in a file is the readers'
// business.
#ifndef BERTH_DATA_PRETRAINING_ROWS_H
#define BERTH_DATA_PRETRAINING_ROWS_H

#include "core/error.h"
#include "data/pretraining/instances.h"

#include <stddef.h>
#include <stdint.h>

// The columns of plain rows, then the additional columns of packed rows.
enum pretraining_column {
    ROW_IDS,
    ROW_MASK,
    ROW_SEGMENTS,
    ROW_POSITIONS,
    ROW_LABELS,
    ROW_NEXT,
    ROW_PLAIN_COLUMNS,
    ROW_TOKEN_POSITIONS = ROW_PLAIN_COLUMNS,
    ROW_NEXT_POSITIONS,
    ROW_PACK_WEIGHTS,
    ROW_COLUMNS
};

// Their names in the files.
extern const char *const pretraining_columns[ROW_COLUMNS];

struct pretraining_rows {
    const char *path; // for messages
    struct instances *to;
    int32_t vocab_size;
    int32_t *values[ROW_COLUMNS]; // the columns of a block of rows
    int64_t widths[ROW_COLUMNS];
    int64_t row;     // index of the current row in the file, for messages
    size_t in_block; // its index in the block
};

// BERTH_BAD_DATA: "PATH: COLUMN, row N: " and the formatted text.
enum berth_status pretraining_row_error(const struct pretraining_rows *rows, int column,
                                        struct berth_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Appends the instances of the current row. Ids outside the vocabulary, masked positions that are
// not strictly ascending and inconsistent columns are BERTH_BAD_DATA.
enum berth_status pretraining_put_plain(struct pretraining_rows *rows, struct berth_error *error);
enum berth_status pretraining_put_packed(struct pretraining_rows *rows, struct berth_error *error);

#endif
