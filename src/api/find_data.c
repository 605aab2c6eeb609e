// SPDX-License-Identifier: Apache-2.0
// Data sets by name: the files that `berth fetch` has put into the hub's cache.
#include "api/arguments.h"
#include "core/file.h"
#include "core/memory.h"
#include "format/hub/hub_cache.h"
#include "format/hub/known_set.h"

#include <string.h>

static enum berth_status no_memory(struct berth_error *error) {
    return error_no_memory(error, 0, "a data set's path");
}

static enum berth_status find_known_file(const struct known_set *known, const char *file,
                                         char **path, struct berth_error *error) {
    struct hub_snapshot snapshot = {.folder = NULL};
    char *root = hub_assets_root();
    enum berth_status status = root == NULL ? no_memory(error)
                                            : hub_snapshot_find(root, "dataset", known->names[0],
                                                                HUB_MAIN, &snapshot, error);
    if (status == BERTH_OK && snapshot.folder == NULL) {
        status = error_set(error, BERTH_NO_INPUT,
                           "%s: no such file, and the data set is not in the cache %s; `berth "
                           "fetch %s` downloads it",
                           known->names[0], root, known->names[0]);
    } else if (status == BERTH_OK) {
        *path = path_join(snapshot.folder, file);
        status = *path != NULL ? BERTH_OK : no_memory(error);
    }
    hub_snapshot_done(&snapshot);
    memory_free(root);
    return status;
}

enum berth_status berth_find_data(const char *name, const char *split, char **path,
                                  struct berth_error *error) {
    REQUIRE(path, error);
    *path = NULL;
    REQUIRE(name, error);
    REQUIRE(split, error);
    const int is_dev = strcmp(split, "dev") == 0;
    if (!is_dev && strcmp(split, "train") != 0) {
        return error_set(error, BERTH_USAGE, "split: expected train or dev, found \"%s\"", split);
    }
    const struct known_set *known = known_set_find(name);
    if (known != NULL && !file_exists(name)) {
        return find_known_file(known, known->files[is_dev].name, path, error);
    }
    *path = memory_string(name);
    return *path != NULL ? BERTH_OK : no_memory(error);
}
