// SPDX-License-Identifier: Apache-2.0
// Sorts the elements that this rank owns into ranges with the same rules, once, when a run begins,
// and puts the lists into the device's memory. An update then is three calls of the device: sums of
// squares, the norm, and the step, range by range as their gradients arrive from the other ranks
// (train/engine/all_reduce.c).
#include "train/optimizer/optimizer_plan.h"

#include "core/arena.h"
#include "core/memory.h"
#include "core/portable_math.h"

#include <assert.h>
#include <math.h>

// Host copies of the plan's arrays while it is built. No list is longer than the number of tensors
// plus spans.
struct range_lists {
    struct device_range *all, *plain, *scaled, *clipped; // [tensors + spans] each
    int64_t *all_blocks, *tensor_blocks;
    size_t bytes; // of all lists
};

static int64_t end_of(const struct param *param) {
    return param->offset + param->rows * param->cols;
}

static struct device_range range_of(const struct optimizer *optimizer, int64_t first, int64_t end,
                                    int decays) {
    return (struct device_range){
        .first = first, .count = end - first, .weight_decay = decays ? optimizer->weight_decay : 0};
}

// The end of the tensors from `first` on that can be merged: they are in one decay group and in one
// param_range, which ends at `range_end`, and all or none have a compute copy. The gaps between
// them stay zero.
static size_t run_end(const struct optimizer_plan *plan, size_t first, int64_t range_end,
                      int decays) {
    const struct param_table *table = plan->state->table;
    const int copied = table->params[first].offset < table->matrix_count;
    size_t end = first + 1;
    while (end < table->count && table->params[end].offset < range_end &&
           (table->params[end].offset < table->matrix_count) == copied &&
           !optimizer_freezes(plan->optimizer, table->params[end].name) &&
           optimizer_decays(plan->optimizer, table->params[end].name) == decays) {
        end++;
    }
    return end;
}

// Appends the parts of a range that this process holds. Block numbers start at the range's first
// element.
static void append_owned(const struct optimizer_plan *plan, struct device_range *list,
                         int64_t *count, struct device_range range) {
    const struct partition *partition = &plan->state->partition;
    for (size_t i = 0; i < partition->count; i++) {
        const struct partition_span part =
            partition_intersect(partition, i, range.first, range.count);
        if (part.count > 0) {
            list[*count] = range;
            list[*count].first = part.first;
            list[*count].moment_first = part.offset;
            list[*count].count = part.count;
            list[(*count)++].block = range.block + (part.first - range.first) / DEVICE_SUM_BLOCK;
        }
    }
}

static int is_clipped(const struct optimizer *optimizer) {
    return (optimizer->clips & CLIP_TENSOR) != 0;
}

// Appends a single tensor; returns the number after its last block.
static int64_t list_tensor(struct optimizer_plan *plan, const struct range_lists *lists,
                           size_t index, int decays, int64_t block) {
    const struct param *param = &plan->state->table->params[index];
    struct device_range range = range_of(plan->optimizer, param->offset, end_of(param), decays);
    range.block = block;
    range.tensor = (int64_t)index;
    if (optimizer_scales(plan->optimizer, param->name)) {
        plan->scales = 1;
        append_owned(plan, lists->scaled, &plan->scaled_count, range);
    } else {
        append_owned(plan, lists->plain, &plan->plain_count, range);
    }
    if (is_clipped(plan->optimizer)) {
        append_owned(plan, lists->clipped, &plan->clipped_count, range);
    }
    return block + device_sum_blocks(range.count);
}

// Records that the lists of a param_range begin here.
static struct param_range begin_range(struct optimizer_plan *plan, size_t range) {
    plan->plain_first[range] = plan->plain_count;
    plan->scaled_first[range] = plan->scaled_count;
    return range < param_range_count(plan->state->table) ? param_range(plan->state->table, range)
                                                         : (struct param_range){0};
}

