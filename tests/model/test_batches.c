// SPDX-License-Identifier: Apache-2.0
// What must not change a result: how sequences are packed and cut into micro-batches, how many
// threads compute, which instruction set; and that inference is training's forward pass.

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
// clang-format on

#include "core/memory.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SEQUENCES 12

static const struct bert_dropout dropout = {
    .seed = 7, .step = 5, .hidden_probability = 0.1, .attention_probability = 0.1};
static const int64_t lengths[SEQUENCES] = {64, 3, 129, 31, 1, 200, 17, 90, 48, 2, 33, 77};

static const int64_t longer[SEQUENCES] = {384, 30, 129, 31, 1, 200, 17, 190, 248, 96, 133, 177};

static const struct harness_options plain = {
    .compute = DTYPE_F32, .max_rows = 1664, .max_sequences = SEQUENCES, .max_length = 512};

// A model with random weights, and sequences for it.
struct scene {
    struct harness harness;
    struct reference_sequence *sequences;
};

static int scene_open_sized(struct scene *scene, const struct harness_options *options,
                            const struct bert_config *config, const int64_t *sizes) {
    if (!harness_open(&scene->harness, config, options)) {
        return 0;
    }
    float *parameters = random_parameters(&scene->harness.table, 1);
    harness_load(&scene->harness, parameters);
    free(parameters);
    scene->sequences = sequences_new(config, sizes, SEQUENCES, 0, 2);
    return 1;
}

static int scene_open(struct scene *scene, const struct harness_options *options) {
    struct bert_config config = tiny_config(48, 3, 100, 2);
    return scene_open_sized(scene, options, &config, lengths);
}

static void scene_close(struct scene *scene) {
    sequences_free(scene->sequences);
    harness_close(&scene->harness);
}

// Loss and gradients of the sequences, `batch_size` of them at a time, each weighing 1 / SEQUENCES.
static float *accumulate(struct scene *scene, int64_t batch_size, double *loss) {
    harness_zero_gradients(&scene->harness);
    *loss = 0;
    for (int64_t first = 0; first < SEQUENCES; first += batch_size) {
        int64_t count = SEQUENCES - first < batch_size ? SEQUENCES - first : batch_size;
        struct packed *packed = packed_new(scene->sequences + first, count);
        *loss += harness_step(&scene->harness, packed_batch(packed), &dropout, 1.0f / SEQUENCES);
        packed_free(packed);
    }
    return harness_gradients(&scene->harness);
}

static void cutting_a_batch_changes_nothing(void **state) {
    struct scene scene;
    assert_true(scene_open(&scene, &plain));
    double whole_loss = 0, loss = 0;
    float *whole = accumulate(&scene, SEQUENCES, &whole_loss);
    static const int64_t sizes[] = {1, 2, 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        float *parts = accumulate(&scene, sizes[i], &loss);
        double error = relative_error(parts, whole, scene.harness.table.total);
        print_message("%d at a time: gradients' relative error %.1e, loss %.1e\n", (int)sizes[i],
                      error, fabs(loss / whole_loss - 1));
        assert_true(error <= 1e-6);
        assert_true(fabs(loss / whole_loss - 1) <= 1e-6);
        free(parts);
    }
    free(whole);
    scene_close(&scene);
}

static void logits_do_not_depend_on_neighbours(void **state) {
    struct scene scene;
    assert_true(scene_open(&scene, &plain));
    struct packed *all = packed_new(scene.sequences, SEQUENCES);
    bert_forward(&scene.harness.model, scene.harness.activations, packed_batch(all), &dropout);
    float *whole = harness_logits(&scene.harness, packed_batch(all));
    for (int64_t s = 0; s < SEQUENCES; s++) {
        struct packed *one = packed_new(&scene.sequences[s], 1);
        bert_forward(&scene.harness.model, scene.harness.activations, packed_batch(one), &dropout);
        float *alone = harness_logits(&scene.harness, packed_batch(one));
        const float *there = whole + 2 * packed_batch(all)->cu_seqlens[s];
        assert_true(relative_error(alone, there, 2 * lengths[s]) <= 1e-6);
        free(alone);
        packed_free(one);
    }
    free(whole);
    packed_free(all);
    scene_close(&scene);
}

