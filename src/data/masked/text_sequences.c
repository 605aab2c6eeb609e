// SPDX-License-Identifier: Apache-2.0
// Makes sequences of tokens of lines, for the task fill when it opens a set. Threads tokenize
// independent groups of lines; then the groups are concatenated in order, so the number of threads
// changes nothing. Which tokens are masked is drawn later, for each epoch (word_masks.h).
#include "data/masked/text_sequences.h"

#include "core/memory.h"

#include <math.h>
#include <string.h>

#define GROUP_LINES 1000 // the batch size with which datasets.map calls run_mlm's functions

struct group {
    int32_t *ids;
    unsigned char *continues; // as in struct text_sequences
    size_t count, capacity;
    size_t *ends; // of the sequences in ids
    size_t end_count, end_capacity;
    size_t truncated, dropped;
};

struct builder {
    const char *const *texts;
    size_t count;
    const struct tokenizer *tokenizer;
    struct tokenizer_special special;
    const struct text_sequence_rules *rules;
    struct group *groups;
    size_t group_count;
};

static int32_t *add_ids(struct group *group, size_t count) {
    int32_t *ids =
        memory_grow(group->ids, &group->capacity, group->count + count, sizeof *group->ids);
    if (ids == NULL) {
        return NULL;
    }
    group->ids = ids;
    unsigned char *continues = memory_resize(group->continues, group->capacity, 1);
    if (continues == NULL) {
        return NULL;
    }
    group->continues = continues;
    group->count += count;
    return ids + group->count - count;
}

static enum berth_status add_end(struct group *group, size_t end) {
    size_t *ends =
        memory_grow(group->ends, &group->end_capacity, group->end_count + 1, sizeof *group->ends);
    if (ends == NULL) {
        return BERTH_NO_MEMORY;
    }
    group->ends = ends;
    ends[group->end_count++] = end;
    return BERTH_OK;
}

// Appends [CLS], the first `count` tokens of the list, and [SEP].
static enum berth_status add_tokens(const struct builder *builder, struct group *group,
                                    const struct token_list *list, size_t count) {
    int32_t *ids = add_ids(group, count + 2);
    if (ids == NULL) {
        return BERTH_NO_MEMORY;
    }
    unsigned char *continues = group->continues + (ids - group->ids);
    ids[0] = builder->special.cls;
    for (size_t i = 0; i < count; i++) {
        ids[i + 1] = list->items[i].id;
        continues[i + 1] = i > 0 && list->items[i].word == list->items[i - 1].word;
    }
    ids[count + 1] = builder->special.sep;
    continues[0] = continues[count + 1] = 0;
    return BERTH_OK;
}

static enum berth_status add_line(const struct builder *builder, struct group *group,
                                  const char *text, struct token_list *list) {
    const struct text_sequence_rules *rules = builder->rules;
    const size_t room = (size_t)rules->max_length - 2;
    list->count = 0;
    TRY(tokenizer_encode(builder->tokenizer, text, strlen(text), list, NULL));
    if (!rules->by_line) {
        return add_tokens(builder, group, list, list->count);
    }
    if (list->count == 0) {
        return BERTH_OK;
    }
    const int is_truncated = list->count > room;
    group->truncated += (size_t)is_truncated;
    TRY(add_tokens(builder, group, list, is_truncated ? room : list->count));
    return add_end(group, group->count);
}

static enum berth_status fill_group(const struct builder *builder, size_t index,
                                    struct token_list *list) {
    struct group *group = &builder->groups[index];
    const size_t first = index * GROUP_LINES, left = builder->count - first;
    for (size_t i = 0; i < GROUP_LINES && i < left; i++) {
        TRY(add_line(builder, group, builder->texts[first + i], list));
    }
    if (builder->rules->by_line) {
        return BERTH_OK;
    }
    const size_t length = (size_t)builder->rules->max_length;
    for (size_t end = length; end <= group->count; end += length) {
        TRY(add_end(group, end));
    }
    group->dropped = group->count % length;
    group->count -= group->dropped;
    return BERTH_OK;
}

