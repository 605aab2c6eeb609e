// SPDX-License-Identifier: Apache-2.0
// The report of a training job: the plan's records before the first update, the summary record and
// the result files at the end.
#ifndef BERTH_TRAIN_TRAINING_REPORT_H
#define BERTH_TRAIN_TRAINING_REPORT_H

#include "core/error.h"
#include "core/log.h"
#include "settings/settings.h"
#include "train/engine/batching.h"
#include "train/engine/inputs.h"
#include "train/inference/evaluate.h"
#include "train/job/reduce_choice.h"
#include "train/job/training_loop.h"
#include "train/optimizer/schedule.h"
#include "train/progress/progress.h"

#include <stdint.h>

struct training_plan {
    const struct settings *config;
    int64_t ranks;
    const struct model_files *files;
    const struct batching *batching;
    const struct schedule *schedule;
    const struct update_rules *rules;
    const struct reduce_choice *reduce;
    int64_t micro_batches; // largest number in one update
    const struct task_set *train;
    const struct evaluation *evaluation; // NULL: none
    const char *model_folder, *resume_folder;
};
void training_report_plan(const struct training_plan *plan, const struct berth_log *log);

struct training_summary {
    const struct training_task *task;
    const struct berth_run_result *result;
    const struct training_result *loop;
    const struct progress *progress;
    const struct task_set *train;
    const struct task_set *evaluated; // if there is a score
    const struct settings *config;
    double epoch;   // at the end
    double seconds; // of the whole job
};
// Reports the record, and writes train_results.json, eval_results.json and all_results.json to
// output_dir, with the keys of Hugging Face's trainer.
enum berth_status training_report_summary(const struct training_summary *summary,
                                          const struct berth_log *log, struct berth_error *error);

#endif
