// SPDX-License-Identifier: Apache-2.0
// manifest.json of a checkpoint folder (format/manifest): every other file with its size and
// SHA-256.
//
// A folder verifies if its files are exactly those of the manifest, with the same sizes and hashes.
// A checkpoint that is to be used may have extra files, such as those of a file manager, but none
// that could change what is read: a settings file (.json) or a vocabulary.
#ifndef BERTH_TRAIN_CHECKPOINT_MANIFEST_H
#define BERTH_TRAIN_CHECKPOINT_MANIFEST_H

#include "core/error.h"
#include "core/log.h"

#include <stdint.h>

// Writes the manifest of all files in `folder`.
enum berth_status checkpoint_manifest_write(const char *folder, struct berth_error *error);

// A checksum of the manifest, and so of all files; 0 if the folder has none.
enum berth_status checkpoint_manifest_checksum(const char *folder, uint64_t *checksum,
                                               struct berth_error *error);

// BERTH_OK if the folder verifies; sets *files (may be NULL) to their number. Otherwise
// BERTH_BAD_DATA, naming the file and the error, such as a manifest of a newer format, or the files
// that are not in the manifest.
enum berth_status checkpoint_manifest_verify(const char *folder, int64_t *files,
                                             struct berth_error *error);
// The same for a checkpoint that is to be used; notes extra files in `log` (may be NULL).
enum berth_status checkpoint_manifest_verify_listed(const char *folder, const struct berth_log *log,
                                                    struct berth_error *error);

#endif
