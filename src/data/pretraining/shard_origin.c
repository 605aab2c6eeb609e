// SPDX-License-Identifier: Apache-2.0
// Reads what the manifest of a folder of shards says of their making, such as the vocabulary's
// digest, and warns if only a part of them was made. The task pretrain, the pack stage and `berth
// inspect` ask; shards of other programs have no manifest, and nothing is said.
#include "data/pretraining/shard_origin.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "format/manifest/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// FOLDER/instances.json, or else FOLDER_pack.json; NULL: there is neither.
static enum berth_status find_manifest(const char *folder, char **manifest,
                                       struct berth_error *error) {
    struct path path = path_in(folder, INSTANCE_MANIFEST);
    if (!file_exists(path.text)) {
        path = path_format("%.*s" PACK_MANIFEST, (int)path_length(folder), folder);
    }
    if (!file_exists(path.text)) {
        return BERTH_OK;
    }
    *manifest = memory_string(path.text);
    return *manifest != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

enum berth_status shard_origin_read(const char *folder, struct shard_origin *origin,
                                    struct berth_error *error) {
    json *object;
    struct berth_error own = {0};
    *origin = (struct shard_origin){0};
    TRY(find_manifest(folder, &origin->manifest, error));
    if (origin->manifest == NULL) {
        return BERTH_OK;
    }
    const enum berth_status status = manifest_read(origin->manifest, NULL, &object, &own);
    if (status != BERTH_OK) {
        return file_probe(status, &own, error);
    }
    origin->is_partial = !manifest_is_complete(object);
    origin->made = (int64_t)json_length(manifest_files(object));
    const json *settings = json_member(object, "settings");
    const char *vocabulary = json_text(json_member(settings, SHARD_VOCABULARY));
    const char *count = json_text(json_member(settings, SHARD_COUNT));
    if (vocabulary != NULL && digest_is_hex(DIGEST_SHA256, vocabulary)) {
        snprintf(origin->vocabulary, sizeof origin->vocabulary, "%s", vocabulary);
    }
    if (count == NULL || !number_parse_integer(count, &origin->wanted)) {
        origin->wanted = 0;
    }
    json_free(object);
    return BERTH_OK;
}

void shard_origin_done(struct shard_origin *origin) {
    memory_free(origin->manifest);
    *origin = (struct shard_origin){0};
}

void shard_origin_warn(const struct shard_origin *origin, const struct berth_log *log) {
    static const char remedy[] = "repeat the command that makes them, which continues";
    if (origin->is_partial && origin->wanted > 0) {
        log_warning(log, "%s: only %" PRId64 " of %" PRId64 " shards were made; %s",
                    origin->manifest, origin->made, origin->wanted, remedy);
    } else if (origin->is_partial) {
        log_warning(log, "%s: not all files were made; %s", origin->manifest, remedy);
    }
}
