// SPDX-License-Identifier: Apache-2.0
// In place of modules.c in a program that cannot open a library at run time, such as the static
// one. BERTH_CONFIG rather than BERTH_UNAVAILABLE: nothing on this machine would help.
#include "core/modules.h"

int module_exists(const char *kind, const char *name) {
    return 0;
}

enum berth_status module_open(const struct module_request *request, const void **object,
                              struct berth_error *error) {
    *object = NULL;
    return error_set(error, BERTH_CONFIG,
                     "berth-%s-%s.so is needed, but this program is linked statically and opens no "
                     "modules: use a Berth that is installed with them (doc/install.md)",
                     request->kind, request->name);
}

enum berth_status module_check(const struct module_request *request, const char *version,
                               size_t found_size, size_t size, struct berth_error *error) {
    return BERTH_OK; // none was opened
}
