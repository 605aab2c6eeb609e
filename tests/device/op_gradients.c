// SPDX-License-Identifier: Apache-2.0
// Finite differences of an operation and its gradient; see op_gradients.h.
#include "op_gradients.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct pair {
    const struct op_gradient *gradient;
    struct op_case forward, backward;
    double *weights[OP_OPERANDS];   // of the forward operands that are written; NULL: 0
    double *gradients[OP_OPERANDS]; // of the forward operands that are read; NULL: not known
};

static void evaluate(const struct pair *pair, struct op_case *c) {
    if (pair->gradient->exact) {
        op_row_find(c->call.op->name)->reference(c);
    } else {
        op_case_call(c);
    }
}

static int64_t count_of(const struct op_case *c, int i) {
    return c->call.operands[i].rows * c->call.operands[i].cols;
}

// Copies what the forward operation read and wrote to the backward operands of the same names.
static void copy_operands(struct pair *pair) {
    const struct op_case *from = &pair->forward;
    for (int i = 0; i < OP_OPERANDS; i++) {
        const int to = op_has(&from->call, i) ? op_operand_find(pair->backward.call.op,
                                                                from->call.op->operands[i].name)
                                              : -1;
        if (to >= 0 && pair->backward.x[to] != NULL) {
            memcpy(pair->backward.x[to], from->x[i], (size_t)count_of(from, i) * sizeof(double));
        }
    }
}

// The backward operand of that role whose name is "d" + name + suffix; -1: none.
static int derivative_of(const struct pair *pair, int i, const char *suffix, enum op_role role) {
    const struct op_case *b = &pair->backward;
    char name[40];
    snprintf(name, sizeof name, "d%s%s", pair->forward.call.op->operands[i].name, suffix);
    const int found = op_operand_find(b->call.op, name);
    return found >= 0 && b->x[found] != NULL && (b->call.op->operands[found].role & role) ? found
                                                                                          : -1;
}

static void make_weights(struct pair *pair, int i) {
    const struct op_case *b = &pair->backward;
    const int64_t count = count_of(&pair->forward, i);
    double *weights = op_doubles(pair->forward.run, count);
    static const char *const suffixes[] = {"", "2"};
    if (pair->gradient->row->upstream != NULL) {
        if (i == 0) {
            pair->gradient->row->upstream(weights, b);
        }
        pair->weights[i] = weights;
        return;
    }
    for (int s = 0; s < 2; s++) {
        const int from = derivative_of(pair, i, suffixes[s], OP_IN);
        for (int64_t k = 0; from >= 0 && k < count; k++) {
            weights[k] += b->x[from][k];
        }
    }
    pair->weights[i] = weights;
}

// A loss computes its own gradient, multiplied by its scale.
static void make_scale(struct pair *pair, int i) {
    const struct op_case *f = &pair->forward;
    if (strcmp(f->call.op->operands[i].name, "losses") == 0) {
        pair->weights[i] = op_doubles(f->run, count_of(f, i));
        for (int64_t k = 0; k < count_of(f, i); k++) {
            pair->weights[i][k] = (double)f->call.scale;
        }
    }
}

static double *copy_of(const struct op_case *c, int i) {
    const int64_t count = count_of(c, i);
    return memcpy(op_doubles(c->run, count), c->x[i], (size_t)count * sizeof(double));
}

// Runs the backward operation and stores what it wrote or added.
static void make_gradients(struct pair *pair) {
    struct op_case *b = &pair->backward;
    double *before[OP_OPERANDS] = {0};
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (b->x[i] != NULL && (b->call.op->operands[i].role & OP_ADD) == OP_ADD) {
            before[i] = copy_of(b, i);
        }
    }
    evaluate(pair, b);
    for (int i = 0; i < OP_OPERANDS; i++) {
        for (int64_t k = 0; before[i] != NULL && k < count_of(b, i); k++) {
            b->x[i][k] -= before[i][k];
        }
    }
    for (int i = 0; i < OP_OPERANDS; i++) {
        const int read =
            pair->forward.x[i] != NULL && (pair->forward.call.op->operands[i].role & OP_IN);
        const int from = read ? derivative_of(pair, i, "", OP_OUT) : -1;
        if (from >= 0) {
            pair->gradients[i] = copy_of(b, from);
        }
    }
}

static double value_of(struct pair *pair) {
    struct op_case *f = &pair->forward;
    double sum = 0;
    evaluate(pair, f);
    for (int i = 0; i < OP_OPERANDS; i++) {
        for (int64_t k = 0; pair->weights[i] != NULL && k < count_of(f, i); k++) {
            sum += pair->weights[i][k] != 0 ? pair->weights[i][k] * f->x[i][k] : 0;
        }
    }
    return sum;
}

static void check_operand(struct pair *pair, int i) {
    struct op_case *f = &pair->forward;
    const struct op_operand *o = &f->call.op->operands[i];
    const double step = pair->gradient->exact ? 1e-5 : 1e-2;
    const double within = pair->gradient->exact ? 1e-6 : 2e-3;
    const int64_t real = op_real_rows(&f->call, o->rows) * f->call.operands[i].cols;
    for (int64_t k = 0; k < real; k++) {
        const double saved = f->x[i][k];
        f->x[i][k] = saved + step;
        const double up = value_of(pair);
        f->x[i][k] = saved - step;
        const double difference = (up - value_of(pair)) / (2 * step);
        f->x[i][k] = saved;
        if (!(fabs(pair->gradients[i][k] - difference) <= within * (1 + fabs(difference)))) {
            op_fail(f->run, o->name, "the gradient is off by", pair->gradients[i][k] - difference);
        }
    }
}

// Whether the backward operation writes a gradient; a variant of a loss may compute the loss alone.
static int writes_gradient(const struct op_case *b) {
    for (int i = 0; i < OP_OPERANDS; i++) {
        const struct op_operand *o = &b->call.op->operands[i];
        if (b->x[i] != NULL && (o->role & OP_OUT) && o->name[0] == 'd') {
            return 1;
        }
    }
    return 0;
}

// A variant that reads int8 has no gradient; the first one is used in its place.
static int forward_variant(const struct op *forward, int variant) {
    const int own = forward->variants > 0 ? variant % forward->variants : 0;
    return op_reads_int8(forward, own) ? 0 : own;
}

void op_gradient_check(struct op_run *run, const struct op_gradient *gradient) {
    const struct op_row *row = gradient->row;
    const struct op *forward = op_find(row->forward), *backward = op_find(row->name);
    struct pair pair = {.gradient = gradient};
    op_case_make(&pair.forward, run, forward, gradient->use,
                 forward_variant(forward, gradient->variant));
    if (forward == backward) {
        row->prepare != NULL ? row->prepare(&pair.forward, 0) : (void)0;
        pair.backward = pair.forward;
        make_gradients(&pair);
    } else {
        op_case_make(&pair.backward, run, backward, gradient->use, gradient->variant);
        evaluate(&pair, &pair.forward);
        copy_operands(&pair);
    }
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (pair.forward.x[i] != NULL && (forward->operands[i].role & OP_OUT)) {
            forward == backward ? make_scale(&pair, i) : make_weights(&pair, i);
        }
    }
    if (forward != backward) {
        make_gradients(&pair);
    }
    int checked = 0;
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (pair.gradients[i] != NULL) {
            check_operand(&pair, i);
            checked++;
        }
    }
    if (checked == 0 && writes_gradient(&pair.backward)) {
        op_fail(run, row->name, "its gradients are of no operand; their number is", checked);
    }
}
