// SPDX-License-Identifier: Apache-2.0
// Output, resuming, saving, evaluation: what happens between the updates. Read by train/progress
// and the jobs (dev/check_dependencies.py). Texts are borrowed from who sets them.
#ifndef BERTH_SETTINGS_RUN_H
#define BERTH_SETTINGS_RUN_H

#include <stdint.h>

struct run_settings {
    const char *output_dir;
    int overwrite_output_dir; /* also replaces the file of a job that writes only one; training
                                 first removes the checkpoints and scores of an earlier run */
    const char *deepspeed_config;
    const char *recipe; /* NULL: none; see `berth pretrain --help` */
    int64_t seed;
    int dry_run;
    int phase2;                         /* start the second phase from a checkpoint of the first */
    int64_t phase1_end_step;            /* updates of the first phase; 0: as the checkpoint says */
    const char *resume_from_checkpoint; /* NULL: start from the beginning; "auto": the newest
                                           intact checkpoint; else the path of a checkpoint */
    int64_t resume_step;       /* >= 0: resume from checkpoint-<resume_step> in output_dir */
    int64_t steps_this_run;    /* > 0: save and stop after this many updates */
    int skip_checkpoint;       /* write no checkpoints, only the model at the end */
    const char *save_strategy; /* "no", "epoch", "steps" or "best"; NULL: decided by
                                  save_steps */
    int64_t save_steps; /* > 0: save every save_steps updates; 0: at the end of each epoch; -1: at
                           the interval that loses the least time (--save_steps auto) */
    int64_t save_total_limit;
    const char *save_format; /* formats of the result, separated by commas: "hf" (always
                                written), "torch" (pytorch_model.bin), "nvidia"
                                (ckpt_<step>.pt, also with every checkpoint),
                                "tensorflow" (model.ckpt-<step>) */
    int async_save;          /* write checkpoints while training continues, where memory allows */
    double mean_time_to_failure;       /* seconds, of the whole job, for save_steps -1 */
    const char *on_save_error;         /* "stop" or "continue" */
    int load_best_model_at_end;        /* the result is the best evaluated model, not the last
                                          one */
    int do_eval;                       /* evaluate on validation_file, or on the development set
                                          of task_name */
    const char *eval_strategy;         /* "no", "epoch" or "steps"; NULL: decided by the two
                                          fields above */
    int64_t eval_steps;                /* > 0: also evaluate every eval_steps updates.
                                          settings_set also takes a fraction of the
                                          updates, such as "0.1", for this, save_steps and
                                          logging_steps */
    int evaluate_every_epoch;          /* evaluate after every epoch, not only after the last */
    int eval_on_start;                 /* also evaluate before the first update */
    double eval_delay;                 /* no evaluation before this many epochs or, with eval_steps,
                                          updates */
    const char *metric_for_best_model; /* "f1", "loss", ...; NULL: the task's metric */
    int greater_is_better;             /* whether larger is better; -1: decided by the metric's
                                          name */
    int64_t early_stopping_patience;   /* > 0: stop after this many evaluations without
                                          improvement */
    double early_stopping_threshold;   /* a smaller improvement counts as none */
    const char *logging_strategy; /* "no", "epoch" or "steps": which updates to report besides the
                                     last one */
    int64_t logging_steps;
    int logging_first_step;     /* also report the first update */
    const char *spike_policy;   /* "none", "warn", "skip" or "rollback": what to do with an update
                                   whose loss or gradient norm is a spike */
    double spike_factor;        /* a spike is above this many times the running mean */
    const char *profile;        /* "a:b": record where the time of updates a to b goes; NULL: no */
    const char *profile_output; /* file for that record, in the JSON of Chrome's tracing; NULL:
                                   profile.json in output_dir */
};

#endif
