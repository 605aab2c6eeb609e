// SPDX-License-Identifier: Apache-2.0
// The order of an epoch and the packing of micro-batches: see packer.h.
//
// The permutation is a Fisher-Yates shuffle with draws keyed by (seed, epoch). It does not sort by
// length or fill a token budget across updates: an update consists of the sequences at its position
// in the permutation, whatever their lengths. train/engine/feed.c calls it for each update, and
// train/engine/infer.c for each batch of a prediction.
#include "data/batches/packer.h"

#include "core/checksum.h"
#include "core/memory.h"
#include "core/rng.h"

#include <math.h>
#include <string.h>

#define PACKER_STREAM 0x53480000u // of the shuffles; distinct from the streams of initial weights

static uint64_t add_array(uint64_t sum, const void *array, int32_t count, size_t size) {
    return array != NULL && count > 0
               ? checksum_add(sum, checksum_bytes(array, (size_t)count * size))
               : sum;
}

static uint64_t add_sequence(uint64_t sum, const struct packer_sequence *sequence) {
    const int32_t one[] = {sequence->length, sequence->start,       sequence->end,
                           sequence->label,  sequence->label_count, sequence->masked_count};
    const float target = isnan(sequence->target) ? NAN : sequence->target; // one bit pattern
    sum = checksum_add(sum, checksum_bytes(one, sizeof one));
    sum = checksum_add(sum, checksum_bytes(&target, sizeof target));
    sum = add_array(sum, sequence->ids, sequence->length, sizeof *sequence->ids);
    sum = add_array(sum, sequence->type_ids, sequence->length, sizeof *sequence->type_ids);
    sum = add_array(sum, sequence->labels, sequence->label_count, sizeof *sequence->labels);
    sum = add_array(sum, sequence->masked_positions, sequence->masked_count,
                    sizeof *sequence->masked_positions);
    return add_array(sum, sequence->masked_labels, sequence->masked_count,
                     sizeof *sequence->masked_labels);
}

uint64_t packer_checksum(const struct packer_source *source) {
    uint64_t sum = 0;
    for (size_t i = 0; i < source->count * packer_texts(source); i++) {
        const struct packer_sequence sequence = source->get(source->data, i);
        sum = add_sequence(sum, &sequence);
    }
    return sum;
}

void packer_shuffle(uint64_t seed, int64_t epoch, size_t count, uint32_t *order) {
    // The upper bits of the epoch go into the key, so that orders repeat only after 2^32 epochs.
    uint64_t key = seed ^ (uint64_t)epoch >> 16 << 48;
    uint32_t stream = PACKER_STREAM ^ (uint32_t)(epoch & 0xFFFF);
    for (size_t i = 0; i < count; i++) {
        order[i] = (uint32_t)i;
    }
    rng_shuffle(key, stream, order, count);
}

enum berth_status packer_init(struct packer *packer, const struct batch_extent *limits,
                              int sorts_words, struct berth_error *error) {
    const int64_t limit = INT32_MAX - BATCH_ROUNDING;
    *packer = (struct packer){.limits = *limits};
    if (limits->tokens < 1 || limits->sequences < 1 || limits->masked < 0 || limits->labels < 0 ||
        limits->tokens > limit || limits->sequences > limit || limits->masked > limit) {
        return error_set(error, BERTH_USAGE,
                         "a batch of %lld tokens, %lld of them masked, in %lld sequences: expected "
                         "1 to %lld tokens and sequences, and no more masked tokens than tokens",
                         (long long)limits->tokens, (long long)limits->masked,
                         (long long)limits->sequences, (long long)limit);
    }
    size_t bytes = batch_carve(&packer->batch, NULL, limits);
    packer->storage = memory_array_zeroed(bytes, 1);
    packer->word_scratch = memory_array(sorts_words ? (size_t)limits->tokens : 0, sizeof(int32_t));
    if (packer->storage == NULL || packer->word_scratch == NULL) {
        packer_done(packer);
        return error_no_memory(error, bytes, "the arrays of a batch");
    }
    batch_carve(&packer->batch, packer->storage, limits);
    packer->word_rows = sorts_words ? (int32_t *)packer->batch.word_rows : NULL;
    packer->batch.word_rows = packer->word_rows;
    return BERTH_OK;
}

