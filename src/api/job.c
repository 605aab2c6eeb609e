// SPDX-License-Identifier: Apache-2.0
// berth_job: the rows of the jobs, each with its settings, and the summary of what it did.
#include "api/model.h"
#include "core/memory.h"
#include "core/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// --- a job while it runs -------------------------------------------------------------------------

// The settings that are no rows of the option table.
struct job_settings {
    const char *task, *a, *b, *config, *output, *path, *text, *extracted;
    double tolerance;
    int64_t size, limit_alphabet, min_frequency;
};

struct job {
    const struct job_row *row;
    struct berth_config *config;
    struct job_settings settings;
    struct watching *watching;
    struct berth_result *result;
};

static void put_number(struct job *job, const char *name, double value) {
    struct berth_result *result = job->result;
    struct result_number *numbers = memory_grow(result->numbers, &result->number_capacity,
                                                result->number_count + 1, sizeof *numbers);
    char *copy = memory_string(name);
    if (numbers == NULL || copy == NULL) {
        result->numbers = numbers != NULL ? numbers : result->numbers;
        result->line.failed = 1;
        memory_free(copy);
        return;
    }
    result->numbers = numbers;
    numbers[result->number_count++] = (struct result_number){.name = copy, .value = value};
}

// The numbers as the job's summary.
static enum berth_status write_summary(struct job *job, struct berth_error *error) {
    struct json_line *line = &job->result->line;
    json_line_open(line, NULL, '{');
    for (size_t i = 0; i < job->result->number_count; i++) {
        const double value = job->result->numbers[i].value;
        if (value == floor(value) && fabs(value) < 1e15) {
            json_line_integer(line, job->result->numbers[i].name, (int64_t)value);
        } else {
            json_line_real(line, job->result->numbers[i].name, value);
        }
    }
    json_line_close(line, '}');
    return !line->failed ? BERTH_OK : error_no_memory(error, 0, "the summary of a job");
}

// --- training, prediction, evaluation ------------------------------------------------------------

static void put_run(struct job *job, const struct berth_run_result *run) {
    put_number(job, "steps", (double)run->steps);
    put_number(job, "loss", run->final_loss);
    for (size_t i = 0; i < run->metric_count; i++) {
        put_number(job, run->metrics[i].name, run->metrics[i].value);
    }
    put_number(job, "eval_loss", run->eval_loss);
    put_number(job, "samples_per_second", run->samples_per_second);
}

// The task that the setting `task` names.
static enum berth_status find_job_task(const struct job *job, const struct task **task,
                                       struct berth_error *error) {
    const char *name = job->settings.task;
    char names[256] = "";
    *task = name != NULL ? task_training_find(name) : NULL;
    if (*task != NULL) {
        return BERTH_OK;
    }
    for (size_t i = 0; task_rows[i] != NULL; i++) {
        if (task_rows[i]->training != NULL) {
            words_add(names, sizeof names, task_rows[i]->about.name);
        }
    }
    return error_set(error, BERTH_USAGE, "job %s: task %s; expected one of %s, pretrain",
                     job->row->about.name, name != NULL ? name : "is missing", names);
}

// The files that the settings json_summary and logging_dir name, beside the caller's watch. The
// first record opens them: of several processes only the first one has records.
struct reporting {
    struct job *job;
    struct berth_reporter *reporter;
    FILE *nowhere; // what the reporter has for people
    struct berth_error error;
};

static void report(void *context, const struct berth_record *record) {
    struct reporting *reporting = context;
    struct watching *watching = reporting->job->watching;
    if (reporting->reporter == NULL && reporting->error.status == BERTH_OK) {
        reporting->nowhere = fopen("/dev/null", "w");
        reporting->error.status = berth_reporter_open(
            reporting->job->config, reporting->nowhere != NULL ? fileno(reporting->nowhere) : -1,
            &reporting->reporter, &reporting->error);
        watching->stop = reporting->error.status != BERTH_OK ? BERTH_STOP_AT_ONCE : watching->stop;
    }
    if (reporting->reporter != NULL) {
        const struct berth_log log = berth_reporter_log(reporting->reporter);
        log.write(log.context, record);
    }
    if (watching->log.write != NULL) {
        watching->log.write(watching->log.context, record);
    }
}

static void reporting_done(struct reporting *reporting) {
    berth_reporter_close(reporting->reporter);
    if (reporting->nowhere != NULL) {
        fclose(reporting->nowhere);
    }
}

typedef enum berth_status job_function(const char *task, const struct berth_config *config,
                                       struct berth_log log, const volatile int *stop,
                                       struct berth_run_result *result, struct berth_error *error);

static enum berth_status run_function(struct job *job, const char *task, job_function *function,
                                      struct berth_error *error) {
    struct berth_run_result run;
    struct reporting reporting = {.job = job};
    const int has_files = job->config->json_summary != NULL || job->config->logging_dir != NULL;
    const struct berth_log log =
        has_files ? (struct berth_log){.write = report, .context = &reporting} : job->watching->log;
    enum berth_status status = function(task, job->config, log, &job->watching->stop, &run, error);
    reporting_done(&reporting);
    if (reporting.error.status != BERTH_OK) {
        return error_copy(error, &reporting.error);
    }
    TRY(status);
    put_run(job, &run);
    return BERTH_OK;
}

