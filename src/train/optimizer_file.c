// SPDX-License-Identifier: Apache-2.0
#include "train/optimizer_file.h"

#include "core/file.h"
#include "core/memory.h"
#include "format/safetensors/safetensors.h"

#include <inttypes.h>
#include <stdio.h>

#define FILE_NAME "optimizer.safetensors"
#define NAME_SIZE 128

static const char *const prefixes[2] = {"exp_avg.", "exp_avg_sq."};

static void tensor_name(char name[NAME_SIZE], int moment, const struct param *param) {
    snprintf(name, NAME_SIZE, "%s%s", prefixes[moment], param->name);
}

// --- writing ------------------------------------------------------------------------------------

static void describe(struct tensor_out *tensor, char *name, int moment, const struct param *param,
                     const float *values) {
    tensor_name(name, moment, param);
    *tensor = (struct tensor_out){
        .name = name, .dtype = TENSOR_F32, .rank = param->rank, .data = values + param->offset};
    tensor->shape[0] = param->rank == 2 ? param->rows : param->cols;
    tensor->shape[1] = param->cols;
}

static enum berth_status write_file(const struct param_table *table, const float *const moments[2],
                                    const char *path, struct berth_error *error) {
    static const char *const metadata[] = {"format", "berth", NULL};
    size_t count = 2 * table->count;
    struct tensor_out *tensors = memory_array(count, sizeof *tensors);
    char(*names)[NAME_SIZE] = memory_array(count, sizeof *names);
    enum berth_status status;
    if (tensors == NULL || names == NULL) {
        status = error_no_memory(error, count * sizeof *names, "the list of moments");
    } else {
        for (size_t i = 0; i < count; i++) {
            int moment = i >= table->count;
            describe(&tensors[i], names[i], moment, &table->params[i % table->count],
                     moments[moment]);
        }
        status = safetensors_write(path, tensors, count, metadata, error);
    }
    memory_free(tensors);
    memory_free(names);
    return status;
}

enum berth_status optimizer_file_write(const struct state *state, const char *folder,
                                       struct berth_error *error) {
    float *moments[2] = {NULL, NULL};
    char *path = path_join(folder, FILE_NAME);
    enum berth_status status;
    if (path == NULL) {
        return file_no_path(error);
    }
    TRY_DONE(state_borrow(state, state->moment1, 1, &moments[0], error));
    TRY_DONE(state_borrow(state, state->moment2, 1, &moments[1], error));
    const float *const read_only[2] = {moments[0], moments[1]};
    status = write_file(state->table, read_only, path, error);
done:
    state_give_back(state, state->moment1, moments[0]);
    state_give_back(state, state->moment2, moments[1]);
    memory_free(path);
    return status;
}

// --- reading ------------------------------------------------------------------------------------

static enum berth_status read_tensor(const struct safetensors *file, const char *path, int moment,
                                     const struct param *param, float *values,
                                     struct berth_error *error) {
    char name[NAME_SIZE];
    tensor_name(name, moment, param);
    const struct tensor_entry *entry = safetensors_find(file, name);
    if (entry == NULL) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: no tensor %s; the checkpoint belongs to another "
                         "model",
                         path, name);
    }
    int64_t rows = param->rank == 2 ? param->rows : param->cols;
    int matches = entry->dtype == TENSOR_F32 && entry->rank == param->rank &&
                  entry->shape[0] == rows && (param->rank < 2 || entry->shape[1] == param->cols);
    if (!matches) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: tensor %s: expected F32 with %" PRId64 " x %" PRId64
                         " elements, found %s of rank %d with %" PRId64 " rows",
                         path, name, param->rows, param->cols, entry->dtype_name, entry->rank,
                         entry->rank > 0 ? entry->shape[0] : 0);
    }
    return safetensors_read_f32(file, entry, 0, param->rows * param->cols, values + param->offset,
                                error);
}

static enum berth_status read_moment(struct state *state, const struct safetensors *file,
                                     const char *path, int moment, struct berth_error *error) {
    float *buffer = moment == 0 ? state->moment1 : state->moment2;
    float *host;
    TRY(state_borrow(state, buffer, 0, &host, error));
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; i < state->table->count && status == BERTH_OK; i++) {
        status = read_tensor(file, path, moment, &state->table->params[i], host, error);
    }
    if (status == BERTH_OK) {
        state_set(state, buffer, host);
    }
    state_give_back(state, buffer, host);
    return status;
}

enum berth_status optimizer_file_read(struct state *state, const char *folder,
                                      struct berth_error *error) {
    char *path = path_join(folder, FILE_NAME);
    if (path == NULL) {
        return file_no_path(error);
    }
    struct safetensors file;
    enum berth_status status = safetensors_open(&file, path, error);
    if (status == BERTH_OK) {
        status = read_moment(state, &file, path, 0, error);
        if (status == BERTH_OK) {
            status = read_moment(state, &file, path, 1, error);
        }
        safetensors_close(&file);
    }
    memory_free(path);
    return status;
}
