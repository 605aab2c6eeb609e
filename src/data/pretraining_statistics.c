// SPDX-License-Identifier: Apache-2.0
#include "core/memory.h"
#include "data/pretraining_file.h"
#include "format/json.h"

static void set_share(json *object, const char *key, uint64_t part, uint64_t whole) {
    json_set(object, key, json_new_real((double)part / (double)whole));
}

static json *lengths_of(const struct instances *instances, int64_t *counts, int max_seq_length) {
    json *list = json_new_array();
    for (size_t i = 0; i < instances->count; i++) {
        if (instances->items[i].length <= max_seq_length) {
            counts[instances->items[i].length]++;
        }
    }
    for (int i = 0; i <= max_seq_length; i++) {
        json_append(list, json_new_integer(counts[i]));
    }
    return list;
}

enum berth_status pretraining_write_statistics(const char *path, const struct instances *instances,
                                               int max_seq_length, struct berth_error *error) {
    const struct instance_counts *counts = &instances->counts;
    uint64_t predictions = counts->masked + counts->kept + counts->replaced;
    size_t size = (size_t)max_seq_length + 1;
    int64_t *lengths = memory_array_zeroed(size, sizeof *lengths);
    if (lengths == NULL) {
        return error_no_memory(error, size * sizeof *lengths, path);
    }
    json *object = json_new_object();
    json_set(object, "instances", json_new_integer((int64_t)instances->count));
    json_set(object, "tokens", json_new_integer((int64_t)instances->token_count));
    json_set(object, "predictions", json_new_integer((int64_t)predictions));
    set_share(object, "fill", instances->token_count,
              (uint64_t)instances->count * (uint64_t)max_seq_length);
    set_share(object, "masked", counts->masked, predictions);
    set_share(object, "kept", counts->kept, predictions);
    set_share(object, "replaced", counts->replaced, predictions);
    set_share(object, "random_next", counts->random_next, instances->count);
    json_set(object, "lengths", lengths_of(instances, lengths, max_seq_length));
    enum berth_status status = json_write_file(object, JSON_INDENT_2_SORTED, path, error);
    json_free(object);
    memory_free(lengths);
    return status;
}
