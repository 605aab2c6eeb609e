// SPDX-License-Identifier: Apache-2.0
// Names of statuses, the version, and the release of strings that functions of berth.h returned:
// what a caller needs besides jobs and models. Errors themselves are made where something fails
// (core/error.h).
#include "api/jobs.h"
#include "core/memory.h"

const char *berth_status_name(enum berth_status status) {
    switch (status) {
    case BERTH_OK:
        return "ok";
    case BERTH_FAILURE:
        return "the run failed";
    case BERTH_USAGE:
        return "wrong usage";
    case BERTH_BAD_DATA:
        return "bad data";
    case BERTH_NO_INPUT:
        return "input is missing";
    case BERTH_UNAVAILABLE:
        return "not available";
    case BERTH_INTERNAL:
        return "internal error";
    case BERTH_NO_MEMORY:
        return "out of memory";
    case BERTH_CANT_CREATE:
        return "cannot create output";
    case BERTH_IO:
        return "I/O error";
    case BERTH_INTERRUPTED:
        return "interrupted";
    case BERTH_CONFIG:
        return "bad configuration";
    }
    return "unknown status";
}

const char *berth_version(void) {
    return BERTH_VERSION;
}

void berth_string_free(char *text) {
    memory_free(text);
}
