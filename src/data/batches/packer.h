// SPDX-License-Identifier: Apache-2.0
// Makes batches from features: chooses the sequences of an update, divides them into micro-batches,
// and packs each micro-batch into the arrays of core/batch.h.
//
// The order of an epoch is a permutation that depends only on the seed and the epoch, so (epoch,
// update within the epoch) is all that a resumed run needs. The feed of a training and the loop of
// a prediction call it (train/engine); the device gets the batch as it is.
#ifndef BERTH_DATA_PACKER_H
#define BERTH_DATA_PACKER_H

#include "core/batch.h"
#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

// One sequence; the arrays are borrowed.
struct packer_sequence {
    const int32_t *ids;
    const int8_t *type_ids;
    int32_t length;
    int32_t start, end;    // labels of a span, rows within the sequence
    int32_t label;         // class, or negative: none
    float target;          // real label, or how far all labels apply, or NaN: none
    const int32_t *labels; // multi-label: the classes that apply
    int32_t label_count;   // negative: see target
    const float *vector;   // [the batch's K] real labels; NULL: the classes above
    // Masked or labelled tokens: rows within the sequence, ascending, and the original ids or
    // classes.
    const uint16_t *masked_positions;
    const int32_t *masked_labels;
    int32_t masked_count;
};

// A data set as a sequence of items. An item is one example of one or more texts, and every text is
// a sequence: text t of item i is get(i * texts + t). The items of a group stay together, in one
// part of an update (division.h) and in one micro-batch; there the first texts of all its items
// come first, then the second texts, and so on. Groups are counted from the first item of an
// update.
struct packer_source {
    struct packer_sequence (*get)(const void *data, size_t index);
    const void *data;
    size_t count;      // items
    size_t texts;      // per item; 0: 1
    size_t group;      // items per group; 0: 1
    int64_t objective; // of its batches (core/batch.h)
    // The texts of a micro-batch are computed in pieces of at most so many tokens, which may divide
    // its groups; 0: all at once.
    int64_t piece_tokens;
    // [count * texts] numbers of the texts below number_count, equal where these are: no group
    // shall have a text twice (epoch_order.h); NULL: it may.
    const uint32_t *numbers;
    size_t number_count;
};

static inline size_t packer_texts(const struct packer_source *source) {
    return source->texts > 0 ? source->texts : 1;
}

static inline size_t packer_group(const struct packer_source *source) {
    return source->group > 0 ? source->group : 1;
}

// A checksum of all sequences and labels, in order (core/checksum.h).
uint64_t packer_checksum(const struct packer_source *source);

// Fills order[count] with the permutation of epoch `epoch`.
void packer_shuffle(uint64_t seed, int64_t epoch, size_t count, uint32_t *order);

// Owns the arrays of one batch.
struct packer {
    struct batch batch; // points into the arrays below
    struct batch_extent limits;
    void *storage;
    int32_t *word_rows, *word_scratch; // NULL: words are not sorted
};
// `limits` bounds tokens, sequences and masked tokens. sorts_words: fill word_rows.
enum berth_status packer_init(struct packer *packer, const struct batch_extent *limits,
                              int sorts_words, struct berth_error *error);
void packer_done(struct packer *packer);

// Packs the items order[0 .. items) of the source, which must fit the limits and begin with a
// group; the global index of text t of item i is indices[i] * texts + t, with indices[i] = i where
// `indices` is NULL. The caller sets batch.masked_weight.
void packer_fill(struct packer *packer, const struct packer_source *source, const uint32_t *order,
                 const int64_t *indices, size_t items);

// The texts of these items in the order of their sequences in the batch: get's index of each, and
// its global index. texts, text_indices [items * texts]
void packer_list_texts(const struct packer_source *source, const uint32_t *order,
                       const int64_t *indices, size_t items, uint32_t *texts,
                       int64_t *text_indices);

// How many items at the start of order[0 .. count) fit the limits, in whole groups; at least one
// group if count > 0. limits->sequences counts items here.
size_t packer_fit(const struct packer_source *source, const uint32_t *order, size_t count,
                  const struct batch_extent *limits);

// The extent of a batch of the items order[0 .. count).
struct batch_extent packer_extent(const struct packer_source *source, const uint32_t *order,
                                  size_t count);

#endif
