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
static const char blanks[] = " \t\r";

// A word of a line.
struct word {
    const char *at;
    size_t length;
};

static struct word next_word(const char **at) {
    struct word word = {.at = *at + strspn(*at, blanks)};
    word.length = strcspn(word.at, " \t\r\n#");
    *at = word.at + word.length;
    return word;
}

// Whether a word names the host. If only one of the two has a domain, it does not count.
static int is_host(struct word word, const char *host) {
    const char *dot = memchr(word.at, '.', word.length);
    const size_t first = dot != NULL ? (size_t)(dot - word.at) : word.length;
    const size_t host_first = strcspn(host, "."), host_length = strlen(host);
    const int both_or_none = (first < word.length) == (host_first < host_length);
    const size_t length = both_or_none ? word.length : first;
    return length == (both_or_none ? host_length : host_first) &&
           strncmp(word.at, host, length) == 0;
}

// Reads a line; *rack is filled if it is the host's.
static enum berth_status read_line(const char *path, int number, const char *line, const char *host,
                                   char rack[RACK_NAME], struct berth_error *error) {
    const char *at = line;
    const struct word name = next_word(&at), of = next_word(&at), more = next_word(&at);
    if (name.length == 0) {
        return BERTH_OK;
    }
    if (of.length == 0 || more.length > 0 || of.length >= RACK_NAME) {
        return error_set(error, BERTH_CONFIG,
                         "topology: %s, line %d: \"%.*s\": expected a host and its rack of at most "
                         "%d characters, as in \"n001 r1\"",
                         path, number, (int)(strcspn(line, "\r\n") % 100), line, RACK_NAME - 1);
    }
    if (!is_host(name, host)) {
        return BERTH_OK;
    }
    if (rack[0] != '\0' && (strlen(rack) != of.length || memcmp(rack, of.at, of.length) != 0)) {
        return error_set(error, BERTH_CONFIG,
                         "topology: %s, line %d: host %s is in rack %.*s, but an earlier line says "
                         "%s: remove one of them",
                         path, number, host, (int)of.length, of.at, rack);
    }
    snprintf(rack, RACK_NAME, "%.*s", (int)of.length, of.at);
    return BERTH_OK;
}

static enum berth_status find(const char *path, const char *text, const char *host,
                              char rack[RACK_NAME], struct berth_error *error) {
    int number = 1;
    rack[0] = '\0';
    for (const char *line = text; line != NULL; number++) {
        TRY(read_line(path, number, line, host, rack, error));
        line = strchr(line, '\n');
        line += line != NULL;
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
