// SPDX-License-Identifier: Apache-2.0
// Draws which tokens of a sequence are predicted, and which tokens replace them. The generator is
// counter-based, so any sequence of any epoch can be masked alone. train/engine/feed.c masks the
// sequences of an update before they are packed; task/fill.c masks those of an evaluation once.
#include "data/masked/word_masks.h"

#include "core/memory.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

#define MASK_STREAM 0x4D41534Bu

// Fractions of 2^32.
#define MASK_BELOW 0xCCCCCCCDu   // 0.8
#define RANDOM_BELOW 0xE6666666u // 0.8 + 0.1

// A sequence and its masked copy.
struct masked_copy {
    const struct word_mask_rules *rules;
    const int32_t *from;
    const unsigned char *continues;
    size_t length;
    uint32_t sequence, epoch;
    uint64_t threshold; // of word 0, in [0, 2^32]
    int32_t *ids;
    uint16_t *positions;
    int32_t *labels;
};

static int32_t replacement(const struct word_mask_rules *rules, int32_t id,
                           const struct rng_block *block) {
    if (block->word[1] < MASK_BELOW) {
        return rules->special.mask;
    }
    return block->word[1] < RANDOM_BELOW
               ? (int32_t)((uint64_t)block->word[2] * (uint32_t)rules->vocab_size >> 32)
               : id;
}

// Fills the copy; returns the number of predicted tokens.
static int32_t mask_sequence(const struct masked_copy *copy) {
    const struct word_mask_rules *rules = copy->rules;
    int32_t count = 0;
    int is_predicted = 0, in_word = 0; // of the previous token
    for (size_t i = 0; i < copy->length; i++) {
        const int32_t id = copy->from[i];
        const struct tokenizer_special *special = &rules->special;
        const int is_word = id != special->cls && id != special->sep && id != special->pad;
        copy->ids[i] = id;
        const int is_rest = is_word && in_word && rules->whole_words && copy->continues[i];
        const uint32_t counter[4] = {(uint32_t)i, copy->sequence, copy->epoch, MASK_STREAM};
        const struct rng_block block = rng_philox(rules->seed, counter);
        is_predicted = is_rest ? is_predicted : is_word && block.word[0] < copy->threshold;
        in_word = is_word;
        if (is_predicted) {
            copy->ids[i] = replacement(rules, id, &block);
            copy->positions[count] = (uint16_t)i;
            copy->labels[count++] = id;
        }
    }
    return count;
}

static size_t chosen_index(const struct word_mask_choice *choice, size_t i) {
    return choice->order != NULL ? choice->order[i] : i;
}

static size_t length_at(const struct text_sequences *all, size_t index) {
    return all->starts[index + 1] - all->starts[index];
}

enum berth_status word_masks_draw(struct word_masks *masks, const struct word_mask_choice *choice,
                                  int threads, struct berth_error *error) {
    const struct text_sequences *all = masks->all;
    const uint64_t threshold = (uint64_t)llround(masks->rules.probability * 0x1p32);
    size_t tokens = 0;
    masks->count = 0;
    for (size_t i = 0; i < choice->count; i++) {
        tokens += length_at(all, chosen_index(choice, i));
    }
    // Does not preserve the previous copies.
    const size_t count = choice->count;

    if (count > masks->sequence_capacity) {
        memory_free(masks->starts);
        memory_free(masks->predicted);
        masks->starts = memory_array(count, sizeof *masks->starts);
        masks->predicted = memory_array(count, sizeof *masks->predicted);
        masks->sequence_capacity = count;
        if (masks->starts == NULL || masks->predicted == NULL) {
            return error_no_memory(error, count * sizeof *masks->starts, "masked sequences");
        }
    }
    if (tokens > masks->token_capacity) {
        memory_free(masks->ids);
        memory_free(masks->positions);
        memory_free(masks->labels);
        masks->ids = memory_array(tokens, sizeof *masks->ids);
        masks->positions = memory_array(tokens, sizeof *masks->positions);
        masks->labels = memory_array(tokens, sizeof *masks->labels);
        masks->token_capacity = tokens;
        if (masks->ids == NULL || masks->positions == NULL || masks->labels == NULL) {
            return error_no_memory(error, tokens * sizeof *masks->ids, "masked sequences");
        }
    }
    for (size_t i = 0, start = 0; i < choice->count; i++) {
        masks->starts[i] = start;
        start += length_at(all, chosen_index(choice, i));
    }
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t i = 0; i < choice->count; i++) {
        const size_t index = chosen_index(choice, i), start = masks->starts[i];
        const struct masked_copy copy = {.rules = &masks->rules,
                                         .from = all->ids + all->starts[index],
                                         .continues = all->continues + all->starts[index],
                                         .length = length_at(all, index),
                                         .sequence = (uint32_t)index,
                                         .epoch = choice->epoch,
                                         .threshold = threshold,
                                         .ids = masks->ids + start,
                                         .positions = masks->positions + start,
                                         .labels = masks->labels + start};
        masks->predicted[i] = mask_sequence(&copy);
    }
    masks->count = choice->count;
    masks->token_count = tokens;
    return BERTH_OK;
}

void word_masks_done(struct word_masks *masks) {
    memory_free(masks->starts);
    memory_free(masks->predicted);
    memory_free(masks->ids);
    memory_free(masks->positions);
    memory_free(masks->labels);
    *masks = (struct word_masks){0};
}

struct packer_sequence word_masks_get(const void *masks, size_t index) {
    const struct word_masks *own = masks;
    const size_t start = own->starts[index];
    const size_t end = index + 1 < own->count ? own->starts[index + 1] : own->token_count;
    return (struct packer_sequence){.ids = own->ids + start,
                                    .type_ids = own->all->type_ids,
                                    .length = (int32_t)(end - start),
                                    .start = -1,
                                    .end = -1,
                                    .label = -1,
                                    .target = NAN,
                                    .label_count = -1,
                                    .masked_positions = own->positions + start,
                                    .masked_labels = own->labels + start,
                                    .masked_count = own->predicted[index]};
}

uint64_t word_masks_bytes(uint64_t sequences, uint64_t tokens) {
    return sequences * (sizeof(size_t) + sizeof(int32_t)) +
           tokens * (2 * sizeof(int32_t) + sizeof(uint16_t));
}