static enum berth_status run_pretrain(struct job *job, struct berth_error *error) {
    return run_function(job, "pretrain", job_train, error);
}

static enum berth_status run_train(struct job *job, struct berth_error *error) {
    const struct task *task;
    TRY(find_job_task(job, &task, error));
    return run_function(job, task->name, job_train, error);
}

static enum berth_status run_predict(struct job *job, struct berth_error *error) {
    const struct task *task;
    TRY(find_job_task(job, &task, error));
    return run_function(job, task->name, job_predict, error);
}

static enum berth_status run_evaluate(struct job *job, struct berth_error *error) {
    const struct task *task;
    TRY(find_job_task(job, &task, error));
    return run_function(job, task->name, job_evaluate, error);
}

// --- models and vocabularies ---------------------------------------------------------------------

static enum berth_status need(const struct job *job, const char *value, const char *name,
                              struct berth_error *error) {
    return value != NULL ? BERTH_OK
                         : error_set(error, BERTH_USAGE, "job %s: the setting %s is missing",
                                     job->row->about.name, name);
}

static enum berth_status run_compare(struct job *job, struct berth_error *error) {
    struct berth_comparison total;
    TRY(need(job, job->settings.a, "a", error));
    TRY(need(job, job->settings.b, "b", error));
    TRY(berth_compare(job->settings.a, job->settings.b, job->settings.tolerance, NULL, NULL, &total,
                      error));
    put_number(job, "tensors", (double)total.tensors);
    put_number(job, "compared", (double)total.compared);
    put_number(job, "differing", (double)total.differing);
    put_number(job, "largest", total.largest);
    put_number(job, "cosine", total.cosine);
    return BERTH_OK;
}

static enum berth_status run_verify(struct job *job, struct berth_error *error) {
    int64_t files;
    TRY(need(job, job->settings.path, "path", error));
    TRY(berth_verify(job->settings.path, &files, error));
    put_number(job, "files", (double)files);
    return BERTH_OK;
}

static enum berth_status run_init(struct job *job, struct berth_error *error) {
    TRY(need(job, job->settings.config, "config", error));
    TRY(need(job, job->settings.output, "output", error));
    return berth_init_model(job->settings.config, job->settings.output, job->config->seed, error);
}

static enum berth_status run_vocab(struct job *job, struct berth_error *error) {
    const struct job_settings *own = &job->settings;
    const struct berth_vocab_settings settings = {.texts = &own->text,
                                                  .text_count = own->text != NULL,
                                                  .extracted = own->extracted,
                                                  .output = own->output,
                                                  .size = own->size,
                                                  .limit_alphabet = own->limit_alphabet,
                                                  .min_frequency = own->min_frequency};
    struct berth_vocab_result result;
    TRY(need(job, own->output, "output", error));
    TRY(berth_vocab_train(job->config, &settings, job->watching->log, &job->watching->stop, &result,
                          error));
    put_number(job, "pieces", (double)result.pieces);
    put_number(job, "words", (double)result.words);
    put_number(job, "distinct_words", (double)result.distinct_words);
    put_number(job, "text_bytes", (double)result.text_bytes);
    return BERTH_OK;
}

// --- the rows ------------------------------------------------------------------------------------

#define OWN(kind, member)                                                                          \
    .name = #member, .type = (kind), .offset = offsetof(struct job_settings, member)
#define ROWS(table) .rows = (table), .row_count = sizeof(table) / sizeof *(table)

static const struct option_row task_settings_rows[] = {{OWN(OPTION_TEXT, task)}};
static const struct option_row compare_rows[] = {
    {OWN(OPTION_TEXT, a)}, {OWN(OPTION_TEXT, b)}, {OWN(OPTION_REAL, tolerance), BETWEEN(0, 1e300)}};
static const struct option_row verify_rows[] = {{OWN(OPTION_TEXT, path)}};
static const struct option_row init_rows[] = {{OWN(OPTION_TEXT, config)},
                                              {OWN(OPTION_TEXT, output)}};
static const struct option_row vocab_rows[] = {
    {OWN(OPTION_TEXT, text)},
    {OWN(OPTION_TEXT, extracted)},
    {OWN(OPTION_TEXT, output)},
    {OWN(OPTION_INTEGER, size), BETWEEN(6, 1 << 24), .aliases = "vocab_size"},
    {OWN(OPTION_INTEGER, limit_alphabet), BETWEEN(1, 0x110000)},
    {OWN(OPTION_INTEGER, min_frequency), BETWEEN(1, 1e15)}};

