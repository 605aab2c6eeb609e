// SPDX-License-Identifier: Apache-2.0
// Tests the gradient's norm, the update and conversions against plain loops in double.
#include "op_cases.h"

#include <math.h>
#include <string.h>

// Two tensors with a gap between them; the second is split into two ranges, as between two shards.
// The moments have no gap.
enum { GAP = 7, RANGES = 3, TENSORS = 2 };

struct layout {
    int64_t count;               // elements of buffers with the layout of the whole table
    struct device_range *ranges; // [RANGES]
    int64_t *blocks;             // [TENSORS + 1]
    int64_t moments;             // elements
};

static struct layout layout_new(struct op_run *run, int64_t count) {
    const int64_t first = count / 4 + 1, second = count / 3;
    const int64_t firsts[RANGES] = {0, first + GAP, first + GAP + second};
    const int64_t counts[RANGES] = {first, second, count - firsts[2]};
    struct layout layout = {.count = count,
                            .ranges = op_keep(run, RANGES * sizeof *layout.ranges),
                            .blocks = op_keep(run, (TENSORS + 1) * sizeof *layout.blocks)};
    for (int i = 0; i < RANGES; i++) {
        struct device_range *range = &layout.ranges[i];
        *range = (struct device_range){.first = firsts[i],
                                       .at = layout.moments,
                                       .count = counts[i],
                                       .block = layout.blocks[TENSORS],
                                       .tensor = i > 0,
                                       .weight_decay = i > 0 ? 0.1 : 0.02};
        layout.moments += counts[i];
        layout.blocks[TENSORS] += device_sum_blocks(counts[i]);
        if (i == 0) {
            layout.blocks[1] = layout.blocks[TENSORS];
        }
    }
    return layout;
}

void op_squares(struct op_run *run) {
    const struct layout layout = layout_new(run, run->shape->hidden * 4002 + 7);
    float *values = op_vector(run, layout.count, 3, 0);
    double *sums = op_keep(run, (size_t)layout.blocks[TENSORS] * sizeof *sums);
    struct grad_stats *stats = op_keep(run, TENSORS * sizeof *stats);
    double want[TENSORS] = {0};
    for (int i = 0; i < RANGES; i++) {
        const struct device_range *range = &layout.ranges[i];
        for (int64_t k = range->first; k < range->first + range->count; k++) {
            want[range->tensor] += (double)values[k] * (double)values[k] * 0.25;
        }
    }
    run->dev->squares(run->dev, sums, values, layout.ranges, RANGES);
    run->dev->norms(run->dev, stats, sums, layout.blocks, TENSORS, 0.5);
    for (int t = 0; t < TENSORS; t++) {
        if (fabs(stats[t].sum_squares - want[t]) > 1e-12 * want[t]) {
            op_complain(run, "sum_squares", "relative error", stats[t].sum_squares / want[t] - 1);
        }
    }
    op_hash(run, stats, TENSORS * sizeof *stats);
    values[layout.count - 1] = INFINITY;
    run->dev->squares(run->dev, sums, values, layout.ranges, RANGES);
    run->dev->norms(run->dev, stats, sums, layout.blocks, TENSORS, 0.5);
    if (!isfinite(stats[0].sum_squares) || isfinite(stats[1].sum_squares)) {
        op_complain(run, "sum_squares", "an infinite gradient gives", stats[1].sum_squares);
    }
}

void op_add_losses(struct op_run *run) {
    const int64_t count = run->shape->hidden;
    float *losses = op_vector(run, count, 1, 2);
    double *sum = op_keep(run, sizeof *sum), want = 0;
    for (int64_t i = 0; i < count; i++) {
        want += (double)losses[i];
    }
    want = 3 + 0.125 * want;
    *sum = 3;
    run->dev->add_losses(run->dev, sum, losses, count, 0.125);
    if (fabs(*sum - want) > 1e-14 * want) {
        op_complain(run, "sum", "is", *sum);
    }
    op_hash(run, sum, sizeof *sum);
}

struct adamw_case {
    struct layout layout;
    float *values[4]; // p, g with the layout of the table; m, v of the ranges
    double *want[4];
    struct mat compute; // with the layout of the table; empty in f32
};

static struct adamw_case adamw_case_new(struct op_run *run) {
    struct adamw_case a = {.layout = layout_new(run, run->shape->hidden * 1025 + 3)};
    for (int i = 0; i < 4; i++) {
        const int64_t count = i < 2 ? a.layout.count : a.layout.moments;
        a.values[i] = op_vector(run, count, i == 3 ? 0.1 : 1, i == 3 ? 0.11 : 0);
        a.want[i] = op_dense_vector(run, a.values[i], count);
    }
    if (run->compute != DTYPE_F32) {
        struct mat m = op_output(run, 1, a.layout.count, run->compute);
        a.compute = mat_of(m.data, 1, a.layout.count, run->compute);
    }
    return a;
}

