// SPDX-License-Identifier: Apache-2.0
// Operands of a case, calls and checks; see op_cases.h.
#include "op_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct op *op_find(const char *name) {
    for (int i = 0; i < op_count; i++) {
        if (strcmp(op_table[i].name, name) == 0) {
            return &op_table[i];
        }
    }
    return NULL;
}

const struct op_row *op_row_find(const char *name) {
    for (int i = 0; i < op_row_count; i++) {
        if (strcmp(op_rows[i].name, name) == 0) {
            return &op_rows[i];
        }
    }
    return NULL;
}

int op_operand_find(const struct op *op, const char *name) {
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (op->operands[i].name != NULL && strcmp(op->operands[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

// --- operands and their numbers -----------------------------------------------------------------

static int has_numbers(const struct op_operand *o) {
    return o->set == NULL && (o->type <= OP_F64 || o->type == OP_BYTE || o->type == OP_HALF_SUM ||
                              o->type == OP_MASK);
}

static int is_int8(const struct op_case *c, int i) {
    return c->call.op->operands[i].type == OP_INT8;
}

// x NULL: stores NaN.
static void store(const struct op_case *c, int i, const double *x) {
    const struct mat m = c->call.operands[i];
    const enum op_type type = c->call.op->operands[i].type;
    for (int64_t index = 0, row = 0; row < m.rows; row++) {
        for (int64_t col = 0; col < m.cols; col++, index++) {
            const double value = x != NULL ? x[index] : (double)NAN;
            if (type == OP_F64) {
                ((double *)m.data)[index] = value;
            } else if (type == OP_CODE) {
                ((signed char *)m.data)[row * m.stride + col] = (signed char)value;
            } else if (type == OP_BYTE) {
                ((unsigned char *)m.data)[index] = isnan(value) ? 2 : (unsigned char)value;
            } else if (type == OP_MASK) {
                ((uint16_t *)m.data)[index] = isnan(value) ? UINT16_MAX : (uint16_t)value;
            } else if (type == OP_HALF_SUM) {
                ((uint32_t *)m.data)[index] = isnan(value) ? UINT32_MAX : (uint32_t)value;
            } else {
                op_set_number(m, row, col, value);
            }
        }
    }
}

static void load(const struct op_case *c, int i, double *x) {
    const struct mat m = c->call.operands[i];
    const enum op_type type = c->call.op->operands[i].type;
    for (int64_t index = 0, row = 0; row < m.rows; row++) {
        for (int64_t col = 0; col < m.cols; col++, index++) {
            x[index] = type == OP_F64        ? ((const double *)m.data)[index]
                       : type == OP_CODE     ? ((const signed char *)m.data)[row * m.stride + col]
                       : type == OP_BYTE     ? ((const unsigned char *)m.data)[index]
                       : type == OP_MASK     ? ((const uint16_t *)m.data)[index]
                       : type == OP_HALF_SUM ? ((const uint32_t *)m.data)[index]
                                             : op_number_at(m, row, col);
        }
    }
}

static struct mat operand_new(struct op_case *c, int i) {
    const struct op_operand *o = &c->call.op->operands[i];
    struct mat m = op_shape(&c->call, i);
    if (o->type <= OP_COMPUTE && !o->dense) {
        return op_matrix(c->run, m.rows, m.cols, m.dtype);
    }
    m.data = op_alloc(c->run, op_operand_bytes(c->run->dev, &c->call, i));
    return m;
}

// Slack rows of a gradient are zeros. Those of other inputs have numbers that would be noticed in a
// result, but whose products are finite in f16.
static double slack_number(const struct op_case *c, int i, int64_t index) {
    const struct op_operand *o = &c->call.op->operands[i];
    const double large = c->run->compute == DTYPE_F16 ? 50 : 3000;
    return o->role & OP_ZERO ? 0 : index % 2 ? large : -20;
}

static void fill_random(struct op_case *c, int i) {
    const struct op_operand *o = &c->call.op->operands[i];
    const struct mat m = c->call.operands[i];
    const int64_t real = op_real_rows(&c->call, o->rows) * m.cols;
    for (int64_t index = 0; index < m.rows * m.cols; index++) {
        const double number = o->shift + (o->size == 0 ? 1 : o->size) * op_random(c->run);
        c->x[i][index] = index < real ? number : slack_number(c, i, index);
    }
    if (!is_int8(c, i)) {
        store(c, i, c->x[i]);
        load(c, i, c->x[i]); // as rounded
    }
}

static void fill(struct op_case *c, int i) {
    const struct op_operand *o = &c->call.op->operands[i];
    const struct mat m = c->call.operands[i];
    if (has_numbers(o)) {
        c->x[i] = op_doubles(c->run, m.rows * m.cols);
        fill_random(c, i);
    } else if (o->set != NULL) {
        o->set(&c->call, m.data);
    }
}

// The numbers of a table of parameters; of the largest shapes no more than a range of three blocks
// needs.
static int64_t table_numbers(const struct case_shape *shape) {
    const int64_t numbers = shape->hidden * shape->hidden * 9 / 2, most = 5 * DEVICE_SUM_BLOCK;
    return numbers < most ? numbers : most;
}

// Two tensors with a gap between them. The second one is split into two ranges, as between two
// shards. The moments have no gap.
static void make_ranges(struct device_range ranges[OP_CASE_RANGES], int64_t count) {
    const int64_t gap = 7, first = count / 4 + 1, second = count / 3;
    const int64_t firsts[] = {0, first + gap, first + gap + second, count};
    int64_t moments = 0, blocks = 0;
    for (int i = 0; i < OP_CASE_RANGES; i++) {
        const int64_t end = i == 0 ? first : firsts[i + 1];
        ranges[i] = (struct device_range){.first = firsts[i],
                                          .moment_first = moments,
                                          .count = end - firsts[i],
                                          .block = blocks,
                                          .tensor = i > 0,
                                          .weight_decay = i > 0 ? 0.1 : 0.02};
        moments += ranges[i].count;
        blocks += device_sum_blocks(ranges[i].count);
    }
}

int op_case_make(struct op_case *c, struct op_run *run, const struct op *op,
                 const struct op_use *use, int variant) {
    const struct case_shape *shape = run->shape;
    const int64_t masked = run->batch.token_count / 7 + 1;
    *c = (struct op_case){.run = run};
    c->geometry = (struct op_geometry){.hidden = shape->hidden,
                                       .intermediate = shape->intermediate,
                                       .heads = shape->heads,
                                       .keeps_masks = run->dev->keeps_masks,
                                       .vocabulary = shape->vocabulary,
                                       .masked = masked,
                                       .sequence_rows = run->batch.sequence_count + 3,
                                       .masked_rows = masked + 3,
                                       .table = table_numbers(shape),
                                       .ranges = c->ranges,
                                       .range_count = OP_CASE_RANGES,
                                       .compute = run->compute};
    make_ranges(c->ranges, c->geometry.table);
    op_call_init(&c->call, op, use, &c->geometry, &run->batch);
    c->call.variant = variant;
    c->call.threshold = run->threshold;
    c->call.activation = run->activation;
    if (!op_is_offered(run->dev, &c->call)) {
        return 0;
    }
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (op_has(&c->call, i)) {
            c->call.operands[i] = operand_new(c, i);
            fill(c, i);
        }
    }
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (op_has(&c->call, i)) {
            c->call.operands[i] = c->call.operands[op_memory_of(&c->call, i)];
        }
    }
    return 1;
}

// --- calls and checks ---------------------------------------------------------------------------

static int is_input(const struct op_operand *o) {
    return (o->role & (OP_IN | OP_KEPT)) != 0;
}

static void store_int8(struct op_case *c, int i) {
    const struct mat m = c->call.operands[i];
    float *numbers = malloc((size_t)(m.rows * m.cols) * sizeof *numbers);
    for (int64_t index = 0; index < m.rows * m.cols; index++) {
        numbers[index] = (float)c->x[i][index];
    }
    memset(m.data, 0, op_operand_bytes(c->run->dev, &c->call, i));
    op_write_int8(c->run->dev, &c->call, i, numbers);
    free(numbers);
}

static void store_input(struct op_case *c, int i) {
    if (is_int8(c, i)) {
        store_int8(c, i);
        return;
    }
    store(c, i, c->x[i]);
    if (c->call.op->operands[i].type == OP_PACKED) {
        c->run->dev->pack(c->run->dev, c->call.operands[i]);
    }
}

void op_case_store(struct op_case *c) {
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (c->x[i] != NULL && !is_input(&c->call.op->operands[i])) {
            store(c, i, NULL);
        }
    }
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (c->x[i] != NULL && is_input(&c->call.op->operands[i])) {
            store_input(c, i);
        }
    }
}

