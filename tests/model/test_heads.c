// SPDX-License-Identifier: Apache-2.0
// Tests the heads over whole sequences, labelled and masked tokens against transformers'
// BertForSequenceClassification, BertForTokenClassification, BertForPreTraining and
// BertForMaskedLM, with the files tests/golden/class_*.safetensors, token_*, pretraining_* and
// masked_* (dev/goldens/class_heads.py, pretraining_heads.py), and for consistency: batches split
// into pieces, threads, inference, frozen layers.

#include "core/harness.h"
#include "device/test_device.h"
#include "golden.h"
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"class_two",    "class_five",      "class_regression",
                                    "class_labels", "pretraining_erf", "pretraining_tanh",
                                    "masked_erf",   "masked_tanh",     "class_weighted",
                                    "token_plain",  "token_weighted"};
#define NAMES (sizeof names / sizeof *names)

struct scene {
    struct golden golden;
    struct golden_sequences sequences;
    struct harness harness;
    struct packed *packed;
    float *parameters;
    float *class_weights; // NULL: equal
};

static int has_masked_tokens(const struct scene *scene) {
    return scene->sequences.masked_count > 0;
}

static int classifies(const struct scene *scene) {
    return golden_has(&scene->golden.file, "classifier.weight", "");
}

static enum param_head head_of(const struct scene *scene) {
    return !has_masked_tokens(scene)                       ? PARAM_HEAD_CLASS
           : classifies(scene)                             ? PARAM_HEAD_TOKEN
           : golden_has(&scene->golden.file, "labels", "") ? PARAM_HEAD_PRETRAINING
                                                           : PARAM_HEAD_MASKED;
}

// The sum of the weights of `count` labels.
static double weight_of(const struct scene *scene, const int32_t *labels, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += scene->class_weights != NULL ? (double)scene->class_weights[labels[i]] : 1;
    }
    return sum;
}

// What the sum of the sequences' losses is divided by.
static double divisor(const struct scene *scene) {
    const int64_t count = scene->sequences.count;
    return has_masked_tokens(scene) ? (double)count
                                    : weight_of(scene, scene->sequences.labels, count);
}

// The mean over the masked tokens plus the mean over the sequences.
static float masked_weight(const struct scene *scene) {
    const struct golden_sequences *all = &scene->sequences;
    return has_masked_tokens(scene)
               ? (float)(divisor(scene) / weight_of(scene, all->masked_labels, all->masked_count))
               : 0;
}

static void read_class_weighting(struct scene *scene) {
    struct harness *harness = &scene->harness;
    const size_t bytes = (size_t)harness->config.num_labels * sizeof(float);
    scene->class_weights = NULL;
    if (golden_has(&scene->golden.file, "class_weights", "")) {
        scene->class_weights = golden_floats(&scene->golden.file, "", "class_weights", NULL);
        float *weights = harness->device->memory_new(harness->device, bytes);
        harness->device->upload(harness->device, weights, scene->class_weights, bytes);
        harness->model.class_weighting = (struct class_weighting){
            .weights = weights,
            .smoothing = (float)golden_number(&scene->golden.file, "", "label_smoothing")};
    }
}

static void scene_open(struct scene *scene, const char *name, const struct harness_options *how) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/%s.safetensors", BERTH_TEST_SOURCE_DIR, name);
    golden_open(&scene->golden, path);
    golden_sequences_read(&scene->golden, "", &scene->sequences);
    if (classifies(scene)) {
        scene->golden.config.num_labels =
            golden_entry(&scene->golden.file, "", "classifier.weight")->shape[0];
        scene->golden.config.problem = scene->sequences.label_targets ? BERT_MULTI_LABEL
                                       : scene->sequences.targets     ? BERT_REGRESSION
                                                                      : BERT_CLASSES;
    }
    struct harness_options options = *how;
    options.head = head_of(scene);
    options.max_masked = scene->sequences.masked_count;
    options.max_rows = batch_round(scene->sequences.tokens);
    options.max_sequences = scene->sequences.count;
    options.max_length = scene->sequences.longest;
    assert_true(harness_open(&scene->harness, &scene->golden.config, &options));
    scene->parameters = golden_parameters(&scene->golden, &scene->harness.table, NULL);
    harness_load(&scene->harness, scene->parameters);
    read_class_weighting(scene);
    scene->packed = packed_new(scene->sequences.sequences, scene->sequences.count);
    packed_weigh_masked(scene->packed, masked_weight(scene));
}

static void scene_close(struct scene *scene) {
    if (scene->class_weights != NULL) {
        struct device *device = scene->harness.device;
        device->memory_free(device, (void *)scene->harness.model.class_weighting.weights,
                            (size_t)scene->harness.config.num_labels * sizeof(float));
    }
    free(scene->class_weights);
    free(scene->parameters);
    packed_free(scene->packed);
    harness_close(&scene->harness);
    golden_sequences_free(&scene->sequences);
    golden_close(&scene->golden);
}

