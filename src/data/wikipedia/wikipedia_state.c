// SPDX-License-Identifier: Apache-2.0
// The manifest text.json of a wiki's text: loads it, removes half-written files of killed runs,
// adds a file when it is finished, and saves. wiki/wikipedia.c opens it at its beginning and asks
// it where in the dump to go on; `berth prepare` only sees that the text is complete.
#include "data/wikipedia/wikipedia_state.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "format/checksum/digest.h"
#include "format/manifest/manifest.h"

#include <stddef.h>
#include <string.h>

#define CLEANER 3 // increment it when other text is made of the same dump
#define HEAD_SIZE ((size_t)1 << 20)

static const struct {
    const char *key;
    size_t offset;
} fields[] = {
#define FIELD(name, member)                                                                        \
    { name, offsetof(struct wikipedia_file, member) }
    FIELD("bytes", bytes),
    FIELD("next_page", next.page),
    FIELD("next_block", next.block),
    FIELD("next_bit", next.bit),
    FIELD("pages", counts.pages),
    FIELD("articles", counts.articles),
    FIELD("redirects", counts.redirects),
    FIELD("other_namespaces", counts.other_namespaces),
    FIELD("empty", counts.empty),
    FIELD("oversize", counts.oversize),
    FIELD("damaged", counts.damaged),
    FIELD("xml_bytes", counts.xml_bytes),
    FIELD("text_bytes", counts.text_bytes),
    FIELD("files", counts.files),
    FIELD("sentences_left_out", counts.sentences_left_out),
};
#define FIELD_COUNT (sizeof fields / sizeof *fields)

// "AA/wiki_00"
static void name_file(char name[32], size_t index) {
    size_t group = index / WIKIPEDIA_FILES_PER_FOLDER;
    number_format(name, 32, "%c%c/wiki_%02zu", (int)('A' + group / 26 % 26),
                  (int)('A' + group % 26), index % WIKIPEDIA_FILES_PER_FOLDER);
}

struct path wikipedia_file_path(const char *folder, size_t index) {
    char name[32];
    name_file(name, index);
    return path_in(folder, name);
}

// --- writing ------------------------------------------------------------------------------------

// NULL when out of memory. Never a part of the object: a run that resumes would believe that the
// file is as it says.
static json *file_to_json(const struct wikipedia_file *file) {
    json *object = json_new_object();
    int failed = 0;
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        int64_t value;
        memcpy(&value, (const char *)file + fields[i].offset, sizeof value);
        failed |= json_set(object, fields[i].key, json_new_integer(value));
    }
    return json_unless_failed(object, failed);
}

static enum berth_status save(const struct wikipedia_state *state, struct berth_error *error) {
    json *files = json_new_object();
    int failed = 0;
    for (size_t i = 0; i < state->count; i++) {
        char name[32];
        name_file(name, i);
        failed |= json_set(files, name, file_to_json(&state->files[i]));
    }
    files = json_unless_failed(files, failed);
    return manifest_write(state->path, manifest_new(&state->settings, state->complete, files),
                          error);
}

enum berth_status wikipedia_state_add(struct wikipedia_state *state, struct wikipedia_file file,
                                      struct berth_error *error) {
    size_t needed = state->count + 1;
    struct wikipedia_file *grown =
        memory_grow(state->files, &state->capacity, needed, sizeof *grown);
    if (grown == NULL) {
        return error_no_memory(error, needed * sizeof *grown, state->path);
    }
    state->files = grown;
    state->files[state->count++] = file;
    return save(state, error);
}

enum berth_status wikipedia_state_complete(struct wikipedia_state *state,
                                           const struct wikipedia_counts *counts,
                                           struct berth_error *error) {
    if (state->count > 0) {
        state->files[state->count - 1].counts =
            *counts; // including the pages after its last article
    }
    state->complete = 1;
    return save(state, error);
}

// --- reading ------------------------------------------------------------------------------------

static const char remedy[] = "choose another output, or remove the folder";

static enum berth_status file_from_json(const json *entry, const char *path, const char *name,
                                        struct wikipedia_file *file, struct berth_error *error) {
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const json *value = json_member(entry, fields[i].key);
        const int64_t number = json_as_integer(value);
        if (!json_is_integer_value(value)) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: damaged manifest: file \"%s\": key \"%s\": expected an "
                             "integer; %s",
                             path, name, fields[i].key, remedy);
        }
        memcpy((char *)file + fields[i].offset, &number, sizeof number);
    }
    return BERTH_OK;
}