const struct job_row job_rows[] = {
    {.about = {"train", "train on files: task, model_name_or_path, train_file, output_dir, ..."},
     .jobs = JOB_TRAIN,
     ROWS(task_settings_rows),
     .run = run_train},
    {.about = {"pretrain", "pre-train a model on shards: input_dir, output_dir, ..."},
     .jobs = JOB_PRETRAIN,
     .run = run_pretrain},
    {.about = {"predict", "predict a file with a model, and score it if it has labels: task, "
                          "model_name_or_path, predict_file, output_dir, ..."},
     .jobs = JOB_PREDICT,
     ROWS(task_settings_rows),
     .run = run_predict},
    {.about = {"evaluate",
               "score a model on a file: task, model_name_or_path, validation_file, ..."},
     .jobs = JOB_PREDICT,
     ROWS(task_settings_rows),
     .run = run_evaluate},
    {.about = {"vocab", "train a WordPiece vocabulary: text or extracted, output, size, ..."},
     .jobs = JOB_VOCAB,
     ROWS(vocab_rows),
     .run = run_vocab},
    {.about = {"compare", "compare the tensors of two models: a, b, tolerance"},
     ROWS(compare_rows),
     .run = run_compare},
    {.about = {"verify", "check the sizes and hashes of a checkpoint's files: path"},
     ROWS(verify_rows),
     .run = run_verify},
    {.about = {"init", "write a model with random weights: config (tiny, minilm, base, large or a "
                       "file), output, seed"},
     .jobs = JOB_FROM_SCRATCH,
     ROWS(init_rows),
     .run = run_init},
};
const size_t job_row_count = sizeof job_rows / sizeof *job_rows;

// --- settings ------------------------------------------------------------------------------------

static enum berth_status set_own(struct job *job, const struct option_row *row, const char *value,
                                 struct berth_error *error) {
    void *field = (char *)&job->settings + row->offset;
    union option_value parsed;
    TRY(option_parse(row, value, &parsed, error));
    if (row->type == OPTION_INTEGER) {
        *(int64_t *)field = parsed.integer;
    } else if (row->type == OPTION_REAL) {
        *(double *)field = parsed.real;
    } else {
        *(const char **)field = parsed.text;
    }
    return BERTH_OK;
}

// A setting of the option table; for the name of a fetched model or data set its path.
static enum berth_status set_found(struct job *job, const struct option_row *row, const char *value,
                                   struct berth_error *error) {
    char *path = NULL;
    if (strcmp(row->name, "model_name_or_path") == 0) {
        TRY(berth_find_model(value, &path, error));
    } else if (strcmp(row->name, "train_file") == 0) {
        TRY(berth_find_data(value, "train", &path, error));
    } else if (strcmp(row->name, "validation_file") == 0 ||
               strcmp(row->name, "predict_file") == 0) {
        TRY(berth_find_data(value, "dev", &path, error));
    }
    const enum berth_status status =
        berth_config_set(job->config, row->name, path != NULL ? path : value, error);
    berth_string_free(path);
    return status;
}

static enum berth_status set(struct job *job, const char *name, const char *value,
                             struct berth_error *error) {
    for (size_t i = 0; i < job->row->row_count; i++) {
        if (option_is_named(&job->row->rows[i], name)) {
            return set_own(job, &job->row->rows[i], value, error);
        }
    }
    const struct option_row *row = option_find(name);
    return row != NULL && (row->jobs & job->row->jobs) != 0
               ? set_found(job, row, value, error)
               : setting_refuse(name, job->row->about.name, error);
}

static const struct job_row *find_row(const char *name, struct berth_error *error) {
    char names[256] = "";
    for (size_t i = 0; i < job_row_count; i++) {
        words_add(names, sizeof names, job_rows[i].about.name);
        if (name != NULL && strcmp(job_rows[i].about.name, name) == 0) {
            return &job_rows[i];
        }
    }
    (void)error_set(error, BERTH_USAGE, "unknown job \"%s\"; expected one of %s",
                    name != NULL ? name : "", names);
    return NULL;
}

static enum berth_status run(struct job *job, const char *const *settings,
                             struct berth_error *error) {
    const char *name, *value;
    if (job->config == NULL || job->result == NULL) {
        return error_no_memory(error, 0, "a job");
    }
    TRY(settings_check(settings, error));
    while (settings_next(&settings, &name, &value)) {
        TRY(set(job, name, value, error));
    }
    TRY(job->row->run(job, error));
    return write_summary(job, error);
}

struct berth_result *berth_job(const char *name, const char *const *settings,
                               const struct berth_watch *watch, struct berth_error *error) {
    struct berth_error own;
    struct watching watching;
    error = error_begin(error, &own);
    watching_begin(&watching, watch);
    const struct job_row *row = find_row(name, error);
    if (row == NULL) {
        return NULL;
    }
    struct job job = {.row = row,
                      .config = berth_config_new(),
                      .watching = &watching,
                      .result = memory_array_zeroed(1, sizeof *job.result)};
    if (run(&job, settings, error) != BERTH_OK) {
        berth_result_free(job.result);
        job.result = NULL;
    }
    berth_config_free(job.config);
    return job.result;
}
