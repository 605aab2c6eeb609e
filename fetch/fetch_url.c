// SPDX-License-Identifier: Apache-2.0
// Fetches a file at any URL, and the data sets whose URLs and digests are known
// (format/hub/model_files.h). fetch.c calls it where a name is neither a repository nor a path;
// bytes are downloaded and checked by download.c.
#include "core/caseless.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "fetch/fetching.h"
#include "format/hub/hub_blob.h"
#include "format/hub/hub_cache.h"

#include <stdio.h>
#include <string.h>

#define NAME_LIMIT 256
#define NO_SIZE (-1)

// --- URLs ---------------------------------------------------------------------------------------

// Computes the snapshot's name: 40 digits of the SHA-256 of its files' digests.
static enum berth_status snapshot_commit(const struct snapshot_file *files, size_t count,
                                         char commit[HUB_COMMIT_SIZE], struct berth_error *error) {
    char all[2 * DIGEST_HEX_SIZE] = "", hex[DIGEST_HEX_SIZE];
    for (size_t i = 0; i < count; i++) {
        strncat(all, files[i].blob, sizeof all - strlen(all) - 1);
    }
    TRY(digest_memory(DIGEST_SHA256, all, strlen(all), hex, error));
    snprintf(commit, HUB_COMMIT_SIZE, "%.40s", hex);
    return BERTH_OK;
}

// The cached content of a URL: the folder of its snapshot and its etag.
struct cached_url {
    struct path file; // "": not cached
    char *etag;
};

static enum berth_status find_cached(const struct fetch *fetch, const char *name,
                                     struct cached_url *cached, struct berth_error *error) {
    const char *const repo = fetch->repo.text;
    const struct path ref = path_in(repo, "refs/" HUB_MAIN), etag = path_in(repo, "etag");
    OWNED char *commit = NULL;
    size_t length;
    if (file_exists(ref.text)) {
        TRY(file_read(ref.text, HUB_COMMIT_SIZE, &commit, &length, error));
    }
    if (commit == NULL || !hub_is_commit(commit)) {
        return BERTH_OK;
    }
    const struct path file = path_format("%s/snapshots/%s/%s", repo, commit, name);
    if (!file_exists(file.text) || !path_is_inside(file.text, repo) ||
        hub_blob_check(repo, file.text, NULL) != BERTH_OK) {
        return BERTH_OK;
    }
    cached->file = file;
    if (file_exists(etag.text)) {
        (void)file_read(etag.text, NAME_LIMIT, &cached->etag, &length, NULL);
    }
    return BERTH_OK;
}

// Whether the cached file has the requested digest.
static int has_requested_digests(const struct fetch *fetch, const char *file) {
    const char *sha256 = fetch->settings->sha256, *md5 = fetch->settings->md5;
    char hex[DIGEST_HEX_SIZE];
    return (sha256 == NULL || (digest_file(DIGEST_SHA256, file, hex, NULL) == BERTH_OK &&
                               caseless_equal(hex, sha256))) &&
           (md5 == NULL ||
            (digest_file(DIGEST_MD5, file, hex, NULL) == BERTH_OK && caseless_equal(hex, md5)));
}

static enum berth_status download_url(struct fetch *fetch, const char *name,
                                      struct cached_url *cached, struct berth_error *error) {
    char key[DIGEST_HEX_SIZE], commit[HUB_COMMIT_SIZE];
    struct download_result result;
    TRY(digest_memory(DIGEST_SHA256, fetch->name, strlen(fetch->name), key, error));
    struct download wanted = {
        .url = fetch->name,
        .name = name,
        .repo = fetch->repo.text,
        .locks = fetch->locks.text,
        .key = key,
        .by_content = 1,
        .size = NO_SIZE,
        .digests = {{DIGEST_SHA256, fetch->settings->sha256}, {DIGEST_MD5, fetch->settings->md5}},
        .known_etag = cached->etag};
    TRY(download(&fetch->net, &wanted, &result, error));
    if (result.unchanged) {
        fetch->path = cached->file;
        return BERTH_OK;
    }
    const struct snapshot_file file = {.path = name, .blob = result.blob};
    TRY(snapshot_commit(&file, 1, commit, error));
    TRY(fetch_publish(fetch, commit, &file, 1, error));
    const char *etag = result.etag;
    const struct path path = path_in(fetch->repo.text, "etag");
    TRY(*etag != '\0' ? file_write(path.text, etag, strlen(etag), error)
                      : file_remove(path.text, error));
    fetch->path = path_in(fetch->path.text, name);
    return BERTH_OK;
}

