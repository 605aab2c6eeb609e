// SPDX-License-Identifier: Apache-2.0
// Finds the file of a folder that holds its weights, or names what it has instead.
#include "core/file.h"
#include "core/memory.h"
#include "core/words.h"
#include "format/containers/containers.h"
#include "format/containers/shards.h"
#include "model/folder.h"

#include <string.h>

// The first of these that exists holds the weights.
static const char *const weights_files[] = {FOLDER_WEIGHTS, (FOLDER_WEIGHTS SHARDS_ENDING),
                                            "pytorch_model.bin",
                                            ("pytorch_model.bin" SHARDS_ENDING)};

// The path of the weights: a file of the list, or else one whose format has no fixed file name;
// NULL if there are none.
static enum berth_status find_weights(const char *folder, char **path, struct berth_error *error) {
    enum { COUNT = sizeof weights_files / sizeof *weights_files };
    for (size_t i = 0; i < COUNT; i++) {
        *path = path_join(folder, weights_files[i]);
        if (*path == NULL) {
            return path_no_memory(error);
        }
        if (file_exists(*path)) {
            return BERTH_OK;
        }
        memory_free(*path);
    }
    return tensor_file_find_in(folder, path, error);
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
     "merge both with merge_and_unload and save_pretrained"},
    {"adapter_model.bin", "an adapter of PEFT without its model",
     "merge both with merge_and_unload and save_pretrained"},
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

static enum berth_status open_path(const char *path, struct tensor_file *file,
                                   struct berth_error *error) {
    if (file_exists(path)) {
        TRY(refuse_foreign(path, NULL, error));
    }
    return tensor_file_open(file, path, error);
}

enum berth_status folder_open_weights(const char *path, struct tensor_file *file,
                                      struct berth_error *error) {
    char *found = NULL;
    if (!dir_exists(path)) {
        return open_path(path, file, error);
    }
    TRY(find_weights(path, &found, error));
    if (found == NULL) {
        TRY(dir_each(path, refuse_foreign, NULL, error));
        return error_set(error, BERTH_NO_INPUT,
                         "%s: no weights in this folder: expected " FOLDER_WEIGHTS
                         ", pytorch_model.bin, an index of either split into several files, a "
                         "TensorFlow checkpoint, ckpt_<step>.pt or DeepSpeed's \"latest\"",
                         path);
    }
    enum berth_status status = tensor_file_open(file, found, error);
    memory_free(found);
    return status;
}
