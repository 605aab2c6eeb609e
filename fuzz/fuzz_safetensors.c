// SPDX-License-Identifier: Apache-2.0
// Fuzzes the safetensors reader, through a file in memory: a file that opens is consistent, and
// every tensor is readable.
//
// Bit 0 of the settings: read through tensor_file_open, which recognises every format.
#include "format/containers/containers.h"
#include "format/safetensors/safetensors.h"
#include "input.h"

static int64_t elements(const struct tensor_entry *entry) {
    int64_t count = 1;
    for (int i = 0; i < entry->rank; i++) {
        count *= entry->shape[i];
    }
    return count;
}

// Allocates the tensor's values; NULL when they are too large for memory or smaller than a byte.
static float *new_values(const struct tensor_entry *entry) {
    int64_t count = elements(entry);
    return memory_array((size_t)count, entry->dtype == TENSOR_OTHER ? 1 : sizeof(float));
}

static void read_tensor(const struct safetensors *container, const struct tensor_entry *entry) {
    size_t bytes = (size_t)(entry->end - entry->begin);
    require(safetensors_find(container, entry->name) == entry);
    char *raw = memory_new(bytes);
    require(safetensors_read_raw(container, entry, 0, bytes, raw, NULL) == BERTH_OK &&
            safetensors_read_raw(container, entry, 1, bytes, raw, NULL) != BERTH_OK);
    memory_free(raw);
    float *values = new_values(entry);
    if (values != NULL) {
        safetensors_read_f32(container, entry, 0, elements(entry), values, NULL);
    }
    memory_free(values);
}

static void read_container(const char *path, const struct fuzz_input *input) {
    struct safetensors container;
    struct berth_error error = {0};
    fuzz_failing_begin(input->fail_at);
    enum berth_status status = safetensors_open(&container, path, &error);
    fuzz_failing_end(input->fail_at, status, &error);
    if (status == BERTH_OK) {
        uint64_t end = 0;
        for (size_t i = 0; i < container.count; i++) {
            require(container.entries[i].begin == end);
            end = container.entries[i].end;
            read_tensor(&container, &container.entries[i]);
        }
        safetensors_metadata(&container, "format");
        require(container.data_begin + end == input->size);
    }
    safetensors_close(&container);
}

static void read_as_tensor_file(const char *path, const struct fuzz_input *input) {
    struct tensor_file file;
    struct berth_error error = {0};
    fuzz_failing_begin(input->fail_at);
    enum berth_status status = tensor_file_open(&file, path, &error);
    fuzz_failing_end(input->fail_at, status, &error);
    for (size_t i = 0; i < file.count; i++) {
        const struct tensor_entry *entry = &file.entries[i];
        require(tensor_file_find(&file, entry->name) == entry);
        float *values = new_values(entry);
        require(values == NULL ||
                (tensor_file_read_f32(&file, entry, 0, elements(entry), values, &error) ==
                 BERTH_OK) == tensor_is_convertible(entry->dtype));
        memory_free(values);
        size_t bytes = (size_t)(entry->end - entry->begin);
        unsigned char *stored = memory_new(bytes + 1);
        require(stored == NULL || tensor_file_read(&file, entry, stored, &error) == BERTH_OK);
        memory_free(stored);
    }
    require((status == BERTH_OK) == (file.container != NULL));
    tensor_file_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    const char *path = fuzz_file(input.bytes, input.size);
    if ((input.settings & 1) != 0) {
        read_as_tensor_file(path, &input);
    } else {
        read_container(path, &input);
    }
    return 0;
}
