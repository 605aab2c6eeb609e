// SPDX-License-Identifier: Apache-2.0
// Computes one update of the training loop: its micro-batches forward and backward, the sum of
// gradients over this rank's parts and over the ranks, the norm, and the optimizer's step. While
// the backward pass goes down the layers, the gradients of those above are already being exchanged
// (gradient_ready). Which sequences a micro-batch has is in update_split.c, the exchange in
// all_reduce.c, and the step in optimizer_plan.c.
#include "train/engine/update.h"

#include "core/check.h"
#include "core/memory.h"
#include "core/reduction_tree.h"
#include "core/stop.h"
#include "train/engine/update_split.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum dtype update_wire(const struct update_rules *rules) {
    return rules->parts > 0 ? DTYPE_F32 : rules->exchange.wire;
}

// --- opening ------------------------------------------------------------------------------------

// The number of partial sums of 1, 2, 4, ... parts.
static int levels_of(int own_parts) {
    int levels = 0;
    while (own_parts > 1 << levels) {
        levels++;
    }
    return levels;
}

size_t updater_level_bytes(const struct param_table *table, int own_parts) {
    return (size_t)levels_of(own_parts) * (size_t)table->total * sizeof(float);
}

static enum berth_status allocate_levels(struct updater *updater, struct berth_error *error) {
    const struct state *state = updater->engine->state;
    const size_t bytes = (size_t)state->table->total * sizeof(float);
    updater->level_count = levels_of(updater->own_parts);
    updater->levels = memory_array_zeroed((size_t)updater->level_count, sizeof *updater->levels);
    enum berth_status status =
        updater->levels != NULL ? BERTH_OK : error_no_memory(error, bytes, "sums of gradients");
    for (int i = 0; i < updater->level_count && status == BERTH_OK; i++) {
        updater->levels[i] = state->device->memory_new(state->device, bytes);
        status = updater->levels[i] != NULL
                     ? BERTH_OK
                     : device_no_memory(state->device, bytes, "sums of gradients", error);
    }
    return status;
}

// For micro-batches of up to `items` items.
static enum berth_status allocate_pieces(struct updater *updater, size_t items,
                                         struct berth_error *error) {
    const struct bert_embedding *embedding = &updater->engine->model.config->embedding;
    struct pieces *pieces = &updater->pieces;
    size_t texts = items;
    for (int64_t i = 0; i < embedding->objective_count; i++) {
        const size_t own = items * (size_t)embedding->objectives[i].texts;
        texts = own > texts ? own : texts;
    }
    pieces->starts = memory_array(texts + 2, sizeof *pieces->starts);
    pieces->texts = memory_array(texts, sizeof *pieces->texts);
    pieces->indices = memory_array(texts, sizeof *pieces->indices);
    return pieces->starts != NULL && pieces->texts != NULL && pieces->indices != NULL
               ? BERTH_OK
               : error_no_memory(error, texts * sizeof *pieces->indices,
                                 "the pieces of micro-batches");
}

static size_t earlier_loss_bytes(const struct updater *updater) {
    return (size_t)(updater->own_parts - 1) * ENGINE_LOSSES * sizeof(double);
}

static size_t class_bytes(const struct engine *engine) {
    return (size_t)engine->model.config->num_labels * sizeof(float);
}

static enum berth_status upload_class_weights(struct updater *updater, struct berth_error *error) {
    struct engine *engine = updater->engine;
    struct device *device = engine->state->device;
    const double *weights = updater->rules.class_weights;
    const size_t bytes = class_bytes(engine);
    if (weights == NULL) {
        return BERTH_OK;
    }
    float *narrow = memory_new(bytes);
    updater->class_weights = device->memory_new(device, bytes);
    if (narrow == NULL || updater->class_weights == NULL) {
        memory_free(narrow);
        return device_no_memory(device, bytes, "the weights of the classes", error);
    }
    for (int64_t k = 0; k < engine->model.config->num_labels; k++) {
        narrow[k] = (float)weights[k];
    }
    device->upload(device, updater->class_weights, narrow, bytes);
    memory_free(narrow);
    engine->model.class_weighting = (struct class_weighting){
        .weights = updater->class_weights, .smoothing = (float)updater->rules.label_smoothing};
    return BERTH_OK;
}

