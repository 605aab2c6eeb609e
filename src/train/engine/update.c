// SPDX-License-Identifier: Apache-2.0
#include "train/engine/update.h"

#include "core/memory.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Messages have no f16: a sum over ranks overflows it where no rank's gradient does.
static enum dtype wire_of(const struct berth_config *config, enum dtype compute) {
    const char *name = config->communication_data_type;
    const int is_bf16 = name == NULL ? compute == DTYPE_BF16 : strcmp(name, "bf16") == 0;
    return is_bf16 ? DTYPE_BF16 : DTYPE_F32;
}

struct update_rules update_rules_of(const struct berth_config *config,
                                    const struct bert_config *shape, enum dtype compute) {
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
        .label_smoothing = config->label_smoothing_factor,
        .parts = (int)config->virtual_ranks,
        .exchange = {.wire = wire_of(config, compute),
                     .waits = !config->overlap_comm,
                     .gradient_bucket = config->reduce_bucket_size,
                     .weight_bucket = config->allgather_bucket_size},
        .check_every = config->replica_check_steps,
    };
}

enum dtype update_wire(const struct update_rules *rules) {
    return rules->parts > 0 ? DTYPE_F32 : rules->exchange.wire;
}

// --- opening ------------------------------------------------------------------------------------

// Sums of 1, 2, 4, ... parts that wait for their neighbours.
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

