// SPDX-License-Identifier: Apache-2.0
// Hugging Face's cache of downloads on disk; nothing here uses the network.
//
//   ROOT/models--ORG--NAME/blobs/ETAG               contents; ETAG is a SHA-256 or git's SHA-1
//                         /blobs/ETAG.X.incomplete  a download in progress
//                         /snapshots/COMMIT/FILE    links to ../../blobs/ETAG
//                         /refs/BRANCH              the commit, 40 hexadecimal digits
//                         /trees/COMMIT.json        all files of the commit, with sizes and hashes
//                         /verified/ETAG            stamp of a verified blob (hub_blob.h)
//   ROOT/.locks/models--ORG--NAME/ETAG.lock
//
// The contents are untrusted: names and links that point outside the repository's folder are
// refused. fetch/ writes it; model_files.h and fetch/ read it.
#ifndef BERTH_FORMAT_HUB_CACHE_H
#define BERTH_FORMAT_HUB_CACHE_H

#include "core/error.h"
#include "core/file.h"

#include <stddef.h>
#include <stdint.h>

#define HUB_COMMIT_SIZE 41
#define HUB_MAIN "main"

// HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, $HF_HOME/hub; HF_HOME is by default
// $XDG_CACHE_HOME/huggingface, then ~/.cache/huggingface. "~/" at the beginning is the home folder.
// Newly allocated (memory_free), NULL when out of memory.
char *hub_cache_root(void);
// The folder for files that are not from the hub: HF_ASSETS_CACHE, $HF_HOME/assets, then /berth.
struct path hub_assets_root(void);
// HF_TOKEN_PATH, $HF_HOME/token.
struct path hub_token_path(void);

// "1", "on", "yes", "true" in any case.
int hub_is_truthy(const char *value);

// Whether the text is a valid id, "name" or "org/name": letters, digits, ".", "_", "-", no "." or
// "-" at an end, no "--" or "..", at most 96 characters.
int hub_is_id(const char *text);
int hub_is_commit(const char *text);
// Whether the path is relative and cannot leave its folder: no empty, "." or ".." part, no
// backslash, no control character, parts of at most 255 bytes, UTF-8 or not.
int hub_is_safe_path(const char *path);

// "ROOT/models--ORG--NAME"; type: "model" or "dataset".
struct path hub_repo_folder(const char *root, const char *type, const char *id);

// A snapshot in the cache.
struct hub_snapshot {
    char commit[HUB_COMMIT_SIZE];
    char *folder; // NULL: the cache has no snapshot of that id and revision
    struct path repo;
};
// Finds the snapshot of a revision: branch, tag or commit. Missing: BERTH_OK and a NULL folder.
// BERTH_BAD_DATA: a ref without a commit, a link that leaves the repository (and ROOT/blobs), a
// damaged blob (hub_blob.h). BERTH_NO_INPUT: a broken link, or snapshots without the ref.
enum berth_status hub_snapshot_find(const char *root, const char *type, const char *id,
                                    const char *revision, struct hub_snapshot *snapshot,
                                    struct berth_error *error);
void hub_snapshot_done(struct hub_snapshot *snapshot);

// Creates the link SNAPSHOT_FOLDER/PATH to the blob of that name, with missing folders.
enum berth_status hub_link_blob(const char *snapshot_folder, const char *path, const char *blob,
                                struct berth_error *error);
// Writes refs/REVISION, unless it is already right.
enum berth_status hub_write_ref(const char *repo, const char *revision, const char *commit,
                                struct berth_error *error);

#endif
