// SPDX-License-Identifier: Apache-2.0
// Tests every row of model/architectures.c with every head: gradients against finite differences of
// the loss, with the same dropout; that a batch may be cut, that recomputed layers give the same
// bits, and that inference gives the same logits. That the numbers are those of transformers is
// tested by dev/others.
#include "core/harness.h"
#include "device/test_device.h"
#include "harness.h"
#include "model/architectures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEQUENCES 3
#define MASKED 5
#define ROWS 64

static const int64_t lengths[SEQUENCES] = {19, 1, 23};
static const int32_t masked_positions[MASKED] = {3, 18, 0, 0, 22},
                     words[MASKED] = {5, 60, 1, 9, 17};
static const int64_t masked_first[SEQUENCES + 1] = {0, 2, 3, MASKED};

static const struct bert_dropout dropout = {.seed = 5,
                                            .step = 2,
                                            .hidden_probability = 0.1,
                                            .attention_probability = 0.1,
                                            .head_probability = 0.3};

static const enum param_head heads[] = {PARAM_HEAD_SPAN, PARAM_HEAD_CLASS, PARAM_HEAD_TOKEN,
                                        PARAM_HEAD_MASKED, PARAM_HEAD_EMBEDDING};
#define HEADS (sizeof heads / sizeof *heads)

// Architectures with a projection are tested with fewer and with more columns.
static const int64_t embedding_sizes[] = {16, 48};

static struct bert_config config_of(size_t architecture, int64_t embedding_size) {
    const struct architecture *row = architecture_at(architecture);
    struct bert_config config = tiny_config(32, 2, 48, harness_on_gpu() ? 1 : 2);
    config.architecture = architecture;
    config.pad_token_id = 1;
    config.first_position = row->positions_follow_padding ? 2 : 0;
    config.type_vocab_size = row->types_separate_pairs ? 2 : architecture % 2;
    config.embedding_size = row->embedding_size_key != NULL ? embedding_size : 0;
    config.num_labels = 3;
    config.embedding = (struct bert_embedding){.pooling = BERTH_POOL_MEAN,
                                               .objectives = {{.loss = BERT_SIMILARITIES,
                                                               .similarity = SIMILARITY_COSINE,
                                                               .is_of_cosines = 1,
                                                               .texts = 2,
                                                               .group = 1}},
                                               .objective_count = 1};
    return config;
}

struct scene {
    struct harness harness;
    struct reference_sequence *sequences;
    struct packed *packed;
    float *parameters;
};

static struct packed *pack(struct reference_sequence *sequences, enum param_head head) {
    for (int64_t s = 0; s < SEQUENCES; s++) {
        const int is_masked = param_head_decodes(head) || head == PARAM_HEAD_TOKEN;
        sequences[s].label = (int32_t)(s % 3);
        sequences[s].target = 0.25f * (float)s;
        sequences[s].masked_positions = masked_positions + masked_first[s];
        sequences[s].masked_labels = words + masked_first[s];
        sequences[s].masked_count = is_masked ? masked_first[s + 1] - masked_first[s] : 0;
    }
    struct packed *packed = packed_new(sequences, SEQUENCES);
    packed_weigh_masked(packed, 0.5f);
    return packed;
}

static void scene_open(struct scene *scene, const struct bert_config *config,
                       const struct harness_options *options) {
    struct harness_options own = *options;
    own.max_rows = ROWS;
    own.max_sequences = SEQUENCES;
    own.max_length = 23;
    own.max_masked = MASKED;
    own.threads = 1;
    assert_true(harness_open(&scene->harness, config, &own));
    scene->parameters = random_parameters(&scene->harness.table, 3);
    harness_load(&scene->harness, scene->parameters);
    scene->sequences = sequences_new(config, lengths, SEQUENCES, 0, 8);
    scene->packed = pack(scene->sequences, own.head);
}

static void scene_close(struct scene *scene) {
    packed_free(scene->packed);
    sequences_free(scene->sequences);
    free(scene->parameters);
    harness_close(&scene->harness);
}

// Runs a test for each architecture and head.
typedef void check(const struct bert_config *config, enum param_head head, const char *name);

