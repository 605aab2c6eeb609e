// SPDX-License-Identifier: Apache-2.0
// What the program's verbs call of the library beside berth.h: jobs of tasks on files (jobs.c), and
// the reporter to which they log (report.c). Programs of others have berth_job and berth_train
// instead.
#ifndef BERTH_API_JOBS_H
#define BERTH_API_JOBS_H

#include "settings/settings.h"
#include "task/samples.h"
#include "train/tasks/run_result.h"

#include <stdatomic.h>

/* A training job also writes its records to OUTPUT_DIR/log.jsonl, in the form of json_summary; a
 * resumed one appends. `berth report` and `berth plot` show such logs.
 *
 * A reporter writes records to `file_descriptor` for people (a progress bar on a terminal,
 * otherwise plain or DeepSpeed-like lines), to config->json_summary as JSON lines, and to
 * config->logging_dir as TensorBoard scalars. BERTH_CANT_CREATE if json_summary is a file of
 * another kind, or the log of a run. */
struct berth_reporter;
enum berth_status berth_reporter_open(const struct settings *config, int file_descriptor,
                                      struct berth_reporter **reporter, struct berth_error *error);
struct berth_log berth_reporter_log(struct berth_reporter *reporter);
/* A failed write does not stop the job. Returns BERTH_IO if a line could not be written to standard
 * output (file_descriptor 1, or json_summary "-"), unless the reader of the pipe had closed it. */
enum berth_status berth_reporter_check(const struct berth_reporter *reporter,
                                       struct berth_error *error);
void berth_reporter_close(struct berth_reporter *reporter);

/* Train, predict and evaluate files for a task by its name in training ("squad", "classify", ...);
 * an unknown one is BERTH_USAGE, and the error lists those that there are. Training writes the
 * model, its checkpoints and the files of evaluation to output_dir.
 *
 * Processes that a launcher started together all call the function and divide its work; the first
 * one reports and writes. With workers "independent" each of them trains a model of its own in
 * output_dir/worker-RANK, with its rank added to the seed; output_dir then gets the files of the
 * best one, and workers.json. A worker that fails leaves the others alone; its status is returned
 * to all after the best of the others was published.
 *
 * After a failure *result holds what was reached before it, or else 0 and NaN. */
enum berth_status job_train(const char *task, const struct settings *config, struct berth_log log,
                            const atomic_int *stop, struct berth_run_result *result,
                            struct berth_error *error);
/* Predicts the prediction set with the model of model_name_or_path, and scores it if it has
 * labels. */
enum berth_status job_predict(const char *task, const struct settings *config, struct berth_log log,
                              const atomic_int *stop, struct berth_run_result *result,
                              struct berth_error *error);
/* Scores the model of model_name_or_path on the evaluation set, as training does at its end. */
enum berth_status job_evaluate(const char *task, const struct settings *config,
                               struct berth_log log, const atomic_int *stop,
                               struct berth_run_result *result, struct berth_error *error);

/* The value of the metric `name`; NaN if the result has no such metric. */
double berth_run_metric(const struct berth_run_result *result, const char *name);

/* How tags of words are scored. Columns as those of settings; "0" is not allowed. */
struct berth_tag_scoring {
    const char *text_column, *label_column;
    const char *scheme; /* NULL: tags are read as conlleval does, seqeval's default; "IOB1", "IOB2",
                           "IOE1", "IOE2", "IOBES" or "BILOU": as seqeval's mode "strict" */
};

/* Scores predictions.txt, a line of tags for each sentence, as seqeval does. *json is one JSON
 * object: precision, recall, f1, accuracy, and the first three of each type of entities; free it
 * with berth_string_free. BERTH_BAD_DATA if the sentences are not those of the data set. */
enum berth_status berth_evaluate_tokens(const char *dataset_path, const char *predictions_path,
                                        const struct berth_tag_scoring *scoring, char **json,
                                        struct berth_error *error);

/* Evaluates a file of predictions as the official SQuAD script does. *json is one JSON object; free
 * it with berth_string_free. The script is that of version 2 if null_odds_path is given or the data
 * set is of version 2. BERTH_BAD_DATA if none of the predictions belongs to the data set, or it has
 * no answers. */
enum berth_status berth_evaluate_squad(const char *dataset_path, const char *predictions_path,
                                       const char *null_odds_path, double null_threshold,
                                       struct berth_log log, char **json,
                                       struct berth_error *error);

void berth_string_free(char *text);

/* Answers questions of config->predict_file and passes each to `visit`, which returns 0 to
 * continue. BERTH_USAGE if no sample has the index `first`; if fewer than `count` samples exist,
 * all of them are visited. */
enum berth_status berth_show_squad(const struct settings *config, struct berth_selection samples,
                                   struct berth_log log,
                                   int (*visit)(void *context, const struct berth_sample *sample),
                                   void *context, struct berth_error *error);

#endif
