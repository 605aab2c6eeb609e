// SPDX-License-Identifier: Apache-2.0
// Tests the model against the plain double-precision reference. The reference's gradient is checked
// by finite differences; then our logits, loss and every gradient are compared with it on small
// shapes of all kinds, with and without dropout.

#include "core/harness.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>

static const struct bert_dropout no_dropout;
static const struct bert_dropout some_dropout = {
    .seed = 42, .step = 3, .hidden_probability = 0.1, .attention_probability = 0.2};

// --- finite differences of the reference --------------------------------------------------------

static double loss_at(struct reference *reference, double *parameters, int64_t index, double at,
                      const struct reference_sequence *sequence) {
    const double kept = parameters[index];
    parameters[index] = at;
    double loss = reference_run(reference, sequence, NULL, NULL, 1);
    parameters[index] = kept;
    return loss;
}

// Central differences of the fourth order at up to three elements of every tensor.
static void check_differences(struct reference *reference, double *parameters,
                              const struct reference_sequence *sequence) {
    const struct param_table *table = reference->table;
    double *gradient = calloc((size_t)table->total, sizeof *gradient);
    assert_non_null(gradient);
    reference_run(reference, sequence, NULL, gradient, 1);
    const double whole = norm2(gradient, table->total), e = 1e-3;
    assert_true(whole > 1e-3);
    for (size_t p = 0; p < table->count; p++) {
        const struct param *param = &table->params[p];
        const int64_t count = param->rows * param->cols;
        for (int64_t i = 0; i < 3; i++) {
            int64_t at = param->offset + (i * 7919 + 5) % count;
            double x = parameters[at];
            double near = loss_at(reference, parameters, at, x + e, sequence) -
                          loss_at(reference, parameters, at, x - e, sequence);
            double far = loss_at(reference, parameters, at, x + 2 * e, sequence) -
                         loss_at(reference, parameters, at, x - 2 * e, sequence);
            double difference = (8 * near - far) / (12 * e);
            if (fabs(difference - gradient[at]) > 1e-8 * whole + 1e-7 * fabs(gradient[at])) {
                fail_msg("%s: slope %.12g, finite differences %.12g", param->name, gradient[at],
                         difference);
            }
        }
    }
    free(gradient);
}

static void reference_gradients_are_slopes(void **state) {
    for (int bits = 0; bits < 8; bits++) {
        struct bert_config config = tiny_config(12, 3, 20, 2);
        config.pre_layer_norm = bits & 4 ? 1 : 0;
        config.hidden_act = bits & 1 ? ACTIVATION_GELU_TANH : ACTIVATION_GELU_ERF;
        struct param_table table;
        assert_int_equal(param_table_init(&table, &config, PARAM_HEAD_SPAN, NULL), BERTH_OK);
        float *single = random_parameters(&table, 5);
        double *parameters = to_double(single, table.total);
        struct reference reference = {.config = &config,
                                      .table = &table,
                                      .parameters = parameters,
                                      .dropout = bits & 2 ? some_dropout : no_dropout};
        const int64_t length = 9;
        struct reference_sequence *sequence = sequences_new(&config, &length, 1, 6, 77);
        check_differences(&reference, parameters, sequence);
        sequences_free(sequence);
        free(parameters);
        free(single);
        param_table_done(&table);
    }
}

// --- ours against it ----------------------------------------------------------------------------

#define MOST_SEQUENCES 8

struct shape {
    const char *name;
    int64_t hidden, heads, inner, layers;
    enum activation activation;
    double epsilon;
    int64_t lengths[MOST_SEQUENCES]; // up to the first 0
};

static const struct shape shapes[] = {
    {"one token", 48, 4, 101, 1, ACTIVATION_GELU_ERF, 1e-12, {1}},
    {"odd sizes", 20, 4, 37, 2, ACTIVATION_GELU_ERF, 1e-12, {1, 7, 33, 128}},
    {"odd heads", 33, 3, 50, 3, ACTIVATION_GELU_TANH, 1e-5, {5, 64, 17}},
    {"narrow inner", 40, 2, 24, 2, ACTIVATION_GELU_ERF, 1e-12, {30, 2, 11}},
    {"512 tokens", 24, 1, 48, 1, ACTIVATION_GELU_ERF, 1e-12, {512, 1, 3}},
    {"full blocks", 64, 2, 256, 2, ACTIVATION_GELU_ERF, 1e-12, {64, 32, 32}},
    {"many", 36, 6, 72, 1, ACTIVATION_GELU_TANH, 1e-12, {16, 15, 17, 1, 1, 31, 100, 3}},
    {"relu", 20, 4, 37, 2, ACTIVATION_RELU, 1e-12, {9, 20}},
    {"silu", 20, 4, 37, 2, ACTIVATION_SILU, 1e-12, {9, 20}},
    {"tanh", 20, 4, 37, 2, ACTIVATION_TANH, 1e-12, {9, 20}},
    {"head of 64", 128, 2, 96, 1, ACTIVATION_GELU_ERF, 1e-12, {90, 47}},
};