static void free_class_weights(struct updater *updater) {
    struct device *device = updater->engine->state->device;
    if (updater->class_weights != NULL) {
        device->memory_free(device, updater->class_weights, class_bytes(updater->engine));
    }
    updater->engine->model.class_weighting = (struct class_weighting){.weights = NULL};
}

static void wait_for_weights(void *context, size_t range) {
    struct updater *updater = context;
    all_reduce_wait_weights(&updater->all_reduce, range);
    replica_check_gathered(&updater->check, range);
}

enum berth_status updater_init(struct updater *updater, struct engine *engine,
                               const struct update_rules *rules, int64_t sequences,
                               struct berth_error *error) {
    struct comm *comm = engine->comm;
    *updater = (struct updater){.engine = engine, .rules = *rules};
    const int parts = rules->parts > 0 ? rules->parts : comm->size;
    updater->own_parts = parts / comm->size;
    struct all_reduce_rules exchange = rules->exchange;
    exchange.wire = update_wire(rules);
    TRY(all_reduce_init(&updater->all_reduce, comm, engine->state, &exchange, error));
    TRY(division_init(&updater->division, (size_t)parts, (size_t)sequences, error));
    updater->counts = memory_array((size_t)parts * 2 + 1, sizeof *updater->counts);
    if (updater->counts == NULL) {
        return error_no_memory(error, (size_t)parts * 2 * sizeof *updater->counts,
                               "counts of an update");
    }
    TRY(allocate_pieces(updater, (size_t)sequences, error));
    TRY(allocate_levels(updater, error));
    struct device *device = updater->engine->state->device;
    const size_t bytes = earlier_loss_bytes(updater);
    const size_t count = (size_t)updater->own_parts * ENGINE_LOSSES;
    updater->part_losses = memory_array(count, sizeof *updater->part_losses);
    if (updater->part_losses == NULL) {
        return error_no_memory(error, count * sizeof *updater->part_losses,
                               "the losses of an update's parts");
    }
    updater->earlier_losses = bytes > 0 ? device->memory_new(device, bytes) : NULL;
    if (bytes != 0 && updater->earlier_losses == NULL) {
        TRY(device_no_memory(device, bytes, "the losses of an update's parts", error));
    }
    TRY(upload_class_weights(updater, error));
    engine->model.positive_weight = (float)rules->positive_weight;
    engine->model.frozen = rules->optimizer.frozen;
    TRY(replica_check_init(&updater->check, rules->check_every, &updater->all_reduce, error));
    engine->model.source = (struct bert_source){.need = wait_for_weights, .context = updater};
    TRY(optimizer_plan_init(&updater->plan, &updater->rules.optimizer, engine->state, comm, error));
    updater->plan.norm = &engine->sums->norm;
    return BERTH_OK;
}

const char *updater_check(const struct updater *updater) {
    const struct engine *engine = updater->engine;
    CLAUSE(engine != NULL && engine->training != NULL && engine->state->gradients != NULL,
           "an updater has an engine that can train");
    CLAUSE(engine->model.source.context == updater,
           "the engine's model waits for the weights of this updater, which has not moved");
    CLAUSE(updater->plan.norm == &engine->sums->norm,
           "clipping reads the norm that the engine's sums have");
    CLAUSE(updater->own_parts >= 1 &&
               updater->division.parts == (size_t)(updater->own_parts * engine->comm->size),
           "each rank has equally many of an update's parts");
    CLAUSE(updater->rules.parts == 0 || (size_t)updater->rules.parts == updater->division.parts,
           "an update has the parts that the rules ask for");
    CLAUSE(updater->level_count == levels_of(updater->own_parts),
           "there is a partial sum for each power of two below the number of own parts");
    CLAUSE((updater->earlier_losses != NULL) == (updater->own_parts > 1),
           "all own parts but the last keep their losses");
    CLAUSE((updater->class_weights != NULL) == (updater->rules.class_weights != NULL),
           "the device has the weights of classes if the rules have them");
    return NULL;
}

