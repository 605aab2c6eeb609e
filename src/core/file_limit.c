// SPDX-License-Identifier: Apache-2.0
// The number of files that the process may have open. Writers of many shards and the server raise
// it to what the system allows, and stay below it.
#include "core/file.h"

#include <sys/resource.h>

size_t file_limit(void) {
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < SIZE_MAX
               ? (size_t)limit.rlim_cur
               : SIZE_MAX;
}

void file_limit_raise(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}
