// SPDX-License-Identifier: Apache-2.0
// Fetches a repository of the hub: asks for its commit and its files (hub.c), chooses those that a
// model needs, sends the user's token only where it belongs, and downloads each file. fetch.c calls
// it for a name ORG/NAME; the snapshot is published by fetching.c.
#include "core/file.h"
#include "core/memory.h"
#include "fetch/fetching.h"
#include "fetch/hub.h"
#include "format/hub/model_files.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ENDPOINT "https://huggingface.co"
#define TOKEN_LIMIT 4096

// --- which files --------------------------------------------------------------------------------

// Sets *listed to whether `path` matches one of the comma-separated patterns.
static enum berth_status find_in_list(const char *path, const char *patterns, unsigned char *listed,
                                      struct berth_error *error) {
    *listed = 0;
    for (const char *at = patterns; *at != '\0' && !*listed;) {
        size_t length = strcspn(at, ",");
        char *pattern = memory_string_of(at, length);
        if (pattern == NULL) {
            return fetch_no_memory(error);
        }
        *listed = fnmatch(pattern, path, 0) == 0;
        memory_free(pattern);
        at += length + (at[length] == ',');
    }
    return BERTH_OK;
}

static enum berth_status pick_model(const struct fetch *fetch, const struct hub_listing *listing,
                                    unsigned char *taken, struct berth_error *error) {
    const char **names = memory_array(listing->count + 1, sizeof *names);
    enum model_file *roles = memory_array(listing->count + 1, sizeof *roles);
    enum berth_status status = names == NULL || roles == NULL ? fetch_no_memory(error) : BERTH_OK;
    for (size_t i = 0; i < listing->count && status == BERTH_OK; i++) {
        names[i] = listing->files[i].path;
    }
    if (status == BERTH_OK) {
        status = model_files_pick(names, listing->count, roles, fetch->name, error);
    }
    int vocabulary = 0;
    for (size_t i = 0; i < listing->count && status == BERTH_OK; i++) {
        taken[i] = roles[i] != MODEL_FILE_OTHER;
        vocabulary = vocabulary || strcmp(names[i], "vocab.txt") == 0 ||
                     strcmp(names[i], "tokenizer.json") == 0;
    }
    if (status == BERTH_OK && !vocabulary) {
        log_warning(&fetch->net.log,
                    "%s has no vocab.txt and no tokenizer.json: give one with vocab_file",
                    fetch->name);
    }
    memory_free(names);
    memory_free(roles);
    return status;
}

// Sets taken[i] to whether listing->files[i] is to be fetched.
static enum berth_status pick(const struct fetch *fetch, const struct hub_listing *listing,
                              unsigned char *taken, struct berth_error *error) {
    const char *patterns = fetch->settings->files;
    if (patterns == NULL && strcmp(fetch->type, "model") == 0) {
        return pick_model(fetch, listing, taken, error);
    }
    size_t count = 0;
    for (size_t i = 0; i < listing->count; i++) {
        taken[i] = 1;
        if (patterns != NULL) {
            TRY(find_in_list(listing->files[i].path, patterns, &taken[i], error));
        }
        count += taken[i];
    }
    return count > 0 ? BERTH_OK
                     : error_set(error, BERTH_NO_INPUT, "%s has no file%s%s", fetch->name,
                                 patterns != NULL ? " that matches " : "",
                                 patterns != NULL ? patterns : "");
}

static enum berth_status fetch_file(const struct fetch *fetch, const struct hub *hub,
                                    const char *commit, const struct hub_file *file,
                                    struct berth_error *error) {
    char *url = hub_file_url(hub, commit, file->path);
    if (url == NULL) {
        return fetch_no_memory(error);
    }
    struct download wanted = {.url = url,
                              .token = hub->token,
                              .name = file->path,
                              .repo = fetch->repo.text,
                              .locks = fetch->locks.text,
                              .key = file->etag,
                              .etag_is_key = 1,
                              .size = file->size,
                              .digests = {{.kind = file->kind, .hex = file->etag}}};
    struct download_result result;
    enum berth_status status = download(&fetch->net, &wanted, &result, error);
    memory_free(url);
    return status;
}

static enum berth_status fetch_listing(struct fetch *fetch, const struct hub *hub,
                                       const struct hub_listing *listing,
                                       const unsigned char *taken, struct snapshot_file *files,
                                       struct berth_error *error) {
    size_t count = 0;
    uint64_t needed = 0, available = dir_free_bytes(fetch->repo.text);
    for (size_t i = 0; i < listing->count; i++) {
        needed += taken[i] ? (uint64_t)listing->files[i].size : 0;
    }
    // Counts files that already exist as well; only their transfer finds out (download.h).
    if (needed > available) {
        log_warning(&fetch->net.log, "%s needs up to %llu bytes in %s, where %llu are free",
                    fetch->name, (unsigned long long)needed, fetch->repo.text,
                    (unsigned long long)available);
    }
    for (size_t i = 0; i < listing->count; i++) {
        if (taken[i]) {
            const struct hub_file *file = &listing->files[i];
            TRY(fetch_file(fetch, hub, listing->commit, file, error));
            files[count++] = (struct snapshot_file){.path = file->path, .blob = file->etag};
        }
    }
    TRY(hub_listing_write(listing, fetch->repo.text, error));
    return fetch_publish(fetch, listing->commit, files, count, error);
}