void updater_finish(struct updater *updater) {
    all_reduce_finish(&updater->all_reduce);
}

void updater_done(struct updater *updater) {
    if (updater->engine == NULL) {
        return;
    }
    const struct state *state = updater->engine->state;
    optimizer_plan_done(&updater->plan);
    all_reduce_done(&updater->all_reduce);
    replica_check_done(&updater->check);
    division_done(&updater->division);
    for (int i = 0; i < updater->level_count && updater->levels != NULL; i++) {
        if (updater->levels[i] != NULL) {
            state->device->memory_free(state->device, updater->levels[i],
                                       (size_t)state->table->total * sizeof(float));
        }
    }
    memory_free(updater->levels);
    free_class_weights(updater);
    struct device *device = updater->engine->state->device;
    if (updater->earlier_losses != NULL) {
        device->memory_free(device, updater->earlier_losses, earlier_loss_bytes(updater));
    }
    memory_free(updater->part_losses);
    memory_free(updater->counts);
    memory_free(updater->pieces.starts);
    memory_free(updater->pieces.texts);
    memory_free(updater->pieces.indices);
    updater->engine->model.source = (struct bert_source){0};
    *updater = (struct updater){0};
}

// --- forward and backward -----------------------------------------------------------------------

static double loss_scale_of(const struct update_args *args) {
    return args->loss_scale > 0 ? args->loss_scale : 1;
}

// Adds the losses of a micro-batch of `texts` sequences to those of this rank's part `part`.
static void add_losses(const struct updater *updater, int part, const struct micro_batch *micro,
                       size_t texts) {
    struct engine *engine = updater->engine;
    struct device *device = engine->state->device;
    const struct batch *batch = &engine->packer.batch;
    double *sums = part + 1 < updater->own_parts
                       ? updater->earlier_losses + (size_t)part * ENGINE_LOSSES
                       : engine->sums->losses;
    for (int64_t i = 0; i < bert_loss_count(&engine->model); i++) {
        device->add_losses(device, sums + ENGINE_SEQUENCE_LOSS, bert_losses(engine->training, i),
                           (int64_t)texts,
                           micro->sequence_weight * bert_loss_weight(&engine->model, batch, i));
    }
    if (batch->masked_count > 0) {
        device->add_losses(device, sums + ENGINE_MASKED_LOSS, bert_masked_losses(engine->training),
                           batch->masked_count, micro->masked_weight);
    }
}

// --- the sum over parts -------------------------------------------------------------------------

// Adds elements [first, first + count) of a level to the gradients and clears them.
static void add_level(const struct updater *updater, int level, int64_t first, int64_t count) {
    const struct state *state = updater->engine->state;
    float *sum = updater->levels[level] + first;
    state->device->add(state->device, state->gradients + first, sum, count);
    state->device->zero(state->device, sum, (size_t)count * sizeof *sum);
}

// Adds the gradient of this rank's part `part` to the partial sums, as a binary counter carries,
// and clears it.
static void accumulate_part(const struct updater *updater, int part) {
    const struct state *state = updater->engine->state;
    const int64_t total = state->table->total;
    int level = 0;
    for (; part >> level & 1; level++) {
        add_level(updater, level, 0, total);
    }
    state->device->add(state->device, updater->levels[level], state->gradients, total);
    state->device->zero(state->device, state->gradients, (size_t)total * sizeof *state->gradients);
}

// Waits until the gradients of a range are summed over the ranks, and clears those that other ranks
// own.
static void discard_foreign(struct updater *updater, size_t range) {
    all_reduce_wait_gradients(&updater->all_reduce, range);
    all_reduce_clear(&updater->all_reduce, range);
}

