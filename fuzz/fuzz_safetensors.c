// SPDX-License-Identifier: Apache-2.0
// The safetensors reader, through a file in memory: what opens must keep its promises, and every
// tensor must be readable.
#include "core/memory.h"
#include "format/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The path of a file that holds the input; one file serves all runs.
static const char *make_file(const uint8_t *data, size_t size) {
    static int file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    if (file < 0 || ftruncate(file, (off_t)size) != 0 ||
        pwrite(file, data, size, 0) != (ssize_t)size) {
        abort();
    }
    return path;
}

static int64_t elements(const struct tensor_entry *entry) {
    int64_t count = 1;
    for (int i = 0; i < entry->rank; i++) {
        count *= entry->shape[i];
    }
    return count;
}

static void read_tensor(const struct safetensors *container, const struct tensor_entry *entry) {
    size_t bytes = (size_t)(entry->end - entry->begin);
    if (safetensors_find(container, entry->name) != entry) {
        abort();
    }
    char *raw = memory_new(bytes);
    if (safetensors_read_raw(container, entry, 0, bytes, raw, NULL) != BERTH_OK ||
        safetensors_read_raw(container, entry, 1, bytes, raw, NULL) == BERTH_OK) {
        abort();
    }
    memory_free(raw);
    int64_t count = elements(entry);
    float *values = memory_array((size_t)count, entry->dtype == TENSOR_OTHER ? 1 : 4);
    if (values != NULL) {
        safetensors_read_f32(container, entry, 0, count, values, NULL);
    }
    memory_free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct safetensors container;
    struct berth_error error;
    if (safetensors_open(&container, make_file(data, size), &error) == BERTH_OK) {
        uint64_t end = 0;
        for (size_t i = 0; i < container.count; i++) {
            if (container.entries[i].begin != end) {
                abort();
            }
            end = container.entries[i].end;
            read_tensor(&container, &container.entries[i]);
        }
        safetensors_metadata(&container, "format");
        if (container.data_begin + end != size) {
            abort();
        }
    }
    safetensors_close(&container);
    return 0;
}