static enum berth_status fetch_repo(struct fetch *fetch, const struct hub *hub,
                                    struct berth_error *error) {
    struct hub_listing listing;
    TRY(hub_list(hub, fetch->revision, &listing, error));
    unsigned char *taken = memory_array_zeroed(listing.count + 1, 1);
    struct snapshot_file *files = memory_array(listing.count + 1, sizeof *files);
    enum berth_status status = taken == NULL || files == NULL ? fetch_no_memory(error)
                                                              : pick(fetch, &listing, taken, error);
    if (status == BERTH_OK) {
        status = fetch_tag_cache(fetch, error);
    }
    if (status == BERTH_OK) {
        status = fetch_listing(fetch, hub, &listing, taken, files, error);
    }
    memory_free(files);
    memory_free(taken);
    hub_listing_done(&listing);
    return status;
}

// --- the token ----------------------------------------------------------------------------------

// Strips surrounding white space; a text that cannot be part of a header is refused without being
// shown.
static enum berth_status clean_token(char *text, const char *source, struct berth_error *error) {
    size_t length = strlen(text), first = strspn(text, " \t\r\n");
    while (length > first && strchr(" \t\r\n", text[length - 1]) != NULL) {
        length--;
    }
    memmove(text, text + first, length - first);
    text[length - first] = '\0';
    for (const char *at = text; *at != '\0'; at++) {
        if (*at <= ' ' || *at >= 127) {
            return error_set(error, BERTH_CONFIG,
                             "%s is not a token: it contains spaces or control characters", source);
        }
    }
    return BERTH_OK;
}

static enum berth_status read_token_file(const char *path, char **token,
                                         struct berth_error *error) {
    size_t length;
    TRY(file_read(path, TOKEN_LIMIT, token, &length, error));
    return clean_token(*token, path, error);
}

// Finds the token: --token_file, HF_TOKEN, or the file that `hf auth login` writes. *token is NULL
// if there is none.
static enum berth_status find_token(const struct fetch *fetch, char **token,
                                    struct berth_error *error) {
    const char *set = getenv("HF_TOKEN");
    *token = NULL;
    if (fetch->settings->token_file != NULL) {
        return read_token_file(fetch->settings->token_file, token, error);
    }
    if (set != NULL && *set != '\0') {
        *token = memory_string(set);
        return *token != NULL ? clean_token(*token, "HF_TOKEN", error) : fetch_no_memory(error);
    }
    const struct path path = hub_token_path();
    return file_exists(path.text) ? read_token_file(path.text, token, error) : BERTH_OK;
}

static enum berth_status fetch_as(struct fetch *fetch, const char *endpoint,
                                  struct berth_error *error) {
    char *token;
    enum berth_status status = find_token(fetch, &token, error);
    if (status == BERTH_OK) {
        struct hub hub = {.net = &fetch->net,
                          .endpoint = endpoint,
                          .token = token,
                          .type = fetch->type,
                          .id = fetch->name};
        if (token != NULL && (*token == '\0' || !http_is_secure(endpoint))) {
            hub.token = NULL;
            if (*token != '\0') {
                log_warning(&fetch->net.log, "the token is not sent to %s, which is not https",
                            endpoint);
            }
        }
        status = fetch_repo(fetch, &hub, error);
    }
    memory_free(token);
    return status;
}

enum berth_status fetch_from_hub(struct fetch *fetch, struct berth_error *error) {
    const char *set = getenv("HF_ENDPOINT");
    char *endpoint = memory_string(set != NULL && *set != '\0' ? set : DEFAULT_ENDPOINT);
    if (endpoint == NULL) {
        return fetch_no_memory(error);
    }
    for (size_t length = strlen(endpoint); length > 0 && endpoint[length - 1] == '/'; length--) {
        endpoint[length - 1] = '\0';
    }
    char *host;
    enum berth_status status = http_host(endpoint, &host, error);
    if (status == BERTH_OK && host == NULL) {
        status = error_set(error, BERTH_CONFIG,
                           "HF_ENDPOINT: expected an http or https URL, found \"%s\"", set);
    } else if (status == BERTH_OK) {
        status = fetch_as(fetch, endpoint, error);
    }
    memory_free(host);
    memory_free(endpoint);
    return status;
}
