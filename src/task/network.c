// SPDX-License-Identifier: Apache-2.0
// Between a task's row and the engine: opens the network of a model, makes inputs of a call's
// texts, and runs calls of several threads, short ones together. A row calls text_inputs_make and
// network_run, and the forward pass begins in train/engine/infer.c. Leaves out what a task makes of
// logits.
#include "task/network.h"

#include "core/finite.h"
#include "core/memory.h"
#include "settings/effects.h"
#include "train/engine/input_facts.h"
#include "train/engine/plan.h"
#include "train/machine/machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

// --- the network ---------------------------------------------------------------------------------

enum berth_status network_open(struct task_model *model, const struct predictor_kind *kind,
                               int64_t least, const struct task_opening *opening,
                               struct berth_error *error) {
    struct settings *config = &model->config;
    struct network *network = memory_array_zeroed(1, sizeof *network);
    if (network == NULL) {
        return error_no_memory(error, sizeof *network, "a model");
    }
    model->network = network;
    network->lock = &network->own_lock;
    fair_lock_init(&network->own_lock);
    pthread_mutex_init(&network->list, NULL);
    struct predictor_kind own = *kind;
    // Every model has an encoder.
    const struct task_model *other = opening->other;
    struct network *lender =
        other != NULL && other->network != NULL && kind->head == PARAM_HEAD_EMBEDDING &&
                other->config.machine.precision == model->config.machine.precision &&
                opening->comm->size == 1
            ? other->network
            : NULL;
    if (lender != NULL) {
        own.lender = &lender->predictor;
        network->lock = lender->lock;
    }
    TRY(predictor_open(&network->predictor, config, &own, opening->comm, opening->log, error));
    model->tokenizer = network->predictor.files.tokenizer;
    const int64_t length = model->max_tokens = network->predictor.files.length;
    const int64_t batch = config->task.predict_batch_size;
    const int64_t all = batch < INFER_TOKENS / length ? batch * length : INFER_TOKENS;
    const int64_t tokens = all > length ? all : length;
    network->extent =
        (struct batch_extent){.tokens = tokens, .sequences = tokens / least, .max_length = length};
    return BERTH_OK;
}

enum berth_status task_compare_ranks(const struct task_model *model, struct berth_error *error) {
    const struct predictor *predictor = &model->network->predictor;
    struct rank_facts facts = {0};
    input_facts_add_model(&facts, &predictor->files, model->path);
    rank_facts_add_number(&facts, "max_seq_length", model->path, model->max_tokens);
    rank_facts_add_number(&facts, "the type to compute in", model->path,
                          (int64_t)state_product_dtype(&predictor->state));
    input_facts_add_weights(&facts, &predictor->state, model->path);
    return rank_facts_compare(&facts, predictor->comm, error);
}

void network_close(struct network *network) {
    predictor_done(&network->predictor);
    fair_lock_done(&network->own_lock);
    pthread_mutex_destroy(&network->list);
    memory_free(network);
}

enum berth_status network_load(struct task_model *model, const struct task_opening *opening,
                               struct berth_error *error) {
    struct network *network = model->network;
    struct predictor *predictor = &network->predictor;
    const struct bert_config *shape = &predictor->files.shape;
    const int64_t outputs = param_head_outputs(predictor->files.table.head, shape);
    const struct engine_shape engine = {.infer = network->extent};
    struct plan_args plan = {.state = &predictor->state,
                             .config = shape,
                             .shape = &engine,
                             .processes = predictor->comm->local_size,
                             .exchange = predictor->comm->bytes,
                             .data = (uint64_t)(network->extent.tokens * outputs) * sizeof(float)};
    plan.has_weights = predictor->lender != NULL;
    TRY(plan_memory_admit(&plan, NULL, error));
    fair_lock_acquire(network->lock); // a lender may be running
    const enum berth_status status =
        predictor_load(predictor, &model->config, &network->extent, opening->log, error);
    fair_lock_release(network->lock);
    TRY(status);
    network->threads = machine_threads(&model->config.machine);
    settings_note_effects(&model->config, &model->config, model->task->job, 1, opening->log);
    for (size_t i = 0; i < option_row_count; i++) { // strings are borrowed until now
        if (option_rows[i].type == OPTION_TEXT) {
            *(const char **)((char *)&model->config + option_rows[i].offset) = NULL;
        }
    }
    return BERTH_OK;
}

