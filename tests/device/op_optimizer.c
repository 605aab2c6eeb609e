// SPDX-License-Identifier: Apache-2.0
// The gradient's norm, the update and conversions against plain loops in double.
#include "op_cases.h"

#include <math.h>
#include <string.h>

void op_grad_norm(struct op_run *run) {
    const int64_t count = run->shape->hidden * 2001 + 7;
    float *gradients = op_vector(run, count, 3, 0);
    struct grad_stats *stats = op_keep(run, sizeof *stats);
    double want = 0;
    for (int64_t i = 0; i < count; i++) {
        want += (double)gradients[i] * (double)gradients[i] * 0.25;
    }
    run->dev->grad_norm(run->dev, stats, gradients, count, 0.5);
    if (fabs(stats->sum_squares - want) > 1e-12 * want) {
        op_complain(run, "sum_squares", "relative error", stats->sum_squares / want - 1);
    }
    op_hash(run, &stats->sum_squares, sizeof stats->sum_squares);
    gradients[count / 2] = INFINITY;
    run->dev->grad_norm(run->dev, stats, gradients, count, 0.5);
    if (isfinite(stats->sum_squares)) {
        op_complain(run, "sum_squares", "an infinite gradient gives", stats->sum_squares);
    }
}

struct adamw_case {
    int64_t count;
    float *values[4]; // p, g, m, v
    double *want[4];
    struct mat compute;
};

static struct adamw_case adamw_case_new(struct op_run *run) {
    struct adamw_case a = {.count = run->shape->hidden * 1025 + 3};
    for (int i = 0; i < 4; i++) {
        a.values[i] = op_vector(run, a.count, i == 3 ? 0.1 : 1, i == 3 ? 0.11 : 0);
        a.want[i] = op_dense_vector(run, a.values[i], a.count);
    }
    if (run->compute != DTYPE_F32) {
        struct mat m = op_output(run, 1, a.count, run->compute);
        a.compute = mat_of(m.data, 1, a.count, run->compute);
    }
    return a;
}

// New moments, and what the rate is multiplied with, into update[count].
static void adamw_want_update(struct adamw_case *a, const struct adamw_args *args, double *update) {
    double norm = sqrt(args->stats->sum_squares), factor = args->gradient_scale;
    if (args->max_grad_norm > 0) {
        factor *= fmin(1, args->max_grad_norm / (norm + (args->exact_clip ? 0 : 1e-6)));
    }
    for (int64_t i = 0; i < a->count; i++) {
        double *p = &a->want[0][i], *m = &a->want[2][i], *v = &a->want[3][i];
        double g = a->want[1][i] * factor + (args->l2_mode ? args->weight_decay * *p : 0);
        *m = args->beta1 * *m + (1 - args->beta1) * g;
        *v = args->beta2 * *v + (1 - args->beta2) * g * g;
        double square = *v / args->correction2, epsilon = args->epsilon;
        double root = args->epsilon_inside_root ? sqrt(square + epsilon) : sqrt(square) + epsilon;
        update[i] = *m / args->correction1 / root + (args->l2_mode ? 0 : args->weight_decay * *p);
        a->want[1][i] = 0;
    }
}

static void adamw_want(struct op_run *run, struct adamw_case *a, const struct adamw_args *args) {
    double *update = op_doubles(run, a->count);
    adamw_want_update(a, args, update);
    for (int64_t i = 0; i < a->count; i++) {
        a->want[0][i] -= args->learning_rate * update[i];
    }
}

static void check_case(struct op_run *run, const struct adamw_case *a,
                       const struct adamw_args *args) {
    op_check_vector(run, "parameters", a->values[0], a->want[0], a->count, 4e-6);
    op_check_vector(run, "gradients", a->values[1], a->want[1], a->count, 0);
    op_check_vector(run, "first moment", a->values[2], a->want[2], a->count, 4e-6);
    op_check_vector(run, "second moment", a->values[3], a->want[3], a->count, 4e-6);
    if (!mat_is_empty(args->compute)) {
        op_check(run, "compute copy", a->compute, a->want[0], 1, 5e-3);
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
        .count = a->count,
        .learning_rate = 0.01,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = 1e-6,
        .weight_decay = 0.1,
        .correction1 = mode ? 1 : 0.271,
        .correction2 = mode ? 1 : 0.003,
        .gradient_scale = 0.5,
        .max_grad_norm = mode ? 0 : 1,
        .l2_mode = mode,
        .stats = stats,
    };
}

