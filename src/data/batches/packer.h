// SPDX-License-Identifier: Apache-2.0
// Batches from features: the sequences of an update, its division into micro-batches, and the
// packing of a micro-batch into the arrays of core/batch.h.
//
// The order of an epoch is a seeded permutation that depends on seed and epoch only, so a run's
// position is (epoch, update in the epoch), and resuming needs nothing else.
#ifndef BERTH_DATA_PACKER_H
#define BERTH_DATA_PACKER_H

#include "core/batch.h"
#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

// A sequence as the packer sees it; arrays are borrowed.
struct packer_sequence {
    const int32_t *ids;
    const int8_t *type_ids;
    int32_t length;
    int32_t start, end;    // labels of a span, rows within the sequence
    int32_t label;         // class, or negative: none
    float target;          // real label, or NaN: none
    const int32_t *labels; // with several labels at once: the classes that apply
    int32_t label_count;   // their number; negative: unknown
    // Masked or labelled tokens: rows within the sequence, ascending, and the original ids or
    // classes.
    const uint16_t *masked_positions;
    const int32_t *masked_labels;
    int32_t masked_count;
};

// The items of the data. An item is a sequence, or the texts of an example, each a sequence: text t
// of item i is get(i * texts + t). A group of items stays together: it is in one part of an update
// (division.h) and in one micro-batch, where the first texts of its items are followed by their
// second ones, and so on. Groups are counted from the first item of an update.
struct packer_source {
    struct packer_sequence (*get)(const void *data, size_t index);
    const void *data;
    size_t count; // items
    size_t texts; // of an item; 0: 1
    size_t group; // items; 0: 1
};

static inline size_t packer_texts(const struct packer_source *source) {
    return source->texts > 0 ? source->texts : 1;
}

static inline size_t packer_group(const struct packer_source *source) {
    return source->group > 0 ? source->group : 1;
}

// A checksum of all sequences with their labels, in their order (core/checksum.h).
uint64_t packer_checksum(const struct packer_source *source);

// Fills order[count] with the permutation of epoch `epoch`.
void packer_shuffle(uint64_t seed, int64_t epoch, size_t count, uint32_t *order);

// Owns the arrays of one batch within its limits.
struct packer {
    struct batch batch; // points into the arrays below
    struct batch_extent limits;
    void *storage;
    int32_t *word_rows, *word_scratch; // NULL where words are not sorted
};
// `limits` bounds tokens, sequences and masked tokens. sorts_words: fill word_rows.
enum berth_status packer_init(struct packer *packer, const struct batch_extent *limits,
                              int sorts_words, struct berth_error *error);
void packer_done(struct packer *packer);

// Packs the items order[0 .. items) of the source, which must fit and begin with a group; text t of
// item i gets place places[i] * texts + t, with i for places[i] where `places` is NULL. The caller
// sets batch.masked_weight.
void packer_fill(struct packer *packer, const struct packer_source *source, const uint32_t *order,
                 const int64_t *places, size_t items);

// The number of items at the start of order[0 .. count), whole groups, that fit the limits, of
// which `sequences` counts items; at least one group when count > 0.
size_t packer_fit(const struct packer_source *source, const uint32_t *order, size_t count,
                  const struct batch_extent *limits);

// The extent of the batch of the items order[0 .. count).
struct batch_extent packer_extent(const struct packer_source *source, const uint32_t *order,
                                  size_t count);

#endif
