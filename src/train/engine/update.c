// SPDX-License-Identifier: Apache-2.0
#include "train/engine/update.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct update_rules update_rules_of(const struct berth_config *config,
                                    const struct bert_config *shape) {
    double hidden = config->hidden_dropout_prob;
    double head = shape->classifier_dropout;
    hidden = hidden < 0 ? shape->hidden_dropout_prob : hidden;
    double attention = config->attention_probs_dropout_prob;
    return (struct update_rules){
        .optimizer = optimizer_of(config),
        .micro_average = config->loss_average != NULL && strcmp(config->loss_average, "micro") == 0,
        .seed = (uint64_t)config->seed,
        .hidden_dropout = hidden,
        .attention_dropout = attention < 0 ? shape->attention_probs_dropout_prob : attention,
        .head_dropout = head < 0 ? hidden : head,
    };
}

enum berth_status updater_init(struct updater *updater, struct engine *engine,
                               const struct update_rules *rules, struct berth_error *error) {
    *updater = (struct updater){.engine = engine, .rules = *rules};
    return optimizer_plan_init(&updater->plan, &updater->rules.optimizer, engine->state,
                               engine->comm, error);
}

void updater_done(struct updater *updater) {
    optimizer_plan_done(&updater->plan);
    *updater = (struct updater){0};
}

// The state of one update.
struct run {
    const struct updater *updater;
    struct engine *engine;
    const struct update_args *args;
    struct bert_dropout dropout;
    // The divisors of the means: the update's sequences and masked tokens over all ranks; 0: those
    // of each micro-batch, whose means are averaged over `micro_batches`, else 1.
    double sequences, masked, micro_batches;
};

// A micro-batch: order[first .. first + count) of the part.
struct micro {
    size_t first, count;
    // The weight of a sequence's loss and of a masked token's loss in the update's loss.
    double sequence_weight, masked_weight;
};

// --- divisors of the means -----------------------------------------------------------------------

static int64_t count_masked(const struct update_args *args) {
    return packer_extent(args->source, args->order, args->count).masked;
}

static size_t cut_at(const struct update_args *args, size_t done) {
    return batching_cut(args->batching, args->source, args->order + done, args->count - done);
}

// A mean of means needs the number of micro-batches before the first one runs.
static size_t count_micro(const struct update_args *args) {
    size_t micro_batches = 0;
    for (size_t done = 0; done < args->count; micro_batches++) {
        done += cut_at(args, done);
    }
    return micro_batches;
}

static void find_divisors(struct run *run) {
    const struct update_args *args = run->args;
    struct comm *comm = run->engine->comm;
    if (run->updater->rules.micro_average) {
        run->micro_batches = (double)count_micro(args);
        comm->sum(comm, &run->micro_batches, 1);
        return;
    }
    run->micro_batches = 1;
    run->sequences = (double)args->total;
    if (run->engine->model.table->head == PARAM_HEAD_PRETRAINING) {
        run->masked = (double)count_masked(args);
        comm->sum(comm, &run->masked, 1);
    }
}

static struct run run_of(const struct updater *updater, const struct update_args *args) {
    const struct update_rules *rules = &updater->rules;
    struct run run = {.updater = updater,
                      .engine = updater->engine,
                      .args = args,
                      .dropout = {.seed = rules->seed,
                                  .step = (uint32_t)args->step,
                                  .hidden_probability = rules->hidden_dropout,
                                  .attention_probability = rules->attention_dropout,
                                  .head_probability = rules->head_dropout}};
    find_divisors(&run);
    return run;
}

static struct micro micro_at(const struct run *run, size_t first) {
    const struct update_args *args = run->args;
    const int own = run->sequences <= 0;
    struct micro micro = {.first = first, .count = cut_at(args, first)};
    double sequences = own ? (double)micro.count : run->sequences, masked = run->masked;
    if (own) {
        masked = (double)packer_extent(args->source, args->order + first, micro.count).masked;
    }
    micro.sequence_weight = 1 / (sequences * run->micro_batches);
    micro.masked_weight = masked > 0 ? 1 / (masked * run->micro_batches) : 0;
    return micro;
}

// --- forward and backward -----------------------------------------------------------------------

static double loss_scale_of(const struct update_args *args) {
    return args->loss_scale > 0 ? args->loss_scale : 1;
}

static const struct batch *forward(const struct run *run, const struct micro *micro) {
    struct engine *engine = run->engine;
    const struct engine_load load = {.source = run->args->source,
                                     .order = run->args->order + micro->first,
                                     .count = micro->count,
                                     .first_place = run->args->first + (int64_t)micro->first,
                                     .masked_weight =
                                         (float)(micro->masked_weight / micro->sequence_weight)};
    const struct batch *batch = engine_load(engine, &load);
    bert_forward(&engine->model, engine->training, batch, &run->dropout);
    return batch;
}

