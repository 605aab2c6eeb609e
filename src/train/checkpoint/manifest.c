// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint/manifest.h"

#include "core/file.h"
#include "core/memory.h"
#include "format/checksum/digest.h"
#include "format/json/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MANIFEST_NAME "manifest.json"
#define MANIFEST_FORMAT 1

static enum berth_status measure_file(const char *path, uint64_t *bytes, char hex[DIGEST_HEX_SIZE],
                                      struct berth_error *error) {
    struct file_reader reader;
    TRY(file_reader_open(&reader, path, error));
    *bytes = reader.size;
    file_reader_close(&reader);
    return digest_file(DIGEST_SHA256, path, hex, error);
}

static enum berth_status add_file(json *files, const char *folder, const char *name,
                                  struct berth_error *error) {
    char *path = path_join(folder, name);
    if (path == NULL) {
        return file_no_path(error);
    }
    uint64_t bytes;
    char hex[DIGEST_HEX_SIZE];
    enum berth_status status = measure_file(path, &bytes, hex, error);
    memory_free(path);
    if (status == BERTH_OK) {
        json *entry = json_new_object();
        json_set(entry, "bytes", json_new_integer((int64_t)bytes));
        json_set(entry, "sha256", json_new_text(hex));
        if (json_set(files, name, entry) != 0) {
            status = error_no_memory(error, 0, "the manifest");
        }
    }
    return status;
}

enum berth_status manifest_write(const char *folder, struct berth_error *error) {
    char **names;
    TRY(dir_list(folder, &names, error));
    json *manifest = json_new_object(), *files = json_new_object();
    char *path = path_join(folder, MANIFEST_NAME);
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        if (strcmp(names[i], MANIFEST_NAME) != 0) {
            status = add_file(files, folder, names[i], error);
        }
    }
    json_set(manifest, "format_version", json_new_integer(MANIFEST_FORMAT));
    json_set(manifest, "files", files);
    if (status == BERTH_OK) {
        status = path != NULL ? json_write_file(manifest, JSON_INDENT_2_SORTED, path, error)
                              : file_no_path(error);
    }
    json_free(manifest);
    memory_free(path);
    memory_free(names);
    return status;
}

// --- verifying ----------------------------------------------------------------------------------

static enum berth_status verify_file(const char *folder, const char *name, const json *entry,
                                     struct berth_error *error) {
    int64_t bytes = -1;
    const char *hash = NULL;
    char place[sizeof error->message];
    snprintf(place, sizeof place, "%s/%s: \"%s\"", folder, MANIFEST_NAME, name);
    TRY(json_get_integer(entry, place, "bytes", &bytes, error));
    TRY(json_get_text(entry, place, "sha256", &hash, error));
    if (bytes < 0 || hash == NULL || json_length(entry) != 2 || strchr(name, '/') != NULL) {
        return error_set(error, BERTH_BAD_DATA, "%s/%s: invalid entry for \"%s\"", folder,
                         MANIFEST_NAME, name);
    }
    char *path = path_join(folder, name);
    if (path == NULL) {
        return file_no_path(error);
    }
    uint64_t found;
    char hex[DIGEST_HEX_SIZE];
    enum berth_status status = measure_file(path, &found, hex, error);
    if (status == BERTH_NO_INPUT) {
        status = error_set(error, BERTH_BAD_DATA, "%s: listed in the manifest, but missing", path);
    } else if (status == BERTH_OK && found != (uint64_t)bytes) {
        status = error_set(error, BERTH_BAD_DATA,
                           "%s: expected %" PRId64 " bytes, as in the manifest, found %" PRIu64,
                           path, bytes, found);
    } else if (status == BERTH_OK && strcmp(hex, hash) != 0) {
        status = error_set(error, BERTH_BAD_DATA,
                           "%s: expected SHA-256 %.16s..., as in the manifest, found %.16s...: the "
                           "file has changed",
                           path, hash, hex);
    }
    memory_free(path);
    return status;
}

// Every file of the folder must be in the manifest.
static enum berth_status verify_names(const char *folder, const json *files,
                                      struct berth_error *error) {
    char **names;
    TRY(dir_list(folder, &names, error));
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        if (strcmp(names[i], MANIFEST_NAME) != 0 && json_member(files, names[i]) == NULL) {
            status = error_set(error, BERTH_BAD_DATA, "%s/%s: not listed in the manifest", folder,
                               names[i]);
        }
    }
    memory_free(names);
    return status;
}

static enum berth_status verify(const char *folder, const json *manifest, const char *path,
                                int64_t *count, struct berth_error *error) {
    int64_t format = 0;
    TRY(json_get_integer(manifest, path, "format_version", &format, error));
    const json *files = json_member(manifest, "files");
    if (format > MANIFEST_FORMAT) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: format_version %" PRId64
                         " is newer than this program (%s), which supports %d; use a newer program",
                         path, format, BERTH_VERSION, MANIFEST_FORMAT);
    }
    if (format != MANIFEST_FORMAT || !json_is_object_value(files) || json_length(manifest) != 2) {
        return error_set(error, BERTH_BAD_DATA, "%s: not a manifest of format %d", path,
                         MANIFEST_FORMAT);
    }
    struct json_walk walk = {.object = files};
    while (json_walk_next(&walk)) {
        TRY(verify_file(folder, walk.key, walk.value, error));
    }
    if (count != NULL) {
        *count = (int64_t)json_length(files);
    }
    return verify_names(folder, files, error);
}

enum berth_status manifest_verify(const char *folder, int64_t *files, struct berth_error *error) {
    char *path = path_join(folder, MANIFEST_NAME);
    if (path == NULL) {
        return file_no_path(error);
    }
    json *manifest = NULL;
    enum berth_status status = json_read_file(path, &manifest, error);
    if (status == BERTH_NO_INPUT) {
        status = error_set(error, BERTH_BAD_DATA,
                           "%s: no such file; the folder is not a checkpoint of this program, or "
                           "an incomplete copy of one",
                           path);
    } else if (status == BERTH_OK) {
        status = verify(folder, manifest, path, files, error);
    }
    // A type error in a damaged manifest means damaged data, not a wrong setting.
    if (status == BERTH_CONFIG) {
        status = error_prefix(error, BERTH_BAD_DATA, "damaged manifest");
    }
    json_free(manifest);
    memory_free(path);
    return status;
}
