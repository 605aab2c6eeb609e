// SPDX-License-Identifier: Apache-2.0
// Tests that results do not depend on how sequences are packed and divided into micro-batches, on
// the number of threads, on the instruction set, and on whether activations are kept or recomputed;
// and that inference equals training's forward pass.

#include "core/harness.h"
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

// Layer norms after the sub-layers or before, activations kept or computed again, in both types.
static const struct mode {
    const char *name;
    enum dtype compute;
    int pre_layer_norm, checkpointing;
} modes[] = {
    {"fp32", DTYPE_F32, 0, 0},
    {"bf16", DTYPE_BF16, 0, 0},
    {"fp32, checkpointing", DTYPE_F32, 0, 1},
    {"bf16, checkpointing", DTYPE_BF16, 0, 1},
    {"fp32, pre-layer-norm", DTYPE_F32, 1, 0},
    {"bf16, pre-layer-norm", DTYPE_BF16, 1, 0},
    {"fp32, pre-layer-norm, checkpointing", DTYPE_F32, 1, 1},
    {"bf16, pre-layer-norm, checkpointing", DTYPE_BF16, 1, 1},
};
#define MODES (sizeof modes / sizeof *modes)

static struct harness_options options_of(const struct mode *mode) {
    struct harness_options options = plain;
    options.compute = mode->compute;
    options.checkpointing = mode->checkpointing;
    return options;
}

// Three layers: one that is first, one that is last, one between them.
static struct bert_config config_of(const struct mode *mode) {
    struct bert_config config = tiny_config(48, 3, 100, 3);
    config.pre_layer_norm = mode->pre_layer_norm;
    return config;
}

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

static void scene_open(struct scene *scene, const struct mode *mode) {
    const struct harness_options options = options_of(mode);
    const struct bert_config config = config_of(mode);
    assert_true(scene_open_sized(scene, &options, &config, lengths));
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
        *loss += harness_step(&scene->harness, harness_batch(&scene->harness, packed), &dropout,
                              1.0f / SEQUENCES);
        packed_free(packed);
    }
    return harness_gradients(&scene->harness);
}

static void check_cutting(const struct mode *mode) {
    struct scene scene;
    scene_open(&scene, mode);
    double whole_loss = 0, loss = 0;
    float *whole = accumulate(&scene, SEQUENCES, &whole_loss);
    static const int64_t sizes[] = {1, 2, 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        float *parts = accumulate(&scene, sizes[i], &loss);
        double error = relative_error(parts, whole, scene.harness.table.total);
        print_message("%s, %d at a time: gradients' relative error %.1e, loss %.1e\n", mode->name,
                      (int)sizes[i], error, fabs(loss / whole_loss - 1));
        assert_true(error <= 1e-6);
        assert_true(fabs(loss / whole_loss - 1) <= 1e-6);
        free(parts);
    }
    free(whole);
    scene_close(&scene);
}

static void gradients_are_reported_when_final(void **state) {
    for (size_t m = 0; m < MODES; m++) {
        struct scene scene;
        scene_open(&scene, &modes[m]);
        struct packed *packed = packed_new(scene.sequences, SEQUENCES);
        assert_sink(&scene.harness, harness_batch(&scene.harness, packed), &dropout);
        packed_free(packed);
        scene_close(&scene);
    }
}

static void cutting_a_batch_changes_nothing(void **state) {
    for (size_t m = 0; m < MODES; m++) {
        if (modes[m].compute == DTYPE_F32) {
            check_cutting(&modes[m]);
        }
    }
}

static void check_neighbours(const struct mode *mode) {
    struct scene scene;
    scene_open(&scene, mode);
    struct packed *all = packed_new(scene.sequences, SEQUENCES);
    const struct batch *batch = harness_batch(&scene.harness, all);
    bert_forward(&scene.harness.model, scene.harness.activations, batch, &dropout);
    float *whole = harness_logits(&scene.harness, batch);
    for (int64_t s = 0; s < SEQUENCES; s++) {
        struct packed *one = packed_new(&scene.sequences[s], 1);
        batch = harness_batch(&scene.harness, one);
        bert_forward(&scene.harness.model, scene.harness.activations, batch, &dropout);
        float *alone = harness_logits(&scene.harness, batch);
        const float *there = whole + 2 * packed_batch(all)->cu_seqlens[s];
        assert_true(relative_error(alone, there, 2 * lengths[s]) <= 1e-6);
        free(alone);
        packed_free(one);
    }
    free(whole);
    packed_free(all);
    scene_close(&scene);
}

