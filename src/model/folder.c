// SPDX-License-Identifier: Apache-2.0
// A Hugging Face model folder: weights (the tokenizer's files are in folder_tokenizer.c).
#include "model/folder.h"

#include "core/file.h"
#include "core/memory.h"
#include "format/safetensors.h"
#include "format/shards.h"
#include "format/tensor_file.h"
#include "format/tensorflow.h"
#include "model/names.h"

#include <stdio.h>
#include <string.h>

#define WEIGHTS_FILE "model.safetensors"
#define NAME_SIZE 128

void folder_report_done(struct folder_report *report) {
    memory_free(report->missing);
    memory_free(report->unexpected);
    *report = (struct folder_report){0};
}

// A list of the report while it grows: a stranger's file may hold very many names.
struct lines {
    char *text;
    size_t length, capacity;
};

static enum berth_status add_line(struct lines *lines, const char *name,
                                  struct berth_error *error) {
    size_t length = strlen(name);
    if (lines->length + length + 2 > lines->capacity) {
        size_t capacity = 2 * (lines->length + length) + 256;
        char *grown = memory_resize(lines->text, capacity, 1);
        if (grown == NULL) {
            return error_no_memory(error, capacity, "the list of tensors");
        }
        lines->text = grown;
        lines->capacity = capacity;
    }
    if (lines->length > 0) {
        lines->text[lines->length++] = '\n';
    }
    memcpy(lines->text + lines->length, name, length + 1);
    lines->length += length;
    return BERTH_OK;
}

// --- opening ------------------------------------------------------------------------------------

static int holds(const char *folder, const char *name) {
    char *path = path_join(folder, name);
    int found = path != NULL && file_exists(path);
    memory_free(path);
    return found;
}

// A TensorFlow checkpoint, or the error that `path`, the usual file, is not there.
static enum berth_status open_other(const char *folder, struct tensor_file *file, const char *path,
                                    struct berth_error *error) {
    char *index = NULL;
    if (dir_exists(folder)) {
        TRY(tensorflow_find(folder, &index, error));
    }
    enum berth_status status = tensor_file_open(file, index != NULL ? index : path, error);
    memory_free(index);
    return status;
}

char *folder_config_path(const char *folder) {
    char *path = path_join(folder, "config.json");
    char *google = path_join(folder, "bert_config.json");
    if (path != NULL && google != NULL && !file_exists(path) && file_exists(google)) {
        memory_free(path);
        return google;
    }
    memory_free(google);
    return path;
}

// The first that a folder holds is its weights.
static const char *const weights_files[] = {WEIGHTS_FILE, (WEIGHTS_FILE SHARDS_ENDING),
                                            "pytorch_model.bin",
                                            ("pytorch_model.bin" SHARDS_ENDING)};

enum berth_status folder_open_weights(const char *folder, struct tensor_file *file,
                                      struct berth_error *error) {
    enum { COUNT = sizeof weights_files / sizeof *weights_files };
    size_t found = 0;
    while (found < COUNT && !holds(folder, weights_files[found])) {
        found++;
    }
    char *path = path_join(folder, found < COUNT ? weights_files[found] : WEIGHTS_FILE);
    if (path == NULL) {
        return error_set(error, BERTH_NO_MEMORY, "out of memory for a file name");
    }
    enum berth_status status =
        found < COUNT ? tensor_file_open(file, path, error) : open_other(folder, file, path, error);
    memory_free(path);
    return status;
}

// --- matching names -----------------------------------------------------------------------------

// The entry of a parameter; NULL: none.
struct found {
    const struct tensor_entry *entry;
    int transposed; // its matrix is the transpose of the parameter
};

// Everything a reading of weights needs; found[i] is that of params[i].
struct reading {
    struct tensor_file file;
    const struct param_table *table;
    struct found *found;
    struct lines missing, unexpected;
    size_t loaded;
};

