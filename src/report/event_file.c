// SPDX-License-Identifier: Apache-2.0
// The event file. Like json_file.c, it stays open and grows during the whole run, so it does not
// use core/file.h's writers. reporter.c opens it for logging_dir.
#include "report/event_file.h"

#include "core/file.h"
#include "core/file_call.h"
#include "core/memory.h"
#include "format/tensorflow/tfrecord.h"
#include "report/keys.h"
#include "report/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SCALARS_LIMIT 32 // in one record

// --- messages -----------------------------------------------------------------------------------

// Event {1 wall_time, 2 step, 3 file_version, 5 summary}; Summary {1 value: {1 tag, 2
// simple_value}}
void event_put_version(struct buffer *message, double wall_time) {
    protobuf_put_double(message, 1, wall_time);
    protobuf_put_text(message, 3, "brain.Event:2");
}

void event_put_scalars(struct buffer *message, double wall_time, int64_t step,
                       const struct event_scalar *scalars, size_t count) {
    protobuf_put_double(message, 1, wall_time);
    protobuf_put_varint(message, 2, (uint64_t)step);
    size_t summary = protobuf_begin(message, 5);
    for (size_t i = 0; i < count; i++) {
        size_t value = protobuf_begin(message, 1);
        protobuf_put_text(message, 1, scalars[i].tag);
        protobuf_put_float(message, 2, (float)scalars[i].value);
        protobuf_end(message, value);
    }
    protobuf_end(message, summary);
}

enum { BUCKETS = 30 };

// HistogramProto {1 min, 2 max, 3 num, 4 sum, 5 sum_squares, 6 packed bucket_limit, 7 packed
// bucket}
struct histogram {
    double min, max, sum, squares, width;
    double buckets[BUCKETS];
};