void op_adamw(struct op_run *run) {
    // decoupled and clipped, L2, skipped, clipped without 1e-6 and epsilon under the root
    for (int mode = 0; mode < 4; mode++) {
        struct adamw_case a = adamw_case_new(run);
        struct grad_stats *stats = op_keep(run, sizeof *stats);
        struct adamw_args args = adamw_args_of(&a, stats, mode == 1);
        stats->sum_squares = mode == 2 ? INFINITY : mode == 3 ? 1e-8 : 4.0;
        if (mode == 3) {
            args.exact_clip = args.epsilon_inside_root = 1;
            args.max_grad_norm = 1e-5; // a tenth of the norm: 1e-6 more would be a percent
            args.epsilon = 1e-3;
        }
        if (mode == 2) {
            args.compute = (struct mat){0};
            memset(a.want[1], 0, (size_t)a.count * sizeof(double));
        } else {
            adamw_want(run, &a, &args);
        }
        run->dev->adamw(run->dev, &args);
        check_case(run, &a, &args);
    }
}

enum lamb_mode { FREE, AT_MOST, AT_LEAST, ZERO_PARAMETERS, SKIPPED, LAMB_MODES };

static struct lamb_stats lamb_want(struct op_run *run, struct adamw_case *a,
                                   const struct lamb_args *args) {
    double *update = op_doubles(run, a->count), parameters = 0, updates = 0;
    adamw_want_update(a, &args->adam, update);
    for (int64_t i = 0; i < a->count; i++) {
        parameters += a->want[0][i] * a->want[0][i];
        updates += update[i] * update[i];
    }
    struct lamb_stats want = {sqrt(parameters), sqrt(updates), 1};
    if (parameters > 0 && updates > 0) {
        want.coefficient = want.parameter_norm / want.update_norm;
        want.coefficient = fmin(args->max_coeff, fmax(args->min_coeff, want.coefficient));
    }
    for (int64_t i = 0; i < a->count; i++) {
        a->want[0][i] -= args->adam.learning_rate * want.coefficient * update[i];
    }
    return want;
}

static void check_lamb_stats(struct op_run *run, const struct lamb_stats *found,
                             const struct lamb_stats *want) {
    const double pairs[][2] = {{found->parameter_norm, want->parameter_norm},
                               {found->update_norm, want->update_norm},
                               {found->coefficient, want->coefficient}};
    static const char *const names[] = {"parameter_norm", "update_norm", "coefficient"};
    for (int i = 0; i < 3; i++) {
        if (!(fabs(pairs[i][0] - pairs[i][1]) <= 1e-6 * pairs[i][1])) {
            op_complain(run, names[i], "is", pairs[i][0]);
        }
    }
    op_hash(run, found, sizeof *found);
}

void op_lamb(struct op_run *run) {
    for (int mode = 0; mode < LAMB_MODES; mode++) {
        struct adamw_case a = adamw_case_new(run);
        struct grad_stats *stats = op_keep(run, sizeof *stats);
        struct lamb_stats *found = op_keep(run, sizeof *found), want = {-1, -1, -1};
        struct lamb_args args = {.adam = adamw_args_of(&a, stats, 0),
                                 .min_coeff = mode == AT_LEAST ? 1.5 : 0,
                                 .max_coeff = mode == AT_MOST ? 0.01 : INFINITY,
                                 .result = found};
        stats->sum_squares = mode == SKIPPED ? (double)NAN : 4.0;
        *found = want;
        args.adam.exact_clip = mode == FREE;
        if (mode == ZERO_PARAMETERS) {
            memset(a.values[0], 0, (size_t)a.count * sizeof(float));
            memset(a.want[0], 0, (size_t)a.count * sizeof(double));
        }
        if (mode == SKIPPED) {
            args.adam.compute = (struct mat){0};
            memset(a.want[1], 0, (size_t)a.count * sizeof(double));
        } else {
            want = lamb_want(run, &a, &args);
        }
        run->dev->lamb(run->dev, &args);
        if (mode == SKIPPED) {
            op_hash(run, found, sizeof *found);
            if (found->coefficient != want.coefficient) {
                op_complain(run, "coefficient", "of a skipped update is", found->coefficient);
            }
        } else {
            check_lamb_stats(run, found, &want);
        }
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
