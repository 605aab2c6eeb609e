// SPDX-License-Identifier: Apache-2.0
// Reads and writes PyTorch's checkpoints (.bin, .pt, .pth): zip archives, and the sequences of
// pickles from before version 1.6 (read only). The pickle is read as data (pickle.h): nothing in a
// file is ever run, imported or opened; `trust` only decides what is refused.
//
// A tensor's name is its path through nested dictionaries and lists, joined with '.':
// "model.bert.pooler.dense.bias", "optimizer.state.0.exp_avg". A file that is a single tensor names
// it "tensor". Tied tensors and views are separate tensors that share bytes of the file.
//
// Leaves out TorchScript, whole modules, the tar files from before 0.1.10, big-endian files,
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
#define TORCH_MAX_DEPTH 64u         // nesting depth of dictionaries and lists

// A block of numbers in the file; tensors are views of it.
struct torch_storage {
    const char *key;
    uint64_t begin, size; // offset and size in the file, in bytes
    uint64_t numel;       // elements; 0 in a zip archive, which does not say
    uint32_t crc;         // CRC-32
    int has_crc;          // the older format has no CRC, nor has an archive written without
};

struct torch_view {
    const struct torch_storage *storage;
    int64_t stride[TENSOR_MAX_RANK]; // in elements
    int contiguous;                  // row-major without gaps
};

struct torch_file {
    struct zip archive; // for the older format only its file is used
    struct pickle pickle;
    struct torch_storage *storages; // sorted by key
    size_t storage_count;
    struct tensor_entry *entries; // in the order of the dictionaries; begin, end: file offsets
    struct torch_view *views;     // of the same tensors
    size_t count;
    uint32_t *numbers; // of each pickled value's first entry, from 1; 0: none
    char *names;
};

// Opens either format. file->pickle holds all pickled values, also those that are not tensors.
enum berth_status torch_open(struct torch_file *file, const char *path, enum pickle_trust trust,
                             struct berth_error *error);
void torch_close(struct torch_file *file);
// The tensor of a pickled value (under the first of its names), or NULL.
const struct tensor_entry *torch_tensor(const struct torch_file *file,
                                        const struct pickle_value *value);
// As tensor_format's read. The CRC of a storage is checked when its first byte is read through a
// contiguous tensor.
enum berth_status torch_read(const struct torch_file *file, const struct tensor_entry *entry,
                             uint64_t first, size_t bytes, void *to, struct berth_error *error);

// Finds the ckpt_<step>.pt of the highest step in the folder, as NVIDIA's and Habana's scripts name
// their checkpoints. Otherwise as find of tensor_format.
enum berth_status torch_find(const char *folder, char **path, struct berth_error *error);
// The step in such a name; -1: another name.
int64_t torch_find_step(const char *name);

// The two formats for tensor_file.h, opened with PICKLE_OBJECTS.
extern const struct tensor_format torch_zip_format, torch_legacy_format;
// The container of an open file of one of them; NULL: it has another format.
const struct torch_file *torch_of(const struct tensor_file *file);

// --- writing ------------------------------------------------------------------------------------

// The values to pickle: a tree of dictionaries and lists. `key` is the key in the parent
// dictionary; NULL: its index there, as an integer.
enum torch_kind {
    TORCH_NONE,
    TORCH_ABSENT,  // in a dictionary: no entry, so that its index is no key
    TORCH_TRUTH,   // integer: 0 or 1
    TORCH_INTEGER, // integer
    TORCH_REAL,    // real
    TORCH_TEXT,    // text
    TORCH_SIZE,    // shape[count]: torch.Size
    TORCH_LIST,    // children[count]
    TORCH_DICT,    // children[count]
    TORCH_TENSOR,  // tensors[0]
    TORCH_TENSORS  // tensors[count]: an ordered dictionary of tensors, like a state_dict
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
    // Writes the numbers of a tensor to to[bytes], so that one tensor at a time is in memory; its
    // `data` then only says which tensors are the same. NULL: the numbers are at `data`.
    enum berth_status (*load)(const struct torch_node *node, const struct tensor_out *tensor,
                              void *to, size_t bytes, struct berth_error *error);
    const void *source; // for `load`
};
// Writes the zip archive atomically; torch.load(weights_only=True) accepts it. Tensors of one list
// with the same data share a storage. BERTH_CANT_CREATE: a data type without a torch storage, or a
// tree deeper than TORCH_MAX_DEPTH.
enum berth_status torch_write(const char *path, const struct torch_node *root,
                              struct berth_error *error);

#endif