static enum berth_status fill_groups(const struct builder *builder, struct berth_error *error) {
    int failed = 0; // out of memory is the only possible failure
#pragma omp parallel num_threads(builder->rules->threads) reduction(| : failed)
    {
        struct token_list list = {0};
#pragma omp for schedule(dynamic, 1)
        for (size_t i = 0; i < builder->group_count; i++) {
            failed |= fill_group(builder, i, &list) != BERTH_OK;
        }
        token_list_done(&list);
    }
    return !failed
               ? BERTH_OK
               : error_no_memory(error, builder->count * sizeof(int32_t), "the tokens of a text");
}

// A group without a sequence may still have dropped tokens.
static void add_group(struct text_sequences *sequences, const struct group *group) {
    const size_t first = sequences->starts[sequences->count];
    if (group->count > 0) {
        memcpy(sequences->ids + first, group->ids, group->count * sizeof *group->ids);
        memcpy(sequences->continues + first, group->continues, group->count);
    }
    for (size_t i = 0; i < group->end_count; i++) {
        const size_t begin = sequences->starts[sequences->count], end = first + group->ends[i];
        sequences->longest = end - begin > sequences->longest ? end - begin : sequences->longest;
        sequences->starts[++sequences->count] = end;
    }
    sequences->truncated += group->truncated;
    sequences->dropped += group->dropped;
}

static enum berth_status build(struct builder *builder, struct text_sequences *sequences,
                               struct berth_error *error) {
    builder->groups = memory_array_zeroed(builder->group_count, sizeof *builder->groups);
    if (builder->groups == NULL) {
        return error_no_memory(error, builder->group_count * sizeof *builder->groups, "a text");
    }
    TRY(fill_groups(builder, error));
    size_t tokens = 0, count = 0;
    for (size_t i = 0; i < builder->group_count; i++) {
        tokens += builder->groups[i].count;
        count += builder->groups[i].end_count;
    }
    sequences->ids = memory_array(tokens, sizeof *sequences->ids);
    sequences->continues = memory_array(tokens, 1);
    sequences->starts = memory_array_zeroed(count + 1, sizeof *sequences->starts);
    if (sequences->ids == NULL || sequences->continues == NULL || sequences->starts == NULL) {
        return error_no_memory(error, tokens * sizeof *sequences->ids, "the tokens of a text");
    }
    for (size_t i = 0; i < builder->group_count; i++) {
        add_group(sequences, &builder->groups[i]);
    }
    sequences->type_ids = memory_array_zeroed(sequences->longest + 1, 1);
    return sequences->type_ids != NULL
               ? BERTH_OK
               : error_no_memory(error, sequences->longest, "the types of tokens");
}

enum berth_status text_sequences_build(const char *const *texts, size_t count,
                                       const struct tokenizer *tokenizer,
                                       const struct text_sequence_rules *rules,
                                       struct text_sequences *sequences,
                                       struct berth_error *error) {
    *sequences = (struct text_sequences){0};
    TRY(error_outside(error, "max_seq_length", 4, INT64_MAX, rules->max_length));
    struct builder builder = {.texts = texts,
                              .count = count,
                              .tokenizer = tokenizer,
                              .special = tokenizer_special_ids(tokenizer),
                              .rules = rules,
                              .group_count = (count + GROUP_LINES - 1) / GROUP_LINES};
    enum berth_status status = build(&builder, sequences, error);
    for (size_t i = 0; builder.groups != NULL && i < builder.group_count; i++) {
        memory_free(builder.groups[i].ids);
        memory_free(builder.groups[i].continues);
        memory_free(builder.groups[i].ends);
    }
    memory_free(builder.groups);
    if (status != BERTH_OK) {
        text_sequences_done(sequences);
    }
    return status;
}

void text_sequences_done(struct text_sequences *sequences) {
    memory_free(sequences->ids);
    memory_free(sequences->continues);
    memory_free(sequences->starts);
    memory_free(sequences->type_ids);
    *sequences = (struct text_sequences){0};
}

struct packer_sequence text_sequences_get(const void *sequences, size_t index) {
    const struct text_sequences *own = sequences;
    const size_t first = own->starts[index];
    return (struct packer_sequence){.ids = own->ids + first,
                                    .type_ids = own->type_ids,
                                    .length = (int32_t)(own->starts[index + 1] - first),
                                    .start = -1,
                                    .end = -1,
                                    .label = -1,
                                    .target = NAN,
                                    .label_count = -1};
}