// The settings of a comparison besides its shape.
struct variant {
    enum dtype compute;
    int pre_layer_norm;
    const struct bert_dropout *dropout;
};

// Everything of one comparison.
struct comparison {
    struct harness harness;
    struct reference_sequence *sequences;
    int64_t count, tokens;
    struct packed *packed;
    float *parameters;
    double *logits, *gradient, loss; // of the reference
};

static void run_reference(struct comparison *comparison, const struct bert_dropout *dropout) {
    const struct param_table *table = &comparison->harness.table;
    double *parameters = to_double(comparison->parameters, table->total);
    struct reference reference = {.config = &comparison->harness.config,
                                  .table = table,
                                  .parameters = parameters,
                                  .dropout = *dropout};
    comparison->logits = calloc((size_t)comparison->tokens * 2, sizeof(double));
    comparison->gradient = calloc((size_t)table->total, sizeof(double));
    assert_true(comparison->logits && comparison->gradient);
    double *logits = comparison->logits;
    for (int64_t s = 0; s < comparison->count; s++) {
        comparison->loss += reference_run(&reference, &comparison->sequences[s], logits,
                                          comparison->gradient, 1.0 / (double)comparison->count);
        logits += 2 * comparison->sequences[s].length;
    }
    free(parameters);
}

static void comparison_open(struct comparison *comparison, const struct shape *shape,
                            const struct variant *variant) {
    *comparison = (struct comparison){0};
    struct bert_config config =
        tiny_config(shape->hidden, shape->heads, shape->inner, shape->layers);
    config.hidden_act = shape->activation;
    config.layer_norm_eps = shape->epsilon;
    config.pre_layer_norm = variant->pre_layer_norm;
    while (comparison->count < MOST_SEQUENCES && shape->lengths[comparison->count] > 0) {
        comparison->tokens += shape->lengths[comparison->count++];
    }
    const struct harness_options options = {.compute = variant->compute,
                                            .max_rows = batch_round(comparison->tokens) +
                                                        64, // more than this batch needs
                                            .max_sequences = MOST_SEQUENCES,
                                            .max_length = 512};
    comparison->sequences = sequences_new(&config, shape->lengths, comparison->count, 10, 3);
    comparison->packed = packed_new(comparison->sequences, comparison->count);
    assert_true(harness_open(&comparison->harness, &config, &options));
    comparison->parameters = random_parameters(&comparison->harness.table, 9);
    harness_load(&comparison->harness, comparison->parameters);
    run_reference(comparison, variant->dropout);
}

static void comparison_close(struct comparison *comparison) {
    harness_close(&comparison->harness);
    packed_free(comparison->packed);
    sequences_free(comparison->sequences);
    free(comparison->parameters);
    free(comparison->logits);
    free(comparison->gradient);
}

static void compare_f32(const struct shape *shape, const struct variant *variant) {
    struct comparison comparison;
    comparison_open(&comparison, shape, variant);
    struct harness *harness = &comparison.harness;
    const struct batch *batch = harness_batch(harness, comparison.packed);
    double loss = harness_step(harness, batch, variant->dropout, 1 / (float)comparison.count);
    float *logits = harness_logits(harness, batch);
    float *gradient = harness_gradients(harness);
    double apart = largest_difference(logits, comparison.logits, 2 * comparison.tokens);
    assert_true(apart <= 1e-4);
    assert_true(fabs(loss - comparison.loss) <= 1e-5 * fabs(comparison.loss));
    double worst =
        assert_gradients(&harness->table, gradient, comparison.gradient, 1e-4, 1e-6, shape->name);
    print_message("%-14s%s logits apart by %.1e, gradients use %.0f %% of their bound\n",
                  shape->name, variant->pre_layer_norm ? " pre" : "", apart, 100 * worst);
    free(logits);
    free(gradient);
    comparison_close(&comparison);
}

typedef void compare(const struct shape *shape, const struct variant *variant);

static void compare_all(compare *one, struct variant variant) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (variant.pre_layer_norm = 0; variant.pre_layer_norm < 2; variant.pre_layer_norm++) {
            one(&shapes[i], &variant);
        }
    }
}

static void f32_equals_reference(void **state) {
    compare_all(compare_f32, (struct variant){.compute = DTYPE_F32, .dropout = &no_dropout});
}

