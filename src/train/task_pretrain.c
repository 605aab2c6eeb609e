// SPDX-License-Identifier: Apache-2.0
// Pre-training as a task: the words behind the masked tokens, and whether the second sentence is
// the next. Training streams its shards (data/shard_stream.h); of the held-out ones the first
// max_eval_samples sequences are in memory.
#include "core/file.h"
#include "core/memory.h"
#include "core/options.h"
#include "data/pretraining_file.h"
#include "data/shard_list.h"
#include "task/results.h"
#include "train/recipes.h"
#include "train/task.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct pretrain {
    struct shard_list shards;
};

// --- settings -----------------------------------------------------------------------------------

static int is_chosen(const struct berth_config *config, const char *name) {
    return option_is_chosen(config, option_find(name));
}

static enum berth_status settle(struct berth_config *config, enum task_use use,
                                struct berth_error *error) {
    (void)use;
    TRY(recipe_apply(config, error));
    if (!is_chosen(config, "max_steps") && !is_chosen(config, "num_train_epochs")) {
        option_set_default(config, "max_steps", "1000");
    }
    option_job_defaults(config, JOB_PRETRAIN);
    if (config->input_dir == NULL) {
        return error_set(error, BERTH_USAGE, "--input_dir is missing");
    }
    int resumes = config->resume_from_checkpoint != NULL || config->resume_step >= 0;
    if (config->phase2 && !resumes && config->model_name_or_path == NULL) {
        return error_set(
            error, BERTH_CONFIG,
            "--phase2 goes on from a checkpoint of the first phase: add "
            "--resume_from_checkpoint, or name a model to start with its weights alone");
    }
    return BERTH_OK;
}

static enum berth_status validates(const struct berth_config *config, int *answer,
                                   struct berth_error *error) {
    (void)config;
    (void)error;
    *answer = 0;
    return BERTH_OK;
}

// --- sets ---------------------------------------------------------------------------------------

// Where no length was asked for, the shards' own, which the model must have positions for.
static int length_of(const struct berth_config *config) {
    return is_chosen(config, "max_seq_length") ? (int)config->max_seq_length : 0;
}

static enum berth_status check_positions(const struct shard_list *shards,
                                         const struct bert_config *shape,
                                         struct berth_error *error) {
    if (shards->length <= shape->max_position_embeddings) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG,
                     "%s: its rows have %" PRId64 " tokens, the model has %" PRId64
                     " positions; use shorter shards or another model",
                     shards->items[0].path, shards->length, shape->max_position_embeddings);
}

static enum berth_status fill(struct pretrain *own, const struct task_open *args,
                              struct task_set *set, struct berth_error *error) {
    const struct berth_config *config = args->config;
    const struct bert_config *shape = &args->files->shape;
    set->path = config->input_dir;
    TRY(shard_list_open(&own->shards, set->path, SHARD_TRAIN, length_of(config), error));
    TRY(check_positions(&own->shards, shape, error));
    set->shards = &own->shards;
    set->examples = own->shards.sequences;
    set->stream = (struct shard_stream_settings){
        .seed = (uint64_t)config->seed,
        .vocab_size = (int32_t)shape->vocab_size,
        .max_seq_length = length_of(config),
        .max_predictions = (int)config->max_predictions_per_seq,
    };
    return BERTH_OK;
}

static enum berth_status open_set(struct task_set *set, const struct task_open *args,
                                  struct berth_error *error) {
    *set = (struct task_set){.own = memory_array_zeroed(1, sizeof(struct pretrain))};
    return set->own != NULL ? fill(set->own, args, set, error)
                            : error_no_memory(error, sizeof(struct pretrain), "a data set");
}

static void close_set(struct task_set *set) {
    struct pretrain *own = set->own;
    if (own != NULL) {
        shard_list_done(&own->shards);
        memory_free(own);
    }
    *set = (struct task_set){0};
}

const struct task task_pretrain = {.name = "pretrain",
                                   .title = "pretrain",
                                   .jobs = JOB_PRETRAIN,
                                   .head = PARAM_HEAD_PRETRAINING,
                                   .settle = settle,
                                   .validates = validates,
                                   .open = open_set,
                                   .close = close_set};
