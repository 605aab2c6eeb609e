// SPDX-License-Identifier: Apache-2.0
// Inspects files of pre-training instances: reads, and thereby checks, every row.
#include "api/arguments.h"
#include "core/file.h"
#include "core/words.h"
#include "data/pretraining/pretraining_file.h"
#include "format/hdf5/hdf5.h"

static void add_instances(struct berth_data_info *info, const struct instances *read) {
    info->files++;
    info->instances += (int64_t)read->count;
    info->tokens += (int64_t)read->token_count;
    info->predictions += (int64_t)read->prediction_count;
    for (size_t i = 0; i < read->count; i++) {
        int64_t length = read->items[i].length;
        info->random_next += read->items[i].is_random;
        info->longest = length > info->longest ? length : info->longest;
        info->shortest = info->shortest == 0 || length < info->shortest ? length : info->shortest;
    }
}

// Reads the number of rows and their width; *is_data is 0 if the file has no data set of ids.
static enum berth_status measure_hdf5(const char *path, struct berth_data_info *info, int *is_data,
                                      struct berth_error *error) {
    struct hdf5_file file;
    TRY(hdf5_open(&file, path, error));
    const struct hdf5_dataset *ids = hdf5_find(&file, "input_ids");
    *is_data = ids != NULL && ids->rank == 2;
    if (*is_data) {
        info->rows += ids->shape[0];
        info->max_seq_length =
            ids->shape[1] > info->max_seq_length ? ids->shape[1] : info->max_seq_length;
    }
    hdf5_close(&file);
    return BERTH_OK;
}

static enum berth_status add_hdf5(const char *path, struct berth_data_info *info,
                                  struct berth_error *error) {
    struct instances read = {0};
    int is_data;
    TRY(measure_hdf5(path, info, &is_data, error));
    enum berth_status status = BERTH_OK;
    if (is_data) {
        status = pretraining_read_hdf5(path, INT32_MAX, 0, &read, error);
    }
    if (is_data && status == BERTH_OK) {
        add_instances(info, &read);
    }
    instances_done(&read);
    return status;
}

static enum berth_status add_tfrecord(const char *path, struct berth_data_info *info,
                                      struct berth_error *error) {
    struct instances read = {0};
    enum berth_status status = pretraining_read_tfrecord(path, INT32_MAX, 0, &read, error);
    if (status == BERTH_OK) {
        add_instances(info, &read);
        info->rows += (int64_t)read.count;
    }
    instances_done(&read);
    return status;
}

static enum berth_status add_file(const char *path, struct berth_data_info *info,
                                  struct berth_error *error) {
    int is_hdf5;
    TRY(hdf5_recognise(path, &is_hdf5, error));
    if (is_hdf5 || name_has_extension(path, ".hdf5") || name_has_extension(path, ".h5")) {
        return add_hdf5(path, info, error);
    }
    return pretraining_is_file(path_name(path)) ? add_tfrecord(path, info, error) : BERTH_OK;
}

static enum berth_status add_member(const char *path, void *context, struct berth_error *error) {
    return pretraining_is_file(path_name(path)) ? add_file(path, context, error) : BERTH_OK;
}

enum berth_status berth_inspect_data(const char *path, struct berth_data_info *info,
                                     struct berth_error *error) {
    struct berth_data_info unwanted;
    info = info != NULL ? info : &unwanted;
    *info = (struct berth_data_info){0};
    REQUIRE(path, error);
    TRY(path_require(path, "a file or a folder to inspect", error));
    return dir_exists(path) ? dir_each(path, add_member, info, error) : add_file(path, info, error);
}
