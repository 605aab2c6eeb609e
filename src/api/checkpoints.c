// SPDX-License-Identifier: Apache-2.0
// Checkpoints as files: lists tensors, verifies hashes, writes a new model with random weights.
#include "api/arguments.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/words.h"
#include "format/containers/containers.h"
#include "format/deepspeed/deepspeed.h"
#include "format/hdf5/hdf5.h"
#include "format/json/json.h"
#include "model/config.h"
#include "model/folder.h"
#include "model/params.h"
#include "train/checkpoint/checkpoint.h"
#include "train/machine/cores.h"
#include "train/machine/machine.h"

#include <string.h>

// --- inspect -------------------------------------------------------------------------------------

typedef void visitor(void *context, const struct berth_tensor_info *info);

static void visit_tensor(const struct berth_tensor_info *info, visitor *visit, void *context) {
    if (visit != NULL) {
        visit(context, info);
    }
}

static void visit_entry(const struct tensor_entry *entry, visitor *visit, void *context) {
    struct berth_tensor_info info = {.name = entry->name,
                                     .dtype = entry->dtype_name,
                                     .rank = entry->rank,
                                     .bytes = entry->end - entry->begin};
    memcpy(info.shape, entry->shape, sizeof info.shape);
    visit_tensor(&info, visit, context);
}

static void visit_dataset(const struct hdf5_dataset *set, visitor *visit, void *context) {
    struct berth_tensor_info info = {.name = set->name,
                                     .dtype = tensor_dtype_name(set->dtype),
                                     .rank = set->rank,
                                     .bytes = set->bytes};
    memcpy(info.shape, set->shape, sizeof info.shape);
    visit_tensor(&info, visit, context);
}

// Pre-training data: lists the data sets of an HDF5 file.
static enum berth_status inspect_hdf5(const char *path, visitor *visit, void *context,
                                      struct berth_error *error) {
    struct hdf5_file file;
    TRY(hdf5_open(&file, path, error));
    for (size_t i = 0; i < file.count; i++) {
        visit_dataset(&file.sets[i], visit, context);
    }
    hdf5_close(&file);
    return BERTH_OK;
}

static enum berth_status inspect_file(const char *path, visitor *visit, void *context,
                                      struct berth_error *error) {
    struct tensor_file file;
    int is_hdf5;
    TRY(hdf5_recognise(path, &is_hdf5, error));
    if (is_hdf5) {
        return inspect_hdf5(path, visit, context, error);
    }
    TRY(tensor_file_open(&file, path, error));
    for (size_t i = 0; i < file.count; i++) {
        visit_entry(&file.entries[i], visit, context);
    }
    tensor_file_close(&file);
    return BERTH_OK;
}

// One of a folder's weight files. training_args.bin, which transformers leaves there, has no
// tensors.
static int is_container(const char *name) {
    static const char *const endings[] = {".safetensors", ".index", ".bin", ".pt"};
    int found = 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        found |= name_has_suffix(name, endings[i]);
    }
    return found && strcmp(name, "training_args.bin") != 0;
}

static enum berth_status inspect_member(const char *folder, const char *name, visitor *visit,
                                        void *context, struct berth_error *error) {
    char *path = path_join(folder, name);
    if (path == NULL) {
        return path_no_memory(error);
    }
    enum berth_status status = inspect_file(path, visit, context, error);
    memory_free(path);
    return status;
}

static enum berth_status read_config(const char *folder, char **config_json,
                                     struct berth_error *error) {
    char *path = folder_config_path(folder);
    if (path == NULL) {
        return path_no_memory(error);
    }
    size_t length;
    enum berth_status status = BERTH_OK;
    if (file_exists(path)) {
        status = file_read(path, JSON_FILE_LIMIT, config_json, &length, error);
    }
    memory_free(path);
    return status;
}

static enum berth_status inspect_members(const char *folder, visitor *visit, void *context,
                                         struct berth_error *error) {
    char **names;
    size_t containers = 0;
    enum berth_status status = BERTH_OK;
    TRY(dir_list(folder, &names, error));
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        if (is_container(names[i])) {
            containers++;
            status = inspect_member(folder, names[i], visit, context, error);
        }
    }
    memory_free(names);
    if (status == BERTH_OK && containers == 0) {
        return error_set(
            error, BERTH_NO_INPUT,
            "%s: nothing to inspect in this folder: expected .safetensors, .bin or .pt files, a "
            "TensorFlow checkpoint, or files *.hdf5 or *.tfrecord of pre-training data",
            folder);
    }
    return status;
}

