// SPDX-License-Identifier: Apache-2.0
// Fields of a record by their keys.
#include "core/error.h"

#include <math.h>
#include <string.h>

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
