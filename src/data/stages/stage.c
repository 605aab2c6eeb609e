// SPDX-License-Identifier: Apache-2.0
// The manifest of a stage: settings, entries, locking, resuming, and the lists of other ranks.
#include "data/stages/stage.h"

#include "core/memory.h"
#include "core/number.h"
#include "core/utf8.h"
#include "data/stages/stage_work.h"

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

// A setting that differs between the manifest and this run. A missing setting has its default: some
// are written only if they differ from it.
struct difference {
    const char *name; // NULL: no difference
    const char *saved, *now;
};

static const char *value_of(const char *text) {
    return text != NULL ? text : "default";
}

static int has_setting(const struct stage_settings *settings, const char *name) {
    int found = 0;
    for (size_t i = 0; i < settings->count; i++) {
        found |= strcmp(settings->items[i].name, name) == 0;
    }
    return found;
}

static struct difference find_difference(const struct stage_settings *settings,
                                         const json *manifest) {
    const json *saved = json_member(manifest, "settings");
    struct json_walk walk = {.object = saved};
    for (size_t i = 0; i < settings->count; i++) {
        const char *name = settings->items[i].name, *now = settings->items[i].value;
        const char *before = value_of(json_text(json_member(saved, name)));
        if (strcmp(before, now) != 0) {
            return (struct difference){name, before, now};
        }
    }
    while (json_walk_next(&walk)) {
        if (!has_setting(settings, walk.key)) {
            return (struct difference){walk.key, value_of(json_text(walk.value)), value_of(NULL)};
        }
    }
    return (struct difference){NULL, NULL, NULL};
}

// For a setting that is a digest: what a different digest means. NULL: the setting is not a digest.
static const char *changed_input(const char *name) {
    static const struct {
        const char *name, *says;
    } digests[] = {{"articles_sha256", "the texts have changed"},
                   {"shards_sha256", "the shards have changed"},
                   {"input_sha256", "the files to pack have changed"},
                   {"vocabulary", "the vocabulary has changed"}};
    const char *says = NULL;
    for (size_t i = 0; i < sizeof digests / sizeof *digests; i++) {
        says = strcmp(digests[i].name, name) == 0 ? digests[i].says : says;
    }
    return says;
}

// What a manifest beside the folder adds to "remove the folder": " and ", and its path; else "".
static const char *and_of(const struct stage *stage) {
    const size_t length = strlen(stage->folder);
    const int is_inside =
        strncmp(stage->path, stage->folder, length) == 0 && stage->path[length] == '/';
    return is_inside ? "" : " and ";
}

static const char *beside(const struct stage *stage) {
    return *and_of(stage) != '\0' ? stage->path : "";
}

static enum berth_status check_settings(const struct stage *stage, const json *object,
                                        struct berth_error *error) {
    const struct difference found = find_difference(stage->settings, object);
    if (found.name == NULL) {
        return BERTH_OK;
    }
    const char *says = changed_input(found.name);
    return says != NULL
               ? error_set(error, BERTH_CONFIG,
                           "%s: %s since the files were made (%s); choose another output, or "
                           "remove the folder %s%s%s",
                           stage->path, says, found.name, stage->folder, and_of(stage),
                           beside(stage))
               : error_set(error, BERTH_CONFIG,
                           "%s: the files were made with %s \"%s\", but it is \"%s\" now; choose "
                           "another output, or remove the folder %s%s%s",
                           stage->path, found.name, found.saved, found.now, stage->folder,
                           and_of(stage), beside(stage));
}

// --- the folder ---------------------------------------------------------------------------------

// Removes half-written files of killed runs whose names begin with `prefix`. *others: whether the
// folder has other files besides the manifest.
static enum berth_status remove_temporary(const struct stage *stage, const char *folder,
                                          const char *prefix, int *others,
                                          struct berth_error *error) {
    char **names = NULL;
    TRY(dir_list(folder, &names, error));
    enum berth_status status = BERTH_OK;
    *others = 0;
    for (size_t i = 0; names[i] != NULL && status == BERTH_OK; i++) {
        if (file_is_temporary(names[i]) && strncmp(names[i], prefix, strlen(prefix)) == 0) {
            char *path = path_join(folder, names[i]);
            status = path != NULL ? file_remove(path, error) : path_no_memory(error);
            memory_free(path);
        } else {
            *others |= names[i][0] != '.' && strcmp(names[i], path_name(stage->path)) != 0;
        }
    }
    memory_free(names);
    return status;
}

