// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/state_file.h"

#include "core/file.h"
#include "core/finite.h"
#include "core/memory.h"
#include "format/safetensors/safetensors.h"
#include "model/folder.h"

#include <inttypes.h>
#include <stdio.h>

#define NAME_SIZE 128
#define PIECE_COUNT ((int64_t)1 << 20) // elements copied between device and file at a time

static const struct contents {
    const char *name;
    const char *format;      // in the metadata; transformers refuses weights that do not say "pt"
    size_t count;            // of the buffers in the file
    const char *prefixes[2]; // of the names of each buffer's tensors
} contents[STATE_FILES] = {
    [STATE_FILE_WEIGHTS] = {FOLDER_WEIGHTS, "pt", 1, {""}},
    [STATE_FILE_MOMENTS] = {"optimizer.safetensors", "berth", 2, {"exp_avg.", "exp_avg_sq."}},
};

const char *state_file_name(enum state_file file) {
    return contents[file].name;
}

static void tensor_name(char name[NAME_SIZE], const char *prefix, const struct param *param) {
    snprintf(name, NAME_SIZE, "%s%s", prefix, param->name);
}

// --- creating ------------------------------------------------------------------------------------

static void describe(struct tensor_out *tensor, char *name, const char *prefix,
                     const struct param *param) {
    tensor_name(name, prefix, param);
    *tensor = (struct tensor_out){.name = name, .dtype = TENSOR_F32, .rank = param->rank};
    tensor->shape[0] = param->rank == 2 ? param->rows : param->cols;
    tensor->shape[1] = param->cols;
}

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
            describe(&tensors[i], names[i], file->prefixes[i / table->count],
                     &table->params[i % table->count]);
        }
        status = safetensors_make(path, tensors, count, metadata, error);
    }
    memory_free(tensors);
    memory_free(names);
    return status;
}

enum berth_status state_file_make(enum state_file file, const struct param_table *table,
                                  const char *folder, struct berth_error *error) {
    char *path = path_join(folder, contents[file].name);
    if (path == NULL) {
        return file_no_path(error);
    }
    enum berth_status status = make_file(&contents[file], table, path, error);
    memory_free(path);
    return status;
}

// --- copying the elements of this rank -----------------------------------------------------------

struct moving;

// Elements [first, first + count) of a tensor, `values` on the host.
typedef enum berth_status move_piece(struct moving *moving, const struct tensor_entry *entry,
                                     int64_t first, int64_t count, float *values,
                                     struct berth_error *error);

// State of copying between the device and an open file.
struct moving {
    const struct state *state;
    const char *path;
    enum state_file kind;
    struct safetensors file;
    struct file_ranges ranges; // for writing
    float *staging;            // [PIECE_COUNT]; NULL if the host can access the device's memory
    move_piece *move;
    int fills;                           // 1: write, 0: read
    const struct moments_source *source; // read from it instead of `file`; NULL: from `file`
};

// No file gets weights of a run that has diverged: nothing could be done with them.
static enum berth_status check_finite(const struct tensor_entry *entry, int64_t first,
                                      int64_t count, const float *values,
                                      struct berth_error *error) {
    const int64_t finite = finite_count(values, count);
    return finite == count
               ? BERTH_OK
               : error_set(error, BERTH_FAILURE,
                           "number %" PRId64 " of the weight %s is not finite (%g): the training "
                           "diverged; go on from an earlier checkpoint, or start over, with a "
                           "lower learning_rate",
                           first + finite + 1, entry->name, (double)values[finite]);
}

static enum berth_status fill_piece(struct moving *moving, const struct tensor_entry *entry,
                                    int64_t first, int64_t count, float *values,
                                    struct berth_error *error) {
    const uint64_t offset =
        moving->file.data_begin + entry->begin + (uint64_t)first * sizeof *values;
    if (moving->kind == STATE_FILE_WEIGHTS) {
        TRY(check_finite(entry, first, count, values, error));
    }
    return file_ranges_put(&moving->ranges, offset, values, (size_t)count * sizeof *values, error);
}

static enum berth_status read_piece(struct moving *moving, const struct tensor_entry *entry,
                                    int64_t first, int64_t count, float *values,
                                    struct berth_error *error) {
    return safetensors_read_f32(&moving->file, entry, first, count, values, error);
}

static enum berth_status take_piece(struct moving *moving, const struct tensor_entry *entry,
                                    int64_t first, int64_t count, float *values,
                                    struct berth_error *error) {
    return tensor_file_read_f32(moving->source->file, entry, first, count, values, error);
}

// Copies elements [first, first + count) of the tensor, which are at `held` on the device.
static enum berth_status move_elements(struct moving *moving, const struct tensor_entry *entry,
                                       int64_t first, int64_t count, float *held,
                                       struct berth_error *error) {
    struct device *device = moving->state->device;
    if (moving->staging == NULL) {
        return moving->move(moving, entry, first, count, held, error);
    }
    for (int64_t done = 0; done < count; done += PIECE_COUNT) {
        const int64_t some = count - done < PIECE_COUNT ? count - done : PIECE_COUNT;
        const size_t bytes = (size_t)some * sizeof *held;
        if (moving->fills) {
            device->download(device, moving->staging, held + done, bytes);
        }
        TRY(moving->move(moving, entry, first + done, some, moving->staging, error));
        if (!moving->fills) {
            device->upload(device, held + done, moving->staging, bytes);
        }
    }
    return BERTH_OK;
}

