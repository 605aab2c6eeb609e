// SPDX-License-Identifier: Apache-2.0
// Tests the losses and their gradients against double loops.
#include "op_cases.h"
#include "reference.h"

#include <math.h>
#include <string.h>

void op_span_loss(struct op_run *run) {
    const struct batch *batch = &run->batch;
    struct mat logits = op_activation(run, 2, DTYPE_F32, 8);
    struct mat dlogits = op_output(run, batch->row_count, 2, run->compute);
    float *losses = op_vector(run, batch->sequence_count, 0, (double)NAN);
    double *want = op_doubles(run, batch->row_count * 2);
    double *losses_want = op_doubles(run, batch->sequence_count);
    for (int64_t s = 0; s < batch->sequence_count; s++) {
        int64_t first = batch->cu_seqlens[s], length = batch->cu_seqlens[s + 1] - first;
        for (int half = 0; half < 2; half++) {
            double *x = op_doubles(run, length), *gradient = op_doubles(run, length);
            for (int64_t i = 0; i < length; i++) {
                x[i] = op_number_at(logits, first + i, half);
            }
            const int32_t *labels = half ? batch->end_positions : batch->start_positions;
            losses_want[s] += reference_span_half(gradient, x, length, labels[s]);
            for (int64_t i = 0; i < length; i++) {
                want[(first + i) * 2 + half] = 0.25 * gradient[i];
            }
        }
    }
    run->dev->span_loss(run->dev, dlogits, losses, logits, 0.25f, batch);
    op_check_vector(run, "losses", losses, losses_want, batch->sequence_count, 4e-6);
    op_check(run, "dlogits", dlogits, want, batch->token_count, op_tolerance(run->compute));
    op_check_slack(run, "dlogits", dlogits, 1);
}

// Class losses and squared losses of one row per sequence, and of slack rows after them.
struct row_losses {
    struct mat logits, dlogits; // [count + 2, columns]
    float *losses;
    double *losses_want, *want;
    int64_t count;
};

static struct row_losses row_losses_new(struct op_run *run, int64_t columns) {
    const int64_t count = run->batch.sequence_count;
    struct row_losses r = {.logits = op_input(run, count + 2, columns, DTYPE_F32, 8),
                           .dlogits = op_output(run, count + 2, columns, DTYPE_F32),
                           .losses = op_vector(run, count, 0, (double)NAN),
                           .losses_want = op_doubles(run, count),
                           .want = op_doubles(run, count * columns),
                           .count = count};
    return r;
}

static void row_losses_check(struct op_run *run, const struct row_losses *r) {
    for (int64_t i = 0; i < r->count * r->logits.cols; i++) {
        r->want[i] *= 0.25;
    }
    op_check_vector(run, "losses", r->losses, r->losses_want, r->count, 4e-7);
    op_check(run, "dlogits", r->dlogits, r->want, r->count, 4e-7);
    op_check_zeros(run, "dlogits", r->dlogits, r->count);
}

// Losses only, as in evaluation: the same numbers.
static void check_without_gradient(struct op_run *run, const struct row_losses *r,
                                   const float *again) {
    op_check_vector(run, "losses without a gradient", again, r->losses_want, r->count, 4e-7);
}

// The labels of most rows get the largest logit. In every third row the class before shares it,
// which is no hit, in every other row the class after, which is one.
static void raise_logits(struct row_losses *r, int64_t classes) {
    for (int64_t i = 0; i < r->count; i++) {
        const int64_t label = (i + 1) % classes, other = i % 3 == 0 ? label - 1 : label + 1;
        if (i % 4 != 3) {
            op_set_number(r->logits, i, label, 9);
        }
        if (other >= 0 && other < classes) {
            op_set_number(r->logits, i, other, 9);
        }
    }
}

static void check_hits(struct op_run *run, const unsigned char *hits, const double *x,
                       const int32_t *labels, const struct row_losses *r) {
    const int64_t classes = r->logits.cols;
    for (int64_t i = 0; i < r->count; i++) {
        int64_t first = 0;
        for (int64_t c = 1; c < classes; c++) {
            first = x[i * classes + c] > x[i * classes + first] ? c : first;
        }
        if (hits[i] != (first == labels[i])) {
            op_complain(run, "hits", "is", hits[i]);
        }
    }
    op_hash(run, hits, (size_t)r->count);
}

