// SPDX-License-Identifier: Apache-2.0
// Finds a module's file in the folders where it may be, opens it with dlopen, and checks that it
// was built with this program. Errors name the folders that were searched and the remedy.
// Communicators and GPUs are loaded through it (comm/mpi.c, device/gpu/open.c).
#include "core/modules.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDERS_SIZE 2048 // of the list in a message

// Folders of modules, relative to the folder of the file that holds this code. CMake may override
// the one for an installed program.
#ifndef BERTH_MODULES_FROM_PROGRAM
#define BERTH_MODULES_FROM_PROGRAM "../lib/berth"
#endif
#define BERTH_MODULES_FROM_LIBRARY "berth"
static const char *const relative_folders[] = {"", BERTH_MODULES_FROM_PROGRAM,
                                               BERTH_MODULES_FROM_LIBRARY};

// --- finding modules ----------------------------------------------------------------------------

// The folder of the file that holds this code, perhaps "/"; "" when it is not known.
static void own_folder(char folder[PATH_MAX]) {
    Dl_info info;
    struct link_map *map = NULL;
    char path[PATH_MAX];
    folder[0] = '\0';
    if (dladdr1(relative_folders, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL) {
        return;
    }
    // The program has an empty name in the map, and dladdr would return argv[0].
    snprintf(path, sizeof path, "%s", map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe");
    if (realpath(path, folder) == NULL) {
        folder[0] = '\0';
        return;
    }
    char *slash = strrchr(folder, '/');
    slash[slash == folder] = '\0';
}

struct search {
    const struct module_request *request;
    char path[PATH_MAX];        // of the module that was found
    char folders[FOLDERS_SIZE]; // searched so far, for the message
    size_t used;                // of `folders`
};

static int is_in_folder(struct search *search, const char *folder) {
    int length = snprintf(search->path, sizeof search->path, "%s/berth-%s-%s.so", folder,
                          search->request->kind, search->request->name);
    const size_t room = sizeof search->folders - search->used;
    int listed = snprintf(search->folders + search->used, room, "%s%s",
                          search->used > 0 ? ", " : "", folder);
    search->used += listed < (int)room ? (size_t)listed : room - 1;
    return length < (int)sizeof search->path && access(search->path, R_OK) == 0;
}

static int find_module(struct search *search) {
    char own[PATH_MAX], folder[PATH_MAX + sizeof BERTH_MODULES_FROM_PROGRAM];
    const char *list = secure_getenv(MODULE_PATH_VARIABLE);
    char entry[PATH_MAX];
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ":");
        snprintf(entry, sizeof entry, "%.*s", (int)length, list);
        if (length > 0 && is_in_folder(search, entry)) {
            return 1;
        }
        list += length + (list[length] == ':');
    }
    own_folder(own);
    for (size_t i = 0; own[0] != '\0' && i < sizeof relative_folders / sizeof *relative_folders;
         i++) {
        snprintf(folder, sizeof folder, "%s%s%s", own, relative_folders[i][0] != '\0' ? "/" : "",
                 relative_folders[i]);
        if (is_in_folder(search, folder)) {
            return 1;
        }
    }
    return 0;
}

// --- loading ------------------------------------------------------------------------------------

int module_exists(const char *kind, const char *name) {
    const struct module_request request = {.kind = kind, .name = name};
    struct search search = {.request = &request};
    return find_module(&search);
}

enum berth_status module_open(const struct module_request *request, const void **object,
                              struct berth_error *error) {
    struct search search = {.request = request};
    if (!find_module(&search)) {
        return error_set(error, BERTH_UNAVAILABLE, "no berth-%s-%s.so in %s: %s", request->kind,
                         request->name, search.folders, request->if_missing);
    }
    void *handle = dlopen(search.path, RTLD_NOW | (request->is_global ? RTLD_GLOBAL : RTLD_LOCAL));
    *object = handle != NULL ? dlsym(handle, request->symbol) : NULL;
    if (*object == NULL) {
        return error_set(error, BERTH_UNAVAILABLE, "cannot open %s: %s; %s", search.path, dlerror(),
                         request->if_broken);
    }
    return BERTH_OK;
}

enum berth_status module_check(const struct module_request *request, const char *version,
                               size_t found_size, size_t size, struct berth_error *error) {
    return strcmp(version, BERTH_VERSION) == 0 && found_size == size
               ? BERTH_OK
               : error_set(error, BERTH_UNAVAILABLE,
                           "berth-%s-%s.so is from another build of Berth (%s; this is %s): "
                           "install both together",
                           request->kind, request->name, version, BERTH_VERSION);
}
