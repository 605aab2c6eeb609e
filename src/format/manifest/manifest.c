// SPDX-License-Identifier: Apache-2.0
// Makes, reads, checks and compares manifests (manifest.h). A stage writes one after its files, and
// the next step, a resumed run or `berth verify` reads it before it trusts them. Whatever a file
// says is checked here, so callers take members without asking; json.c has the syntax.
#include "format/manifest/manifest.h"

#include "core/check.h"
#include "core/file.h"
#include "core/number.h"
#include "core/utf8.h"
#include "format/checksum/digest.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FORMAT 1

// The largest count: no file has more bytes, and sums over all files fit into 64 bits.
#define MAX_COUNT ((int64_t)1 << 40)

// --- settings -----------------------------------------------------------------------------------

void manifest_set_text(struct manifest_settings *settings, const char *name, const char *value) {
    size_t i = settings->count++;
    settings->items[i].name = name;
    number_format(settings->items[i].value, MANIFEST_VALUE_SIZE, "%s", value);
}

void manifest_set_real(struct manifest_settings *settings, const char *name, double value) {
    char text[NUMBER_TEXT_SIZE];
    number_print_real(text, sizeof text, value);
    manifest_set_text(settings, name, text);
}

void manifest_set_integer(struct manifest_settings *settings, const char *name, uint64_t value) {
    char text[NUMBER_TEXT_SIZE];
    number_format(text, sizeof text, "%" PRIu64, value);
    manifest_set_text(settings, name, text);
}

static const char *value_of(const json *value) {
    const char *text = json_text(value);
    return text != NULL ? text : "default";
}

struct manifest_difference manifest_differ(const json *manifest,
                                           const struct manifest_settings *settings) {
    const json *saved = json_member(manifest, "settings");
    struct json_walk walk = {.object = saved};
    for (size_t i = 0; i < settings->count; i++) {
        const char *name = settings->items[i].name, *now = settings->items[i].value;
        const char *before = value_of(json_member(saved, name));
        if (strcmp(before, now) != 0) {
            return (struct manifest_difference){name, before, now};
        }
    }
    while (json_walk_next(&walk)) {
        int found = 0;
        for (size_t i = 0; i < settings->count; i++) {
            found |= strcmp(settings->items[i].name, walk.key) == 0;
        }
        if (!found) {
            return (struct manifest_difference){walk.key, value_of(walk.value), value_of(NULL)};
        }
    }
    return (struct manifest_difference){NULL, NULL, NULL};
}

// Bytes of a value that a message shows: a digest's first 16.
static int shown(const char *value) {
    return digest_is_hex(DIGEST_SHA256, value) ? 16 : MANIFEST_VALUE_SIZE;
}

enum berth_status manifest_compare(const char *path, const json *manifest,
                                   const struct manifest_settings *settings, const char *remedy,
                                   struct berth_error *error) {
    const struct manifest_difference found = manifest_differ(manifest, settings);
    return found.name == NULL
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s: the files were made with %.*s \"%.*s\", but it is \"%.*s\" now; %s",
                           path, UTF8_SHOWN(found.name, 80), shown(found.saved), found.saved,
                           shown(found.now), found.now, remedy);
}

// --- writing ------------------------------------------------------------------------------------

json *manifest_new(const struct manifest_settings *settings, int complete, json *files) {
    json *manifest = JSON_OBJECT({"format_version", json_new_integer(FORMAT)}, {"files", files});
    if (settings == NULL || manifest == NULL) {
        return manifest;
    }
    json *object = json_new_object();
    int failed = 0;
    for (size_t i = 0; i < settings->count; i++) {
        failed |=
            json_set(object, settings->items[i].name, json_new_text(settings->items[i].value));
    }
    failed |= json_set(manifest, "settings", object);
    failed |= json_set(manifest, "complete", json_new_boolean(complete));
    return json_unless_failed(manifest, failed);
}

enum berth_status manifest_write(const char *path, json *manifest, struct berth_error *error) {
    assert(manifest == NULL || manifest_check(manifest) == NULL);
    const enum berth_status status = json_write_file(manifest, JSON_INDENT_2_SORTED, path, error);
    json_free(manifest);
    return status;
}

// --- reading ------------------------------------------------------------------------------------

