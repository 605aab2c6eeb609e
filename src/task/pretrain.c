// SPDX-License-Identifier: Apache-2.0
// The task "pretrain": predicts masked tokens, and whether the second segment follows the first.
// Training streams its shards (data/pretraining/shard_stream.h); for evaluation the first
// max_eval_samples held-out sequences are in memory. The job train and `berth evaluate pretrain` go
// through its struct training_task; no row runs it on texts.
#include "core/file.h"
#include "core/memory.h"
#include "core/portable_math.h"
#include "data/pretraining/instances.h"
#include "data/pretraining/shard_list.h"
#include "data/pretraining/shard_origin.h"
#include "metrics/results.h"
#include "settings/settings.h"
#include "train/engine/infer.h"
#include "train/tasks/training_task.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct pretrain {
    struct shard_list shards;
    struct instances instances; // from the held-out shards
    // Of a prediction:
    struct task_masked masked;
    double next_loss; // sum
    int64_t next, next_hits;
};

// --- settings -----------------------------------------------------------------------------------

static enum berth_status resolve_settings(struct settings *config, enum task_use use,
                                          struct berth_error *error) {
    if (use == TASK_TRAIN) {
        const int epochs_decide = settings_is_chosen(config, "num_train_epochs") &&
                                  !settings_is_chosen(config, "max_steps");
        settings_apply_defaults(config, JOB_PRETRAIN);
        config->engine.max_steps = epochs_decide ? 0 : config->engine.max_steps;
        return task_need(config->task.input_dir, "input_dir", "", error);
    }
    settings_apply_defaults(config, JOB_EVALUATE_PRETRAIN);
    return config->task.input_dir != NULL || config->task.eval_dir != NULL
               ? BERTH_OK
               : error_set(error, BERTH_USAGE,
                           "missing option eval_dir (or input_dir, whose files with \"test\" "
                           "in their names are used)");
}

// The row length in the settings; 0: that of the shards, which must not exceed the model's
// positions.
static int length_of(const struct settings *config) {
    return settings_is_chosen(config, "max_seq_length") ? (int)config->features.max_seq_length : 0;
}

// The folder of the held-out sequences, and which of its files to use.
static const char *held_out(const struct settings *config, enum shard_use *use) {
    *use = config->task.eval_dir != NULL ? SHARD_ANY : SHARD_TEST;
    return config->task.eval_dir != NULL ? config->task.eval_dir : config->task.input_dir;
}

static enum berth_status has_validation(const struct settings *config, int *answer,
                                        struct berth_error *error) {
    struct shard_list shards = {0};
    enum shard_use use;
    const char *path = held_out(config, &use);
    *answer = 0;
    if (!config->run.do_eval) {
        return BERTH_OK;
    }
    enum berth_status status = shard_list_open(&shards, path, use, length_of(config), error);
    *answer = status == BERTH_OK && shards.sequences > 0;
    shard_list_done(&shards);
    return status;
}

// --- sets ---------------------------------------------------------------------------------------

static enum berth_status check_positions(const struct shard_list *shards,
                                         const struct bert_config *shape,
                                         struct berth_error *error) {
    if (shards->length <= bert_positions(shape)) {
        return BERTH_OK;
    }
    return error_set(error, BERTH_CONFIG,
                     "%s: its rows have %" PRId64 " tokens, but the model has %" PRId64
                     " positions; use shorter shards or another model",
                     shards->items[0].path, shards->length, bert_positions(shape));
}

static enum berth_status check_words(const struct shard_origin *origin,
                                     const struct model_files *files, struct berth_error *error) {
    char digest[DIGEST_HEX_SIZE];
    if (files->tokenizer == NULL || origin->vocabulary[0] == '\0') {
        return BERTH_OK;
    }
    TRY(inputs_digest_vocabulary(files->tokenizer, digest, error));
    return strcmp(digest, origin->vocabulary) == 0
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s: these shards were made with another vocabulary than %s, the "
                           "model's; make them again with that one, or use the model of theirs",
                           origin->manifest, files->vocab_path);
}

static enum berth_status check_folder(const char *folder, const struct task_open *args,
                                      struct berth_error *error) {
    struct shard_origin origin;
    enum berth_status status = shard_origin_read(folder, &origin, error);
    if (status == BERTH_OK) {
        status = check_words(&origin, args->files, error);
    }
    if (status == BERTH_OK && args->use == TASK_TRAIN) {
        shard_origin_warn(&origin, args->log);
    }
    shard_origin_done(&origin);
    return status;
}