// An update's gradients with dropout, to compare bit by bit. wide: a model and a batch of more than
// one tile in every direction.
static float *run_with(const struct harness_options *options, int wide, double *loss,
                       int64_t *count) {
    struct bert_config config = wide ? tiny_config(320, 5, 600, 1) : tiny_config(48, 3, 100, 2);
    struct scene scene;
    if (!scene_open_sized(&scene, options, &config, wide ? longer : lengths)) {
        return NULL;
    }
    float *gradients = accumulate(&scene, wide ? SEQUENCES : 7, loss);
    *count = scene.harness.table.total;
    scene_close(&scene);
    return gradients;
}

static void threads_give_the_same_bits(void **state) {
    for (int variant = 0; variant < 4; variant++) {
        const int wide = variant / 2;
        struct harness_options options = plain;
        options.compute = variant % 2 ? DTYPE_BF16 : DTYPE_F32;
        options.threads = 1;
        double one_loss = 0, loss = 0;
        int64_t count = 0;
        float *one = run_with(&options, wide, &one_loss, &count);
        for (options.threads = 2; options.threads <= 4; options.threads *= 2) {
            float *more = run_with(&options, wide, &loss, &count);
            assert_true(loss == one_loss);
            assert_memory_equal(more, one, (size_t)count * sizeof *one);
            free(more);
        }
        free(one);
    }
}

static void instruction_sets_agree(void **state) {
    static const char *const names[] = {"generic", "avx2", "avx512", "avx512bf16"};
    for (int half = 0; half < 2; half++) {
        struct harness_options options = plain;
        options.compute = half ? DTYPE_BF16 : DTYPE_F32;
        double best_loss = 0, loss = 0;
        int64_t count = 0;
        float *best = run_with(&options, 0, &best_loss, &count);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            options.instructions = names[i];
            float *other = run_with(&options, 0, &loss, &count);
            if (!other) {
                continue;
            }
            double error = relative_error(other, best, count);
            print_message("%s, %s: gradients' relative distance to the best set's %.1e\n", names[i],
                          half ? "bf16" : "fp32", error);
            // In bf16 a last bit that differs before a rounding differs by 2^-8 after it.
            assert_true(error <= (half ? 0.02 : 1e-5));
            assert_true(fabs(loss / best_loss - 1) <= (half ? 0.01 : 1e-5));
            free(other);
        }
        free(best);
    }
}

static void inference_is_the_forward_pass(void **state) {
    for (int half = 0; half < 2; half++) {
        struct harness_options options = plain;
        options.compute = half ? DTYPE_BF16 : DTYPE_F32;
        struct scene training, inference;
        assert_true(scene_open(&training, &options));
        options.inference = 1;
        assert_true(scene_open(&inference, &options));
        assert_true(inference.harness.block_bytes < training.harness.block_bytes);
        struct packed *packed = packed_new(training.sequences, SEQUENCES);
        const struct batch *batch = packed_batch(packed);
        static const struct bert_dropout zero = {.seed = 7, .step = 5};
        bert_forward(&training.harness.model, training.harness.activations, batch, &zero);
        bert_forward(&inference.harness.model, inference.harness.activations, batch, NULL);
        float *a = harness_logits(&training.harness, batch);
        float *b = harness_logits(&inference.harness, batch);
        assert_memory_equal(a, b, (size_t)batch->token_count * 2 * sizeof *a);
        free(a);
        free(b);
        packed_free(packed);
        scene_close(&inference);
        scene_close(&training);
    }
}

