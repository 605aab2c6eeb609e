// SPDX-License-Identifier: Apache-2.0
// Compares the limit of open files with what the connections to other processes will take, before
// an MPI is opened (open.c). It knows only what the launcher says: how many processes there are, on
// this host and in all. Which of them then talk to each other is in topology.c and collectives.c.
#include "comm/connections.h"

#include "core/file.h"
#include "core/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <unistd.h>

// Open files of an MPI besides its connections, and of a job: data, a checkpoint, logs.
enum { MPI_FILES = 24, JOB_FILES = 16 };

static int64_t log2_above(int64_t number) {
    int64_t log = 0;
    while (((int64_t)1 << log) < number) {
        log++;
    }
    return log;
}

int64_t connections_of(int64_t size, int64_t local_size) {
    const int64_t local = local_size > 0 ? local_size : 1;
    const int64_t hosts = (size + local - 1) / local;
    const int64_t partners = hosts - 1 + 2 * log2_above(size) + 2;
    return partners < size - local ? partners : size - local;
}

static int64_t open_files(void) {
    char **names;
    int64_t count = 0;
    if (dir_list("/proc/self/fd", &names, NULL) != BERTH_OK) {
        return 0;
    }
    while (names[count] != NULL) {
        count++;
    }
    memory_free(names);
    return count;
}

static int is_enough(int64_t needed) {
    return (uint64_t)needed <= (uint64_t)file_limit();
}

enum berth_status connections_reserve(const struct launch *launch, struct berth_error *error) {
    const int64_t connections = connections_of(launch->size, launch->local_size);
    const int64_t needed = open_files() + MPI_FILES + JOB_FILES + connections;
    if (!is_enough(needed)) {
        file_limit_raise();
    }
    if (is_enough(needed)) {
        return BERTH_OK;
    }
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof host - 1);
    return error_set(
        error, BERTH_UNAVAILABLE,
        "rank %" PRId64 " on host %s: one of %" PRId64 " processes needs about %" PRId64
        " open files, %" PRId64
        " of them connections to processes of other hosts, but may have %zu: raise the "
        "hard limit of open files (ulimit -Hn) to that number, on every host and in "
        "the shell or service that the launcher starts processes from",
        launch->rank, host, launch->size, needed, connections, file_limit());
}
