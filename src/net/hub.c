// SPDX-License-Identifier: Apache-2.0
// GET /api/models/ID/revision/REVISION gives {"sha": COMMIT, ...}; /api/models/ID/tree/COMMIT gives
// pages of [{"type": "file", "path", "size", "oid", "lfs": {"oid", "size"}}, ...], each naming the
// next in its Link header.
#include "net/hub.h"

#include "core/memory.h"
#include "format/bytes.h"
#include "format/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_LIMIT ((size_t)64 << 20)
#define FILES_LIMIT ((size_t)1 << 20)
#define WHAT_SIZE 256

// --- URLs ---------------------------------------------------------------------------------------

// Percent-encodes all but letters, digits and "-._~", and "/" where `keep_slash`.
static void put_escaped(struct bytes *url, const char *text, int keep_slash) {
    for (const char *at = text; *at != '\0'; at++) {
        char escaped[4];
        int plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                    (*at >= '0' && *at <= '9') || strchr("-._~", *at) != NULL ||
                    (keep_slash && *at == '/');
        if (plain) {
            bytes_put(url, at, 1);
        } else {
            snprintf(escaped, sizeof escaped, "%%%02X", (unsigned char)*at);
            bytes_put_text(url, escaped);
        }
    }
}

// The text of `url`, ended and handed over; NULL when memory was out.
static char *take_text(struct bytes *url) {
    bytes_put(url, "", 1);
    char *text = url->failed ? NULL : memory_string((const char *)url->data);
    bytes_done(url);
    return text;
}

// ENDPOINT/api/models/ID/WHAT/REVISION?QUERY
static char *api_url(const struct hub *hub, const char *what, const char *revision,
                     const char *query) {
    struct bytes url = {0};
    bytes_put_text(&url, hub->endpoint);
    bytes_put_text(&url, "/api/");
    bytes_put_text(&url, hub->type);
    bytes_put_text(&url, "s/");
    put_escaped(&url, hub->id, 1);
    bytes_put_text(&url, "/");
    bytes_put_text(&url, what);
    bytes_put_text(&url, "/");
    put_escaped(&url, revision, 0);
    bytes_put_text(&url, query);
    return take_text(&url);
}

char *hub_file_url(const struct hub *hub, const char *commit, const char *path) {
    struct bytes url = {0};
    bytes_put_text(&url, hub->endpoint);
    bytes_put_text(&url, strcmp(hub->type, "dataset") == 0 ? "/datasets/" : "/");
    put_escaped(&url, hub->id, 1);
    bytes_put_text(&url, "/resolve/");
    bytes_put_text(&url, commit);
    bytes_put_text(&url, "/");
    put_escaped(&url, path, 1);
    return take_text(&url);
}

// --- asking -------------------------------------------------------------------------------------

static enum berth_status no_memory(struct berth_error *error) {
    return error_set(error, BERTH_NO_MEMORY, "out of memory for a listing of the hub");
}

static enum berth_status ask(const struct hub *hub, const char *url, const char *what, json **value,
                             struct http_answer *answer, struct berth_error *error) {
    struct http_request request = {.url = url, .token = hub->token};
    char *text;
    size_t length;
    if (!http_same_origin(url, hub->endpoint)) {
        return error_set(error, BERTH_BAD_DATA, "%s leads to another place: refused", what);
    }
    TRY(download_text(hub->net, &request, what, PAGE_LIMIT, &text, &length, answer, error));
    enum berth_status status = json_read_memory(what, text, length, value, error);
    memory_free(text);
    return status == BERTH_OK || status == BERTH_NO_MEMORY
               ? status
               : error_prefix(error, BERTH_BAD_DATA, "the hub's answer makes no sense");
}

