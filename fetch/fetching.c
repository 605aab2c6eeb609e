// SPDX-License-Identifier: Apache-2.0
#include "fetch/fetching.h"

#include "core/file.h"
#include "core/memory.h"
#include "format/hub/hub_cache.h"

enum berth_status fetch_no_memory(struct berth_error *error) {
    return error_no_memory(error, 0, "a download's names");
}

// Backup programs skip folders with this file.
enum berth_status fetch_tag_cache(const struct fetch *fetch, struct berth_error *error) {
    static const char tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                              "# A cache of downloads; see https://bford.info/cachedir/\n";
    TRY(dir_make(fetch->repo, error));
    char *path = path_join(fetch->root, "CACHEDIR.TAG");
    if (path == NULL) {
        return fetch_no_memory(error);
    }
    enum berth_status status =
        file_exists(path) ? BERTH_OK : file_write(path, tag, sizeof tag - 1, error);
    memory_free(path);
    return status;
}

static enum berth_status snapshot_folder(const struct fetch *fetch, const char *commit,
                                         char **folder, struct berth_error *error) {
    char *all = path_join(fetch->repo, "snapshots");
    *folder = all != NULL ? path_join(all, commit) : NULL;
    memory_free(all);
    if (*folder == NULL) {
        return fetch_no_memory(error);
    }
    TRY(dir_make(*folder, error));
    return path_is_inside(*folder, fetch->repo)
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s is outside the cache's folder %s: refused",
                           *folder, fetch->repo);
}

// Links the files, then points the revision to this snapshot. Sets fetch->path to its folder.
enum berth_status fetch_publish(struct fetch *fetch, const char *commit,
                                const struct snapshot_file *files, size_t count,
                                struct berth_error *error) {
    TRY(snapshot_folder(fetch, commit, &fetch->path, error));
    for (size_t i = 0; i < count; i++) {
        TRY(hub_link_blob(fetch->path, files[i].path, files[i].blob, error));
    }
    return hub_is_commit(fetch->revision)
               ? BERTH_OK
               : hub_write_ref(fetch->repo, fetch->revision, commit, error);
}

void fetch_set_path(struct fetch *fetch, char *path) {
    memory_free(fetch->path);
    fetch->path = path;
}
