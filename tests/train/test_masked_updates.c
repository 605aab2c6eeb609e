// SPDX-License-Identifier: Apache-2.0
// Tests updates of the pre-training head: the loss is the mean over the update's masked tokens plus
// the mean over its sequences, however the update is divided; or the mean of the micro-batches'
// means.
#include "core/harness.h"
#include "core/memory.h"
#include "settings/settings.h"
#include "train/engine/update.h"
#include "train/job/rules.h"

#include <math.h>
#include <string.h>

#define SEQUENCES 6
#define LONGEST 24

// Different numbers of masked tokens per sequence; one sequence has none.
static const int32_t lengths[SEQUENCES] = {24, 5, 17, 9, 12, 20};
static const int32_t masked_counts[SEQUENCES] = {4, 1, 0, 2, 1, 3};
static int32_t ids[LONGEST];
static int8_t types[LONGEST];
static const uint16_t positions[] = {1, 2, 5, 7};
static int32_t labels[SEQUENCES][4];

static struct packer_sequence get(const void *data, size_t index) {
    return (struct packer_sequence){.ids = ids,
                                    .type_ids = types,
                                    .length = lengths[index],
                                    .label = (int32_t)index % 2,
                                    .target = NAN,
                                    .masked_positions = positions,
                                    .masked_labels = labels[index],
                                    .masked_count = masked_counts[index]};
}

static const struct packer_source source = {.get = get, .count = SEQUENCES};

struct setup {
    struct bert_config shape;
    struct param_table table;
    struct device *device;
    struct state state;
    struct engine engine;
    struct updater updater;
};

static void open_setup(struct setup *setup, const char *average, double dropout,
                       enum dtype compute) {
    *setup = (struct setup){.shape = {.vocab_size = 300,
                                      .hidden_size = 24,
                                      .num_hidden_layers = 2,
                                      .num_attention_heads = 2,
                                      .intermediate_size = 40,
                                      .max_position_embeddings = 32,
                                      .type_vocab_size = 2,
                                      .layer_norm_eps = 1e-12,
                                      .initializer_range = 0.2}};
    for (int i = 0; i < LONGEST; i++) {
        ids[i] = (37 * i + 5) % 300;
        types[i] = i > 3;
    }
    for (int i = 0; i < 4 * SEQUENCES; i++) {
        labels[i / 4][i % 4] = (53 * i + 11) % 300;
    }
    struct settings config;
    settings_init(&config);
    config.model.hidden_dropout_prob = config.model.attention_probs_dropout_prob = dropout;
    config.engine.loss_average = average;
    config.optimizer.optimizer = "nvlamb";
    struct device_options options = {.threads = 2};
    assert_int_equal(device_cpu_open(&options, &setup->device, NULL), BERTH_OK);
    assert_int_equal(param_table_init(&setup->table, &setup->shape, PARAM_HEAD_PRETRAINING, NULL),
                     BERTH_OK);
    assert_int_equal(state_init(&setup->state, setup->device, &setup->table, compute, 1, NULL),
                     BERTH_OK);
    float *weights;
    assert_int_equal(state_borrow(&setup->state, setup->state.master, &weights, NULL), BERTH_OK);
    param_initialise(&setup->table, &setup->shape, 3, weights, 1);
    state_set_weights(&setup->state, weights);
    state_release(&setup->state, setup->state.master, weights);
    assert_int_equal(optimizer_settle(&config.optimizer, NULL), BERTH_OK);
    struct update_rules rules =
        update_rules_of(&config, &setup->shape, setup->table.head, DTYPE_F32);
    struct engine_shape shape = {.train = {128, SEQUENCES, 16, LONGEST},
                                 .attention_dropout = rules.attention_dropout};
    assert_int_equal(
        engine_init(&setup->engine, &setup->state, comm_self(), &setup->shape, &shape, NULL),
        BERTH_OK);
    assert_int_equal(updater_init(&setup->updater, &setup->engine, &rules, SEQUENCES, NULL),
                     BERTH_OK);
}

static void close_setup(struct setup *setup) {
    updater_done(&setup->updater);
    engine_done(&setup->engine);
    state_done(&setup->state);
    setup->device->close(setup->device);
    param_table_done(&setup->table);
}

// Runs update 0 on sequences [first, first + count) in micro-batches of `micro`; its rate is 0, so
// it can be repeated.
static struct update_result run_update(struct setup *setup, uint32_t first, size_t count,
                                       int64_t micro) {
    uint32_t order[SEQUENCES];
    for (uint32_t i = 0; i < count; i++) {
        order[i] = first + i;
    }
    struct batching batching = {.micro = {INT64_MAX, micro, INT64_MAX, 0}};
    struct update_args args = {
        .batching = &batching, .source = &source, .order = order, .count = count};
    struct update_result result;
    assert_int_equal(update_run(&setup->updater, &args, &result, NULL), BERTH_OK);
    return result;
}

