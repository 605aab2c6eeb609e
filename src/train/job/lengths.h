// SPDX-License-Identifier: Apache-2.0
// A histogram of the lengths of the training sequences for reports (BERTH_DETAIL, "length"),
// which also show what padding would have cost.
#ifndef BERTH_TRAIN_LENGTHS_H
#define BERTH_TRAIN_LENGTHS_H

#include "core/log.h"
#include "data/batches/packer.h"

#include <stdint.h>

#define LENGTHS_RANGES 32

struct lengths {
    int64_t width; // of a range; the first one has lengths 1 to width
    int64_t longest;
    int64_t sequences[LENGTHS_RANGES], tokens[LENGTHS_RANGES];
};

// For sequences of up to `longest` tokens.
void lengths_init(struct lengths *lengths, int64_t longest);
void lengths_add(struct lengths *lengths, int64_t length);
// Initialises and adds all sequences of a source.
void lengths_of_sources(struct lengths *lengths, const struct packer_source *sources, size_t count);
// `padded` is the length to which other programs would pad.
void lengths_log(const struct lengths *lengths, int64_t padded, const struct berth_log *log);

#endif
