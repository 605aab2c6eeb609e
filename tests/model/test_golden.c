// SPDX-License-Identifier: Apache-2.0
// Tests the model against PyTorch + transformers, with the files of tests/golden: logits, loss and
// every gradient in fp32 and bf16, and the loss curve of ten AdamW updates. Also on real features
// if BERTH_GOLDEN_REAL names a folder with minilm_logits.safetensors and minilm_grads.safetensors
// (from dev/goldens/minilm_logits.py) and BERTH_MODEL the model's folder.

#include "core/harness.h"
#include "device/test_device.h"
#include "golden.h"
#include "harness.h"
#include "model/folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const tiny[] = {"tiny_h20",      "tiny_h36", "tiny_h48_one_token",
                                   "tiny_h33_long", "tiny_h64", "tiny_h24_many"};
#define TINY_COUNT (sizeof tiny / sizeof *tiny)

// A golden file and the model that it belongs to.
struct scene {
    const char *name;
    struct golden golden;
    struct golden_sequences sequences;
    struct packed *packed;
    struct harness harness;
};

static void scene_open_file(struct scene *scene, const char *path, const struct safetensors *model,
                            enum dtype compute, int inference) {
    golden_open(&scene->golden, path);
    golden_sequences_read(&scene->golden, "", &scene->sequences);
    scene->packed = packed_new(scene->sequences.sequences, scene->sequences.count);
    struct harness_options options = {
        .compute = compute,
        .max_rows = batch_round(scene->sequences.tokens),
        .max_sequences = scene->sequences.count,
        .max_length = scene->sequences.longest,
        .inference = inference,
    };
    assert_true(harness_open(&scene->harness, &scene->golden.config, &options));
    float *parameters = golden_parameters(&scene->golden, &scene->harness.table, model);
    harness_load(&scene->harness, parameters);
    free(parameters);
}

static void scene_open(struct scene *scene, const char *name, enum dtype compute) {
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/%s.safetensors", BERTH_TEST_SOURCE_DIR, name);
    scene->name = name;
    scene_open_file(scene, path, NULL, compute, 0);
}

static void scene_close(struct scene *scene) {
    harness_close(&scene->harness);
    packed_free(scene->packed);
    golden_sequences_free(&scene->sequences);
    golden_close(&scene->golden);
}

static double step(struct scene *scene) {
    return harness_step(&scene->harness, harness_batch(&scene->harness, scene->packed), NULL,
                        1 / (float)scene->sequences.count) /
           (double)scene->sequences.count;
}

// --- fp32 ----------------------------------------------------------------------------------------

static void check_f32(struct scene *scene) {
    double loss = step(scene);
    double expected_loss = golden_number(&scene->golden.file, "", "loss");
    assert_true(fabs(loss - expected_loss) <= 1e-5 * fabs(expected_loss));
    float *expected = golden_floats(&scene->golden.file, "", "logits", NULL);
    float *logits = harness_logits(&scene->harness, harness_batch(&scene->harness, scene->packed));
    double *wide = to_double(expected, 2 * scene->sequences.tokens);
    double apart = largest_difference(logits, wide, 2 * scene->sequences.tokens);
    assert_true(apart <= 1e-4);
    const struct param_table *table = &scene->harness.table;
    float *g0 = golden_layout(&scene->golden, table, "grad.");
    double *wide_g0 = to_double(g0, table->total);
    float *g = harness_gradients(&scene->harness);
    double worst = assert_gradients(table, g, wide_g0, 1e-4, 1e-6, scene->name);
    print_message("%-20s fp32 logits apart by %.1e, gradients use %.0f %% of their bound\n",
                  scene->name, apart, 100 * worst);
    free(expected);
    free(logits);
    free(wide);
    free(g0);
    free(wide_g0);
    free(g);
}

static void f32_equals_pytorch(void **state) {
    for (size_t i = 0; i < TINY_COUNT; i++) {
        struct scene scene;
        scene_open(&scene, tiny[i], DTYPE_F32);
        check_f32(&scene);
        scene_close(&scene);
    }
}

// --- norms before the sub-layers ---------------------------------------------------------------

static const char *const pre_layer_norm[] = {"preln_erf", "preln_tanh"};
#define PRE_COUNT (sizeof pre_layer_norm / sizeof *pre_layer_norm)

static void pre_layer_norm_f32_equals_pytorch(void **state) {
    for (size_t i = 0; i < PRE_COUNT; i++) {
        struct scene scene;
        scene_open(&scene, pre_layer_norm[i], DTYPE_F32);
        check_f32(&scene);
        scene_close(&scene);
    }
}

