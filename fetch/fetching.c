// SPDX-License-Identifier: Apache-2.0
// What the ways to fetch something have in common: marks the cache as one that backups may leave
// out, and publishes a snapshot, by links to the files that were downloaded, then the reference.
// Called last by fetch_hub.c and fetch_url.c.
#include "fetch/fetching.h"

#include "core/file.h"
#include "format/hub/hub_cache.h"

enum berth_status fetch_no_memory(struct berth_error *error) {
    return error_no_memory(error, 0, "a download's names");
}

// Backup programs skip folders with this file.
enum berth_status fetch_tag_cache(const struct fetch *fetch, struct berth_error *error) {
    static const char tag[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
                              "# A cache of downloads; see https://bford.info/cachedir/\n";
    TRY(dir_make(fetch->repo.text, error));
    const struct path path = path_in(fetch->root.text, "CACHEDIR.TAG");
    return file_exists(path.text) ? BERTH_OK : file_write(path.text, tag, sizeof tag - 1, error);
}

static enum berth_status snapshot_folder(const struct fetch *fetch, const char *commit,
                                         struct path *folder, struct berth_error *error) {
    *folder = path_in(path_in(fetch->repo.text, "snapshots").text, commit);
    TRY(dir_make(folder->text, error));
    return path_is_inside(folder->text, fetch->repo.text)
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s is outside the cache's folder %s: refused",
                           folder->text, fetch->repo.text);
}

// Links the files, then points the revision to this snapshot. Sets fetch->path to its folder.
enum berth_status fetch_publish(struct fetch *fetch, const char *commit,
                                const struct snapshot_file *files, size_t count,
                                struct berth_error *error) {
    TRY(snapshot_folder(fetch, commit, &fetch->path, error));
    for (size_t i = 0; i < count; i++) {
        TRY(hub_link_blob(fetch->path.text, files[i].path, files[i].blob, error));
    }
    return hub_is_commit(fetch->revision)
               ? BERTH_OK
               : hub_write_ref(fetch->repo.text, fetch->revision, commit, error);
}