// Called when the gradient of this rank's last part is final in a range: completes the sum over
// this rank's parts and starts its exchange.
static void gradient_ready(void *context, size_t range) {
    struct updater *updater = context;
    const struct param_range elements = param_range(updater->engine->state->table, range);
    for (int level = 0; level < updater->level_count; level++) {
        if ((updater->own_parts - 1) >> level & 1) {
            add_level(updater, level, elements.first, elements.count);
        }
    }
    all_reduce_begin(&updater->all_reduce, range);
    // Stage 2 keeps foreign gradients of only two ranges: one is exchanged while the next is
    // computed, and that before them is discarded.
    if (updater->engine->state->sharding.stage == 2) {
        if (updater->announced > 0) {
            discard_foreign(updater, updater->previous);
        }
        updater->previous = range;
        updater->announced++;
    }
}

static void discard_all_foreign(struct updater *updater) {
    for (size_t i = 0; i < param_range_count(updater->engine->state->table); i++) {
        discard_foreign(updater, i);
    }
    updater->announced = 0; // the next micro-batch adds to all ranges again
}

// Announces all ranges in the order of the backward pass, for a rank that has no micro-batch when
// others have one.
static void all_gradients_ready(struct updater *updater) {
    const size_t layers = (size_t)updater->engine->state->table->layer_count;
    const struct param_table *table = updater->engine->state->table;
    if (param_range(table, layers).count > 0) {
        gradient_ready(updater, layers);
    }
    for (size_t i = layers; i-- > 0;) {
        gradient_ready(updater, i);
    }
    gradient_ready(updater, layers + 1);
}

// --- micro-batches ------------------------------------------------------------------------------

// The part being computed.
struct part {
    int index;         // among this rank's
    size_t end;        // in the division
    size_t reductions; // times that its gradient is summed over the ranks; 0: a later part's is
    size_t reduced;    // of these, those that have begun
};

static struct part part_of(const struct update_split *split, int index) {
    const struct updater *updater = split->updater;
    const int is_last = index + 1 == updater->own_parts;
    // In stage 2 gradients are summed over the ranks after each micro-batch. Not with
    // virtual_ranks, whose sums have a fixed order.
    const int reduces_each = updater->engine->state->sharding.stage == 2 &&
                             updater->rules.parts == 0 &&
                             all_reduce_has_peers(&updater->all_reduce);
    return (struct part){.index = index,
                         .reductions = !is_last       ? 0
                                       : reduces_each ? split->max_micro_batches
                                                      : 1};
}

static const struct batch *forward(const struct update_split *split,
                                   const struct micro_batch *micro, size_t pieces, size_t index) {
    struct engine *engine = split->engine;
    const size_t first = split->updater->pieces.starts[index];
    const struct batch *batch = update_split_load(split, micro, index);
    bert_set_piece(engine->training, pieces > 1 ? (int64_t)first : -1);
    bert_forward(&engine->model, engine->training, batch, &split->dropout);
    return batch;
}

// The vectors of all pieces come first. Then these are computed again, from the last one to the
// first, with their gradients; the last one's activations are still there.
static void run_micro(const struct update_split *split, const struct micro_batch *micro,
                      struct part *part, struct update_result *result) {
    struct engine *engine = split->engine;
    struct device *device = engine->state->device;
    const struct gradient_listener listener = {.ready = gradient_ready, .context = split->updater};
    const int announces =
        part->reductions > 1 || (part->reductions == 1 && micro->first + micro->count == part->end);
    const float scale = (float)(micro->sequence_weight * loss_scale_of(split->args));
    const size_t pieces = update_split_cut(split, micro);
    const size_t texts = split->updater->pieces.starts[pieces];
    const struct batch *batch = NULL;
    device->mark(device, DEVICE_PHASE_FORWARD);
    for (size_t i = 0; i < pieces; i++) {
        batch = forward(split, micro, pieces, i);
        result->tokens += batch->token_count;
        result->masked += batch->masked_count;
        result->required_flops += 3 * engine_forward_flops(engine);
    }
    device->mark(device, DEVICE_PHASE_BACKWARD);
    if (part->reduced > 0) {
        discard_all_foreign(split->updater);
    }
    if (pieces > 1) {
        bert_group_losses(&engine->model, engine->training, split->args->source->objective,
                          (int64_t)texts, scale);
    }
    for (size_t i = pieces; i-- > 0;) {
        if (i + 1 < pieces) {
            batch = forward(split, micro, pieces, i);
        }
        bert_backward(&engine->model, engine->training, batch, &split->dropout, scale,
                      announces && i == 0 ? &listener : NULL);
    }
    part->reduced += (size_t)announces;
    add_losses(split->updater, part->index, micro, texts);
    device->mark(device, DEVICE_PHASE_OTHER);
    result->micro_batches++;
}