// A DeepSpeed folder has several files of one model, one of which is read.
static enum berth_status inspect_folder(const char *folder, visitor *visit, void *context,
                                        struct berth_error *error) {
    char *states;
    TRY(deepspeed_find(folder, &states, error));
    enum berth_status status = states != NULL ? inspect_file(states, visit, context, error)
                                              : inspect_members(folder, visit, context, error);
    memory_free(states);
    return status;
}

enum berth_status berth_inspect(const char *path, visitor *tensor, void *context,
                                char **config_json, struct berth_error *error) {
    char *config = NULL;
    enum berth_status status;
    if (config_json != NULL) {
        *config_json = NULL;
    }
    REQUIRE(path, error);
    if (!dir_exists(path)) {
        return inspect_file(path, tensor, context, error);
    }
    TRY_DONE(read_config(path, &config, error));
    if (tensor != NULL) { // otherwise the weights are not read
        TRY_DONE(inspect_folder(path, tensor, context, error));
    }
    if (config_json != NULL) {
        *config_json = config;
        config = NULL;
    }
done:
    memory_free(config);
    return status;
}

// --- verify --------------------------------------------------------------------------------------

enum berth_status berth_verify(const char *path, int64_t *files, struct berth_error *error) {
    int64_t unwanted;
    REQUIRE(path, error);
    TRY(dir_require(path, "a checkpoint's folder", error));
    return checkpoint_verify(path, files != NULL ? files : &unwanted, error);
}

// --- init ----------------------------------------------------------------------------------------

static enum berth_status write_weights(const char *folder, const struct bert_config *config,
                                       const struct param_table *table, uint64_t seed,
                                       struct berth_error *error) {
    const int threads = cores_threads(0);
    TRY(machine_start_threads(threads, error));
    size_t bytes = (size_t)table->total * sizeof(float);
    float *buffer = memory_pages(bytes);
    if (buffer == NULL) {
        return error_no_memory(error, bytes, "the weights");
    }
    param_initialise(table, config, seed, buffer, threads);
    enum berth_status status = folder_write_weights(folder, config, table, buffer, error);
    memory_pages_free(buffer, bytes);
    return status;
}

// Refuses a folder that already contains a model.
static enum berth_status check_free(const char *folder, struct berth_error *error) {
    int taken;
    TRY(folder_holds_weights(folder, &taken, error));
    return taken
               ? error_set(error, BERTH_CANT_CREATE,
                           "%s: already contains a model; give another folder or remove it", folder)
               : BERTH_OK;
}

static enum berth_status write_model(const char *folder, const struct bert_config *config,
                                     uint64_t seed, struct berth_error *error) {
    struct param_table table;
    struct file_lock lock = {.descriptor = -1};
    int is_new = !dir_exists(folder);
    TRY(param_table_init(&table, config, PARAM_HEAD_SPAN, error));
    enum berth_status status;
    TRY_DONE(dir_make(folder, error));
    TRY_DONE(file_lock_acquire(&lock, folder, error));
    TRY_DONE(check_free(folder, error));
    TRY_DONE(write_weights(folder, config, &table, seed, error));
done:
    if (status != BERTH_OK && is_new && lock.descriptor >= 0) {
        (void)dir_remove(folder, NULL); // do not leave half a model
    }
    file_lock_release(&lock);
    param_table_done(&table);
    return status;
}

enum berth_status berth_init_model(const char *name_or_file, const char *output_dir, int64_t seed,
                                   struct berth_error *error) {
    struct bert_config config = {0};
    REQUIRE(name_or_file, error);
    REQUIRE(output_dir, error);
    TRY(folder_read_shape(name_or_file, &config, error));
    enum berth_status status;
    TRY_DONE(check_free(output_dir, error));
    TRY_DONE(write_model(output_dir, &config, (uint64_t)seed, error));
done:
    bert_config_done(&config);
    return status;
}
