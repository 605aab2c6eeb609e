// SPDX-License-Identifier: Apache-2.0
// Log records: the library passes named fields to the caller's berth_log. With a NULL `write` every
// function here does nothing.
#ifndef BERTH_CORE_LOG_H
#define BERTH_CORE_LOG_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct berth_log {
    void (*write)(void *context, const struct berth_record *record);
    void *context;
};

// A note in words.
void log_note(const struct berth_log *log, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// What a user need not act on: a BERTH_DETAIL "note", for the log of a run and --verbose. Its text;
// NULL: the record is none.
void log_detail(const struct berth_log *log, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
const char *log_detail_text(const struct berth_record *record);
void log_warning(const struct berth_log *log, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// A record with fields; `text` may be NULL.
void log_fields(const struct berth_log *log, enum berth_record_kind kind, const char *text,
                const struct berth_field *fields, size_t count);

// The same with fields that are known: LOG_RECORD(log, BERTH_NOTE, text, log_integer("step", 1)).
#define LOG_RECORD(log, kind, text, ...)                                                           \
    log_fields(log, kind, text, (const struct berth_field[]){__VA_ARGS__}, LOG_COUNT(__VA_ARGS__))

// Progress of a phase: `done` of `total`.
void log_progress(const struct berth_log *log, const char *phase, int64_t done, int64_t total);
// The same in bytes.
void log_progress_bytes(const struct berth_log *log, const char *phase, int64_t done,
                        int64_t total);

// --- events of a run, the source of dllogger's lines (report/keys.c has their names) ----------

// Reports an event without fields, {name: true}: "train_start", "loading_checkpoint", ...
void log_event(const struct berth_log *log, const char *name);

// --- fields -------------------------------------------------------------------------------------

static inline struct berth_field log_integer(const char *key, int64_t value) {
    return (struct berth_field){.key = key, .type = BERTH_INTEGER, .integer = value};
}

static inline struct berth_field log_real(const char *key, double value) {
    return (struct berth_field){.key = key, .type = BERTH_REAL, .real = value};
}

static inline struct berth_field log_text(const char *key, const char *value) {
    return (struct berth_field){.key = key, .type = BERTH_TEXT, .text = value};
}

// A record whose fields are collected. Zero-initialise, or begin with the first fields.
#define LOG_FIELDS_MAX 48 // of one record; further ones are left out
struct log_record {
    struct berth_field fields[LOG_FIELDS_MAX];
    size_t count;
};
// Adds fields: LOG_ADD(&record, log_integer("step", 1), log_real("loss", loss)).
#define LOG_ADD(record, ...)                                                                       \
    log_append(record, (const struct berth_field[]){__VA_ARGS__}, LOG_COUNT(__VA_ARGS__))
#define LOG_COUNT(...)                                                                             \
    (sizeof((const struct berth_field[]){__VA_ARGS__}) / sizeof(struct berth_field))
void log_append(struct log_record *record, const struct berth_field *fields, size_t count);
// What an evaluation measured.
#define BERTH_METRICS_MAX 12 // of one evaluation
struct berth_metric {
    char name[48]; // "accuracy", ...; SQuAD 1.1: "exact_match" and "f1" in percent; SQuAD 2.0:
                   // the official script's ("exact", "f1", "HasAns_f1", "best_f1_thresh", ...)
    double value;
};
// Adds an evaluation's metrics under their names.
void log_add_metrics(struct log_record *record, const struct berth_metric *metrics, size_t count);
void log_record(const struct berth_log *log, enum berth_record_kind kind, const char *text,
                const struct log_record *record);

#endif
