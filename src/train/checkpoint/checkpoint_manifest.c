// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint: which files of the folder it lists, and which others may be there.
// format/manifest has its form and the check of a file.
#include "train/checkpoint/checkpoint_manifest.h"

#include "core/checksum.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "format/checksum/digest.h"
#include "format/json/json.h"
#include "format/manifest/manifest.h"
#include "model/folder.h"

#include <stdio.h>
#include <string.h>

#define MANIFEST_NAME "manifest.json"

// Visits the files of the folder and, as "FOLDER/FILE", those of the folders in it. No folder of a
// checkpoint begins with a dot: one that does is visited as a file.

// Files that the manifest does not list: the first names, as many as fit in a message.
struct extra_files {
    char names[400];
    size_t length, shown, count;
};

struct file_visit {
    const char *folder;
    json *made;                  // the manifest's files, to be filled
    const json *listed;          // or the manifest's files, to be compared with
    struct extra_files *extra;   // collects the others; NULL: they are ignored if not read
    const struct berth_log *log; // for notes about those; may be NULL
    enum berth_status (*file)(const struct file_visit *visit, const char *name,
                              struct berth_error *error);
};

static enum berth_status visit_name(const struct file_visit *visit, const char *subfolder,
                                    const char *name, struct berth_error *error);

static enum berth_status visit_files(const struct file_visit *visit, const char *subfolder,
                                     struct berth_error *error) {
    char **names;
    enum berth_status status = BERTH_OK;
    TRY(dir_list(path_in(visit->folder, subfolder).text, &names, error));
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        status = visit_name(visit, subfolder, names[i], error);
    }
    memory_free(names);
    return status;
}

static enum berth_status visit_name(const struct file_visit *visit, const char *subfolder,
                                    const char *name, struct berth_error *error) {
    const int is_top = strcmp(subfolder, "") == 0;
    if (is_top && strcmp(name, MANIFEST_NAME) == 0) {
        return BERTH_OK;
    }
    const int is_folder = is_top && name[0] != '.' && dir_exists(path_in(visit->folder, name).text);
    return is_folder ? visit_files(visit, name, error)
                     : visit->file(visit, path_in(subfolder, name).text, error);
}

static enum berth_status add_file(const struct file_visit *visit, const char *name,
                                  struct berth_error *error) {
    uint64_t bytes;
    char hex[DIGEST_HEX_SIZE];
    TRY(digest_measure(path_in(visit->folder, name).text, &bytes, hex, error));
    json *entry =
        JSON_OBJECT({"bytes", json_new_integer((int64_t)bytes)}, {"sha256", json_new_text(hex)});
    return json_set(visit->made, name, entry) == 0 ? BERTH_OK
                                                   : error_no_memory(error, 0, "the manifest");
}

enum berth_status checkpoint_manifest_write(const char *folder, struct berth_error *error) {
    json *files = json_new_object();
    const struct path path = path_in(folder, MANIFEST_NAME);
    const struct file_visit visit = {.folder = folder, .made = files, .file = add_file};
    const enum berth_status status = visit_files(&visit, "", error);
    if (status == BERTH_OK) {
        return manifest_write(path.text, manifest_new(NULL, 1, files), error);
    }
    json_free(files);
    return status;
}

enum berth_status checkpoint_manifest_checksum(const char *folder, uint64_t *checksum,
                                               struct berth_error *error) {
    const struct path path = path_in(folder, MANIFEST_NAME);
    OWNED char *text = NULL;
    size_t length = 0;
    *checksum = 0;
    if (file_exists(path.text)) {
        TRY(file_read(path.text, JSON_FILE_LIMIT, &text, &length, error));
        *checksum = checksum_bytes(text, length);
    }
    return BERTH_OK;
}

// --- verifying ----------------------------------------------------------------------------------

static void add_extra(struct extra_files *extra, const char *name) {
    const size_t room = sizeof extra->names - extra->length;
    const int length =
        snprintf(extra->names + extra->length, room, "%s%s", extra->count > 0 ? ", " : "", name);
    if (extra->shown == extra->count && length > 0 && (size_t)length < room) {
        extra->length += (size_t)length;
        extra->shown++;
    }
    extra->names[extra->length] = '\0';
    extra->count++;
}