static enum berth_status check_entry(const char *folder, const char *name, const json *entry,
                                     struct berth_error *error) {
    const json *bytes = json_member(entry, "bytes");
    if (json_is_null_value(bytes)) {
        return BERTH_OK; // there is no such file
    }
    char *path = path_join(folder, name);
    const enum berth_status status =
        path != NULL ? file_check_size(path, (uint64_t)json_as_integer(bytes), error)
                     : path_no_memory(error);
    memory_free(path);
    return status;
}

// --- the manifest -------------------------------------------------------------------------------

// The largest count: no file has more, and sums over all files fit into 64 bits.
#define MAX_COUNT ((int64_t)1 << 40)

static int has_only_counts(const json *entry) {
    struct json_walk walk = {.object = entry};
    int good = !json_is_integer_value(entry) ||
               (json_as_integer(entry) >= 0 && json_as_integer(entry) <= MAX_COUNT);
    if (json_is_array_value(entry)) {
        for (size_t i = 0; i < json_length(entry) && good; i++) {
            good = has_only_counts(json_at(entry, i));
        }
    } else if (json_is_object_value(entry)) {
        while (good && json_walk_next(&walk)) {
            good = has_only_counts(walk.value);
        }
    }
    return good;
}

static enum berth_status check_files(const json *files, const char *path,
                                     struct berth_error *error) {
    struct json_walk walk = {.object = files};
    // The stage "text" has an array instead, which its own reader checks (data/wikipedia).
    while (json_is_object_value(files) && json_walk_next(&walk)) {
        if (!has_only_counts(walk.value)) {
            return error_set(
                error, BERTH_CONFIG,
                "%s: file \"%.*s\": count outside 0 to %" PRId64
                ": the manifest is damaged; remove it and the files that it lists, and "
                "start again",
                path, UTF8_SHOWN(walk.key, 200), MAX_COUNT);
        }
    }
    return BERTH_OK;
}

