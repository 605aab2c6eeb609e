// SPDX-License-Identifier: Apache-2.0
// `berth fetch`: decides whether a name is a URL, a data set with a name of its own or a repository
// of the hub, has it fetched by fetch_url.c or fetch_hub.c, and lists and removes what is in the
// cache.
//
// A snapshot's ref is written after all its files, so a look-up in the cache finds either the
// complete snapshot or the previous one.
#include "fetch/fetch.h"

#include "core/file.h"
#include "core/memory.h"
#include "fetch/fetching.h"
#include "format/hub/model_files.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_RETRIES 5
#define NAME_LIMIT 256

// --- what to fetch -------------------------------------------------------------------------------

static enum berth_status check_hash(const char *option, enum digest_kind kind, const char *hex,
                                    struct berth_error *error) {
    if (hex == NULL || (strlen(hex) == digest_length(kind) &&
                        strspn(hex, "0123456789abcdefABCDEF") == digest_length(kind))) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_USAGE, "option %s: expected %zu hexadecimal digits, found \"%s\"",
                     option, digest_length(kind), hex);
}

static enum berth_status check_settings(const struct fetch *fetch, struct berth_error *error) {
    const struct fetch_settings *settings = fetch->settings;
    TRY(check_hash("sha256", DIGEST_SHA256, settings->sha256, error));
    TRY(check_hash("md5", DIGEST_MD5, settings->md5, error));
    if (!fetch->is_url && (settings->sha256 != NULL || settings->md5 != NULL)) {
        return error_set(
            error, BERTH_USAGE,
            "options sha256 and md5 are for URLs; the hub provides digests of its own");
    }
    if ((fetch->is_url || fetch->known != NULL) &&
        (settings->revision != NULL || settings->files != NULL || settings->dataset)) {
        return error_set(error, BERTH_USAGE,
                         "options revision, files and dataset are for repositories of the hub");
    }
    if (!fetch->is_url && fetch->known == NULL && !hub_is_id(fetch->name)) {
        return error_set(error, BERTH_USAGE,
                         "\"%s\": expected a URL, a data set (squad, squad_v2), or a name of the "
                         "hub such as org/name",
                         fetch->name);
    }
    return hub_is_safe_path(fetch->revision)
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "revision \"%s\": expected the name of a branch or a commit",
                           fetch->revision);
}

static enum berth_status find_folders(struct fetch *fetch, struct berth_error *error) {
    const char *given = fetch->settings->cache_dir;
    int of_hub = !fetch->is_url && fetch->known == NULL;
    char name[NAME_LIMIT] = "";
    OWNED char *hub_root = hub_cache_root();
    if (hub_root == NULL) {
        return fetch_no_memory(error);
    }
    fetch->root = !of_hub && given == NULL ? hub_assets_root()
                                           : path_format("%s", given != NULL ? given : hub_root);
    if (fetch->is_url) {
        // "urls--HOST--16 digits of the URL's SHA-256"
        const char *url = fetch->name;
        char hex[DIGEST_HEX_SIZE];
        char *host;
        TRY(http_host(url, &host, error));
        if (host == NULL) {
            return error_set(error, BERTH_USAGE, "\"%s\": expected an http or https URL", url);
        }
        for (char *at = host; *at != '\0'; at++) {
            *at = isalnum((unsigned char)*at) || *at == '.' || *at == '-' ? *at : '_';
        }
        enum berth_status status = digest_memory(DIGEST_SHA256, url, strlen(url), hex, error);
        snprintf(name, NAME_LIMIT, "urls--%.200s--%.16s", host, hex);
        memory_free(host);
        TRY(status);
    } else if (fetch->known != NULL) {
        snprintf(name, sizeof name, "%s", fetch->known->folder);
    }
    const char *const root = fetch->root.text;
    fetch->repo = of_hub ? hub_repo_folder(root, fetch->type, fetch->name) : path_in(root, name);
    fetch->locks = path_in(path_in(root, ".locks").text, path_name(fetch->repo.text));
    return BERTH_OK;
}

// --- offline ------------------------------------------------------------------------------------

// The environment variable that forbids network use for this fetch, or NULL.
static const char *offline_variable(const struct fetch *fetch) {
    static const char *const all[] = {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",
                                      "HF_DATASETS_OFFLINE"};
    size_t count = strcmp(fetch->type, "model") == 0 ? 2 : 3;
    for (size_t i = 0; i < count; i++) {
        if (hub_is_truthy(getenv(all[i]))) {
            return all[i];
        }
    }
    return NULL;
}

