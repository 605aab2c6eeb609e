// SPDX-License-Identifier: Apache-2.0
// Loops over all variants of all operations; see op_walk.h.
#include "op_walk.h"

#include "core/harness.h"
#include "op_gradients.h"

#include <string.h>

const struct case_shape shapes[SHAPES] = {
    {"one token", {1}, 10, 1, 21, 1031, NULL},
    {"few, odd sizes", {1, 2, 3, 17}, 22, 2, 40, 1032, NULL},
    {"one full block", {64}, 128, 4, 256, 1034, NULL},
    {"several tiles", {260, 7, 129, 128}, 190, 5, 200, 50, NULL},
    {"a depth of 4,200", {70}, 72, 1, 4200, 50, "linear_backward_input"},
    {"tiles of packed weights", {260, 7, 129, 128}, 192, 4, 208, 50, "linear_packed"},
    {"odd widths", {17, 14}, 33, 1, 35, 51, "linear"},
};
enum { DTYPES = DTYPE_F16 + 1 };

void op_walk_begin(struct op_run *run) {
    int count = 0;
    while (count < SEQUENCES_MAX && run->shape->lengths[count] > 0) {
        count++;
    }
    op_begin(run);
    op_batch(run, run->shape->lengths, count);
}

static void run_variant(struct op_run *run, const struct variant *v) {
    struct op_case c;
    op_walk_begin(run);
    if (op_case_make(&c, run, v->op, v->use, v->variant)) {
        if (v->row->prepare != NULL) {
            v->row->prepare(&c, v->mode);
        }
        op_case_check(&c, v->row);
    }
    op_end(run);
}

static int at_least_one(int count) {
    return count > 0 ? count : 1;
}

void op_walk_report(struct op_run *run, const struct variant *v, void *context) {
    if (run->failure[0] != '\0') {
        ++*(int *)context;
        print_error(
            "%s (%s), variant %d, mode %d, shape \"%s\", %s, dropout %u, activation %d, %s: %s\n",
            v->op->name, v->use->name, v->variant, v->mode, run->shape->name,
            dtype_name(run->compute), run->threshold, (int)run->activation,
            run->dev->describe(run->dev), run->failure);
    }
}

// Runs one variant with all dropouts, dtypes and activations. The large shapes test tiles and
// threads, for which one or two activations suffice.
static void for_each_number(struct device *dev, const struct case_shape *shape,
                            const struct variant *v, each_function *each, void *context) {
    const int activations = !v->row->activates         ? 1
                            : shape->intermediate > 64 ? ACTIVATION_GELU_TANH + 1
                                                       : ACTIVATION_COUNT;
    for (int i = 0; i < 2 * DTYPES * activations; i++) {
        const int drop = i & 1;
        struct op_run run = {.dev = dev,
                             .shape = shape,
                             .compute = (enum dtype)(i / 2 % DTYPES),
                             .threshold = drop ? rng_dropout_threshold(0.1) : 0,
                             .activation = (enum activation)(i / (2 * DTYPES)),
                             .hash_only = each != op_walk_report};
        if ((dev->dtypes >> run.compute & 1) && (!drop || v->row->drops)) {
            run_variant(&run, v);
            each(&run, v, context);
        }
    }
}

static int has_operation(const struct case_shape *shape, const char *name) {
    return shape->only == NULL || strncmp(name, shape->only, strlen(shape->only)) == 0;
}

void op_walk(struct device *dev, const struct case_shape *shape, each_function *each,
             void *context) {
    for (int i = 0; i < op_row_count; i++) {
        if (!has_operation(shape, op_rows[i].name)) {
            continue;
        }
        const struct op *op = op_find(op_rows[i].name);
        const int variants = at_least_one(op->variants), modes = at_least_one(op_rows[i].modes);
        for (const struct op_use *use = op->uses; use->name != NULL; use++) {
            if (use > op->uses && shape->intermediate > 64) {
                break;
            }
            for (int k = 0; k < variants + modes - 1; k++) {
                const struct variant v = {op, &op_rows[i], use, k < variants ? k : 0,
                                          k < variants ? 0 : k - variants + 1};
                for_each_number(dev, shape, &v, each, context);
            }
        }
    }
}

int op_walk_failures(struct device *dev, const struct case_shape *shape) {
    int failures = 0;
    op_walk(dev, shape, op_walk_report, &failures);
    return failures;
}

// --- gradients ----------------------------------------------------------------------------------

static const struct case_shape small = {"gradients", {2, 1, 3}, 6, 2, 5, 50, NULL};

static void gradients_of_row(struct device *dev, const struct op_row *row, int exact,
                             int *failures) {
    const struct op *op = op_find(row->name);
    const int variants = at_least_one(op->variants);
    const int activations = !row->activates ? 1
                            : exact         ? ACTIVATION_COUNT
                                            : ACTIVATION_GELU_TANH + 1;
    for (int i = 0; i < 2 * variants * activations; i++) {
        struct op_run run = {.dev = dev,
                             .shape = &small,
                             .threshold = i % 2 ? rng_dropout_threshold(0.25) : 0,
                             .activation = (enum activation)(i / 2 / variants)};
        const struct op_gradient gradient = {row, &op->uses[0], i / 2 % variants, exact};
        op_walk_begin(&run);
        op_gradient_check(&run, &gradient);
        op_end(&run);
        const struct variant v = {op, row, gradient.use, gradient.variant, 0};
        op_walk_report(&run, &v, failures);
    }
}

int op_walk_gradients(struct device *dev, int exact) {
    int failures = 0;
    for (int i = 0; i < op_row_count; i++) {
        if (op_rows[i].forward != NULL) {
            gradients_of_row(dev, &op_rows[i], exact, &failures);
        }
    }
    return failures;
}