static enum berth_status match_entry(struct reading *reading, const struct tensor_entry *entry,
                                     struct berth_error *error) {
    char name[NAME_SIZE];
    enum name_use use = name_translate(entry->name, name, sizeof name);
    if (use == NAME_DROPPED) {
        return BERTH_OK;
    }
    const struct param *param = param_table_find(reading->table, name);
    if (param == NULL) {
        return add_line(&reading->unexpected, entry->name, error);
    }
    struct found *found = &reading->found[param - reading->table->params];
    if (found->entry != NULL) {
        return error_set(error, BERTH_BAD_DATA, "%s: tensors \"%s\" and \"%s\" are both %s",
                         reading->file.path, found->entry->name, entry->name, name);
    }
    *found = (struct found){.entry = entry, .transposed = use == NAME_TRANSPOSED};
    return BERTH_OK;
}

static void print_shape(char *text, size_t size, const int64_t *shape, int rank) {
    size_t used = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < rank && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)shape[i]);
    }
    if (used < size) {
        snprintf(text + used, size - used, "]");
    }
}

static enum berth_status check_shape(const struct reading *reading, const struct param *param,
                                     const struct found *match, struct berth_error *error) {
    const struct tensor_entry *entry = match->entry;
    int64_t expected[2] = {param->rows, param->cols};
    if (match->transposed) {
        expected[0] = param->cols;
        expected[1] = param->rows;
    }
    const int64_t *shape = param->rank == 2 ? expected : expected + 1;
    if (entry->rank == param->rank &&
        memcmp(entry->shape, shape, (size_t)param->rank * sizeof *shape) == 0) {
        return BERTH_OK;
    }
    char wanted[64], found[256];
    print_shape(wanted, sizeof wanted, shape, param->rank);
    print_shape(found, sizeof found, entry->shape, entry->rank);
    return error_set(error, BERTH_BAD_DATA,
                     "%s: tensor \"%s\": expected the shape %s, found %s: the weights do not fit "
                     "the config.json",
                     reading->file.path, entry->name, wanted, found);
}

static int is_body(const struct param *param) {
    return strncmp(param->name, "bert.", 5) == 0;
}

static enum berth_status check_body(const struct reading *reading, struct berth_error *error) {
    const struct param *first = NULL;
    size_t missing = 0;
    for (size_t i = 0; i < reading->table->count; i++) {
        const struct param *param = &reading->table->params[i];
        if (reading->found[i].entry == NULL && is_body(param)) {
            first = first == NULL ? param : first;
            missing++;
        }
    }
    return missing == 0
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: tensor \"%s\" is missing (%zu in all): these are not the weights "
                           "of a BERT of this config.json",
                           reading->file.path, first->name, missing);
}

static enum berth_status match_names(struct reading *reading, struct berth_error *error) {
    for (size_t i = 0; i < reading->file.count; i++) {
        TRY(match_entry(reading, &reading->file.entries[i], error));
    }
    TRY(check_body(reading, error));
    for (size_t i = 0; i < reading->table->count; i++) {
        if (reading->found[i].entry != NULL) {
            TRY(check_shape(reading, &reading->table->params[i], &reading->found[i], error));
        } else {
            TRY(add_line(&reading->missing, reading->table->params[i].name, error));
        }
    }
    return BERTH_OK;
}

// --- reading ------------------------------------------------------------------------------------

static enum berth_status read_tensor(const struct tensor_file *file, const struct found *found,
                                     const struct param *param, float *to,
                                     struct berth_error *error) {
    int64_t count = param->rows * param->cols;
    if (!found->transposed) {
        return tensor_file_read_f32(file, found->entry, 0, count, to, error);
    }
    float *theirs = memory_array((size_t)count, sizeof *theirs);
    if (theirs == NULL) {
        return error_no_memory(error, (size_t)count * sizeof *theirs, param->name);
    }
    enum berth_status status = tensor_file_read_f32(file, found->entry, 0, count, theirs, error);
    if (status == BERTH_OK) {
        tensor_transpose(theirs, param->cols, param->rows, sizeof *theirs, to);
    }
    memory_free(theirs);
    return status;
}