void packer_done(struct packer *packer) {
    memory_free(packer->storage);
    memory_free(packer->word_scratch);
    *packer = (struct packer){0};
}

static void put_sequence(const struct batch *batch, int32_t number, int64_t row,
                         const struct packer_sequence *sequence) {
    int32_t *types = (int32_t *)batch->type_ids + row;
    int32_t *positions = (int32_t *)batch->positions + row;
    int32_t *sequences = (int32_t *)batch->sequences + row;
    memcpy((int32_t *)batch->ids + row, sequence->ids, (size_t)sequence->length * sizeof(int32_t));
    for (int32_t i = 0; i < sequence->length; i++) {
        types[i] = sequence->type_ids[i];
        positions[i] = i;
        sequences[i] = number;
    }
    ((int32_t *)batch->start_positions)[number] = sequence->start;
    ((int32_t *)batch->end_positions)[number] = sequence->end;
    ((int32_t *)batch->labels)[number] = sequence->label;
    ((float *)batch->targets)[number] = sequence->target;
}

// Fills row `number` of the multi-label targets: 1 for the labels that apply, 0 for the others; or
// how far all of them apply.
static void put_labels(struct packer *packer, size_t number,
                       const struct packer_sequence *sequence) {
    const size_t width = (size_t)packer->limits.labels;
    float *targets = (float *)packer->batch.label_targets + number * width;
    if (sequence->vector != NULL) {
        memcpy(targets, sequence->vector, width * sizeof *targets);
        return;
    }
    for (size_t i = 0; i < width; i++) {
        targets[i] = sequence->label_count < 0 ? sequence->target : 0;
    }
    for (int32_t i = 0; i < sequence->label_count; i++) {
        targets[sequence->labels[i]] = 1;
    }
}

// One stable pass of a radix sort by the digit of the ids at `shift`.
static void sort_digit(const int32_t *ids, const int32_t *from, int32_t *to, int64_t count,
                       int shift) {
    int64_t starts[257] = {0};
    for (int64_t i = 0; i < count; i++) {
        starts[(ids[from[i]] >> shift & 255) + 1]++;
    }
    for (int digit = 0; digit < 256; digit++) {
        starts[digit + 1] += starts[digit];
    }
    for (int64_t i = 0; i < count; i++) {
        to[starts[ids[from[i]] >> shift & 255]++] = from[i];
    }
}

// Sorts the rows by token id. The number of passes is even, so the result ends up in word_rows.
static void sort_words(struct packer *packer) {
    const struct batch *batch = &packer->batch;
    int32_t *rows = packer->word_rows, *other = packer->word_scratch;
    for (int64_t i = 0; i < batch->token_count; i++) {
        rows[i] = (int32_t)i;
    }
    for (int shift = 0; shift < 32; shift += 16) {
        sort_digit(batch->ids, rows, other, batch->token_count, shift);
        sort_digit(batch->ids, other, rows, batch->token_count, shift + 8);
    }
}

// One text of item order[item].
struct text {
    size_t item, text;
};

// The text that becomes sequence `number` of the batch.
static struct text text_of(const struct packer_source *source, size_t count, size_t number) {
    const size_t texts = packer_texts(source), group = packer_group(source);
    const size_t first = number / (group * texts) * group, left = count - first;
    const size_t items = left < group ? left : group, inside = number - first * texts;
    return (struct text){.item = first + inside % items, .text = inside / items};
}

