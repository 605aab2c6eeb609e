// SPDX-License-Identifier: Apache-2.0
// Modules: parts of Berth that need a library which not every machine has (an MPI, a GPU's). Each
// is a shared library berth-KIND-NAME.so, opened at run time. The search path is BERTH_MODULE_PATH,
// then the folder of the program or library that contains this code (a build folder), then the
// installed folders.
#ifndef BERTH_CORE_MODULES_H
#define BERTH_CORE_MODULES_H

#include "core/error.h"

#define MODULE_PATH_VARIABLE "BERTH_MODULE_PATH"

struct module_request {
    const char *kind, *name; // "comm", "openmpi"
    const char *symbol;      // the object that the module offers
    int is_global;           // 1: load its symbols globally (RTLD_GLOBAL)
    const char *if_missing;  // remedy if there is no such file
    const char *if_broken;   // remedy if it cannot be loaded
};

// Whether the module's file exists.
int module_exists(const char *kind, const char *name);

// *object = the module's object. Modules are never unloaded: libraries leave handlers and threads
// in the process. BERTH_UNAVAILABLE: there is no such module, or it cannot be loaded.
enum berth_status module_open(const struct module_request *request, const void **object,
                              struct berth_error *error);

// BERTH_UNAVAILABLE unless the module was built with this library: the same version, and the same
// size of the struct that both use.
enum berth_status module_check(const struct module_request *request, const char *version,
                               size_t found_size, size_t size, struct berth_error *error);

#endif