static void logits_do_not_depend_on_neighbours(void **state) {
    for (size_t m = 0; m < MODES; m++) {
        if (modes[m].compute == DTYPE_F32 && !modes[m].checkpointing) {
            check_neighbours(&modes[m]);
        }
    }
}

// An update's gradients with dropout, to compare bit by bit. wide: a model and a batch of more than
// one tile in every direction.
static float *run_with(const struct harness_options *options, int pre_layer_norm, int wide,
                       double *loss, int64_t *count) {
    struct bert_config config = wide ? tiny_config(320, 5, 600, 1) : tiny_config(48, 3, 100, 3);
    struct scene scene;
    config.pre_layer_norm = pre_layer_norm;
    config.num_labels = 5;
    if (!scene_open_sized(&scene, options, &config, wide ? longer : lengths)) {
        return NULL;
    }
    float *gradients = accumulate(&scene, wide ? SEQUENCES : 7, loss);
    *count = scene.harness.table.total;
    scene_close(&scene);
    return gradients;
}

static void check_threads(const struct mode *mode, int wide) {
    struct harness_options options = options_of(mode);
    options.threads = 1;
    double one_loss = 0, loss = 0;
    int64_t count = 0;
    float *one = run_with(&options, mode->pre_layer_norm, wide, &one_loss, &count);
    for (options.threads = 2; options.threads <= 4; options.threads *= 2) {
        float *more = run_with(&options, mode->pre_layer_norm, wide, &loss, &count);
        assert_true(loss == one_loss);
        assert_memory_equal(more, one, (size_t)count * sizeof *one);
        free(more);
    }
    free(one);
}

static void threads_give_the_same_bits(void **state) {
    for (size_t m = 0; m < MODES; m++) {
        check_threads(&modes[m], 0);
        if (!modes[m].checkpointing && !modes[m].pre_layer_norm) { // the same products either way
            check_threads(&modes[m], 1);
        }
    }
}

static const char *const sets[] = {INSTRUCTION_SETS};
#define SETS (sizeof sets / sizeof *sets)

static void check_instruction_sets(const struct mode *mode) {
    const int half = mode->compute == DTYPE_BF16;
    struct harness_options options = options_of(mode);
    double best_loss = 0, loss = 0;
    int64_t count = 0;
    float *best = run_with(&options, mode->pre_layer_norm, 0, &best_loss, &count);
    for (size_t i = 0; i < SETS; i++) {
        options.instructions = sets[i];
        float *other = run_with(&options, mode->pre_layer_norm, 0, &loss, &count);
        if (!other) {
            continue;
        }
        double error = relative_error(other, best, count);
        print_message("%s, %s: gradients' relative distance to the best set's %.1e\n", sets[i],
                      mode->name, error);
        if (!half && strcmp(sets[i], "generic") != 0) { // which does not fuse multiply-adds
            assert_memory_equal(other, best, (size_t)count * sizeof *best);
            assert_memory_equal(&loss, &best_loss, sizeof loss);
        }
        // In bf16 a last bit that differs before a rounding differs by 2^-8 after it.
        assert_true(error <= (half ? 0.02 : 1e-5));
        assert_true(fabs(loss / best_loss - 1) <= (half ? 0.01 : 1e-5));
        free(other);
    }
    free(best);
}

static void instruction_sets_agree(void **state) {
    for (size_t m = 0; m < MODES; m++) {
        if (!modes[m].checkpointing) {
            check_instruction_sets(&modes[m]);
        }
    }
}