static void add_losses(struct engine *engine, const struct micro *micro) {
    struct device *device = engine->state->device;
    const struct batch *batch = &engine->packer.batch;
    device->add_losses(device, engine->losses + ENGINE_SEQUENCE_LOSS, bert_losses(engine->training),
                       batch->sequence_count, micro->sequence_weight);
    if (batch->masked_count > 0) {
        device->add_losses(device, engine->losses + ENGINE_MASKED_LOSS,
                           bert_masked_losses(engine->training), batch->masked_count,
                           micro->masked_weight);
    }
}

// The gradient's elements in this range are final on this rank.
static void reduce(void *context, int64_t first, int64_t count) {
    const struct engine *engine = context;
    const struct comm_range range = {.name = "gradients",
                                     .data = engine->state->gradients + first,
                                     .first = first,
                                     .count = count,
                                     .dtype = DTYPE_F32};
    engine->comm->reduce_begin(engine->comm, &range);
}

static void run_micro(const struct run *run, const struct micro *micro,
                      struct update_result *result) {
    struct engine *engine = run->engine;
    struct device *device = engine->state->device;
    const struct bert_sink sink = {.ready = reduce, .context = engine};
    const int is_last = micro->first + micro->count == run->args->count;
    device->mark(device, DEVICE_PHASE_FORWARD);
    const struct batch *batch = forward(run, micro);
    device->mark(device, DEVICE_PHASE_BACKWARD);
    bert_backward(&engine->model, engine->training, batch, &run->dropout,
                  (float)(micro->sequence_weight * loss_scale_of(run->args)),
                  is_last ? &sink : NULL);
    add_losses(engine, micro);
    device->mark(device, DEVICE_PHASE_OTHER);
    result->tokens += batch->token_count;
    result->masked += batch->masked_count;
    result->micro_batches++;
    result->needed_flops += 3 * engine_forward_flops(engine);
}

// Returns 0 if it left early.
static int run_backward(const struct run *run, struct update_result *result) {
    const struct update_args *args = run->args;
    struct engine *engine = run->engine;
    struct device *device = engine->state->device;
    device->zero(device, engine->losses, ENGINE_LOSSES * sizeof *engine->losses);
    for (size_t done = 0; done < args->count;) {
        if (args->stop != NULL && *args->stop >= 2) {
            result->left = 1;
            return 0;
        }
        const struct micro micro = micro_at(run, done);
        run_micro(run, &micro, result);
        done += micro.count;
    }
    engine->comm->reduce_wait(engine->comm);
    return 1;
}

// --- waiting and the step ------------------------------------------------------------------------

// The only place where an update waits for the device and for the other ranks.
static enum berth_status ask(const struct run *run, struct update_result *result,
                             struct berth_error *error) {
    const struct engine *engine = run->engine;
    struct device *device = engine->state->device;
    struct comm *comm = engine->comm;
    double losses[ENGINE_LOSSES];
    struct grad_stats norm;
    optimizer_norm(&run->updater->plan, 1 / loss_scale_of(run->args));
    device->download(device, losses, engine->losses, sizeof losses);
    device->download(device, &norm, run->updater->plan.norm, sizeof norm);
    comm->sum(comm, losses, ENGINE_LOSSES);
    result->loss = losses[ENGINE_SEQUENCE_LOSS] + losses[ENGINE_MASKED_LOSS];
    result->masked_loss = losses[ENGINE_MASKED_LOSS];
    result->grad_norm = sqrt(norm.sum_squares);
    result->stop = run->args->stop != NULL ? *run->args->stop : 0;
    return comm->agree(comm, device->status(device, error), &result->stop, error);
}

// Distributes each rank's updated weights to all ranks.
static void gather(const struct engine *engine) {
    const struct state *state = engine->state;
    for (size_t i = 0; i < param_range_count(state->table); i++) {
        const struct param_range range = param_range(state->table, i);
        const struct comm_range weights = {.name = "weights",
                                           .data = state->master + range.first,
                                           .first = range.first,
                                           .count = range.count,
                                           .dtype = DTYPE_F32};
        engine->comm->gather_begin(engine->comm, &weights);
    }
    engine->comm->gather_wait(engine->comm);
}

static void take_step(const struct run *run, const struct update_result *result) {
    const struct update_args *args = run->args;
    const struct optimizer_step step = {.number = args->step - args->skipped,
                                        .learning_rate = args->learning_rate,
                                        .gradient_scale = 1 / loss_scale_of(args),
                                        .grad_norm = result->grad_norm};
    if (isfinite(result->grad_norm) && isfinite(result->loss)) {
        optimizer_step(&run->updater->plan, &step);
        gather(run->engine);
    }
}

