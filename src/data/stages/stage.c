// SPDX-License-Identifier: Apache-2.0
// The manifest of a stage while it runs: opens and locks the folder, loads the entries that an
// earlier run finished, adds new ones, merges the lists of other ranks, and marks the stage
// complete. The three stages call it around their work (stage_work.h); the form of the file is
// format/manifest's.
#include "data/stages/stage.h"

#include "core/memory.h"
#include "core/number.h"
#include "core/utf8.h"
#include "data/stages/stage_work.h"

#include <inttypes.h>
#include <string.h>

// What to do about a manifest of other settings, or that is damaged; newly allocated. A manifest
// beside the folder has to go, too.
static char *new_remedy(const char *folder, const char *manifest) {
    static const char format[] = "choose another output, or remove the folder %s%s%s";
    const size_t length = strlen(folder);
    const int is_inside = strncmp(manifest, folder, length) == 0 && manifest[length] == '/';
    const size_t size = sizeof format + strlen(" and ") + length + strlen(manifest);
    char *remedy = memory_new(size);
    if (remedy != NULL) {
        number_format(remedy, size, format, folder, is_inside ? "" : " and ",
                      is_inside ? "" : manifest);
    }
    return remedy;
}

static enum berth_status check_settings(const struct stage *stage, const json *manifest,
                                        struct berth_error *error) {
    return manifest_compare(stage->path.text, manifest, stage->settings, stage->remedy, error);
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
            status = file_remove(path_in(folder, names[i]).text, error);
        } else {
            *others |= names[i][0] != '.' && strcmp(names[i], path_name(stage->path.text)) != 0;
        }
    }
    memory_free(names);
    return status;
}

// --- the manifest -------------------------------------------------------------------------------

// Drops entries whose file is missing or has another size.
static enum berth_status load_entries(struct stage *stage, const json *manifest,
                                      struct berth_error *error) {
    struct json_walk walk = {.object = manifest_files(manifest)};
    int failed = 0;
    stage->complete = manifest_is_complete(manifest);
    while (json_walk_next(&walk)) {
        struct berth_error own = {0};
        const enum berth_status status =
            manifest_check_file(stage->folder, walk.key, walk.value, &own);
        TRY(file_probe(status, &own, error));
        if (status == BERTH_OK) {
            failed |= json_set(stage->files, walk.key, json_copy_deep(walk.value));
        } else {
            stage->complete = 0;
        }
    }
    return failed ? error_no_memory(error, 0, stage->path.text) : BERTH_OK;
}

// Locks the manifest's folder, and removes half-written manifests from it.
static enum berth_status lock(struct stage *stage, struct berth_error *error) {
    const struct path folder = path_parent(stage->path.text);
    int others;
    TRY(dir_make(folder.text, error));
    TRY(file_lock_acquire(&stage->lock, folder.text, error));
    return remove_temporary(stage, folder.text, path_name(stage->folder), &others, error);
}

static json *to_json(const struct stage *stage) {
    return manifest_new(stage->settings, stage->complete, json_copy_deep(stage->files));
}

// --- the lists of other ranks --------------------------------------------------------------------

// A list has the name of the manifest and ".rank-3".
static const char list_mark[] = ".rank-";

static struct path list_path(const struct stage *stage, int rank) {
    return path_format("%s%s%d", stage->path.text, list_mark, rank);
}

static enum berth_status read_list(const struct stage *stage, const char *path, json **list,
                                   struct berth_error *error) {
    TRY(manifest_read(path, stage->remedy, list, error));
    return check_settings(stage, *list, error);
}

