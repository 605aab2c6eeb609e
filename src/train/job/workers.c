// SPDX-License-Identifier: Apache-2.0
// Entry of a training job from the API: opens the communicator, and runs one job on all ranks, or
// with workers independent a job of its own in each process. These pass on stop requests and errors
// by heartbeats while they train; at the end they exchange their rows, and rank 0 makes the best
// model the result (worker_table.c).
#include "train/job/workers.h"

#include "comm/heartbeat.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/stop.h"
#include "report/run.h"
#include "settings/settings.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/stale_files.h"
#include "train/job/resume.h"
#include "train/job/training_job.h"
#include "train/job/worker_table.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// --- one model ----------------------------------------------------------------------------------

// Closes the communicator.
static enum berth_status train_together(const struct training_job_args *args,
                                        const atomic_int *stop, struct berth_run_result *result,
                                        struct berth_error *error) {
    struct training_job *job;
    struct training_outcome outcome = {.result = *result};
    enum berth_status status = training_job_open(args, &job, error);
    if (status == BERTH_OK && !args->config->run.dry_run) {
        status = training_job_train(job, stop, &outcome, error);
        *result = outcome.result;
    }
    training_job_close(job);
    return status;
}

// --- a model for each process -------------------------------------------------------------------

struct worker {
    struct training_job_args args; // of its own job
    struct settings config;        // of its own job: with its seed and folder
    const struct settings *given;
    struct comm *comm;         // of all workers
    const atomic_int *request; // the caller's *stop; may be NULL
    atomic_int stop;           // the strongest request in any process
    struct path folder;
    struct file_lock lock; // of the common output folder; held by rank 0
    struct training_job *job;
    struct worker_table table;
};

static int is_first(const struct worker *worker) {
    return worker->comm->rank == 0;
}

static struct worker_row *own_row(struct worker *worker) {
    return &worker->table.rows[worker->comm->rank];
}

// --- the start ----------------------------------------------------------------------------------

static int overwrites(const struct settings *given) {
    return given->run.overwrite_output_dir && !settings_resume(given);
}

static enum berth_status resolve_settings(struct worker *worker, struct berth_error *error) {
    const struct settings *given = worker->given;
    const struct comm *comm = worker->comm;
    if (is_first(worker)) {
        TRY(output_check(
            &given->run, &given->report,
            settings_resume(given) ? NULL : ", or resume with resume_from_checkpoint auto", error));
        TRY(overwrites(given) ? stale_files_check(given->run.output_dir, &given->model, error)
                              : BERTH_OK);
        TRY(given->report.report != NULL ? html_check_output(given->report.report, error)
                                         : BERTH_OK);
    }
    if (given->run.seed > INT64_MAX - comm->rank) {
        return error_set(error, BERTH_CONFIG,
                         "seed %" PRId64
                         " is too large: worker %d adds its number to it; use a smaller one",
                         given->run.seed, comm->rank);
    }
    worker->folder = worker_folder(given->run.output_dir, comm->rank);
    worker->table.rows = memory_array_zeroed((size_t)comm->size, sizeof *worker->table.rows);
    if (worker->table.rows == NULL) {
        return error_no_memory(error, (size_t)comm->size * sizeof *worker->table.rows,
                               "the table of workers");
    }
    if (is_first(worker) && settings_resume(given) && !dir_exists(worker->folder.text)) {
        TRY(resume_check_unfinished(given, error)); // no worker has written that model
    }
    worker->config.run.seed = given->run.seed + comm->rank;
    worker->config.run.output_dir = worker->folder.text;
    worker->config.report.report = NULL; // one for all, at the end
    worker->config.run.profile_output = is_first(worker) ? given->run.profile_output : NULL;
    own_row(worker)->seed = worker->config.run.seed;
    gethostname(own_row(worker)->host, sizeof own_row(worker)->host - 1);
    return BERTH_OK;
}

// Rank 0 only, after the workers' folders were created in it.
static enum berth_status lock_output(struct worker *worker, struct berth_error *error) {
    const struct settings *given = worker->given;
    TRY(output_lock(&given->run, &worker->lock, NULL, error));
    return checkpoint_clean(given->run.output_dir, &worker->args.log, error);
}

// Rank 0 only.
static enum berth_status remove_stale_files(const struct worker *worker,
                                            struct berth_error *error) {
    return overwrites(worker->given) && !stop_interrupts(worker->request)
               ? stale_files_remove(worker->given->run.output_dir, &worker->args.log, error)
               : BERTH_OK;
}

