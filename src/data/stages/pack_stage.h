// SPDX-License-Identifier: Apache-2.0
// The stage that packs a folder of instance files (HDF5 or TFRecord) into HDF5: rows of up to three
// sequences (packing.h), PACK_ROWS per file.
//
// Consecutive input files of up to PACK_WINDOW tokens form a window, and each window is packed
// separately, so that memory holds one. The lengths are read first; then the rows are assigned and
// written in parallel. Only the last file of a window is smaller; no row is dropped. Each rank
// packs one window at a time; the files are numbered once all ranks have assigned their rows. A
// training reads the files by data/pretraining/shard_stream.h.
#ifndef BERTH_DATA_PACK_STAGE_H
#define BERTH_DATA_PACK_STAGE_H

#include "core/log.h"
#include "data/packing/packing.h"
#include "data/stages/stage.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { PACK_ROWS = 4480 };
#define PACK_WINDOW ((int64_t)96 << 20) // 384 MiB of ids

struct pack_stage {
    const char *input;  // folder; files with "training" in their names are packed
    const char *folder; // gets mixed_strategies_part_0.hdf5, ... and no other files
    int length;         // tokens that the rows of the input must have; 0: any number
    uint64_t seed;
    int64_t window; // tokens; 0: PACK_WINDOW
    int threads;
    struct comm *comm; // of the ranks, all of which call it
    // After the run, on rank 0, for all windows together: packs and strategies are NULL.
    // Free with packing_done.
    struct packing packing;
    int64_t files;
};

// Checks in advance whether instances made with `options` can be packed. BERTH_BAD_DATA: they are
// longer than PACKING_LENGTH_MAX, or a row could not hold the masked positions of three of them.
enum berth_status pack_stage_check(const struct instance_options *options,
                                   struct berth_error *error);
// Also writes FOLDER_metadata.json, which Habana's trainer reads, and the manifest,
// FOLDER_pack.json, next to the folder. BERTH_NO_INPUT: no such files in `input`. BERTH_CONFIG:
// rows of another length. BERTH_BAD_DATA: files of different shapes, packed or damaged files, or no
// sequence in any file.
enum berth_status pack_stage_run(struct pack_stage *stage, const struct berth_log *log,
                                 const atomic_int *stop, struct berth_error *error);

#endif