static enum berth_status ask_commit(const struct hub *hub, const char *revision,
                                    char commit[HUB_COMMIT_SIZE], struct berth_error *error) {
    char *url = api_url(hub, "revision", revision, "");
    json *value = NULL;
    struct http_answer answer;
    char what[WHAT_SIZE];
    snprintf(what, sizeof what, "%s, revision %s", hub->id, revision);
    enum berth_status status =
        url == NULL ? no_memory(error) : ask(hub, url, what, &value, &answer, error);
    memory_free(url);
    TRY(status);
    const char *sha = json_text(json_member(value, "sha"));
    if (sha != NULL && hub_is_commit(sha)) {
        memcpy(commit, sha, HUB_COMMIT_SIZE);
    } else {
        status = error_set(error, BERTH_BAD_DATA, "%s: the hub names no commit", what);
    }
    json_free(value);
    return status;
}

// --- the listing --------------------------------------------------------------------------------

static enum berth_status bad_entry(const struct hub *hub, const char *path,
                                   struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA,
                     "%s: the hub lists \"%.100s\" with a path, a size or a digest that is none: "
                     "refused",
                     hub->id, path != NULL ? path : "");
}

// The digest `text` of that kind, or 0.
static int take_digest(enum digest_kind kind, const json *text, char to[DIGEST_HEX_SIZE]) {
    const char *hex = json_text(text);
    if (hex == NULL || !digest_is_hex(kind, hex)) {
        return 0;
    }
    snprintf(to, DIGEST_HEX_SIZE, "%s", hex);
    return 1;
}

static int take_file(const json *entry, struct hub_file *file) {
    const json *lfs = json_member(entry, "lfs");
    const json *size = json_member(lfs != NULL ? lfs : entry, "size");
    const char *path = json_text(json_member(entry, "path"));
    if (path == NULL || strlen(path) != json_text_length(json_member(entry, "path")) ||
        !hub_is_safe_path(path) || !json_is_integer_value(size) || json_as_integer(size) < 0 ||
        !take_digest(DIGEST_GIT_BLOB, json_member(entry, "oid"), file->blob_id)) {
        return 0;
    }
    file->size = json_as_integer(size);
    file->kind = lfs != NULL ? DIGEST_SHA256 : DIGEST_GIT_BLOB;
    const json *oid = json_member(lfs != NULL ? lfs : entry, "oid");
    return take_digest(file->kind, oid, file->etag);
}

static enum berth_status make_room(struct hub_listing *listing, struct berth_error *error) {
    if (listing->count < listing->capacity) {
        return BERTH_OK;
    }
    size_t capacity = 2 * listing->capacity + 64;
    struct hub_file *grown = memory_resize(listing->files, capacity, sizeof *grown);
    if (grown == NULL) {
        return no_memory(error);
    }
    listing->files = grown;
    listing->capacity = capacity;
    return BERTH_OK;
}

static enum berth_status add_entry(const struct hub *hub, const json *entry,
                                   struct hub_listing *listing, struct berth_error *error) {
    const char *type = json_text(json_member(entry, "type"));
    if (type == NULL || strcmp(type, "file") != 0) {
        return BERTH_OK; // a folder: its files are listed themselves
    }
    struct hub_file file = {.path = NULL};
    const char *path = json_text(json_member(entry, "path"));
    if (!take_file(entry, &file) || listing->count == FILES_LIMIT) {
        return bad_entry(hub, path, error);
    }
    TRY(make_room(listing, error));
    file.path = memory_string(path);
    if (file.path == NULL) {
        return no_memory(error);
    }
    listing->files[listing->count++] = file;
    return BERTH_OK;
}

static enum berth_status add_page(const struct hub *hub, const json *page,
                                  struct hub_listing *listing, struct berth_error *error) {
    if (!json_is_array_value(page)) {
        return error_set(error, BERTH_BAD_DATA, "%s: the hub's listing is no list", hub->id);
    }
    for (size_t i = 0; i < json_length(page); i++) {
        TRY(add_entry(hub, json_at(page, i), listing, error));
    }
    return BERTH_OK;
}