const json *manifest_files(const json *manifest) {
    return json_member(manifest, "files");
}

int manifest_is_complete(const json *manifest) {
    return json_truth(json_member(manifest, "complete"));
}

// "FILE" or "FOLDER/FILE", neither of which begins with a dot.
static int is_inside(const char *name) {
    const char *slash = strchr(name, '/');
    const char *last = slash != NULL ? slash + 1 : name;
    return name[0] != '.' && name[0] != '/' && last[0] != '.' && last[0] != '\0' &&
           strchr(last, '/') == NULL;
}

static int has_only_counts(const json *value) {
    struct json_walk walk = {.object = value};
    int good = !json_is_integer_value(value) ||
               (json_as_integer(value) >= 0 && json_as_integer(value) <= MAX_COUNT);
    for (size_t i = 0; json_is_array_value(value) && i < json_length(value) && good; i++) {
        good = has_only_counts(json_at(value, i));
    }
    while (good && json_is_object_value(value) && json_walk_next(&walk)) {
        good = has_only_counts(walk.value);
    }
    return good;
}

// What an entry breaks of manifest.h; NULL: nothing.
static const char *check_entry(const char *name, const json *entry) {
    const json *bytes = json_member(entry, "bytes"), *digest = json_member(entry, "sha256");
    CLAUSE(is_inside(name), "expected a name in the manifest's folder");
    CLAUSE(json_is_object_value(entry), "expected an object");
    CLAUSE(json_is_integer_value(bytes) || json_is_null_value(bytes),
           "expected key \"bytes\" to be an integer or null");
    CLAUSE(has_only_counts(entry), "expected counts from 0 to 2^40");
    CLAUSE(digest == NULL ||
               (json_is_text(digest) && digest_is_hex(DIGEST_SHA256, json_text(digest))),
           "expected key \"sha256\" to be 64 hexadecimal digits");
    return NULL;
}

// What the manifest breaks of manifest.h; NULL: nothing. *name becomes the file whose entry breaks
// it, NULL: it is the manifest itself.
static const char *check_members(const json *manifest, const char **name) {
    const json *version = json_member(manifest, "format_version");
    const json *settings = json_member(manifest, "settings");
    const json *complete = json_member(manifest, "complete");
    struct json_walk walk = {.object = manifest_files(manifest)};
    *name = NULL;
    CLAUSE(json_is_integer_value(version) && json_as_integer(version) == FORMAT,
           "expected key \"format_version\" to be 1");
    CLAUSE(json_is_object_value(walk.object), "expected key \"files\" to be an object");
    CLAUSE(settings == NULL || json_is_object_value(settings),
           "expected key \"settings\" to be an object");
    CLAUSE(complete == NULL || json_is_boolean(complete),
           "expected key \"complete\" to be true or false");
    CLAUSE(json_length(manifest) == 2 + (size_t)(settings != NULL) + (complete != NULL),
           "expected only the keys format_version, settings, complete and files");
    while (json_walk_next(&walk)) {
        *name = walk.key;
        const char *broken = check_entry(walk.key, walk.value);
        CLAUSE(broken == NULL, broken);
    }
    return NULL;
}

const char *manifest_check(const json *manifest) {
    const char *name;
    return check_members(manifest, &name);
}

static enum berth_status check_form(const char *path, const json *manifest,
                                    struct berth_error *error) {
    const json *version = json_member(manifest, "format_version");
    const char *name;
    if (json_is_integer_value(version) && json_as_integer(version) > FORMAT) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: format_version %" PRId64 " is newer than this program (%s), which "
                         "supports %d; use a newer program",
                         path, json_as_integer(version), BERTH_VERSION, FORMAT);
    }
    const char *wrong = check_members(manifest, &name);
    return wrong == NULL ? BERTH_OK
           : name != NULL
               ? error_set(error, BERTH_BAD_DATA, "%s: damaged manifest: file \"%.*s\": %s", path,
                           UTF8_SHOWN(name, 200), wrong)
               : error_set(error, BERTH_BAD_DATA, "%s: not a manifest of format_version %d: %s",
                           path, FORMAT, wrong);
}

// Whether a file that cannot be opened is another user's, for the reason in errno. That is no
// damage.
static int is_forbidden(const char *path) {
    return access(path, R_OK) < 0 && (errno == EACCES || errno == EPERM);
}

