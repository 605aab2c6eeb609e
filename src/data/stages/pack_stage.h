// SPDX-License-Identifier: Apache-2.0
// The stage that packs a folder of files of instances (HDF5 or TFRecord) as HDF5: rows of up to
// three sequences (packing.h), PACK_ROWS a file.
//
// The input's files are taken in windows of neighbours, as many as stay below PACK_WINDOW tokens,
// and each window is packed by itself: memory holds one. The lengths come first, then the rows are
// dealt out and written side by side. Only the last file of a window is smaller; none is dropped.
#ifndef BERTH_DATA_PACK_STAGE_H
#define BERTH_DATA_PACK_STAGE_H

#include "data/packing/packing.h"
#include "data/stages/stage.h"

#include <stddef.h>
#include <stdint.h>

enum { PACK_ROWS = 4480 };
#define PACK_WINDOW ((int64_t)96 << 20) // 384 MiB of ids

struct pack_stage {
    const char *input;  // folder; of its files those with "training" in their name
    const char *folder; // mixed_strategies_part_0.hdf5, ...; nothing else comes into it
    uint64_t seed;
    int64_t window; // tokens; 0: PACK_WINDOW
    int threads;
    // After the run, of all windows together: packs and strategies are NULL. Free with
    // packing_done.
    struct packing packing;
    int64_t files;
};

// Beside the folder stand FOLDER_metadata.json, which Habana's trainer reads, and the manifest,
// FOLDER_pack.json. BERTH_NO_INPUT: no such files in `input`; BERTH_BAD_DATA: files of different
// shapes, or packed ones, or damaged ones, or no sequence in any of them.
enum berth_status pack_stage_run(struct pack_stage *stage, const struct berth_log *log,
                                 const volatile int *stop, struct berth_error *error);

#endif