// As far from float64 as operands rounded to bf16 must be (see test_reference.c).
static void pre_layer_norm_bf16_is_near(void **state) {
    for (size_t i = 0; i < PRE_COUNT; i++) {
        struct scene scene;
        scene_open(&scene, pre_layer_norm[i], DTYPE_BF16);
        step(&scene);
        int64_t count;
        float *expected = golden_floats(&scene.golden.file, "", "logits", &count);
        float *logits = harness_logits(&scene.harness, harness_batch(&scene.harness, scene.packed));
        float *g0 = golden_layout(&scene.golden, &scene.harness.table, "grad.");
        float *g = harness_gradients(&scene.harness);
        double logits_error = relative_error(logits, expected, count);
        double gradient_error = relative_error(g, g0, scene.harness.table.total);
        print_message("%-20s bf16 logits %.4f, gradients %.4f\n", scene.name, logits_error,
                      gradient_error);
        assert_true(logits_error < 0.02 && gradient_error < 0.06);
        free(expected);
        free(logits);
        free(g0);
        free(g);
        scene_close(&scene);
    }
}

// --- Google's layout ----------------------------------------------------------------------------

static float *forward_logits(struct scene *scene) {
    const struct batch *batch = harness_batch(&scene->harness, scene->packed);
    bert_forward(&scene->harness.model, scene->harness.activations, batch, NULL);
    return harness_logits(&scene->harness, batch);
}

// The weights of tiny_h20 as saved by TensorFlow (../format/data/tensorflow/bert): the logits must
// be bit-identical to those of the original file.
static void tensorflow_checkpoint_gives_the_same_logits(void **state) {
    static const char folder[] = BERTH_TEST_FORMAT_DATA "/tensorflow/bert";
    struct scene scene;
    scene_open(&scene, "tiny_h20", DTYPE_F32);
    const struct param_table *table = &scene.harness.table;
    const size_t size = 2 * (size_t)scene.sequences.tokens * sizeof(float);
    float *expected = forward_logits(&scene);
    float *weights = calloc((size_t)table->total, sizeof *weights);
    harness_load(&scene.harness, weights);
    float *logits = forward_logits(&scene);
    assert_memory_not_equal(logits, expected, size); // of zeros
    free(logits);
    struct folder_report report;
    struct berth_error error;
    if (folder_read_weights(folder, &scene.golden.config, table, 0, weights, &report, &error) !=
        BERTH_OK) {
        fail_msg("%s", error.message);
    }
    harness_load(&scene.harness, weights);
    logits = forward_logits(&scene);
    assert_memory_equal(logits, expected, size);
    folder_report_done(&report);
    free(weights);
    free(logits);
    free(expected);
    scene_close(&scene);
}

// --- bf16 ----------------------------------------------------------------------------------------

static double cosine(const float *a, const float *b, int64_t count) {
    double dot = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < count; i++) {
        dot += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return aa == 0 && bb == 0 ? 1 : dot / sqrt(aa * bb);
}

static double distance(const float *a, const float *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    }
    return sqrt(sum);
}

// |g - g0| <= 1.25 |autocast - g0| + 1e-3 |G0| for every tensor. Reports how our error compares.
static void check_bf16_gradients(struct scene *scene, const float *g, const float *g0) {
    const struct param_table *table = &scene->harness.table;
    double *wide = to_double(g0, table->total);
    const double whole = norm2(wide, table->total);
    double worst = 0, worst_plain = 0, sum = 0, autocast_sum = 0;
    const char *worst_name = "none";
    for (size_t p = 0; p < table->count; p++) {
        const struct param *param = &table->params[p];
        double error = distance(g + param->offset, g0 + param->offset, param->rows * param->cols);
        double autocast = golden_number(&scene->golden.file, "autocast_error.", param->name);
        double bound = 1.25 * autocast + 1e-3 * whole;
        if (!(error <= bound)) {
            fail_msg("%s: gradient of %s is off by %g |G0|, autocast's by %g", scene->name,
                     param->name, error / whole, autocast / whole);
        }
        if (bound > 0 && error / bound > worst) {
            worst = error / bound;
            worst_plain = error / autocast;
            worst_name = param->name;
        }
        sum += error * error;
        autocast_sum += autocast * autocast;
    }
    print_message("    gradients' error: whole %.2f of autocast's; nearest to its bound %s at %.0f "
                  "%% (%.2f of autocast's)\n",
                  autocast_sum > 0 ? sqrt(sum / autocast_sum) : 0.0, worst_name, 100 * worst,
                  worst_plain);
    free(wide);
}

