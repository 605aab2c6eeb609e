// SPDX-License-Identifier: Apache-2.0
// Writes model.safetensors and the checkpoints of training programs: PyTorch's, NVIDIA's and
// TensorFlow's. convert_deepspeed.c writes DeepSpeed's. Called by the rows of convert_targets.c
// with tensors that convert_tensors.c has collected.
#include "api/conversion.h"
#include "core/file.h"
#include "core/memory.h"
#include "format/safetensors/safetensors.h"
#include "format/tensorflow/tensorflow.h"
#include "format/torch/torch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef enum berth_status write_tensors(const struct conversion *conversion, const char *path,
                                        const struct outgoing *outgoing, struct berth_error *error);

// Reads the tensors and passes them to `write` for FOLDER/NAME.
static enum berth_status write_as(const struct conversion *conversion, const char *name,
                                  write_tensors *write, struct berth_error *error) {
    struct outgoing outgoing DONE_BY(outgoing_done) = {0};
    TRY(outgoing_read(conversion, &outgoing, error));
    return write(conversion, path_in(conversion->folder, name).text, &outgoing, error);
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
