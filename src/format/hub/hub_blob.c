// SPDX-License-Identifier: Apache-2.0
// Hashes blobs, and records in REPO/verified which ones have passed, so that each is hashed once.
// Downloads ask when a file is complete, and a look-up when it finds one.
#include "format/hub/hub_blob.h"

#include "core/file.h"
#include "core/memory.h"
#include "format/checksum/digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define STAMP_SIZE 128

// Prints "SIZE NUMBER MODIFIED CHANGED": a change of the content also changes the time of change,
// which no program can set.
static void print_stamp(const struct file_stamp *stamp, char text[STAMP_SIZE]) {
    snprintf(text, STAMP_SIZE, "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64, stamp->size,
             stamp->number, stamp->modified_ns, stamp->changed_ns);
}

static int is_recorded(const char *record, const char *expected) {
    struct file_stamp stamp;
    char *text = NULL;
    size_t length;
    int same = file_stamp_of(record, &stamp, NULL) == BERTH_OK && stamp.is_own &&
               file_read(record, STAMP_SIZE, &text, &length, NULL) == BERTH_OK &&
               strcmp(text, expected) == 0;
    memory_free(text);
    return same;
}

static enum berth_status check_named(const char *repo, const char *blob, const char *name,
                                     enum digest_kind kind, struct berth_error *error) {
    struct file_stamp before, after;
    char stamp_before[STAMP_SIZE], stamp_after[STAMP_SIZE];
    TRY(file_stamp_of(blob, &before, error));
    print_stamp(&before, stamp_before);
    const struct path record = path_format("%s/verified/%s", repo, name);
    if (is_recorded(record.text, stamp_before)) {
        return BERTH_OK;
    }
    char found[DIGEST_HEX_SIZE];
    TRY(digest_file(kind, blob, found, error));
    if (strcmp(found, name) != 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: the cached file is damaged: expected the %s in its name, found %s; "
                         "remove it and run `berth fetch` again",
                         blob, digest_name(kind), found);
    }
    if (file_stamp_of(blob, &after, NULL) == BERTH_OK) {
        print_stamp(&after, stamp_after);
        if (strcmp(stamp_before, stamp_after) == 0) {
            // A failure is no error: the next check hashes the file again.
            const struct path folder = path_in(repo, "verified");
            if (dir_make(folder.text, NULL) == BERTH_OK && path_is_inside(folder.text, repo)) {
                (void)file_write(record.text, stamp_before, strlen(stamp_before), NULL);
            }
        }
    }
    return BERTH_OK;
}

enum berth_status hub_blob_check(const char *repo, const char *path, struct berth_error *error) {
    static const enum digest_kind kinds[] = {DIGEST_SHA256, DIGEST_GIT_BLOB};
    char *blob = file_resolve(path);
    if (blob == NULL) {
        return file_exists(path) ? error_no_memory(error, 0, "a path")
                                 : error_set(error, BERTH_NO_INPUT,
                                             "%s: cannot find the file that it links to", path);
    }
    const char *name = path_name(blob);
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (digest_is_hex(kinds[i], name)) {
            status = check_named(repo, blob, name, kinds[i], error);
        }
    }
    memory_free(blob);
    return status;
}