static void check_bf16(struct scene *scene) {
    step(scene);
    int64_t count;
    float *expected = golden_floats(&scene->golden.file, "", "logits", &count);
    float *logits = harness_logits(&scene->harness, harness_batch(&scene->harness, scene->packed));
    double error = relative_error(logits, expected, count);
    const struct param_table *table = &scene->harness.table;
    float *g0 = golden_layout(&scene->golden, table, "grad.");
    float *g = harness_gradients(&scene->harness);
    double ours = cosine(g, g0, table->total);
    double autocast = golden_number(&scene->golden.file, "autocast_cosine", "");
    print_message("%-20s bf16 logits' relative error %.4f (autocast %.4f), cosine %.6f (%.6f)\n",
                  scene->name, error,
                  golden_number(&scene->golden.file, "autocast_logits_error", ""), ours, autocast);
    check_bf16_gradients(scene, g, g0);
    assert_true(error <= 0.02);
    assert_true(isnan(autocast) || ours >= autocast - 1e-3);
    free(expected);
    free(logits);
    free(g0);
    free(g);
}

static void bf16_is_as_good_as_autocast(void **state) {
    for (size_t i = 0; i < TINY_COUNT; i++) {
        struct scene scene;
        scene_open(&scene, tiny[i], DTYPE_BF16);
        check_bf16(&scene);
        scene_close(&scene);
    }
}

// --- ten updates ---------------------------------------------------------------------------------

// AdamW's buffers in addition to the model's, in device memory.
enum { RANGES = 3, SUMS = 256 };
struct totals {
    struct grad_stats stats[1];
    struct device_range ranges[RANGES];
    int64_t blocks[2];
    double sums[SUMS];
};
struct moments {
    float *first, *second;
    struct totals *totals;
};

// Decay acts on matrices and embedding tables.
static void fill_ranges(struct harness *harness, struct moments *moments) {
    const struct param_table *table = &harness->table;
    const int64_t starts[] = {0, table->matrix_count, table->embedding_norm_weight, table->total};
    struct totals totals = {0};
    for (int i = 0; i < RANGES; i++) {
        totals.ranges[i] = (struct device_range){.first = starts[i],
                                                 .moment_first = starts[i],
                                                 .count = starts[i + 1] - starts[i],
                                                 .block = totals.blocks[1],
                                                 .weight_decay = i < RANGES - 1 ? 0.01 : 0};
        totals.blocks[1] += device_sum_blocks(totals.ranges[i].count);
    }
    assert_true(totals.blocks[1] <= SUMS);
    harness->device->upload(harness->device, moments->totals, &totals, sizeof totals);
}

static struct moments moments_new(struct harness *harness) {
    struct device *dev = harness->device;
    const size_t bytes = (size_t)harness->table.total * sizeof(float);
    struct moments moments = {.first = dev->memory_new(dev, bytes),
                              .second = dev->memory_new(dev, bytes),
                              .totals = dev->memory_new(dev, sizeof(struct totals))};
    fill_ranges(harness, &moments);
    return moments;
}

static void moments_free(struct harness *harness, struct moments *moments) {
    struct device *dev = harness->device;
    const size_t bytes = (size_t)harness->table.total * sizeof(float);
    dev->memory_free(dev, moments->first, bytes);
    dev->memory_free(dev, moments->second, bytes);
    dev->memory_free(dev, moments->totals, sizeof(struct totals));
}

static void update(struct harness *harness, struct moments *moments, int index, double rate) {
    struct device *dev = harness->device;
    const struct param_table *table = &harness->table;
    struct totals *totals = moments->totals;
    struct adamw_args args = {
        .parameters = harness->master,
        .gradients = harness->gradients,
        .first_moment = moments->first,
        .second_moment = moments->second,
        .ranges = totals->ranges,
        .range_count = RANGES,
        .rate = rate,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .epsilon = 1e-8,
        .correction1 = 1 - pow(0.9, index + 1),
        .correction2 = 1 - pow(0.999, index + 1),
        .gradient_scale = 1,
        .max_grad_norm = 1,
        .stats = totals->stats,
    };
    if (harness->compute != harness->master) {
        args.compute = mat_of(harness->compute, 1, table->matrix_count, harness->model.compute);
    }
    dev->squares(dev, totals->sums, harness->gradients, totals->ranges, RANGES);
    dev->norms(dev, totals->stats, totals->sums, totals->blocks, 1, 1);
    dev->adamw(dev, &args);
}