static enum berth_status find_tensor(const struct moving *moving, size_t buffer,
                                     const struct param *param, const struct tensor_entry **found,
                                     struct berth_error *error) {
    char name[NAME_SIZE];
    if (moving->source != NULL) {
        const struct param_table *table = moving->state->table;
        *found = moving->source->entries[buffer * table->count + (size_t)(param - table->params)];
        return BERTH_OK;
    }
    tensor_name(name, contents[moving->kind].prefixes[buffer], param);
    const struct tensor_entry *entry = *found = safetensors_find(&moving->file, name);
    if (entry == NULL) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: missing tensor %s; the checkpoint belongs to another model",
                         moving->path, name);
    }
    int64_t rows = param->rank == 2 ? param->rows : param->cols;
    int matches = entry->dtype == TENSOR_F32 && entry->rank == param->rank &&
                  entry->shape[0] == rows && (param->rank < 2 || entry->shape[1] == param->cols);
    return matches ? BERTH_OK
                   : error_set(error, BERTH_BAD_DATA,
                               "%s: tensor %s: expected F32 with %" PRId64 " x %" PRId64
                               " elements, found %s of rank %d with %" PRId64 " rows",
                               moving->path, name, param->rows, param->cols, entry->dtype_name,
                               entry->rank, entry->shape[0]);
}

static float *buffer_of(const struct moving *moving, size_t buffer) {
    const struct state *state = moving->state;
    return moving->kind == STATE_FILE_WEIGHTS ? state->master
           : buffer == 0                      ? state->moment1
                                              : state->moment2;
}

static enum berth_status move_param(struct moving *moving, size_t buffer, const struct param *param,
                                    struct berth_error *error) {
    const struct state *state = moving->state;
    float *held = buffer_of(moving, buffer);
    const struct tensor_entry *entry;
    TRY(find_tensor(moving, buffer, param, &entry, error));
    // Weights, and moments that every rank holds, have the table's layout. Each rank writes its
    // part.
    const int is_whole =
        moving->kind == STATE_FILE_WEIGHTS || state->partition.elements == state->table->total;
    const struct partition *spans = moving->fills ? &state->own : &state->partition;
    for (size_t i = 0; i < spans->count; i++) {
        struct partition_span part =
            partition_part(spans, i, param->offset, param->rows * param->cols);
        part.at = is_whole ? part.first : part.at;
        if (part.count > 0) {
            TRY(move_elements(moving, entry, part.first - param->offset, part.count, held + part.at,
                              error));
        }
    }
    return BERTH_OK;
}

static enum berth_status move_all(struct moving *moving, struct berth_error *error) {
    const struct state *state = moving->state;
    if (!state->device->is_host) {
        moving->staging = memory_array((size_t)PIECE_COUNT, sizeof *moving->staging);
        if (moving->staging == NULL) {
            return error_no_memory(error, (size_t)PIECE_COUNT * sizeof *moving->staging,
                                   "a part of the model's state");
        }
    }
    for (size_t buffer = 0; buffer < contents[moving->kind].count; buffer++) {
        for (size_t i = 0; i < state->table->count; i++) {
            TRY(move_param(moving, buffer, &state->table->params[i], error));
        }
    }
    return state->device->status(state->device, error);
}

static enum berth_status move_in(struct moving *moving, const char *folder,
                                 struct berth_error *error) {
    char *path = path_join(folder, contents[moving->kind].name);
    if (path == NULL) {
        return file_no_path(error);
    }
    moving->path = path;
    enum berth_status status = safetensors_open(&moving->file, path, error);
    if (status == BERTH_OK) {
        if (moving->fills) {
            status = file_ranges_open(&moving->ranges, path, error);
        }
        if (status == BERTH_OK) {
            status = move_all(moving, error);
        }
        status = file_ranges_close(&moving->ranges, status, error);
        safetensors_close(&moving->file);
    }
    memory_free(moving->staging);
    memory_free(path);
    return status;
}

enum berth_status state_file_fill(enum state_file file, const struct state *state,
                                  const char *folder, struct berth_error *error) {
    struct moving moving = {
        .state = state, .kind = file, .ranges = {.descriptor = -1}, .move = fill_piece, .fills = 1};
    return move_in(&moving, folder, error);
}

enum berth_status state_file_read_moments(struct state *state, const char *folder,
                                          struct berth_error *error) {
    struct moving moving = {.state = state,
                            .kind = STATE_FILE_MOMENTS,
                            .ranges = {.descriptor = -1},
                            .move = read_piece};
    return move_in(&moving, folder, error);
}

enum berth_status state_file_take_moments(struct state *state, const struct moments_source *source,
                                          struct berth_error *error) {
    struct moving moving = {
        .state = state, .kind = STATE_FILE_MOMENTS, .move = take_piece, .source = source};
    const enum berth_status status = move_all(&moving, error);
    memory_free(moving.staging);
    return status;
}
