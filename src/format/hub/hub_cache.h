// SPDX-License-Identifier: Apache-2.0
// Hugging Face's cache of downloads as it lies on the disk; nothing here uses the network.
//
//   ROOT/models--ORG--NAME/blobs/ETAG           contents; ETAG is SHA-256 or git's SHA-1
//                         /blobs/ETAG.X.incomplete  what is being downloaded
//                         /snapshots/COMMIT/FILE    links to ../../blobs/ETAG
//                         /refs/BRANCH              the commit, 40 hexadecimal digits
//                         /trees/COMMIT.json        all files of the commit, with sizes and hashes
//                         /verified/ETAG            of a blob that was hashed (hub_blob.h)
//   ROOT/.locks/models--ORG--NAME/ETAG.lock
//
// What others wrote there is read with suspicion: names that lead elsewhere and links that leave
// the repository's folder are refused.
#ifndef BERTH_FORMAT_HUB_CACHE_H
#define BERTH_FORMAT_HUB_CACHE_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

#define HUB_COMMIT_SIZE 41
#define HUB_MAIN "main"

// Newly allocated (memory_free), NULL when memory is out:
// HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, $HF_HOME/hub; HF_HOME is by default
// $XDG_CACHE_HOME/huggingface, then ~/.cache/huggingface. "~/" at the beginning is the home folder.
char *hub_cache_root(void);
// Where files that are no part of the hub go: HF_ASSETS_CACHE, $HF_HOME/assets, then /berth.
char *hub_assets_root(void);
// HF_TOKEN_PATH, $HF_HOME/token.
char *hub_token_path(void);

// "1", "on", "yes", "true" in any case.
int hub_is_truthy(const char *value);

// "name" or "org/name" as the hub allows: letters, digits, ".", "_", "-", neither at an end, no
// "--" or "..", up to 96 characters.
int hub_is_id(const char *text);
int hub_is_commit(const char *text);
// A relative path that stays where it begins: no empty, "." or ".." part, no backslash, no control
// character, not absolute, parts up to 255 bytes, UTF-8 or not.
int hub_is_safe_path(const char *path);

// "ROOT/models--ORG--NAME"; type: "model" or "dataset". Newly allocated.
char *hub_repo_folder(const char *root, const char *type, const char *id);

// A snapshot in the cache.
struct hub_snapshot {
    char commit[HUB_COMMIT_SIZE];
    char *folder; // NULL: the cache has none of that id or revision
    char *repo;
};
// revision: branch, tag or commit. Not there: BERTH_OK and a NULL folder. A ref that holds no
// commit or a folder whose links leave the repository (or the root's own blobs/): BERTH_BAD_DATA; a
// link to a file that is gone: BERTH_NO_INPUT. A blob whose content is not what its name says:
// BERTH_BAD_DATA (hub_blob.h).
enum berth_status hub_snapshot_find(const char *root, const char *type, const char *id,
                                    const char *revision, struct hub_snapshot *snapshot,
                                    struct berth_error *error);
void hub_snapshot_done(struct hub_snapshot *snapshot);

// Makes the link SNAPSHOT_FOLDER/PATH to the blob of that name, folders on the way included.
enum berth_status hub_link_blob(const char *snapshot_folder, const char *path, const char *blob,
                                struct berth_error *error);
// Writes refs/REVISION; fine when it says so already.
enum berth_status hub_write_ref(const char *repo, const char *revision, const char *commit,
                                struct berth_error *error);

#endif