// The same batch twice: nothing of a former batch, however large, is left over.
static void nothing_is_left_over(void **state) {
    for (int half = 0; half < 2; half++) {
        struct harness_options options = plain;
        options.compute = half ? DTYPE_BF16 : DTYPE_F32;
        struct scene scene;
        assert_true(scene_open(&scene, &options));
        float *gradients[2];
        struct packed *packed = packed_new(scene.sequences, 5);
        struct packed *other = packed_new(scene.sequences, SEQUENCES);
        for (int i = 0; i < 2; i++) {
            harness_step(&scene.harness, packed_batch(other), &dropout, 1);
            harness_zero_gradients(&scene.harness);
            harness_step(&scene.harness, packed_batch(packed), &dropout, 1);
            gradients[i] = harness_gradients(&scene.harness);
        }
        assert_memory_equal(gradients[0], gradients[1],
                            (size_t)scene.harness.table.total * sizeof(float));
        free(gradients[0]);
        free(gradients[1]);
        packed_free(packed);
        packed_free(other);
        scene_close(&scene);
    }
}

static void fill_with_nan(struct harness *harness) {
    void *bytes = malloc(harness->block_bytes);
    assert_non_null(bytes);
    memset(bytes, 0xFF, harness->block_bytes);
    harness->device->upload(harness->device, harness->block, bytes, harness->block_bytes);
    free(bytes);
}

// Training and inference share one block, so what is there before a batch may be anything.
static void memory_needs_no_clearing(void **state) {
    for (int half = 0; half < 2; half++) {
        struct harness_options options = plain;
        options.compute = half ? DTYPE_BF16 : DTYPE_F32;
        struct scene scene;
        assert_true(scene_open(&scene, &options));
        struct packed *packed = packed_new(scene.sequences, SEQUENCES);
        assert_true(packed_batch(packed)->row_count > packed_batch(packed)->token_count);
        float *gradients[2];
        for (int i = 0; i < 2; i++) {
            harness_zero_gradients(&scene.harness);
            harness_step(&scene.harness, packed_batch(packed), &dropout, 1);
            gradients[i] = harness_gradients(&scene.harness);
            fill_with_nan(&scene.harness);
        }
        assert_memory_equal(gradients[0], gradients[1],
                            (size_t)scene.harness.table.total * sizeof(float));
        free(gradients[0]);
        free(gradients[1]);
        packed_free(packed);
        scene_close(&scene);
    }
}

// The rule of device.h: slack rows give no gradient, whatever their ids are.
static void slack_rows_give_nothing(void **state) {
    struct scene scene;
    assert_true(scene_open(&scene, &plain));
    struct packed *packed = packed_new(scene.sequences, SEQUENCES);
    const struct batch *batch = packed_batch(packed);
    assert_true(batch->row_count > batch->token_count);
    float *gradients[2];
    for (int i = 0; i < 2; i++) {
        int32_t *ids = (int32_t *)batch->ids;
        for (int64_t r = batch->token_count; r < batch->row_count; r++) {
            ids[r] = i ? (int32_t)(r % 61) : 0;
        }
        harness_zero_gradients(&scene.harness);
        harness_step(&scene.harness, batch, &dropout, 1);
        gradients[i] = harness_gradients(&scene.harness);
    }
    assert_memory_equal(gradients[0], gradients[1],
                        (size_t)scene.harness.table.total * sizeof(float));
    free(gradients[0]);
    free(gradients[1]);
    packed_free(packed);
    scene_close(&scene);
}

static void other_seeds_steps_and_places_are_other_masks(void **state) {
    struct scene scene;
    assert_true(scene_open(&scene, &plain));
    double first = 0;
    for (int variant = 0; variant < 4; variant++) {
        struct bert_dropout other = dropout;
        other.seed += variant == 1;
        other.step += variant == 2;
        for (int64_t s = 0; s < SEQUENCES; s++) {
            scene.sequences[s].place = s + (variant == 3);
        }
        struct packed *packed = packed_new(scene.sequences, SEQUENCES);
        double loss = harness_step(&scene.harness, packed_batch(packed), &other, 1);
        first = variant == 0 ? loss : first;
        assert_true(variant == 0 || loss != first);
        packed_free(packed);
    }
    scene_close(&scene);
}