// Loss and gradients of an update in two micro-batches with recomputed activations, against those
// with all of them kept.
static void check_checkpointing(const struct mode *mode, const struct harness_options *machine) {
    struct harness_options options = *machine;
    double kept_loss = 0, loss = 0;
    int64_t count = 0;
    options.compute = mode->compute;
    float *kept = run_with(&options, mode->pre_layer_norm, 0, &kept_loss, &count);
    options.checkpointing = 1;
    float *again = run_with(&options, mode->pre_layer_norm, 0, &loss, &count);
    assert_true((kept == NULL) == (again == NULL));
    if (kept) {
        assert_true(loss == kept_loss);
        assert_memory_equal(again, kept, (size_t)count * sizeof *kept);
    }
    free(kept);
    free(again);
}

static void checkpointing_gives_the_same_bits(void **state) {
    for (size_t m = 0; m < MODES; m++) {
        for (size_t i = 0; i < SETS && modes[m].checkpointing; i++) {
            struct harness_options machine = plain;
            machine.instructions = sets[i];
            machine.threads = 1 + (int)(i + m) % 3; // threads_give_the_same_bits has the rest
            // The first set, which no machine lacks, meets both heads in each mode; each other set
            // meets both in different modes.
            const int is_span = (i + m / 4) % 2 == 0;
            machine.head = is_span ? PARAM_HEAD_SPAN : PARAM_HEAD_CLASS;
            check_checkpointing(&modes[m], &machine);
            if (i == 0) {
                machine.head = is_span ? PARAM_HEAD_CLASS : PARAM_HEAD_SPAN;
                check_checkpointing(&modes[m], &machine);
            }
        }
    }
}

static void check_inference(const struct mode *mode) {
    const struct bert_config config = config_of(mode);
    struct harness_options options = options_of(mode);
    struct scene training, inference;
    scene_open(&training, mode);
    options.inference = 1;
    assert_true(scene_open_sized(&inference, &options, &config, lengths));
    assert_true(inference.harness.block_bytes < training.harness.block_bytes);
    struct packed *packed = packed_new(training.sequences, SEQUENCES);
    const struct batch *batch = harness_batch(&training.harness, packed);
    const struct batch *other = harness_batch(&inference.harness, packed);
    static const struct bert_dropout zero = {.seed = 7, .step = 5};
    bert_forward(&training.harness.model, training.harness.activations, batch, &zero);
    bert_forward(&inference.harness.model, inference.harness.activations, other, NULL);
    float *a = harness_logits(&training.harness, batch);
    float *b = harness_logits(&inference.harness, other);
    assert_memory_equal(a, b, (size_t)batch->token_count * 2 * sizeof *a);
    free(a);
    free(b);
    packed_free(packed);
    scene_close(&inference);
    scene_close(&training);
}

static void inference_is_the_forward_pass(void **state) {
    for (size_t m = 0; m < MODES; m++) {
        check_inference(&modes[m]);
    }
}

