// SPDX-License-Identifier: Apache-2.0
// Members of requests that the server does not know. As the servers of these APIs do, it ignores
// them, because clients send what other servers read; it notes each name once. Or it refuses them.
#ifndef BERTH_SERVE_UNKNOWN_H
#define BERTH_SERVE_UNKNOWN_H

#include "core/error.h"

#include <stddef.h>

enum {
    UNKNOWN_NAMES = 64,    // that are noted: clients choose the names
    UNKNOWN_NAME_SIZE = 61 // of a name with its NUL; the rest of a longer one is left out
};

// For one thread. Zero-initialise all but the settings.
struct unknown_members {
    struct berth_log log;
    int are_refused;
    char names[UNKNOWN_NAMES][UNKNOWN_NAME_SIZE]; // [count] noted
    size_t count;
};

// A member `key` of a request to `path`. `parent` is what it is a member of, with a point at its
// end, or "". BERTH_USAGE: such members are refused.
enum berth_status unknown_member(struct unknown_members *unknown, const char *path,
                                 const char *parent, const char *key, struct berth_error *error);

#endif
