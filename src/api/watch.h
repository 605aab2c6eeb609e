// SPDX-License-Identifier: Apache-2.0
// What berth.h's functions have in common: the caller's watch as the log and the request to stop of
// the rooms that do the work, errors, and settings given as names and values. What a job logs, and
// when it looks at the request, is its own affair.
#ifndef BERTH_API_WATCH_H
#define BERTH_API_WATCH_H

#include "core/error.h"
#include "settings/settings.h"

#include <stdatomic.h>

// Gives records to the caller's watch and keeps the strongest of its wishes. Stays where it is
// while it is used: `log` refers to it.
struct watching {
    const struct berth_watch *watch; // NULL: nobody
    struct berth_log log;            // silent without a watch
    atomic_int stop;                 // enum stop_request (core/stop.h)
};
void watching_begin(struct watching *watching, const struct berth_watch *watch);
// A record of progress, after which BERTH_INTERRUPTED if the caller wishes to cancel.
enum berth_status watching_progress(struct watching *watching, const char *phase, size_t done,
                                    size_t total, struct berth_error *error);

// The error to fill: the caller's, or `own` if that is NULL. It is BERTH_OK from now on.
struct berth_error *error_begin(struct berth_error *error, struct berth_error *own);

// Takes the next pair of settings; 0 at the end. A name without a value has `*value` NULL.
int settings_next(const char *const **settings, const char **name, const char **value);
// BERTH_USAGE: a name without a value.
enum berth_status settings_check(const char *const *settings, struct berth_error *error);
// BERTH_USAGE for a name that is unknown, or that `call` has no use for.
enum berth_status setting_refuse(const char *name, const char *call, struct berth_error *error);

#endif