// `all`: an entry whose file is missing or has another size is an error; otherwise it is skipped.
static enum berth_status add_entries(struct stage *stage, const json *files, int all,
                                     struct berth_error *error) {
    struct json_walk walk = {.object = files};
    while (json_walk_next(&walk)) {
        const enum berth_status status =
            manifest_check_file(stage->folder, walk.key, walk.value, all ? error : NULL);
        if (status != BERTH_OK && all) {
            return status;
        }
        if (status == BERTH_OK &&
            json_set(stage->files, walk.key, json_copy_deep(walk.value)) != 0) {
            return error_no_memory(error, 0, stage->path.text);
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
        status = add_entries(stage, manifest_files(object), 1, error);
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
        status = add_entries(stage, manifest_files(object), 0, error);
    }
    json_free(object);
    return status;
}

typedef enum berth_status list_function(struct stage *stage, const char *path,
                                        struct berth_error *error);

// Calls `function` for each list beside the manifest, and counts the lists.
static enum berth_status each_list(struct stage *stage, size_t *count, list_function *function,
                                   struct berth_error *error) {
    const char *base = path_name(stage->path.text);
    const size_t length = strlen(base);
    const struct path folder = path_parent(stage->path.text);
    char **names = NULL;
    enum berth_status status = dir_list(folder.text, &names, error);
    *count = 0;
    for (size_t i = 0; status == BERTH_OK && names[i] != NULL; i++) {
        if (strncmp(names[i], base, length) == 0 &&
            strncmp(names[i] + length, list_mark, strlen(list_mark)) == 0) {
            status = function(stage, path_in(folder.text, names[i]).text, error);
            ++*count;
        }
    }
    memory_free(names);
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
    if (file_exists(stage->path.text)) {
        json *manifest;
        TRY(manifest_read(stage->path.text, stage->remedy, &manifest, error));
        enum berth_status status = check_settings(stage, manifest, error);
        if (status == BERTH_OK) {
            status = load_entries(stage, manifest, error);
        }
        json_free(manifest);
        TRY(status);
        return absorb_lists(stage, absorb_whole, error);
    }
    if (others) {
        return error_set(error, BERTH_CANT_CREATE,
                         "%s: the folder has files but no %s that says how they were made; choose "
                         "another output",
                         stage->folder, path_name(stage->path.text));
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

static enum berth_status copy_from_rank_0(struct stage *stage, const char *text,
                                          struct berth_error *error) {
    json *object = NULL;
    stage->path = list_path(stage, stage->comm->rank);
    TRY(json_read_memory("the manifest of rank 0", text, strlen(text), &object, error));
    const struct manifest_difference found = manifest_differ(object, stage->settings);
    enum berth_status status =
        found.name == NULL
            ? BERTH_OK
            : error_set(error, BERTH_CONFIG,
                        "%s: %s is \"%s\" here and \"%s\" in rank 0: the input must be the "
                        "same on all hosts",
                        stage->folder, found.name, found.now, found.saved);
    json_free(stage->files);
    stage->files = json_copy_deep(manifest_files(object));
    stage->complete = manifest_is_complete(object);
    json_free(object);
    return status == BERTH_OK && stage->files == NULL ? error_no_memory(error, 0, stage->path.text)
                                                      : status;
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
                             const struct manifest_settings *settings, struct berth_error *error) {
    const size_t length = path_length(location->folder);
    *stage = (struct stage){.comm = location->comm,
                            .folder = memory_string_of(location->folder, length),
                            .path = path_format("%s", location->manifest),
                            .lock.descriptor = -1,
                            .settings = settings,
                            .existing = length, // until open_first has looked
                            .files = json_new_object()};
    if (stage->folder != NULL) {
        stage->remedy = new_remedy(stage->folder, location->manifest);
    }
    enum berth_status status = BERTH_OK;
    if (stage->remedy == NULL || stage->files == NULL) {
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
    return failed ? error_no_memory(error, strlen(name), stage->path.text) : BERTH_OK;
}

enum berth_status stage_save(struct stage *stage, struct berth_error *error) {
    enum berth_status status;
    if (stage->comm->rank == 0) {
        TRY(file_lock_check(&stage->lock, error));
    }
#pragma omp critical(stage_files)
    {
        status = manifest_write(stage->path.text, to_json(stage), error);
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
        const struct path path = list_path(stage, rank);
        if (put[rank] > 0 && !file_exists(path.text)) {
            status = error_set(error, BERTH_CANT_CREATE,
                               "%s: rank %d has written it, but rank 0 does not see it: the output "
                               "must be on a file system that all hosts share",
                               path.text, rank);
        }
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
        (void)file_remove(stage->path.text, NULL);
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
    memory_free(stage->remedy);
    json_free(stage->files);
    *stage = (struct stage){.lock.descriptor = -1};
}
