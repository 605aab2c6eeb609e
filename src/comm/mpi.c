// SPDX-License-Identifier: Apache-2.0
// Loads communication modules. They are looked for in the folders of BERTH_MODULE_PATH, beside the
// program or the library that this code is part of (a build folder), and where they are installed.
#include "comm/mpi.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VERSION_LIMIT 8192 // of any MPI (MPI_MAX_LIBRARY_VERSION_STRING)
#define FOLDERS_SIZE 2048  // of the list in a message
#define MODULE_PATH_VARIABLE "BERTH_MODULE_PATH"

const char *const mpi_modules[] = {"openmpi", "mpich", NULL};

// From the folder of the program, and from that of the library; CMake says where the installed
// modules are.
#ifndef BERTH_MODULES_FROM_PROGRAM
#define BERTH_MODULES_FROM_PROGRAM "../lib/berth"
#endif
#define BERTH_MODULES_FROM_LIBRARY "berth"
static const char *const places[] = {"", BERTH_MODULES_FROM_PROGRAM, BERTH_MODULES_FROM_LIBRARY};

// --- where modules are --------------------------------------------------------------------------

// The folder of the file that holds this code; "" when it is not known.
static void own_folder(char folder[PATH_MAX]) {
    Dl_info info;
    struct link_map *map = NULL;
    char path[PATH_MAX];
    folder[0] = '\0';
    if (dladdr1(mpi_modules, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL) {
        return;
    }
    // The program's name in the map is empty, and what dladdr says instead is what it was called.
    snprintf(path, sizeof path, "%s", map->l_name[0] != '\0' ? map->l_name : "/proc/self/exe");
    if (realpath(path, folder) == NULL) {
        folder[0] = '\0';
        return;
    }
    *strrchr(folder, '/') = '\0';
}

struct search {
    const char *name;
    char path[PATH_MAX];        // of the module that was found
    char folders[FOLDERS_SIZE]; // that were looked in
    size_t used;                // of `folders`
};

static int is_in(struct search *search, const char *folder) {
    int length =
        snprintf(search->path, sizeof search->path, "%s/berth-comm-%s.so", folder, search->name);
    const size_t room = sizeof search->folders - search->used;
    int listed = snprintf(search->folders + search->used, room, "%s%s",
                          search->used > 0 ? ", " : "", folder);
    search->used += listed < (int)room ? (size_t)listed : room - 1;
    return length < (int)sizeof search->path && access(search->path, R_OK) == 0;
}

static int is_named(struct search *search) {
    const char *list = secure_getenv(MODULE_PATH_VARIABLE);
    char folder[PATH_MAX];
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ":");
        snprintf(folder, sizeof folder, "%.*s", (int)length, list);
        if (length > 0 && is_in(search, folder)) {
            return 1;
        }
        list += length + (list[length] == ':');
    }
    return 0;
}

static int find(struct search *search) {
    char own[PATH_MAX], folder[PATH_MAX + sizeof BERTH_MODULES_FROM_PROGRAM];
    if (is_named(search)) {
        return 1;
    }
    own_folder(own);
    for (size_t i = 0; own[0] != '\0' && i < sizeof places / sizeof *places; i++) {
        snprintf(folder, sizeof folder, "%s%s%s", own, places[i][0] != '\0' ? "/" : "", places[i]);
        if (is_in(search, folder)) {
            return 1;
        }
    }
    return 0;
}

// --- loading ------------------------------------------------------------------------------------

// Modules are never unloaded: an MPI leaves handlers and threads in the process.
static enum berth_status load(const char *name, int visibility, const struct comm_module **module,
                              struct berth_error *error) {
    struct search search = {.name = name};
    if (!find(&search)) {
        return error_set(error, BERTH_UNAVAILABLE,
                         "no berth-comm-%s.so in %s: build Berth where mpicc of that MPI is in the "
                         "path, or name the module's folder in " MODULE_PATH_VARIABLE,
                         name, search.folders);
    }
    void *handle = dlopen(search.path, RTLD_NOW | visibility);
    *module = handle != NULL ? dlsym(handle, COMM_MODULE_SYMBOL) : NULL;
    if (*module == NULL) {
        return error_set(error, BERTH_UNAVAILABLE,
                         "%s does not open: %s; install the MPI that it was built with, or build "
                         "Berth again with the one that is there",
                         search.path, dlerror());
    }
    if (strcmp((*module)->berth, BERTH_VERSION) != 0 ||
        (*module)->transport_size != sizeof(struct transport)) {
        return error_set(error, BERTH_UNAVAILABLE,
                         "%s belongs to another build of Berth (%s, this is %s): install both "
                         "together",
                         search.path, (*module)->berth, BERTH_VERSION);
    }
    return BERTH_OK;
}

int mpi_module_version(const char *name, char text[COMM_VERSION_SIZE]) {
    const struct comm_module *module;
    if (load(name, RTLD_LOCAL, &module, NULL) != BERTH_OK) { // local: two MPIs share names
        return 0;
    }
    module->version(text);
    return 1;
}

const char *mpi_of_program(int *initialized) {
    int (*get_version)(char *, int *), (*is_initialized)(int *);
    *(void **)&get_version = dlsym(RTLD_DEFAULT, "MPI_Get_library_version");
    *(void **)&is_initialized = dlsym(RTLD_DEFAULT, "MPI_Initialized");
    *initialized = 0;
    if (get_version == NULL || is_initialized == NULL) {
        return NULL;
    }
    char text[VERSION_LIMIT];
    int length;
    get_version(text, &length);
    is_initialized(initialized);
    return strncmp(text, "Open MPI", strlen("Open MPI")) == 0 ? "openmpi" : "mpich";
}

// --- opening ------------------------------------------------------------------------------------

// A launcher that does not work with this MPI leaves each process alone. Without a variable for
// their number, the launch counts the processes up to this one.
static enum berth_status check_size(const struct transport *transport, const struct launch *launch,
                                    struct berth_error *error) {
    const struct launcher *launcher = launch->launcher;
    if (launcher == NULL || launch->size == transport->size ||
        (launcher->size == NULL && launch->size < transport->size)) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG,
                     "%s connects %d of the %s%" PRId64
                     " processes that %s started (%s is %s): the "
                     "launcher does not work with this MPI; use the mpirun of this MPI, or name "
                     "another MPI with --comm",
                     transport->version, transport->size, launcher->size == NULL ? "at least " : "",
                     launch->size, launcher->name, launch->variable, getenv(launch->variable));
}

enum berth_status mpi_transport_open(const char *name, const struct launch *launch,
                                     struct transport **transport, struct berth_error *error) {
    const struct comm_module *module;
    // Global: Open MPI's own components need the names of its library.
    TRY(load(name, RTLD_GLOBAL, &module, error));
    TRY(module->open(transport, error));
    enum berth_status status = check_size(*transport, launch, error);
    if (status != BERTH_OK) {
        (*transport)->close(*transport, (*transport)->size > 1 ? TRANSPORT_FAILED : TRANSPORT_DONE);
        *transport = NULL;
    }
    return status;
}
