// SPDX-License-Identifier: Apache-2.0
// The moments of a run as BERTH_RECORD_EVENT records, which dllogger's lines are made of. Fields'
// keys are Berth's; what they are called there stands in report/dllogger.c.
#ifndef BERTH_REPORT_EVENTS_H
#define BERTH_REPORT_EVENTS_H

#include "core/error.h"
#include "core/log.h"

// "train_start", "loading_checkpoint", ...: {name: true}.
void event_moment(const struct berth_log *log, const char *name);
// Facts that stand by themselves: features_file, eval_samples, ...
void event_facts(const struct berth_log *log, const struct berth_field *fields, size_t count);
// "Config": every setting of the jobs `jobs` (core/options.h) by its name, as text.
enum berth_status event_settings(const struct berth_log *log, const struct berth_config *config,
                                 unsigned jobs, struct berth_error *error);

#endif
