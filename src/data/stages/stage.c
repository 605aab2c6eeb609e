// SPDX-License-Identifier: Apache-2.0
#include "data/stages/stage.h"

#include "core/memory.h"
#include "core/number.h"

#include <inttypes.h>
#include <string.h>

enum { FORMAT = 1 };

// --- settings -----------------------------------------------------------------------------------

void stage_set_text(struct stage_settings *settings, const char *name, const char *value) {
    size_t i = settings->count++;
    settings->items[i].name = name;
    number_format(settings->items[i].value, STAGE_VALUE_SIZE, "%s", value);
}

void stage_set_real(struct stage_settings *settings, const char *name, double value) {
    char text[NUMBER_TEXT_SIZE];
    number_print_real(text, sizeof text, value);
    stage_set_text(settings, name, text);
}

void stage_set_integer(struct stage_settings *settings, const char *name, uint64_t value) {
    char text[NUMBER_TEXT_SIZE];
    number_format(text, sizeof text, "%" PRIu64, value);
    stage_set_text(settings, name, text);
}

static int put_settings(json *object, const struct stage_settings *settings) {
    int failed = 0;
    for (size_t i = 0; i < settings->count; i++) {
        failed |=
            json_set(object, settings->items[i].name, json_new_text(settings->items[i].value));
    }
    return failed;
}

static enum berth_status same_settings(const struct stage *stage, const json *object,
                                       struct berth_error *error) {
    const json *saved = json_member(object, "settings");
    for (size_t i = 0; i < stage->settings->count; i++) {
        const char *name = stage->settings->items[i].name, *now = stage->settings->items[i].value;
        const char *before = json_text(json_member(saved, name));
        if (before == NULL || strcmp(before, now) != 0) {
            return error_set(error, BERTH_CONFIG,
                             "%s: the files were made with %s \"%s\", but it is \"%s\" now; choose "
                             "another output, or remove the folder %s",
                             stage->path, name, before != NULL ? before : "", now, stage->folder);
        }
    }
    return BERTH_OK;
}

// --- the folder ---------------------------------------------------------------------------------

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

// Removes half-written files whose names begin with `prefix`, left by killed runs; *others: whether
// the folder has other files, except the manifest.
static enum berth_status tidy(const struct stage *stage, const char *folder, const char *prefix,
                              int *others, struct berth_error *error) {
    char **names = NULL;
    TRY(dir_list(folder, &names, error));
    enum berth_status status = BERTH_OK;
    *others = 0;
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        if (file_is_temporary(names[i]) && strncmp(names[i], prefix, strlen(prefix)) == 0) {
            char *path = path_join(folder, names[i]);
            status = path != NULL ? file_remove(path, error) : file_no_path(error);
            memory_free(path);
        } else {
            *others |= names[i][0] != '.' && strcmp(names[i], base_name(stage->path)) != 0;
        }
    }
    memory_free(names);
    return status;
}

static int is_whole(const struct stage *stage, const char *name, const json *entry) {
    struct file_reader file;
    char *path = path_join(stage->folder, name);
    int whole = 0;
    if (json_is_null_value(json_member(entry, "bytes"))) {
        whole = 1; // no result: no file
    } else if (path != NULL && file_reader_open(&file, path, NULL) == BERTH_OK) {
        whole = file.size == (uint64_t)json_as_integer(json_member(entry, "bytes"));
        file_reader_close(&file);
    }
    memory_free(path);
    return whole;
}

// --- the manifest -------------------------------------------------------------------------------

// The limit of a count: no file has more, and sums over all files stay within 64 bits.
#define COUNT_MOST ((int64_t)1 << 40)

static int has_only_counts(const json *facts) {
    struct json_walk walk = {.object = facts};
    int good = !json_is_integer_value(facts) ||
               (json_as_integer(facts) >= 0 && json_as_integer(facts) <= COUNT_MOST);
    if (json_is_array_value(facts)) {
        for (size_t i = 0; i < json_length(facts) && good; i++) {
            good = has_only_counts(json_at(facts, i));
        }
    } else if (json_is_object_value(facts)) {
        while (good && json_walk_next(&walk)) {
            good = has_only_counts(walk.value);
        }
    }
    return good;
}