static enum berth_status load_entries(struct stage *stage, const json *object,
                                      struct berth_error *error) {
    struct json_walk walk = {.object = json_member(object, "files")};
    if (!json_is_object_value(walk.object)) {
        return error_set(error, BERTH_CONFIG, "%s: key \"files\": expected an object", stage->path);
    }
    TRY(check_files(walk.object, stage->path, error));
    TRY(json_get_boolean(object, stage->path, "complete", &stage->complete, error));
    int failed = 0;
    while (json_walk_next(&walk)) {
        struct berth_error own = {0};
        const enum berth_status status = check_entry(stage->folder, walk.key, walk.value, &own);
        TRY(file_probe(status, &own, error));
        if (status == BERTH_OK) {
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
        status = error_set(
            error, BERTH_CONFIG,
            "%s: found format %lld, expected %d: remove the folder %s%s%s and start again",
            stage->path, (long long)format, FORMAT, stage->folder, and_of(stage), beside(stage));
    }
    if (status == BERTH_OK) {
        status = check_settings(stage, object, error);
    }
    if (status == BERTH_OK) {
        status = load_entries(stage, object, error);
    }
    json_free(object);
    return status;
}

// Locks the manifest's folder, and removes half-written manifests from it.
static enum berth_status lock(struct stage *stage, struct berth_error *error) {
    char *folder = file_parent(stage->path);
    int others;
    if (folder == NULL) {
        return path_no_memory(error);
    }
    enum berth_status status = dir_make(folder, error);
    if (status == BERTH_OK) {
        status = file_lock_acquire(&stage->lock, folder, error);
    }
    if (status == BERTH_OK) {
        status = remove_temporary(stage, folder, path_name(stage->folder), &others, error);
    }
    memory_free(folder);
    return status;
}

// NULL when out of memory: an incomplete manifest would be trusted.
static json *to_json(const struct stage *stage) {
    json *object = json_new_object(), *settings = json_new_object();
    int failed = put_settings(settings, stage->settings);
    failed |= json_set(object, "format", json_new_integer(FORMAT));
    failed |= json_set(object, "complete", json_new_boolean(stage->complete));
    failed |= json_set(object, "settings", settings);
    failed |= json_set(object, "files", json_copy_deep(stage->files));
    return json_unless_failed(object, failed);
}

// --- the lists of other ranks --------------------------------------------------------------------

// A list has the name of the manifest and ".rank-3".
static const char list_mark[] = ".rank-";

static char *list_path(const struct stage *stage, int rank) {
    const size_t size = strlen(stage->path) + sizeof list_mark + NUMBER_TEXT_SIZE;
    char *path = memory_new(size);
    if (path != NULL) {
        number_format(path, size, "%s%s%d", stage->path, list_mark, rank);
    }
    return path;
}

static enum berth_status read_list(const struct stage *stage, const char *path, json **object,
                                   struct berth_error *error) {
    TRY(json_read_file(path, object, error));
    const json *files = json_member(*object, "files");
    TRY(json_is_object_value(files)
            ? BERTH_OK
            : error_set(error, BERTH_CONFIG, "%s: key \"files\": expected an object", path));
    TRY(check_settings(stage, *object, error));
    return check_files(files, path, error);
}

// `all`: an entry whose file is missing or has another size is an error; otherwise it is skipped.
static enum berth_status add_entries(struct stage *stage, const json *files, int all,
                                     struct berth_error *error) {
    struct json_walk walk = {.object = files};
    while (json_walk_next(&walk)) {
        const enum berth_status status =
            check_entry(stage->folder, walk.key, walk.value, all ? error : NULL);
        if (status != BERTH_OK && all) {
            return status;
        }
        if (status == BERTH_OK &&
            json_set(stage->files, walk.key, json_copy_deep(walk.value)) != 0) {
            return error_no_memory(error, 0, stage->path);
        }
    }
    return BERTH_OK;
}

// Adds the list of a rank of this run: every entry must be right, or the manifest would lack a
// file.
static enum berth_status absorb_all(struct stage *stage, const char *path,
                                    struct berth_error *error) {
    json *object = NULL;
    enum berth_status status = read_list(stage, path, &object, error);
    if (status == BERTH_OK) {
        status = add_entries(stage, json_member(object, "files"), 1, error);
    }
    json_free(object);
    return status;
}

// Adds the list of an earlier run, except entries whose files are missing or have another size. A
// list that is damaged or has other settings is ignored: its files are made again.
static enum berth_status absorb_whole(struct stage *stage, const char *path,
                                      struct berth_error *error) {
    json *object = NULL;
    enum berth_status status = BERTH_OK;
    if (read_list(stage, path, &object, NULL) == BERTH_OK) {
        status = add_entries(stage, json_member(object, "files"), 0, error);
    }
    json_free(object);
    return status;
}

typedef enum berth_status list_function(struct stage *stage, const char *path,
                                        struct berth_error *error);

// Calls `function` for each list beside the manifest, and counts the lists.
static enum berth_status each_list(struct stage *stage, size_t *count, list_function *function,
                                   struct berth_error *error) {
    const char *base = path_name(stage->path);
    const size_t length = strlen(base);
    char *folder = file_parent(stage->path), **names = NULL;
    enum berth_status status =
        folder != NULL ? dir_list(folder, &names, error) : path_no_memory(error);
    *count = 0;
    for (size_t i = 0; status == BERTH_OK && names[i] != NULL; i++) {
        if (strncmp(names[i], base, length) == 0 &&
            strncmp(names[i] + length, list_mark, strlen(list_mark)) == 0) {
            char *path = path_join(folder, names[i]);
            status = path != NULL ? function(stage, path, error) : path_no_memory(error);
            ++*count;
            memory_free(path);
        }
    }
    memory_free(names);
    memory_free(folder);
    return status;
}

static enum berth_status remove_list(struct stage *stage, const char *path,
                                     struct berth_error *error) {
    (void)stage;
    return file_remove(path, error);
}

// Saves the manifest before it removes the lists.
static enum berth_status absorb_lists(struct stage *stage, list_function *absorb,
                                      struct berth_error *error) {
    size_t count;
    TRY(each_list(stage, &count, absorb, error));
    if (count == 0) {
        return BERTH_OK;
    }
    TRY(stage_save(stage, error));
    return each_list(stage, &count, remove_list, error);
}

// --- opening ------------------------------------------------------------------------------------

static enum berth_status open_first(struct stage *stage, struct berth_error *error) {
    int others;
    stage->existing = dir_existing(stage->folder);
    TRY(dir_make(stage->folder, error));
    TRY(lock(stage, error));
    TRY(remove_temporary(stage, stage->folder, "", &others, error));
    if (file_exists(stage->path)) {
        TRY(load(stage, error));
        return absorb_lists(stage, absorb_whole, error);
    }
    if (others) {
        return error_set(error, BERTH_CANT_CREATE,
                         "%s: the folder has files but no %s that says how they were made; choose "
                         "another output",
                         stage->folder, path_name(stage->path));
    }
    stage->is_new = 1;
    return stage_save(stage, error);
}

// Copies the text of rank 0 to all ranks, newly allocated.
static enum berth_status broadcast_text(struct comm *comm, char **text, struct berth_error *error) {
    uint64_t size = *text != NULL ? strlen(*text) + 1 : 0;
    comm->broadcast(comm, &size, sizeof size, 0);
    enum berth_status status = comm->status(comm, error);
    if (status == BERTH_OK && comm->rank > 0) {
        *text = memory_new(size);
    }
    status =
        *text == NULL && status == BERTH_OK ? error_no_memory(error, size, "a manifest") : status;
    TRY(comm_settle(comm, status, error));
    comm->broadcast(comm, *text, size, 0);
    return comm->status(comm, error);
}

static enum berth_status compare_with_rank_0(const struct stage *stage, const json *object,
                                             struct berth_error *error) {
    const struct difference found = find_difference(stage->settings, object);
    return found.name == NULL
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s: %s is \"%s\" here and \"%s\" in rank 0: the input must be the "
                           "same on all hosts",
                           stage->folder, found.name, found.now, found.saved);
}

