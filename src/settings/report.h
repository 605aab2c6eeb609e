// SPDX-License-Identifier: Apache-2.0
// What the records of a run are written to. Read by report and the jobs
// (dev/check_dependencies.py). Texts are borrowed from who sets them.
#ifndef BERTH_SETTINGS_REPORT_H
#define BERTH_SETTINGS_REPORT_H

#include <stdint.h>

struct report_settings {
    const char *log_format;   /* "plain", "deepspeed", "deepspeed-bert" or "dllogger" */
    const char *json_summary; /* JSON lines file, in dllogger's form if log_format is "dllogger";
                                 NULL: none */
    const char *logging_dir;  /* folder for TensorBoard files; NULL: the one of the DeepSpeed
                                 file, if any */
    const char *logging_axis; /* x of its scalars: "samples" or "steps" */
    double loss_plot_alpha;   /* weight of the previous mean in TensorBoard's train_ema_loss */
    int wall_clock_breakdown;
    int no_progress;
    int quiet;
    int verbose;
    const char *report;   /* HTML file for the run's report, which only the program writes (else
                             BERTH_UNAVAILABLE); NULL: none */
    int64_t report_every; /* seconds between updates of the report while the run goes on; 0: it is
                             written at the end */
};

#endif