void packer_list_texts(const struct packer_source *source, const uint32_t *order,
                       const int64_t *indices, size_t items, uint32_t *texts,
                       int64_t *text_indices) {
    const size_t each = packer_texts(source);
    for (size_t i = 0; i < items * each; i++) {
        const struct text at = text_of(source, items, i);
        texts[i] = (uint32_t)(order[at.item] * each + at.text);
        text_indices[i] = indices[at.item] * (int64_t)each + (int64_t)at.text;
    }
}

void packer_fill(struct packer *packer, const struct packer_source *source, const uint32_t *order,
                 const int64_t *indices, size_t items) {
    struct batch *batch = &packer->batch;
    const size_t texts = packer_texts(source), count = items * texts;
    int64_t row = 0;
    batch->sequence_count = (int64_t)count;
    batch->max_length = 0;
    batch->objective = source->objective;
    batch->masked_count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct text at = text_of(source, items, i);
        const int64_t index = indices != NULL ? indices[at.item] : (int64_t)at.item;
        struct packer_sequence sequence =
            source->get(source->data, order[at.item] * texts + at.text);
        put_sequence(batch, (int32_t)i, row, &sequence);
        int32_t *rows = (int32_t *)batch->masked_rows + batch->masked_count;
        int32_t *labels = (int32_t *)batch->masked_labels + batch->masked_count;
        for (int32_t k = 0; k < sequence.masked_count; k++) {
            rows[k] = (int32_t)row + sequence.masked_positions[k];
            labels[k] = sequence.masked_labels[k];
        }
        batch->masked_count += sequence.masked_count;
        if (batch->label_targets != NULL) {
            put_labels(packer, i, &sequence);
        }
        ((int32_t *)batch->cu_seqlens)[i] = (int32_t)row;
        ((int64_t *)batch->global_indices)[i] = index * (int64_t)texts + (int64_t)at.text;
        if (sequence.length > batch->max_length) {
            batch->max_length = sequence.length;
        }
        row += sequence.length;
    }
    ((int32_t *)batch->cu_seqlens)[count] = (int32_t)row;
    batch->token_count = row;
    batch->row_count = batch_round(row);
    // Clears the slack rows, which belong to no sequence.
    for (int64_t slack = batch->token_count; slack < batch->row_count; slack++) {
        ((int32_t *)batch->ids)[slack] = 0;
        ((int32_t *)batch->type_ids)[slack] = 0;
        ((int32_t *)batch->positions)[slack] = 0;
        ((int32_t *)batch->sequences)[slack] = -1;
    }
    if (packer->word_rows != NULL) {
        sort_words(packer);
    }
    if (batch->head.rows != NULL) {
        batch_fill_head(batch);
    }
}

size_t packer_fit(const struct packer_source *source, const uint32_t *order, size_t count,
                  const struct batch_extent *limits) {
    const size_t group = packer_group(source);
    struct batch_extent extent = {0};
    size_t fitting = 0;
    while (fitting < count && (int64_t)fitting < limits->sequences) {
        const size_t items = count - fitting < group ? count - fitting : group;
        const struct batch_extent own = packer_extent(source, order + fitting, items);
        extent.tokens += own.tokens;
        extent.masked += own.masked;
        if ((extent.tokens > limits->tokens || extent.masked > limits->masked) && fitting > 0) {
            break;
        }
        fitting += items;
    }
    return fitting;
}

struct batch_extent packer_extent(const struct packer_source *source, const uint32_t *order,
                                  size_t count) {
    const size_t texts = packer_texts(source);
    struct batch_extent extent = {0};
    for (size_t i = 0; i < count * texts; i++) {
        const struct packer_sequence sequence =
            source->get(source->data, order[i / texts] * texts + i % texts);
        extent.sequences++;
        extent.tokens += sequence.length;
        extent.masked += sequence.masked_count;
        if (sequence.length > extent.max_length) {
            extent.max_length = sequence.length;
        }
    }
    return extent;
}