static enum berth_status find_snapshot(struct fetch *fetch, struct berth_error *error) {
    struct hub_snapshot snapshot;
    TRY(hub_snapshot_find(fetch->root.text, fetch->type, fetch->name, fetch->revision, &snapshot,
                          error));
    enum berth_status status = BERTH_OK;
    if (snapshot.folder == NULL) {
        status = error_set(error, BERTH_UNAVAILABLE, "%s, revision %s, is not in the cache %s",
                           fetch->name, fetch->revision, fetch->root.text);
    } else if (strcmp(fetch->type, "model") == 0) {
        status = model_files_check(&snapshot, fetch->name, error);
    }
    if (status == BERTH_OK) {
        fetch->path = path_format("%s", snapshot.folder);
    }
    hub_snapshot_done(&snapshot);
    return status;
}

static enum berth_status fetch_offline(struct fetch *fetch, const char *variable,
                                       struct berth_error *error) {
    enum berth_status status = fetch->is_url          ? fetch_url(fetch, 1, error)
                               : fetch->known != NULL ? fetch_known_set(fetch, 1, error)
                                                      : find_snapshot(fetch, error);
    if (status == BERTH_OK) {
        log_note(&fetch->net.log, "%s is set: using the cached copy as it is", variable);
        return BERTH_OK;
    }
    return error_prefix(error, status == BERTH_NO_INPUT ? BERTH_UNAVAILABLE : status,
                        "%s is set: nothing is downloaded", variable);
}

// --- fetch ---------------------------------------------------------------------------------------

static enum berth_status fetch_online(struct fetch *fetch, const atomic_int *stop,
                                      struct berth_error *error) {
    TRY(http_open(&fetch->net.http, stop, error));
    enum berth_status status = fetch->is_url          ? fetch_url(fetch, 0, error)
                               : fetch->known != NULL ? fetch_known_set(fetch, 0, error)
                                                      : fetch_from_hub(fetch, error);
    http_close(fetch->net.http);
    return status;
}

// Finds out what the name denotes and where it is.
static enum berth_status find(struct fetch *fetch, const char *name,
                              const struct fetch_settings *settings, struct berth_error *error) {
    const int is_url = strstr(name, "://") != NULL;
    const struct known_set *known = is_url || settings->dataset ? NULL : known_set_find(name);
    const int is_model = !is_url && known == NULL && !settings->dataset;
    *fetch = (struct fetch){
        .name = name,
        .settings = settings,
        .known = known,
        .is_url = is_url,
        .revision = settings->revision != NULL ? settings->revision : HUB_MAIN,
        .type = is_model ? "model" : "dataset",
        .net = {.retries = settings->retries >= 0 ? settings->retries : DEFAULT_RETRIES}};
    TRY(check_settings(fetch, error));
    return find_folders(fetch, error);
}

enum berth_status fetch_files(const char *name, const struct fetch_settings *settings,
                              struct berth_log log, const atomic_int *stop, char **path,
                              struct berth_error *error) {
    static const struct fetch_settings usual = {.retries = -1};
    struct fetch fetch;
    *path = NULL;
    TRY(find(&fetch, name, settings != NULL ? settings : &usual, error));
    fetch.net.log = log;
    fetch.net.stop = stop;
    const char *variable = offline_variable(&fetch);
    TRY(variable != NULL ? fetch_offline(&fetch, variable, error)
                         : fetch_online(&fetch, stop, error));
    *path = memory_string(fetch.path.text);
    return *path != NULL ? BERTH_OK : fetch_no_memory(error);
}

enum berth_status fetch_remove(const char *name, const struct fetch_settings *settings, char **path,
                               struct berth_error *error) {
    struct fetch fetch;
    *path = NULL;
    TRY(find(&fetch, name, settings, error));
    if (!dir_exists(fetch.repo.text)) {
        return error_set(error, BERTH_NO_INPUT,
                         "%s is not in the cache %s; `berth fetch --list` shows what is", name,
                         fetch.root.text);
    }
    TRY(dir_remove(fetch.repo.text, error));
    TRY(dir_remove(fetch.locks.text, error));
    *path = memory_string(fetch.repo.text);
    return *path != NULL ? BERTH_OK : fetch_no_memory(error);
}
