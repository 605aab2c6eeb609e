// SPDX-License-Identifier: Apache-2.0
#include "report/events.h"

#include "core/memory.h"
#include "core/options.h"

// Of a setting's text; longer ones are cut.
#define SETTING_SIZE 512

void event_moment(const struct berth_log *log, const char *name) {
    log_fields(log, BERTH_RECORD_EVENT, name, NULL, 0);
}

void event_facts(const struct berth_log *log, const struct berth_field *fields, size_t count) {
    log_fields(log, BERTH_RECORD_EVENT, NULL, fields, count);
}

enum berth_status event_settings(const struct berth_log *log, const struct berth_config *config,
                                 unsigned jobs, struct berth_error *error) {
    struct berth_field *fields = memory_array(option_row_count, sizeof *fields);
    char(*texts)[SETTING_SIZE] = memory_array(option_row_count, sizeof *texts);
    enum berth_status status = BERTH_OK;
    if (fields == NULL || texts == NULL) {
        status = error_no_memory(error, option_row_count * sizeof *texts, "the settings' texts");
    } else {
        size_t count = 0;
        for (size_t i = 0; i < option_row_count; i++) {
            const struct option_row *row = &option_rows[i];
            if (row->jobs & jobs) {
                option_print(config, row, texts[count], sizeof texts[count]);
                fields[count] = log_text(row->name, texts[count]);
                count++;
            }
        }
        log_fields(log, BERTH_RECORD_EVENT, "Config", fields, count);
    }
    memory_free(fields);
    memory_free(texts);
    return status;
}
