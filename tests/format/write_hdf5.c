// SPDX-License-Identifier: Apache-2.0
// For dev/others: write_hdf5 FILE ROWS [MORE] writes data sets
// "wide" [ROWS, 12288] int32, "label" [ROWS] int8 and "mask" [ROWS, 3] uint16, and MORE of [ROWS]
// uint64, "n99", "n98", ...; element i of each is i * 7 mod 97.
#include "format/hdf5/hdf5.h"

#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 12288, SETS = 3 }; // two rows per chunk

static int32_t wide[WIDTH];

static enum berth_status put_row(struct hdf5_writer *writer, int64_t row,
                                 struct berth_error *error) {
    const uint64_t number = (uint64_t)row * 7 % 97;
    int8_t label = (int8_t)(row * 7 % 97);
    uint16_t mask[3];
    for (int64_t i = 0; i < WIDTH; i++) {
        wide[i] = (int32_t)((row * WIDTH + i) * 7 % 97);
    }
    for (int64_t i = 0; i < 3; i++) {
        mask[i] = (uint16_t)((row * 3 + i) * 7 % 97);
    }
    TRY(hdf5_writer_put(writer, 0, wide, 1, error));
    for (size_t i = SETS; i < writer->count; i++) {
        TRY(hdf5_writer_put(writer, i, &number, 1, error));
    }
    TRY(hdf5_writer_put(writer, 1, &label, 1, error));
    return hdf5_writer_put(writer, 2, mask, 1, error);
}

int main(int argc, char **argv) {
    static char names[HDF5_COLUMNS_MAX][8];
    struct hdf5_column columns[HDF5_COLUMNS_MAX + 1] = {
        {"wide", TENSOR_I32, WIDTH}, {"label", TENSOR_I8, 0}, {"mask", TENSOR_U16, 3}};
    struct hdf5_writer writer;
    struct berth_error error = {0};
    if (argc < 3) {
        fprintf(stderr, "usage: write_hdf5 FILE ROWS [MORE]\n");
        return 2;
    }
    int64_t rows = atoll(argv[2]);
    size_t more = argc == 4 ? (size_t)atoll(argv[3]) : 0, count = SETS;
    for (; count < HDF5_COLUMNS_MAX && count < SETS + more; count++) {
        snprintf(names[count], sizeof names[count], "n%zu", 99 - (count - SETS));
        columns[count] = (struct hdf5_column){names[count], TENSOR_U64, 0};
    }
    enum berth_status status = hdf5_writer_open(&writer, columns, count, 1, &error);
    for (int64_t i = 0; i < rows && status == BERTH_OK; i++) {
        status = put_row(&writer, i, &error);
    }
    status = status == BERTH_OK ? hdf5_writer_commit(&writer, argv[1], &error) : status;
    hdf5_writer_done(&writer);
    if (status != BERTH_OK) {
        fprintf(stderr, "%s\n", error.message);
    }
    return (int)status;
}
