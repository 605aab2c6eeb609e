// SPDX-License-Identifier: Apache-2.0
// {"format_version": 1, "files": {PATH: {"size", "blob_id", "lfs_sha256", "lfs_size"}}}, as
// huggingface_hub keeps it.
#include "core/file.h"
#include "core/memory.h"
#include "format/hub/hub_listing.h"
#include "format/json/json.h"

#include <stdio.h>

static json *tree_entry(const struct hub_file *file) {
    json *entry = json_new_object();
    json_set(entry, "size", json_new_integer(file->size));
    json_set(entry, "blob_id", json_new_text(file->blob_id));
    if (file->kind == DIGEST_SHA256) {
        json_set(entry, "lfs_sha256", json_new_text(file->etag));
        json_set(entry, "lfs_size", json_new_integer(file->size));
    }
    return entry;
}

enum berth_status hub_listing_write(const struct hub_listing *listing, const char *repo,
                                    struct berth_error *error) {
    char name[HUB_COMMIT_SIZE + 8];
    snprintf(name, sizeof name, "%s.json", listing->commit);
    char *folder = path_join(repo, "trees");
    char *path = folder != NULL ? path_join(folder, name) : NULL;
    json *tree = json_new_object(), *files = json_new_object();
    for (size_t i = 0; i < listing->count; i++) {
        json_set(files, listing->files[i].path, tree_entry(&listing->files[i]));
    }
    json_set(tree, "format_version", json_new_integer(1));
    json_set(tree, "files", files);
    enum berth_status status = path == NULL ? file_no_path(error) : dir_make(folder, error);
    if (status == BERTH_OK) {
        status = json_write_file(tree, JSON_INDENT_2_SORTED, path, error);
    }
    json_free(tree);
    memory_free(path);
    memory_free(folder);
    return status;
}
