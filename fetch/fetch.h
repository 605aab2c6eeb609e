// SPDX-License-Identifier: Apache-2.0
// Downloads for `berth fetch`, the only part of the program that uses the network: fetches a name,
// lists what was fetched, removes it. Everything else finds the files on disk
// (format/hub/model_files.h).
#ifndef BERTH_FETCH_FETCH_H
#define BERTH_FETCH_FETCH_H

#include "core/log.h"

#include <stdatomic.h>
#include <stdint.h>

struct fetch_settings {
    const char *revision;   // branch, tag or commit on the hub; NULL: "main"
    const char *files;      // comma-separated patterns of the files to fetch; NULL: those a BERT
                            // model needs, or all of a data set
    const char *sha256;     // expected digest of a URL's content; NULL: unknown
    const char *md5;        // likewise; protects against accidents only
    const char *cache_dir;  // NULL: as HF_HUB_CACHE, HF_HOME, ... say
    const char *token_file; // NULL: HF_TOKEN, else the file HF_TOKEN_PATH or $HF_HOME/token
    int dataset;            // the name denotes a data set of the hub, not a model
    int64_t retries;        // after a transient failure; < 0: 5
};

// Downloads `name` into a cache with Hugging Face's layout: a model or data set of the Hugging Face
// hub ("org/name"; HF_ENDPOINT), a known data set ("squad", "squad_v2"), or an http(s) URL. NULL
// `settings` are the defaults. *path is the snapshot's folder, or a URL's file (memory_free). Files
// already in the cache are not downloaded again, interrupted downloads are resumed, and contents
// are checked against the known digests. With HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE (for data sets
// and URLs also HF_DATASETS_OFFLINE) the network is not used: what is not in the cache is
// BERTH_UNAVAILABLE. `stop` works as for jobs. No connection is BERTH_UNAVAILABLE; not found
// BERTH_NO_INPUT; wrong content, or a listing with hostile paths, BERTH_BAD_DATA; a full disk
// BERTH_IO.
enum berth_status fetch_files(const char *name, const struct fetch_settings *settings,
                              struct berth_log log, const atomic_int *stop, char **path,
                              struct berth_error *error);

// What the caches hold: models and data sets of the hub, then known data sets and URLs.
#define FETCH_NAME_SIZE 512
struct fetch_cached {
    const char *kind; // "model", "data set" or "URL"
    const char *name; // as it was fetched; of a URL its host and a part of its digest
    const char *path;
    int64_t bytes;
};
typedef enum berth_status fetch_see(const struct fetch_cached *found, void *context,
                                    struct berth_error *error);
enum berth_status fetch_list(const char *cache_dir, fetch_see *see, void *context,
                             struct berth_error *error);
// Removes what fetch_files made of the name, in all revisions; *path is the folder that is gone
// (memory_free). BERTH_NO_INPUT: it is not in the cache.
enum berth_status fetch_remove(const char *name, const struct fetch_settings *settings, char **path,
                               struct berth_error *error);

#endif