static void fill_lists(struct optimizer_plan *plan, const struct range_lists *lists) {
    const struct optimizer *optimizer = plan->optimizer;
    const struct param_table *table = plan->state->table;
    int64_t block = 0;
    size_t ranges = 0;
    struct param_range range = begin_range(plan, ranges++);
    for (size_t i = 0; i < table->count;) {
        while (table->params[i].offset >= range.first + range.count) {
            range = begin_range(plan, ranges++);
        }
        const char *name = table->params[i].name;
        const int decays = optimizer_decays(optimizer, name);
        lists->tensor_blocks[i] = block;
        if (optimizer_freezes(optimizer, name)) {
            i++;
            continue;
        }
        if (is_clipped(optimizer) || optimizer_scales(optimizer, name)) {
            block = list_tensor(plan, lists, i++, decays, block);
            continue;
        }
        const size_t end = run_end(plan, i, range.first + range.count, decays);
        append_owned(
            plan, lists->plain, &plan->plain_count,
            range_of(optimizer, table->params[i].offset, end_of(&table->params[end - 1]), decays));
        for (; i < end; i++) {
            lists->tensor_blocks[i] = block;
        }
    }
    while (ranges <= param_range_count(table)) {
        (void)begin_range(plan, ranges++);
    }
    lists->tensor_blocks[table->count] = plan->tensor_block_count = block;
    append_owned(plan, lists->all, &plan->all_count, range_of(optimizer, 0, table->total, 0));
    lists->all_blocks[0] = 0;
    lists->all_blocks[1] = device_sum_blocks(table->total);
}

// Lays out the lists in one block of memory; an arena without a base only measures.
static struct range_lists carve_lists(struct arena *arena, const struct state *state) {
    const size_t tensors = state->table->count;
    const size_t ranges = (tensors + state->partition.count) * sizeof(struct device_range);
    struct range_lists lists = {.all = arena_alloc(arena, ranges),
                                .plain = arena_alloc(arena, ranges),
                                .scaled = arena_alloc(arena, ranges),
                                .clipped = arena_alloc(arena, ranges),
                                .all_blocks = arena_alloc(arena, 2 * sizeof(int64_t)),
                                .tensor_blocks =
                                    arena_alloc(arena, (tensors + 1) * sizeof(int64_t))};
    lists.bytes = arena->used;
    return lists;
}

// An upper bound of the number of blocks of sums: each tensor starts a new block, so it can add one
// that is only partly filled.
static size_t max_blocks(const struct param_table *table) {
    return (size_t)device_sum_blocks(table->total) + table->count;
}

static void carve_plan(struct optimizer_plan *plan, struct arena *arena) {
    const struct param_table *table = plan->state->table;
    const struct range_lists lists = carve_lists(arena, plan->state);
    const size_t blocks = max_blocks(table);
    plan->all = lists.all;
    plan->plain = lists.plain;
    plan->scaled = lists.scaled;
    plan->clipped = lists.clipped;
    plan->all_blocks = lists.all_blocks;
    plan->tensor_blocks = lists.tensor_blocks;
    plan->sums = arena_alloc(arena, 2 * blocks * sizeof *plan->sums);
    plan->norm = arena_alloc(arena, sizeof *plan->norm);
    plan->norms = arena_alloc(arena, table->count * sizeof *plan->norms);
    plan->lamb = arena_alloc(arena, table->count * sizeof *plan->lamb);
}

static enum berth_status upload_lists(struct optimizer_plan *plan, struct berth_error *error) {
    struct device *device = plan->state->device;
    struct arena arena = {0};
    const size_t bytes = carve_lists(&arena, plan->state).bytes;
    void *host = memory_array_zeroed(bytes, 1);
    if (host == NULL) {
        return error_no_memory(error, bytes, "the optimizer's ranges");
    }
    arena = (struct arena){.base = host, .size = bytes};
    const struct range_lists lists = carve_lists(&arena, plan->state);
    fill_lists(plan, &lists);
    device->upload(device, plan->block, host, bytes);
    memory_free(host);
    return BERTH_OK;
}