// Labels of every class, then invalid ones: the second sequence's is too large, the third's
// negative.
static void class_losses(struct op_run *run, int64_t classes) {
    struct row_losses r = row_losses_new(run, classes);
    int32_t *labels = op_keep(run, (size_t)r.count * sizeof *labels);
    float *again = op_vector(run, r.count, 0, (double)NAN);
    raise_logits(&r, classes);
    const double *x = op_dense(run, r.logits);
    for (int64_t i = 0; i < r.count; i++) {
        labels[i] = i == 1 ? (int32_t)classes : i == 2 ? -1 : (int32_t)((i + 1) % classes);
        r.losses_want[i] =
            reference_cross_entropy(r.want + i * classes, x + i * classes, classes, labels[i]);
    }
    unsigned char *hits = op_keep(run, (size_t)r.count);
    run->dev->class_loss(run->dev, r.dlogits, r.losses, NULL, r.logits, 0.25f, labels, r.count);
    run->dev->class_loss(run->dev, (struct mat){0}, again, hits, r.logits, 0.25f, labels, r.count);
    row_losses_check(run, &r);
    check_without_gradient(run, &r, again);
    check_hits(run, hits, x, labels, &r);
    memset(hits, 2, (size_t)r.count);
    // The gradient in the compute dtype, in f32 in the memory of the logits.
    struct mat other =
        run->compute == DTYPE_F32 ? r.logits : op_output(run, r.logits.rows, classes, run->compute);
    run->dev->class_loss(run->dev, other, again, hits, r.logits, 0.25f, labels, r.count);
    check_without_gradient(run, &r, again);
    check_hits(run, hits, x, labels, &r);
    op_check(run, "dlogits elsewhere", other, r.want, r.count, op_tolerance(run->compute));
    op_check_zeros(run, "dlogits elsewhere", other, r.count);
}

// A few classes, and a vocabulary that is no multiple of any piece.
void op_class_loss(struct op_run *run) {
    class_losses(run, run->shape->heads + 1);
    class_losses(run, 1030 + run->shape->heads);
}

// The loss of a row whose label is all but certain keeps its digits.
void op_sure_class_loss(struct op_run *run) {
    struct row_losses r = row_losses_new(run, 300 + run->shape->heads);
    const int64_t classes = r.logits.cols;
    int32_t *labels = op_keep(run, (size_t)r.count * sizeof *labels);
    for (int64_t i = 0; i < r.count; i++) {
        labels[i] = (int32_t)(i * 50);
        op_set_number(r.logits, i, labels[i], 20 + (double)i);
    }
    const double *x = op_dense(run, r.logits);
    for (int64_t i = 0; i < r.count; i++) {
        r.losses_want[i] =
            reference_cross_entropy(r.want + i * classes, x + i * classes, classes, labels[i]);
    }
    run->dev->class_loss(run->dev, r.dlogits, r.losses, NULL, r.logits, 0.25f, labels, r.count);
    row_losses_check(run, &r);
}

// The second sequence has no target.
void op_squared_loss(struct op_run *run) {
    struct row_losses r = row_losses_new(run, 1);
    float *targets = op_vector(run, r.count, 5, 0),
          *again = op_vector(run, r.count, 0, (double)NAN);
    for (int64_t i = 0; i < r.count; i++) {
        targets[i] = i == 1 ? NAN : targets[i];
        r.losses_want[i] =
            reference_squared(r.want + i, op_number_at(r.logits, i, 0), (double)targets[i]);
    }
    run->dev->squared_loss(run->dev, r.dlogits, r.losses, r.logits, 0.25f, targets, r.count);
    run->dev->squared_loss(run->dev, (struct mat){0}, again, r.logits, 0.25f, targets, r.count);
    row_losses_check(run, &r);
    check_without_gradient(run, &r, again);
}

// Targets include values between 0 and 1; the second sequence has none.
void op_sigmoid_loss(struct op_run *run) {
    const int64_t labels = run->shape->heads + 2;
    struct row_losses r = row_losses_new(run, labels);
    float *targets = op_vector(run, r.count * labels, 0.5, 0.5);
    float *again = op_vector(run, r.count, 0, (double)NAN);
    const double *x = op_dense(run, r.logits);
    for (int64_t i = 0; i < r.count; i++) {
        targets[i * labels] = i == 1 ? NAN : 1;
        r.losses_want[i] =
            reference_sigmoid(r.want + i * labels, x + i * labels, targets + i * labels, labels);
    }
    run->dev->sigmoid_loss(run->dev, r.dlogits, r.losses, r.logits, 0.25f, targets, r.count);
    run->dev->sigmoid_loss(run->dev, (struct mat){0}, again, r.logits, 0.25f, targets, r.count);
    row_losses_check(run, &r);
    check_without_gradient(run, &r, again);
    // In the memory of the logits.
    run->dev->sigmoid_loss(run->dev, r.logits, again, r.logits, 0.25f, targets, r.count);
    op_check(run, "dlogits in place", r.logits, r.want, r.count, op_tolerance(DTYPE_F32));
    op_check_zeros(run, "dlogits in place", r.logits, r.count);
}
