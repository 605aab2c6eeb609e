// SPDX-License-Identifier: Apache-2.0
// A log file of JSON lines. It stays open and grows during the whole run, so it does not use
// core/file.h's writers, which rename a temporary file when it is complete. reporter.c and
// run_log.c write to it.
#include "report/json_file.h"

#include "core/clock.h"
#include "core/file.h"
#include "core/file_call.h"
#include "core/log.h"
#include "core/memory.h"
#include "report/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum berth_status json_file_check(const char *path, struct berth_error *error) {
    static const char *const beginnings[] = {"{\"time\":", "DLLL {", NULL};
    static const struct file_kind kind = {"a file of json_summary", beginnings};
    return path == NULL || strcmp(path, "-") == 0 || file_standard_descriptor(path) >= 0
               ? BERTH_OK
               : file_check_kind(path, &kind, error);
}

enum berth_status json_file_open(struct json_file *file, const char *path,
                                 const struct json_file_options *options,
                                 struct berth_error *error) {
    *file = (struct json_file){
        .descriptor = -1, .start = clock_now(), .dllogger = options->dllogger, .fresh = 1};
    if (path == NULL) {
        return BERTH_OK;
    }
    if (strcmp(path, "-") == 0) {
        file->descriptor = STDOUT_FILENO;
        return BERTH_OK;
    }
    file->descriptor = file_standard_descriptor(path);
    if (file->descriptor >= 0) {
        return BERTH_OK; // another descriptor would have an offset of its own
    }
    TRY(dir_make_parent(path, error));
    file->descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file->descriptor < 0) {
        return file_cannot_create(path, errno, error);
    }
    file->owned = 1;
    struct stat info;
    if (fstat(file->descriptor, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size <= 0) {
        return BERTH_OK;
    }
    file->waits = !options->append;
    // A run that was killed or that found the disk full may have left half a line, to which nothing
    // may be appended. If this write fails, so does that of the first record, which reports it.
    if (options->append) {
        struct file_reader reader;
        char last = '\n';
        TRY(file_reader_open(&reader, path, error));
        enum berth_status status = file_reader_at(&reader, reader.size - 1, &last, 1, error);
        file_reader_close(&reader);
        if (last != '\n') {
            (void)json_file_write(file, "\n", 1);
            file->failed = 0;
        }
        return status;
    }
    return BERTH_OK;
}

static double milliseconds(double seconds) {
    return (double)(int64_t)(seconds * 1000.0 + 0.5) / 1000.0;
}

void json_file_build(struct json_line *line, double start, const struct berth_record *record) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    json_line_open(line, NULL, '{');
    json_line_real(line, "time", milliseconds((double)now.tv_sec + (double)now.tv_nsec * 1e-9));
    json_line_real(line, "elapsed", milliseconds(clock_now() - start));
    const char *detail = log_detail_text(record);
    json_line_text(line, "kind", lines_kind(detail != NULL ? BERTH_NOTE : record->kind));
    if (record->text != NULL) {
        json_line_text(line, "text", detail != NULL ? detail : record->text);
    }
    for (size_t i = detail != NULL; i < record->field_count; i++) {
        lines_json_field(line, record->fields[i].key, &record->fields[i]);
    }
    json_line_close(line, '}');
    json_line_end(line);
}

int json_file_write(struct json_file *file, const char *bytes, size_t length) {
    if (file->failed == 0) {
        file->failed = file_call_write(file->descriptor, bytes, length);
    }
    return file->failed == 0;
}

static int comes_before_plan(enum berth_record_kind kind) {
    return kind == BERTH_NOTE || kind == BERTH_WARNING || kind == BERTH_EVENT ||
           kind == BERTH_DETAIL;
}

int json_file_record(struct json_file *file, const struct berth_record *record) {
    if (file->descriptor < 0 || file->failed != 0) {
        return 1;
    }
    if (!file->waits) {
        json_line_clear(&file->line);
    }
    if (file->dllogger) {
        const double elapsed = clock_now() - file->start;
        if (file->fresh) {
            dllogger_metadata(&file->line, elapsed);
            file->fresh = 0;
        }
        dllogger_line(&file->line, elapsed, record);
    } else {
        json_file_build(&file->line, file->start, record);
    }
    file->failed = file->line.failed ? ENOMEM : 0;
    if (file->waits && comes_before_plan(record->kind)) {
        return file->failed == 0;
    }
    if (file->waits && ftruncate(file->descriptor, 0) < 0) {
        file->failed = errno;
    }
    file->waits = 0;
    return json_file_write(file, file->line.text, file->line.length);
}

void json_file_close(struct json_file *file) {
    if (file->owned) {
        close(file->descriptor);
    }
    json_line_done(&file->line);
    file->descriptor = -1;
}
