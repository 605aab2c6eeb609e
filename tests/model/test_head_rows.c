// SPDX-License-Identifier: Apache-2.0
// Tests that the last layer computes only the rows that its head reads (core/batch.h's batch_head),
// and that nothing else changes: the same model on the same batch without a batch_head computes all
// of them.
#include "core/harness.h"
#include "device/test_device.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SEQUENCES 4

static const int64_t lengths[SEQUENCES] = {70, 1, 33, 60};
// The first token of the third sequence is masked, and none of the fourth.
static const int32_t masked_positions[] = {3, 69, 0, 0, 1, 32}, words[] = {5, 60, 1, 9, 17, 33};
static const int64_t masked_first[SEQUENCES + 1] = {0, 2, 3, 6, 6};
#define MASKED 6

static const struct bert_dropout dropout = {.seed = 5,
                                            .step = 2,
                                            .hidden_probability = 0.1,
                                            .attention_probability = 0.1,
                                            .head_probability = 0.3};

struct variant {
    enum param_head head;
    enum berth_pooling pooling; // of embeddings
    enum dtype compute;
    int pre_layer_norm, checkpointing;
    int inference;
    int poisoned; // the last layer's output is not finite
};

struct outcome {
    float *logits, *gradients;
    int64_t feed_forward_rows; // of the last layer
    int64_t nonfinite;         // bert_first_nonfinite
};

// --- the rows of the last feed-forward network ---------------------------------------------------

static void (*forward_of_device)(struct device *, struct mat, struct mat, struct mat, struct mat,
                                 const float *, enum activation);
static int64_t inner_columns, last_rows;

// The transform of a head that decodes has as many columns as the model, the last layer more.
static void note_rows(struct device *dev, struct mat y, struct mat u, struct mat x, struct mat w,
                      const float *bias, enum activation activation) {
    last_rows = y.cols == inner_columns ? y.rows : last_rows;
    forward_of_device(dev, y, u, x, w, bias, activation);
}

static void watch(struct harness *harness) {
    struct device *dev = harness->device;
    inner_columns = harness->config.intermediate_size;
    forward_of_device = dev->linear_gelu_forward;
    dev->linear_gelu_forward = note_rows;
}

// --- one step ------------------------------------------------------------------------------------

static struct bert_config config_of(const struct variant *variant) {
    struct bert_config config = tiny_config(32, 2, 48, 3);
    config.pre_layer_norm = variant->pre_layer_norm;
    config.num_labels = 3;
    config.embedding = (struct bert_embedding){.pooling = variant->pooling,
                                               .objectives = {{.loss = BERT_SIMILARITIES,
                                                               .similarity = SIMILARITY_COSINE,
                                                               .is_of_cosines = 1,
                                                               .texts = 2,
                                                               .group = 1}},
                                               .objective_count = 1};
    return config;
}

static struct packed *pack(const struct variant *variant, const struct bert_config *config,
                           struct reference_sequence *sequences) {
    const int is_masked = param_head_decodes(variant->head);
    for (int64_t s = 0; s < SEQUENCES; s++) {
        sequences[s].label = (int32_t)(s % 2);
        sequences[s].target = 0.25f * (float)s;
        sequences[s].masked_positions = masked_positions + masked_first[s];
        sequences[s].masked_labels = words + masked_first[s];
        sequences[s].masked_count = is_masked ? masked_first[s + 1] - masked_first[s] : 0;
    }
    struct packed *packed = packed_new(sequences, SEQUENCES);
    packed_weigh_masked(packed, 0.5f);
    return packed;
}

static struct outcome step(const struct variant *variant, int reads_some) {
    const struct bert_config config = config_of(variant);
    struct harness harness;
    const struct harness_options options = {.compute = variant->compute,
                                            .max_rows = 192,
                                            .max_sequences = SEQUENCES,
                                            .max_length = 70,
                                            .checkpointing = variant->checkpointing,
                                            .inference = variant->inference,
                                            .head = variant->head,
                                            .max_masked = MASKED};
    struct outcome outcome;
    assert_true(harness_open(&harness, &config, &options));
    watch(&harness);
    float *parameters = random_parameters(&harness.table, 3);
    if (variant->poisoned) {
        parameters[harness.table.layers[2].output_bias] = NAN;
    }
    harness_load(&harness, parameters);
    struct reference_sequence *sequences = sequences_new(&config, lengths, SEQUENCES, 0, 8);
    struct packed *packed = pack(variant, &config, sequences);
    struct batch batch = *harness_batch(&harness, packed);
    if (!reads_some) {
        batch.head.rows = NULL;
    }
    bert_forward(&harness.model, harness.activations, &batch, &dropout);
    outcome.feed_forward_rows = last_rows;
    outcome.logits = param_head_decodes(variant->head) ? harness_masked_logits(&harness, &batch)
                                                       : harness_logits(&harness, &batch);
    outcome.gradients = NULL;
    if (!variant->inference) {
        harness_step(&harness, &batch, &dropout, 0.5f);
        outcome.gradients = harness_gradients(&harness);
        bert_forward(&harness.model, harness.activations, &batch, &dropout);
        outcome.nonfinite = bert_first_nonfinite(&harness.model, harness.activations, &batch);
    }
    packed_free(packed);
    sequences_free(sequences);
    free(parameters);
    harness_close(&harness);
    return outcome;
}