static enum berth_status refuse_extra(const char *folder, const struct extra_files *extra,
                                      struct berth_error *error) {
    char more[48] = "";
    if (extra->count == 0) {
        return BERTH_OK;
    }
    if (extra->count > extra->shown) {
        snprintf(more, sizeof more, "%s%zu more", extra->shown > 0 ? " and " : "",
                 extra->count - extra->shown);
    }
    return error_set(
        error, BERTH_BAD_DATA,
        "%s: not listed in the manifest, whose files are all intact: %s%s; move %s out "
        "of the checkpoint",
        folder, extra->names, more, extra->count > 1 ? "them" : "it");
}

static enum berth_status verify_name(const struct file_visit *visit, const char *name,
                                     struct berth_error *error) {
    if (json_member(visit->listed, name) != NULL) {
        return BERTH_OK;
    }
    if (visit->extra != NULL) {
        add_extra(visit->extra, name);
        return BERTH_OK;
    }
    // A reader of the folder might open these files. It opens only weights that are in the
    // manifest.
    const char *last = path_name(name);
    if (name[0] != '.' && last[0] != '.' &&
        (strcmp(last, "vocab.txt") == 0 || text_ends_with(last, ".json"))) {
        struct extra_files one = {.count = 0};
        add_extra(&one, name);
        return refuse_extra(visit->folder, &one, error);
    }
    if (visit->log != NULL) {
        log_note(visit->log, "%s/%s is not listed in the manifest and is ignored", visit->folder,
                 name);
    }
    return BERTH_OK;
}

// Compares the folder with its manifest. Fills in the rest of `visit`.
static enum berth_status verify(struct file_visit *visit, const json *manifest, int64_t *count,
                                struct berth_error *error) {
    const json *files = manifest_files(manifest);
    struct json_walk walk = {.object = files};
    while (json_walk_next(&walk)) {
        // Every file has a digest, or a changed one would not be found.
        if (json_length(walk.value) != 2 ||
            !json_is_integer_value(json_member(walk.value, "bytes")) ||
            json_member(walk.value, "sha256") == NULL) {
            return error_set(
                error, BERTH_BAD_DATA,
                "%s/%s: damaged manifest: file \"%s\": expected \"bytes\", an integer, and "
                "\"sha256\", and nothing else",
                visit->folder, MANIFEST_NAME, walk.key);
        }
        TRY(manifest_check_file(visit->folder, walk.key, walk.value, error));
    }
    if (count != NULL) {
        *count = (int64_t)json_length(files);
    }
    visit->listed = files;
    visit->file = verify_name;
    return visit_files(visit, "", error);
}

static enum berth_status verify_folder(struct file_visit *visit, int64_t *files,
                                       struct berth_error *error) {
    const struct path path = path_in(visit->folder, MANIFEST_NAME);
    json *manifest = NULL;
    enum berth_status status = manifest_read(path.text, NULL, &manifest, error);
    if (status == BERTH_NO_INPUT) {
        char name[FOLDER_NAME_SIZE];
        folder_newest_checkpoint(visit->folder, name);
        status =
            error_set(error, BERTH_BAD_DATA,
                      "%s: no such file; the folder is not a checkpoint of this program, or an "
                      "incomplete copy of one%s%s",
                      path.text, name[0] != '\0' ? "; the newest checkpoint in it is " : "", name);
    } else if (status == BERTH_OK) {
        status = verify(visit, manifest, files, error);
    }
    json_free(manifest);
    return status;
}

enum berth_status checkpoint_manifest_verify(const char *folder, int64_t *files,
                                             struct berth_error *error) {
    struct extra_files extra = {.count = 0};
    struct file_visit visit = {.folder = folder, .extra = &extra};
    TRY(verify_folder(&visit, files, error));
    return refuse_extra(folder, &extra, error);
}

enum berth_status checkpoint_manifest_verify_listed(const char *folder, const struct berth_log *log,
                                                    struct berth_error *error) {
    struct file_visit visit = {.folder = folder, .log = log};
    return verify_folder(&visit, NULL, error);
}