static double factor_of(const struct adamw_args *args, const struct device_range *range) {
    const struct grad_stats *stats =
        args->tensor_stats != NULL ? &args->tensor_stats[range->tensor] : args->stats;
    const double norm = sqrt(stats->sum_squares) + (args->exact_clip ? 0 : 1e-6);
    return args->gradient_scale *
           (args->max_grad_norm > 0 ? fmin(1, args->max_grad_norm / norm) : 1);
}

// Computes new moments, and writes the factors of the rate to update[layout.count].
static void adamw_want_update(struct adamw_case *a, const struct adamw_args *args, double *update) {
    for (int r = 0; r < RANGES; r++) {
        const struct device_range *range = &a->layout.ranges[r];
        const double factor = factor_of(args, range), decay = range->weight_decay;
        for (int64_t i = 0; i < range->count; i++) {
            double *p = &a->want[0][range->first + i], *g = &a->want[1][range->first + i];
            double *m = &a->want[2][range->at + i], *v = &a->want[3][range->at + i];
            const double gradient = *g * factor + (args->l2_mode ? decay * *p : 0);
            *m = args->beta1 * *m + (1 - args->beta1) * gradient;
            *v = args->beta2 * *v + (1 - args->beta2) * gradient * gradient;
            double square = *v / args->correction2, epsilon = args->epsilon;
            double root =
                args->epsilon_inside_root ? sqrt(square + epsilon) : sqrt(square) + epsilon;
            update[range->first + i] =
                *m / args->correction1 / root + (args->l2_mode ? 0 : decay * *p);
            *g = 0;
        }
    }
}

// The update of a step that is skipped: the gradients of the ranges are cleared.
static void want_skipped(struct adamw_case *a) {
    for (int r = 0; r < RANGES; r++) {
        const struct device_range *range = &a->layout.ranges[r];
        memset(a->want[1] + range->first, 0, (size_t)range->count * sizeof(double));
    }
}

static void adamw_want(struct op_run *run, struct adamw_case *a, const struct adamw_args *args) {
    double *update = op_doubles(run, a->layout.count);
    adamw_want_update(a, args, update);
    for (int64_t i = 0; i < a->layout.count; i++) {
        a->want[0][i] -= args->learning_rate * update[i];
    }
}

static void check_case(struct op_run *run, const struct adamw_case *a,
                       const struct adamw_args *args) {
    const struct layout *layout = &a->layout;
    op_check_vector(run, "parameters", a->values[0], a->want[0], layout->count, 4e-6);
    op_check_vector(run, "gradients", a->values[1], a->want[1], layout->count, 0);
    op_check_vector(run, "first moment", a->values[2], a->want[2], layout->moments, 4e-6);
    op_check_vector(run, "second moment", a->values[3], a->want[3], layout->moments, 4e-6);
    for (int r = 0; !mat_is_empty(args->compute) && r < RANGES; r++) {
        const struct device_range *range = &layout->ranges[r];
        if (range->first < args->compute.cols) {
            op_check(run, "compute copy", mat_columns(a->compute, range->first, range->count),
                     a->want[0] + range->first, 1, 5e-3);
        }
    }
}

static struct adamw_args adamw_args_of(const struct adamw_case *a, const struct grad_stats *stats,
                                       int mode) {
    return (struct adamw_args){
        .parameters = a->values[0],
        .gradients = a->values[1],
        .first_moment = a->values[2],
        .second_moment = a->values[3],
        .compute = a->compute,
        .ranges = a->layout.ranges,
        .range_count = RANGES,
        .learning_rate = 0.01,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = 1e-6,
        .correction1 = mode ? 1 : 0.271,
        .correction2 = mode ? 1 : 0.003,
        .gradient_scale = 0.5,
        .max_grad_norm = mode ? 0 : 1,
        .l2_mode = mode,
        .stats = stats,
    };
}

enum adamw_mode { DECOUPLED, L2, SKIP, EXACT, BY_TENSOR, ADAMW_MODES };

void op_adamw(struct op_run *run) {
    for (enum adamw_mode mode = DECOUPLED; mode < ADAMW_MODES; mode++) {
        struct adamw_case a = adamw_case_new(run);
        struct grad_stats *stats = op_keep(run, (1 + TENSORS) * sizeof *stats);
        struct adamw_args args = adamw_args_of(&a, stats, mode == L2);
        stats->sum_squares = mode == SKIP ? INFINITY : mode == EXACT ? 1e-8 : 4.0;
        if (mode == EXACT) {
            args.exact_clip = args.epsilon_inside_root = 1;
            args.max_grad_norm = 1e-5; // a tenth of the norm: 1e-6 more would be a percent
            args.epsilon = 1e-3;
        }
        if (mode == BY_TENSOR) {
            args.tensor_stats = stats + 1;
            stats[1].sum_squares = 9;
            stats[2].sum_squares = 0.25;
        }
        if (mode == L2 && !mat_is_empty(args.compute)) {
            args.compute.cols = a.layout.ranges[1].first; // of the first tensor only
        }
        if (mode == SKIP) {
            args.compute = (struct mat){0};
            want_skipped(&a);
        } else {
            adamw_want(run, &a, &args);
        }
        run->dev->adamw(run->dev, &args);
        check_case(run, &a, &args);
    }
}

