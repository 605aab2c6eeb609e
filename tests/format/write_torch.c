// SPDX-License-Identifier: Apache-2.0
// Writes the files that dev/others loads with torch: the tensors of a safetensors file as
// "model" of a dictionary that also has numbers, twice: OUTPUT as usual, OUTPUT.zip64 with ZIP64
// fields.
//
//   write_torch TENSORS.safetensors OUTPUT.pt
#include "core/memory.h"
#include "format/containers/containers.h"
#include "format/torch/torch.h"

#include <stdio.h>

static enum berth_status load(const struct tensor_file *file, struct tensor_out *tensors,
                              struct berth_error *error) {
    for (size_t i = 0; i < file->count; i++) {
        const struct tensor_entry *entry = &file->entries[i];
        char *data = memory_new((size_t)(entry->end - entry->begin));
        if (data == NULL) {
            return error_no_memory(error, (size_t)(entry->end - entry->begin), entry->name);
        }
        tensors[i] = (struct tensor_out){
            .name = entry->name, .dtype = entry->dtype, .rank = entry->rank, .data = data};
        for (int k = 0; k < entry->rank; k++) {
            tensors[i].shape[k] = entry->shape[k];
        }
        TRY(tensor_file_read(file, entry, data, error));
    }
    return BERTH_OK;
}

static enum berth_status write_model(const char *path, const struct tensor_out *tensors,
                                     size_t count, struct berth_error *error) {
    static const int64_t size[] = {2, 3};
    struct torch_node sizes[] = {{.key = "weight", .kind = TORCH_SIZE, .count = 2, .shape = size}};
    struct torch_node members[] = {
        {.key = "model", .kind = TORCH_TENSORS, .count = count, .tensors = tensors},
        {.key = "step", .kind = TORCH_INTEGER, .integer = 5},
        {.key = "large", .kind = TORCH_INTEGER, .integer = -((int64_t)1 << 40)},
        {.key = "rate", .kind = TORCH_REAL, .real = 0.1},
        {.key = "truth", .kind = TORCH_TRUTH, .integer = 1},
        {.key = "none", .kind = TORCH_NONE},
        {.key = "text", .kind = TORCH_TEXT, .text = "\u00e9t\u00e9"},
        {.key = "shapes", .kind = TORCH_DICT, .count = 1, .children = sizes},
        {.key = "list", .kind = TORCH_LIST},
    };
    struct torch_node root = {
        .kind = TORCH_DICT, .count = sizeof members / sizeof *members, .children = members};
    return torch_write(path, &root, error);
}

// Copies an archive entry by entry, with ZIP64 fields.
static enum berth_status copy_large(const char *from, const char *to, struct berth_error *error) {
    struct zip zip;
    struct zip_writer writer;
    TRY(zip_open(&zip, from, error));
    enum berth_status status = zip_writer_open(&writer, to, error);
    writer.zip64_threshold = 1;
    for (size_t i = 0; i < zip.count && status == BERTH_OK; i++) {
        char *data = memory_new((size_t)zip.entries[i].size);
        status = file_reader_at(&zip.file, zip.entries[i].begin, data, (size_t)zip.entries[i].size,
                                error);
        if (status == BERTH_OK) {
            status = zip_writer_add(&writer, zip.entries[i].name, data, zip.entries[i].size, error);
        }
        memory_free(data);
    }
    if (status == BERTH_OK) {
        status = zip_writer_commit(&writer, error);
    }
    zip_writer_abort(&writer);
    zip_close(&zip);
    return status;
}

static enum berth_status run(const char *from, const char *to, struct berth_error *error) {
    struct tensor_file file;
    char large[4096];
    snprintf(large, sizeof large, "%s.zip64", to);
    TRY(tensor_file_open(&file, from, error));
    struct tensor_out *tensors = memory_array_zeroed(file.count, sizeof *tensors);
    enum berth_status status = load(&file, tensors, error);
    if (status == BERTH_OK) {
        status = write_model(to, tensors, file.count, error);
    }
    if (status == BERTH_OK) {
        status = copy_large(to, large, error);
    }
    for (size_t i = 0; i < file.count; i++) {
        memory_free((void *)tensors[i].data);
    }
    memory_free(tensors);
    tensor_file_close(&file);
    return status;
}

int main(int argument_count, char **arguments) {
    struct berth_error error = {0};
    if (argument_count != 3) {
        fprintf(stderr, "usage: write_torch TENSORS.safetensors OUTPUT.pt\n");
        return 2;
    }
    enum berth_status status = run(arguments[1], arguments[2], &error);
    if (status != BERTH_OK) {
        fprintf(stderr, "%s\n", error.message);
    }
    return (int)status;
}