// Takes the files from the first to the last that is still as it was written.
static enum berth_status load_files(struct wikipedia_state *state, const char *folder,
                                    const json *manifest, struct berth_error *error) {
    const json *files = manifest_files(manifest);
    const size_t count = json_length(files);
    state->files = memory_array_zeroed(count + 1, sizeof *state->files);
    if (state->files == NULL) {
        return error_no_memory(error, count * sizeof *state->files, state->path);
    }
    state->capacity = count + 1;
    state->complete = manifest_is_complete(manifest);
    while (state->count < count && state->count < WIKIPEDIA_FILES_MAX) {
        char name[32];
        struct berth_error own = {0};
        name_file(name, state->count);
        const json *entry = json_member(files, name);
        enum berth_status status = BERTH_BAD_DATA;
        if (entry != NULL) {
            TRY(file_from_json(entry, state->path, name, &state->files[state->count], error));
            status = manifest_check_file(folder, name, entry, &own);
        }
        TRY(file_probe(status, &own, error));
        if (status != BERTH_OK) {
            state->complete = 0;
            break;
        }
        state->count++;
    }
    return BERTH_OK;
}

// --- the folder ---------------------------------------------------------------------------------

// Removes the half-written files of killed runs, also those in AA, AB, ...
static enum berth_status remove_temporary(const char *path, void *context,
                                          struct berth_error *error) {
    if (file_is_temporary(path)) {
        return file_remove(path, error);
    }
    return strlen(path_name(path)) == 2 && dir_exists(path)
               ? dir_each(path, remove_temporary, context, error)
               : BERTH_OK;
}

// The settings that the text depends on; of the dump, the SHA-256 of the first mebibyte.
static enum berth_status set_settings(struct manifest_settings *settings, const char *dump,
                                      uint64_t file_size, struct berth_error *error) {
    struct file_reader file;
    char digest[DIGEST_HEX_SIZE];
    TRY(file_reader_open(&file, dump, error));
    size_t length = file.size < HEAD_SIZE ? (size_t)file.size : HEAD_SIZE;
    char *head = memory_new(length);
    enum berth_status status = head != NULL ? file_reader_at(&file, 0, head, length, error)
                                            : error_no_memory(error, length, dump);
    if (status == BERTH_OK) {
        status = digest_memory(DIGEST_SHA256, head, length, digest, error);
    }
    memory_free(head);
    file_reader_close(&file);
    TRY(status);
    manifest_set_integer(settings, "cleaner", CLEANER);
    manifest_set_text(settings, "dump_sha256", digest);
    manifest_set_integer(settings, "file_size", file_size);
    return BERTH_OK;
}

enum berth_status wikipedia_state_open(struct wikipedia_state *state,
                                       const struct wikipedia_settings *settings,
                                       struct berth_error *error) {
    *state = (struct wikipedia_state){.path = NULL};
    state->path = path_join(settings->folder, TEXT_MANIFEST);
    if (state->path == NULL) {
        return error_no_memory(error, strlen(settings->folder), settings->folder);
    }
    TRY(set_settings(&state->settings, settings->dump, settings->file_size, error));
    if (file_exists(state->path)) {
        json *manifest;
        TRY(manifest_read(state->path, remedy, &manifest, error));
        enum berth_status status = BERTH_OK;
        if (json_length(manifest_files(manifest)) > 0) { // otherwise there is no text yet
            status = manifest_compare(state->path, manifest, &state->settings, remedy, error);
        }
        if (status == BERTH_OK) {
            status = load_files(state, settings->folder, manifest, error);
        }
        json_free(manifest);
        TRY(status);
        return dir_each(settings->folder, remove_temporary, NULL, error);
    }
    if (file_exists(wikipedia_file_path(settings->folder, 0).text)) {
        return error_set(
            error, BERTH_CANT_CREATE,
            "%s: the folder has text but no %s that says of which dump; choose another output",
            settings->folder, TEXT_MANIFEST);
    }
    TRY(dir_each(settings->folder, remove_temporary, NULL, error));
    state->is_new = 1;
    return save(state, error);
}

void wikipedia_state_done(struct wikipedia_state *state) {
    if (state->is_new) {
        (void)file_remove(state->path, NULL);
    }
    memory_free(state->path);
    memory_free(state->files);
    *state = (struct wikipedia_state){.path = NULL};
}