static enum berth_status start(struct worker *worker, struct berth_error *error) {
    TRY(comm_settle(worker->comm, resolve_settings(worker, error), error));
    const struct settings *given = worker->given;
    const int count = worker->comm->size;
    const struct path beyond = worker_folder(given->run.output_dir, count);
    log_note(&worker->args.log,
             "%d independent workers: worker R trains its own model with seed %" PRId64
             " + R in %s/worker-R; the plan and reports are those of worker 0",
             count, given->run.seed, given->run.output_dir);
    if (given->report.report_every > 0) {
        log_note(&worker->args.log, "report_every has no effect: the report of all workers is "
                                    "written at the end");
    }
    if (dir_exists(beyond.text)) {
        log_note(&worker->args.log, "%s is left from a run with more processes and is ignored",
                 beyond.text);
    }
    TRY(training_job_open(&worker->args, &worker->job, error));
    if (worker->given->run.dry_run) {
        return BERTH_OK;
    }
    TRY(comm_settle(worker->comm, is_first(worker) ? lock_output(worker, error) : BERTH_OK, error));
    TRY(output_compare_ranks(worker->comm, worker->given->run.output_dir, error));
    return comm_settle(worker->comm,
                       is_first(worker) ? remove_stale_files(worker, error) : BERTH_OK, error);
}

// --- training -----------------------------------------------------------------------------------

enum { INTERRUPT, INTERRUPT_AT_ONCE, COUNTS };

// This process obeys a request at once, the others once they receive it; but only this one finishes
// on a request to do so.
static void send_requests(void *context, double *own) {
    struct worker *worker = context;
    if (stop_request_of(worker->request) > stop_request_of(&worker->stop)) {
        worker->stop = *worker->request;
    }
    own[INTERRUPT] = stop_request_of(&worker->stop) >= STOP_AND_SAVE;
    own[INTERRUPT_AT_ONCE] = stop_request_of(&worker->stop) >= STOP_AT_ONCE;
}

static void receive_requests(void *context, const double *sums) {
    struct worker *worker = context;
    if (sums[INTERRUPT] > 0) {
        worker->stop = sums[INTERRUPT_AT_ONCE] > 0 ? STOP_AT_ONCE : STOP_AND_SAVE;
    }
}

static void train_alone(void *context) {
    struct worker *worker = context;
    struct worker_row *row = own_row(worker);
    struct berth_error error;
    const enum berth_status status =
        training_job_train(worker->job, &worker->stop, &row->outcome, &error);
    if (status != BERTH_OK) {
        row->error = error;
    }
}

static enum berth_status train_all(struct worker *worker, struct berth_error *error) {
    const struct heartbeat_rules rules = {.comm = worker->comm,
                                          .count = COUNTS,
                                          .report = send_requests,
                                          .receive = receive_requests,
                                          .context = worker};
    struct comm *comm = worker->comm;
    struct berth_error lost;
    enum berth_status status = heartbeat_run(&rules, train_alone, &lost);
    for (int rank = 0; status == BERTH_OK && rank < comm->size; rank++) {
        comm->broadcast(comm, &worker->table.rows[rank], sizeof *worker->table.rows, rank);
        status = comm->status(comm, &lost);
    }
    if (status == BERTH_OK) {
        return BERTH_OK;
    }
    // Another process is lost: reports what this one has done; its results are in its folder.
    const struct worker_row *row = own_row(worker);
    const int rank = worker->comm->rank;
    return row->error.status != BERTH_OK
               ? error_set(error, row->error.status, "worker %d (host %s): %s", rank, row->host,
                           row->error.message)
               : error_set(error, lost.status,
                           "worker %d has finished in %s, but no best worker was chosen: %s; "
                           "resume all with resume_from_checkpoint auto",
                           rank, worker->folder.text, lost.message);
}

// --- the end ------------------------------------------------------------------------------------

static enum berth_status publish(const struct worker *worker, struct berth_error *error) {
    const char *folder = worker->given->run.output_dir;
    char before[DIGEST_HEX_SIZE];
    TRY(file_lock_check(&worker->lock, error));
    stale_files_digest_weights(folder, before);
    TRY(worker_table_publish(&worker->table, error));
    if (worker->table.best >= 0) {
        stale_files_remove_torch(folder, before, &worker->args.log);
    }
    return BERTH_OK;
}

static void report_best(const struct worker_table *table, const struct berth_log *log) {
    const struct worker_row *best = &table->rows[table->best];
    const struct berth_run_result *result = &best->outcome.result;
    struct log_record record = {0};
    LOG_ADD(&record, log_integer("workers", table->count), log_integer("best_worker", table->best),
            log_integer("best_seed", best->seed), log_text("best_by", best->outcome.score.name));
    log_add_metrics(&record, result->metrics, result->metric_count);
    LOG_ADD(&record, log_real("eval_loss", result->eval_loss),
            log_text("output_dir", table->output_dir));
    log_record(log, BERTH_SUMMARY, "best of independent workers", &record);
}