// Checks how the shards were made, once for each folder of consecutive ones.
static enum berth_status check_origin(const struct shard_list *shards, const struct task_open *args,
                                      struct berth_error *error) {
    char *last = NULL;
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; i < shards->count && status == BERTH_OK; i++) {
        char *folder = file_parent(shards->items[i].path);
        if (folder == NULL) {
            status = error_no_memory(error, 0, "a path");
        } else if (last == NULL || strcmp(folder, last) != 0) {
            status = check_folder(folder, args, error);
        }
        memory_free(last);
        last = folder;
    }
    memory_free(last);
    return status;
}

static int is_enough(const struct instances *instances, const struct settings *config) {
    return config->features.max_eval_samples > 0 &&
           (int64_t)instances->count >= config->features.max_eval_samples;
}

static enum berth_status fill_held_out(struct pretrain *own, const struct task_open *args,
                                       struct task_set *set, struct berth_error *error) {
    const struct settings *config = args->config;
    const struct bert_config *shape = &args->files->shape;
    enum shard_use use;
    set->path = held_out(config, &use);
    TRY(shard_list_open(&own->shards, set->path, use, length_of(config), error));
    if (own->shards.sequences == 0) {
        return error_set(error, BERTH_NO_INPUT,
                         "%s: no sequence in files with \"test\" in their names; name held-out "
                         "shards with eval_dir",
                         set->path);
    }
    TRY(check_positions(&own->shards, shape, error));
    TRY(check_origin(&own->shards, args, error));
    for (size_t i = 0; i < own->shards.count && !is_enough(&own->instances, config); i++) {
        TRY(shard_list_read(&own->shards, i, (int32_t)shape->vocab_size, length_of(config),
                            &own->instances, error));
    }
    // Drops sequences beyond the first max_eval_samples, and predictions beyond
    // max_predictions_per_seq.
    int64_t max_samples = config->features.max_eval_samples,
            predictions = config->features.max_predictions_per_seq;
    if (max_samples > 0 && (int64_t)own->instances.count > max_samples) {
        own->instances.count = (size_t)max_samples;
    }
    for (size_t i = 0; i < own->instances.count; i++) {
        struct instance *instance = &own->instances.items[i];
        if (instance->prediction_count > predictions) {
            instance->prediction_count = (uint16_t)predictions;
        }
    }
    set->source = instance_source(&own->instances);
    set->examples = (int64_t)own->instances.count;
    return BERTH_OK;
}

static enum berth_status open_set(struct task_set *set, const struct task_open *args,
                                  struct berth_error *error) {
    if (args->use == TASK_TRAIN) {
        struct pretrain *own = set->own;
        const struct settings *config = args->config;
        const struct bert_config *shape = &args->files->shape;
        set->path = config->task.input_dir;
        TRY(shard_list_open(&own->shards, set->path, SHARD_TRAIN, length_of(config), error));
        TRY(check_positions(&own->shards, shape, error));
        TRY(check_origin(&own->shards, args, error));
        set->shards = &own->shards;
        set->examples = own->shards.sequences;
        set->stream = (struct shard_stream_settings){
            .seed = (uint64_t)config->run.seed,
            .vocab_size = (int32_t)shape->vocab_size,
            .max_length = length_of(config),
            .max_predictions = (int)config->features.max_predictions_per_seq,
        };
        return BERTH_OK;
    }
    return fill_held_out(set->own, args, set, error);
}

static void done(void *own) {
    struct pretrain *pretrain = own;
    shard_list_done(&pretrain->shards);
    instances_done(&pretrain->instances);
}

// --- predictions --------------------------------------------------------------------------------

static void receive(void *set, size_t index, const float *logits, int64_t count) {
    struct pretrain *own = ((struct task_set *)set)->own;
    int label = own->instances.items[index].is_random;
    (void)count;
    own->next++;
    // -log softmax(logits)[label], of two logits
    double difference = (double)logits[!label] - (double)logits[label];
    own->next_loss += difference > 0 ? difference + math_log1p(math_exp(-difference))
                                     : math_log1p(math_exp(difference));
    own->next_hits += (logits[1] > logits[0]) == label;
}

static void receive_masked(void *set, size_t index, const struct infer_masked *masked) {
    struct pretrain *own = ((struct task_set *)set)->own;
    (void)index;
    task_masked_add(&own->masked, masked);
}