static enum berth_status check_files(const json *files, const char *path,
                                     struct berth_error *error) {
    struct json_walk walk = {.object = files};
    // The stage "text" has an array, which its own reader checks (data/wikipedia).
    while (json_is_object_value(files) && json_walk_next(&walk)) {
        if (!has_only_counts(walk.value)) {
            return error_set(error, BERTH_CONFIG,
                             "%s: file \"%.200s\": count outside 0 to %" PRId64
                             ": the manifest is damaged; remove its folder and start again",
                             path, walk.key, COUNT_MOST);
        }
    }
    return BERTH_OK;
}

static enum berth_status take_files(struct stage *stage, const json *object,
                                    struct berth_error *error) {
    struct json_walk walk = {.object = json_member(object, "files")};
    if (!json_is_object_value(walk.object)) {
        return error_set(error, BERTH_CONFIG, "%s: key \"files\": expected an object", stage->path);
    }
    TRY(check_files(walk.object, stage->path, error));
    TRY(json_get_boolean(object, stage->path, "complete", &stage->complete, error));
    int failed = 0;
    while (json_walk_next(&walk)) {
        if (is_whole(stage, walk.key, walk.value)) {
            failed |= json_set(stage->files, walk.key, json_copy_deep(walk.value));
        } else {
            stage->complete = 0;
        }
    }
    return failed ? error_no_memory(error, 0, stage->path) : BERTH_OK;
}

static enum berth_status load(struct stage *stage, struct berth_error *error) {
    json *object;
    int64_t format = 0;
    TRY(json_read_file(stage->path, &object, error));
    enum berth_status status = json_get_integer(object, stage->path, "format", &format, error);
    if (status == BERTH_OK && format != FORMAT) {
        status =
            error_set(error, BERTH_CONFIG,
                      "%s: found format %lld, expected %d: remove the folder %s and start again",
                      stage->path, (long long)format, FORMAT, stage->folder);
    }
    if (status == BERTH_OK) {
        status = same_settings(stage, object, error);
    }
    if (status == BERTH_OK) {
        status = take_files(stage, object, error);
    }
    json_free(object);
    return status;
}

// Locks the manifest's folder, and removes half-written manifests from it.
static enum berth_status lock(struct stage *stage, struct berth_error *error) {
    size_t length = (size_t)(base_name(stage->path) - stage->path);
    char *folder = length > 0 ? memory_string_of(stage->path, length) : memory_string(".");
    int others;
    if (folder == NULL) {
        return file_no_path(error);
    }
    enum berth_status status = dir_make(folder, error);
    if (status == BERTH_OK) {
        status = file_lock_take(&stage->lock, folder, error);
    }
    if (status == BERTH_OK) {
        status = tidy(stage, folder, base_name(stage->folder), &others, error);
    }
    memory_free(folder);
    return status;
}

enum berth_status stage_open(struct stage *stage, const char *folder, const char *manifest,
                             const struct stage_settings *settings, struct berth_error *error) {
    int others;
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/') {
        length--;
    }
    *stage = (struct stage){.folder = memory_string_of(folder, length),
                            .path = memory_string(manifest),
                            .lock.descriptor = -1,
                            .settings = settings,
                            .files = json_new_object()};
    if (stage->folder == NULL || stage->path == NULL || stage->files == NULL) {
        return error_no_memory(error, strlen(folder) + strlen(manifest), folder);
    }
    stage->existing = dir_existing(stage->folder);
    TRY(dir_make(folder, error));
    TRY(lock(stage, error));
    TRY(tidy(stage, folder, "", &others, error));
    if (file_exists(stage->path)) {
        return load(stage, error);
    }
    if (others) {
        return error_set(error, BERTH_CANT_CREATE,
                         "%s: the folder has files but no %s that says how they were made; choose "
                         "another output",
                         folder, base_name(stage->path));
    }
    stage->is_new = 1;
    return stage_save(stage, error);
}

const json *stage_find(const struct stage *stage, const char *name) {
    return json_member(stage->files, name);
}

enum berth_status stage_put(struct stage *stage, const char *name, json *facts,
                            struct berth_error *error) {
    int failed = facts == NULL;
#pragma omp critical(stage_files)
    failed = json_set(stage->files, name, facts) != 0 || failed;
    return failed ? error_no_memory(error, strlen(name), stage->path) : BERTH_OK;
}