static enum berth_status ask_files(const struct hub *hub, struct hub_listing *listing,
                                   struct berth_error *error) {
    char *url = api_url(hub, "tree", listing->commit, "?recursive=true");
    enum berth_status status = url == NULL ? no_memory(error) : BERTH_OK;
    char what[WHAT_SIZE];
    snprintf(what, sizeof what, "the files of %s", hub->id);
    while (status == BERTH_OK && url != NULL) {
        size_t before = listing->count;
        json *page = NULL;
        struct http_answer answer;
        status = ask(hub, url, what, &page, &answer, error);
        status = status == BERTH_OK ? add_page(hub, page, listing, error) : status;
        json_free(page);
        memory_free(url);
        url = NULL;
        // A page without a file would let a server lead us round in circles.
        if (status == BERTH_OK && answer.next[0] != '\0' && listing->count > before) {
            url = memory_string(answer.next);
            status = url == NULL ? no_memory(error) : BERTH_OK;
        }
    }
    memory_free(url);
    return status;
}

static int compare_paths(const void *a, const void *b) {
    const struct hub_file *file_a = a, *file_b = b;
    return strcmp(file_a->path, file_b->path);
}

static enum berth_status check_twins(const struct hub *hub, const struct hub_listing *listing,
                                     struct berth_error *error) {
    for (size_t i = 1; i < listing->count; i++) {
        if (strcmp(listing->files[i - 1].path, listing->files[i].path) == 0) {
            return error_set(error, BERTH_BAD_DATA, "%s: the hub lists \"%s\" twice", hub->id,
                             listing->files[i].path);
        }
    }
    return BERTH_OK;
}

enum berth_status hub_list(const struct hub *hub, const char *revision, struct hub_listing *listing,
                           struct berth_error *error) {
    *listing = (struct hub_listing){.count = 0};
    TRY(ask_commit(hub, revision, listing->commit, error));
    enum berth_status status = ask_files(hub, listing, error);
    if (status == BERTH_OK && listing->count > 0) {
        qsort(listing->files, listing->count, sizeof *listing->files, compare_paths);
        status = check_twins(hub, listing, error);
    }
    if (status != BERTH_OK) {
        hub_listing_done(listing);
    }
    return status;
}

void hub_listing_done(struct hub_listing *listing) {
    for (size_t i = 0; i < listing->count; i++) {
        memory_free((char *)listing->files[i].path);
    }
    memory_free(listing->files);
    *listing = (struct hub_listing){.count = 0};
}

// --- writing it down ----------------------------------------------------------------------------

static json *tree_entry(const struct hub_file *file) {
    json *entry = json_new_object();
    json_set(entry, "size", json_new_integer(file->size));
    json_set(entry, "blob_id", json_new_text(file->blob_id));
    if (file->kind == DIGEST_SHA256) {
        json_set(entry, "lfs_sha256", json_new_text(file->etag));
        json_set(entry, "lfs_size", json_new_integer(file->size));
    }
    return entry;
}

enum berth_status hub_write_tree(const struct hub_listing *listing, const char *repo,
                                 struct berth_error *error) {
    char name[HUB_COMMIT_SIZE + 8];
    snprintf(name, sizeof name, "%s.json", listing->commit);
    char *folder = path_join(repo, "trees");
    char *path = folder != NULL ? path_join(folder, name) : NULL;
    json *tree = json_new_object(), *files = json_new_object();
    for (size_t i = 0; i < listing->count; i++) {
        json_set(files, listing->files[i].path, tree_entry(&listing->files[i]));
    }
    json_set(tree, "format_version", json_new_integer(1));
    json_set(tree, "files", files);
    enum berth_status status = path == NULL ? no_memory(error) : dir_make(folder, error);
    if (status == BERTH_OK) {
        status = json_write_file(tree, JSON_INDENT_2_SORTED, path, error);
    }
    json_free(tree);
    memory_free(path);
    memory_free(folder);
    return status;
}
