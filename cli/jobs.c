// SPDX-License-Identifier: Apache-2.0
// The verbs of jobs, `berth vocab`, `berth convert`, ...: one for each row (api/job.h), from which
// its options, its help and its run are made. main.c runs such a verb like any other; the work is
// the row's own function in src/api, which writes its summary here.
#include "cli.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/terminal.h"

#include <string.h>
#include <unistd.h>

enum { VERBS_MAX = 16 };

// The job of a command line: words after the verb are the first of its settings.
static struct job job_of(struct cli_call *call) {
    const struct job_row *row = call->verb->job;
    struct job job = {.row = row,
                      .config = &call->config,
                      .list = call->list,
                      .list_count = call->list_count,
                      .log = cli_log(call)};
    for (size_t i = 0; i < row->row_count; i++) {
        job.values[i] = i < row->arguments ? call->arguments[i] : call->values[i - row->arguments];
    }
    return job;
}

static enum berth_status check_job(struct cli_call *call, struct berth_error *error) {
    struct job job = job_of(call);
    return job.row->settle != NULL ? job.row->settle(&job, error) : BERTH_OK;
}

static enum berth_status run_and_print(struct job *job, int as_json, struct berth_error *error) {
    job->out = as_json || !cli_reports() ? NULL : stdout;
    const enum berth_status status = job_perform(job, error);
    if (as_json && cli_reports() && (status == BERTH_OK || job->is_told)) {
        TRY(cli_put_json(job_line(job), error));
    }
    return status == BERTH_OK ? error_copy(error, &job->found) : status;
}

// Jobs with settings of the option table take long enough to report their progress.
static enum berth_status run_job(struct cli_call *call, struct berth_error *error) {
    struct berth_reporter *reporter = NULL;
    TRY(cli_apply_cased(call, error));
    const struct job_row *row = call->verb->job;
    for (size_t i = 0; i < row->arguments; i++) {
        if (strcmp(row->rows[i].unit, "OUT") == 0) {
            TRY(cli_check_output(call, "OUT", call->arguments[i], error));
        }
    }
    struct job job = job_of(call);
    file_limit_raise(); // for files that are written at the same time
    if (job.row->jobs != 0) {
        call->config.report.no_progress |= !terminal_is(STDERR_FILENO);
        TRY(berth_reporter_open(&call->config, STDERR_FILENO, &reporter, error));
        job.log = berth_reporter_log(reporter);
    }
    job.stop = job.row->follows != NULL ? cli_stop_on_signals(job.row->follows) : NULL;
    const enum berth_status status = run_and_print(&job, cli_flag(call, "json"), error);
    berth_reporter_close(reporter);
    berth_result_free(job.result);
    return status;
}

const struct cli_verb *cli_job_verb(const struct job_row *row) {
    static struct cli_verb verbs[VERBS_MAX];
    static struct option_row options[VERBS_MAX][CLI_OPTIONS_MAX];
    static size_t count;
    struct option_row *own = options[count];
    size_t used = row->row_count - row->arguments;
    memcpy(own, row->rows + row->arguments, used * sizeof *own);
    if ((option_find("do_lower_case")->jobs & row->jobs) != 0) {
        own[used++] =
            (struct option_row){CLI_FLAG("cased"), .help = "the same as --do_lower_case false"};
    }
    if (row->json != NULL) {
        own[used++] = (struct option_row){CLI_FLAG("json"), .help = row->json};
    }
    verbs[count] = (struct cli_verb){.name = row->about.name,
                                     .summary = row->about.help,
                                     .usage = row->usage,
                                     .example = row->example,
                                     .notes = row->notes,
                                     .jobs = row->jobs,
                                     .options = own,
                                     .option_count = used,
                                     .required = row->required,
                                     .arguments_min = row->arguments,
                                     .arguments_max = row->arguments,
                                     .models = row->models,
                                     .processes = (row->jobs & JOB_DISTRIBUTED) != 0 ? CLI_DIVIDED
                                                  : row->only_reads                  ? CLI_FIRST
                                                                                     : CLI_ALONE,
                                     .job = row,
                                     .settle = check_job,
                                     .run = run_job};
    return &verbs[count++];
}