// NULL when out of memory: a manifest with a missing member would be trusted.
static json *to_json(const struct stage *stage) {
    json *object = json_new_object(), *settings = json_new_object();
    int failed = put_settings(settings, stage->settings);
    failed |= json_set(object, "format", json_new_integer(FORMAT));
    failed |= json_set(object, "complete", json_new_boolean(stage->complete));
    failed |= json_set(object, "settings", settings);
    failed |= json_set(object, "files", json_copy_deep(stage->files));
    if (failed) {
        json_free(object);
        return NULL;
    }
    return object;
}

enum berth_status stage_save(struct stage *stage, struct berth_error *error) {
    enum berth_status status;
    TRY(file_lock_check(&stage->lock, error));
#pragma omp critical(stage_files)
    {
        json *object = to_json(stage);
        status = json_write_file(object, JSON_COMPACT_SORTED, stage->path, error);
        json_free(object);
    }
    return status;
}

enum berth_status stage_finish(struct stage *stage, struct berth_error *error) {
    stage->complete = 1;
    return stage_save(stage, error);
}

static int is_begun(const struct stage *stage) {
    struct json_walk walk = {.object = stage->files};
    return stage->complete || json_walk_next(&walk);
}

// The manifest stays if there are files without an entry: without it the folder would not belong to
// the stage.
static void remove_manifest(const struct stage *stage) {
    int others;
    if (stage->is_new && file_lock_check(&stage->lock, NULL) == BERTH_OK &&
        tidy(stage, stage->folder, "", &others, NULL) == BERTH_OK && !others) {
        (void)file_remove(stage->path, NULL);
    }
}

void stage_close(struct stage *stage) {
    const int leaves_nothing = stage->folder != NULL && !is_begun(stage);
    if (leaves_nothing) {
        remove_manifest(stage);
    }
    file_lock_release(&stage->lock);
    if (leaves_nothing) {
        dir_remove_created(stage->folder, stage->existing);
    }
    memory_free(stage->folder);
    memory_free(stage->path);
    json_free(stage->files);
    *stage = (struct stage){.lock.descriptor = -1};
}

enum berth_status stage_read_complete(const char *manifest, const char *remedy, json **value,
                                      struct berth_error *error) {
    int complete = 0;
    *value = NULL;
    if (!file_exists(manifest)) {
        return error_set(error, BERTH_NO_INPUT, "%s: no such file: %s", manifest, remedy);
    }
    TRY(json_read_file(manifest, value, error));
    enum berth_status status = json_get_boolean(*value, manifest, "complete", &complete, error);
    if (status == BERTH_OK && !complete) {
        status = error_set(error, BERTH_NO_INPUT, "%s: not complete: %s", manifest, remedy);
    }
    if (status == BERTH_OK) {
        status = check_files(json_member(*value, "files"), manifest, error);
    }
    if (status != BERTH_OK) {
        json_free(*value);
        *value = NULL;
    }
    return status;
}

// --- work by several threads --------------------------------------------------------------------

void stage_advance(struct stage_work *work, int64_t more) {
#pragma omp critical(stage_work)
    {
        work->done += more;
        if (work->in_bytes) {
            log_progress_bytes(work->log, work->phase, work->done, work->total);
        } else {
            log_progress(work->log, work->phase, work->done, work->total);
        }
    }
}

static void keep(struct stage_work *work, enum berth_status status, const char *message) {
#pragma omp critical(stage_work)
    if (work->status == BERTH_OK) {
        work->status = error_set(&work->error, status, "%s", message);
    }
}

void stage_fail(struct stage_work *work, enum berth_status status,
                const struct berth_error *error) {
    keep(work, status, error->message);
}

int stage_must_end(struct stage_work *work) {
    enum berth_status status;
    if (work->stop != NULL && *work->stop != 0) {
        keep(work, BERTH_INTERRUPTED,
             "stopped; finished files are kept, and the next run makes the rest");
    }
#pragma omp critical(stage_work)
    status = work->status;
    return status != BERTH_OK;
}

enum berth_status stage_outcome(const struct stage_work *work, struct berth_error *error) {
    return work->status == BERTH_OK ? BERTH_OK
                                    : error_set(error, work->status, "%s", work->error.message);
}