static enum berth_status take_levels(struct updater *updater, struct berth_error *error) {
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

static size_t class_bytes(const struct engine *engine) {
    return (size_t)engine->model.config->num_labels * sizeof(float);
}

static enum berth_status take_class_rule(struct updater *updater, struct berth_error *error) {
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
    engine->model.class_rule = (struct class_rule){
        .weights = updater->class_weights, .smoothing = (float)updater->rules.label_smoothing};
    return BERTH_OK;
}

static void drop_class_rule(struct updater *updater) {
    struct device *device = updater->engine->state->device;
    if (updater->class_weights != NULL) {
        device->memory_free(device, updater->class_weights, class_bytes(updater->engine));
    }
    updater->engine->model.class_rule = (struct class_rule){.weights = NULL};
}

static void need(void *context, size_t range) {
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
    TRY(take_levels(updater, error));
    TRY(take_class_rule(updater, error));
    engine->model.frozen = rules->optimizer.frozen;
    TRY(replica_check_init(&updater->check, rules->check_every, &updater->all_reduce, error));
    engine->model.source = (struct bert_source){.need = need, .context = updater};
    TRY(optimizer_plan_init(&updater->plan, &updater->rules.optimizer, engine->state, comm, error));
    updater->plan.norm = &engine->sums->norm;
    return BERTH_OK;
}

void updater_end(struct updater *updater) {
    all_reduce_end(&updater->all_reduce);
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
    drop_class_rule(updater);
    memory_free(updater->counts);
    updater->engine->model.source = (struct bert_source){0};
    *updater = (struct updater){0};
}

// The state of one update.
struct run {
    struct updater *updater;
    struct engine *engine;
    const struct update_args *args;
    struct bert_dropout dropout;
    // What the means divide by: the update's sequences and masked tokens, over all parts, each with
    // the weight of its class; 0: those
    // of each micro-batch, whose means are averaged over `micro_batches`, else 1.
    double sequences, masked, micro_batches;
    size_t most_micro; // micro-batches of a part, at most
};

// Sequences [first, first + count) of the division.
struct micro {
    size_t first, count;
    // The weight of a sequence's loss and of a masked token's loss in the update's loss.
    double sequence_weight, masked_weight;
};

// --- divisors of the means -----------------------------------------------------------------------

static size_t cut_at(const struct run *run, size_t first, size_t end) {
    const struct update_args *args = run->args;
    return batching_cut(args->batching, args->source, run->updater->division.order + first,
                        end - first);
}

static size_t count_micro(const struct run *run, size_t part) {
    const struct division *division = &run->updater->division;
    size_t micro_batches = 0;
    for (size_t done = division->starts[part]; done < division->starts[part + 1]; micro_batches++) {
        done += cut_at(run, done, division->starts[part + 1]);
    }
    return micro_batches;
}

struct divisors {
    double sequences, masked;
};

// The weight of a class; that of one that is ignored is 0, because its loss is.
static double class_weight(const struct run *run, int32_t label) {
    const double *weights = run->updater->rules.class_weights;
    return label >= 0 && label < run->engine->model.config->num_labels ? weights[label] : 0;
}

static struct divisors divisors_of(const struct run *run, const uint32_t *order, size_t count) {
    const struct packer_source *source = run->args->source;
    struct divisors sums = {.sequences = (double)count};
    const enum param_head head = run->engine->model.table->head;
    const int per_token = head == PARAM_HEAD_TOKEN;
    if (run->updater->rules.class_weights == NULL) {
        sums.masked = per_token || param_head_decodes(head)
                          ? (double)packer_extent(source, order, count).masked
                          : 0;
        return sums;
    }
    sums.sequences = per_token ? (double)count : 0;
    for (size_t i = 0; i < count; i++) {
        const struct packer_sequence sequence = source->get(source->data, order[i]);
        sums.sequences += per_token ? 0 : class_weight(run, sequence.label);
        for (int32_t k = 0; k < sequence.masked_count; k++) {
            sums.masked += class_weight(run, sequence.masked_labels[k]);
        }
    }
    return sums;
}

// Counts what this rank knows: all of the update, or its own part.
static void count_parts(const struct run *run) {
    const struct update_args *args = run->args;
    const struct division *division = &run->updater->division;
    double *counts = run->updater->counts;
    for (size_t part = 0; part < division->parts; part++) {
        counts[part] = division->loads[part];
        counts[division->parts + part] = (double)count_micro(run, part);
    }
    counts[2 * division->parts] = divisors_of(run, args->order, args->count).masked;
}

// Where each rank knows its own part, all get the sums before the first micro-batch, so that its
// loss is divided by the counts of the whole update.
static void share_counts(const struct run *run) {
    struct comm *comm = run->engine->comm;
    struct division *division = &run->updater->division;
    if (run->args->others > 0) {
        comm->sum(comm, run->updater->counts, 2 * division->parts + 1);
        memcpy(division->loads, run->updater->counts, division->parts * sizeof(double));
    }
}

static void find_divisors(struct run *run) {
    const struct update_args *args = run->args;
    const size_t parts = run->updater->division.parts;
    const double *micro = run->updater->counts + parts;
    double micro_batches = 0;
    for (size_t part = 0; part < parts; part++) {
        const size_t own = (size_t)micro[part];
        micro_batches += micro[part];
        run->most_micro = own > run->most_micro ? own : run->most_micro;
    }
    if (run->updater->rules.micro_average) {
        run->micro_batches = micro_batches;
        return;
    }
    run->micro_batches = 1;
    run->sequences = divisors_of(run, args->order, args->count).sequences + (double)args->others;
    run->masked = micro[parts];
}

static struct run run_of(struct updater *updater, const struct update_args *args) {
    const struct update_rules *rules = &updater->rules;
    struct division *division = &updater->division;
    struct run run = {.updater = updater,
                      .engine = updater->engine,
                      .args = args,
                      .dropout = {.seed = rules->seed,
                                  .step = (uint32_t)args->step,
                                  .hidden_probability = rules->hidden_dropout,
                                  .attention_probability = rules->attention_dropout,
                                  .head_probability = rules->head_dropout}};
    if (args->others > 0) {
        division_take(division, args->source, args->order, args->count,
                      updater->engine->model.config, (size_t)updater->engine->comm->rank);
    } else {
        division_make(division, args->source, args->order, args->count,
                      updater->engine->model.config,
                      batching_most_sequences(args->batching, args->count, division->parts));
    }
    count_parts(&run);
    return run;
}

static struct micro micro_at(const struct run *run, size_t first, size_t end) {
    const int own = run->sequences <= 0;
    struct micro micro = {.first = first, .count = cut_at(run, first, end)};
    struct divisors sums = {run->sequences, run->masked};
    if (own) {
        sums = divisors_of(run, run->updater->division.order + first, micro.count);
    }
    micro.sequence_weight = 1 / (sums.sequences * run->micro_batches);
    micro.masked_weight = sums.masked > 0 ? 1 / (sums.masked * run->micro_batches) : 0;
    return micro;
}

// --- forward and backward -----------------------------------------------------------------------

static double loss_scale_of(const struct update_args *args) {
    return args->loss_scale > 0 ? args->loss_scale : 1;
}

static const struct batch *load(const struct run *run, const struct micro *micro) {
    struct engine *engine = run->engine;
    const struct division *division = &run->updater->division;
    const struct engine_load load = {.source = run->args->source,
                                     .order = division->order + micro->first,
                                     .places = division->places + micro->first,
                                     .count = micro->count,
                                     .masked_weight =
                                         (float)(micro->masked_weight / micro->sequence_weight)};
    return engine_load(engine, &load);
}

enum graph_part { GRAPH_FORWARD, GRAPH_BACKWARD, GRAPH_ANNOUNCING_BACKWARD, GRAPH_PARTS };

// The size of a batch in eighths of a power of two: batches of about one size have the same
// operations, and mostly the same algorithms.
static uint64_t size_class(int64_t rows) {
    uint64_t bits = 0, size = (uint64_t)rows;
    for (; size >= 16; size /= 2) {
        bits++;
    }
    return bits * 16 + size;
}

// Only of a rank that is alone: where others exchange what it computes, it begins that between two
// operations.
static int begin_graph(const struct run *run, const struct batch *batch, enum graph_part part) {
    struct device *device = run->engine->state->device;
    if (device->graph_begin == NULL || run->engine->comm->size > 1) {
        return 0;
    }
    const uint64_t has_slack = batch->row_count > batch->token_count;
    device->graph_begin(device, 1 + (size_class(batch->row_count) * 2 + has_slack) * GRAPH_PARTS +
                                    (uint64_t)part);
    return 1;
}

static void end_graph(const struct run *run, int begun) {
    struct device *device = run->engine->state->device;
    if (begun) {
        device->graph_end(device);
    }
}

static void forward(const struct run *run, const struct batch *batch) {
    struct engine *engine = run->engine;
    const int begun = begin_graph(run, batch, GRAPH_FORWARD);
    bert_forward(&engine->model, engine->training, batch, &run->dropout);
    end_graph(run, begun);
}

static void add_losses(struct engine *engine, const struct micro *micro) {
    struct device *device = engine->state->device;
    const struct batch *batch = &engine->packer.batch;
    device->add_losses(device, &engine->sums->losses[ENGINE_SEQUENCE_LOSS],
                       bert_losses(engine->training), batch->sequence_count,
                       micro->sequence_weight);
    if (batch->masked_count > 0) {
        device->add_losses(device, &engine->sums->losses[ENGINE_MASKED_LOSS],
                           bert_masked_losses(engine->training), batch->masked_count,
                           micro->masked_weight);
    }
}

// --- the sum over parts -------------------------------------------------------------------------

// gradients += levels[level], which becomes 0: elements [first, first + count).
static void take_level(const struct updater *updater, int level, int64_t first, int64_t count) {
    const struct state *state = updater->engine->state;
    float *sum = updater->levels[level] + first;
    state->device->add(state->device, state->gradients + first, sum, count);
    state->device->zero(state->device, sum, (size_t)count * sizeof *sum);
}

// Adds the gradient of part `part` of this rank's to those before it, as a binary counter carries,
// and clears it.
static void keep_part(const struct updater *updater, int part) {
    const struct state *state = updater->engine->state;
    const int64_t total = state->table->total;
    int level = 0;
    for (; part >> level & 1; level++) {
        take_level(updater, level, 0, total);
    }
    state->device->add(state->device, updater->levels[level], state->gradients, total);
    state->device->zero(state->device, state->gradients, (size_t)total * sizeof *state->gradients);
}

// Waits until the gradients of a range were added over the ranks, and clears those of other owners.
static void drop_foreign(struct updater *updater, size_t range) {
    all_reduce_wait_gradients(&updater->all_reduce, range);
    all_reduce_clear(&updater->all_reduce, range);
}

// Stage 2 holds the gradients of few ranges that others own: those of the range before the last are
// dropped, so that one is exchanged while the next is computed.
static void drop_behind(struct updater *updater, size_t range) {
    if (updater->engine->state->share.stage == 2) {
        if (updater->announced > 0) {
            drop_foreign(updater, updater->before);
        }
        updater->before = range;
        updater->announced++;
    }
}

// The gradient of the last part is final in this range: the sum over this rank's parts is.
static void range_ready(void *context, size_t range) {
    struct updater *updater = context;
    const struct param_range elements = param_range(updater->engine->state->table, range);
    for (int level = 0; level < updater->level_count; level++) {
        if ((updater->own_parts - 1) >> level & 1) {
            take_level(updater, level, elements.first, elements.count);
        }
    }
    all_reduce_begin(&updater->all_reduce, range);
    drop_behind(updater, range);
}

static void drop_all_foreign(struct updater *updater) {
    for (size_t i = 0; i < param_range_count(updater->engine->state->table); i++) {
        drop_foreign(updater, i);
    }
    updater->announced = 0; // what the next micro-batch adds to the last range stays
}

// All ranges in the order of the backward pass, for a rank that has no micro-batch where others
// have one.
static void announce_all(struct updater *updater) {
    const size_t layers = (size_t)updater->engine->state->table->layer_count;
    const struct param_table *table = updater->engine->state->table;
    if (param_range(table, layers).count > 0) {
        range_ready(updater, layers);
    }
    for (size_t i = layers; i-- > 0;) {
        range_ready(updater, i);
    }
    range_ready(updater, layers + 1);
}

// --- micro-batches ------------------------------------------------------------------------------

// Stage 2 adds the gradients over the ranks after each micro-batch; the next one is added to what a
// rank owns. Not where the number of parts is set: their sums have an order of their own.
static int reduces_each(const struct updater *updater) {
    return updater->engine->state->share.stage == 2 && updater->rules.parts == 0 &&
           all_reduce_is_shared(&updater->all_reduce);
}

// One part on its way.
struct part {
    size_t end;       // in the division
    size_t announces; // times that its gradient is added over the ranks; 0: a later part's is
    size_t announced; // of these
};

static struct part part_of(const struct run *run, int index) {
    const struct updater *updater = run->updater;
    const int is_last = index + 1 == updater->own_parts;
    return (struct part){.announces = !is_last ? 0 : reduces_each(updater) ? run->most_micro : 1};
}

static void run_micro(const struct run *run, const struct micro *micro, struct part *part,
                      struct update_result *result) {
    struct engine *engine = run->engine;
    struct device *device = engine->state->device;
    const struct bert_sink sink = {.ready = range_ready, .context = run->updater};
    const int announces =
        part->announces > 1 || (part->announces == 1 && micro->first + micro->count == part->end);
    device->mark(device, DEVICE_PHASE_FORWARD);
    const struct batch *batch = load(run, micro);
    forward(run, batch);
    device->mark(device, DEVICE_PHASE_BACKWARD);
    if (part->announced > 0) {
        drop_all_foreign(run->updater);
    }
    const int begun =
        begin_graph(run, batch, announces ? GRAPH_ANNOUNCING_BACKWARD : GRAPH_BACKWARD);
    bert_backward(&engine->model, engine->training, batch, &run->dropout,
                  (float)(micro->sequence_weight * loss_scale_of(run->args)),
                  announces ? &sink : NULL);
    part->announced += (size_t)announces;
    add_losses(engine, micro);
    end_graph(run, begun);
    device->mark(device, DEVICE_PHASE_OTHER);
    result->tokens += batch->token_count;
    result->masked += batch->masked_count;
    result->micro_batches++;
    result->needed_flops += 3 * engine_forward_flops(engine);
}

// 0 when it was left at once.
static int run_part(const struct run *run, int index, struct update_result *result) {
    struct updater *updater = run->updater;
    const struct update_args *args = run->args;
    const size_t number = (size_t)(run->engine->comm->rank * updater->own_parts + index);
    const size_t *starts = updater->division.starts + number;
    struct part part = part_of(run, index);
    part.end = starts[1];
    for (size_t done = starts[0]; done < part.end;) {
        if (args->stop != NULL && *args->stop >= 2) {
            result->left = 1;
            return 0;
        }
        const struct micro micro = micro_at(run, done, part.end);
        run_micro(run, &micro, &part, result);
        done += micro.count;
    }
    for (; part.announced < part.announces; part.announced++) {
        if (part.announced > 0) {
            drop_all_foreign(updater);
        }
        announce_all(updater);
    }
    return 1;
}

// 0 when it was left at once.
static int run_backward(const struct run *run, struct update_result *result) {
    struct updater *updater = run->updater;
    struct device *device = run->engine->state->device;
    updater->announced = 0;
    device->zero(device, run->engine->sums, sizeof *run->engine->sums);
    for (int i = 0; i < updater->own_parts; i++) {
        if (!run_part(run, i, result)) {
            return 0;
        }
        if (i + 1 < updater->own_parts) {
            keep_part(updater, i);
        }
    }
    all_reduce_wait_all_gradients(&updater->all_reduce);
    return 1;
}

// --- waiting and the step ------------------------------------------------------------------------

// The only place where an update waits for the device and for the other ranks.
static enum berth_status ask(const struct run *run, struct update_result *result,
                             struct berth_error *error) {
    const struct engine *engine = run->engine;
    struct device *device = engine->state->device;
    struct comm *comm = engine->comm;
    double sums[ENGINE_LOSSES + 2] = {[ENGINE_LOSSES] = (double)result->tokens,
                                      (double)result->masked};
    struct engine_sums own;
    optimizer_norm(&run->updater->plan, 1 / loss_scale_of(run->args));
    device->download(device, &own, engine->sums, sizeof own);
    memcpy(sums, own.losses, sizeof own.losses);
    comm->sum(comm, sums, ENGINE_LOSSES + 2);
    result->loss = sums[ENGINE_SEQUENCE_LOSS] + sums[ENGINE_MASKED_LOSS];
    result->masked_loss = sums[ENGINE_MASKED_LOSS];
    result->tokens = (int64_t)sums[ENGINE_LOSSES];
    result->masked = (int64_t)sums[ENGINE_LOSSES + 1];
    result->grad_norm = sqrt(own.norm.sum_squares);
    result->stop = run->args->stop != NULL ? *run->args->stop : 0;
    return comm->agree(comm, device->status(device, error), &result->stop, error);
}

// This rank's part of a range has its new weights.
static void range_updated(void *context, size_t range) {
    struct updater *updater = context;
    all_reduce_clear(&updater->all_reduce, range);
    all_reduce_gather(&updater->all_reduce, range);
    replica_check_written(&updater->check, range);
}

static int is_above(double value, double limit) {
    return limit > 0 && value > limit;
}

static void take_step(const struct run *run, struct update_result *result) {
    const struct update_args *args = run->args;
    const struct optimizer_step step = {.number = args->step - args->skipped,
                                        .learning_rate = args->learning_rate,
                                        .gradient_scale = 1 / loss_scale_of(args),
                                        .grad_norm = result->grad_norm,
                                        .updated = range_updated,
                                        .context = run->updater};
    result->is_held = is_above(result->loss, args->most_loss) ||
                      is_above(result->grad_norm, args->most_grad_norm);
    if (isfinite(result->grad_norm) && isfinite(result->loss) && !result->is_held) {
        optimizer_step(&run->updater->plan, &step);
    }
}

enum berth_status update_run(struct updater *updater, const struct update_args *args,
                             struct update_result *result, struct berth_error *error) {
    struct device *device = updater->engine->state->device;
    struct run run = run_of(updater, args);
    double seconds[DEVICE_PHASES];
    share_counts(&run);
    find_divisors(&run);
    *result = (struct update_result){.imbalance = division_imbalance(&updater->division)};
    if (!run_backward(&run, result)) {
        return device->status(device, error);
    }
    TRY(replica_check_run(&updater->check, args->step, 0, error));
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

enum berth_status update_check(struct updater *updater, int64_t updates,
                               struct berth_error *error) {
    return replica_check_run(&updater->check, updates, 1, error);
}

void update_discard(struct updater *updater) {
    const struct state *state = updater->engine->state;
    const size_t bytes = (size_t)state->table->total * sizeof *state->gradients;
    if (state->share.stage == 2) {
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

// --- finding numbers that are not finite ---------------------------------------------------------

// Whether all numbers of a parameter that this rank owns are finite.
static int is_finite(const struct state *state, const float *values, const struct param *param) {
    for (size_t i = 0; i < state->own.count; i++) {
        const struct partition_span own =
            partition_part(&state->own, i, param->offset, param->rows * param->cols);
        for (int64_t k = own.first; k < own.first + own.count; k++) {
            if (!isfinite(values[k])) {
                return 0;
            }
        }
    }
    return 1;
}

// affected[i] becomes the number of ranks that own a number of parameter i that is not finite.
// affected NULL: out of memory.
static enum berth_status count_not_finite(const struct engine *engine, const float *buffer,
                                          double *affected, struct berth_error *error) {
    const struct state *state = engine->state;
    struct comm *comm = engine->comm;
    float *values = NULL;
    int none = 0;
    enum berth_status status = affected != NULL
                                   ? state_borrow(state, buffer, 1, &values, error)
                                   : error_no_memory(error, state->table->count * sizeof *affected,
                                                     "a number for each parameter");
    for (size_t i = 0; i < state->table->count && status == BERTH_OK; i++) {
        affected[i] = !is_finite(state, values, &state->table->params[i]);
    }
    if (status == BERTH_OK) {
        state_release(state, buffer, values);
    }
    TRY(comm->agree(comm, status, &none, error));
    comm->sum(comm, affected, state->table->count);
    return BERTH_OK;
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

// The sentence being written.
struct sentence {
    char *text;
    size_t size;
};

static int describe_affected(const struct engine *engine, const double *affected, const char *kind,
                             const struct sentence *out) {
    const struct param_table *table = engine->state->table;
    const int64_t layers = engine->model.config->num_hidden_layers;
    const struct param *first = NULL;
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct param *param = &table->params[i];
        if (affected[i] > 0) {
            count++;
            first = first == NULL || backward_rank(param, layers) < backward_rank(first, layers)
                        ? param
                        : first;
        }
    }
    if (first != NULL) {
        snprintf(out->text, out->size,
                 "the %s of %s is not finite (%zu of %zu parameters are affected)", kind,
                 first->name, count, table->count);
    }
    return first != NULL;
}

// Sets *found to whether a number in `buffer` is not finite, on any rank, and describes it.
static enum berth_status describe_not_finite(const struct engine *engine, const float *buffer,
                                             const char *kind, const struct sentence *out,
                                             int *found, struct berth_error *error) {
    const size_t count = engine->state->table->count;
    double *affected = memory_array_zeroed(count, sizeof *affected);
    const enum berth_status status = count_not_finite(engine, buffer, affected, error);
    *found = status == BERTH_OK && describe_affected(engine, affected, kind, out);
    memory_free(affected);
    return status;
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

// Computes this rank's micro-batches again until an output is not finite: at `places` times the
// micro-batch plus the place; -1: nowhere.
static int64_t find_output(struct updater *updater, const struct update_args *args,
                           int64_t places) {
    struct engine *engine = updater->engine;
    struct run run = run_of(updater, args);
    find_divisors(&run);
    const size_t *starts = updater->division.starts + engine->comm->rank * updater->own_parts;
    int64_t micro_batch = 0;
    for (size_t done = starts[0]; done < starts[updater->own_parts]; micro_batch++) {
        size_t part = 0;
        while (done >= starts[part + 1]) {
            part++;
        }
        const struct micro micro = micro_at(&run, done, starts[part + 1]);
        const struct batch *batch = load(&run, &micro);
        bert_forward(&engine->model, engine->training, batch, &run.dropout);
        const int64_t place = bert_first_nonfinite(&engine->model, engine->training, batch);
        if (place >= 0) {
            return micro_batch * places + place;
        }
        done += micro.count;
    }
    return -1;
}

// Sets *found to whether an output is not finite, on any rank, and names the first.
static enum berth_status blame_forward(struct updater *updater, const struct update_args *args,
                                       const struct sentence *out, int *found,
                                       struct berth_error *error) {
    const struct engine *engine = updater->engine;
    struct comm *comm = engine->comm;
    const int64_t places = engine->model.config->num_hidden_layers + 2;
    const int64_t own = find_output(updater, args, places);
    *found = own >= 0 ? INT_MAX - (int)own : 0; // the largest of all ranks' is the first output's
    TRY(comm->agree(comm, BERTH_OK, found, error));
    if (*found) {
        const int64_t first = INT_MAX - *found;
        name_place(engine, first % places, first / places, out);
    }
    return BERTH_OK;
}

enum berth_status update_blame(struct updater *updater, const struct update_args *args, char *text,
                               size_t size, struct berth_error *error) {
    const struct engine *engine = updater->engine;
    const struct state *state = engine->state;
    const struct sentence out = {text, size};
    int found;
    TRY(describe_not_finite(engine, state->master, "value", &out, &found, error));
    if (!found) {
        TRY(blame_forward(updater, args, &out, &found, error));
    }
    if (!found) {
        TRY(describe_not_finite(engine, state->gradients, "gradient", &out, &found, error));
    }
    if (!found) {
        snprintf(text, size, "the sum of the gradient's squares is too large for a double");
    }
    return BERTH_OK;
}
