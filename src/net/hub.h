// SPDX-License-Identifier: Apache-2.0
// The hub's API: which commit a revision is, and which files it holds.
#ifndef BERTH_NET_HUB_H
#define BERTH_NET_HUB_H

#include "format/digest.h"
#include "format/hub_cache.h"
#include "net/download.h"

// Where and as whom.
struct hub {
    const struct net *net;
    const char *endpoint; // "https://huggingface.co", without a slash at its end
    const char *token;    // NULL: none
    const char *type;     // "model" or "dataset"
    const char *id;
};

struct hub_file {
    const char *path;
    int64_t size;
    char etag[DIGEST_HEX_SIZE];    // its name in blobs/, and its digest
    enum digest_kind kind;         // of the etag
    char blob_id[DIGEST_HEX_SIZE]; // git's name of what lies in git: of the file, or of a pointer
};

struct hub_listing {
    char commit[HUB_COMMIT_SIZE];
    struct hub_file *files; // all of the commit, by path
    size_t count, capacity;
};

// Asks for the files of a revision. A listing that makes no sense, or holds a path that leads
// elsewhere, is BERTH_BAD_DATA.
enum berth_status hub_list(const struct hub *hub, const char *revision, struct hub_listing *listing,
                           struct berth_error *error);
void hub_listing_done(struct hub_listing *listing);

// Writes the listing to the repository's folder in the cache, trees/COMMIT.json.
enum berth_status hub_write_tree(const struct hub_listing *listing, const char *repo,
                                 struct berth_error *error);

// The URL of a file of the listing (memory_free); NULL when memory is out.
char *hub_file_url(const struct hub *hub, const char *commit, const char *path);

#endif