static void f32_equals_reference_with_dropout(void **state) {
    compare_all(compare_f32, (struct variant){.compute = DTYPE_F32, .dropout = &some_dropout});
}

// Rounding to bf16 has a deviation of 2^-9 / sqrt(3) = 1.1e-3 at each operand of each product;
// these bounds are some ten times that.
static void compare_bf16(const struct shape *shape, const struct variant *variant) {
    struct comparison comparison;
    if (shape->activation == ACTIVATION_RELU) {
        return; // where rounding changes a sign, the slope jumps, so no bound holds
    }
    comparison_open(&comparison, shape, variant);
    struct harness *harness = &comparison.harness;
    const struct batch *batch = harness_batch(harness, comparison.packed);
    harness_step(harness, batch, variant->dropout, 1 / (float)comparison.count);
    float *logits = harness_logits(harness, batch);
    float *gradient = harness_gradients(harness);
    double *difference = to_double(logits, 2 * comparison.tokens);
    for (int64_t i = 0; i < 2 * comparison.tokens; i++) {
        difference[i] -= comparison.logits[i];
    }
    double logits_error =
        norm2(difference, 2 * comparison.tokens) / norm2(comparison.logits, 2 * comparison.tokens);
    double worst =
        assert_gradients(&harness->table, gradient, comparison.gradient, 0.05, 0.01, shape->name);
    print_message(
        "%-14s%s bf16 logits' relative error %.4f, gradients use %.0f %% of their bound\n",
        shape->name, variant->pre_layer_norm ? " pre" : "", logits_error, 100 * worst);
    assert_true(logits_error <= 0.02);
    free(difference);
    free(logits);
    free(gradient);
    comparison_close(&comparison);
}

static void bf16_is_near_the_reference(void **state) {
    compare_all(compare_bf16, (struct variant){.compute = DTYPE_BF16, .dropout = &some_dropout});
}

// The masks equal the reference's, as tested above; this tests that they are fair: the dropped
// fraction is p within five deviations, at every site, for rows, columns and positions alike.
static void dropout_has_its_rate(void **state) {
    static const double probabilities[] = {0.1, 0.5};
    const int32_t rows = 64, columns = 768, sequences = 4;
    for (int site = RNG_SITE_EMBEDDING; site <= RNG_SITE_HEAD; site++) {
        double p = probabilities[site % 2], kept = 0, count = (double)rows * columns * sequences;
        struct dropout mask = {42, 1, 2, (enum rng_site)site, rng_dropout_threshold(p)};
        for (int32_t i = 0; i < rows * sequences; i++) {
            for (int32_t column = 0; column < columns; column++) {
                kept += rng_dropout_keeps(&mask, (uint32_t)site, i / rows, i % rows, column);
            }
        }
        assert_true(fabs(kept / count - (1 - p)) <= 5 * sqrt(p * (1 - p) / count));
        assert_true(fabs(rng_dropout_scale(mask.threshold) * (1 - p) - 1) < 1e-4);
    }
}

// A label outside the sequence is ignored: its half of the loss is 0 and has no gradient.
static void labels_outside_are_ignored(void **state) {
    const struct shape *shape = &shapes[1];
    struct bert_config config = tiny_config(shape->hidden, shape->heads, shape->inner, 1);
    struct harness harness;
    struct harness_options options = {
        .compute = DTYPE_F32, .max_rows = 64, .max_sequences = 2, .max_length = 30};
    assert_true(harness_open(&harness, &config, &options));
    float *parameters = random_parameters(&harness.table, 9);
    harness_load(&harness, parameters);
    const int64_t lengths[] = {30, 20};
    struct reference_sequence *sequences = sequences_new(&config, lengths, 2, 0, 1);
    sequences[0].start = -1;
    sequences[0].end = 30;
    sequences[1].start = sequences[1].end = 1000;
    struct packed *packed = packed_new(sequences, 2);
    assert_true(harness_step(&harness, harness_batch(&harness, packed), NULL, 1) == 0);
    float *gradient = harness_gradients(&harness);
    for (int64_t i = 0; i < harness.table.total; i++) {
        assert_true(gradient[i] == 0);
    }
    free(gradient);
    free(parameters);
    packed_free(packed);
    sequences_free(sequences);
    harness_close(&harness);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_gradients_are_slopes),
        cmocka_unit_test(f32_equals_reference),
        cmocka_unit_test(f32_equals_reference_with_dropout),
        cmocka_unit_test(bf16_is_near_the_reference),
        cmocka_unit_test(dropout_has_its_rate),
        cmocka_unit_test(labels_outside_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