static double curve_step(struct harness *harness, const struct golden *golden, int index) {
    char suffix[8];
    snprintf(suffix, sizeof suffix, ".%d", index % 3);
    struct golden_sequences sequences;
    golden_sequences_read(golden, suffix, &sequences);
    struct packed *packed = packed_new(sequences.sequences, sequences.count);
    double loss =
        harness_step(harness, harness_batch(harness, packed), NULL, 1 / (float)sequences.count) /
        (double)sequences.count;
    packed_free(packed);
    golden_sequences_free(&sequences);
    return loss;
}

static void check_final(struct harness *harness, const struct golden *golden, double within) {
    float *parameters = malloc((size_t)harness->table.total * sizeof *parameters);
    assert_non_null(parameters);
    harness->device->download(harness->device, parameters, harness->master,
                              (size_t)harness->table.total * sizeof *parameters);
    for (size_t p = 0; p < harness->table.count; p++) {
        const struct param *param = &harness->table.params[p];
        if (golden_has(&golden->file, "final.", param->name)) {
            int64_t count;
            float *expected = golden_floats(&golden->file, "final.", param->name, &count);
            double error = relative_error(parameters + param->offset, expected, count);
            if (!(error <= within)) {
                fail_msg("after ten steps %s is off by %g", param->name, error);
            }
            free(expected);
        }
    }
    free(parameters);
}

// Runs whole training steps; returns 0 if the processor lacks the instructions.
static int ten_steps(enum dtype compute, const char *instructions) {
    struct golden golden;
    golden_open(&golden, BERTH_TEST_SOURCE_DIR "/tests/golden/adamw_curve.safetensors");
    struct harness harness;
    struct harness_options options = {.compute = compute,
                                      .instructions = instructions,
                                      .max_rows = 128,
                                      .max_sequences = 4,
                                      .max_length = 48};
    if (!harness_open(&harness, &golden.config, &options)) {
        golden_close(&golden);
        return 0;
    }
    float *parameters = golden_parameters(&golden, &harness.table, NULL);
    harness_load(&harness, parameters);
    struct moments moments = moments_new(&harness);
    float *losses = golden_floats(&golden.file, "", "losses_float64", NULL);
    float *rates = golden_floats(&golden.file, "", "learning_rates", NULL);
    const int half = compute != DTYPE_F32;
    double worst = 0;
    for (int k = 0; k < 10; k++) {
        double error = fabs(curve_step(&harness, &golden, k) / losses[k] - 1);
        worst = fmax(worst, error);
        update(&harness, &moments, k, rates[k]);
    }
    print_message("ten steps in %s, %s: losses apart by at most %.1e\n", dtype_name(compute),
                  instructions, worst);
    assert_true(worst <= (half ? 5e-3 : 1e-4));
    check_final(&harness, &golden, half ? 5e-2 : 1e-3);
    free(losses);
    free(rates);
    free(parameters);
    moments_free(&harness, &moments);
    harness_close(&harness);
    golden_close(&golden);
    return 1;
}

static void ten_steps_follow_pytorch(void **state) {
    if (!ten_steps(DTYPE_F32, *state) || !ten_steps(DTYPE_BF16, *state)) {
        print_message("this processor does not run %s\n", (const char *)*state);
        skip();
    }
}

// --- real data -----------------------------------------------------------------------------------