static void for_all(check *run) {
    for (size_t i = 0; architecture_at(i) != NULL; i++) {
        const struct architecture *row = architecture_at(i);
        const size_t sizes = row->embedding_size_key != NULL && !harness_on_gpu() ? 2 : 1;
        if (harness_on_gpu() && i > 0 && strcmp(architecture_at(i - 1)->prefix, row->prefix) == 0) {
            continue; // the emulation of a GPU is slow, and these differ in names alone
        }
        for (size_t k = 0; k < HEADS * sizes; k++) {
            const struct bert_config config = config_of(i, embedding_sizes[k / HEADS]);
            char name[96];
            snprintf(name, sizeof name, "%s, %s", row->type,
                     param_head_row(heads[k % HEADS])->title);
            run(&config, heads[k % HEADS], name);
        }
    }
}

// --- finite differences --------------------------------------------------------------------------

static double loss_at(struct scene *scene, const struct param *param, const float *direction,
                      double step) {
    const int64_t total = scene->harness.table.total;
    float *moved = malloc((size_t)total * sizeof *moved);
    assert_non_null(moved);
    memcpy(moved, scene->parameters, (size_t)total * sizeof *moved);
    for (int64_t i = 0; i < param->rows * param->cols; i++) {
        moved[param->offset + i] += (float)(step * (double)direction[i]);
    }
    harness_load(&scene->harness, moved);
    harness_zero_gradients(&scene->harness);
    const double loss =
        harness_step(&scene->harness, harness_batch(&scene->harness, scene->packed), &dropout, 1);
    free(moved);
    return loss;
}

// The slope of the loss along the gradient of one parameter is the gradient's length.
static void check_slope(struct scene *scene, const struct param *param, const float *gradient,
                        const char *name) {
    const int64_t count = param->rows * param->cols;
    float *direction = malloc((size_t)count * sizeof *direction);
    double length = 0;
    assert_non_null(direction);
    for (int64_t i = 0; i < count; i++) {
        length += (double)gradient[i] * (double)gradient[i];
    }
    length = sqrt(length);
    for (int64_t i = 0; i < count; i++) {
        direction[i] = length > 0 ? (float)((double)gradient[i] / length) : 0;
    }
    const double step = 4e-3;
    const double slope =
        (loss_at(scene, param, direction, step) - loss_at(scene, param, direction, -step)) /
        (2 * step);
    if (!(fabs(slope - length) <= 0.02 * length + 2e-4)) {
        fail_msg("%s, %s: slope %g, length of the gradient %g", name, param->name, slope, length);
    }
    free(direction);
}

// Layers are those of BERT, which other tests cover; the emulation of a GPU is slow.
static int is_checked(const struct param_table *table, const struct param *param,
                      enum param_head head) {
    return harness_on_gpu() ? param_layer_of(param->name, NULL) < 0 && param->rank == 2 &&
                                  param->offset != table->word
                            : param->offset != table->word || param_head_decodes(head);
}

// Only words outside the padding are trained where the word table is no decoder.
static void check_gradients(const struct bert_config *config, enum param_head head,
                            const char *name) {
    struct scene scene;
    scene_open(&scene, config, &(struct harness_options){.compute = DTYPE_F32, .head = head});
    harness_step(&scene.harness, harness_batch(&scene.harness, scene.packed), &dropout, 1);
    float *gradients = harness_gradients(&scene.harness);
    const struct param_table *table = &scene.harness.table;
    double sum = 0;
    for (size_t i = 0; i < table->count; i++) {
        if (is_checked(table, &table->params[i], head)) {
            check_slope(&scene, &table->params[i], gradients + table->params[i].offset, name);
        }
    }
    for (int64_t i = 0; config->type_vocab_size == 0 && i < bert_embedding_size(config); i++) {
        sum += fabs((double)gradients[table->type + i]);
    }
    assert_true(sum == 0); // the row of zeros stays one
    free(gradients);
    scene_close(&scene);
}

static void gradients_are_slopes(void **state) {
    (void)state;
    for_all(check_gradients);
}

// --- the same numbers in other ways --------------------------------------------------------------

static float *step(const struct bert_config *config, const struct harness_options *options,
                   int64_t *total) {
    struct scene scene;
    scene_open(&scene, config, options);
    *total = scene.harness.table.total;
    harness_step(&scene.harness, harness_batch(&scene.harness, scene.packed), &dropout, 0.5f);
    float *gradients = harness_gradients(&scene.harness);
    scene_close(&scene);
    return gradients;
}

