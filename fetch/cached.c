// SPDX-License-Identifier: Apache-2.0
// What the caches of `berth fetch` hold: lists it. Leaves out whether it is complete, which whoever
// opens it checks. Called by `berth fetch --list` (cli/fetch.c).
#include "core/memory.h"
#include "fetch/fetch.h"
#include "format/hub/hub_cache.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct listing {
    fetch_see *see;
    void *context;
    int64_t bytes; // of the repository that is being counted
};

static enum berth_status add_size(const char *path, void *context, struct berth_error *error) {
    struct listing *listing = context;
    struct stat info;
    if (lstat(path, &info) != 0) {
        return errno == ENOENT ? BERTH_OK // a download that ends meanwhile
                               : error_set_errno(error, BERTH_IO, errno, "cannot examine %s", path);
    }
    listing->bytes += S_ISREG(info.st_mode) ? (int64_t)info.st_size : 0;
    return BERTH_OK;
}

// "models--ORG--NAME" becomes "model" and "ORG/NAME"; other folders of a cache are not shown.
static int read_name(const char *folder, struct fetch_cached *found, char name[FETCH_NAME_SIZE]) {
    static const char *const kinds[][2] = {
        {"models--", "model"}, {"datasets--", "data set"}, {"urls--", "URL"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t length = strlen(kinds[i][0]);
        if (strncmp(folder, kinds[i][0], length) == 0) {
            found->kind = kinds[i][1];
            snprintf(name, FETCH_NAME_SIZE, "%s", folder + length);
            char *between = i < 2 ? strstr(name, "--") : NULL;
            if (between != NULL) {
                *between = '/';
                memmove(between + 1, between + 2, strlen(between + 2) + 1);
            }
            found->name = name;
            return 1;
        }
    }
    return 0;
}

static enum berth_status see_folder(const char *path, void *context, struct berth_error *error) {
    struct listing *listing = context;
    struct fetch_cached found = {.path = path};
    char name[FETCH_NAME_SIZE];
    if (!dir_exists(path) || !read_name(path_name(path), &found, name)) {
        return BERTH_OK;
    }
    const struct path blobs = path_in(path, "blobs");
    listing->bytes = 0;
    TRY(dir_exists(blobs.text) ? dir_each(blobs.text, add_size, listing, error) : BERTH_OK);
    found.bytes = listing->bytes;
    return listing->see(&found, listing->context, error);
}

enum berth_status fetch_list(const char *cache_dir, fetch_see *see, void *context,
                             struct berth_error *error) {
    struct listing listing = {.see = see, .context = context};
    OWNED char *root = cache_dir != NULL ? memory_string(cache_dir) : hub_cache_root();
    if (root == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    TRY(dir_exists(root) ? dir_each(root, see_folder, &listing, error) : BERTH_OK);
    const struct path assets = hub_assets_root();
    return cache_dir == NULL && dir_exists(assets.text)
               ? dir_each(assets.text, see_folder, &listing, error)
               : BERTH_OK;
}