static enum berth_status read_form(const char *path, json **manifest, struct berth_error *error) {
    *manifest = NULL;
    enum berth_status status = json_read_file(path, manifest, error);
    if (status == BERTH_NO_INPUT && is_forbidden(path)) {
        return error_set_errno(error, BERTH_IO, errno, "cannot read %s", path);
    }
    if (status == BERTH_OK) {
        status = check_form(path, *manifest, error);
    }
    if (status != BERTH_OK) {
        json_free(*manifest);
        *manifest = NULL;
    }
    return status;
}

static enum berth_status with_remedy(enum berth_status status, const struct berth_error *own,
                                     const char *remedy, struct berth_error *error) {
    const int has_remedy = remedy != NULL && status != BERTH_IO && status != BERTH_NO_MEMORY;
    return status == BERTH_OK ? BERTH_OK
                              : error_set(error, status, "%s%s%s", own->message,
                                          has_remedy ? "; " : "", has_remedy ? remedy : "");
}

enum berth_status manifest_read(const char *path, const char *remedy, json **manifest,
                                struct berth_error *error) {
    struct berth_error own = {.message = ""};
    return with_remedy(read_form(path, manifest, &own), &own, remedy, error);
}

static enum berth_status check_complete(const char *path, const json *manifest,
                                        struct berth_error *error) {
    if (!manifest_is_complete(manifest)) {
        return error_set(error, BERTH_NO_INPUT, "%s: not complete", path);
    }
    struct json_walk walk = {.object = manifest_files(manifest)};
    const struct path folder = path_parent(path);
    while (json_walk_next(&walk)) {
        TRY(manifest_check_file(folder.text, walk.key, walk.value, error));
    }
    return BERTH_OK;
}

enum berth_status manifest_read_complete(const char *path, const char *remedy, json **manifest,
                                         struct berth_error *error) {
    struct berth_error own = {.message = ""};
    enum berth_status status = read_form(path, manifest, &own);
    if (status == BERTH_OK) {
        status = check_complete(path, *manifest, &own);
    }
    if (status != BERTH_OK) {
        json_free(*manifest);
        *manifest = NULL;
    }
    return with_remedy(status, &own, remedy, error);
}

// --- files --------------------------------------------------------------------------------------

// `hex` stays empty if only the size is asked for.
static enum berth_status measure(const char *path, int with_digest, uint64_t *bytes,
                                 char hex[DIGEST_HEX_SIZE], struct berth_error *error) {
    struct file_reader reader;
    hex[0] = '\0';
    if (with_digest) {
        return digest_measure(path, bytes, hex, error);
    }
    TRY(file_reader_open(&reader, path, error));
    *bytes = reader.size;
    file_reader_close(&reader);
    return BERTH_OK;
}

static enum berth_status check_path(const char *path, const json *entry,
                                    struct berth_error *error) {
    const int64_t bytes = json_as_integer(json_member(entry, "bytes"));
    const char *hash = json_text(json_member(entry, "sha256"));
    uint64_t found;
    char hex[DIGEST_HEX_SIZE];
    const enum berth_status status = measure(path, hash != NULL, &found, hex, error);
    if (status == BERTH_NO_INPUT && is_forbidden(path)) {
        return error_set_errno(error, BERTH_IO, errno, "cannot read %s", path);
    }
    if (status == BERTH_NO_INPUT) {
        return error_set(error, BERTH_BAD_DATA, "%s: listed in the manifest, but missing", path);
    }
    TRY(status);
    if (found != (uint64_t)bytes) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected %" PRId64 " bytes, as in the manifest, found %" PRIu64, path,
                         bytes, found);
    }
    return hash == NULL || strcmp(hex, hash) == 0
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: expected SHA-256 %.16s..., as in the manifest, found %.16s...: "
                           "the file has changed",
                           path, hash, hex);
}

enum berth_status manifest_check_file(const char *folder, const char *name, const json *entry,
                                      struct berth_error *error) {
    if (json_is_null_value(json_member(entry, "bytes"))) {
        return BERTH_OK; // there is no such file
    }
    return check_path(path_in(folder, name).text, entry, error);
}
