// SPDX-License-Identifier: Apache-2.0
// Makes the HTML report of runs: one file with styles and script inside, section after section, and
// a policy that lets no other script run. `berth report`, `berth bench` and the log of a training
// run (report/run_log.c) call it; the sections are made by the html_*.c files.
#include "core/html.h"

#include "core/base64.h"
#include "core/file.h"
#include "core/file_call.h"
#include "core/number.h"
#include "format/checksum/digest.h"
#include "page/html_parts.h"
#include "page/pages.h"
#include "report/keys.h"
#include "report/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// --- the head ------------------------------------------------------------------------------------

// A source of the Content-Security-Policy that allows exactly this text.
static enum berth_status put_hash(struct buffer *page, const char *text,
                                  struct berth_error *error) {
    char hex[DIGEST_HEX_SIZE];
    unsigned char bytes[32];
    TRY(digest_memory(DIGEST_SHA256, text, strlen(text), hex, error));
    for (size_t i = 0; i < sizeof bytes; i++) {
        unsigned byte = 0;
        sscanf(hex + 2 * i, "%2x", &byte);
        bytes[i] = (unsigned char)byte;
    }
    buffer_put_text(page, "'sha256-");
    base64_put(page, bytes, sizeof bytes);
    buffer_put_text(page, "'");
    return BERTH_OK;
}

// Every report begins with this, so that nothing else is replaced by one.
#define BEGINNING                                                                                  \
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"                      \
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "   \
    "base-uri 'none'; form-action 'none'; style-src "

static enum berth_status put_head(const struct run_set *set, struct buffer *page,
                                  struct berth_error *error) {
    buffer_put_text(page, BEGINNING);
    TRY(put_hash(page, report_css, error));
    buffer_put_text(page, "; script-src ");
    TRY(put_hash(page, report_js, error));
    buffer_put_text(page, "\">\n<meta name=\"viewport\" content=\"width=device-width, "
                          "initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light "
                          "dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>");
    html_put_text(page, set->runs[0].name);
    if (set->count > 1) {
        buffer_print(page, " and %zu more", set->count - 1);
    }
    buffer_put_text(page, " - Berth</title>\n<style>");
    buffer_put_text(page, report_css);
    buffer_put_text(page, "</style>\n</head>\n");
    return BERTH_OK;
}

// --- the body ------------------------------------------------------------------------------------

static void put_runs(const struct run_set *set, struct buffer *page) {
    buffer_put_text(page, "<ul class=\"runs\">");
    for (size_t i = 0; i < set->count; i++) {
        buffer_print(page,
                     "<li><svg class=\"key s%zu\" viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path "
                     "class=\"line\" d=\"M1 4h22\"/></svg><b>",
                     i % 8);
        html_put_text(page, set->runs[i].name);
        buffer_put_text(page, "</b> <span class=\"soft\">");
        // "update 120 of 487, not ended": how far a run is.
        const struct run *run = &set->runs[i];
        const double last =
            run->process_count > 0 ? run->processes[run->process_count - 1].last : (double)NAN;
        if (last > 0 && last < INFINITY) {
            buffer_print(page, run->total_steps > 0 ? "update %.0f of %.0f" : "update %.0f", last,
                         run->total_steps);
            buffer_put_text(page, run->has_ended ? ", ended" : ", not ended");
        }
        if (run->process_count > 1) {
            buffer_print(page, ", %zu processes", run->process_count);
        }
        if (run->skipped > 0) {
            buffer_print(page, ", %zu incomplete or unknown line%s skipped", run->skipped,
                         number_plural((int64_t)run->skipped));
        }
        buffer_put_text(page, "</span></li>");
    }
    buffer_put_text(page, "</ul>\n");
}

