// SPDX-License-Identifier: Apache-2.0
// Looks up the rack of this host before a communicator is opened (open.c). Every host reads the
// file itself; that it is the same one everywhere is not checked, because only the racks' names
// matter.
#include "comm/rack_file.h"

#include "core/file.h"
#include "core/memory.h"

#include <stdio.h>
#include <string.h>

#define FILE_LIMIT ((size_t)64 << 20)

// If only one of the two names has a domain, it does not count.
static int is_host(const char *name, const char *host) {
    const size_t first = strcspn(name, "."), host_first = strcspn(host, ".");
    const int is_same = first == host_first && strncmp(name, host, first) == 0;
    return is_same && (strcmp(name, host) == 0 || (name[first] == '\0') != (host[first] == '\0'));
}

// Reads a line, which it shortens by its comment; *rack is filled if it is the host's.
static enum berth_status read_line(const char *path, int number, char *line, const char *host,
                                   char rack[RACK_NAME], struct berth_error *error) {
    char name[256], of[RACK_NAME + 1], more[2];
    line[strcspn(line, "#\r")] = '\0';
    const int words = sscanf(line, "%255s %64s %1s", name, of, more);
    if (words < 1) {
        return BERTH_OK;
    }
    if (words != 2 || strlen(of) >= RACK_NAME) {
        return error_set(
            error, BERTH_CONFIG,
            "topology: %s, line %d: \"%.100s\": expected a host and its rack of at most "
            "%d characters, as in \"n001 r1\"",
            path, number, line, RACK_NAME - 1);
    }
    if (!is_host(name, host)) {
        return BERTH_OK;
    }
    if (rack[0] != '\0' && strcmp(rack, of) != 0) {
        return error_set(error, BERTH_CONFIG,
                         "topology: %s, line %d: host %s is in rack %s, but an earlier line says "
                         "%s: remove one of them",
                         path, number, host, of, rack);
    }
    snprintf(rack, RACK_NAME, "%s", of);
    return BERTH_OK;
}

static enum berth_status find(const char *path, char *text, const char *host, char rack[RACK_NAME],
                              struct berth_error *error) {
    int number = 1;
    rack[0] = '\0';
    for (char *line; (line = strsep(&text, "\n")) != NULL; number++) {
        TRY(read_line(path, number, line, host, rack, error));
    }
    return rack[0] != '\0' ? BERTH_OK
                           : error_set(error, BERTH_CONFIG,
                                       "topology: %s has no line for host %s: add \"%s RACK\"",
                                       path, host, host);
}

enum berth_status rack_file_find(const char *path, const char *host, char rack[RACK_NAME],
                                 struct berth_error *error) {
    char *text;
    size_t length;
    TRY(file_read(path, FILE_LIMIT, &text, &length, error));
    const enum berth_status status = find(path, text, host, rack, error);
    memory_free(text);
    return status;
}
