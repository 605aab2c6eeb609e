// SPDX-License-Identifier: Apache-2.0
// The public interface to the report room.
#include "task/arguments.h"
#include "core/memory.h"
#include "report/html.h"
#include "report/plot.h"
#include "report/reporter.h"
#include "train/checkpoint/checkpoint.h"
#include "train/settings/deepspeed.h"

enum berth_status berth_reporter_open(const struct berth_config *config, int file_descriptor,
                                      struct berth_reporter **reporter, struct berth_error *error) {
    REQUIRE(reporter, error);
    *reporter = NULL;
    REQUIRE_CONFIG(config, error);
    TRY(output_check_summary(config, error));
    struct berth_config own = *config;
    char *folder = NULL;
    if (config->logging_dir == NULL && config->deepspeed_config != NULL) {
        TRY(deepspeed_logging_dir(config->deepspeed_config, &folder, error));
        own.logging_dir = folder;
    }
    enum berth_status status = reporter_open(&own, file_descriptor, reporter, error);
    memory_free(folder);
    return status;
}

struct berth_log berth_reporter_log(struct berth_reporter *reporter) {
    return reporter != NULL ? reporter_log(reporter) : (struct berth_log){0};
}

enum berth_status berth_reporter_check(const struct berth_reporter *reporter,
                                       struct berth_error *error) {
    return reporter != NULL ? reporter_check(reporter, error) : BERTH_OK;
}

void berth_reporter_close(struct berth_reporter *reporter) {
    reporter_close(reporter);
}

static enum berth_status read_runs(const char *const *paths, size_t count, struct run_set *set,
                                   struct berth_error *error) {
    TRY(argument_texts(paths, count, "path", error));
    return count > 0 ? run_set_read(set, paths, count, error)
                     : error_set(error, BERTH_USAGE, "a report needs at least one run");
}

enum berth_status berth_report(const char *const *paths, size_t count, const char *file,
                               struct berth_error *error) {
    struct run_set set;
    REQUIRE(paths, error);
    REQUIRE(file, error);
    TRY(read_runs(paths, count, &set, error));
    const enum berth_status status = html_write_report(&set, file, error);
    run_set_done(&set);
    return status;
}

enum berth_status berth_plot(const char *const *paths, size_t count,
                             const struct berth_plot_style *style, char **text,
                             struct berth_error *error) {
    struct run_set set;
    struct buffer drawn = {0};
    REQUIRE(paths, error);
    REQUIRE(style, error);
    REQUIRE(text, error);
    *text = NULL;
    TRY(read_runs(paths, count, &set, error));
    const enum berth_status status = plot_draw(&set, style, &drawn, error);
    run_set_done(&set);
    if (status == BERTH_OK) {
        buffer_put_byte(&drawn, '\0');
    }
    if (status != BERTH_OK || drawn.failed) {
        buffer_done(&drawn);
        return status != BERTH_OK ? status : error_no_memory(error, 1, "the charts");
    }
    *text = drawn.bytes;
    return BERTH_OK;
}
