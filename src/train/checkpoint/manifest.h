// SPDX-License-Identifier: Apache-2.0
// manifest.json of a checkpoint folder: every other file with its size and SHA-256.
//
//   {"format_version": 1, "files": {"config.json": {"bytes": 612, "sha256": "..."}, ...}}
//
// A folder verifies when its files are exactly those of the manifest, with those sizes and hashes.
#ifndef BERTH_TRAIN_MANIFEST_H
#define BERTH_TRAIN_MANIFEST_H

#include "core/error.h"

#include <stdint.h>

// Writes the manifest of all files that lie in `folder`.
enum berth_status manifest_write(const char *folder, struct berth_error *error);

// BERTH_OK when the folder verifies; *files (may be NULL) gets their number. Else BERTH_BAD_DATA
// naming the file and what is wrong; a manifest of a newer format says so.
enum berth_status manifest_verify(const char *folder, int64_t *files, struct berth_error *error);

#endif
