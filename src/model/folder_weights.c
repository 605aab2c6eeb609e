// SPDX-License-Identifier: Apache-2.0
// Finds the one file or index in a folder that has the model's weights, by the names that
// frameworks use and their order of preference. weights.c then reads its tensors. A folder that has
// only what Berth cannot read (Flax, another model's file) gets an error that says so.
#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "format/containers/containers.h"
#include "format/containers/shards.h"
#include "model/adapter.h"
#include "model/folder.h"

#include <string.h>

// The first of these that exists holds the weights.
static const char *const weights_files[] = {FOLDER_WEIGHTS, (FOLDER_WEIGHTS SHARDS_ENDING),
                                            "pytorch_model.bin",
                                            ("pytorch_model.bin" SHARDS_ENDING)};
// Names that training scripts give, where there is nothing else: torch's tutorials, and Lightning's
// newest checkpoint.
static const char *const script_files[] = {"model.pt", "last.ckpt"};
#define COUNT(list) (sizeof(list) / sizeof *(list))

// The path of the first file of the list that exists; NULL: none.
static enum berth_status find_file(const char *folder, const char *const *list, size_t count,
                                   char **path, struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        *path = path_join(folder, list[i]);
        if (*path == NULL) {
            return error_no_memory(error, 0, "a path");
        }
        if (file_exists(*path)) {
            return BERTH_OK;
        }
        memory_free(*path);
    }
    *path = NULL;
    return BERTH_OK;
}

// The path of the weights: a file of the first list, or else one whose format has no fixed file
// name, or else one of the other list; NULL if there are none.
static enum berth_status find_own(const char *folder, char **path, struct berth_error *error) {
    TRY(find_file(folder, weights_files, COUNT(weights_files), path, error));
    if (*path == NULL) {
        TRY(tensor_file_find_in(folder, path, error));
    }
    return *path != NULL ? BERTH_OK
                         : find_file(folder, script_files, COUNT(script_files), path, error);
}

// The same; those of an adapter's model may be in the folder that the adapter names.
static enum berth_status find_weights(const char *folder, char **path, struct berth_error *error) {
    char *base = NULL;
    TRY(find_own(folder, path, error));
    enum berth_status status = *path == NULL ? adapter_find_base(folder, &base, error) : BERTH_OK;
    if (base != NULL) {
        status = find_own(base, path, error);
    }
    memory_free(base);
    return status;
}

enum berth_status folder_holds_weights(const char *folder, int *found, struct berth_error *error) {
    char *path = NULL;
    enum berth_status status = dir_exists(folder) ? find_weights(folder, &path, error) : BERTH_OK;
    // Several candidates are an error, but they do mean that the folder holds weights.
    *found = path != NULL || status != BERTH_OK;
    memory_free(path);
    return status == BERTH_NO_INPUT ? BERTH_OK : status;
}

// --- weights of other programs ------------------------------------------------------------------

// Weight files that Berth does not read, by name ('*': by suffix), and the remedy.
static const struct foreign_row {
    const char *name, *what, *remedy;
} foreign_rows[] = {
    {"tf_model.h5", "a file of weights for Keras",
     "load it with from_pretrained(..., from_tf=True) of transformers 4 and save_pretrained"},
    {"flax_model.msgpack", "a file of weights for Flax",
     "load it with from_pretrained(..., from_flax=True) of transformers 4 and save_pretrained"},
    {"adapter_model.safetensors", "an adapter of PEFT without its model",
     "name its folder, with its adapter_config.json"},
    {"adapter_model.bin", "an adapter of PEFT without its model",
     "name its folder, with its adapter_config.json"},
    {"*.distcp", "a shard of torch.distributed.checkpoint (FSDP)",
     "join the shards: python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER "
     "FOLDER/pytorch_model.bin"},
    {"bert_model.ckpt", "a TensorFlow checkpoint of version 1",
     "restore it with tf.compat.v1.train.Saver and save it with the Saver's usual version 2"},
    {"saved_model.pb", "a SavedModel of TensorFlow",
     "save its variables by name with tf.compat.v1.train.Saver"},
    {"*.onnx", "an ONNX graph", "use the model that it was exported from"},
    {"*.gguf", "a GGUF file", "use the model that it was exported from"},
};

static int has_name(const struct foreign_row *row, const char *name) {
    return row->name[0] == '*' ? name_has_suffix(name, row->name + 1)
                               : strcmp(name, row->name) == 0;
}

static enum berth_status refuse_foreign(const char *path, void *context,
                                        struct berth_error *error) {
    for (size_t i = 0; i < sizeof foreign_rows / sizeof *foreign_rows; i++) {
        const struct foreign_row *row = &foreign_rows[i];
        if (has_name(row, path_name(path))) {
            return error_set(error, BERTH_BAD_DATA, "%s: this is %s, which Berth does not read; %s",
                             path, row->what, row->remedy);
        }
    }
    return BERTH_OK;
}

// --- weights under other names ------------------------------------------------------------------

// Whether a file of that name may hold a model's weights.
static int may_be_weights(const char *name) {
    static const char *const endings[] = {".safetensors", ".bin", ".pt", ".pth", ".ckpt"};
    static const char *const others[] = {"optimizer", "scheduler",     "scaler",
                                         "rng_state", "training_args", "random_states"};
    int may = 0;
    for (size_t i = 0; i < COUNT(endings); i++) {
        may |= name_has_suffix(name, endings[i]);
    }
    for (size_t i = 0; i < COUNT(others); i++) {
        may &= strncmp(name, others[i], strlen(others[i])) != 0;
    }
    return may;
}

static enum berth_status refuse_renamed(const char *path, void *context,
                                        struct berth_error *error) {
    return !may_be_weights(path_name(path)) || !file_exists(path)
               ? BERTH_OK
               : error_set(error, BERTH_NO_INPUT,
                           "%s: no weights under a usual name in this folder; if they are in "
                           "\"%s\", name that file instead of the folder: %s",
                           (const char *)context, path_name(path), path);
}

enum berth_status folder_open_weights(const char *path, struct tensor_file *file,
                                      struct berth_error *error) {
    char *found = NULL;
    if (!dir_exists(path)) {
        if (file_exists(path)) {
            TRY(refuse_foreign(path, NULL, error));
        }
        return tensor_file_open(file, path, error);
    }
    int is_adapter;
    TRY(adapter_is_in(path, &is_adapter, error));
    TRY(find_weights(path, &found, error));
    if (found == NULL && is_adapter) {
        return error_set(error, BERTH_NO_INPUT,
                         "%s: this adapter's model is neither in the folder nor, by the name in "
                         "\"base_model_name_or_path\" of its " ADAPTER_CONFIG
                         ", a folder or a model in the cache; write the model's folder there",
                         path);
    }
    if (found == NULL) {
        TRY(dir_each(path, refuse_foreign, NULL, error));
        TRY(dir_each(path, refuse_renamed, (void *)path, error));
        return error_set(error, BERTH_NO_INPUT,
                         "%s: no weights in this folder: expected " FOLDER_WEIGHTS
                         ", pytorch_model.bin, an index of either split into several files, a "
                         "TensorFlow checkpoint, ckpt_<step>.pt or DeepSpeed's \"latest\"",
                         path);
    }
    enum berth_status status = tensor_file_open(file, found, error);
    memory_free(found);
    if (status == BERTH_OK && is_adapter) {
        status = adapter_merge(path, file, error);
        if (status != BERTH_OK) {
            tensor_file_close(file);
        }
    }
    return status;
}