// Scores under the names of Google's program. Resets the sums for the next prediction.
static enum berth_status score_set(const struct task_set *set, struct task_score *score,
                                   struct berth_error *error) {
    struct pretrain *own = set->own;
    const struct task_masked *masked = &own->masked;
    (void)error;
    *score = (struct task_score){.lower_is_better = 1, .best_by = 1};
    task_score_add(score, "masked_lm_accuracy", task_masked_mean(masked, (double)masked->hits));
    task_score_add(score, "masked_lm_loss", task_masked_mean(masked, masked->loss));
    task_score_add(score, "next_sentence_accuracy", (double)own->next_hits / (double)own->next);
    task_score_add(score, "next_sentence_loss", own->next_loss / (double)own->next);
    score->loss = (masked->count > 0 ? score->items[1].value : 0) + score->items[3].value;
    own->masked = (struct task_masked){0};
    own->next_loss = 0;
    own->next = own->next_hits = 0;
    return BERTH_OK;
}

// Writes eval_results.txt in the format of Google's program.
static enum berth_status write_results(const struct task_set *set,
                                       const struct task_results *results,
                                       struct berth_error *error) {
    const struct task_score *score = results->score;
    struct berth_field fields[BERTH_METRICS_MAX + 2];
    size_t count = 0;
    (void)set;
    if (results->is_training) {
        fields[count++] = log_integer("global_step", results->step);
    }
    fields[count++] = log_real("loss", score->loss);
    for (size_t i = 0; i < score->count; i++) {
        fields[count++] = log_real(score->items[i].name, score->items[i].value);
    }
    return results_write_eval_text(results->folder, fields, count, error);
}

static const struct task_command commands[] = {
    {.verb = "pretrain",
     .objective = "mlm+nsp",
     .use = TASK_TRAIN,
     .jobs = JOB_PRETRAIN,
     .summary = "pre-train a model: masked words and next sentences",
     .usage = "--input_dir DIR (--config_file FILE --vocab_file FILE | --model DIR) --output DIR "
              "[options]",
     .example = "berth pretrain --recipe nvidia-phase1 --input_dir hdf5-128 --config_file "
                "bert_config.json \\\n    --vocab_file vocab.txt --output phase1\n"
                "berth pretrain --recipe nvidia-phase2 --input_dir hdf5-512 --output phase2 \\\n"
                "    --resume_from_checkpoint auto,phase1/checkpoint-7038\n"
                "berth pretrain ... --output phase1 --resume_from_checkpoint auto",
     .notes =
         "Shards are what `berth prepare` and the scripts of NVIDIA, Habana, Google and Intel "
         "write. An update has train_batch_size sequences; of packed rows each sequence counts. "
         "Ctrl-C, "
         "SIGTERM, "
         "SIGHUP, SIGXCPU and SIGUSR1 finish the update, save, and stop; "
         "--resume_from_checkpoint resumes.",
     .required = "input_dir output_dir"},
    {.verb = "evaluate",
     .name = "pretrain",
     .objective = "mlm+nsp",
     .use = TASK_VALIDATE,
     .jobs = JOB_EVALUATE_PRETRAIN,
     .summary = "score a pre-trained model on held-out shards",
     .usage = "--model DIR (--eval_dir DIR | --input_dir DIR) --output DIR [options]",
     .example = "berth evaluate pretrain --model phase1 --input_dir hdf5-128 --output scores",
     .notes = "Prints the accuracies and losses of masked words and next sentences, and writes "
              "them to eval_results.txt.",
     .required = "model_name_or_path output_dir"},
    {.verb = NULL}};

const struct training_task task_pretrain = {.name = "pretrain",
                                            .commands = commands,
                                            .title = "pretrain",
                                            .jobs = JOB_PRETRAIN,
                                            .defaults = JOB_PRETRAIN,
                                            .head = PARAM_HEAD_PRETRAINING,
                                            .has_loss = 1,
                                            .validation_advice =
                                                "no file of input_dir has \"test\" in its name; "
                                                "name shards with eval_dir",
                                            .settle = resolve_settings,
                                            .has_validation = has_validation,
                                            .own_size = sizeof(struct pretrain),
                                            .open = open_set,
                                            .done = done,
                                            .receive = receive,
                                            .receive_masked = receive_masked,
                                            .score = score_set,
                                            .write = write_results};
