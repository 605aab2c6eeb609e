// SPDX-License-Identifier: Apache-2.0
// Packs several sequences into one row: histogram packing by non-negative least squares (Krell et
// al., "Efficient sequence packing without cross-contamination", 2021).
//
// A strategy fills a row exactly with up to three lengths. The counts of the strategies are the
// best fit to the histogram of lengths; each remaining sequence gets its own padded row. No
// sequence is lost. The pack stage calls it with the lengths of a window, and writes the rows that
// it returns (data/stages/pack_stage.h).
#ifndef BERTH_DATA_PACKING_H
#define BERTH_DATA_PACKING_H

#include "core/error.h"
#include "data/pretraining/pretraining_file.h"

#include <stddef.h>
#include <stdint.h>

enum { PACKING_LENGTH_MAX = 1024 }; // the longest row

// The lengths of a strategy, non-decreasing; 0 after the last.
struct packing_strategy {
    uint16_t lengths[PRETRAINING_PACK_MAX];
};

struct packing {
    int length; // of a row
    struct packing_strategy *strategies;
    uint64_t *counts; // [strategy_count] number of rows of each
    size_t strategy_count;
    struct pretraining_pack *packs;
    size_t count;               // rows
    uint64_t sequences, tokens; // of the data
    size_t strategies_used;
};

// Plans rows of `length` tokens (3 to PACKING_LENGTH_MAX) for all instances and assigns the
// instances to them, in an order that depends on `seed` only. An instance longer than a row is
// BERTH_BAD_DATA. Free with packing_done, also after a failure.
enum berth_status packing_make(const struct instances *instances, int length, uint64_t seed,
                               struct packing *packing, struct berth_error *error);
void packing_done(struct packing *packing);
// The largest number of masked positions that a row of instances made with `options` can have; rows
// have at most PACKING_LENGTH_MAX tokens. A row has room for max_predictions +
// PRETRAINING_PACK_MAX.
int packing_predictions(const struct instance_options *options);
// The number of strategies for rows of `length` tokens.
size_t packing_strategies(int length);

// packing_efficiency: the fraction of the rows' tokens that are not padding. packing_speed_up: the
// number of sequences per row. packing_speed_up_limit: the same if there were no padding.
double packing_efficiency(const struct packing *packing);
double packing_speed_up(const struct packing *packing);
double packing_speed_up_limit(const struct packing *packing);
// Writes the metadata that Habana's trainer reads with packed files: JSON, atomically.
enum berth_status packing_write_metadata(const struct packing *packing, const char *path,
                                         struct berth_error *error);

#endif