static enum berth_status copy_from_rank_0(struct stage *stage, const char *text,
                                          struct berth_error *error) {
    json *object = NULL;
    char *list = list_path(stage, stage->comm->rank);
    memory_free(stage->path);
    stage->path = list;
    TRY(list != NULL ? BERTH_OK : path_no_memory(error));
    TRY(json_read_memory("the manifest of rank 0", text, strlen(text), &object, error));
    enum berth_status status = compare_with_rank_0(stage, object, error);
    json_free(stage->files);
    stage->files = json_copy_deep(json_member(object, "files"));
    stage->complete = json_truth(json_member(object, "complete"));
    json_free(object);
    return status == BERTH_OK && stage->files == NULL ? error_no_memory(error, 0, list) : status;
}

static enum berth_status share_manifest(struct stage *stage, struct berth_error *error) {
    struct comm *comm = stage->comm;
    char *text = NULL;
    if (comm->rank == 0) {
        json *object = to_json(stage);
        text = object != NULL ? json_write(object, JSON_COMPACT_SORTED) : NULL;
        json_free(object);
    }
    enum berth_status status = broadcast_text(comm, &text, error);
    if (status == BERTH_OK) {
        status = comm_settle(comm, comm->rank > 0 ? copy_from_rank_0(stage, text, error) : BERTH_OK,
                             error);
    }
    memory_free(text);
    return status;
}

enum berth_status stage_open(struct stage *stage, const struct stage_location *location,
                             const struct stage_settings *settings, struct berth_error *error) {
    const size_t length = path_length(location->folder);
    *stage = (struct stage){.comm = location->comm,
                            .folder = memory_string_of(location->folder, length),
                            .path = memory_string(location->manifest),
                            .lock.descriptor = -1,
                            .settings = settings,
                            .existing = length, // until open_first has looked
                            .files = json_new_object()};
    enum berth_status status = BERTH_OK;
    if (stage->folder == NULL || stage->path == NULL || stage->files == NULL) {
        status = error_no_memory(error, length + strlen(location->manifest), location->folder);
    } else if (stage->comm->rank == 0) {
        status = open_first(stage, error);
    }
    TRY(comm_settle(stage->comm, status, error));
    return stage->comm->size > 1 ? share_manifest(stage, error) : BERTH_OK;
}

const json *stage_find(const struct stage *stage, const char *name) {
    return json_member(stage->files, name);
}

enum berth_status stage_put(struct stage *stage, const char *name, json *entry,
                            struct berth_error *error) {
    int failed = entry == NULL;
#pragma omp critical(stage_files)
    {
        failed = json_set(stage->files, name, entry) != 0 || failed;
        stage->put++;
    }
    return failed ? error_no_memory(error, strlen(name), stage->path) : BERTH_OK;
}

enum berth_status stage_save(struct stage *stage, struct berth_error *error) {
    enum berth_status status;
    if (stage->comm->rank == 0) {
        TRY(file_lock_check(&stage->lock, error));
    }
#pragma omp critical(stage_files)
    {
        json *object = to_json(stage);
        status = json_write_file(object, JSON_COMPACT_SORTED, stage->path, error);
        json_free(object);
        stage->unsaved = status == BERTH_OK ? 0 : stage->unsaved;
    }
    return status;
}

