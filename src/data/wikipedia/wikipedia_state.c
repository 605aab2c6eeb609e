// SPDX-License-Identifier: Apache-2.0
// Reads and writes text.json, and removes half-written files of killed runs.
#include "data/wikipedia/wikipedia_state.h"

#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "format/checksum/digest.h"

#include <stddef.h>
#include <string.h>

#define FORMAT 3 // of the file and of the text: increment it when the cleaner changes
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

char *wikipedia_file_path(const char *folder, size_t index) {
    char name[32];
    size_t group = index / WIKIPEDIA_FILES_PER_FOLDER;
    number_format(name, sizeof name, "%c%c/wiki_%02zu", (int)('A' + group / 26 % 26),
                  (int)('A' + group % 26), index % WIKIPEDIA_FILES_PER_FOLDER);
    return path_join(folder, name);
}

// --- writing ------------------------------------------------------------------------------------

// NULL when out of memory: an incomplete manifest would be trusted.
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
    json *object = json_new_object(), *files = json_new_array();
    int failed = 0;
    for (size_t i = 0; i < state->count; i++) {
        failed |= json_append(files, file_to_json(&state->files[i]));
    }
    failed |= json_set(object, "files", files);
    failed |= json_set(object, "format", json_new_integer(FORMAT));
    failed |= json_set(object, "dump", json_new_text(state->dump));
    failed |= json_set(object, "file_size", json_new_integer((int64_t)state->file_size));
    failed |= json_set(object, "complete", json_new_boolean(state->complete));
    enum berth_status status =
        failed ? error_no_memory(error, 0, state->path)
               : json_write_file(object, JSON_INDENT_2_SORTED, state->path, error);
    json_free(object);
    return status;
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

static enum berth_status file_from_json(const json *object, const char *name,
                                        struct wikipedia_file *file, struct berth_error *error) {
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        int64_t value = -1;
        TRY(json_get_integer(object, name, fields[i].key, &value, error));
        if (value < 0) {
            return error_set(error, BERTH_CONFIG,
                             "%s: key \"%s\" of a file: expected a number of at least 0; remove "
                             "the folder and start again",
                             name, fields[i].key);
        }
        memcpy((char *)file + fields[i].offset, &value, sizeof value);
    }
    return BERTH_OK;
}

static enum berth_status check_same_dump(const struct wikipedia_state *state, const json *object,
                                         struct berth_error *error) {
    const char *dump = NULL;
    int64_t format = 0, file_size = 0;
    TRY(json_get_integer(object, state->path, "format", &format, error));
    TRY(json_get_integer(object, state->path, "file_size", &file_size, error));
    TRY(json_get_text(object, state->path, "dump", &dump, error));
    if (json_length(json_member(object, "files")) == 0) {
        return BERTH_OK; // there is no text yet
    }
    static const char remedy[] = "choose another output, or remove the folder";
    if (format != FORMAT) {
        return error_set(error, BERTH_CONFIG, "%s: found format %lld, expected %d: %s", state->path,
                         (long long)format, FORMAT, remedy);
    }
    if ((uint64_t)file_size != state->file_size) {
        return error_set(error, BERTH_CONFIG,
                         "%s: the text was made with file_size %lld, but it is %lld now: %s",
                         state->path, (long long)file_size, (long long)state->file_size, remedy);
    }
    return dump != NULL && strcmp(dump, state->dump) == 0
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG, "%s: the folder has the text of another dump: %s",
                           state->path, remedy);
}

// Checks that the finished file exists and has `bytes` bytes.
static enum berth_status check_file(const char *folder, size_t index, uint64_t bytes,
                                    struct berth_error *error) {
    char *path = wikipedia_file_path(folder, index);
    const enum berth_status status =
        path != NULL ? file_check_size(path, bytes, error) : path_no_memory(error);
    memory_free(path);
    return status;
}

static enum berth_status load_files(struct wikipedia_state *state, const char *folder,
                                    const json *object, struct berth_error *error) {
    const json *files = json_member(object, "files");
    size_t count = json_length(files);
    if (!json_is_array_value(files) || count > WIKIPEDIA_FILES_MAX) {
        return error_set(error, BERTH_CONFIG, "%s: key \"files\": expected an array", state->path);
    }
    state->files = memory_array_zeroed(count + 1, sizeof *state->files);
    if (state->files == NULL) {
        return error_no_memory(error, count * sizeof *state->files, state->path);
    }
    state->capacity = count + 1;
    TRY(json_get_boolean(object, state->path, "complete", &state->complete, error));
    for (size_t i = 0; i < count; i++) {
        struct wikipedia_file file;
        TRY(file_from_json(json_at(files, i), state->path, &file, error));
        struct berth_error own = {0};
        const enum berth_status status = check_file(folder, i, file.bytes, &own);
        TRY(file_probe(status, &own, error));
        if (status != BERTH_OK) {
            state->complete = 0;
            break;
        }
        state->files[state->count++] = file;
    }
    return BERTH_OK;
}

static enum berth_status load(struct wikipedia_state *state, const char *folder,
                              struct berth_error *error) {
    json *object;
    TRY(json_read_file(state->path, &object, error));
    enum berth_status status = check_same_dump(state, object, error);
    if (status == BERTH_OK) {
        status = load_files(state, folder, object, error);
    }
    json_free(object);
    return status;
}

enum berth_status wikipedia_state_check(const char *folder, const json *manifest,
                                        const char *remedy, struct berth_error *error) {
    const json *files = json_member(manifest, "files");
    struct berth_error own = {.message = ""};
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; i < json_length(files) && status == BERTH_OK; i++) {
        const json *bytes = json_member(json_at(files, i), "bytes");
        status = check_file(folder, i, (uint64_t)json_as_integer(bytes), &own);
    }
    return status == BERTH_OK ? BERTH_OK : error_set(error, status, "%s: %s", own.message, remedy);
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

static enum berth_status read_head(struct wikipedia_state *state, const char *dump,
                                   struct berth_error *error) {
    struct file_reader file;
    TRY(file_reader_open(&file, dump, error));
    size_t length = file.size < HEAD_SIZE ? (size_t)file.size : HEAD_SIZE;
    char *head = memory_new(length);
    enum berth_status status = head != NULL ? file_reader_at(&file, 0, head, length, error)
                                            : error_no_memory(error, length, dump);
    if (status == BERTH_OK) {
        status = digest_memory(DIGEST_SHA256, head, length, state->dump, error);
    }
    memory_free(head);
    file_reader_close(&file);
    return status;
}

enum berth_status wikipedia_state_open(struct wikipedia_state *state,
                                       const struct wikipedia_settings *settings,
                                       struct berth_error *error) {
    *state = (struct wikipedia_state){.file_size = settings->file_size};
    state->path = path_join(settings->folder, TEXT_MANIFEST);
    if (state->path == NULL) {
        return error_no_memory(error, strlen(settings->folder), settings->folder);
    }
    TRY(read_head(state, settings->dump, error));
    if (file_exists(state->path)) {
        TRY(load(state, settings->folder, error));
        return dir_each(settings->folder, remove_temporary, NULL, error);
    }
    char *first = wikipedia_file_path(settings->folder, 0);
    int has_text = first != NULL && file_exists(first);
    memory_free(first);
    if (has_text) {
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
