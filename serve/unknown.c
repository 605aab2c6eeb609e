// SPDX-License-Identifier: Apache-2.0
#include "serve/unknown.h"

#include "core/log.h"
#include "core/utf8.h"

#include <stdio.h>
#include <string.h>

static int is_noted(const struct unknown_members *unknown, const char *name) {
    size_t i = 0;
    while (i < unknown->count && strcmp(unknown->names[i], name) != 0) {
        i++;
    }
    return i < unknown->count;
}

enum berth_status unknown_member(struct unknown_members *unknown, const char *path,
                                 const char *parent, const char *key, struct berth_error *error) {
    char name[UNKNOWN_NAME_SIZE];
    snprintf(name, sizeof name, "%.*s", UTF8_SHOWN(key, sizeof name - 1));
    if (unknown->are_refused) {
        return error_set(error, BERTH_USAGE,
                         "%s%s: unknown at this path; leave it out (the server was started with "
                         "--strict_requests)",
                         parent, name);
    }
    if (unknown->count == UNKNOWN_NAMES || is_noted(unknown, name)) {
        return BERTH_OK;
    }
    strcpy(unknown->names[unknown->count++], name);
    log_note(&unknown->log,
             "ignored the unknown member \"%s%s\" of a request to %s; each name is noted once "
             "(--strict_requests refuses such requests)",
             parent, name, path);
    if (unknown->count == UNKNOWN_NAMES) {
        log_note(&unknown->log,
                 "no further unknown members are noted after these %d names; /metrics counts them",
                 UNKNOWN_NAMES);
    }
    return BERTH_OK;
}
