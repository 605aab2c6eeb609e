// SPDX-License-Identifier: Apache-2.0
// Tests updates: PyTorch's ten-step AdamW curve (tests/golden), the division into micro-batches,
// the two averages of the loss, and stopping between micro-batches.
#include "core/harness.h"
#include "core/memory.h"
#include "core/stop.h"
#include "format/safetensors/safetensors.h"
#include "settings/settings.h"
#include "train/engine/update.h"
#include "train/job/rules.h"
#include "train/optimizer/schedule.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- the golden file ----------------------------------------------------------------------------

#define GOLDEN BERTH_TEST_SOURCE_DIR "/tests/golden/adamw_curve.safetensors"
#define SEQUENCES 64

// All sequences of the file's batches, one after another, and the start of each batch.
struct golden {
    struct safetensors file;
    struct bert_config shape;
    struct packer_sequence sequences[SEQUENCES];
    int8_t types[4096];
    int32_t *ids[3];
    size_t count, batch_first[4];
};

static int32_t *integers(const struct golden *golden, const char *name, int batch, int64_t *count) {
    char full[64];
    snprintf(full, sizeof full, "%s.%d", name, batch);
    const struct tensor_entry *entry = safetensors_find(&golden->file, full);
    assert_non_null(entry);
    *count = entry->shape[0];
    int32_t *values = memory_array((size_t)*count, sizeof *values);
    assert_int_equal(
        safetensors_read_raw(&golden->file, entry, 0, (size_t)*count * 4, values, NULL), BERTH_OK);
    return values;
}

static void read_batch(struct golden *golden, int batch, size_t *types_used) {
    int64_t tokens, bounds, count;
    int32_t *ids = golden->ids[batch] = integers(golden, "ids", batch, &tokens);
    int32_t *types = integers(golden, "token_type_ids", batch, &tokens);
    int32_t *offsets = integers(golden, "cu_seqlens", batch, &bounds);
    int32_t *starts = integers(golden, "start_positions", batch, &count);
    int32_t *ends = integers(golden, "end_positions", batch, &count);
    for (int64_t i = 0; i < count; i++) {
        int8_t *own = golden->types + *types_used;
        int32_t length = offsets[i + 1] - offsets[i];
        for (int32_t k = 0; k < length; k++) {
            own[k] = (int8_t)types[offsets[i] + k];
        }
        *types_used += (size_t)length;
        assert_true(golden->count < SEQUENCES && *types_used <= sizeof golden->types);
        golden->sequences[golden->count++] = (struct packer_sequence){.ids = ids + offsets[i],
                                                                      .type_ids = own,
                                                                      .length = length,
                                                                      .start = starts[i],
                                                                      .end = ends[i]};
    }
    memory_free(types);
    memory_free(offsets);
    memory_free(starts);
    memory_free(ends);
}

static struct golden *golden_open(void) {
    struct golden *golden = memory_array_zeroed(1, sizeof *golden);
    assert_non_null(golden);
    assert_int_equal(safetensors_open(&golden->file, GOLDEN, NULL), BERTH_OK);
    golden->shape = (struct bert_config){.vocab_size = 101,
                                         .hidden_size = 36,
                                         .num_hidden_layers = 2,
                                         .num_attention_heads = 3,
                                         .intermediate_size = 50,
                                         .max_position_embeddings = 48,
                                         .type_vocab_size = 2,
                                         .layer_norm_eps = 1e-12,
                                         .initializer_range = 0.02};
    size_t types_used = 0;
    for (int batch = 0; batch < 3; batch++) {
        golden->batch_first[batch] = golden->count;
        read_batch(golden, batch, &types_used);
    }
    golden->batch_first[3] = golden->count;
    return golden;
}

static void golden_close(struct golden *golden) {
    safetensors_close(&golden->file);
    for (int i = 0; i < 3; i++) {
        memory_free(golden->ids[i]);
    }
    memory_free(golden);
}

// --- the updater ---------------------------------------------------------------------------------

struct setup {
    struct golden *golden;
    struct param_table table;
    struct device *device;
    struct state state;
    struct engine engine;
    struct updater updater;
    struct settings config;
    atomic_int stop;
    double loss_scale;
    int64_t skipped;
    int sequences_until_stop; // > 0: *stop becomes STOP_AT_ONCE after this many were packed
    // The last update.
    uint32_t order[SEQUENCES];
    struct packer_source source;
    struct batching batching;
    struct update_args args;
};

static struct setup *current;

static struct packer_sequence get(const void *data, size_t index) {
    return ((const struct golden *)data)->sequences[index];
}

