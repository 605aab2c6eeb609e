// SPDX-License-Identifier: Apache-2.0
// Makes records of what the library says and hands them to the caller's function. What becomes of
// them (lines, files, a page) is the caller's: report/ and cli/lines.c.
#include "core/log.h"

#include "core/memory.h"
#include "core/number.h"
#include "core/options.h"
#include "core/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// The text of a note or a warning; longer ones are truncated.
#define TEXT_SIZE sizeof(((struct berth_error *)0)->message) // a note is as long as an error

void log_fields(const struct berth_log *log, enum berth_record_kind kind, const char *text,
                const struct berth_field *fields, size_t count) {
    if (log == NULL || log->write == NULL) {
        return;
    }
    struct berth_record record = {
        .kind = kind, .text = text, .fields = fields, .field_count = count};
    log->write(log->context, &record);
}

void log_append(struct log_record *record, const struct berth_field *fields, size_t count) {
    const size_t room = LOG_FIELDS_MAX - record->count, added = count < room ? count : room;
    memcpy(record->fields + record->count, fields, added * sizeof *fields);
    record->count += added;
}

void log_add_metrics(struct log_record *record, const struct berth_metric *metrics, size_t count) {
    for (size_t i = 0; i < count; i++) {
        LOG_ADD(record, log_real(metrics[i].name, metrics[i].value));
    }
}

void log_record(const struct berth_log *log, enum berth_record_kind kind, const char *text,
                const struct log_record *record) {
    log_fields(log, kind, text, record->fields, record->count);
}

static void write_text(const struct berth_log *log, enum berth_record_kind kind, const char *format,
                       va_list arguments) {
    char text[TEXT_SIZE + UTF8_BYTES_MAX]; // a longer one is truncated after a whole character
    number_format_list(text, sizeof text, format, arguments);
    text[utf8_cut(text, strlen(text), TEXT_SIZE - 1)] = '\0';
    if (kind == BERTH_DETAIL) {
        LOG_RECORD(log, kind, "note", log_text("note", text));
    } else {
        log_fields(log, kind, text, NULL, 0);
    }
}

void log_note(const struct berth_log *log, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_text(log, BERTH_NOTE, format, arguments);
    va_end(arguments);
}

void log_detail(const struct berth_log *log, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_text(log, BERTH_DETAIL, format, arguments);
    va_end(arguments);
}

const char *log_detail_text(const struct berth_record *record) {
    const int is_note = record->kind == BERTH_DETAIL && record->field_count > 0 &&
                        strcmp(record->fields[0].key, "note") == 0;
    return is_note ? record->fields[0].text : NULL;
}

void log_warning(const struct berth_log *log, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    write_text(log, BERTH_WARNING, format, arguments);
    va_end(arguments);
}

void log_progress(const struct berth_log *log, const char *phase, int64_t done, int64_t total) {
    LOG_RECORD(log, BERTH_PROGRESS, phase, log_integer("done", done), log_integer("total", total));
}

void log_progress_bytes(const struct berth_log *log, const char *phase, int64_t done,
                        int64_t total) {
    LOG_RECORD(log, BERTH_PROGRESS, phase, log_integer("done_bytes", done),
               log_integer("total_bytes", total));
}

void log_event(const struct berth_log *log, const char *name) {
    log_fields(log, BERTH_EVENT, name, NULL, 0);
}