static void check_recomputation(const struct bert_config *config, enum param_head head,
                                const char *name) {
    (void)name;
    for (int bits = 0; bits < 2; bits++) {
        const enum dtype compute = bits ? DTYPE_BF16 : DTYPE_F32;
        int64_t total;
        float *kept =
            step(config, &(struct harness_options){.compute = compute, .head = head}, &total);
        float *again = step(
            config, &(struct harness_options){.compute = compute, .head = head, .checkpointing = 1},
            &total);
        assert_same(again, kept, total, 1e-5);
        free(kept);
        free(again);
    }
}

static void recomputed_layers_give_the_same_gradients(void **state) {
    (void)state;
    for_all(check_recomputation);
}

static void check_bf16(const struct bert_config *config, enum param_head head, const char *name) {
    int64_t total;
    float *exact =
        step(config, &(struct harness_options){.compute = DTYPE_F32, .head = head}, &total);
    float *rounded =
        step(config, &(struct harness_options){.compute = DTYPE_BF16, .head = head}, &total);
    const double apart = relative_error(rounded, exact, total);
    if (!(apart < 0.1)) {
        fail_msg("%s: gradients in bf16 are %g apart", name, apart);
    }
    free(exact);
    free(rounded);
}

static void bf16_is_near(void **state) {
    (void)state;
    for_all(check_bf16);
}

static void check_sink(const struct bert_config *config, enum param_head head, const char *name) {
    struct scene scene;
    (void)name;
    if (head == PARAM_HEAD_EMBEDDING) {
        return; // it has no parameters, so that nothing of a head is reported
    }
    scene_open(&scene, config, &(struct harness_options){.compute = DTYPE_F32, .head = head});
    assert_sink(&scene.harness, harness_batch(&scene.harness, scene.packed), &dropout);
    scene_close(&scene);
}

static void gradients_are_reported_when_final(void **state) {
    (void)state;
    for_all(check_sink);
}

static float *logits_of(const struct bert_config *config, const struct harness_options *options,
                        int64_t *count) {
    struct scene scene;
    scene_open(&scene, config, options);
    const struct batch *batch = harness_batch(&scene.harness, scene.packed);
    bert_forward(&scene.harness.model, scene.harness.activations, batch, NULL);
    const int decodes = param_head_decodes(options->head);
    const int per_token = options->head == PARAM_HEAD_SPAN || options->head == PARAM_HEAD_TOKEN;
    float *logits = decodes ? harness_masked_logits(&scene.harness, batch)
                            : harness_logits(&scene.harness, batch);
    *count = decodes ? MASKED * config->vocab_size
                     : (per_token ? batch->token_count : SEQUENCES) *
                           param_head_outputs(options->head, config);
    scene_close(&scene);
    return logits;
}

static void check_inference(const struct bert_config *config, enum param_head head,
                            const char *name) {
    int64_t count;
    float *training =
        logits_of(config, &(struct harness_options){.compute = DTYPE_F32, .head = head}, &count);
    float *inference = logits_of(
        config, &(struct harness_options){.compute = DTYPE_F32, .head = head, .inference = 1},
        &count);
    (void)name;
    assert_same(inference, training, count, 1e-5);
    free(training);
    free(inference);
}

static void inference_gives_the_same_logits(void **state) {
    (void)state;
    for_all(check_inference);
}

// --- what an architecture does not have ----------------------------------------------------------

static void a_missing_head_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; architecture_at(i) != NULL; i++) {
        const struct bert_config config = config_of(i, 16);
        struct param_table table;
        struct berth_error error = {0};
        const enum berth_status status =
            param_table_init(&table, &config, PARAM_HEAD_PRETRAINING, &error);
        assert_int_equal(status, i == 0 ? BERTH_OK : BERTH_CONFIG);
        if (status == BERTH_OK) {
            param_table_done(&table);
        } else {
            assert_non_null(strstr(error.message, architecture_at(i)->title));
        }
    }
}

int main(void) {
    if (test_lacks_device()) {
        return TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(recomputed_layers_give_the_same_gradients),
        cmocka_unit_test(bf16_is_near),
        cmocka_unit_test(gradients_are_reported_when_final),
        cmocka_unit_test(inference_gives_the_same_logits),
        cmocka_unit_test(a_missing_head_is_refused),
    };
    return cmocka_run_group_tests_name("architectures", tests, NULL, NULL);
}
