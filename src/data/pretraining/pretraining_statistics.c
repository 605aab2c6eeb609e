// SPDX-License-Identifier: Apache-2.0
// Adds up what is in pre-training instances: sequences, tokens, masked tokens, lengths. Each
// shard's sums go into the manifest of its stage as JSON, from which those of all shards are made
// without reading them again.
#include "data/pretraining/pretraining_statistics.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} counts[] = {
#define COUNT(field)                                                                               \
    { #field, offsetof(struct pretraining_statistics, field) }
    COUNT(instances), COUNT(tokens),   COUNT(predictions), COUNT(masked),
    COUNT(kept),      COUNT(replaced), COUNT(random_next),
};
enum { COUNTS = sizeof counts / sizeof *counts };

static int64_t *count_of(struct pretraining_statistics *statistics, size_t i) {
    return (int64_t *)((char *)statistics + counts[i].offset);
}

void pretraining_statistics_add(struct pretraining_statistics *statistics,
                                const struct instances *instances) {
    statistics->instances += (int64_t)instances->count;
    statistics->tokens += (int64_t)instances->token_count;
    statistics->predictions += (int64_t)instances->prediction_count;
    statistics->masked += (int64_t)instances->counts.masked;
    statistics->kept += (int64_t)instances->counts.kept;
    statistics->replaced += (int64_t)instances->counts.replaced;
    for (size_t i = 0; i < instances->count; i++) {
        statistics->lengths[instances->items[i].length]++;
        statistics->random_next += instances->items[i].is_random;
    }
}

static json *lengths_to_json(const struct pretraining_statistics *statistics, int max_length) {
    json *list = json_new_array();
    int failed = list == NULL;
    for (int i = 0; i <= max_length; i++) {
        failed |= json_append(list, json_new_integer(statistics->lengths[i]));
    }
    return json_unless_failed(list, failed);
}

json *pretraining_statistics_to_json(const struct pretraining_statistics *statistics,
                                     int max_length) {
    json *object = json_new_object();
    int failed = json_set(object, "lengths", lengths_to_json(statistics, max_length));
    for (size_t i = 0; i < COUNTS; i++) {
        const char *at = (const char *)statistics + counts[i].offset;
        failed |= json_set(object, counts[i].name, json_new_integer(*(const int64_t *)at));
    }
    return json_unless_failed(object, failed);
}

void pretraining_statistics_add_json(struct pretraining_statistics *statistics,
                                     const json *object) {
    const json *lengths = json_member(object, "lengths");
    for (size_t i = 0; i < COUNTS; i++) {
        *count_of(statistics, i) += json_as_integer(json_member(object, counts[i].name));
    }
    for (size_t i = 0; i < json_length(lengths) && i <= INSTANCE_LENGTH_MAX; i++) {
        statistics->lengths[i] += json_as_integer(json_at(lengths, i));
    }
}

enum berth_status pretraining_statistics_write(const struct pretraining_statistics *statistics,
                                               int max_length, const char *path,
                                               struct berth_error *error) {
    int64_t predictions = statistics->masked + statistics->kept + statistics->replaced;
    const struct {
        const char *name;
        int64_t part, whole;
    } fractions[] = {{"fill", statistics->tokens, statistics->instances * max_length},
                     {"masked", statistics->masked, predictions},
                     {"kept", statistics->kept, predictions},
                     {"replaced", statistics->replaced, predictions},
                     {"random_next", statistics->random_next, statistics->instances}};
    json *object = pretraining_statistics_to_json(statistics, max_length);
    int failed = 0;
    for (size_t i = 0; i < sizeof fractions / sizeof *fractions; i++) {
        double fraction = (double)fractions[i].part / (double)fractions[i].whole;
        failed |= json_set(object, fractions[i].name, json_new_real(fraction));
    }
    enum berth_status status = failed ? error_no_memory(error, 0, path)
                                      : json_write_file(object, JSON_INDENT_2_SORTED, path, error);
    json_free(object);
    return status;
}
