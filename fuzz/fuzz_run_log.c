// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of logs (report/run.h), and the report and the plot of what it has read.
//
// Settings: bit 0 fed in chunks of three bytes, bit 1 read through a file, bit 2 two equal runs,
// bit 3 a plot in colours.
#include "input.h"
#include "page/plot.h"
#include "report/run.h"

#include <math.h>

enum { IN_CHUNKS = 1, THROUGH_FILE = 2, TWICE = 4, COLOURS = 8 };

static enum berth_status read_run(const struct fuzz_input *input, struct run *run,
                                  struct berth_error *error) {
    if ((input->settings & THROUGH_FILE) != 0) {
        return run_read(run, fuzz_file(input->bytes, input->size), error);
    }
    TRY(run_init(run, "fuzz", error));
    const size_t chunk = (input->settings & IN_CHUNKS) != 0 ? 3 : input->size;
    for (size_t offset = 0; offset < input->size; offset += chunk) {
        const size_t left = input->size - offset;
        run_feed(run, (const char *)input->bytes + offset, left < chunk ? left : chunk);
    }
    return run_end(run, error);
}

// Buckets are ordered, and their numbers can be plotted.
static void check_run(const struct run *run) {
    for (size_t s = 0; s < run->series_count; s++) {
        const struct run_series *series = &run->series[s];
        require(series->count <= RUN_BUCKETS);
        for (size_t i = 0; i < series->count; i++) {
            const struct run_bucket *bucket = &series->buckets[i];
            require(bucket->count > 0 && bucket->min <= bucket->max && isfinite(bucket->sum));
            require(bucket->first <= bucket->last);
            require(i == 0 || bucket->first > series->buckets[i - 1].last);
        }
    }
}

static int contains(const struct buffer *page, const char *text) {
    return memmem(page->bytes, page->length, text, strlen(text)) != NULL;
}

static void check_page(const struct run_set *set) {
    struct buffer page = {0};
    struct berth_error error = {0};
    const enum berth_status status = html_put_report(set, &page, &error);
    require(status == BERTH_OK || status == BERTH_NO_MEMORY);
    if (status == BERTH_OK) {
        require(contains(&page, "</html>") && !contains(&page, "<script>alert"));
    }
    buffer_done(&page);
}

static void check_plot(const struct run_set *set, int colour) {
    const struct plot_style style = {.columns = 60, .rows = 4, .colour = colour};
    struct buffer text = {0};
    struct berth_error error = {0};
    const enum berth_status status = plot_draw(set, &style, &text, &error);
    require(status == BERTH_OK || error.message[0] != '\0');
    buffer_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    struct run runs[2] = {{0}};
    struct berth_error error = {0};
    const struct run_set set = {.runs = runs, .count = (input.settings & TWICE) != 0 ? 2 : 1};
    enum berth_status status = BERTH_OK;
    fuzz_failing_begin(input.fail_at);
    for (size_t i = 0; i < set.count && status == BERTH_OK; i++) {
        status = read_run(&input, &runs[i], &error);
    }
    fuzz_failing_end(input.fail_at, status, &error);
    if (status == BERTH_OK) {
        check_run(&runs[0]);
        check_page(&set);
        check_plot(&set, (input.settings & COLOURS) != 0);
    }
    for (size_t i = 0; i < set.count; i++) {
        run_done(&runs[i]);
    }
    return 0;
}
