// SPDX-License-Identifier: Apache-2.0
// PyTorch's checkpoints (.bin, .pt, .pth): the zip archive of today and the stacked pickles of
// before 1.6. The pickle is read as data (pickle.h): nothing in a file is ever run, imported or
// opened, whatever `trust` says; trust decides only what is refused.
//
// A tensor's name is the way to it through nested dictionaries and lists, joined with '.':
// "model.bert.pooler.dense.bias", "optimizer.state.0.exp_avg". A tensor alone in its file is
// "tensor". Tied tensors and views are tensors of their own that share bytes of the file.
//
// Leaves out: TorchScript, whole modules, the tar files of before 0.1.10, big-endian files,
// quantised and sparse tensors.
#ifndef BERTH_FORMAT_TORCH_H
#define BERTH_FORMAT_TORCH_H

#include "core/error.h"
#include "format/archive/zip.h"
#include "format/tensors/tensor_file.h"
#include "format/torch/pickle.h"

#include <stddef.h>
#include <stdint.h>

#define TORCH_MAX_TENSORS 1000000u
#define TORCH_MAX_NAMES (16u << 20) // bytes of all names
#define TORCH_MAX_DEPTH 64u         // dictionaries and lists on the way to a tensor

// A block of numbers in the file, which tensors view.
struct torch_storage {
    const char *key;
    uint64_t begin, size; // bytes in the file
    uint64_t numel;       // elements; 0 in a zip archive, which does not tell
    uint32_t crc;         // CRC-32
    int has_crc;          // the older format has none
};

struct torch_view {
    const struct pickle_value *value;
    const struct torch_storage *storage;
    int64_t stride[TENSOR_MAX_RANK]; // in elements
    int contiguous;                  // row-major without gaps
};

struct torch_file {
    struct zip archive; // of the older format only its file
    struct pickle pickle;
    struct torch_storage *storages; // by key
    size_t storage_count;
    struct tensor_entry *entries; // in the order of the dictionaries; begin and end are of the file
    struct torch_view *views;     // of the same tensors
    size_t count;
    char *names;
};

// Opens either kind. The pickled values are in file->pickle, for what stands beside the tensors.
enum berth_status torch_open(struct torch_file *file, const char *path, enum pickle_trust trust,
                             struct berth_error *error);
void torch_close(struct torch_file *file);
// The tensor that a pickled value is (the first of its names), or NULL.
const struct tensor_entry *torch_tensor(const struct torch_file *file,
                                        const struct pickle_value *value);
// As tensor_format's read. A storage is compared with its CRC when its
// first byte is read through a contiguous tensor.
enum berth_status torch_read(const struct torch_file *file, const struct tensor_entry *entry,
                             uint64_t first, size_t bytes, void *to, struct berth_error *error);

// ckpt_<step>.pt of the highest step in the folder, as NVIDIA's and Habana's scripts name their
// checkpoints; as tensor_format's find.
enum berth_status torch_find(const char *folder, char **path, struct berth_error *error);

// As two of many containers, opened with PICKLE_OBJECTS.
extern const struct tensor_format torch_zip_format, torch_legacy_format;

// --- writing -------------------------------------------------------------------------------------

// What is to be pickled: a tree of dictionaries and lists. `key` is that of the parent dictionary.
enum torch_kind {
    TORCH_NONE,
    TORCH_TRUTH,   // integer: 0 or 1
    TORCH_INTEGER, // integer
    TORCH_REAL,    // real
    TORCH_TEXT,    // text
    TORCH_SIZE,    // shape[count]: torch.Size
    TORCH_LIST,    // children[count]
    TORCH_DICT,    // children[count]
    TORCH_TENSOR,  // tensors[0]
    TORCH_TENSORS  // tensors[count]: an ordered dictionary of them, as a state_dict is
};
struct torch_node {
    const char *key;
    enum torch_kind kind;
    size_t count;
    int64_t integer;
    double real;
    const char *text;
    const int64_t *shape;
    const struct torch_node *children;
    const struct tensor_out *tensors;
};
// Writes the zip archive atomically; torch.load(weights_only=True) takes it. Every tensor gets a
// storage of its own. A data type that torch has no storage for, and trees deeper than
// TORCH_MAX_DEPTH: BERTH_CANT_CREATE.
enum berth_status torch_write(const char *path, const struct torch_node *root,
                              struct berth_error *error);

#endif