int network_threads(const struct task_model *model, size_t count) {
    const size_t most = (size_t)model->network->threads;
    const int threads = (int)(count > most ? most : count > 0 ? count : 1);
    return machine_start_threads(threads, NULL) == BERTH_OK ? threads : 1;
}

// The caller holds the lock.
static enum berth_status run_locked(const struct task_model *model, struct infer_args args,
                                    struct berth_error *error) {
    struct network *network = model->network;
    struct infer_result timing;
    TRY(machine_start_threads(network->threads, error));
    args.extent = &network->extent;
    args.lock = network->lock;
    return infer_run(&network->predictor.engine, &args, &timing, error);
}

// --- short calls of several threads --------------------------------------------------------------

// A call with more sequences than this is run alone.
#define SHORT_CALL 32

struct waiting_call {
    const struct infer_args *args;
    int is_taken, is_done; // by the thread that runs it; read under the network's lock
    struct berth_error error;
    struct waiting_call *next;
};

// The sequences of calls that are run as one.
struct merged {
    struct part {
        const struct infer_args *args;
        size_t index;
    } * parts; // [count]
    size_t count;
};

static struct packer_sequence merged_get(const void *data, size_t index) {
    const struct part *part = &((const struct merged *)data)->parts[index];
    return part->args->source->get(part->args->source->data, part->index);
}

static void merged_extract_words(void *context, size_t index, const float *logits, int64_t words,
                                 float *extracted) {
    const struct part *part = &((const struct merged *)context)->parts[index];
    part->args->extract_words(part->args->context, part->index, logits, words, extracted);
}

static void merged_receive(void *context, size_t index, const float *logits, int64_t count) {
    const struct part *part = &((const struct merged *)context)->parts[index];
    part->args->receive(part->args->context, part->index, logits, count);
}

static int are_alike(const struct infer_args *a, const struct infer_args *b) {
    return a->receive == b->receive && a->extract_words == b->extract_words &&
           a->extracted_count == b->extracted_count && a->reads_rows == b->reads_rows;
}

// Takes the calls like `first` from the list, it among them, and links them behind `*taken`.
static size_t take_waiting(struct network *network, const struct waiting_call *first,
                           struct waiting_call **taken) {
    size_t sequences = 0;
    *taken = NULL;
    pthread_mutex_lock(&network->list);
    for (struct waiting_call **at = &network->waiting; *at != NULL;) {
        struct waiting_call *call = *at;
        if (!are_alike(call->args, first->args)) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        call->next = *taken;
        call->is_taken = 1;
        *taken = call;
        sequences += call->args->source->count;
    }
    pthread_mutex_unlock(&network->list);
    return sequences;
}

static enum berth_status run_merged(const struct task_model *model, struct waiting_call *calls,
                                    size_t sequences, struct berth_error *error) {
    struct merged merged = {.parts = memory_array(sequences, sizeof *merged.parts)};
    if (merged.parts == NULL) {
        return error_no_memory(error, sequences * sizeof *merged.parts, "the texts");
    }
    for (const struct waiting_call *call = calls; call != NULL; call = call->next) {
        for (size_t i = 0; i < call->args->source->count; i++) {
            merged.parts[merged.count++] = (struct part){.args = call->args, .index = i};
        }
    }
    const struct packer_source source = {.get = merged_get, .data = &merged, .count = merged.count};
    struct infer_args args = *calls->args; // which the others' are like
    args.source = &source;
    args.extract_words = args.extract_words != NULL ? merged_extract_words : NULL;
    args.receive = merged_receive;
    args.context = &merged;
    const enum berth_status status = run_locked(model, args, error);
    memory_free(merged.parts);
    return status;
}

// The thread that gets the lock first runs all short calls that wait then; the others find theirs
// done when they get it.
static enum berth_status run_short(const struct task_model *model, const struct infer_args *args,
                                   struct berth_error *error) {
    struct network *network = model->network;
    struct waiting_call own = {.args = args}, *calls;
    pthread_mutex_lock(&network->list);
    own.next = network->waiting;
    network->waiting = &own;
    pthread_mutex_unlock(&network->list);
    fair_lock_acquire(network->lock);
    while (own.is_taken && !own.is_done) { // between two batches of the thread that runs it
        fair_lock_release(network->lock);
        fair_lock_acquire(network->lock);
    }
    if (!own.is_taken) {
        struct berth_error failure = {.status = BERTH_OK};
        const size_t sequences = take_waiting(network, &own, &calls);
        (void)run_merged(model, calls, sequences, &failure);
        for (struct waiting_call *call = calls; call != NULL; call = call->next) {
            call->error = failure;
            call->is_done = 1;
        }
    }
    fair_lock_release(network->lock);
    return error_copy(error, &own.error);
}