// The same batch twice: an earlier batch, however large, leaves no trace.
static void nothing_is_left_over(void **state) {
    for (size_t m = 0; m < MODES; m++) {
        struct scene scene;
        scene_open(&scene, &modes[m]);
        float *gradients[2];
        struct packed *packed = packed_new(scene.sequences, 5);
        struct packed *other = packed_new(scene.sequences, SEQUENCES);
        for (int i = 0; i < 2; i++) {
            harness_step(&scene.harness, harness_batch(&scene.harness, other), &dropout, 1);
            harness_zero_gradients(&scene.harness);
            harness_step(&scene.harness, harness_batch(&scene.harness, packed), &dropout, 1);
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

// Training and inference share one block, so it may contain anything before a batch.
static void memory_needs_no_clearing(void **state) {
    for (size_t m = 0; m < MODES; m++) {
        struct scene scene;
        scene_open(&scene, &modes[m]);
        struct packed *packed = packed_new(scene.sequences, SEQUENCES);
        assert_true(packed_batch(packed)->row_count > packed_batch(packed)->token_count);
        float *gradients[2];
        for (int i = 0; i < 2; i++) {
            harness_zero_gradients(&scene.harness);
            harness_step(&scene.harness, harness_batch(&scene.harness, packed), &dropout, 1);
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

// The rule of device.h: slack rows contribute no gradient, whatever their ids are.
static void check_slack_rows(const struct mode *mode) {
    struct scene scene;
    scene_open(&scene, mode);
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
        harness_step(&scene.harness, harness_batch(&scene.harness, packed), &dropout, 1);
        gradients[i] = harness_gradients(&scene.harness);
    }
    assert_memory_equal(gradients[0], gradients[1],
                        (size_t)scene.harness.table.total * sizeof(float));
    free(gradients[0]);
    free(gradients[1]);
    packed_free(packed);
    scene_close(&scene);
}

static void slack_rows_give_nothing(void **state) {
    for (size_t m = 0; m < MODES; m++) {
        check_slack_rows(&modes[m]);
    }
}

static void other_seeds_steps_and_indices_are_other_masks(void **state) {
    struct scene scene;
    scene_open(&scene, &modes[0]);
    double first = 0;
    for (int variant = 0; variant < 4; variant++) {
        struct bert_dropout other = dropout;
        other.seed += variant == 1;
        other.step += variant == 2;
        for (int64_t s = 0; s < SEQUENCES; s++) {
            scene.sequences[s].global_index = s + (variant == 3);
        }
        struct packed *packed = packed_new(scene.sequences, SEQUENCES);
        double loss =
            harness_step(&scene.harness, harness_batch(&scene.harness, packed), &other, 1);
        first = variant == 0 ? loss : first;
        assert_true(variant == 0 || loss != first);
        packed_free(packed);
    }
    scene_close(&scene);
}

// Makes the parameter at `offset` NaN and returns the stage that bert_first_nonfinite finds.
static int64_t stage_of_nan(struct scene *scene, const struct batch *batch, int64_t offset) {
    struct harness *harness = &scene->harness;
    float *parameters = random_parameters(&harness->table, 1);
    parameters[offset] = NAN;
    harness_load(harness, parameters);
    free(parameters);
    harness_step(harness, batch, NULL, 1);
    int64_t after = bert_first_nonfinite(&harness->model, harness->activations, batch);
    bert_forward(&harness->model, harness->activations, batch, NULL);
    assert_int_equal(bert_first_nonfinite(&harness->model, harness->activations, batch), after);
    return after;
}

static void check_bad_numbers(const struct mode *mode) {
    struct scene scene;
    scene_open(&scene, mode);
    struct harness *harness = &scene.harness;
    struct packed *packed = packed_new(scene.sequences, SEQUENCES);
    const struct batch *batch = harness_batch(harness, packed);
    const struct param_layer *layers = harness->table.layers;
    const int64_t offsets[] = {harness->table.embedding_norm_bias, layers[0].output_bias,
                               layers[1].attention_bias, layers[2].output_norm_bias,
                               harness->table.head_bias};
    harness_step(harness, batch, &dropout, 1);
    assert_int_equal(bert_first_nonfinite(&harness->model, harness->activations, batch), -1);
    for (int64_t i = 0; i < 5; i++) {
        assert_int_equal(stage_of_nan(&scene, batch, offsets[i]), i);
    }
    packed_free(packed);
    scene_close(&scene);
}

static void first_bad_number_is_found(void **state) {
    for (size_t m = 0; m < MODES; m++) {
        check_bad_numbers(&modes[m]);
    }
}

static size_t activation_bytes(const struct mode *mode, enum bert_keep keep, int keeps_masks) {
    struct bert_config config = tiny_config(768, 12, 3072, 12);
    struct param_table table = {
        .head = PARAM_HEAD_SPAN, .pooler_weight = -1, .projection_weight = -1};
    struct device device = {.keeps_masks = keeps_masks};
    struct bert model = {.config = &config,
                         .table = &table,
                         .device = &device,
                         .compute = mode->compute,
                         .attention_dropout = 0.1,
                         .max_length = 384};
    struct arena arena = {0};
    config.pre_layer_norm = mode->pre_layer_norm;
    bert_activations_free(bert_activations_new(&model, 8192, 64, keep, &arena));
    return arena.peak;
}

// The tables of doc/develop/math.md, at BERT-base's sizes.
static void memory_is_what_the_table_says(void **state) {
    for (size_t m = 0; m < 2 * MODES; m++) {
        const struct mode *mode = &modes[m / 2];
        const int keeps_masks = m % 2;
        const int half = mode->compute == DTYPE_BF16, pre = mode->pre_layer_norm;
        const size_t rows = 8192, b = half ? 2 : 4, hidden = 768, heads = 12;
        const size_t norm = 2 * b * hidden + 4, masks = keeps_masks ? 16 * heads * 3 : 0;
        const size_t layer = 16 * b * hidden + 4 * heads + 8 + masks;
        const size_t once = norm + 12 * hidden + 16 + (pre ? b * hidden + 4 : 0);
        const size_t gradients = half || pre ? 8 * hidden : 0;
        const size_t sums = 12 * 4 * hidden + layer + norm + gradients;
        const size_t all = mode->checkpointing ? sums : 12 * layer;
        assert_int_equal(
            activation_bytes(mode, mode->checkpointing ? BERT_RECOMPUTE_LAYERS : BERT_KEEP_ALL,
                             keeps_masks),
            rows * (all + once) + 64 * 4);
        const size_t inference = 12 * hidden + (half ? b * hidden : 0) + 4 * b * hidden + 8;
        assert_int_equal(activation_bytes(mode, BERT_KEEP_NOTHING, keeps_masks), rows * inference);
    }
}

static void lack_of_memory_is_reported(void **state) {
    struct bert_config config = tiny_config(48, 3, 100, 2);
    struct param_table table = {
        .head = PARAM_HEAD_SPAN, .pooler_weight = -1, .projection_weight = -1};
    struct device device = {.keeps_masks = 0};
    struct bert model = {
        .config = &config, .table = &table, .device = &device, .compute = DTYPE_F32};
    for (uint64_t call = 1; call <= 2; call++) {
        struct arena arena = {0};
        memory_fail_at(call, 0);
        assert_null(bert_activations_new(&model, 64, 1, BERT_KEEP_ALL, &arena));
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

// Four sequences of 96 tokens, of which 40 are masked.
static void flops_of_heads_follow_the_formula(void **state) {
    struct bert_config base = tiny_config(768, 12, 3072, 12);
    const double row = 2.0 * (768 * 768 + 2 * 768 * 3072), word = 2.0 * (768 * 768 + 768 * 61);
    const struct {
        enum param_head head;
        double expected;
    } rows[] = {{PARAM_HEAD_SPAN, 0},
                {PARAM_HEAD_TOKEN, 0},
                {PARAM_HEAD_CLASS, -(384 - 44) * row},
                {PARAM_HEAD_PRETRAINING, 40 * word - (384 - 44) * row}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct param_table table = {.head = rows[i].head};
        const struct bert model = {.config = &base, .table = &table};
        assert_true(bert_head_flops(&model, 384, 4, 40) == rows[i].expected);
    }
    const struct param_table table = {.head = PARAM_HEAD_CLASS};
    const struct bert model = {.config = &base, .table = &table};
    assert_true(bert_head_flops(&model, 3, 3, 0) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cutting_a_batch_changes_nothing),
        cmocka_unit_test(logits_do_not_depend_on_neighbours),
        cmocka_unit_test(threads_give_the_same_bits),
        cmocka_unit_test(instruction_sets_agree),
        cmocka_unit_test(checkpointing_gives_the_same_bits),
        cmocka_unit_test(inference_is_the_forward_pass),
        cmocka_unit_test(nothing_is_left_over),
        cmocka_unit_test(memory_needs_no_clearing),
        cmocka_unit_test(slack_rows_give_nothing),
        cmocka_unit_test(other_seeds_steps_and_indices_are_other_masks),
        cmocka_unit_test(first_bad_number_is_found),
        cmocka_unit_test(gradients_are_reported_when_final),
        cmocka_unit_test(memory_is_what_the_table_says),
        cmocka_unit_test(lack_of_memory_is_reported),
        cmocka_unit_test(flops_follow_the_formula),
        cmocka_unit_test(flops_of_heads_follow_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