static void first_bad_number_is_found(void **state) {
    struct scene scene;
    assert_true(scene_open(&scene, &plain));
    struct harness *harness = &scene.harness;
    struct packed *packed = packed_new(scene.sequences, SEQUENCES);
    const struct batch *batch = packed_batch(packed);
    const struct param_layer *second = &harness->table.layers[1];
    const int64_t places[] = {harness->table.embedding_norm_bias,
                              harness->table.layers[0].output_bias, second->attention_bias,
                              harness->table.head_bias};
    float *parameters = random_parameters(&harness->table, 1);
    harness_step(harness, batch, &dropout, 1);
    assert_int_equal(bert_first_nonfinite(&harness->model, harness->activations, batch), -1);
    for (int64_t i = 0; i < 4; i++) {
        float kept = parameters[places[i]];
        parameters[places[i]] = NAN;
        harness_load(harness, parameters);
        harness_step(harness, batch, NULL, 1);
        assert_int_equal(bert_first_nonfinite(&harness->model, harness->activations, batch), i);
        parameters[places[i]] = kept;
    }
    free(parameters);
    packed_free(packed);
    scene_close(&scene);
}

static size_t activation_bytes(enum dtype compute, int training) {
    struct bert_config config = tiny_config(768, 12, 3072, 12);
    struct param_table table = {.head = PARAM_HEAD_SPAN};
    struct bert model = {.config = &config, .table = &table, .compute = compute};
    struct arena arena = {0};
    bert_activations_free(bert_activations_new(&model, 8192, 64, training, &arena));
    return arena.peak;
}

// The table of doc/math.md, at BERT-base's sizes.
static void memory_is_what_the_table_says(void **state) {
    for (int half = 0; half < 2; half++) {
        const enum dtype compute = half ? DTYPE_BF16 : DTYPE_F32;
        const size_t rows = 8192, b = half ? 2 : 4, hidden = 768, heads = 12;
        const size_t layer = 16 * b * hidden + 4 * heads + 8;
        const size_t once = 2 * b * hidden + 4 + 12 * hidden + 16;
        assert_int_equal(activation_bytes(compute, 1), rows * (12 * layer + once) + 64 * 4);
        const size_t inference = 12 * hidden + (half ? b * hidden : 0) + 4 * b * hidden + 8;
        assert_int_equal(activation_bytes(compute, 0), rows * inference);
    }
}

static void lack_of_memory_is_told(void **state) {
    struct bert_config config = tiny_config(48, 3, 100, 2);
    struct param_table table = {.head = PARAM_HEAD_SPAN};
    struct bert model = {.config = &config, .table = &table, .compute = DTYPE_F32};
    for (uint64_t call = 1; call <= 2; call++) {
        struct arena arena = {0};
        memory_fail_at(call, 0);
        assert_null(bert_activations_new(&model, 64, 1, 1, &arena));
        memory_fail_at(0, 0);
    }
    bert_activations_free(NULL);
}

static void flops_follow_the_formula(void **state) {
    struct bert_config base = tiny_config(768, 12, 3072, 12);
    double expected =
        12 * (2.0 * 384 * (4.0 * 768 * 768 + 2.0 * 768 * 3072) + 4.0 * 384 * 384 * 768);
    assert_true(bert_forward_flops(&base, 384) == expected);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cutting_a_batch_changes_nothing),
        cmocka_unit_test(logits_do_not_depend_on_neighbours),
        cmocka_unit_test(threads_give_the_same_bits),
        cmocka_unit_test(instruction_sets_agree),
        cmocka_unit_test(inference_is_the_forward_pass),
        cmocka_unit_test(nothing_is_left_over),
        cmocka_unit_test(memory_needs_no_clearing),
        cmocka_unit_test(slack_rows_give_nothing),
        cmocka_unit_test(other_seeds_steps_and_places_are_other_masks),
        cmocka_unit_test(first_bad_number_is_found),
        cmocka_unit_test(memory_is_what_the_table_says),
        cmocka_unit_test(lack_of_memory_is_told),
        cmocka_unit_test(flops_follow_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
