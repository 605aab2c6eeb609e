// SPDX-License-Identifier: Apache-2.0
// Formats records as plain text.
#include "report/lines.h"

#include "core/number.h"
#include "core/terminal.h"
#include "core/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const struct berth_field *lines_field(const struct berth_record *record, const char *key) {
    for (size_t i = 0; i < record->field_count; i++) {
        if (strcmp(record->fields[i].key, key) == 0) {
            return &record->fields[i];
        }
    }
    return NULL;
}

int lines_is_position(const char *key) {
    return strcmp(key, "step") == 0 || strcmp(key, "phase_step") == 0 || strcmp(key, "epoch") == 0;
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

static void print_bytes(double bytes, char *text, size_t size) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (fabs(bytes) >= 1024.0 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1024.0;
        unit++;
    }
    number_format(text, size, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
}

static void print_flops(double flops, char *text, size_t size) {
    static const char *const units[] = {"FLOP",  "kFLOP", "MFLOP", "GFLOP",
                                        "TFLOP", "PFLOP", "EFLOP"};
    size_t unit = 0;
    while (fabs(flops) >= 1000.0 && unit + 1 < sizeof units / sizeof *units) {
        flops /= 1000.0;
        unit++;
    }
    number_format(text, size, "%.4g %s", flops, units[unit]);
}

// The format of a real number, by its key or by the suffix of its key.
static const struct style {
    const char *key;
    const char *format;
} styles[] = {{"learning_rate", "%.4g"},
              {"loss", "%.4f"},
              {"final_loss", "%.4f"},
              {"epoch", "%.2f"},
              {"grad_norm", "%.3f"},
              {"exact_match", "%.2f"},
              {"exact", "%.2f"},
              {"f1", "%.2f"},
              {"accuracy", "%.4f"},
              {"combined_score", "%.4f"},
              {"correlation", "%.4f"},
              {"mfu", "%.3f"},
              {"samples_per_second", "%.1f"},
              {"tokens_per_second", "%.0f"},
              {"seconds", "%.2f"},
              {"ms", "%.2f"}};

// GLUE's f1 is a fraction of 1, SQuAD's a percentage; *Ans_f1 and best_f1 are SQuAD's alone. An f1
// of 0 may be either: it gets the two digits of a percentage.
static int is_fraction(const struct berth_field *field) {
    const char *key = field->key;
    return text_ends_with(key, "f1") && !text_ends_with(key, "Ans_f1") &&
           !text_ends_with(key, "best_f1") && field->real > 0 && field->real <= 1;
}

static void print_real(const struct berth_field *field, char *text, size_t size) {
    const char *format = "%.6g";
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++) {
        format = text_ends_with(field->key, styles[i].key) ? styles[i].format : format;
    }
    if (is_fraction(field)) {
        format = "%.4f";
    }
    number_format(text, size, format, field->real);
}

void lines_value(const struct berth_field *field, char *text, size_t size) {
    double real = field->type == BERTH_REAL ? field->real : (double)field->integer;
    if (field->type == BERTH_TEXT) {
        snprintf(text, size, "%s", field->text != NULL ? field->text : "none");
    } else if (text_ends_with(field->key, "bytes")) {
        print_bytes(real, text, size);
    } else if (text_ends_with(field->key, "gflops")) {
        print_flops(1e9 * real, text, size);
    } else if (text_ends_with(field->key, "flops")) {
        print_flops(real, text, size);
    } else if (field->type == BERTH_REAL) {
        print_real(field, text, size);
    } else if (text_ends_with(field->key, "seed")) {
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

// Short names and units in one-line records.
static const struct label {
    const char *key, *before, *after;
} labels[] = {{"learning_rate", "lr ", ""},
              {"samples_per_second", "", " samples/s"},
              {"tokens_per_second", "", " tokens/s"},
              {"exact_match", "EM ", ""},
              {"exact", "EM ", ""},
              {"f1", "F1 ", ""},
              {"mfu", "MFU ", ""},
              {"no_loss", "no loss: ", ""},
              {"seconds", "", " s"}};

static void append_field(const struct berth_field *field, char *text, size_t size) {
    char value[256];
    lines_value(field, value, sizeof value);
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        if (strcmp(field->key, labels[i].key) == 0) {
            append(text, size, "%s%s%s", labels[i].before, value, labels[i].after);
            return;
        }
    }
    append(text, size, "%s %s", field->key, value);
}

// Fields that a line of text omits: unknown numbers, counters at zero, constants, and what other
// fields show better.
static int is_hidden(const struct berth_field *field) {
    if (field->type == BERTH_REAL && isnan(field->real)) {
        return 1;
    }
    if (strcmp(field->key, "skipped") == 0) {
        return field->type == BERTH_INTEGER && field->integer == 0;
    }
    static const char *const hidden[] = {"total_steps",
                                         "adam_beta1",
                                         "adam_beta2",
                                         "step_loss",
                                         "average_training_time_step",
                                         "final_loss",
                                         "task",
                                         "updates",
                                         "sample_count",
                                         "train_ema_loss",
                                         "model_flops",
                                         "rss_bytes",
                                         "average_samples_per_second",
                                         "last_samples_per_second"};
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        if (strcmp(field->key, hidden[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

void lines_plain(const struct berth_record *record, char *text, size_t size) {
    const struct berth_field *total = lines_field(record, "total_steps");
    snprintf(text, size, "%s%s", record->text != NULL ? record->text : "",
             record->text != NULL && record->field_count > 0 ? ":" : "");
    for (size_t i = 0; i < record->field_count; i++) {
        const struct berth_field *field = &record->fields[i];
        if (is_hidden(field)) {
            continue;
        }
        append(text, size, "%s", *text != '\0' ? "  " : "");
        append_field(field, text, size);
        if (strcmp(field->key, "step") == 0 && total != NULL) {
            append(text, size, "/%" PRId64, total->integer);
        }
    }
}

void lines_plain_within(const struct berth_record *record, size_t width, char *text, size_t size) {
    struct berth_record shown = *record;
    lines_plain(&shown, text, size);
    while (shown.field_count > 2 && terminal_columns(text, strlen(text)) > width) {
        shown.field_count--;
        lines_plain(&shown, text, size);
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
