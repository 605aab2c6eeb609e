// SPDX-License-Identifier: Apache-2.0
// A job with a reporter: what finetune and predict share.
#ifndef BERTH_CLI_RUN_H
#define BERTH_CLI_RUN_H

#include "cli.h"

typedef enum berth_status cli_job(const struct berth_config *config, struct berth_log log,
                                  const volatile int *stop, struct berth_run_result *result,
                                  struct berth_error *error);

// Reports on standard error (a dry run's plan on standard output); --json prints the result.
// `follows`: what the job does when a signal asks it to stop.
enum berth_status cli_run_job(struct cli_call *call, cli_job *job, const char *follows,
                              struct berth_error *error);

#endif