static void read_weights(struct setup *setup) {
    float *weights;
    assert_int_equal(state_borrow(&setup->state, setup->state.master, &weights, NULL), BERTH_OK);
    for (size_t i = 0; i < setup->table.count; i++) {
        const struct param *param = &setup->table.params[i];
        const struct tensor_entry *entry = safetensors_find(&setup->golden->file, param->name);
        assert_non_null(entry);
        assert_int_equal(safetensors_read_f32(&setup->golden->file, entry, 0,
                                              param->rows * param->cols, weights + param->offset,
                                              NULL),
                         BERTH_OK);
    }
    state_set_weights(&setup->state, weights);
    state_release(&setup->state, setup->state.master, weights);
}

static void open_setup(struct setup *setup, double dropout, const char *average,
                       enum dtype compute) {
    *setup = (struct setup){.golden = golden_open()};
    current = setup;
    settings_init(&setup->config);
    setup->config.model.hidden_dropout_prob = setup->config.model.attention_probs_dropout_prob =
        dropout;
    setup->config.engine.loss_average = average;
    setup->config.optimizer.learning_rate = 1e-2;
    setup->config.optimizer.warmup_steps = 2;
    struct device_options options = {.threads = 2};
    assert_int_equal(device_cpu_open(&options, &setup->device, NULL), BERTH_OK);
    assert_int_equal(param_table_init(&setup->table, &setup->golden->shape, PARAM_HEAD_SPAN, NULL),
                     BERTH_OK);
    assert_int_equal(state_init(&setup->state, setup->device, &setup->table, compute, 1, NULL),
                     BERTH_OK);
    read_weights(setup);
    assert_int_equal(optimizer_settle(&setup->config.optimizer, NULL), BERTH_OK);
    struct update_rules rules =
        update_rules_of(&setup->config, &setup->golden->shape, setup->table.head, DTYPE_F32);
    struct engine_shape shape = {.train = {2048, SEQUENCES, 0, 48},
                                 .attention_dropout = rules.attention_dropout};
    assert_int_equal(engine_init(&setup->engine, &setup->state, comm_self(), &setup->golden->shape,
                                 &shape, NULL),
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
    golden_close(setup->golden);
}

// Sets setup->args to update `step` over `count` sequences from `first` on, in micro-batches of
// `micro`.
static void describe_update(struct setup *setup, int64_t step, size_t first, size_t count,
                            int64_t micro) {
    for (size_t i = 0; i < count; i++) {
        setup->order[i] = (uint32_t)(first + i);
    }
    struct schedule schedule;
    schedule = schedule_of(&setup->config.optimizer, 1, 10);
    setup->source =
        (struct packer_source){.get = get, .data = setup->golden, .count = setup->golden->count};
    setup->batching = (struct batching){.micro = {INT64_MAX, micro, INT64_MAX, 0}};
    setup->args = (struct update_args){.batching = &setup->batching,
                                       .source = &setup->source,
                                       .order = setup->order,
                                       .count = count,
                                       .step = step,
                                       .without_moments = setup->skipped,
                                       .rate = schedule_rate(&schedule, step - setup->skipped),
                                       .loss_scale = setup->loss_scale,
                                       .stop = &setup->stop};
}

static struct update_result run_update(struct setup *setup, int64_t step, size_t first,
                                       size_t count, int64_t micro) {
    struct update_result result;
    describe_update(setup, step, first, count, micro);
    assert_int_equal(update_run(&setup->updater, &setup->args, &result, NULL), BERTH_OK);
    return result;
}

// --- the curve ----------------------------------------------------------------------------------

static void follow_curve(int64_t micro) {
    struct setup setup;
    open_setup(&setup, 0, "update", DTYPE_F32);
    const struct golden *golden = setup.golden;
    float losses[10], norms[10];
    assert_int_equal(safetensors_read_f32(&golden->file, safetensors_find(&golden->file, "losses"),
                                          0, 10, losses, NULL),
                     BERTH_OK);
    assert_int_equal(safetensors_read_f32(&golden->file,
                                          safetensors_find(&golden->file, "grad_norms"), 0, 10,
                                          norms, NULL),
                     BERTH_OK);
    double worst = 0;
    for (int step = 0; step < 10; step++) {
        size_t first = golden->batch_first[step % 3];
        size_t count = golden->batch_first[step % 3 + 1] - first;
        struct update_result result = run_update(&setup, step, first, count, micro);
        double error = fabs(result.loss / (double)losses[step] - 1);
        worst = error > worst ? error : worst;
        if (!(error <= 1e-4) || !(fabs(result.grad_norm / (double)norms[step] - 1) <= 1e-3)) {
            fail_msg("update %d: loss %.8g, PyTorch %.8g; norm %.8g, PyTorch %.8g", step,
                     result.loss, (double)losses[step], result.grad_norm, (double)norms[step]);
        }
    }
    print_message("micro-batches of %d: losses apart from PyTorch's by at most %.1e\n", (int)micro,
                  worst);
    close_setup(&setup);
}

static void test_ten_steps_follow_pytorch(void **state) {
    follow_curve(SEQUENCES);
}

static void test_ten_steps_cut_into_micro_batches(void **state) {
    follow_curve(1);
}

// --- micro-batches ------------------------------------------------------------------------------

// Relative L2 distance of the gradient of one update, cut differently.
static double distance_of_cuts(enum dtype compute, double dropout, int64_t micro_a,
                               int64_t micro_b) {
    struct setup a, b;
    open_setup(&a, dropout, "update", compute);
    size_t count = a.golden->batch_first[2];
    run_update(&a, 2, 0, count, micro_a);
    size_t total = (size_t)a.table.total;
    float *kept = memory_array(total, sizeof *kept);
    memcpy(kept, a.state.moment1, total * sizeof *kept); // (1 - beta1) times the clipped gradient
    close_setup(&a);
    open_setup(&b, dropout, "update", compute);
    run_update(&b, 2, 0, count, micro_b);
    double difference = 0, norm = 0;
    for (size_t i = 0; i < total; i++) {
        double d = (double)kept[i] - (double)b.state.moment1[i];
        difference += d * d;
        norm += (double)kept[i] * (double)kept[i];
    }
    memory_free(kept);
    close_setup(&b);
    return sqrt(difference / norm);
}

static void test_the_cut_does_not_matter(void **state) {
    for (int64_t micro = 1; micro <= 3; micro++) {
        double plain = distance_of_cuts(DTYPE_F32, 0, SEQUENCES, micro);
        double dropout = distance_of_cuts(DTYPE_F32, 0.1, SEQUENCES, micro);
        print_message("micro-batches of %d: %.1e, with dropout %.1e\n", (int)micro, plain, dropout);
        assert_true(plain <= 1e-6 && dropout <= 1e-6);
    }
}

static void test_mean_of_means(void **state) {
    struct setup setup;
    open_setup(&setup, 0, "micro", DTYPE_F32);
    double means = 0, sum = 0;
    // Three sequences as micro-batches of two and one; the rate of update 0 is 0.
    for (int part = 0; part < 2; part++) {
        size_t first = part == 0 ? 0 : 2, count = part == 0 ? 2 : 1;
        double loss = run_update(&setup, 0, first, count, SEQUENCES).loss;
        means += loss / 2;
        sum += loss * (double)count / 3;
    }
    double found = run_update(&setup, 0, 0, 3, 2).loss;
    assert_true(fabs(found - means) <= 1e-6 * means);
    assert_true(fabs(found - sum) > 1e-6 * means);
    close_setup(&setup);
    open_setup(&setup, 0, "update", DTYPE_F32);
    assert_true(fabs(run_update(&setup, 0, 0, 3, 2).loss - sum) <= 1e-6 * sum);
    close_setup(&setup);
}

// --- dropout ------------------------------------------------------------------------------------

// At a rate of 0 two updates on the same sequences differ only in their masks.
static void test_every_update_draws_its_own_masks(void **state) {
    struct setup setup;
    open_setup(&setup, 0.1, "update", DTYPE_F32);
    setup.config.optimizer.learning_rate = 0;
    double losses[4];
    for (int64_t step = 0; step < 4; step++) {
        losses[step] = run_update(&setup, step, 0, 3, SEQUENCES).loss;
        assert_true(run_update(&setup, step, 0, 3, SEQUENCES).loss == losses[step]);
        for (int64_t other = 0; other < step; other++) {
            assert_true(fabs(losses[step] - losses[other]) > 1e-4 * losses[other]);
        }
    }
    close_setup(&setup);
}

// --- stopping and clipping ----------------------------------------------------------------------

static struct packer_sequence get_and_stop(const void *data, size_t index) {
    if (current->sequences_until_stop > 0 && --current->sequences_until_stop == 0) {
        current->stop = STOP_AT_ONCE;
    }
    return get(data, index);
}

// RELIABILITY 15: after a stop at any micro-batch boundary, weights and moments are unchanged.
static void test_stop_between_micro_batches(void **state) {
    int stopped = 0;
    // Dividing the update reads each of the 4 sequences twice, a micro-batch reads its own twice.
    for (int after = 9; after < 17; after++) {
        struct setup setup;
        open_setup(&setup, 0.1, "update", DTYPE_BF16);
        run_update(&setup, 1, 0, 4, 1);
        size_t bytes = (size_t)setup.table.total * sizeof(float);
        float *before = memory_new(3 * bytes);
        memcpy(before, setup.state.master, bytes);
        memcpy((char *)before + bytes, setup.state.moment1, bytes);
        memcpy((char *)before + 2 * bytes, setup.state.moment2, bytes);
        setup.sequences_until_stop = after;
        uint32_t order[4] = {0, 1, 2, 3};
        struct packer_source source = {
            .get = get_and_stop, .data = setup.golden, .count = setup.golden->count};
        struct batching batching = {.micro = {INT64_MAX, 1, INT64_MAX, 0}};
        struct update_args args = {.batching = &batching,
                                   .source = &source,
                                   .order = order,
                                   .count = 4,
                                   .step = 2,
                                   .rate = 1e-2,
                                   .stop = &setup.stop};
        struct update_result result;
        assert_int_equal(update_run(&setup.updater, &args, &result, NULL), BERTH_OK);
        stopped += result.aborted;
        if (result.aborted) {
            assert_true(result.micro_batches < 4);
            assert_memory_equal(before, setup.state.master, bytes);
            assert_memory_equal((char *)before + bytes, setup.state.moment1, bytes);
            assert_memory_equal((char *)before + 2 * bytes, setup.state.moment2, bytes);
        } else {
            assert_int_equal(result.micro_batches, 4);
        }
        memory_free(before);
        close_setup(&setup);
    }
    assert_int_equal(stopped, 6); // not where it arrives with the last micro-batch
}

// RELIABILITY 25: a gradient that is not finite changes nothing, and the cause is named.
static void test_nan_changes_nothing(void **state) {
    struct setup setup;
    open_setup(&setup, 0, "update", DTYPE_F32);
    run_update(&setup, 1, 0, 3, 1);
    const struct param *param =
        param_table_find(&setup.table, "bert.encoder.layer.1.output.LayerNorm.weight");
    setup.state.master[param->offset] = INFINITY;
    size_t bytes = (size_t)setup.table.total * sizeof(float);
    float *before = memory_new(bytes);
    memcpy(before, setup.state.moment2, bytes);
    struct update_result result = run_update(&setup, 2, 0, 3, 1);
    assert_false(isfinite(result.loss));
    assert_memory_equal(before, setup.state.moment2, bytes);
    char text[256];
    assert_int_equal(update_find_nonfinite(&setup.updater, &setup.args, text, sizeof text, NULL),
                     BERTH_OK);
    assert_non_null(strstr(text, "bert.encoder.layer.1.output.LayerNorm.weight"));
    memory_free(before);
    close_setup(&setup);
}

// --- loss scaling -------------------------------------------------------------------------------

// Weights, moments and losses of four updates.
struct scaled_run {
    float *numbers; // [3][total]
    size_t bytes;
    double losses, norms;
};

// The same update repeatedly; it is skipped when it overflows.
static struct scaled_run run_scaled(enum dtype compute, const double *scales, size_t count) {
    struct setup setup;
    open_setup(&setup, 0, "update", compute);
    struct scaled_run run = {.bytes = 3 * (size_t)setup.table.total * sizeof(float)};
    for (size_t i = 0; i < count; i++) {
        setup.loss_scale = scales[i];
        int64_t step = (int64_t)i + 1; // the first has a rate of 0
        struct update_result result = run_update(&setup, step, 0, 3, 2);
        if (isfinite(result.grad_norm)) {
            run.losses += result.loss;
            run.norms += result.grad_norm;
        } else {
            assert_true(isfinite(result.loss)); // of the forward pass, unscaled
            update_discard(&setup.updater);
            setup.skipped++;
        }
    }
    run.numbers = memory_new(run.bytes);
    memcpy(run.numbers, setup.state.master, run.bytes / 3);
    memcpy((char *)run.numbers + run.bytes / 3, setup.state.moment1, run.bytes / 3);
    memcpy((char *)run.numbers + 2 * run.bytes / 3, setup.state.moment2, run.bytes / 3);
    close_setup(&setup);
    return run;
}

static void assert_same_scaled(const struct scaled_run *a, const struct scaled_run *b) {
    assert_true(a->losses == b->losses && a->norms == b->norms);
    assert_memory_equal(a->numbers, b->numbers, a->bytes);
}

// Powers of two change no bit, neither in the gradients nor in what the optimizer computes from
// them.
static void test_scales_that_are_powers_of_two_change_nothing(void **state) {
    const double plain[] = {1, 1, 1, 1}, scaled[] = {0x1p16, 0x1p32, 0x1p20, 0x1p8};
    const double odd[] = {1000, 1000, 1000, 1000};
    for (int half = 0; half < 2; half++) {
        enum dtype compute = half ? DTYPE_BF16 : DTYPE_F32;
        struct scaled_run a = run_scaled(compute, plain, 4), b = run_scaled(compute, scaled, 4);
        struct scaled_run c = run_scaled(compute, odd, 4);
        assert_same_scaled(&a, &b);
        assert_true(fabs(a.norms - c.norms) <= (half ? 1e-2 : 1e-5) * a.norms);
        assert_memory_not_equal(a.numbers, c.numbers, a.bytes);
        memory_free(a.numbers);
        memory_free(b.numbers);
        memory_free(c.numbers);
    }
}

// Skipped updates leave no trace in weights, moments, bias correction and schedule (the same data
// is repeated here, without dropout).
static void test_an_overflow_leaves_no_trace(void **state) {
    const double over = 1e39; // infinite in single precision
    const double plain[] = {1, 1}, scales[] = {over, 0x1p20, over, over, 0x1p20};
    struct scaled_run a = run_scaled(DTYPE_F32, plain, 2), b = run_scaled(DTYPE_F32, scales, 5);
    assert_same_scaled(&a, &b);
    memory_free(a.numbers);
    memory_free(b.numbers);
}

// Finite weights that are so large that the output of their layer is not finite.
static void overflow(enum dtype compute, const char *weight, const char *says) {
    struct setup setup;
    open_setup(&setup, 0, "update", compute);
    const struct param *param = param_table_find(&setup.table, weight);
    for (int64_t i = 0; i < param->rows * param->cols; i++) {
        setup.state.master[param->offset + i] = 3e38F;
    }
    struct update_result result = run_update(&setup, 0, 0, 3, 2);
    assert_false(isfinite(result.loss));
    char text[256];
    assert_int_equal(update_find_nonfinite(&setup.updater, &setup.args, text, sizeof text, NULL),
                     BERTH_OK);
    if (strstr(text, says) == NULL || strstr(text, "micro-batch 1 of") == NULL) {
        fail_msg("\"%s\" does not name \"%s\"", text, says);
    }
    close_setup(&setup);
}

static void test_the_first_output_that_overflows_is_named(void **state) {
    const enum dtype types[] = {DTYPE_F32, DTYPE_BF16};
    for (int i = 0; i < 2; i++) {
        overflow(types[i], "bert.embeddings.LayerNorm.weight", "the output of bert.embeddings is");
        overflow(types[i], "bert.encoder.layer.0.output.LayerNorm.weight",
                 "the output of bert.encoder.layer.0 is");
        overflow(types[i], "bert.encoder.layer.1.output.LayerNorm.weight",
                 "the output of bert.encoder.layer.1 is");
        overflow(types[i], "qa_outputs.weight", "the output of qa_outputs is");
    }
}

// The forward pass was good, the backward pass was not.
static void test_a_gradient_is_named_after_a_good_forward_pass(void **state) {
    struct setup setup;
    open_setup(&setup, 0, "update", DTYPE_F32);
    struct update_result result = run_update(&setup, 0, 0, 3, 2);
    assert_true(isfinite(result.loss));
    setup.state.gradients[param_table_find(&setup.table, "qa_outputs.bias")->offset] = NAN;
    char text[256];
    assert_int_equal(update_find_nonfinite(&setup.updater, &setup.args, text, sizeof text, NULL),
                     BERTH_OK);
    assert_non_null(strstr(text, "the gradient of qa_outputs.bias is not finite"));
    close_setup(&setup);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ten_steps_follow_pytorch),
        cmocka_unit_test(test_ten_steps_cut_into_micro_batches),
        cmocka_unit_test(test_the_cut_does_not_matter),
        cmocka_unit_test(test_every_update_draws_its_own_masks),
        cmocka_unit_test(test_mean_of_means),
        cmocka_unit_test(test_stop_between_micro_batches),
        cmocka_unit_test(test_nan_changes_nothing),
        cmocka_unit_test(test_scales_that_are_powers_of_two_change_nothing),
        cmocka_unit_test(test_an_overflow_leaves_no_trace),
        cmocka_unit_test(test_the_first_output_that_overflows_is_named),
        cmocka_unit_test(test_a_gradient_is_named_after_a_good_forward_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
