// SPDX-License-Identifier: Apache-2.0
// Rows of files of pre-training instances, as numbers in columns: checked and taken apart into
// instances. What the readers of the containers share.
#ifndef BERTH_DATA_PRETRAINING_ROWS_H
#define BERTH_DATA_PRETRAINING_ROWS_H

#include "core/error.h"
#include "data/pretraining/instances.h"

#include <stddef.h>
#include <stdint.h>

// The columns of rows with one instance, then those that packed rows have besides.
enum pretraining_column {
    ROW_IDS,
    ROW_MASK,
    ROW_SEGMENTS,
    ROW_POSITIONS,
    ROW_LABELS,
    ROW_NEXT,
    ROW_PLAIN_COLUMNS,
    ROW_PLACES = ROW_PLAIN_COLUMNS,
    ROW_NEXT_AT,
    ROW_PACK_WEIGHTS,
    ROW_COLUMNS
};

// Their names in the files.
extern const char *const pretraining_columns[ROW_COLUMNS];

struct pretraining_rows {
    const char *path; // for messages
    struct instances *to;
    int32_t vocab_size;
    int32_t *values[ROW_COLUMNS]; // of a block of rows
    int64_t widths[ROW_COLUMNS];
    int64_t row;     // the present one in the file, for messages
    size_t in_block; // its number in the block
};

// BERTH_BAD_DATA: "PATH: COLUMN, row N: " and what is formatted.
enum berth_status pretraining_bad_row(const struct pretraining_rows *rows, int column,
                                      struct berth_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Appends the instances of the present row. Ids outside the vocabulary, masked positions that do
// not ascend (or stand twice) and columns that contradict each other are BERTH_BAD_DATA.
enum berth_status pretraining_put_plain(struct pretraining_rows *rows, struct berth_error *error);
enum berth_status pretraining_put_packed(struct pretraining_rows *rows, struct berth_error *error);

#endif
