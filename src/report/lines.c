// SPDX-License-Identifier: Apache-2.0
// Formats a record as one line of plain text, a short line that fits a terminal, or a field of
// JSON. reporter.c chooses the form and json_file.c and console.c write the line; lines of
// DeepSpeed and dllogger are made in files of their own.
#include "report/lines.h"

#include "core/number.h"
#include "core/terminal.h"
#include "report/keys.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *lines_kind(enum berth_record_kind kind) {
    static const char *const names[] = {
        [BERTH_NOTE] = "note",       [BERTH_WARNING] = "warning",   [BERTH_PLAN] = "plan",
        [BERTH_STEP] = "step",       [BERTH_PROGRESS] = "progress", [BERTH_EVAL] = "eval",
        [BERTH_SUMMARY] = "summary", [BERTH_VALUES] = "values",     [BERTH_EVENT] = "event",
        [BERTH_DETAIL] = "detail"};
    return names[kind];
}

const struct berth_field *lines_field(const struct berth_record *record, const char *key) {
    for (size_t i = 0; i < record->field_count; i++) {
        if (strcmp(record->fields[i].key, key) == 0) {
            return &record->fields[i];
        }
    }
    return NULL;
}

double lines_real(const struct berth_record *record, const char *key, double fallback) {
    const struct berth_field *field = lines_field(record, key);
    if (field == NULL || field->type == BERTH_TEXT) {
        return fallback;
    }
    return field->type == BERTH_REAL ? field->real : (double)field->integer;
}

// Formats 1234567 as "1,234,567".
static void group_digits(int64_t value, char *text, size_t size) {
    char digits[NUMBER_TEXT_SIZE];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    size_t length = strlen(digits), used = 0;
    for (size_t i = 0; i < length && used + 2 < size; i++) {
        text[used++] = digits[i];
        size_t left = length - 1 - i;
        if (digits[i] != '-' && left > 0 && left % 3 == 0) {
            text[used++] = ',';
        }
    }
    text[used] = '\0';
}

// Units that grow with the number.
static const char *const byte_units[] = {"B", "KiB", "MiB", "GiB", "TiB", NULL};
static const char *const flop_units[] = {"FLOP",  "kFLOP", "MFLOP", "GFLOP",
                                         "TFLOP", "PFLOP", "EFLOP", NULL};
static const struct scale {
    const char *unit;
    double factor, step;
    const char *first, *other; // formats
    const char *const *units;
} scales[] = {{"B", 1, 1024, "%.0f %s", "%.2f %s", byte_units},
              {"FLOP", 1, 1000, "%.4g %s", "%.4g %s", flop_units},
              {"GFLOP", 1e9, 1000, "%.4g %s", "%.4g %s", flop_units}};

static int print_scaled(double value, const char *unit, char *text, size_t size) {
    for (size_t i = 0; unit != NULL && i < sizeof scales / sizeof *scales; i++) {
        const struct scale *scale = &scales[i];
        size_t at = 0;
        if (strcmp(scale->unit, unit) == 0) {
            value *= scale->factor;
            while (fabs(value) >= scale->step && scale->units[at + 1] != NULL) {
                value /= scale->step;
                at++;
            }
            number_format(text, size, at == 0 ? scale->first : scale->other, value,
                          scale->units[at]);
            return 1;
        }
    }
    return 0;
}

void lines_value(const struct berth_field *field, char *text, size_t size) {
    const struct key_row *form = key_form(field->key);
    const double real = field->type == BERTH_REAL ? field->real : (double)field->integer;
    const char *format = form->format != NULL ? form->format : "%.6g";
    if (field->type == BERTH_TEXT) {
        snprintf(text, size, "%s", field->text != NULL ? field->text : "none");
    } else if (print_scaled(real, form->unit, text, size)) {
        return;
    } else if (field->type == BERTH_REAL) {
        number_format(text, size,
                      form->small != NULL && real > 0 && real <= 1 ? form->small : format, real);
    } else if (form->is_name) {
        snprintf(text, size, "%" PRId64, field->integer);
    } else {
        group_digits(field->integer, text, size);
    }
}