enum berth_status update_run(struct updater *updater, const struct update_args *args,
                             struct update_result *result, struct berth_error *error) {
    struct device *device = updater->engine->state->device;
    const struct run run = run_of(updater, args);
    double seconds[DEVICE_PHASES];
    *result = (struct update_result){0};
    if (!run_backward(&run, result)) {
        return device->status(device, error);
    }
    device->mark(device, DEVICE_PHASE_STEP);
    TRY(ask(&run, result, error));
    take_step(&run, result);
    device->mark(device, DEVICE_PHASE_OTHER);
    device->times(device, seconds);
    result->forward_seconds = seconds[DEVICE_PHASE_FORWARD];
    result->backward_seconds = seconds[DEVICE_PHASE_BACKWARD];
    result->step_seconds = seconds[DEVICE_PHASE_STEP];
    return BERTH_OK;
}

void update_discard(struct updater *updater) {
    const struct state *state = updater->engine->state;
    state->device->zero(state->device, state->gradients,
                        (size_t)state->table->total * sizeof *state->gradients);
}

// --- finding numbers that are not finite ---------------------------------------------------------

static int is_finite(const float *values, const struct param *param) {
    const float *own = values + param->offset;
    for (int64_t i = 0; i < param->rows * param->cols; i++) {
        if (!isfinite(own[i])) {
            return 0;
        }
    }
    return 1;
}

// The order in which the backward pass reaches a parameter: head and final norm first, the
// embeddings last.
static int64_t backward_rank(const struct param *param, int64_t layers) {
    int layer;
    if (sscanf(param->name, "bert.encoder.layer.%d.", &layer) == 1) {
        return layers - layer;
    }
    int is_embedding = strncmp(param->name, "bert.embeddings.", 16) == 0;
    return is_embedding ? layers + 1 : 0;
}

static const struct param *first_not_finite(const struct engine *engine, const float *values,
                                            size_t *affected) {
    const struct param_table *table = engine->state->table;
    int64_t layers = engine->model.config->num_hidden_layers;
    const struct param *first = NULL;
    *affected = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct param *param = &table->params[i];
        if (is_finite(values, param)) {
            continue;
        }
        ++*affected;
        if (first == NULL || backward_rank(param, layers) < backward_rank(first, layers)) {
            first = param;
        }
    }
    return first;
}

// The sentence being written.
struct sentence {
    char *text;
    size_t size;
};

static int describe_not_finite(const struct engine *engine, const float *values, const char *kind,
                               const struct sentence *out) {
    size_t affected;
    const struct param *param = first_not_finite(engine, values, &affected);
    if (param != NULL) {
        snprintf(out->text, out->size,
                 "the %s of %s is not finite (%zu of %zu parameters are affected)", kind,
                 param->name, affected, engine->state->table->count);
    }
    return param != NULL;
}

static void name_place(const struct engine *engine, int64_t place, int64_t micro_batch,
                       const struct sentence *out) {
    char name[64] = "bert.embeddings";
    if (place > engine->model.config->num_hidden_layers) {
        snprintf(name, sizeof name, "%s", param_head_row(engine->model.table->head)->name);
    } else if (place > 0) {
        snprintf(name, sizeof name, "bert.encoder.layer.%" PRId64, place - 1);
    }
    snprintf(out->text, out->size,
             "the output of %s is the first that is not finite (micro-batch %" PRId64
             " of the update; all weights are finite)",
             name, micro_batch + 1);
}

// Recomputes the micro-batches until an output is not finite.
static int blame_forward(const struct updater *updater, const struct update_args *args,
                         const struct sentence *out) {
    struct engine *engine = updater->engine;
    const struct run run = run_of(updater, args);
    int64_t micro_batch = 0;
    for (size_t done = 0; done < args->count; micro_batch++) {
        const struct micro micro = micro_at(&run, done);
        const struct batch *batch = forward(&run, &micro);
        const int64_t place = bert_first_nonfinite(&engine->model, engine->training, batch);
        if (place >= 0) {
            name_place(engine, place, micro_batch, out);
            return 1;
        }
        done += micro.count;
    }
    return 0;
}

enum berth_status update_blame(struct updater *updater, const struct update_args *args, char *text,
                               size_t size, struct berth_error *error) {
    const struct engine *engine = updater->engine;
    const struct state *state = engine->state;
    const struct sentence out = {text, size};
    float *weights = NULL, *gradients = NULL;
    enum berth_status status;
    TRY_DONE(state_borrow(state, state->master, 1, &weights, error));
    TRY_DONE(state_borrow(state, state->gradients, 1, &gradients, error));
    if (!describe_not_finite(engine, weights, "value", &out) &&
        !blame_forward(updater, args, &out) &&
        !describe_not_finite(engine, gradients, "gradient", &out)) {
        snprintf(text, size, "the sum of the gradient's squares is too large for a double");
    }
done:
    state_release(state, state->master, weights);
    state_release(state, state->gradients, gradients);
    return status;
}
