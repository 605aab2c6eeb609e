// SPDX-License-Identifier: Apache-2.0
// A fetch while it runs, shared by its parts: fetch.c decides what is meant, fetch_hub.c asks the
// hub, fetch_url.c fetches URLs and the data sets known by name, fetching.c makes the snapshot of
// what came.
#ifndef BERTH_API_FETCHING_H
#define BERTH_API_FETCHING_H

#include "berth.h"
#include "net/download.h"

struct known_file {
    const char *name, *sha256;
};

struct known_set {
    const char *names[3];       // the last is NULL
    const char *folder, *place; // in the cache; the URL before the files' names
    struct known_file files[2];
};

// One fetch while it runs.
struct fetch {
    const char *name;
    const struct berth_fetch_settings *settings;
    const struct known_set *known; // or NULL
    const char *revision;
    const char *type; // of the hub's repository: "model" or "dataset"
    int is_url;
    struct net net;
    char *root;  // the folder of all repositories
    char *repo;  // the one's folder
    char *locks; // the one's lock files
    char *path;  // the result
};

struct snapshot_file {
    const char *path, *blob;
};

enum berth_status fetch_no_memory(struct berth_error *error);

// Makes the repository's folder, and marks the cache as one for backup programs.
enum berth_status fetch_tag_cache(const struct fetch *fetch, struct berth_error *error);

// Links the files into the snapshot `commit`, then writes the revision's ref. fetch->path becomes
// the snapshot's folder.
enum berth_status fetch_publish(struct fetch *fetch, const char *commit,
                                const struct snapshot_file *files, size_t count,
                                struct berth_error *error);
// Makes `path` the result, which owns it from now on.
void fetch_take(struct fetch *fetch, char *path);

enum berth_status fetch_from_hub(struct fetch *fetch, struct berth_error *error);

// With `offline` what the cache holds is enough, or BERTH_UNAVAILABLE.
enum berth_status fetch_url(struct fetch *fetch, int offline, struct berth_error *error);
enum berth_status fetch_known_set(struct fetch *fetch, int offline, struct berth_error *error);

// The data set known by that name, or NULL.
const struct known_set *fetch_find_known(const char *name);

#endif
