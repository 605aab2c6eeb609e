// SPDX-License-Identifier: Apache-2.0
// Builds features in two passes. First the threads tokenize and truncate the examples
// independently; then each example gets its offset in the pools and is copied there. Every task on
// texts comes here with what a call was given (task/network.c), and training with its whole set.
#include "data/pairs/pair_features.h"

#include "core/memory.h"

#include <string.h>

#define LENGTH_MAX (1 << 24)

struct encoded {
    int32_t *ids; // tokens of a, then of b
    size_t first, second, prompt;
    size_t windows, step; // tokens after the prompt that a window has
    int truncated;
};

struct builder {
    const struct pair_dataset *dataset;
    const struct tokenizer *tokenizer;
    size_t longest;
    struct pair_feature_set *set;
    struct encoded *encoded;
    int out_of_memory; // the only possible failure of an example
};

void pair_features_truncate(const struct tokenizer *tokenizer, size_t *first, size_t *second,
                            size_t room) {
    const size_t half = room / 2; // of each when both are cut, and the odd token
    const int first_has_odd = *first > *second || tokenizer_rules_of(tokenizer)->google_pairs;
    if (*first + *second <= room) {
        return;
    }
    if (*first <= half) {
        *second = room - *first;
    } else if (*second <= half) {
        *first = room - *second;
    } else {
        *first = first_has_odd ? room - half : half;
        *second = room - *first;
    }
}

static size_t separators_of(const struct tokenizer *tokenizer) {
    return (size_t)tokenizer_special_ids(tokenizer).separators;
}

static size_t special_count(const struct tokenizer *tokenizer, const struct pair_example *example) {
    return example->pair != NULL ? 2 + separators_of(tokenizer) : 2;
}

// A text that is too long has windows if there is room in them beside the prompt.
static int divide(struct encoded *encoded, const struct pair_example *example, size_t room) {
    const size_t prompt = encoded->prompt, all = encoded->first;
    const int is_divided =
        example->has_windows && example->pair == NULL && all > room && prompt < room;
    encoded->windows = 1;
    if (is_divided) {
        encoded->step = room - prompt;
        encoded->windows = (all - prompt + encoded->step - 1) / encoded->step;
    }
    return is_divided;
}

// --- first pass ---------------------------------------------------------------------------------

static enum berth_status encode_example(const struct builder *builder,
                                        const struct pair_example *example, struct token_list *list,
                                        struct encoded *encoded) {
    list->count = 0;
    if (example->prompt != NULL) {
        TRY(tokenizer_encode(builder->tokenizer, example->prompt, strlen(example->prompt), list,
                             NULL));
        encoded->prompt = list->count;
        list->count = 0;
    }
    TRY(tokenizer_encode(builder->tokenizer, example->text, strlen(example->text), list, NULL));
    size_t all_first = list->count, all_second = 0;
    if (example->pair != NULL) {
        TRY(tokenizer_encode(builder->tokenizer, example->pair, strlen(example->pair), list, NULL));
        all_second = list->count - all_first;
    }
    encoded->first = all_first;
    encoded->second = all_second;
    const size_t room = builder->longest - special_count(builder->tokenizer, example);
    if (!divide(encoded, example, room)) {
        pair_features_truncate(builder->tokenizer, &encoded->first, &encoded->second, room);
    }
    encoded->truncated = encoded->first + encoded->second < list->count;
    encoded->ids = memory_array(encoded->first + encoded->second, sizeof *encoded->ids);
    if (encoded->ids == NULL) {
        return BERTH_NO_MEMORY;
    }
    for (size_t i = 0; i < encoded->first; i++) {
        encoded->ids[i] = list->items[i].id;
    }
    for (size_t i = 0; i < encoded->second; i++) {
        encoded->ids[encoded->first + i] = list->items[all_first + i].id;
    }
    return BERTH_OK;
}

static void encode_examples(struct builder *builder, int threads) {
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(| : failed)
    {
        struct token_list list = {0};
#pragma omp for schedule(dynamic, 32)
        for (size_t i = 0; i < builder->dataset->count; i++) {
            failed |= encode_example(builder, &builder->dataset->examples[i], &list,
                                     &builder->encoded[i]) != BERTH_OK;
        }
        token_list_done(&list);
    }
    builder->out_of_memory = failed;
}

// --- second pass --------------------------------------------------------------------------------

// How many tokens of the first text the window from `start` has.
static size_t window_tokens(const struct encoded *encoded, size_t start) {
    const size_t left = encoded->first - encoded->prompt - start;
    return encoded->windows == 1 ? encoded->first
                                 : encoded->prompt + (left < encoded->step ? left : encoded->step);
}

