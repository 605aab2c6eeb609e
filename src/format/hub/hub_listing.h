// SPDX-License-Identifier: Apache-2.0
// The answers of the hub's API about a repository: the commit of a revision, the files of a commit.
// They come from the network, so every name, size and digest is checked here. fetch/hub.c gets them
// from the network.
#ifndef BERTH_FORMAT_HUB_LISTING_H
#define BERTH_FORMAT_HUB_LISTING_H

#include "core/error.h"
#include "format/checksum/digest.h"
#include "format/hub/hub_cache.h"

#include <stddef.h>
#include <stdint.h>

struct hub_file {
    const char *path; // safe (hub_is_safe_path)
    int64_t size;
    char etag[DIGEST_HEX_SIZE];    // its name in blobs/, and its digest
    enum digest_kind kind;         // of the etag
    char blob_id[DIGEST_HEX_SIZE]; // git's id of the file, or of its LFS pointer
};

// Zero-initialise.
struct hub_listing {
    char commit[HUB_COMMIT_SIZE];
    struct hub_file *files; // all files of the commit
    size_t count, capacity;
    size_t entries; // of all pages: files and folders
};

// An invalid answer is BERTH_BAD_DATA; `id` names the repository in messages.

// Reads listing->commit from {"sha": COMMIT, ...}.
enum berth_status hub_listing_read_commit(struct hub_listing *listing, const char *id,
                                          const char *text, size_t length,
                                          struct berth_error *error);
// Adds the files of a page.
enum berth_status hub_listing_add(struct hub_listing *listing, const char *id, const char *text,
                                  size_t length, struct berth_error *error);
// Sorts the complete list by path; a duplicate path is BERTH_BAD_DATA.
enum berth_status hub_listing_sort(struct hub_listing *listing, const char *id,
                                   struct berth_error *error);
// Writes the listing to the repository's folder in the cache, trees/COMMIT.json.
enum berth_status hub_listing_write(const struct hub_listing *listing, const char *repo,
                                    struct berth_error *error);
void hub_listing_done(struct hub_listing *listing);

#endif
