// SPDX-License-Identifier: Apache-2.0
// What the manifest of `berth prepare` or `berth pack` (data/stages/stage.h) says about a folder of
// shards to those who read them. It says nothing of the files' contents, which pretraining_file.h
// reads.
#ifndef BERTH_DATA_SHARD_ORIGIN_H
#define BERTH_DATA_SHARD_ORIGIN_H

#include "core/error.h"
#include "core/log.h"
#include "format/checksum/digest.h"

#include <stdint.h>

#define INSTANCE_MANIFEST "instances.json"
#define PACK_MANIFEST "_pack.json" // after the folder's name
// The settings in the manifests: the digest of the vocabulary's words, and the number of shards.
#define SHARD_VOCABULARY "vocabulary"
#define SHARD_COUNT "shards"

struct shard_origin {
    char *manifest;                   // its path; NULL: the folder has none
    int is_partial;                   // not all shards were made
    int64_t made, wanted;             // shards; wanted is 0 if it is unknown
    char vocabulary[DIGEST_HEX_SIZE]; // "": unknown
};

// Reads the manifest of the folder. A file that is not such a manifest counts as none.
// shard_origin_done frees, also after a failure.
enum berth_status shard_origin_read(const char *folder, struct shard_origin *origin,
                                    struct berth_error *error);
void shard_origin_done(struct shard_origin *origin);

// Warns if not all shards were made.
void shard_origin_warn(const struct shard_origin *origin, const struct berth_log *log);

#endif
