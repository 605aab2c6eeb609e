// SPDX-License-Identifier: Apache-2.0
// The job verify: whether the files of a checkpoint are still those that its manifest lists, by
// size and digest. Nothing is loaded; a resumed run makes the same check by itself
// (train/checkpoint).
#include "api/job.h"
#include "core/file.h"
#include "core/json_line.h"
#include "train/checkpoint/checkpoint.h"

static enum berth_status check(const char *path, int64_t *files, struct berth_error *error) {
    TRY(dir_require(path, "a checkpoint's folder", error));
    return checkpoint_verify(path, files, error);
}

// A checkpoint that is not intact is a result, too.
static enum berth_status run_verify(struct job *job, struct berth_error *error) {
    const char *path = job_text(job, "path");
    struct json_line *line = job_line(job);
    int64_t files = 0;
    const enum berth_status status = check(path, &files, error);
    json_line_text(line, "path", path);
    json_line_boolean(line, "good", status == BERTH_OK);
    if (status == BERTH_OK) {
        job_put_integer(job, "files", files);
    } else {
        json_line_text(line, "reason", error->message);
    }
    job->is_told = status == BERTH_BAD_DATA;
    if (status == BERTH_OK && !job->config->report.quiet) {
        job_say(job, "%s: intact, %lld files have the sizes and hashes of the manifest\n", path,
                (long long)files);
    }
    return status;
}

static const struct option_row settings[] = {
    {JOB_TEXT("path", NULL), .unit = "PATH", .help = "folder of the checkpoint"},
};

const struct job_row job_verify = {
    .about = {"verify", "check a checkpoint's sizes and hashes"},
    JOB_SETTINGS(settings),
    .arguments = 1,
    .usage = "PATH [--json]",
    .example = "berth verify squad-minilm/checkpoint-480",
    .notes =
        "If a listed file differs, it is named and the exit code is 65. Files that are not listed "
        "are an error, too, although a run that resumes ignores most of them. --json prints "
        "\"good\", and if that is false the \"reason\".",
    .json = "print one JSON object",
    .only_reads = 1,
    .run = run_verify,
};