enum berth_status optimizer_plan_init(struct optimizer_plan *plan,
                                      const struct optimizer *optimizer, const struct state *state,
                                      struct comm *comm, struct berth_error *error) {
    *plan = (struct optimizer_plan){.optimizer = optimizer, .state = state, .comm = comm};
    assert(state->sharding.size == 1 || state->sharding.by_tensor ||
           !optimizer_needs_tensor_norms(optimizer));
    struct arena arena = {0};
    carve_plan(plan, &arena);
    plan->block = state->device->memory_new(state->device, arena.used);
    plan->bytes = arena.used;
    if (plan->block == NULL) {
        return device_no_memory(state->device, plan->bytes, "the optimizer's ranges", error);
    }
    arena = (struct arena){.base = plan->block, .size = plan->bytes};
    carve_plan(plan, &arena);
    const struct param_table *table = plan->state->table;
    const size_t sums = 2 * max_blocks(table), ranges = param_range_count(table) + 1;
    plan->host_sums = memory_array(sums, sizeof *plan->host_sums);
    plan->plain_first = memory_array(ranges, sizeof *plan->plain_first);
    plan->scaled_first = memory_array(ranges, sizeof *plan->scaled_first);
    if (plan->host_sums == NULL || plan->plain_first == NULL || plan->scaled_first == NULL) {
        return error_no_memory(error, sums * sizeof *plan->host_sums, "sums of squares");
    }
    return upload_lists(plan, error);
}

void optimizer_plan_done(struct optimizer_plan *plan) {
    if (plan->block != NULL) {
        struct device *device = plan->state->device;
        device->memory_free(device, plan->block, plan->bytes);
    }
    memory_free(plan->host_sums);
    memory_free(plan->plain_first);
    memory_free(plan->scaled_first);
    *plan = (struct optimizer_plan){0};
}

// --- one update ---------------------------------------------------------------------------------

// Whether the moments are divided among processes. For a small model one process may still hold all
// of them.
static int is_sharded(const struct optimizer_plan *plan) {
    const struct state_sharding *sharding = &plan->state->sharding;
    return sharding->size > 1 && sharding->stage > 0;
}

// Clears the sums before this process computes its blocks, so that the blocks of other processes
// are 0.
static void clear_sums(const struct optimizer_plan *plan, int64_t count) {
    struct device *device = plan->state->device;
    if (is_sharded(plan)) {
        device->zero(device, plan->sums, (size_t)count * sizeof *plan->sums);
    }
}

// Distributes the sums of all blocks to all processes. Each block belongs to one process, so the
// addition is exact.
static void exchange_sums(const struct optimizer_plan *plan, int64_t count) {
    struct device *device = plan->state->device;
    if (is_sharded(plan)) {
        const size_t bytes = (size_t)count * sizeof *plan->sums;
        device->download(device, plan->host_sums, plan->sums, bytes);
        plan->comm->sum(plan->comm, plan->host_sums, (size_t)count);
        device->upload(device, plan->sums, plan->host_sums, bytes);
    }
}

void optimizer_norm(const struct optimizer_plan *plan, double scale) {
    struct device *device = plan->state->device;
    const int64_t blocks = device_sum_blocks(plan->state->table->total);
    clear_sums(plan, blocks);
    device->squares(device, plan->sums, plan->state->gradients, plan->all, plan->all_count);
    exchange_sums(plan, blocks);
    device->norms(device, plan->norm, plan->sums, plan->all_blocks, 1, scale);
}

static struct adamw_args args_of(const struct optimizer_plan *plan,
                                 const struct optimizer_step *step) {
    const struct optimizer *optimizer = plan->optimizer;
    const struct state *state = plan->state;
    const double t = (double)step->number + 1;
    const double correction1 = optimizer->bias_correction ? 1 - math_power(optimizer->beta1, t) : 1;
    const double correction2 = optimizer->bias_correction ? 1 - math_power(optimizer->beta2, t) : 1;
    const int in_rate = optimizer->row->corrects_rate;
    const int tensors = (optimizer->clips & CLIP_TENSOR) != 0;
    // With both kinds of clipping, the global factor scales the gradients before the tensors'
    // norms.
    const int both = tensors && (optimizer->clips & CLIP_GLOBAL) != 0;
    return (struct adamw_args){
        .parameters = state->master,
        .gradients = state->gradients,
        .first_moment = state->moment1,
        .second_moment = state->moment2,
        .compute = state_copy(state),
        .rate = step->rate * (in_rate ? sqrt(correction2) / correction1 : 1),
        .beta1 = optimizer->beta1,
        .beta2 = optimizer->beta2,
        .epsilon = optimizer->epsilon,
        .correction1 = in_rate ? 1 : correction1,
        .correction2 = in_rate ? 1 : correction2,
        .gradient_scale =
            step->gradient_scale *
            (both ? fmin(1.0, optimizer->max_grad_norm /
                                  (step->grad_norm + (optimizer->row->exact_clip ? 0 : 1e-6)))
                  : 1),
        .max_grad_norm = optimizer->clips != 0 ? optimizer->max_grad_norm : 0,
        .exact_clip = optimizer->row->exact_clip,
        .epsilon_inside_root = optimizer->epsilon_inside_root,
        .l2_mode = optimizer->l2_mode,
        .stats = plan->norm,
        .tensor_stats = tensors ? plan->norms : NULL,
    };
}