enum berth_status fetch_url(struct fetch *fetch, int offline, struct berth_error *error) {
    char name[NAME_LIMIT];
    struct cached_url cached = {.etag = NULL};
    // The last component of the URL's path, decoded; "download" if that is not a file name.
    const char *path = strchr(strstr(fetch->name, "://") + 3, '/');
    size_t length = path != NULL ? strcspn(path, "?#") : 0, first = length, used = 0;
    while (first > 0 && path[first - 1] != '/') {
        first--;
    }
    for (size_t i = first; i < length && used + 1 < NAME_LIMIT; i++) {
        const int escaped = percent_byte(path + i, length - i);
        name[used++] = (char)(escaped >= 0 ? escaped : path[i]);
        i += escaped >= 0 ? 2 : 0;
    }
    name[used] = '\0';
    if (!hub_is_safe_path(name) || strchr(name, '/') != NULL) {
        snprintf(name, NAME_LIMIT, "download");
    }
    enum berth_status status = find_cached(fetch, name, &cached, error);
    int given = fetch->settings->sha256 != NULL || fetch->settings->md5 != NULL;
    int good = status == BERTH_OK && cached.file.text[0] != '\0' && (offline || given) &&
               has_requested_digests(fetch, cached.file.text);
    if (good) {
        fetch->path = cached.file;
    } else if (status == BERTH_OK && offline) {
        status = error_set(error, BERTH_UNAVAILABLE, "%s is not in the cache %s", fetch->name,
                           fetch->root.text);
    } else if (status == BERTH_OK) {
        if (given) { // the cached file is a different one
            memory_free(cached.etag);
            cached.etag = NULL;
        }
        status = fetch_tag_cache(fetch, error);
        status = status == BERTH_OK ? download_url(fetch, name, &cached, error) : status;
    }
    memory_free(cached.etag);
    return status;
}

// --- data sets known by name --------------------------------------------------------------------

enum berth_status fetch_known_set(struct fetch *fetch, int offline, struct berth_error *error) {
    enum { COUNT = sizeof fetch->known->files / sizeof *fetch->known->files };
    struct snapshot_file files[COUNT];
    char commit[HUB_COMMIT_SIZE];
    for (size_t i = 0; i < COUNT; i++) {
        files[i] =
            (struct snapshot_file){fetch->known->files[i].name, fetch->known->files[i].sha256};
        const struct path path = path_format("%s/blobs/%s", fetch->repo.text, files[i].blob);
        const int is_cached = file_exists(path.text);
        TRY(offline && is_cached ? hub_blob_check(fetch->repo.text, path.text, error) : BERTH_OK);
        if (offline && !is_cached) {
            return error_set(error, BERTH_UNAVAILABLE, "%s of %s is not in the cache %s",
                             files[i].path, fetch->name, fetch->root.text);
        }
    }
    TRY(fetch_tag_cache(fetch, error));
    for (size_t i = 0; i < COUNT && !offline; i++) {
        const struct known_file *file = &fetch->known->files[i];
        char url[NAME_LIMIT];
        struct download_result result;
        snprintf(url, sizeof url, "%s%s", fetch->known->url_prefix, file->name);
        struct download wanted = {.url = url,
                                  .name = file->name,
                                  .repo = fetch->repo.text,
                                  .locks = fetch->locks.text,
                                  .key = file->sha256,
                                  .size = NO_SIZE,
                                  .digests = {{DIGEST_SHA256, file->sha256}}};
        TRY(download(&fetch->net, &wanted, &result, error));
    }
    TRY(snapshot_commit(files, COUNT, commit, error));
    return fetch_publish(fetch, commit, files, COUNT, error);
}