// The error of a worker that has not finished; only rank 0 has the message.
static enum berth_status report_unfinished(const struct worker *worker, int rank,
                                           struct berth_error *error) {
    const struct worker_table *table = &worker->table;
    const struct worker_row *row = &table->rows[rank];
    if (!is_first(worker)) {
        return error_set(error, row->error.status, "%s", "");
    }
    return row->error.status == BERTH_INTERRUPTED || table->best < 0
               ? error_set(error, row->error.status, "worker %d (host %s): %s", rank, row->host,
                           row->error.message)
               : error_set(error, row->error.status,
                           "worker %d (host %s): %s; %s contains the best model of the finished "
                           "workers, that of worker %d",
                           rank, row->host, row->error.message, table->output_dir, table->best);
}

static enum berth_status write_report(const struct worker *worker, struct run_set *set,
                                      struct berth_error *error) {
    const struct settings *given = worker->given;
    set->runs = memory_array_zeroed((size_t)worker->comm->size, sizeof *set->runs);
    if (set->runs == NULL) {
        return error_no_memory(error, sizeof *set->runs, "the report");
    }
    for (int rank = 0; rank < worker->comm->size; rank++) {
        TRY(run_read(&set->runs[set->count++], worker_folder(given->run.output_dir, rank).text,
                     error));
    }
    TRY(dir_make_parent(given->report.report, error));
    return html_write_report(set, given->report.report, error);
}

// Writes the curves of all workers into one report. A failure is only a warning.
static void report_all(const struct worker *worker) {
    struct run_set set = {0};
    struct berth_error error;
    if (is_first(worker) && worker->given->report.report != NULL &&
        write_report(worker, &set, &error) != BERTH_OK) {
        log_warning(&worker->args.log, "%s", error.message);
    }
    run_set_done(&set);
}

static enum berth_status conclude(struct worker *worker, struct berth_run_result *result,
                                  struct berth_error *error) {
    struct worker_table *table = &worker->table;
    const struct berth_log *log = &worker->args.log;
    worker_table_pick(table);
    const int unfinished = worker_table_unfinished(table);
    const int shown = table->best >= 0 ? table->best : 0;
    *result = table->rows[shown].outcome.result;
    result->workers = table->count;
    result->best_worker = table->best;
    result->best_seed = table->rows[shown].seed;
    worker_table_report(table, log);
    report_all(worker);
    if (unfinished >= 0 && table->rows[unfinished].error.status == BERTH_INTERRUPTED) {
        return report_unfinished(worker, unfinished, error);
    }
    TRY(comm_settle(worker->comm, is_first(worker) ? publish(worker, error) : BERTH_OK, error));
    if (table->best >= 0) {
        report_best(table, log);
    } else {
        log_warning(log, "no worker has finished with a score: none is chosen, and nothing is "
                         "predicted or written in other formats");
    }
    return unfinished < 0 ? BERTH_OK : report_unfinished(worker, unfinished, error);
}

static enum berth_status run_worker(struct worker *worker, struct berth_run_result *result,
                                    struct berth_error *error) {
    TRY(start(worker, error));
    if (worker->given->run.dry_run) {
        return BERTH_OK;
    }
    const enum berth_status status = train_all(worker, error);
    training_job_close(worker->job); // its memory and the lock of its folder
    worker->job = NULL;
    return status == BERTH_OK ? conclude(worker, result, error) : status;
}

// Closes the communicator.
static enum berth_status train_independently(const struct training_job_args *args,
                                             const atomic_int *stop,
                                             struct berth_run_result *result,
                                             struct berth_error *error) {
    struct worker worker = {.args = *args,
                            .config = *args->config,
                            .given = args->config,
                            .comm = args->comm,
                            .request = stop,
                            .lock = {.descriptor = -1},
                            .table = {.output_dir = args->config->run.output_dir,
                                      .count = args->comm->size,
                                      .best = -1}};
    worker.args.config = &worker.config;
    worker.args.comm = comm_self();
    const enum berth_status status = run_worker(&worker, result, error);
    training_job_close(worker.job);
    worker.comm->close(worker.comm);
    file_lock_release(&worker.lock);
    memory_free(worker.table.rows);
    return status;
}

enum berth_status workers_train(const struct training_task *task, const struct settings *config,
                                struct berth_log log, const atomic_int *stop,
                                struct berth_run_result *result, int *rank,
                                struct berth_error *error) {
    struct training_job_args args = {.task = task, .config = config, .log = log};
    char job[64];
    *rank = 0;
    snprintf(job, sizeof job, "train %s", task->name);
    TRY(machine_comm_open(job, config, &args.log, &args.comm, error));
    args.all_ranks = args.comm;
    *rank = args.comm->rank;
    int is_worker = settings_are_independent(config) && args.comm->size > 1;
    if (settings_are_independent(config) && !is_worker) {
        // One process that resumes a run of several workers is worker 0.
        const char *const output_dir = config->run.output_dir != NULL ? config->run.output_dir : "";
        is_worker = resume_is_auto(config) && dir_exists(worker_folder(output_dir, 0).text);
        if (!is_worker) {
            log_note(&args.log, "workers independent has no effect in one process");
        }
    }
    return is_worker ? train_independently(&args, stop, result, error)
                     : train_together(&args, stop, result, error);
}
