// SPDX-License-Identifier: Apache-2.0
// The tensors of a checkpoint on disk. Rank 0 makes a file with its header and full size, then each
// rank writes the elements that it owns at their places, converted from the device's memory in
// chunks; reading is the reverse. checkpoint.c decides which files and when.
#include "train/checkpoint/state_file.h"

#include "core/file.h"
#include "core/finite.h"
#include "core/memory.h"
#include "format/safetensors/safetensors.h"
#include "model/folder.h"
#include "model/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAME_SIZE 128
#define CHUNK_ELEMENTS ((int64_t)1 << 20) // elements copied between device and file at a time

static const struct contents {
    const char *name;
    const char *format;      // in the metadata; transformers refuses weights without "pt"
    size_t count;            // number of buffers in the file
    const char *prefixes[2]; // of the tensor names of each buffer
    int is_of_architecture;  // 1: it has the architecture's names, 0: ours
} contents[STATE_FILES] = {
    [STATE_FILE_WEIGHTS] = {FOLDER_WEIGHTS, "pt", 1, {""}, 1},
    [STATE_FILE_MOMENTS] = {"optimizer.safetensors", "berth", 2, {"exp_avg.", "exp_avg_sq."}, 0},
};

const char *state_file_name(enum state_file file) {
    return contents[file].name;
}

static void tensor_name(char name[NAME_SIZE], const struct contents *file, size_t buffer,
                        const struct param_table *table, const struct param *param) {
    if (file->is_of_architecture) {
        name_for_architecture(table->architecture, param->name, name, NAME_SIZE);
    } else {
        snprintf(name, NAME_SIZE, "%s%s", file->prefixes[buffer], param->name);
    }
}

// --- creating ------------------------------------------------------------------------------------

static enum berth_status make_file(const struct contents *file, const struct param_table *table,
                                   const char *path, struct berth_error *error) {
    const char *const metadata[] = {"format", file->format, NULL};
    const size_t count = file->count * table->count;
    struct tensor_out *tensors = memory_array(count, sizeof *tensors);
    char(*names)[NAME_SIZE] = memory_array(count, sizeof *names);
    enum berth_status status;
    if (tensors == NULL || names == NULL) {
        status = error_no_memory(error, count * sizeof *names, "the list of tensors");
    } else {
        for (size_t i = 0; i < count; i++) {
            const struct param *param = &table->params[i % table->count];
            tensor_name(names[i], file, i / table->count, table, param);
            struct tensor_out *tensor = &tensors[i];
            *tensor =
                (struct tensor_out){.name = names[i], .dtype = TENSOR_F32, .rank = param->rank};
            tensor->shape[0] = param->rank == 2 ? param->rows : param->cols;
            tensor->shape[1] = param->cols;
        }
        status = safetensors_make(path, tensors, count, metadata, error);
    }
    memory_free(tensors);
    memory_free(names);
    return status;
}

enum berth_status state_file_make(enum state_file file, const struct param_table *table,
                                  const char *folder, struct berth_error *error) {
    return make_file(&contents[file], table, path_in(folder, contents[file].name).text, error);
}

// --- transfers -----------------------------------------------------------------------------------

struct transfer;

// Elements [first, first + count) of a tensor, `values` on the host.
typedef enum berth_status transfer_chunk(struct transfer *transfer,
                                         const struct tensor_entry *entry, int64_t first,
                                         int64_t count, float *values, struct berth_error *error);

// A transfer between the device and an open file.
struct transfer {
    const struct state *state;
    const char *path;
    enum state_file kind;
    struct safetensors file;
    struct file_ranges ranges; // for writing
    float *staging;            // [CHUNK_ELEMENTS]; NULL if the host can access the device's memory
    transfer_chunk *chunk;
    int writes;                          // 1: write, 0: read
    const struct moments_source *source; // read from it instead of `file`; NULL: from `file`
};

static enum berth_status write_chunk(struct transfer *transfer, const struct tensor_entry *entry,
                                     int64_t first, int64_t count, float *values,
                                     struct berth_error *error) {
    const uint64_t offset =
        transfer->file.data_begin + entry->begin + (uint64_t)first * sizeof *values;
    if (transfer->kind == STATE_FILE_WEIGHTS) {
        // Weights of a run that has diverged are never written: they would be useless.
        const int64_t finite = finite_count(values, count);
        if (finite != count) {
            return error_set(
                error, BERTH_FAILURE,
                "element %" PRId64
                " of the weight %s is not finite (%g): the training diverged; continue "
                "from an earlier checkpoint, or start over, with a lower learning_rate",
                first + finite + 1, entry->name, (double)values[finite]);
        }
    }
    return file_ranges_put(&transfer->ranges, offset, values, (size_t)count * sizeof *values,
                           error);
}

static enum berth_status read_chunk(struct transfer *transfer, const struct tensor_entry *entry,
                                    int64_t first, int64_t count, float *values,
                                    struct berth_error *error) {
    return safetensors_read_f32(&transfer->file, entry, first, count, values, error);
}

static enum berth_status import_chunk(struct transfer *transfer, const struct tensor_entry *entry,
                                      int64_t first, int64_t count, float *values,
                                      struct berth_error *error) {
    if (entry == NULL) {
        memset(values, 0, (size_t)count * sizeof *values);
        return BERTH_OK;
    }
    return tensor_file_read_f32(transfer->source->file, entry, first, count, values, error);
}