// Returns 0 if the update was aborted.
static int run_part(const struct update_split *split, int index, struct update_result *result) {
    struct updater *updater = split->updater;
    const struct update_args *args = split->args;
    const size_t number = (size_t)(split->engine->comm->rank * updater->own_parts + index);
    const size_t *starts = updater->division.starts + number;
    struct part part = part_of(split, index);
    part.end = starts[1];
    for (size_t done = starts[0]; done < part.end;) {
        if (stop_request_of(args->stop) == STOP_AT_ONCE) {
            result->aborted = 1;
            return 0;
        }
        const struct micro_batch micro = update_split_next(split, done, part.end);
        run_micro(split, &micro, &part, result);
        done += micro.count;
    }
    for (; part.reduced < part.reductions; part.reduced++) {
        if (part.reduced > 0) {
            discard_all_foreign(updater);
        }
        all_gradients_ready(updater);
    }
    return 1;
}

// 0 when it was left at once.
static int run_backward(const struct update_split *split, struct update_result *result) {
    struct updater *updater = split->updater;
    struct device *device = split->engine->state->device;
    updater->announced = 0;
    device->zero(device, split->engine->sums, sizeof *split->engine->sums);
    if (updater->earlier_losses != NULL) {
        device->zero(device, updater->earlier_losses, earlier_loss_bytes(updater));
    }
    for (int i = 0; i < updater->own_parts; i++) {
        if (!run_part(split, i, result)) {
            return 0;
        }
        if (i + 1 < updater->own_parts) {
            accumulate_part(updater, i);
        }
    }
    all_reduce_wait_all_gradients(&updater->all_reduce);
    return 1;
}

// --- waiting and the step ------------------------------------------------------------------------

// The sum of values[0], values[ENGINE_LOSSES], ... over `parts` parts, along the tree.
static double sum_of_parts(const double *values, int parts) {
    if (parts == 1) {
        return *values;
    }
    const int first = reduction_tree_split(parts);
    return sum_of_parts(values, first) +
           sum_of_parts(values + (size_t)first * ENGINE_LOSSES, parts - first);
}

// Adds the losses of this rank's parts along the tree, so that the sum over the ranks does not
// depend on how many parts each rank has.
static void sum_losses(const struct updater *updater, const struct engine_sums *last,
                       double sums[ENGINE_LOSSES]) {
    struct device *device = updater->engine->state->device;
    double *parts = updater->part_losses;
    const size_t earlier = earlier_loss_bytes(updater);
    if (earlier > 0) {
        device->download(device, parts, updater->earlier_losses, earlier);
    }
    memcpy((char *)parts + earlier, last->losses, sizeof last->losses);
    for (int i = 0; i < ENGINE_LOSSES; i++) {
        sums[i] = sum_of_parts(parts + i, updater->own_parts);
    }
}

