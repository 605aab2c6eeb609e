// SPDX-License-Identifier: Apache-2.0
// Fuzzes the HDF5 reader, through a file in memory. If the file opens, no data set is larger than
// the file can decompress to, and rows read one by one equal those read together.
#include "format/hdf5/hdf5.h"
#include "input.h"

#define LARGEST ((uint64_t)1 << 16)

static void read_rows(struct hdf5_file *file, const struct hdf5_dataset *set) {
    int64_t rows = set->rank > 0 ? set->shape[0] : 1;
    size_t row = (size_t)hdf5_row_bytes(set);
    struct berth_error error;
    require(set->bytes == row * (uint64_t)rows);
    require(set->bytes <= file->file.size * DEFLATE_RATIO_LIMIT + DEFLATE_RATIO_LIMIT);
    if (set->bytes > LARGEST || rows > 64 || row > LARGEST) { // without rows any width is allowed
        return;
    }
    unsigned char *all = memory_new(set->bytes + 1), *one = memory_new(row + 1);
    require(all != NULL && one != NULL);
    if (hdf5_read(file, set, 0, rows, all, &error) == BERTH_OK) {
        for (int64_t i = 0; i < rows; i++) {
            require(hdf5_read(file, set, i, 1, one, &error) == BERTH_OK);
            require(memcmp(one, all + (size_t)i * row, row) == 0);
        }
    } else {
        require(error.status == BERTH_BAD_DATA);
    }
    require(hdf5_read(file, set, rows, 1, one, &error) == BERTH_INTERNAL);
    memory_free(all);
    memory_free(one);
}

static void read_numbers(struct hdf5_file *file, const struct hdf5_dataset *set) {
    struct berth_error error;
    int64_t rows = set->rank > 0 ? set->shape[0] : 1;
    if (rows > 0 && set->bytes <= LARGEST) {
        int32_t *numbers = memory_array((size_t)set->bytes + 1, sizeof *numbers);
        enum berth_status status = hdf5_read_i32(file, set, 0, rows, numbers, &error);
        require(status == BERTH_OK || status == BERTH_BAD_DATA);
        memory_free(numbers);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    struct hdf5_file file;
    struct berth_error error = {0};
    const char *path = fuzz_file(input.bytes, input.size);
    fuzz_failing_begin(input.fail_at);
    enum berth_status status = hdf5_open(&file, path, &error);
    fuzz_failing_end(input.fail_at, status, &error);
    require(status == BERTH_OK || status == BERTH_BAD_DATA || status == BERTH_NO_MEMORY);
    if (status != BERTH_OK) {
        return 0;
    }
    int is;
    require(hdf5_recognise(path, &is, NULL) == BERTH_OK && is);
    for (size_t i = 0; i < file.count && i < 16; i++) {
        require(hdf5_find(&file, file.sets[i].name) == &file.sets[i]);
        read_rows(&file, &file.sets[i]);
        read_numbers(&file, &file.sets[i]);
    }
    hdf5_close(&file);
    return 0;
}