enum berth_status stage_save_some(struct stage *stage, struct berth_error *error) {
    enum { SAVE_FRACTION = 16 };
    int is_due;
#pragma omp critical(stage_files)
    {
        stage->unsaved++;
        is_due = stage->unsaved * SAVE_FRACTION >= json_length(stage->files);
    }
    return is_due || stage->comm->size > 1 ? stage_save(stage, error) : BERTH_OK;
}

// Checks that rank 0 sees the list of every rank that has one.
static enum berth_status check_lists(const struct stage *stage, const double *put,
                                     struct berth_error *error) {
    enum berth_status status = BERTH_OK;
    for (int rank = 1; rank < stage->comm->size && status == BERTH_OK; rank++) {
        char *path = list_path(stage, rank);
        if (path == NULL) {
            return path_no_memory(error);
        }
        if (put[rank] > 0 && !file_exists(path)) {
            status = error_set(error, BERTH_CANT_CREATE,
                               "%s: rank %d has written it, but rank 0 does not see it: the output "
                               "must be on a file system that all hosts share",
                               path, rank);
        }
        memory_free(path);
    }
    return status;
}

static enum berth_status gather(struct stage *stage, double *put, struct berth_error *error) {
    struct comm *comm = stage->comm;
    put[comm->rank] = (double)stage->put;
    stage->put = 0;
    comm->sum(comm, put, (size_t)comm->size);
    TRY(comm->status(comm, error));
    enum berth_status status = BERTH_OK;
    if (comm->rank == 0) {
        status = check_lists(stage, put, error);
        status = status == BERTH_OK ? absorb_lists(stage, absorb_all, error) : status;
    }
    return comm_settle(comm, status, error);
}

enum berth_status stage_gather(struct stage *stage, struct berth_error *error) {
    struct comm *comm = stage->comm;
    if (comm->size == 1) {
        return BERTH_OK;
    }
    const size_t size = (size_t)comm->size;
    double *put = memory_array_zeroed(size, sizeof *put);
    enum berth_status status =
        put != NULL ? BERTH_OK : error_no_memory(error, size * sizeof *put, "counts");
    status = comm_settle(comm, status, error);
    if (status == BERTH_OK) {
        status = gather(stage, put, error);
    }
    memory_free(put);
    return status;
}

enum berth_status stage_finish(struct stage *stage, struct berth_error *error) {
    TRY(stage_gather(stage, error));
    stage->complete = 1;
    return comm_settle(stage->comm, stage->comm->rank == 0 ? stage_save(stage, error) : BERTH_OK,
                       error);
}

static int has_entries(const struct stage *stage) {
    struct json_walk walk = {.object = stage->files};
    return stage->complete || json_walk_next(&walk);
}

// The manifest stays if there are files without an entry: without it the next run would refuse the
// folder.
static void remove_manifest(const struct stage *stage) {
    int others;
    if (stage->is_new && file_lock_check(&stage->lock, NULL) == BERTH_OK &&
        remove_temporary(stage, stage->folder, "", &others, NULL) == BERTH_OK && !others) {
        (void)file_remove(stage->path, NULL);
    }
}

// All ranks have synchronised since they last wrote.
void stage_close(struct stage *stage) {
    const int owns = stage->folder != NULL && stage->comm->rank == 0;
    if (owns && stage->unsaved > 0) {
        (void)stage_save(stage, NULL); // if it fails, these files are made again
    }
    if (owns && stage->comm->size > 1 && stage->lock.descriptor >= 0) {
        (void)absorb_lists(stage, absorb_whole, NULL); // if it fails, the next run does it
    }
    const int leaves_nothing = owns && !has_entries(stage);
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

// Checks that all files of a manifest are in its folder.
static enum berth_status check_entries(const char *manifest, const json *files, const char *remedy,
                                       struct berth_error *error) {
    struct json_walk walk = {.object = files};
    struct berth_error own = {.message = ""};
    enum berth_status status = BERTH_OK;
    char *folder = file_parent(manifest);
    if (folder == NULL) {
        return path_no_memory(error);
    }
    while (status == BERTH_OK && json_is_object_value(files) && json_walk_next(&walk)) {
        status = check_entry(folder, walk.key, walk.value, &own);
    }
    memory_free(folder);
    return status == BERTH_OK ? BERTH_OK : error_set(error, status, "%s: %s", own.message, remedy);
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
    if (status == BERTH_OK) {
        status = check_entries(manifest, json_member(*value, "files"), remedy, error);
    }
    if (status != BERTH_OK) {
        json_free(*value);
        *value = NULL;
    }
    return status;
}
