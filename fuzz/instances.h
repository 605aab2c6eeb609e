// SPDX-License-Identifier: Apache-2.0
// Checks on instances that were read: the properties that the trainer relies on, and the number
// counted without reading them.
#ifndef BERTH_FUZZ_INSTANCES_H
#define BERTH_FUZZ_INSTANCES_H

#include "data/pretraining/pretraining_file.h"
#include "input.h"

enum { FUZZ_VOCABULARY = 500 };

static inline void require_good_instances(const struct instances *read, size_t longest) {
    size_t tokens = 0, predictions = 0;
    for (size_t i = 0; i < read->count; i++) {
        const struct instance *instance = &read->items[i];
        require(instance->tokens == tokens && instance->predictions == predictions);
        require(instance->length >= 1 && instance->length <= longest);
        require(instance->second <= instance->length && instance->is_random <= 1);
        for (size_t j = 0; j < instance->length; j++) {
            int32_t id = read->tokens[tokens + j];
            require(id >= 0 && id < FUZZ_VOCABULARY);
        }
        for (size_t j = 0; j < instance->prediction_count; j++) {
            require(read->positions[predictions + j] >
                        (j > 0 ? read->positions[predictions + j - 1] : 0) &&
                    read->positions[predictions + j] < instance->length);
            int32_t label = read->labels[predictions + j];
            require(label >= 0 && label < FUZZ_VOCABULARY);
        }
        tokens += instance->length;
        predictions += instance->prediction_count;
    }
    require(tokens == read->token_count && predictions == read->prediction_count);
}

typedef enum berth_status fuzz_measure(const char *path, int max_seq_length,
                                       struct pretraining_size *size, struct berth_error *error);

static inline void require_same_count(fuzz_measure *measure, const char *path, int longest,
                                      const struct instances *read, int is_good) {
    struct pretraining_size size;
    enum berth_status status = measure(path, longest, &size, NULL);
    require(status == BERTH_OK || status == BERTH_BAD_DATA);
    require(!is_good || (status == BERTH_OK && size.sequences == (int64_t)read->count));
}

#endif
