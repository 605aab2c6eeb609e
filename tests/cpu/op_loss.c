// SPDX-License-Identifier: Apache-2.0
// The span loss and its gradient against the double loops.
#include "op_cases.h"
#include "reference.h"

#include <math.h>

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