static enum berth_status read_tensors(struct reading *reading, const struct bert_config *config,
                                      uint64_t seed, float *buffer, struct berth_error *error) {
    memset(buffer, 0, (size_t)reading->table->total * sizeof *buffer);
    for (size_t i = 0; i < reading->table->count; i++) {
        const struct param *param = &reading->table->params[i];
        if (reading->found[i].entry == NULL) {
            param_initialise_one(param, config, seed, buffer);
            continue;
        }
        TRY(read_tensor(&reading->file, &reading->found[i], param, buffer + param->offset, error));
        reading->loaded++;
    }
    return BERTH_OK;
}

enum berth_status folder_read_weights(const char *folder, const struct bert_config *config,
                                      const struct param_table *table, uint64_t seed, float *buffer,
                                      struct folder_report *report, struct berth_error *error) {
    struct reading reading = {.table = table};
    *report = (struct folder_report){0};
    TRY(folder_open_weights(folder, &reading.file, error));
    enum berth_status status;
    reading.found = memory_array_zeroed(table->count, sizeof *reading.found);
    if (reading.found == NULL) {
        status = error_no_memory(error, table->count * sizeof *reading.found, folder);
        goto done;
    }
    TRY_DONE(match_names(&reading, error));
    TRY_DONE(read_tensors(&reading, config, seed, buffer, error));
    *report = (struct folder_report){.missing = reading.missing.text,
                                     .unexpected = reading.unexpected.text,
                                     .loaded = reading.loaded,
                                     .ignored_keys = reading.file.ignored_keys};
done:
    if (status != BERTH_OK) {
        memory_free(reading.missing.text);
        memory_free(reading.unexpected.text);
    }
    memory_free(reading.found);
    tensor_file_close(&reading.file);
    return status;
}

// --- writing ------------------------------------------------------------------------------------

static enum berth_status write_tensors(const char *path, const struct param_table *table,
                                       const float *buffer, struct berth_error *error) {
    // transformers refuses a file that does not name its format.
    static const char *const metadata[] = {"format", "pt", NULL};
    struct tensor_out *tensors = memory_array_zeroed(table->count, sizeof *tensors);
    if (tensors == NULL) {
        return error_no_memory(error, table->count * sizeof *tensors, path);
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct param *param = &table->params[i];
        tensors[i] = (struct tensor_out){.name = param->name,
                                         .dtype = TENSOR_F32,
                                         .rank = param->rank,
                                         .shape = {param->rows, param->cols},
                                         .data = buffer + param->offset};
        if (param->rank == 1) {
            tensors[i].shape[0] = param->cols;
        }
    }
    enum berth_status status = safetensors_write(path, tensors, table->count, metadata, error);
    memory_free(tensors);
    return status;
}

enum berth_status folder_write_weights(const char *folder, const struct bert_config *config,
                                       const struct param_table *table, const float *buffer,
                                       struct berth_error *error) {
    char *config_path = path_join(folder, "config.json");
    char *weights_path = path_join(folder, WEIGHTS_FILE);
    enum berth_status status;
    if (config_path == NULL || weights_path == NULL) {
        status = error_set(error, BERTH_NO_MEMORY, "out of memory for a file name");
        goto done;
    }
    const char *architecture = table->head_weight >= 0 ? "BertForQuestionAnswering" : "BertModel";
    TRY_DONE(bert_config_write(config, architecture, config_path, error));
    TRY_DONE(write_tensors(weights_path, table, buffer, error));
done:
    memory_free(config_path);
    memory_free(weights_path);
    return status;
}

enum berth_status folder_check_vocab(const struct bert_config *config, const char *config_path,
                                     int64_t vocab_size, const char *vocab_path,
                                     struct berth_error *error) {
    static const int64_t paddings[] = {1, 8, 64, 128};
    for (size_t i = 0; i < sizeof paddings / sizeof *paddings; i++) {
        int64_t rows = (vocab_size + paddings[i] - 1) / paddings[i] * paddings[i];
        if (rows == config->vocab_size) {
            return BERTH_OK;
        }
    }
    return error_set(error, BERTH_CONFIG,
                     "%s has %lld entries, but \"vocab_size\" in %s is %lld: the vocabulary does "
                     "not belong to this model; use the one it was trained with",
                     vocab_path, (long long)vocab_size, config_path, (long long)config->vocab_size);
}