static struct histogram count_values(const double *values, size_t count) {
    struct histogram h = {.min = values[0], .max = values[0]};
    for (size_t i = 0; i < count; i++) {
        h.min = fmin(h.min, values[i]);
        h.max = fmax(h.max, values[i]);
        h.sum += values[i];
        h.squares += values[i] * values[i];
    }
    h.width = (h.max - h.min) / BUCKETS;
    for (size_t i = 0; i < count; i++) {
        int bucket = h.width > 0 ? (int)((values[i] - h.min) / h.width) : 0;
        h.buckets[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    }
    return h;
}

static void put_packed(struct buffer *message, uint32_t number, const double *values) {
    size_t packed = protobuf_begin(message, number);
    for (int i = 0; i < BUCKETS; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        buffer_put_number(message, (uint32_t)bits, 4);
        buffer_put_number(message, (uint32_t)(bits >> 32), 4);
    }
    protobuf_end(message, packed);
}

// Appends an Event with a histogram of `count` > 0 values, in 30 buckets of equal width from the
// minimum to the maximum.
static void put_histogram(struct buffer *message, double wall_time, int64_t step, const char *tag,
                          const double *values, size_t count) {
    const struct histogram h = count_values(values, count);
    double limits[BUCKETS];
    for (int i = 0; i < BUCKETS; i++) {
        limits[i] = i + 1 < BUCKETS ? h.min + h.width * (i + 1) : h.max;
    }
    protobuf_put_double(message, 1, wall_time);
    protobuf_put_varint(message, 2, (uint64_t)step);
    size_t summary = protobuf_begin(message, 5), value = protobuf_begin(message, 1);
    protobuf_put_text(message, 1, tag);
    size_t histogram = protobuf_begin(message, 5);
    protobuf_put_double(message, 1, h.min);
    protobuf_put_double(message, 2, h.max);
    protobuf_put_double(message, 3, (double)count);
    protobuf_put_double(message, 4, h.sum);
    protobuf_put_double(message, 5, h.squares);
    put_packed(message, 6, limits);
    put_packed(message, 7, h.buckets);
    protobuf_end(message, histogram);
    protobuf_end(message, value);
    protobuf_end(message, summary);
}

static double wall_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Frames the message and appends it to the output buffer.
static void frame(struct event_file *file) {
    unsigned char header[TFRECORD_HEADER_BYTES], footer[TFRECORD_FOOTER_BYTES];
    struct buffer *message = &file->message;
    tfrecord_frame(message->bytes, message->length, header, footer);
    buffer_put(&file->out, header, sizeof header);
    buffer_put(&file->out, message->bytes, message->length);
    buffer_put(&file->out, footer, sizeof footer);
    file->out.failed |= message->failed;
    buffer_clear(message);
}

// --- the file -----------------------------------------------------------------------------------

enum berth_status event_file_open(struct event_file *file, const char *folder,
                                  struct berth_error *error) {
    *file = (struct event_file){.descriptor = -1, .batch_size = 1};
    if (folder == NULL) {
        return BERTH_OK;
    }
    if (file_exists(folder)) {
        return error_set(
            error, BERTH_CANT_CREATE,
            "logging_dir: expected a folder for TensorBoard's files, found the file %s", folder);
    }
    file->folder = memory_string(folder);
    return file->folder != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
}

// Creates a file with a name that TensorBoard takes for an event file ("tfevents") and that is
// unique.
static int open_unique(const char *folder) {
    static atomic_uint number;
    char host[128] = "host";
    gethostname(host, sizeof host - 1);
    const struct path path =
        path_format("%s/events.out.tfevents.%010" PRId64 ".%s.%ld.%u", folder, (int64_t)time(NULL),
                    host, (long)getpid(), atomic_fetch_add(&number, 1));
    return open(path.text, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
}

void event_file_close(struct event_file *file) {
    if (file->descriptor >= 0) {
        close(file->descriptor);
    }
    memory_free(file->folder);
    buffer_done(&file->message);
    buffer_done(&file->out);
    *file = (struct event_file){.descriptor = -1};
}

// --- records ------------------------------------------------------------------------------------

// An event whose scalars are being collected.
struct scalars {
    size_t count;
    struct event_scalar all[SCALARS_LIMIT];
    char tags[SCALARS_LIMIT][2 * KEY_WORD_SIZE];
};

static void add_scalar(struct scalars *scalars, const char *group, const char *name, double value) {
    const size_t i = scalars->count;
    if (i < SCALARS_LIMIT && !isnan(value)) {
        snprintf(scalars->tags[i], sizeof scalars->tags[i], "%s%s", group, name);
        scalars->all[i] = (struct event_scalar){.tag = scalars->tags[i], .value = value};
        scalars->count++;
    }
}

static void put_scalars(struct event_file *file, int64_t x, const struct scalars *scalars) {
    if (scalars->count > 0) {
        event_put_scalars(&file->message, wall_time(), x, scalars->all, scalars->count);
        frame(file);
    }
}

// Adds the tags of the table of keys that begin with `group`.
static void add_tags(struct scalars *scalars, const struct berth_record *record,
                     const char *group) {
    for (size_t i = 0; i < key_row_count; i++) {
        const char *words = key_rows[i].tags;
        for (char tag[KEY_WORD_SIZE]; key_next_word(&words, tag);) {
            if (strncmp(tag, group, strlen(group)) == 0) {
                add_scalar(scalars, "", tag, lines_real(record, key_rows[i].keys, NAN));
            }
        }
    }
}

static int64_t samples_of(const struct event_file *file, int64_t step) {
    return file->by_steps ? step : step * file->batch_size;
}

static void put_evaluation(struct event_file *file, const struct berth_record *record,
                           const char *group, int64_t x) {
    struct scalars scalars = {0};
    for (size_t i = 0; i < record->field_count; i++) {
        const char *key = record->fields[i].key;
        if (!key_row(key)->counts) {
            add_scalar(&scalars, group, key, lines_real(record, key, NAN));
        }
    }
    put_scalars(file, x, &scalars);
}

static enum berth_status put_values(struct event_file *file, const struct berth_record *record,
                                    int64_t step, struct berth_error *error) {
    double *values = memory_array(record->field_count, sizeof *values);
    size_t count = 0;
    if (values == NULL) {
        return error_no_memory(error, record->field_count * sizeof *values, "a histogram");
    }
    for (size_t i = 0; i < record->field_count; i++) {
        if (record->fields[i].type == BERTH_REAL && isfinite(record->fields[i].real)) {
            values[count++] = record->fields[i].real;
        }
    }
    if (count > 0) {
        char tag[KEY_WORD_SIZE];
        snprintf(tag, sizeof tag, "Train/%s", record->text != NULL ? record->text : "values");
        put_histogram(&file->message, wall_time(), step, tag, values, count);
        frame(file);
    }
    memory_free(values);
    return BERTH_OK;
}

static enum berth_status write_record(struct event_file *file, const struct berth_record *record,
                                      struct berth_error *error) {
    int64_t step = (int64_t)lines_real(record, "step", 0);
    if (file->descriptor < 0) {
        TRY(dir_make(file->folder, error));
        file->descriptor = open_unique(file->folder);
        if (file->descriptor < 0) {
            return error_prefix(error, file_cannot_create(file->folder, errno, error),
                                "an event file in the folder");
        }
        event_put_version(&file->message, wall_time());
        frame(file);
    }
    if (record->kind == BERTH_STEP) {
        struct scalars samples = {0}, updates = {0};
        add_tags(&samples, record, "Train/Samples/");
        put_scalars(file, samples_of(file, step), &samples);
        add_tags(&updates, record, "Train/Steps/");
        add_tags(&updates, record, "train/");
        put_scalars(file, step, &updates);
    } else if (record->kind == BERTH_VALUES) {
        TRY(put_values(file, record, step, error));
    } else {
        put_evaluation(file, record, "Validation/", samples_of(file, step));
        put_evaluation(file, record, "eval/", step);
    }
    if (file->out.failed) {
        return error_no_memory(error, file->out.length, "an event");
    }
    const int failed = file_call_write(file->descriptor, file->out.bytes, file->out.length);
    buffer_clear(&file->out);
    return failed == 0
               ? BERTH_OK
               : error_set_errno(error, BERTH_IO, failed, "the event file in %s", file->folder);
}

enum berth_status event_file_record(struct event_file *file, const struct berth_record *record,
                                    struct berth_error *error) {
    if (file->folder == NULL || file->failed) {
        return BERTH_OK;
    }
    if (record->kind == BERTH_PLAN) {
        file->batch_size =
            (int64_t)lines_real(record, "train_batch_size", (double)file->batch_size);
    }
    if (record->kind != BERTH_STEP && record->kind != BERTH_EVAL && record->kind != BERTH_VALUES) {
        return BERTH_OK;
    }
    enum berth_status status = write_record(file, record, error);
    file->failed = status != BERTH_OK;
    return status;
}