static void assert_near(double found, double expected, double tolerance) {
    if (!(fabs(found - expected) <= tolerance * fabs(expected))) {
        fail_msg("found %.9g, expected %.9g", found, expected);
    }
}

// The sums over all sequences, from updates of one sequence each.
struct sums {
    double masked, next; // of the losses
    double masked_means; // of the means of sequences {0, 1}, {2, 3}, {4, 5}
    double tokens;
};

static struct sums sum_all(struct setup *setup) {
    struct sums sums = {0};
    double pair = 0;
    int64_t pair_tokens = 0;
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        struct update_result one = run_update(setup, i, 1, 1);
        assert_int_equal(one.masked, masked_counts[i]);
        double masked = one.masked_loss * masked_counts[i];
        sums.masked += masked;
        sums.tokens += masked_counts[i];
        sums.next += one.loss - one.masked_loss;
        pair += masked;
        pair_tokens += masked_counts[i];
        if (i % 2 == 1) {
            sums.masked_means += pair / (double)pair_tokens;
            pair = 0;
            pair_tokens = 0;
        }
    }
    return sums;
}

static void test_losses_are_means_over_the_update(void **state) {
    struct setup setup;
    open_setup(&setup, "update", 0, DTYPE_F32);
    struct sums sums = sum_all(&setup);
    for (int64_t micro = 1; micro <= SEQUENCES; micro++) {
        struct update_result all = run_update(&setup, 0, SEQUENCES, micro);
        assert_int_equal(all.masked, 11);
        assert_near(all.masked_loss, sums.masked / sums.tokens, 1e-6);
        assert_near(all.loss - all.masked_loss, sums.next / SEQUENCES, 1e-6);
    }
    close_setup(&setup);
}

static void test_losses_are_means_of_means(void **state) {
    struct setup setup;
    open_setup(&setup, "micro", 0, DTYPE_F32);
    struct sums sums = sum_all(&setup);
    struct update_result all = run_update(&setup, 0, SEQUENCES, 2);
    assert_near(all.masked_loss, sums.masked_means / 3, 1e-6);
    assert_near(all.loss - all.masked_loss, sums.next / SEQUENCES, 1e-6);
    assert_true(fabs(all.masked_loss - sums.masked / sums.tokens) > 1e-4);
    close_setup(&setup);
}

// The first moment equals the clipped gradient.
static double distance_of_cuts(double dropout, enum dtype compute, int64_t micro) {
    struct setup a, b;
    open_setup(&a, "update", dropout, compute);
    open_setup(&b, "update", dropout, compute);
    run_update(&a, 0, SEQUENCES, SEQUENCES);
    run_update(&b, 0, SEQUENCES, micro);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < a.table.total; i++) {
        double x = (double)a.state.moment1[i], y = (double)b.state.moment1[i];
        difference += (x - y) * (x - y);
        norm += x * x;
    }
    close_setup(&a);
    close_setup(&b);
    return sqrt(difference / norm);
}

static void test_the_cut_does_not_change_the_gradient(void **state) {
    for (int64_t micro = 1; micro < SEQUENCES; micro++) {
        double plain = distance_of_cuts(0, DTYPE_F32, micro);
        double dropout = distance_of_cuts(0.1, DTYPE_F32, micro);
        double half = distance_of_cuts(0.1, DTYPE_BF16, micro);
        print_message("micro-batches of %d: %.1e, with dropout %.1e, in bf16 %.1e\n", (int)micro,
                      plain, dropout, half);
        assert_true(plain <= 1e-6 && dropout <= 1e-6 && half <= 1e-2);
    }
}

// Against a difference of losses, for the two biases next to the losses. The first moment is a
// tenth of the gradient, which was cut to norm 1.
static void assert_gradient(const char *average, const char *name, int64_t element) {
    struct setup setup;
    open_setup(&setup, average, 0, DTYPE_F32);
    int64_t at = param_table_find(&setup.table, name)->offset + element;
    struct update_result result = run_update(&setup, 0, SEQUENCES, 2);
    double gradient = 10 * (double)setup.state.moment1[at] * fmax(result.grad_norm, 1);
    double losses[2];
    for (int i = 0; i < 2; i++) {
        setup.state.master[at] += i == 0 ? 0.05F : -0.1F;
        losses[i] = run_update(&setup, 0, SEQUENCES, 2).loss;
    }
    assert_true(fabs(gradient) > 1e-2);
    assert_near(gradient, (losses[0] - losses[1]) / 0.1, 1e-2);
    close_setup(&setup);
}

static void test_the_gradient_is_that_of_the_loss(void **state) {
    static const char *const averages[] = {"update", "micro"};
    for (int i = 0; i < 2; i++) {
        assert_gradient(averages[i], "cls.predictions.bias", 11); // the first label
        assert_gradient(averages[i], "cls.seq_relationship.bias", 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_are_means_over_the_update),
        cmocka_unit_test(test_losses_are_means_of_means),
        cmocka_unit_test(test_the_cut_does_not_change_the_gradient),
        cmocka_unit_test(test_the_gradient_is_that_of_the_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