static void put_heading(const struct run_set *set, struct buffer *page) {
    char date[64];
    const time_t now = time(NULL);
    struct tm broken;
    gmtime_r(&now, &broken);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &broken);
    buffer_put_text(page, "<body>\n<main>\n<h1>");
    html_put_text(page, set->count > 1 ? "Runs" : set->runs[0].name);
    buffer_put_text(page, "</h1>\n");
    if (set->count == 1) {
        // The score that decided which model is the best: of the summary's scores, which come
        // before its speed, the last one with its value.
        const json *summary = set->runs[0].summary;
        const double best = html_real(summary, "best_metric");
        struct json_walk walk = {.object = summary};
        const char *key = NULL;
        while (summary != NULL && json_walk_next(&walk) && strcmp(walk.key, "best_metric") != 0) {
            const int is_count = strcmp(walk.key, "steps") == 0;
            if (json_is_number_value(walk.value) && json_as_real(walk.value) == best && !is_count) {
                key = walk.key;
            }
        }
        if (key != NULL) {
            char words[128];
            buffer_put_text(page, "<p class=\"headline\">");
            html_put_text(page, key_words(key, words, sizeof words));
            buffer_put_text(page, " <b>");
            html_put_value(page, key, json_member(summary, key));
            html_put_unit(page, key, json_member(summary, key));
            buffer_put_text(page, "</b></p>\n");
        }
    }
    buffer_print(page, "<p class=\"soft\">Berth %s, report of %s UTC</p>\n", BERTH_VERSION, date);
    put_runs(set, page);
}

enum berth_status html_put_report(const struct run_set *set, struct buffer *page,
                                  struct berth_error *error) {
    static void (*const sections[])(const struct run_set *, struct buffer *) = {
        put_heading,         html_put_outcome,   html_put_figures, html_put_charts,
        html_put_thresholds, html_put_processes, html_put_warnings};
    static void (*const results[])(const struct run *, struct buffer *) = {
        html_put_lengths, html_put_confusion, html_put_samples};
    TRY(put_head(set, page, error));
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        sections[i](set, page);
    }
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        for (size_t run = 0; run < set->count; run++) {
            results[i](&set->runs[run], page);
        }
    }
    html_put_plan(set, page);
    html_put_settings(set, page);
    buffer_put_text(page, "</main>\n<script>");
    buffer_put_text(page, report_js);
    buffer_put_text(page, "</script>\n</body>\n</html>\n");
    return page->failed ? error_no_memory(error, page->length, "the report") : BERTH_OK;
}

static int is_standard(const char *path) {
    return strcmp(path, "-") == 0;
}

static enum berth_status check_output(const char *path, struct berth_error *error) {
    static const char *const beginnings[] = {BEGINNING, NULL};
    return file_check_kind(path, &(struct file_kind){"a report of Berth", beginnings}, error);
}

enum berth_status html_check_output(const char *path, struct berth_error *error) {
    if (is_standard(path)) {
        return error_set(error, BERTH_USAGE,
                         "report: expected a file, found \"-\"; `berth report OUT --output -` "
                         "writes the page of a run to standard output");
    }
    const enum berth_status status = check_output(path, error);
    return status == BERTH_OK ? BERTH_OK : error_prefix(error, status, "report");
}

// A reader that goes away has what it wanted.
static enum berth_status put_standard(const struct buffer *page, struct berth_error *error) {
    const int failed = file_call_write(STDOUT_FILENO, page->bytes, page->length);
    return failed == 0 || failed == EPIPE
               ? BERTH_OK
               : error_set_errno(error, BERTH_IO, failed, "cannot write to standard output");
}

enum berth_status html_write_report(const struct run_set *set, const char *path,
                                    struct berth_error *error) {
    struct buffer page = {0};
    enum berth_status status = is_standard(path) ? BERTH_OK : check_output(path, error);
    if (status == BERTH_OK) {
        status = html_put_report(set, &page, error);
    }
    if (status == BERTH_OK) {
        status = is_standard(path) ? put_standard(&page, error)
                                   : file_write(path, page.bytes, page.length, error);
    }
    buffer_done(&page);
    return status == BERTH_OK ? BERTH_OK : error_prefix(error, status, "report");
}