// Computes the sums that a layer-wise optimizer needs of all tensors before it updates the first
// one.
static void find_coefficients(const struct optimizer_plan *plan, struct adamw_args args) {
    struct device *device = plan->state->device;
    args.ranges = plan->scaled;
    args.range_count = plan->scaled_count;
    clear_sums(plan, 2 * plan->tensor_block_count);
    device->lamb_moments(device, &args, plan->sums);
    exchange_sums(plan, 2 * plan->tensor_block_count);
}

static void apply_scaled(const struct optimizer_plan *plan, const struct adamw_args *args) {
    struct device *device = plan->state->device;
    const struct optimizer *optimizer = plan->optimizer;
    const int cut = optimizer->row->has_coefficients;
    device->lamb_apply(device,
                       &(struct lamb_args){.adam = *args,
                                           .sums = plan->sums,
                                           .tensor_blocks = plan->tensor_blocks,
                                           .min_coeff = cut ? optimizer->min_coeff : 0,
                                           .max_coeff = cut ? optimizer->max_coeff : INFINITY,
                                           .stats = plan->lamb});
}

// `args` with the ranges [first[0], first[1]) of a list.
static struct adamw_args with_ranges(const struct adamw_args *args, const struct device_range *list,
                                     const int64_t first[2]) {
    struct adamw_args some = *args;
    some.ranges = list + first[0];
    some.range_count = first[1] - first[0];
    return some;
}

static void update_range(const struct optimizer_plan *plan, const struct optimizer_step *step,
                         const struct adamw_args *args, size_t range) {
    struct device *device = plan->state->device;
    const struct adamw_args plain = with_ranges(args, plan->plain, &plan->plain_first[range]);
    const struct adamw_args scaled = with_ranges(args, plan->scaled, &plan->scaled_first[range]);
    if (plain.range_count > 0) {
        device->adamw(device, &plain);
    }
    if (scaled.range_count > 0) {
        apply_scaled(plan, &scaled);
    }
    if (step->updated != NULL) {
        step->updated(step->context, range);
    }
}

void optimizer_step(const struct optimizer_plan *plan, const struct optimizer_step *step) {
    struct device *device = plan->state->device;
    const size_t last = param_range_count(plan->state->table) - 1;
    struct adamw_args args = args_of(plan, step);
    if (args.tensor_stats != NULL) {
        clear_sums(plan, plan->tensor_block_count);
        device->squares(device, plan->sums, args.gradients, plan->clipped, plan->clipped_count);
        exchange_sums(plan, plan->tensor_block_count);
        device->norms(device, plan->norms, plan->sums, plan->tensor_blocks,
                      (int64_t)plan->state->table->count, args.gradient_scale);
    }
    if (plan->scales) {
        find_coefficients(plan, args);
    }
    update_range(plan, step, &args, last);
    for (size_t range = 0; range < last; range++) {
        update_range(plan, step, &args, range);
    }
}

// Whether this process holds the first element of a tensor; exactly one does.
static int holds(const struct optimizer_plan *plan, const struct param *param) {
    const struct partition *partition = &plan->state->partition;
    for (size_t i = 0; i < partition->count; i++) {
        if (partition_intersect(partition, i, param->offset, 1).count > 0) {
            return 1;
        }
    }
    return 0;
}

void optimizer_coefficients(const struct optimizer_plan *plan, struct lamb_stats *stats,
                            double *coefficients) {
    struct device *device = plan->state->device;
    const struct param_table *table = plan->state->table;
    device->download(device, stats, plan->lamb, table->count * sizeof *stats);
    for (size_t i = 0; i < table->count; i++) {
        const struct param *param = &table->params[i];
        const int is_own = holds(plan, param) && optimizer_scales(plan->optimizer, param->name);
        coefficients[i] = is_own ? stats[i].coefficient : 0;
    }
    if (is_sharded(plan)) {
        plan->comm->sum(plan->comm, coefficients, table->count);
    }
}