// The logits of the sequences, or of the masked tokens alone.
static float *logits_of(struct scene *scene, int64_t *count) {
    const struct batch *batch = harness_batch(&scene->harness, scene->packed);
    const int is_masked = head_of(scene) == PARAM_HEAD_MASKED;
    *count = is_masked ? scene->sequences.masked_count * scene->harness.config.vocab_size
                       : scene->sequences.count *
                             param_head_outputs(scene->harness.table.head, &scene->harness.config);
    return is_masked ? harness_masked_logits(&scene->harness, batch)
                     : harness_logits(&scene->harness, batch);
}

static double step(struct scene *scene, const struct bert_dropout *dropout) {
    float share = (float)(1 / divisor(scene));
    return harness_step(&scene->harness, harness_batch(&scene->harness, scene->packed), dropout,
                        share) *
           (double)share;
}

static void f32_equals_pytorch(void **state) {
    for (size_t i = 0; i < NAMES; i++) {
        struct scene scene;
        scene_open(&scene, names[i], &(struct harness_options){.compute = DTYPE_F32});
        const struct param_table *table = &scene.harness.table;
        double loss = step(&scene, NULL);
        double expected_loss = golden_number(&scene.golden.file, "", "loss");
        assert_true(fabs(loss - expected_loss) <= 1e-5 * fabs(expected_loss));
        double *expected = golden_doubles(&scene.golden.file, "", "logits", NULL);
        float *g0 = golden_layout(&scene.golden, table, "grad.");
        double *wide = to_double(g0, table->total);
        float *g = harness_gradients(&scene.harness);
        int64_t count;
        float *logits = logits_of(&scene, &count);
        double apart = largest_difference(logits, expected, count);
        assert_true(apart <= 2e-5);
        double worst = assert_gradients(table, g, wide, 1e-4, 1e-6, names[i]);
        print_message("%-18s logits apart by %.1e, gradients use %.0f %% of their bound\n",
                      names[i], apart, 100 * worst);
        free(expected);
        free(logits);
        free(g0);
        free(wide);
        free(g);
        scene_close(&scene);
    }
}

// As far from float64 as operands rounded to bf16 must be (see test_reference.c).
static void bf16_is_near(void **state) {
    for (size_t i = 0; i < NAMES; i++) {
        struct scene scene;
        scene_open(&scene, names[i], &(struct harness_options){.compute = DTYPE_BF16});
        const int64_t total = scene.harness.table.total;
        step(&scene, NULL);
        float *expected = golden_floats(&scene.golden.file, "", "logits", NULL);
        float *g0 = golden_layout(&scene.golden, &scene.harness.table, "grad.");
        float *g = harness_gradients(&scene.harness);
        int64_t count;
        float *logits = logits_of(&scene, &count);
        double logits_error = relative_error(logits, expected, count);
        double gradient_error = relative_error(g, g0, total);
        print_message("%-18s bf16 logits %.4f, gradients %.4f\n", names[i], logits_error,
                      gradient_error);
        assert_true(logits_error < 0.02 && gradient_error < 0.06);
        free(expected);
        free(logits);
        free(g0);
        free(g);
        scene_close(&scene);
    }
}

static const struct bert_dropout dropout = {.seed = 5,
                                            .step = 2,
                                            .hidden_probability = 0.1,
                                            .attention_probability = 0.1,
                                            .head_probability = 0.3};

// Each sequence alone, with its index in the whole batch.
static void one_at_a_time(struct scene *scene) {
    float share = (float)(1 / divisor(scene));
    for (int64_t s = 0; s < scene->sequences.count; s++) {
        struct packed *single = packed_new(&scene->sequences.sequences[s], 1);
        packed_weigh_masked(single, masked_weight(scene));
        harness_step(&scene->harness, harness_batch(&scene->harness, single), &dropout, share);
        packed_free(single);
    }
}

static void gradients_are_reported_when_final(void **state) {
    for (size_t i = 0; i < NAMES; i++) {
        struct scene scene;
        scene_open(&scene, names[i], &(struct harness_options){.compute = DTYPE_F32});
        assert_sink(&scene.harness, harness_batch(&scene.harness, scene.packed), NULL);
        scene_close(&scene);
    }
}

static void cutting_a_batch_changes_nothing(void **state) {
    for (size_t i = 0; i < NAMES; i++) {
        struct scene scene;
        scene_open(&scene, names[i], &(struct harness_options){.compute = DTYPE_F32});
        step(&scene, &dropout);
        float *whole = harness_gradients(&scene.harness);
        harness_zero_gradients(&scene.harness);
        one_at_a_time(&scene);
        float *pieces = harness_gradients(&scene.harness);
        assert_true(relative_error(pieces, whole, scene.harness.table.total) <
                    (harness_on_gpu() ? 1e-5 : 2e-6));
        // Dropout of a classifier's pooled output acts: without it the gradient is another.
        harness_zero_gradients(&scene.harness);
        struct bert_dropout none_pooled = dropout;
        none_pooled.head_probability = 0;
        step(&scene, &none_pooled);
        float *other = harness_gradients(&scene.harness);
        double changed = relative_error(other, whole, scene.harness.table.total);
        assert_true(classifies(&scene) ? changed > 1e-2 : changed == 0);
        free(whole);
        free(pieces);
        free(other);
        scene_close(&scene);
    }
}

