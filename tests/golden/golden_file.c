// SPDX-License-Identifier: Apache-2.0
#include "golden/golden_file.h"

#include "core/harness.h"

#include <stdio.h>
#include <stdlib.h>

static void assert_ok(enum berth_status status, const struct berth_error *error) {
    if (status != BERTH_OK) {
        fail_msg("%s", error->message);
    }
}

void golden_file_open(struct safetensors *file, const char *path) {
    struct berth_error error = {0};
    assert_ok(safetensors_open(file, path, &error), &error);
}

static const struct tensor_entry *look_up(const struct safetensors *file, const char *prefix,
                                          const char *name) {
    char whole[256];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    return safetensors_find(file, whole);
}

int golden_has(const struct safetensors *file, const char *prefix, const char *name) {
    return look_up(file, prefix, name) != NULL;
}

const struct tensor_entry *golden_entry(const struct safetensors *file, const char *prefix,
                                        const char *name) {
    const struct tensor_entry *entry = look_up(file, prefix, name);
    if (!entry) {
        fail_msg("%s: no tensor %s%s", file->file.path, prefix, name);
    }
    return entry;
}

int64_t golden_count(const struct tensor_entry *entry) {
    int64_t count = 1;
    for (int i = 0; i < entry->rank; i++) {
        count *= entry->shape[i];
    }
    return count;
}

// Room for the elements, `size` bytes each.
static void *room_for(const struct tensor_entry *entry, size_t size, int64_t *count) {
    int64_t elements = golden_count(entry);
    void *values = malloc((size_t)elements * size + 1);
    assert_non_null(values);
    if (count) {
        *count = elements;
    }
    return values;
}

float *golden_floats(const struct safetensors *file, const char *prefix, const char *name,
                     int64_t *count) {
    const struct tensor_entry *entry = golden_entry(file, prefix, name);
    float *values = room_for(entry, sizeof *values, count);
    struct berth_error error = {0};
    assert_ok(safetensors_read_f32(file, entry, 0, golden_count(entry), values, &error), &error);
    return values;
}

static void read_raw(const struct safetensors *file, const struct tensor_entry *entry,
                     void *values) {
    struct berth_error error = {0};
    assert_ok(
        safetensors_read_raw(file, entry, 0, (size_t)(entry->end - entry->begin), values, &error),
        &error);
}

double *golden_doubles(const struct safetensors *file, const char *prefix, const char *name,
                       int64_t *count) {
    const struct tensor_entry *entry = golden_entry(file, prefix, name);
    double *values = room_for(entry, sizeof *values, count);
    if (entry->dtype == TENSOR_F64) {
        read_raw(file, entry, values);
        return values;
    }
    float *single = golden_floats(file, prefix, name, NULL);
    for (int64_t i = 0; i < golden_count(entry); i++) {
        values[i] = (double)single[i];
    }
    free(single);
    return values;
}

int32_t *golden_integers(const struct safetensors *file, const char *prefix, const char *name,
                         int64_t *count) {
    const struct tensor_entry *entry = golden_entry(file, prefix, name);
    assert_int_equal(entry->dtype, TENSOR_I32);
    int32_t *values = room_for(entry, sizeof *values, count);
    read_raw(file, entry, values);
    return values;
}

double golden_number(const struct safetensors *file, const char *prefix, const char *name) {
    double *values = golden_doubles(file, prefix, name, NULL), first = values[0];
    free(values);
    return first;
}
