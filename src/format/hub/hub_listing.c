// SPDX-License-Identifier: Apache-2.0
// Parses {"sha": COMMIT, ...} and [{"type": "file", "path", "size", "oid", "lfs": {"oid", "size"}},
// ...] into a table. fetch/hub.c gives it the answers that it has downloaded.
#include "format/hub/hub_listing.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "format/json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILES_LIMIT ((size_t)1 << 20)

static enum berth_status no_memory(struct berth_error *error) {
    return error_no_memory(error, 0, "a listing of the hub");
}

// Copies the digest of that kind; 0 when `text` is not one.
static int parse_digest(enum digest_kind kind, const json *text, char to[DIGEST_HEX_SIZE]) {
    const char *hex = json_text(text);
    if (hex == NULL || !digest_is_hex(kind, hex)) {
        return 0;
    }
    snprintf(to, DIGEST_HEX_SIZE, "%s", hex);
    return 1;
}

static int parse_file(const json *entry, struct hub_file *file) {
    const json *lfs = json_member(entry, "lfs");
    const json *size = json_member(lfs != NULL ? lfs : entry, "size");
    const char *path = json_text(json_member(entry, "path"));
    if (path == NULL || strlen(path) != json_text_length(json_member(entry, "path")) ||
        !hub_is_safe_path(path) || !json_is_integer_value(size) || json_as_integer(size) < 0 ||
        !parse_digest(DIGEST_GIT_BLOB, json_member(entry, "oid"), file->blob_id)) {
        return 0;
    }
    file->size = json_as_integer(size);
    file->kind = lfs != NULL ? DIGEST_SHA256 : DIGEST_GIT_BLOB;
    const json *oid = json_member(lfs != NULL ? lfs : entry, "oid");
    return parse_digest(file->kind, oid, file->etag);
}

static enum berth_status make_room(struct hub_listing *listing, struct berth_error *error) {
    struct hub_file *grown =
        memory_grow(listing->files, &listing->capacity, listing->count + 1, sizeof *grown);
    if (grown == NULL) {
        return no_memory(error);
    }
    listing->files = grown;
    return BERTH_OK;
}

static enum berth_status add_entry(const char *id, const json *entry, struct hub_listing *listing,
                                   struct berth_error *error) {
    const char *type = json_text(json_member(entry, "type"));
    if (type == NULL || strcmp(type, "file") != 0) {
        return BERTH_OK; // a folder: its files are listed separately
    }
    struct hub_file file = {.path = NULL};
    const char *path = json_text(json_member(entry, "path"));
    if (!parse_file(entry, &file) || listing->count == FILES_LIMIT) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: the hub lists \"%.*s\" with an invalid path, size or digest: refused",
                         id, UTF8_SHOWN(path != NULL ? path : "", 100));
    }
    TRY(make_room(listing, error));
    file.path = memory_string(path);
    if (file.path == NULL) {
        return no_memory(error);
    }
    listing->files[listing->count++] = file;
    return BERTH_OK;
}

// Parses the JSON of an answer.
static enum berth_status parse(const char *id, const char *text, size_t length, json **value,
                               struct berth_error *error) {
    enum berth_status status = json_read_memory(id, text, length, value, error);
    return status == BERTH_OK || status == BERTH_NO_MEMORY
               ? status
               : error_prefix(error, BERTH_BAD_DATA, "invalid answer from the hub");
}

enum berth_status hub_listing_read_commit(struct hub_listing *listing, const char *id,
                                          const char *text, size_t length,
                                          struct berth_error *error) {
    json *value;
    TRY(parse(id, text, length, &value, error));
    const char *sha = json_text(json_member(value, "sha"));
    enum berth_status status = BERTH_OK;
    if (sha != NULL && hub_is_commit(sha)) {
        memcpy(listing->commit, sha, HUB_COMMIT_SIZE);
    } else {
        status = error_set(error, BERTH_BAD_DATA, "%s: the hub's answer has no commit", id);
    }
    json_free(value);
    return status;
}

enum berth_status hub_listing_add(struct hub_listing *listing, const char *id, const char *text,
                                  size_t length, struct berth_error *error) {
    json *page;
    TRY(parse(id, text, length, &page, error));
    enum berth_status status =
        json_is_array_value(page)
            ? BERTH_OK
            : error_set(error, BERTH_BAD_DATA, "%s: the hub's listing is not an array", id);
    listing->entries += json_length(page);
    for (size_t i = 0; i < json_length(page) && status == BERTH_OK; i++) {
        status = add_entry(id, json_at(page, i), listing, error);
    }
    json_free(page);
    return status;
}

static int compare_paths(const void *a, const void *b) {
    const struct hub_file *file_a = a, *file_b = b;
    return strcmp(file_a->path, file_b->path);
}

enum berth_status hub_listing_sort(struct hub_listing *listing, const char *id,
                                   struct berth_error *error) {
    if (listing->count > 0) {
        qsort(listing->files, listing->count, sizeof *listing->files, compare_paths);
    }
    for (size_t i = 1; i < listing->count; i++) {
        if (strcmp(listing->files[i - 1].path, listing->files[i].path) == 0) {
            return error_set(error, BERTH_BAD_DATA, "%s: duplicate \"%s\" in the hub's listing", id,
                             listing->files[i].path);
        }
    }
    return BERTH_OK;
}

void hub_listing_done(struct hub_listing *listing) {
    for (size_t i = 0; i < listing->count; i++) {
        memory_free((char *)listing->files[i].path);
    }
    memory_free(listing->files);
    *listing = (struct hub_listing){.count = 0};
}

// --- writing ------------------------------------------------------------------------------------
// {"format_version": 1, "files": {PATH: {"size", "blob_id", "lfs_sha256", "lfs_size"}}}, as
// huggingface_hub stores it.

enum berth_status hub_listing_write(const struct hub_listing *listing, const char *repo,
                                    struct berth_error *error) {
    const struct path folder = path_in(repo, "trees");
    json *files = json_new_object();
    int failed = 0;
    for (size_t i = 0; i < listing->count; i++) {
        const struct hub_file *file = &listing->files[i];
        const int is_large = file->kind == DIGEST_SHA256;
        failed |=
            json_set(files, listing->files[i].path,
                     JSON_OBJECT({"size", json_new_integer(file->size)},
                                 {"blob_id", json_new_text(file->blob_id)},
                                 {is_large ? "lfs_sha256" : NULL, json_new_text(file->etag)},
                                 {is_large ? "lfs_size" : NULL, json_new_integer(file->size)}));
    }
    json *tree = JSON_OBJECT({"format_version", json_new_integer(1)},
                             {"files", json_unless_failed(files, failed)});
    enum berth_status status = dir_make(folder.text, error);
    if (status == BERTH_OK) {
        const struct path path = path_format("%s/%s.json", folder.text, listing->commit);
        status = json_write_file(tree, JSON_INDENT_2_SORTED, path.text, error);
    }
    json_free(tree);
    return status;
}