// The only point where an update waits for the device and the other ranks.
static enum berth_status collect_results(const struct update_split *split,
                                         struct update_result *result, struct berth_error *error) {
    const struct engine *engine = split->engine;
    struct device *device = engine->state->device;
    struct comm *comm = engine->comm;
    enum { TOKENS = ENGINE_LOSSES, MASKED, FLOPS, SUMS };
    double sums[SUMS] = {[TOKENS] = (double)result->tokens,
                         [MASKED] = (double)result->masked,
                         [FLOPS] = result->required_flops};
    struct engine_sums own;
    optimizer_norm(&split->updater->plan, 1 / loss_scale_of(split->args));
    device->download(device, &own, engine->sums, sizeof own);
    sum_losses(split->updater, &own, sums);
    const enum berth_status status = device->status(device, error);
    if (status ==
        BERTH_OK) { // else agree() tells the other ranks, which may not have come this far
        comm->sum(comm, sums, SUMS);
    }
    result->loss = sums[ENGINE_SEQUENCE_LOSS] + sums[ENGINE_MASKED_LOSS];
    result->masked_loss = sums[ENGINE_MASKED_LOSS];
    result->tokens = (int64_t)sums[TOKENS];
    result->masked = (int64_t)sums[MASKED];
    result->total_flops = sums[FLOPS];
    result->grad_norm = sqrt(own.norm.sum_squares);
    result->stop = stop_request_of(split->args->stop);
    return comm->agree(comm, status, &result->stop, error);
}

// Called when this rank's part of a range has its new weights.
static void range_updated(void *context, size_t range) {
    struct updater *updater = context;
    all_reduce_clear(&updater->all_reduce, range);
    all_reduce_gather(&updater->all_reduce, range);
    replica_check_written(&updater->check, range);
}

static int is_above(double value, double limit) {
    return limit > 0 && value > limit;
}

static void step_optimizer(const struct update_split *split, struct update_result *result) {
    const struct update_args *args = split->args;
    const struct optimizer_step step = {.number = args->step - args->without_moments,
                                        .rate = args->rate,
                                        .gradient_scale = 1 / loss_scale_of(args),
                                        .grad_norm = result->grad_norm,
                                        .updated = range_updated,
                                        .context = split->updater};
    result->exceeds_limit = is_above(result->loss, args->loss_limit) ||
                            is_above(result->grad_norm, args->grad_norm_limit);
    if (isfinite(result->grad_norm) && isfinite(result->loss) && !result->exceeds_limit) {
        optimizer_step(&split->updater->plan, &step);
    }
}

enum berth_status update_run(struct updater *updater, const struct update_args *args,
                             struct update_result *result, struct berth_error *error) {
    struct device *device = updater->engine->state->device;
    assert(updater_check(updater) == NULL);
    struct update_split split = update_split_make(updater, args);
    double seconds[DEVICE_PHASES];
    *result = (struct update_result){.imbalance = division_imbalance(&updater->division)};
    if (!run_backward(&split, result)) {
        return device->status(device, error);
    }
    replica_check_begin(&updater->check);
    device->mark(device, DEVICE_PHASE_STEP);
    TRY(collect_results(&split, result, error));
    TRY(replica_check_end(&updater->check, args->step, 0, error));
    step_optimizer(&split, result);
    device->mark(device, DEVICE_PHASE_OTHER);
    device->times(device, seconds);
    result->forward_seconds = seconds[DEVICE_PHASE_FORWARD];
    result->backward_seconds = seconds[DEVICE_PHASE_BACKWARD];
    result->step_seconds = seconds[DEVICE_PHASE_STEP];
    return BERTH_OK;
}

enum berth_status update_check(struct updater *updater, int64_t updates,
                               struct berth_error *error) {
    replica_check_begin(&updater->check);
    return replica_check_end(&updater->check, updates, 1, error);
}

void update_discard(struct updater *updater) {
    const struct state *state = updater->engine->state;
    const size_t bytes = (size_t)state->table->total * sizeof *state->gradients;
    if (state->sharding.stage == 2) {
        state->device->discard(state->device, state->gradients, bytes);
    } else {
        state->device->zero(state->device, state->gradients, bytes);
    }
}

void update_suspend(struct updater *updater) {
    all_reduce_wait_all_weights(&updater->all_reduce);
}

enum berth_status update_resume(struct updater *updater, struct berth_error *error) {
    update_discard(updater);
    replica_check_done(&updater->check);
    return replica_check_init(&updater->check, updater->rules.check_every, &updater->all_reduce,
                              error);
}
