// SPDX-License-Identifier: Apache-2.0
// Makes the caller's watch of berth.h the log and the request to stop of the rooms that work,
// begins an error, and reads settings that are names and values. Every function of berth.h that
// takes a watch or settings begins here (watch.h); what a record says is decided where it is logged
// (core/log.h).
#include "api/watch.h"

#include "core/log.h"
#include "core/stop.h"
#include "settings/settings.h"
#include "task/task.h"

#include <math.h>
#include <string.h>

// Requests to stop are ordered by strength: to end at once is stronger than to end with the state
// saved, and that is stronger than to complete the work.
static int strength(int stop) {
    static const int of[] = {[BERTH_STOP_NONE] = 0,
                             [BERTH_STOP_FINISH] = 1,
                             [BERTH_STOP_AND_SAVE] = 2,
                             [BERTH_STOP_AT_ONCE] = 3};
    return of[stop];
}

static void write(void *context, const struct berth_record *record) {
    static const int stops[] = {[BERTH_CONTINUE] = BERTH_STOP_NONE,
                                [BERTH_FINISH] = BERTH_STOP_FINISH,
                                [BERTH_SUSPEND] = BERTH_STOP_AND_SAVE,
                                [BERTH_CANCEL] = BERTH_STOP_AT_ONCE};
    struct watching *watching = context;
    const unsigned wish = (unsigned)watching->watch->see(watching->watch->context, record);
    const int stop = wish <= BERTH_CANCEL ? stops[wish] : BERTH_STOP_NONE;
    if (strength(stop) > strength(watching->stop)) {
        watching->stop = stop;
    }
}

void watching_begin(struct watching *watching, const struct berth_watch *watch) {
    *watching = (struct watching){.watch = watch};
    if (watch != NULL && watch->see != NULL) {
        watching->log = (struct berth_log){.write = write, .context = watching};
    }
}

enum berth_status watching_progress(struct watching *watching, const char *phase, size_t done,
                                    size_t total, struct berth_error *error) {
    log_progress(&watching->log, phase, (int64_t)done, (int64_t)total);
    return strength(watching->stop) < strength(BERTH_STOP_AND_SAVE)
               ? BERTH_OK
               : error_set(error, BERTH_INTERRUPTED, "stopped on request after %zu of %zu texts",
                           done, total);
}

struct berth_error *error_begin(struct berth_error *error, struct berth_error *own) {
    error = error != NULL ? error : own;
    *error = (struct berth_error){.status = BERTH_OK, .input = -1};
    return error;
}

int settings_next(const char *const **settings, const char **name, const char **value) {
    if (*settings == NULL || **settings == NULL) {
        return 0;
    }
    *name = (*settings)[0];
    *value = (*settings)[1];
    *settings += *value != NULL ? 2 : 1;
    return 1;
}

enum berth_status settings_check(const char *const *settings, struct berth_error *error) {
    const char *name, *value;
    while (settings_next(&settings, &name, &value)) {
        if (value == NULL) {
            return error_set(error, BERTH_USAGE,
                             "setting %s has no value; settings are names and values in turn, and "
                             "NULL after the last",
                             name);
        }
    }
    return BERTH_OK;
}

enum berth_status setting_refuse(const char *name, const char *call, struct berth_error *error) {
    if (option_find(name) != NULL || task_option_find(name) != NULL) {
        return error_set(error, BERTH_USAGE, "%s does not use the setting %s; leave it out", call,
                         name);
    }
    return settings_set(NULL, name, NULL, error); // names the nearest one
}

// --- fields of a record --------------------------------------------------------------------------

static const struct berth_field *find_field(const struct berth_record *record, const char *key) {
    for (size_t i = 0; record != NULL && key != NULL && i < record->field_count; i++) {
        if (strcmp(record->fields[i].key, key) == 0) {
            return &record->fields[i];
        }
    }
    return NULL;
}

double berth_record_number(const struct berth_record *record, const char *key) {
    const struct berth_field *field = find_field(record, key);
    return field == NULL                  ? NAN
           : field->type == BERTH_INTEGER ? (double)field->integer
           : field->type == BERTH_REAL    ? field->real
                                          : NAN;
}

const char *berth_record_text(const struct berth_record *record, const char *key) {
    const struct berth_field *field = find_field(record, key);
    return field != NULL && field->type == BERTH_TEXT ? field->text : NULL;
}
