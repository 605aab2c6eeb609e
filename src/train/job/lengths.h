// SPDX-License-Identifier: Apache-2.0
// How long the sequences of a training set are: a histogram for reports (BERTH_RECORD_DETAIL,
// "length"), which also show what padding would have cost.
#ifndef BERTH_TRAIN_LENGTHS_H
#define BERTH_TRAIN_LENGTHS_H

#include "core/log.h"
#include "data/batches/packer.h"

#include <stdint.h>

#define LENGTHS_RANGES 32

struct lengths {
    int64_t width; // of a range: the first has lengths from 1 to width
    int64_t longest;
    int64_t sequences[LENGTHS_RANGES], tokens[LENGTHS_RANGES];
};

// For sequences of up to `most` tokens.
void lengths_init(struct lengths *lengths, int64_t most);
void lengths_add(struct lengths *lengths, int64_t length);
// Initialises and adds all sequences of a source.
void lengths_of_source(struct lengths *lengths, const struct packer_source *source);
// `max_seq_length`: to which others would pad.
void lengths_log(const struct lengths *lengths, int64_t max_seq_length,
                 const struct berth_log *log);

#endif