static void threads_give_the_same_bits(void **state) {
    for (size_t i = 0; i < NAMES; i++) {
        float *first = NULL;
        for (int threads = 1; threads <= 4; threads *= 2) {
            struct scene scene;
            scene_open(&scene, names[i],
                       &(struct harness_options){.compute = DTYPE_BF16, .threads = threads});
            step(&scene, &dropout);
            float *own = harness_gradients(&scene.harness);
            size_t bytes = (size_t)scene.harness.table.total * sizeof *own;
            if (first == NULL) {
                first = own;
            } else {
                assert_memory_equal(own, first, bytes);
                free(own);
            }
            scene_close(&scene);
        }
        free(first);
    }
}

static void inference_gives_the_same_logits(void **state) {
    for (size_t i = 0; i < NAMES; i++) {
        float *logits[2];
        int64_t count = 0;
        for (int inference = 0; inference < 2; inference++) {
            struct scene scene;
            scene_open(&scene, names[i],
                       &(struct harness_options){.compute = DTYPE_F32, .inference = inference});
            bert_forward(&scene.harness.model, scene.harness.activations,
                         harness_batch(&scene.harness, scene.packed), NULL);
            logits[inference] = logits_of(&scene, &count);
            scene_close(&scene);
        }
        assert_same(logits[0], logits[1], count, 1e-5);
        free(logits[0]);
        free(logits[1]);
    }
}

// --- what is not trained ------------------------------------------------------------------------

struct freezing {
    struct param_frozen frozen;
    int pre_layer_norm, checkpointing;
};

static int is_frozen(const struct param *param, const struct param_frozen *frozen) {
    int layer;
    return sscanf(param->name, "bert.encoder.layer.%d.", &layer) == 1
               ? layer < frozen->layers
               : frozen->embeddings && strncmp(param->name, "bert.embeddings.", 16) == 0;
}

// The gradients of a model of three layers, with the listener's checks.
static float *frozen_gradients(const struct freezing *how, struct param_frozen frozen,
                               struct harness *harness) {
    static const int64_t lengths[] = {7, 30, 1, 12};
    struct bert_config config = tiny_config(16, 2, 24, 3);
    config.pre_layer_norm = how->pre_layer_norm;
    const struct harness_options options = {.compute = DTYPE_F32,
                                            .max_rows = 64,
                                            .max_sequences = 4,
                                            .max_length = 30,
                                            .checkpointing = how->checkpointing};
    assert_true(harness_open(harness, &config, &options));
    harness->model.frozen = frozen;
    float *parameters = random_parameters(&harness->table, 3);
    harness_load(harness, parameters);
    struct reference_sequence *sequences = sequences_new(&config, lengths, 4, 0, 8);
    struct packed *packed = packed_new(sequences, 4);
    assert_sink(harness, harness_batch(harness, packed), &dropout);
    float *gradients = harness_gradients(harness);
    packed_free(packed);
    sequences_free(sequences);
    free(parameters);
    return gradients;
}

static void compare_frozen(const struct freezing *how) {
    struct harness whole, part;
    float *all = frozen_gradients(how, (struct param_frozen){0}, &whole);
    float *own = frozen_gradients(how, how->frozen, &part);
    size_t frozen = 0;
    for (size_t i = 0; i < whole.table.count; i++) {
        const struct param *param = &whole.table.params[i];
        const int64_t count = param->rows * param->cols;
        const int zero = is_frozen(param, &how->frozen);
        frozen += (size_t)zero;
        for (int64_t k = param->offset; k < param->offset + count; k++) {
            if (own[k] != (zero ? 0.0f : all[k])) {
                fail_msg("%s[%lld]: %g, expected %g", param->name, (long long)(k - param->offset),
                         (double)own[k], zero ? 0.0 : (double)all[k]);
            }
        }
    }
    assert_int_equal(frozen, 16 * (size_t)how->frozen.layers + 5 * (size_t)how->frozen.embeddings);
    free(all);
    free(own);
    harness_close(&whole);
    harness_close(&part);
}

// To the bit: whatever is left out, the rest is computed by the same operations.
static void frozen_gradients_are_zero_and_the_others_unchanged(void **state) {
    for (int bits = 0; bits < 8; bits++) {
        for (int64_t layers = 0; layers <= 3; layers++) {
            compare_frozen(&(struct freezing){.frozen = {.layers = layers, .embeddings = bits & 1},
                                              .pre_layer_norm = bits >> 1 & 1,
                                              .checkpointing = bits >> 2});
        }
    }
}

int main(void) {
    if (test_lacks_device()) {
        return TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_equals_pytorch),
        cmocka_unit_test(bf16_is_near),
        cmocka_unit_test(cutting_a_batch_changes_nothing),
        cmocka_unit_test(threads_give_the_same_bits),
        cmocka_unit_test(gradients_are_reported_when_final),
        cmocka_unit_test(inference_gives_the_same_logits),
        cmocka_unit_test(frozen_gradients_are_zero_and_the_others_unchanged),
    };
    return cmocka_run_group_tests_name("heads", tests, NULL, NULL);
}
