// SPDX-License-Identifier: Apache-2.0
// Times each operation of the table on a typical batch, after one untimed run, and gives the time
// beside the least that its arithmetic and its bytes need. program.c chooses the operations and
// prints; clocks of devices are timing.h's.
#include "bench/operations/bench_ops.h"

#include "bench/operations/bench_operands.h"
#include "bench/timing.h"
#include "core/error.h"

#include <string.h>

// --- the operations -----------------------------------------------------------------------------

// The best time of `repeats` runs after one that is left out.
static enum berth_status time_call(struct device *dev, const struct op_call *call,
                                   struct bench_timing timing, double *best,
                                   struct berth_error *error) {
    *best = 1e30;
    for (int i = 0; i <= timing.repeats; i++) {
        double seconds;
        const double begin = bench_begin_time(dev, timing.clock);
        call->op->call(dev, call);
        TRY(bench_end_time(dev, timing.clock, begin, &seconds, error));
        *best = i > 0 && seconds < *best ? seconds : *best;
    }
    return BERTH_OK;
}

static enum berth_status measure(struct bench_operands *b, const struct op *op,
                                 const struct op_use *use, struct bench_timing timing,
                                 struct bench_line *line, struct berth_error *error) {
    struct op_call call;
    TRY(bench_operands_make(b, op, use, &call, error));
    *line =
        (struct bench_line){.name = use->name,
                            .flops = op_flops(&call),
                            .bytes = op_bytes(&call),
                            .products = op_reads_int8(op, call.variant) ? DTYPE_I8 : b->g->compute};
    return time_call(b->dev, &call, timing, &line->seconds, error);
}

static int is_chosen(const struct op *op, const struct op_use *use, struct bench_choice choice) {
    return (op_is_product(op) || !choice.products_only) &&
           (choice.only == NULL || strstr(use->name, choice.only) != NULL);
}

static enum berth_status measure_table(struct bench_operands *b, struct bench_choice choice,
                                       struct bench_timing timing, struct bench_lines *lines,
                                       struct berth_error *error) {
    lines->count = 0;
    for (int i = 0; i < op_count; i++) {
        const struct op *op = &op_table[i];
        for (int u = 0; u < OP_USES && op->uses[u].name != NULL; u++) {
            if (is_chosen(op, &op->uses[u], choice) && bench_operands_offer(b, op, &op->uses[u])) {
                struct bench_line *line = &lines->line[lines->count++];
                TRY(measure(b, op, &op->uses[u], timing, line, error));
            }
        }
    }
    if (lines->count == 0) {
        return error_set(error, BERTH_USAGE,
                         "no operation that is measured has \"%s\" in its name; without "
                         "--only all are measured",
                         choice.only);
    }
    return BERTH_OK;
}

enum berth_status bench_ops(struct device *dev, const struct bench_geometry *geometry,
                            struct bench_choice choice, struct bench_timing timing,
                            struct bench_lines *lines, struct berth_error *error) {
    struct bench_operands operands;
    enum berth_status status = bench_operands_open(&operands, dev, geometry, error);
    if (status == BERTH_OK) {
        status = measure_table(&operands, choice, timing, lines, error);
    }
    bench_operands_close(&operands);
    return status;
}
