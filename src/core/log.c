// SPDX-License-Identifier: Apache-2.0
#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>

void log_fields(const struct berth_log *log, enum berth_record_kind kind, const char *text,
                const struct berth_field *fields, size_t count) {
    if (log == NULL || log->write == NULL) {
        return;
    }
    struct berth_record record = {
        .kind = kind, .text = text, .fields = fields, .field_count = count};
    log->write(log->context, &record);
}

static void write_text(const struct berth_log *log, enum berth_record_kind kind, const char *format,
                       va_list arguments) {
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    log_fields(log, kind, text, NULL, 0);
}

void log_note(const struct berth_log *log, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_text(log, BERTH_RECORD_NOTE, format, arguments);
    va_end(arguments);
}

void log_warning(const struct berth_log *log, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_text(log, BERTH_RECORD_WARNING, format, arguments);
    va_end(arguments);
}

void log_progress(const struct berth_log *log, const char *phase, int64_t done, int64_t total) {
    struct berth_field fields[] = {log_integer("done", done), log_integer("total", total)};
    log_fields(log, BERTH_RECORD_PROGRESS, phase, fields, 2);
}

void log_progress_bytes(const struct berth_log *log, const char *phase, int64_t done,
                        int64_t total) {
    struct berth_field fields[] = {log_integer("done_bytes", done),
                                   log_integer("total_bytes", total)};
    log_fields(log, BERTH_RECORD_PROGRESS, phase, fields, 2);
}