static void append(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    number_format_list(text + used, size - used, format, arguments);
    va_end(arguments);
}

#define FIELD_SIZE 512

// Without unknown numbers, and what a reader would expect: that no update was skipped. 0: it is
// not shown.
static int print_field(const struct berth_field *field, enum lines_fields which,
                       char text[FIELD_SIZE]) {
    const struct key_row *row = key_row(field->key);
    const char *line = which == LINES_BRIEF && row->brief != NULL ? row->brief : row->line;
    char value[FIELD_SIZE / 2];
    lines_value(field, value, sizeof value);
    text[0] = '\0';
    if ((field->type == BERTH_REAL && isnan(field->real)) || (line != NULL && *line == '\0') ||
        (which == LINES_BRIEF && row->keys[0] == '\0') || // such as the memory of each rank
        (row->usual != NULL && strcmp(value, row->usual) == 0)) {
        return 0;
    }
    if (line != NULL) {
        append(text, FIELD_SIZE, line, value);
    } else {
        append(text, FIELD_SIZE, "%s %s", field->key, value);
    }
    return 1;
}

static void print_plain(const struct berth_record *record, enum lines_fields which, char *text,
                        size_t size) {
    char own[FIELD_SIZE];
    const struct berth_field *total = lines_field(record, "total_steps");
    snprintf(text, size, "%s%s", record->text != NULL ? record->text : "",
             record->text != NULL && record->field_count > 0 ? ":" : "");
    for (size_t i = 0; i < record->field_count; i++) {
        const struct berth_field *field = &record->fields[i];
        if (field == total || !print_field(field, which, own)) {
            continue;
        }
        append(text, size, "%s%s", *text != '\0' ? "  " : "", own);
        if (strcmp(field->key, "step") == 0 && total != NULL) {
            append(text, size, "/%" PRId64, total->integer);
        }
    }
}

void lines_plain(const struct berth_record *record, enum lines_fields which, size_t width,
                 char *text, size_t size) {
    struct berth_record shown = *record;
    print_plain(&shown, which, text, size);
    while (shown.field_count > 2 && terminal_columns(text, strlen(text)) > width) {
        shown.field_count--;
        print_plain(&shown, which, text, size);
    }
}

#define HEADING_WIDTH 10

void lines_brief(const struct berth_record *record, const char *heading, size_t width, char *text,
                 size_t size) {
    char own[FIELD_SIZE];
    size_t column = 0; // 0: no field is shown yet
    text[0] = '\0';
    for (size_t i = 0; i < record->field_count; i++) {
        if (!print_field(&record->fields[i], LINES_BRIEF, own)) {
            continue;
        }
        const size_t columns = terminal_columns(own, strlen(own));
        if (column == 0) {
            append(text, size, "%-*s", HEADING_WIDTH, heading);
            column = terminal_columns(text, strlen(text));
        } else if (column + 2 + columns > width) {
            append(text, size, "\n%*s", HEADING_WIDTH, "");
            column = HEADING_WIDTH;
        }
        append(text, size, "  %s", own);
        column += 2 + columns;
    }
}

void lines_row(const struct berth_field *field, char *text, size_t size) {
    char value[512];
    lines_value(field, value, sizeof value);
    if (field->type == BERTH_TEXT) {
        snprintf(text, size, "  %-32s %s", field->key, value);
    } else {
        snprintf(text, size, "  %-32s %16s", field->key, value);
    }
}

struct timespec lines_now(char text[LINES_DATE_SIZE]) {
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    strftime(text, LINES_DATE_SIZE, "%Y-%m-%d %H:%M:%S", &local);
    return now;
}

void lines_json_field(struct json_line *line, const char *key, const struct berth_field *field) {
    switch (field->type) {
    case BERTH_INTEGER:
        json_line_integer(line, key, field->integer);
        break;
    case BERTH_REAL:
        json_line_real(line, key, field->real);
        break;
    case BERTH_TEXT:
        json_line_text(line, key, field->text);
        break;
    }
}
