// SPDX-License-Identifier: Apache-2.0
// The table of weight formats. A file is opened by the first row that recognises it. model/folder.h
// and the jobs on tensors open files through it.
#include "format/containers/containers.h"

#include "format/containers/shards.h"
#include "format/deepspeed/deepspeed.h"
#include "format/safetensors/safetensors.h"
#include "format/tensorflow/tensorflow.h"
#include "format/torch/torch.h"

static const struct tensor_format *const rows[] = {&tensor_shards_format, &safetensors_format,
                                                   &deepspeed_format,     &torch_zip_format,
                                                   &torch_legacy_format,  &tensorflow_format};

static const struct tensor_formats formats = {
    .rows = rows,
    .count = sizeof rows / sizeof *rows,
    .names = "safetensors, PyTorch, DeepSpeed's model states, shards of these through their "
             ".index.json, a TensorFlow checkpoint through its .index"};

enum berth_status tensor_file_open(struct tensor_file *file, const char *path,
                                   struct berth_error *error) {
    return tensor_file_open_as(file, path, &formats, error);
}

enum berth_status tensor_file_find_in(const char *folder, char **path, struct berth_error *error) {
    *path = NULL;
    for (size_t i = 0; i < formats.count && *path == NULL; i++) {
        if (rows[i]->find != NULL) {
            TRY(rows[i]->find(folder, path, error));
        }
    }
    return BERTH_OK;
}