enum berth_status network_run(const struct task_model *model, struct infer_args args,
                              struct berth_error *error) {
    struct network *network = model->network;
    if (args.source->count == 0) {
        return BERTH_OK;
    }
    if (args.source->count <= SHORT_CALL) {
        return run_short(model, &args, error);
    }
    fair_lock_acquire(network->lock);
    const enum berth_status status = run_locked(model, args, error);
    fair_lock_release(network->lock);
    return status;
}

// --- texts as inputs -----------------------------------------------------------------------------

static enum berth_status list_valid(struct text_inputs *inputs, const struct task_model *model,
                                    prompt_finder *find, struct task_text *const *texts,
                                    size_t count, struct berth_error *error) {
    const struct model_files *files = &model->network->predictor.files;
    struct pair_example *examples = memory_array_zeroed(count, sizeof *examples);
    inputs->dataset.examples = examples;
    inputs->dataset.name = "the texts";
    inputs->texts = memory_array(count, sizeof *inputs->texts);
    if (examples == NULL || inputs->texts == NULL) {
        return error_no_memory(error, count * sizeof *examples, "the texts");
    }
    for (size_t i = 0; i < count; i++) {
        struct task_text *text = texts[i];
        if (text->texts[1] != NULL && !model_files_distinguish_pairs(files)) {
            char message[200];
            snprintf(message, sizeof message,
                     "the two texts of a pair cannot be distinguished by a model with "
                     "type_vocab_size %" PRId64 "; use a model with type_vocab_size 2",
                     files->shape.type_vocab_size);
            task_text_fail(text, BERTH_USAGE, message);
            continue;
        }
        const char *prompt = find != NULL ? find(model, text) : "";
        inputs->texts[inputs->dataset.count] = text;
        examples[inputs->dataset.count++] =
            (struct pair_example){.text = text->texts[0],
                                  .pair = text->texts[1],
                                  .prompt = *prompt != '\0' ? prompt : NULL,
                                  .has_windows = text->settings.overflow == TEXT_HAS_WINDOWS,
                                  .line = i + 1,
                                  .label = -1,
                                  .value = NAN,
                                  .label_count = -1};
    }
    return BERTH_OK;
}

enum berth_status text_inputs_make(struct text_inputs *inputs, const struct task_model *model,
                                   prompt_finder *find, struct task_text *const *texts,
                                   size_t count, struct berth_error *error) {
    *inputs = (struct text_inputs){.texts = NULL};
    TRY(list_valid(inputs, model, find, texts, count, error));
    TRY(pairs_put_prompts(&inputs->dataset, &inputs->prompted, error));
    TRY(pair_features_build(&inputs->dataset, model->tokenizer, model->max_tokens,
                            network_threads(model, inputs->dataset.count), &inputs->features,
                            error));
    // Gives the texts of features in place of those of examples.
    const struct pair_feature_set *set = &inputs->features;
    struct task_text **owners = memory_array(set->count, sizeof *owners);
    if (owners == NULL) {
        return error_no_memory(error, set->count * sizeof *owners, "the texts");
    }
    for (size_t i = 0; i < set->count; i++) {
        struct task_text *text = owners[i] = inputs->texts[set->features[i].example];
        text->tokens_read += set->features[i].length;
        text->truncated = set->features[i].truncated;
    }
    memory_free(inputs->texts);
    inputs->texts = owners;
    return BERTH_OK;
}

void text_inputs_done(struct text_inputs *inputs) {
    pair_feature_set_done(&inputs->features);
    memory_free(inputs->prompted);
    memory_free(inputs->texts);
    memory_free(inputs->dataset.examples);
}

struct packer_source text_inputs_source(const struct text_inputs *inputs) {
    return (struct packer_source){
        .get = pair_features_sequence, .data = &inputs->features, .count = inputs->features.count};
}

int text_check_finite(struct task_text *text, const float *numbers, size_t count) {
    const size_t finite = (size_t)finite_count(numbers, (int64_t)count);
    if (finite < count) {
        char message[200];
        snprintf(message, sizeof message,
                 "number %zu of %zu of the result is not finite (%g); the model's weights are "
                 "damaged or its training diverged",
                 finite + 1, count, (double)numbers[finite]);
        task_text_fail(text, BERTH_FAILURE, message);
    }
    return finite == count;
}
