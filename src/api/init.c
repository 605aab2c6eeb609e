// SPDX-License-Identifier: Apache-2.0
// The job init: writes a Hugging Face folder with random weights of a config.json's shape, from
// which training or a test can start. The numbers are drawn by model/params.h as for `berth
// pretrain`, and the files are written by model/folder.h.
#include "api/job.h"
#include "core/file.h"
#include "core/memory.h"
#include "model/folder.h"
#include "model/params.h"
#include "train/machine/cores.h"
#include "train/machine/machine.h"

static enum berth_status write_weights(const char *folder, const struct bert_config *config,
                                       const struct param_table *table, uint64_t seed,
                                       struct berth_error *error) {
    const int threads = cores_threads(0);
    TRY(machine_start_threads(threads, error));
    size_t bytes = (size_t)table->total * sizeof(float);
    float *buffer = memory_pages(bytes);
    if (buffer == NULL) {
        return error_no_memory(error, bytes, "the weights");
    }
    param_initialise(table, config, seed, buffer, threads);
    enum berth_status status = folder_write_weights(folder, config, table, buffer, error);
    memory_pages_free(buffer, bytes);
    return status;
}

// Refuses a folder that already contains a model.
static enum berth_status check_free(const char *folder, struct berth_error *error) {
    int taken;
    TRY(folder_holds_weights(folder, &taken, error));
    return taken
               ? error_set(error, BERTH_CANT_CREATE,
                           "%s: already contains a model; give another folder or remove it", folder)
               : BERTH_OK;
}

static enum berth_status write_model(const char *folder, const struct bert_config *config,
                                     uint64_t seed, struct berth_error *error) {
    struct param_table table;
    struct file_lock lock = {.descriptor = -1};
    int is_new = !dir_exists(folder);
    TRY(param_table_init(&table, config, PARAM_HEAD_SPAN, error));
    enum berth_status status;
    TRY_DONE(dir_make(folder, error));
    TRY_DONE(file_lock_acquire(&lock, folder, error));
    TRY_DONE(check_free(folder, error));
    TRY_DONE(write_weights(folder, config, &table, seed, error));
done:
    if (status != BERTH_OK && is_new && lock.descriptor >= 0) {
        (void)dir_remove(folder, NULL); // do not leave half a model
    }
    file_lock_release(&lock);
    param_table_done(&table);
    return status;
}

static enum berth_status run_init(struct job *job, struct berth_error *error) {
    const char *output = job_text(job, "output");
    struct bert_config config DONE_BY(bert_config_done) = {0};
    TRY(folder_read_shape(job_text(job, "config"), &config, error));
    TRY(check_free(output, error));
    TRY(write_model(output, &config, (uint64_t)job_integer(job, "seed"), error));
    log_note(&job->log,
             "%s contains a randomly initialised model; it needs its vocabulary "
             "before use",
             output);
    return BERTH_OK;
}

static const struct option_row settings[] = {
    {JOB_TEXT("config", NULL), .unit = "NAME|FILE", .aliases = "config_file",
     .help =
         "model geometry: tiny, minilm, base or large of BERT, the name of a published model such "
         "as roberta-base or distilbert-base-uncased, or a config.json or its folder"},
    {JOB_TEXT("output", NULL), .unit = "DIR", .aliases = "output_dir",
     .help = "folder for the model"},
    {JOB_INTEGER("seed", "42"), BETWEEN(0, 9e15), .unit = "N", .help = "seed of the weights"},
};

const struct job_row job_init = {
    .about = {"init", "write a randomly initialised model folder"},
    JOB_SETTINGS(settings),
    .required = "config output",
    .usage = "--config NAME|FILE --output DIR [--seed N]",
    .example = "berth init --config base --output bert-base-random --seed 1",
    .run = run_init,
};
