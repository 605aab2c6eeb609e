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

// A caller's wish is a request to stop (core/stop.h), in words of berth.h.
_Static_assert((int)BERTH_CONTINUE == STOP_NONE && (int)BERTH_FINISH == STOP_FINISH &&
                   (int)BERTH_SUSPEND == STOP_AND_SAVE && (int)BERTH_CANCEL == STOP_AT_ONCE,
               "a wish has the number of its request");

// Keeps the strongest wish; a number that is no wish is ignored.
static void write(void *context, const struct berth_record *record) {
    struct watching *watching = context;
    const int wish = (int)watching->watch->see(watching->watch->context, record);
    if (wish <= BERTH_CANCEL && wish > watching->stop) {
        watching->stop = wish;
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
    return !stop_interrupts(&watching->stop)
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
