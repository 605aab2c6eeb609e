// SPDX-License-Identifier: Apache-2.0
// Writes model.safetensors and the checkpoints of training programs: PyTorch's, NVIDIA's,
// DeepSpeed's and TensorFlow's.
#include "api/conversion.h"
#include "core/file.h"
#include "core/memory.h"
#include "format/deepspeed/deepspeed.h"
#include "format/safetensors/safetensors.h"
#include "format/tensorflow/tensorflow.h"
#include "format/torch/torch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof *(array))

typedef enum berth_status write_tensors(const struct conversion *conversion, const char *path,
                                        const struct outgoing *outgoing, struct berth_error *error);

// Reads the tensors and passes them to `write` for FOLDER/NAME.
static enum berth_status write_as(const struct conversion *conversion, const char *name,
                                  write_tensors *write, struct berth_error *error) {
    struct outgoing outgoing;
    char *path = path_join(conversion->folder, name);
    if (path == NULL) {
        return file_no_path(error);
    }
    enum berth_status status = outgoing_read(conversion, &outgoing, error);
    if (status == BERTH_OK) {
        status = write(conversion, path, &outgoing, error);
        outgoing_done(&outgoing);
    }
    memory_free(path);
    return status;
}

// --- safetensors --------------------------------------------------------------------------------

// The source's own metadata, so that a file is reproduced byte for byte; else what transformers
// requires.
static const char *const *metadata_of(const struct conversion *conversion) {
    static const char *const usual[] = {"format", "pt", NULL};
    return outgoing_is_copy(conversion)
               ? (const char *const *)((const struct safetensors *)
                                           conversion->weights.file.container)
                     ->metadata
               : usual;
}

static enum berth_status write_safetensors(const struct conversion *conversion, const char *path,
                                           const struct outgoing *outgoing,
                                           struct berth_error *error) {
    return safetensors_write(path, outgoing->list, outgoing->count, metadata_of(conversion), error);
}

enum berth_status convert_to_hf(const struct conversion *conversion, struct berth_error *error) {
    return write_as(conversion, "model.safetensors", write_safetensors, error);
}

// --- PyTorch ------------------------------------------------------------------------------------

static struct torch_node state_dict(const char *key, const struct outgoing *outgoing) {
    return (struct torch_node){
        .key = key, .kind = TORCH_TENSORS, .count = outgoing->count, .tensors = outgoing->list};
}

static enum berth_status write_state_dict(const struct conversion *conversion, const char *path,
                                          const struct outgoing *outgoing,
                                          struct berth_error *error) {
    struct torch_node root = state_dict(NULL, outgoing);
    return torch_write(path, &root, error);
}

enum berth_status convert_to_torch(const struct conversion *conversion, struct berth_error *error) {
    return write_as(conversion, "pytorch_model.bin", write_state_dict, error);
}

// --- NVIDIA -------------------------------------------------------------------------------------

static enum berth_status write_nvidia(const struct conversion *conversion, const char *path,
                                      const struct outgoing *outgoing, struct berth_error *error) {
    struct torch_node model = state_dict("model", outgoing);
    struct torch_node root = {.kind = TORCH_DICT, .count = 1, .children = &model};
    return torch_write(path, &root, error);
}

enum berth_status convert_to_nvidia(const struct conversion *conversion,
                                    struct berth_error *error) {
    char name[48];
    snprintf(name, sizeof name, "ckpt_%" PRId64 ".pt", conversion->step);
    return write_as(conversion, name, write_nvidia, error);
}

// --- TensorFlow ---------------------------------------------------------------------------------

static enum berth_status write_bundle(const struct conversion *conversion, const char *path,
                                      const struct outgoing *outgoing, struct berth_error *error) {
    return tensorflow_write(path, outgoing->list, outgoing->count, error);
}

enum berth_status convert_to_tensorflow(const struct conversion *conversion,
                                        struct berth_error *error) {
    return write_as(conversion, "bert_model.ckpt", write_bundle, error);
}

// --- DeepSpeed ----------------------------------------------------------------------------------

// What DeepSpeed's engine requires in a checkpoint of one process without an optimizer.
static enum berth_status write_states(const struct conversion *conversion, const char *path,
                                      const struct outgoing *outgoing, struct berth_error *error) {
    const struct torch_node children[] = {
        state_dict("module", outgoing),
        {.key = "buffer_names", .kind = TORCH_LIST},
        {.key = "optimizer", .kind = TORCH_NONE},
        {.key = "param_shapes", .kind = TORCH_NONE},
        {.key = "frozen_param_shapes", .kind = TORCH_NONE},
        {.key = "shared_params", .kind = TORCH_NONE},
        {.key = "frozen_param_fragments", .kind = TORCH_NONE},
        {.key = "lr_scheduler", .kind = TORCH_NONE},
        {.key = "data_sampler", .kind = TORCH_NONE},
        {.key = "random_ltd", .kind = TORCH_NONE},
        {.key = "sparse_tensor_module_names", .kind = TORCH_LIST},
        {.key = "skipped_steps", .kind = TORCH_INTEGER},
        {.key = "global_steps", .kind = TORCH_INTEGER, .integer = conversion->step},
        {.key = "global_samples", .kind = TORCH_INTEGER},
        {.key = "dp_world_size", .kind = TORCH_INTEGER, .integer = 1},
        {.key = "mp_world_size", .kind = TORCH_INTEGER, .integer = 1},
        {.key = "ds_config", .kind = TORCH_DICT},
    };
    struct torch_node root = {.kind = TORCH_DICT, .count = LENGTH(children), .children = children};
    return torch_write(path, &root, error);
}

static enum berth_status write_latest(const struct conversion *conversion, const char *tag,
                                      struct berth_error *error) {
    char *latest = path_join(conversion->folder, "latest");
    enum berth_status status =
        latest != NULL ? file_write(latest, tag, strlen(tag), error) : file_no_path(error);
    memory_free(latest);
    return status;
}

enum berth_status convert_to_deepspeed(const struct conversion *conversion,
                                       struct berth_error *error) {
    char tag[48], name[96];
    snprintf(tag, sizeof tag, "global_step%" PRId64, conversion->step);
    snprintf(name, sizeof name, "%s/%s", tag, DEEPSPEED_STATES);
    char *folder = path_join(conversion->folder, tag);
    if (folder == NULL) {
        return file_no_path(error);
    }
    enum berth_status status = dir_make(folder, error);
    memory_free(folder);
    TRY(status);
    TRY(write_as(conversion, name, write_states, error));
    return write_latest(conversion, tag, error);
}