void op_case_call(struct op_case *c) {
    op_case_store(c);
    c->call.op->call(c->run->dev, &c->call);
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (c->x[i] != NULL && (c->call.op->operands[i].role & OP_OUT)) {
            load(c, i, c->x[i]);
        }
    }
}

static double tolerance(const struct op_case *c, const struct op_row *row, int i) {
    const struct op_operand *o = &c->call.op->operands[i];
    const double f32 = row->f32 != 0 ? row->f32 : 4e-6, half = row->half != 0 ? row->half : 5e-3;
    const int wide =
        c->call.operands[i].dtype == DTYPE_F32 && !(row->rounds && c->run->compute != DTYPE_F32);
    return o->type == OP_F64 ? (row->f64 != 0 ? row->f64 : 1e-12)
           : o->type == OP_BYTE || o->type == OP_HALF_SUM || o->type == OP_MASK ? 0
           : wide                                                               ? f32
                                                                                : half;
}

// Rounds expected values to f16, because near its smallest numbers the rounding exceeds the
// tolerance.
static const double *expected(const struct op_case *c, int i) {
    const struct mat m = c->call.operands[i];
    for (int64_t index = 0; m.dtype == DTYPE_F16 && index < m.rows * m.cols; index++) {
        c->x[i][index] = op_from_f16(op_to_f16(c->x[i][index]));
    }
    return c->x[i];
}

static void check(struct op_case *c, const struct op_row *row, int i) {
    const struct op_operand *o = &c->call.op->operands[i];
    const struct mat m = c->call.operands[i];
    const int64_t real = op_real_rows(&c->call, o->rows);
    double *found = op_doubles(c->run, m.rows * m.cols);
    load(c, i, found);
    op_compare(c->run, o->name, found, c->run->hash_only ? found : expected(c, i), real * m.cols,
               tolerance(c, row, i));
    for (int64_t index = real * m.cols; index < m.rows * m.cols; index++) {
        if (o->role & OP_ZERO ? found[index] != 0 : !isfinite(found[index])) {
            op_fail(c->run, o->name, "slack row holds", found[index]);
        }
    }
    if (o->type <= OP_COMPUTE) {
        op_check_gaps(c->run, o->name, m);
    }
}

void op_case_check(struct op_case *c, const struct op_row *row) {
    op_case_store(c);
    c->call.op->call(c->run->dev, &c->call);
    if (!c->run->hash_only) {
        row->reference(c);
    }
    for (int i = 0; i < OP_OPERANDS; i++) {
        if (c->x[i] != NULL && (c->call.op->operands[i].role & (OP_OUT | OP_KEPT))) {
            check(c, row, i);
        }
    }
}