// Copies elements [first, first + count) of the tensor, which are at `device_values` on the device.
static enum berth_status transfer_elements(struct transfer *transfer,
                                           const struct tensor_entry *entry, int64_t first,
                                           int64_t count, float *device_values,
                                           struct berth_error *error) {
    struct device *device = transfer->state->device;
    if (transfer->staging == NULL) {
        return transfer->chunk(transfer, entry, first, count, device_values, error);
    }
    for (int64_t done = 0; done < count; done += CHUNK_ELEMENTS) {
        const int64_t some = count - done < CHUNK_ELEMENTS ? count - done : CHUNK_ELEMENTS;
        const size_t bytes = (size_t)some * sizeof *device_values;
        if (transfer->writes) {
            device->download(device, transfer->staging, device_values + done, bytes);
        }
        TRY(transfer->chunk(transfer, entry, first + done, some, transfer->staging, error));
        if (!transfer->writes) {
            device->upload(device, device_values + done, transfer->staging, bytes);
        }
    }
    return BERTH_OK;
}

static enum berth_status find_tensor(const struct transfer *transfer, size_t buffer,
                                     const struct param *param, const struct tensor_entry **found,
                                     struct berth_error *error) {
    char name[NAME_SIZE];
    if (transfer->source != NULL) {
        const struct param_table *table = transfer->state->table;
        *found = transfer->source->entries[buffer * table->count + (size_t)(param - table->params)];
        return BERTH_OK;
    }
    tensor_name(name, &contents[transfer->kind], buffer, transfer->state->table, param);
    const struct tensor_entry *entry = *found = safetensors_find(&transfer->file, name);
    if (entry == NULL) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: missing tensor %s; the checkpoint belongs to another model",
                         transfer->path, name);
    }
    int64_t rows = param->rank == 2 ? param->rows : param->cols;
    int matches = entry->dtype == TENSOR_F32 && entry->rank == param->rank &&
                  entry->shape[0] == rows && (param->rank < 2 || entry->shape[1] == param->cols);
    return matches ? BERTH_OK
                   : error_set(error, BERTH_BAD_DATA,
                               "%s: tensor %s: expected F32 with %" PRId64 " x %" PRId64
                               " elements, found %s of rank %d with %" PRId64 " rows",
                               transfer->path, name, param->rows, param->cols, entry->dtype_name,
                               entry->rank, entry->shape[0]);
}

static float *buffer_of(const struct transfer *transfer, size_t buffer) {
    const struct state *state = transfer->state;
    return transfer->kind == STATE_FILE_WEIGHTS ? state->master
           : buffer == 0                        ? state->moment1
                                                : state->moment2;
}

static enum berth_status transfer_param(struct transfer *transfer, size_t buffer,
                                        const struct param *param, struct berth_error *error) {
    const struct state *state = transfer->state;
    float *device_values = buffer_of(transfer, buffer);
    const struct tensor_entry *entry;
    TRY(find_tensor(transfer, buffer, param, &entry, error));
    // Weights, and moments of which this rank holds all, have the table's layout. Each rank writes
    // only its part.
    const int is_whole =
        transfer->kind == STATE_FILE_WEIGHTS || state->partition.elements == state->table->total;
    const struct partition *spans = transfer->writes ? &state->own : &state->partition;
    for (size_t i = 0; i < spans->count; i++) {
        struct partition_span part =
            partition_intersect(spans, i, param->offset, param->rows * param->cols);
        part.offset = is_whole ? part.first : part.offset;
        if (part.count > 0) {
            TRY(transfer_elements(transfer, entry, part.first - param->offset, part.count,
                                  device_values + part.offset, error));
        }
    }
    return BERTH_OK;
}

static enum berth_status transfer_all(struct transfer *transfer, struct berth_error *error) {
    const struct state *state = transfer->state;
    if (!state->device->is_host) {
        transfer->staging = memory_array((size_t)CHUNK_ELEMENTS, sizeof *transfer->staging);
        if (transfer->staging == NULL) {
            return error_no_memory(error, (size_t)CHUNK_ELEMENTS * sizeof *transfer->staging,
                                   "a part of the model's state");
        }
    }
    for (size_t buffer = 0; buffer < contents[transfer->kind].count; buffer++) {
        for (size_t i = 0; i < state->table->count; i++) {
            TRY(transfer_param(transfer, buffer, &state->table->params[i], error));
        }
    }
    return state->device->status(state->device, error);
}

static enum berth_status transfer_file(struct transfer *transfer, const char *folder,
                                       struct berth_error *error) {
    const struct path path = path_in(folder, contents[transfer->kind].name);
    transfer->path = path.text;
    enum berth_status status = safetensors_open(&transfer->file, path.text, error);
    if (status == BERTH_OK) {
        if (transfer->writes) {
            status = file_ranges_open(&transfer->ranges, path.text, error);
        }
        if (status == BERTH_OK) {
            status = transfer_all(transfer, error);
        }
        status = file_ranges_close(&transfer->ranges, status, error);
        safetensors_close(&transfer->file);
    }
    memory_free(transfer->staging);
    return status;
}

enum berth_status state_file_fill(enum state_file file, const struct state *state,
                                  const char *folder, struct berth_error *error) {
    struct transfer transfer = {.state = state,
                                .kind = file,
                                .ranges = {.descriptor = -1},
                                .chunk = write_chunk,
                                .writes = 1};
    return transfer_file(&transfer, folder, error);
}

enum berth_status state_file_read_moments(struct state *state, const char *folder,
                                          struct berth_error *error) {
    struct transfer transfer = {.state = state,
                                .kind = STATE_FILE_MOMENTS,
                                .ranges = {.descriptor = -1},
                                .chunk = read_chunk};
    return transfer_file(&transfer, folder, error);
}

enum berth_status state_file_import_moments(struct state *state,
                                            const struct moments_source *source,
                                            struct berth_error *error) {
    struct transfer transfer = {
        .state = state, .kind = STATE_FILE_MOMENTS, .chunk = import_chunk, .source = source};
    const enum berth_status status = transfer_all(&transfer, error);
    memory_free(transfer.staging);
    return status;
}