enum lamb_mode { FREE, AT_MOST, AT_LEAST, ZERO_PARAMETERS, SKIPPED, LAMB_MODES };

static void lamb_want(struct op_run *run, struct adamw_case *a, const struct lamb_args *args,
                      struct lamb_stats want[TENSORS]) {
    double *update = op_doubles(run, a->layout.count), parameters[TENSORS] = {0},
           updates[TENSORS] = {0};
    adamw_want_update(a, &args->adam, update);
    for (int r = 0; r < RANGES; r++) {
        const struct device_range *range = &a->layout.ranges[r];
        for (int64_t i = range->first; i < range->first + range->count; i++) {
            parameters[range->tensor] += a->want[0][i] * a->want[0][i];
            updates[range->tensor] += update[i] * update[i];
        }
    }
    for (int t = 0; t < TENSORS; t++) {
        want[t] = (struct lamb_stats){sqrt(parameters[t]), sqrt(updates[t]), 1};
        if (parameters[t] > 0 && updates[t] > 0) {
            want[t].coefficient = want[t].parameter_norm / want[t].update_norm;
            want[t].coefficient = fmin(args->max_coeff, fmax(args->min_coeff, want[t].coefficient));
        }
    }
    for (int r = 0; r < RANGES; r++) {
        const struct device_range *range = &a->layout.ranges[r];
        const double rate = args->adam.learning_rate * want[range->tensor].coefficient;
        for (int64_t i = range->first; i < range->first + range->count; i++) {
            a->want[0][i] -= rate * update[i];
        }
    }
}

static void check_lamb_stats(struct op_run *run, const struct lamb_stats *found,
                             const struct lamb_stats *want) {
    const double pairs[][2] = {{found->parameter_norm, want->parameter_norm},
                               {found->update_norm, want->update_norm},
                               {found->coefficient, want->coefficient}};
    static const char *const names[] = {"parameter_norm", "update_norm", "coefficient"};
    for (int i = 0; i < 3; i++) {
        if (!(fabs(pairs[i][0] - pairs[i][1]) <= 1e-6 * fabs(pairs[i][1]))) {
            op_complain(run, names[i], "is", pairs[i][0]);
        }
    }
}

void op_lamb(struct op_run *run) {
    for (enum lamb_mode mode = FREE; mode < LAMB_MODES; mode++) {
        struct adamw_case a = adamw_case_new(run);
        struct grad_stats *stats = op_keep(run, sizeof *stats);
        struct lamb_stats *found = op_keep(run, TENSORS * sizeof *found);
        struct lamb_stats want[TENSORS] = {{-1, -1, -1}, {-1, -1, -1}};
        double *sums = op_keep(run, (size_t)(2 * a.layout.blocks[TENSORS]) * sizeof *sums);
        struct lamb_args args = {.adam = adamw_args_of(&a, stats, 0),
                                 .sums = sums,
                                 .tensor_blocks = a.layout.blocks,
                                 .min_coeff = mode == AT_LEAST ? 1.5 : 0,
                                 .max_coeff = mode == AT_MOST ? 0.01 : INFINITY,
                                 .stats = found};
        stats->sum_squares = mode == SKIPPED ? (double)NAN : 4.0;
        memcpy(found, want, sizeof want);
        args.adam.exact_clip = mode == FREE;
        if (mode == ZERO_PARAMETERS) {
            memset(a.values[0], 0, (size_t)a.layout.count * sizeof(float));
            memset(a.want[0], 0, (size_t)a.layout.count * sizeof(double));
        }
        if (mode == SKIPPED) {
            args.adam.compute = (struct mat){0};
            want_skipped(&a);
        } else {
            lamb_want(run, &a, &args, want);
        }
        run->dev->lamb_moments(run->dev, &args.adam, sums);
        run->dev->lamb_apply(run->dev, &args);
        for (int t = 0; t < TENSORS; t++) {
            check_lamb_stats(run, &found[t], &want[t]);
        }
        op_hash(run, found, TENSORS * sizeof *found);
        check_case(run, &a, &args.adam);
    }
}

void op_convert(struct op_run *run) {
    const int64_t count = run->shape->hidden * 1777 + 1;
    float *from = op_vector(run, count, 100, 0);
    struct mat to = mat_of(op_output(run, 1, count, run->compute).data, 1, count, run->compute);
    struct mat want = mat_of(op_keep(run, (size_t)count * 4), 1, count, run->compute);
    run->dev->convert(run->dev, to, from);
    for (int64_t i = 0; i < count; i++) {
        op_set_number(want, 0, i, (double)from[i]);
    }
    op_check(run, "to", to, op_dense(run, want), 1, 0);
}
