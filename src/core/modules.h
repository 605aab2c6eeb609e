// SPDX-License-Identifier: Apache-2.0
// Modules: parts of Berth that need a library which not every machine has (an MPI, a GPU's), built
// as libraries berth-KIND-NAME.so of their own and opened at run time. They are looked for in the
// folders of BERTH_MODULE_PATH, beside the program or the library that this code is part of (a
// build folder), and where they are installed.
#ifndef BERTH_CORE_MODULES_H
#define BERTH_CORE_MODULES_H

#include "core/error.h"

#define MODULE_PATH_VARIABLE "BERTH_MODULE_PATH"

struct module_request {
    const char *kind, *name; // "comm", "openmpi"
    const char *symbol;      // the object that the module offers
    int is_global;           // 1: its libraries' names are for all that is loaded later
    const char *if_missing;  // what to do when there is no such file,
    const char *if_broken;   // and when it does not open
};

// Whether there is a file of that module.
int module_exists(const char *kind, const char *name);

// *object = the module's object. Modules are never unloaded: libraries leave handlers and threads
// in the process. BERTH_UNAVAILABLE: no such module, or it does not open.
enum berth_status module_open(const struct module_request *request, const void **object,
                              struct berth_error *error);

// BERTH_UNAVAILABLE unless the module was built with this library: the same version, and the same
// size of the struct that both use.
enum berth_status module_check(const struct module_request *request, const char *version,
                               size_t found_size, size_t size, struct berth_error *error);

#endif