static void outcome_free(struct outcome *outcome) {
    free(outcome->logits);
    free(outcome->gradients);
}

// --- tests ---------------------------------------------------------------------------------------

static int64_t logit_count(const struct variant *variant, const struct bert_config *config) {
    return param_head_decodes(variant->head)
               ? MASKED * config->vocab_size
               : SEQUENCES * param_head_outputs(variant->head, config);
}

// Rows are computed one by one, so logits are equal; gradients of weights are sums over rows.
static void compare(const struct variant *variant) {
    struct outcome all = step(variant, 0), some = step(variant, 1);
    const struct bert_config config = config_of(variant);
    struct param_table table;
    assert_int_equal(param_table_init(&table, &config, variant->head, NULL), BERTH_OK);
    assert_int_equal(all.feed_forward_rows, 192);
    assert_int_equal(some.feed_forward_rows, 64);
    const int is_f32 = variant->compute == DTYPE_F32;
    assert_same(some.logits, all.logits, logit_count(variant, &config), is_f32 ? 1e-5 : 2e-2);
    if (!variant->inference) {
        const double apart = relative_error(some.gradients, all.gradients, table.total);
        assert_true(apart < (harness_on_gpu() ? 10 : 1) * (is_f32 ? 1e-6 : 2e-3));
        assert_int_equal(some.nonfinite, -1);
    }
    param_table_done(&table);
    outcome_free(&all);
    outcome_free(&some);
}

static void compare_variants(enum param_head head) {
    for (int bits = 0; bits < 12; bits++) {
        compare(&(struct variant){.head = head,
                                  .pooling = BERTH_POOL_CLS,
                                  .compute = bits & 1 ? DTYPE_BF16 : DTYPE_F32,
                                  .pre_layer_norm = bits >> 1 & 1,
                                  .checkpointing = bits >> 2 == 1,
                                  .inference = bits >> 2 == 2});
    }
}

static void a_classifier_reads_first_tokens(void **state) {
    compare_variants(PARAM_HEAD_CLASS);
}

static void pretraining_reads_first_and_masked_tokens(void **state) {
    compare_variants(PARAM_HEAD_PRETRAINING);
}

static void a_masked_language_model_reads_masked_tokens(void **state) {
    compare_variants(PARAM_HEAD_MASKED);
}

static void an_embedding_reads_first_tokens_where_it_pools_these(void **state) {
    compare_variants(PARAM_HEAD_EMBEDDING);
    struct outcome mean = step(&(struct variant){.head = PARAM_HEAD_EMBEDDING,
                                                 .pooling = BERTH_POOL_MEAN,
                                                 .compute = DTYPE_F32},
                               1);
    assert_int_equal(mean.feed_forward_rows, 192);
    outcome_free(&mean);
}

static void a_number_that_is_not_finite_is_found_there(void **state) {
    for (int checkpointing = 0; checkpointing < 2; checkpointing++) {
        struct outcome outcome = step(&(struct variant){.head = PARAM_HEAD_CLASS,
                                                        .compute = DTYPE_F32,
                                                        .checkpointing = checkpointing,
                                                        .poisoned = 1},
                                      1);
        assert_int_equal(outcome.nonfinite, 3);
        outcome_free(&outcome);
    }
}

int main(void) {
    if (test_lacks_device()) {
        return TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_classifier_reads_first_tokens),
        cmocka_unit_test(pretraining_reads_first_and_masked_tokens),
        cmocka_unit_test(a_masked_language_model_reads_masked_tokens),
        cmocka_unit_test(an_embedding_reads_first_tokens_where_it_pools_these),
        cmocka_unit_test(a_number_that_is_not_finite_is_found_there),
    };
    return cmocka_run_group_tests_name("head rows", tests, NULL, NULL);
}
