// SPDX-License-Identifier: Apache-2.0
// The state of a fetch, shared by its parts: fetch.c determines what a name denotes, fetch_hub.c
// talks to the hub, fetch_url.c fetches URLs and known data sets, fetching.c publishes the
// snapshot.
#ifndef BERTH_FETCH_FETCHING_H
#define BERTH_FETCH_FETCHING_H

#include "core/file.h"
#include "fetch/download.h"
#include "fetch/fetch.h"
#include "format/hub/model_files.h"

// The state of one fetch.
struct fetch {
    const char *name;
    const struct fetch_settings *settings;
    const struct known_set *known; // or NULL
    const char *revision;
    const char *type; // type of the hub's repository: "model" or "dataset"
    int is_url;
    struct net net;
    struct path root;  // folder of all repositories
    struct path repo;  // folder of this repository
    struct path locks; // folder of its lock files
    struct path path;  // the result
};

struct snapshot_file {
    const char *path, *blob;
};

enum berth_status fetch_no_memory(struct berth_error *error);

// Creates the repository's folder, and tags the cache so that backup programs skip it.
enum berth_status fetch_tag_cache(const struct fetch *fetch, struct berth_error *error);

// Links the files into the snapshot `commit`, then writes the revision's ref. Sets fetch->path to
// the snapshot's folder.
enum berth_status fetch_publish(struct fetch *fetch, const char *commit,
                                const struct snapshot_file *files, size_t count,
                                struct berth_error *error);

enum berth_status fetch_from_hub(struct fetch *fetch, struct berth_error *error);

// With `offline` only the cache is used; BERTH_UNAVAILABLE if it lacks the file.
enum berth_status fetch_url(struct fetch *fetch, int offline, struct berth_error *error);
enum berth_status fetch_known_set(struct fetch *fetch, int offline, struct berth_error *error);

#endif