// Opens the real golden `file` with the model's own weights; 0 if the environment names none.
static int real_open(struct scene *scene, const char *file, enum dtype compute, int inference) {
    const char *folder = getenv("BERTH_GOLDEN_REAL"), *model_folder = getenv("BERTH_MODEL");
    if (!folder || !model_folder) {
        print_message("skipped: BERTH_GOLDEN_REAL and BERTH_MODEL name no folders\n");
        return 0;
    }
    char path[1024], model_path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    snprintf(model_path, sizeof model_path, "%s/model.safetensors", model_folder);
    struct safetensors model;
    struct berth_error error = {0};
    if (safetensors_open(&model, model_path, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    scene->name = file;
    scene_open_file(scene, path, &model, compute, inference);
    safetensors_close(&model);
    return 1;
}

static void real_logits_equal_pytorch(void **state) {
    for (int half = 0; half < 2; half++) {
        struct scene scene;
        if (!real_open(&scene, "minilm_logits.safetensors", half ? DTYPE_BF16 : DTYPE_F32, 1)) {
            skip();
        }
        int64_t count;
        float *expected = golden_floats(&scene.golden.file, "", "logits_float64", &count);
        float *logits = forward_logits(&scene);
        double *wide = to_double(expected, count);
        double apart = largest_difference(logits, wide, count);
        double error = relative_error(logits, expected, count);
        print_message("%d real features in %s: largest difference %.1e, relative error %.1e\n",
                      (int)scene.sequences.count, half ? "bf16" : "fp32", apart, error);
        assert_true(half ? error <= 0.02 : apart <= 1e-4);
        free(expected);
        free(wide);
        free(logits);
        scene_close(&scene);
    }
}

static void real_gradients_equal_pytorch(void **state) {
    for (int half = 0; half < 2; half++) {
        struct scene scene;
        if (!real_open(&scene, "minilm_grads.safetensors", half ? DTYPE_BF16 : DTYPE_F32, 0)) {
            skip();
        }
        if (half) {
            check_bf16(&scene);
        } else {
            check_f32(&scene);
        }
        scene_close(&scene);
    }
}

// --- activations --------------------------------------------------------------------------------

// The f32 device's function of the configuration's hidden_act: a linear layer of one column and
// weight 1.
static void check_activation(struct device *dev, const struct safetensors *file, const char *name) {
    char text[128], prefix[40];
    struct bert_config config;
    struct berth_error error = {0};
    snprintf(text, sizeof text, "{\"model_type\": \"bert\", \"hidden_act\": \"%s\"}", name);
    snprintf(prefix, sizeof prefix, "%s.", name);
    if (bert_config_read_memory(name, text, strlen(text), &config, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    int64_t count;
    float *points = golden_floats(file, "", "x", &count);
    double *values = golden_doubles(file, prefix, "y", NULL);
    double *slopes = golden_doubles(file, prefix, "dx", NULL);
    float *buffer = calloc((size_t)count * 3, sizeof *buffer);
    float weight = 1, bias = 0;
    struct mat one = {.data = &weight, .rows = 1, .cols = 1, .stride = 1, .dtype = DTYPE_F32};
    struct mat x = one, y = one, dx = one, dy = one;
    x.data = points, y.data = buffer, dx.data = buffer + count, dy.data = buffer + 2 * count;
    x.rows = y.rows = dx.rows = dy.rows = count;
    for (int64_t i = 0; i < count; i++) {
        buffer[2 * count + i] = 1;
    }
    dev->linear_gelu_forward(dev, y, (struct mat){0}, x, one, &bias, config.hidden_act);
    dev->linear_gelu_backward(dev, dx, &bias, dy, one, x, config.hidden_act);
    for (int64_t i = 0; i < count; i++) {
        double scale = fmax(1, fabs((double)points[i]));
        if (!(fabs((double)buffer[i] - values[i]) <= 1e-6 * fmax(scale, fabs(values[i]))) ||
            !(fabs((double)buffer[count + i] - slopes[i]) <= 1e-6 * scale)) {
            fail_msg("%s(%g): found %.9g and slope %.9g, PyTorch's are %.9g and %.9g", name,
                     (double)points[i], (double)buffer[i], (double)buffer[count + i], values[i],
                     slopes[i]);
        }
    }
    free(points);
    free(values);
    free(slopes);
    free(buffer);
    bert_config_done(&config);
}

static void activations_equal_transformers(void **state) {
    struct safetensors file;
    struct device *dev = NULL;
    struct berth_error error;
    int found = 0;
    golden_file_open(&file, BERTH_TEST_SOURCE_DIR "/tests/golden/activations.safetensors");
    assert_int_equal(device_cpu_open(&(struct device_options){.threads = 1}, &dev, &error),
                     BERTH_OK);
    for (size_t i = 0; i < file.count; i++) {
        char name[32];
        if (sscanf(file.entries[i].name, "%31[^.].dx", name) == 1 &&
            strstr(file.entries[i].name, ".dx") != NULL) {
            check_activation(dev, &file, name);
            found++;
        }
    }
    assert_int_equal(found, 21);
    dev->close(dev);
    safetensors_close(&file);
}

int main(void) {
    if (test_lacks_device()) {
        return TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_equal_transformers),
        cmocka_unit_test(f32_equals_pytorch),
        cmocka_unit_test(pre_layer_norm_f32_equals_pytorch),
        cmocka_unit_test(pre_layer_norm_bf16_is_near),
        cmocka_unit_test(tensorflow_checkpoint_gives_the_same_logits),
        cmocka_unit_test(bf16_is_as_good_as_autocast),
        EACH_INSTRUCTION_SET(ten_steps_follow_pytorch),
        cmocka_unit_test(real_logits_equal_pytorch),
        cmocka_unit_test(real_gradients_equal_pytorch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
