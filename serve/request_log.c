// SPDX-License-Identifier: Apache-2.0
// Each line is one write to a file opened for appending, so that lines of several threads, and of
// several servers with one file, are whole. Called by routes.c for each reply.
#include "serve/request_log.h"

#include "core/clock.h"
#include "core/json_line.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum berth_status request_log_open(struct request_log *log, const char *path,
                                   struct berth_log messages, struct berth_error *error) {
    log->descriptor = -1;
    log->path = path;
    log->log = messages;
    if (path == NULL) {
        return BERTH_OK;
    }
    log->descriptor = strcmp(path, "-") == 0
                          ? fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)
                          : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return log->descriptor >= 0 ? BERTH_OK
                                : error_set_errno(error, BERTH_CANT_CREATE, errno,
                                                  "access_log: cannot append to %s", path);
}

void request_log_put(struct request_log *log, const struct http_request *request,
                     const struct http_reply *reply) {
    struct json_line line DONE_BY(json_line_done) = {0};
    char client[HTTP_CLIENT_SIZE];
    if (log->descriptor < 0) {
        return;
    }
    http_client(request, client);
    json_line_open(&line, NULL, '{');
    char date[64];
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    const size_t length = strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(date + length, sizeof date - length, ".%03ldZ", now.tv_nsec / 1000000);
    json_line_text(&line, "time", date);
    json_line_text(&line, "client", client);
    json_line_text(&line, "method", request->method != NULL ? request->method : "");
    json_line_text(&line, "path", request->path != NULL ? request->path : "");
    json_line_integer(&line, "status", reply->status);
    json_line_integer(&line, "request_bytes", (int64_t)request->body_length);
    json_line_integer(&line, "reply_bytes", (int64_t)reply->length);
    json_line_real(&line, "seconds", clock_now() - request->arrived);
    json_line_close(&line, '}');
    json_line_end(&line);
    const int is_whole =
        !line.failed && write(log->descriptor, line.text, line.length) == (ssize_t)line.length;
    if (!is_whole && !atomic_exchange(&log->has_failed, 1)) {
        log_warning(&log->log, "access_log: cannot write to %s: %s", log->path, strerror(errno));
    }
}

void request_log_close(struct request_log *log) {
    if (log->descriptor >= 0) {
        close(log->descriptor);
    }
}