static void lay_out_example(struct builder *builder, size_t index) {
    struct pair_feature_set *set = builder->set;
    const struct pair_example *example = &builder->dataset->examples[index];
    const struct encoded *encoded = &builder->encoded[index];
    for (size_t i = 0; i < encoded->windows; i++) {
        const size_t start = i * encoded->step, first = window_tokens(encoded, start);
        const size_t length = first + encoded->second + special_count(builder->tokenizer, example);
        const size_t second =
            example->pair != NULL ? first + 1 + separators_of(builder->tokenizer) : length;
        set->features[set->count++] = (struct pair_feature){.example = index,
                                                            .start = start,
                                                            .first = set->token_count,
                                                            .length = (int32_t)length,
                                                            .second = (int32_t)second,
                                                            .prompt = (int32_t)encoded->prompt,
                                                            .truncated = encoded->truncated,
                                                            .label = example->label,
                                                            .value = (float)example->value,
                                                            .labels = example->labels,
                                                            .label_count = example->label_count};
        set->token_count += length;
    }
    set->truncated += (size_t)encoded->truncated;
}

// Gives every feature its offset and allocates the pools; 0 when out of memory.
static int lay_out_features(struct builder *builder) {
    struct pair_feature_set *set = builder->set;
    size_t count = 0;
    for (size_t i = 0; i < builder->dataset->count; i++) {
        count += builder->encoded[i].windows;
    }
    set->features = memory_array(count, sizeof *set->features);
    if (set->features == NULL) {
        return 0;
    }
    for (size_t i = 0; i < builder->dataset->count; i++) {
        lay_out_example(builder, i);
    }
    set->ids = memory_array(set->token_count, sizeof *set->ids);
    set->type_ids = memory_array_zeroed(set->token_count, sizeof *set->type_ids);
    return set->ids != NULL && set->type_ids != NULL;
}

static void fill_feature(const struct builder *builder, size_t index) {
    const struct pair_feature *feature = &builder->set->features[index];
    const struct encoded *encoded = &builder->encoded[feature->example];
    const size_t tokens = window_tokens(encoded, feature->start);
    const size_t repeated = encoded->windows > 1 ? encoded->prompt : 0;
    struct tokenizer_special special = tokenizer_special_ids(builder->tokenizer);
    int32_t *ids = builder->set->ids + feature->first;
    size_t length = (size_t)feature->length, second = (size_t)feature->second;
    ids[0] = special.cls;
    memcpy(ids + 1, encoded->ids, repeated * sizeof *ids);
    memcpy(ids + 1 + repeated, encoded->ids + repeated + feature->start,
           (tokens - repeated) * sizeof *ids);
    ids[tokens + 1] = special.sep;
    if (second < length) {
        ids[second - 1] = special.sep;
        memcpy(ids + second, encoded->ids + encoded->first, encoded->second * sizeof *ids);
        memset(builder->set->type_ids + feature->first + second,
               !tokenizer_rules_of(builder->tokenizer)->one_type, length - second);
        ids[length - 1] = special.sep;
    }
}

// --- the whole ----------------------------------------------------------------------------------

static enum berth_status build(struct builder *builder, int threads, struct berth_error *error) {
    size_t count = builder->dataset->count;
    if (builder->encoded == NULL) {
        return error_no_memory(error, count * sizeof *builder->encoded, "the features");
    }
    encode_examples(builder, threads);
    if (builder->out_of_memory || !lay_out_features(builder)) {
        return error_no_memory(error, builder->set->token_count * sizeof(int32_t),
                               "the tokens of the examples");
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t i = 0; i < builder->set->count; i++) {
        fill_feature(builder, i);
    }
    return BERTH_OK;
}

enum berth_status pair_features_build(const struct pair_dataset *dataset,
                                      const struct tokenizer *tokenizer, int64_t max_length,
                                      int threads, struct pair_feature_set *set,
                                      struct berth_error *error) {
    *set = (struct pair_feature_set){0};
    TRY(error_outside(error, "max_seq_length", 4, LENGTH_MAX, max_length));
    struct tokenizer_special special = tokenizer_special_ids(tokenizer);
    if (special.cls < 0 || special.sep < 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "the vocabulary has no %s; features need [CLS] and [SEP]",
                         special.cls < 0 ? "[CLS]" : "[SEP]");
    }
    struct builder builder = {
        .dataset = dataset,
        .tokenizer = tokenizer,
        .longest = (size_t)max_length,
        .set = set,
        .encoded = memory_array_zeroed(dataset->count, sizeof *builder.encoded),
    };
    enum berth_status status = build(&builder, threads < 1 ? 1 : threads, error);
    for (size_t i = 0; builder.encoded != NULL && i < dataset->count; i++) {
        memory_free(builder.encoded[i].ids);
    }
    memory_free(builder.encoded);
    if (status != BERTH_OK) {
        pair_feature_set_done(set);
    }
    return status;
}

struct packer_sequence pair_features_sequence(const void *set, size_t index) {
    const struct pair_feature_set *own = set;
    const struct pair_feature *feature = &own->features[index];
    return (struct packer_sequence){.ids = own->ids + feature->first,
                                    .type_ids = own->type_ids + feature->first,
                                    .length = feature->length,
                                    .start = -1,
                                    .end = -1,
                                    .label = feature->label,
                                    .target = feature->value,
                                    .labels = feature->labels,
                                    .label_count = feature->label_count};
}

void pair_feature_set_done(struct pair_feature_set *set) {
    memory_free(set->features);
    memory_free(set->ids);
    memory_free(set->type_ids);
    *set = (struct pair_feature_set){0};
}
