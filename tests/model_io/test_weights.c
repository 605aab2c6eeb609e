// SPDX-License-Identifier: Apache-2.0
// Tests the weights of checkpoints in every dialect under our names: stacks, transposed matrices,
// padding rows, integers with scales; and other architectures, which errors name.
#include "core/scratch.h"
#include "format/safetensors/safetensors.h"
#include "format/tensorflow/tensorflow.h"
#include "model/architectures.h"
#include "model/config.h"
#include "model/folder.h"
#include "model/weights.h"

#define H 2

// --- names --------------------------------------------------------------------------------------

static const struct {
    const char *ours, *theirs;
} kernel_names[] = {
    {"bert.encoder.layer.3.attention.self.query.weight", "bert.encoder.layer.3.attn_qkvw"},
    {"bert.encoder.layer.3.attention.self.key.weight", "bert.encoder.layer.3.attn_qkvw"},
    {"bert.encoder.layer.3.attention.self.value.weight", "bert.encoder.layer.3.attn_qkvw"},
    {"bert.encoder.layer.3.attention.self.query.bias", "bert.encoder.layer.3.attn_qkvb"},
    {"bert.encoder.layer.3.attention.self.key.bias", "bert.encoder.layer.3.attn_qkvb"},
    {"bert.encoder.layer.3.attention.self.value.bias", "bert.encoder.layer.3.attn_qkvb"},
    {"bert.encoder.layer.3.attention.output.dense.weight", "bert.encoder.layer.3.attn_ow"},
    {"bert.encoder.layer.3.attention.output.dense.bias", "bert.encoder.layer.3.attn_ob"},
    {"bert.encoder.layer.3.attention.output.LayerNorm.weight", "bert.encoder.layer.3.attn_nw"},
    {"bert.encoder.layer.3.attention.output.LayerNorm.bias", "bert.encoder.layer.3.attn_nb"},
    {"bert.encoder.layer.3.intermediate.dense.weight", "bert.encoder.layer.3.inter_w"},
    {"bert.encoder.layer.3.intermediate.dense.bias", "bert.encoder.layer.3.inter_b"},
    {"bert.encoder.layer.3.output.dense.weight", "bert.encoder.layer.3.output_w"},
    {"bert.encoder.layer.3.output.dense.bias", "bert.encoder.layer.3.output_b"},
    {"bert.encoder.layer.3.output.LayerNorm.weight", "bert.encoder.layer.3.norm_w"},
    {"bert.encoder.layer.3.output.LayerNorm.bias", "bert.encoder.layer.3.norm_b"},
    {"bert.pooler.dense.weight", "bert.pooler.dense_act.weight"},
    {"cls.predictions.transform.dense.bias", "cls.predictions.transform.dense_act.bias"},
    {"bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.weight"},
    {"cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.LayerNorm.weight"},
    {"qa_outputs.weight", "qa_outputs.weight"},
};

static void test_kernel_names(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof kernel_names / sizeof *kernel_names; i++) {
        char name[96], part[96];
        enum name_use there = name_for(&names_kernel, kernel_names[i].ours, name, sizeof name);
        assert_string_equal(name, kernel_names[i].theirs);
        enum name_use back = name_translate(kernel_names[i].theirs, name, sizeof name);
        assert_int_equal(back, there);
        if (back == NAME_STACKED) {
            assert_true(name_part(name, name_part_of(kernel_names[i].ours), part, sizeof part));
            assert_string_equal(part, kernel_names[i].ours);
            assert_int_equal(name_part_of(kernel_names[i].ours), i % 3);
            assert_false(name_part(name, 2, part, strlen(kernel_names[i].ours)));
            assert_false(name_part(name, 2, part, 4));
            assert_string_equal(part, "");
            assert_false(name_part("no stack", 2, part, sizeof part));
        } else {
            assert_string_equal(name, kernel_names[i].ours);
        }
    }
}

static void test_nvidia_names(void **state) {
    (void)state;
    static const char *const names[][2] = {
        {"bert.encoder.layer.0.intermediate.dense.weight",
         "bert.encoder.layer.0.intermediate.dense_act.weight"},
        {"bert.encoder.layer.0.output.dense.weight", "bert.encoder.layer.0.output.dense.weight"},
        {"bert.pooler.dense.bias", "bert.pooler.dense_act.bias"},
        {"cls.predictions.transform.dense.weight", "cls.predictions.transform.dense_act.weight"},
        {"bert.encoder.FinalLayerNorm.weight", "bert.encoder.FinalLayerNorm.weight"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[96];
        assert_int_equal(name_for(&names_nvidia, names[i][0], name, sizeof name), NAME_KEPT);
        assert_string_equal(name, names[i][1]);
        assert_int_equal(name_translate(names[i][1], name, sizeof name), NAME_KEPT);
        assert_string_equal(name, names[i][0]);
    }
}

// --- files --------------------------------------------------------------------------------------

// Writes numbers that count up through the tensors, from 0 on.
static void write_file(struct tensor_out *tensors, size_t count) {
    static float numbers[4096];
    size_t used = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        numbers[i] = (float)i;
    }
    for (size_t i = 0; i < count; i++) {
        size_t elements = 1;
        for (int k = 0; k < tensors[i].rank; k++) {
            elements *= (size_t)tensors[i].shape[k];
        }
        tensors[i].dtype = TENSOR_F32;
        tensors[i].data = numbers + used;
        used += elements;
    }
    assert_true(used < 4096);
    assert_int_equal(safetensors_write(scratch("a.safetensors"), tensors, count, NULL, NULL),
                     BERTH_OK);
}

static void open_file(struct weights *weights, int64_t vocab_size) {
    struct berth_error error;
    if (weights_open(weights, scratch("a.safetensors"), vocab_size, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

// Compares the numbers of a tensor, read in both ways, with the expected ones.
static void expect(const struct weights *weights, const char *name, size_t count,
                   const float *numbers) {
    float found[64];
    const struct weight *weight = weights_find(weights, name);
    if (weight == NULL) {
        fail_msg("no %s", name);
    }
    assert_int_equal(weight_elements(weight), count);
    assert_int_equal(weights_read(weights, weight, found, NULL), BERTH_OK);
    assert_memory_equal(found, numbers, count * sizeof(float));
    memset(found, 0, sizeof found);
    assert_int_equal(weights_read_f32(weights, weight, found, NULL), BERTH_OK);
    assert_memory_equal(found, numbers, count * sizeof(float));
    if (weight_is_contiguous(weight)) {
        assert_int_equal(weights_read_elements(weights, weight, 1, count - 1, found, NULL),
                         BERTH_OK);
        assert_memory_equal(found, numbers + 1, (count - 1) * sizeof(float));
    }
}

static void test_stack(void **state) {
    (void)state;
    struct weights weights;
    struct tensor_out tensors[] = {
        {.name = "module.bert.encoder.layer.0.attn_qkvw", .rank = 2, .shape = {3 * H, H}},
        {.name = "module.bert.encoder.layer.0.attn_qkvb", .rank = 1, .shape = {3 * H}}};
    write_file(tensors, 2);
    open_file(&weights, 0);
    assert_int_equal(weights.count, 6);
    expect(&weights, "bert.encoder.layer.0.attention.self.query.weight", 4,
           (const float[]){0, 1, 2, 3});
    expect(&weights, "bert.encoder.layer.0.attention.self.key.weight", 4,
           (const float[]){4, 5, 6, 7});
    expect(&weights, "bert.encoder.layer.0.attention.self.value.weight", 4,
           (const float[]){8, 9, 10, 11});
    expect(&weights, "bert.encoder.layer.0.attention.self.key.bias", 2, (const float[]){14, 15});
    weights_close(&weights);
}

// With our name it would be longer than any of a model.
static void test_stack_with_a_long_name(void **state) {
    (void)state;
    char name[WEIGHT_NAME_SIZE];
    struct weights weights;
    struct tensor_out tensor = {.name = name, .rank = 2, .shape = {3 * H, H}};
    snprintf(name, sizeof name, "%0*d.attn_qkvw", WEIGHT_NAME_SIZE - 12, 0);
    write_file(&tensor, 1);
    open_file(&weights, 0);
    assert_int_equal(weights.count, 3);
    assert_memory_equal(weights.list[2].name, "2.000", 5);
    weights_close(&weights);
}

static void expect_refused(struct tensor_out *tensors, size_t count, const char *part) {
    struct weights weights;
    struct berth_error error = {0};
    write_file(tensors, count);
    if (weights_open(&weights, scratch("a.safetensors"), 0, &error) != BERTH_BAD_DATA) {
        fail_msg("not refused: %s", part);
    }
    assert_message_has(&error, part);
    assert_message_has(&error, scratch("a.safetensors"));
}

static void test_refusals(void **state) {
    (void)state;
    struct tensor_out odd[] = {{.name = "bert.encoder.layer.0.attn_qkvb", .rank = 1, .shape = {7}}};
    expect_refused(odd, 1, "attn_qkvb");
    struct tensor_out scalar[] = {{.name = "bert.encoder.layer.0.attn_qkvb"}};
    expect_refused(scalar, 1, "not a multiple of 3");
    struct tensor_out twice[] = {
        {.name = "bert.encoder.layer.0.attn_qkvb", .rank = 1, .shape = {6}},
        {.name = "encoder.layer.0.attention.self.key.bias", .rank = 1, .shape = {2}}};
    expect_refused(twice, 2, "bert.encoder.layer.0.attention.self.key.bias");
}

// In a file with a final layer norm the kernel's norms are those before attention and before the
// feed-forward part.
static void test_pre_norm(void **state) {
    (void)state;
    struct weights weights;
    struct tensor_out tensors[] = {
        {.name = "bert.encoder.layer.0.attn_nw", .rank = 1, .shape = {2}},
        {.name = "bert.encoder.layer.0.norm_w", .rank = 1, .shape = {2}},
        {.name = "bert.encoder.FinalLayerNorm.weight", .rank = 1, .shape = {2}},
        {.name = "bert.encoder.layer.0.attn_ow", .rank = 2, .shape = {2, 2}}};
    write_file(tensors, 4);
    open_file(&weights, 0);
    expect(&weights, "bert.encoder.layer.0.PostAttentionLayerNorm.weight", 2,
           (const float[]){0, 1});
    expect(&weights, "bert.encoder.layer.0.PreAttentionLayerNorm.weight", 2, (const float[]){2, 3});
    expect(&weights, "bert.encoder.layer.0.attention.output.dense.weight", 4,
           (const float[]){6, 7, 8, 9});
    weights_close(&weights);
    write_file(tensors, 2);
    open_file(&weights, 0);
    expect(&weights, "bert.encoder.layer.0.attention.output.LayerNorm.weight", 2,
           (const float[]){0, 1});
    expect(&weights, "bert.encoder.layer.0.output.LayerNorm.weight", 2, (const float[]){2, 3});
    weights_close(&weights);
}

static void test_padding_rows(void **state) {
    (void)state;
    static const struct {
        int64_t rows, vocab_size, found;
    } cases[] = {{8, 5, 5}, {64, 5, 5}, {128, 100, 100}, {8, 8, 8},
                 {9, 5, 9}, {8, 0, 8},  {5, 8, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weights weights;
        int64_t rows = cases[i].rows, found = cases[i].found;
        struct tensor_out tensors[] = {
            {.name = "bert.embeddings.word_embeddings.weight", .rank = 2, .shape = {rows, 2}},
            {.name = "cls.predictions.bias", .rank = 1, .shape = {rows}},
            {.name = "bert.embeddings.position_embeddings.weight", .rank = 2, .shape = {rows, 2}}};
        write_file(tensors, 3);
        open_file(&weights, cases[i].vocab_size);
        const struct weight *words = weights_find(&weights, tensors[0].name);
        assert_int_equal(words->shape[0], found);
        assert_int_equal(weights_find(&weights, tensors[1].name)->shape[0], found);
        assert_int_equal(weights_find(&weights, tensors[2].name)->shape[0], rows);
        assert_int_equal(weights.padding_rows, rows - found);
        if (found == 5) {
            expect(&weights, tensors[0].name, 10, (const float[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
        }
        weights_close(&weights);
    }
}

static void test_transposed(void **state) {
    (void)state;
    static const float numbers[] = {0, 1, 2, 3, 4, 5};
    struct weights weights;
    const struct tensor_out tensors[] = {{.name = "bert/pooler/dense/kernel",
                                          .dtype = TENSOR_F32,
                                          .rank = 2,
                                          .shape = {2, 3},
                                          .data = numbers},
                                         {.name = "bert/pooler/dense/kernel/adam_m",
                                          .dtype = TENSOR_F32,
                                          .rank = 1,
                                          .shape = {1},
                                          .data = numbers}};
    assert_int_equal(tensorflow_write(scratch("m.ckpt"), tensors, 2, NULL), BERTH_OK);
    assert_int_equal(weights_open(&weights, scratch_folder, 0, NULL), BERTH_OK);
    assert_int_equal(weights.count, 1);
    assert_int_equal(weights.dropped, 1);
    expect(&weights, "bert.pooler.dense.weight", 6, (const float[]){0, 3, 1, 4, 2, 5});
    assert_int_equal(weights.list[0].shape[0], 3);
    weights_close(&weights);
}

// What a training script saves beside the model is not part of it.
static void test_beside_the_model(void **state) {
    (void)state;
    static const char *const keys[] = {"model_state_dict", "state_dict"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char name[64];
        struct weights weights;
        snprintf(name, sizeof name, "%s.bert.pooler.dense.bias", keys[i]);
        struct tensor_out tensors[] = {{.name = "loss", .rank = 0},
                                       {.name = name, .rank = 1, .shape = {2}},
                                       {.name = "rng_state", .rank = 1, .shape = {3}}};
        write_file(tensors, 3);
        open_file(&weights, 0);
        assert_int_equal(weights.count, 1);
        assert_int_equal(weights.dropped, 2);
        expect(&weights, "bert.pooler.dense.bias", 2, (const float[]){1, 2});
        weights_close(&weights);
    }
}

static void test_memory_fails(void **state) {
    (void)state;
    struct tensor_out tensors[] = {
        {.name = "bert.encoder.layer.0.attn_qkvw", .rank = 2, .shape = {6, 2}},
        {.name = "bert.encoder.FinalLayerNorm.weight", .rank = 1, .shape = {2}}};
    write_file(tensors, 2);
    enum berth_status status = BERTH_NO_MEMORY;
    for (uint64_t n = 1; status != BERTH_OK; n++) {
        struct weights weights;
        memory_fail_at(n, 0);
        status = weights_open(&weights, scratch("a.safetensors"), 8, NULL);
        memory_fail_at(0, 0);
        assert_true(status == BERTH_NO_MEMORY || (status == BERTH_OK && n > 3));
        if (status == BERTH_OK) {
            weights_close(&weights);
        }
    }
}

// --- int8 ----------------------------------------------------------------------------------------

// A matrix of 2 x 4 numbers of 8 bits, and the tensors beside it.
static enum berth_status open_integers(const struct tensor_out *beside, size_t count,
                                       struct weights *weights, struct berth_error *error) {
    static const signed char bytes[] = {1, 2, 3, 4, -1, -2, -3, -4};
    struct tensor_out tensors[4] = {{.name = "bert.pooler.dense.weight",
                                     .dtype = TENSOR_I8,
                                     .rank = 2,
                                     .shape = {2, 4},
                                     .data = bytes}};
    memcpy(tensors + 1, beside, count * sizeof *beside);
    assert_int_equal(safetensors_write(scratch("a.safetensors"), tensors, count + 1, NULL, NULL),
                     BERTH_OK);
    return weights_open(weights, scratch("a.safetensors"), 0, error);
}

static enum berth_status open_scaled(const struct tensor_out *scale, struct weights *weights,
                                     struct berth_error *error) {
    return open_integers(scale, 1, weights, error);
}

static void test_scales(void **state) {
    (void)state;
    static const float numbers[] = {2, 3, 4, 5, 6, 7, 8, 9};
    static const char name[] = "bert.pooler.dense.weight_scale";
    static const struct tensor_out good[] = {
        {.name = name, .dtype = TENSOR_F32, .rank = 1, .shape = {2}, .data = numbers},
        {.name = name, .dtype = TENSOR_F32, .rank = 2, .shape = {2, 1}, .data = numbers},
        {.name = name, .dtype = TENSOR_F32, .rank = 2, .shape = {2, 2}, .data = numbers}};
    static const struct tensor_out bad[] = {
        {.name = "other", .dtype = TENSOR_F32, .rank = 1, .shape = {2}, .data = numbers},
        {.name = name, .dtype = TENSOR_BOOL, .rank = 1, .shape = {2}, .data = numbers},
        {.name = name, .dtype = TENSOR_F32, .rank = 3, .shape = {2, 1, 1}, .data = numbers},
        {.name = name, .dtype = TENSOR_F32, .data = numbers},
        {.name = name, .dtype = TENSOR_F32, .rank = 1, .shape = {3}, .data = numbers},
        {.name = name, .dtype = TENSOR_F32, .rank = 2, .shape = {2, 0}, .data = numbers},
        {.name = name, .dtype = TENSOR_F32, .rank = 2, .shape = {2, 3}, .data = numbers}};
    struct weights weights;
    float found[8];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(open_scaled(&good[i], &weights, NULL), BERTH_OK);
        const struct weight *weight = weights_find(&weights, "bert.pooler.dense.weight");
        assert_int_equal(weights_read_f32(&weights, weight, found, NULL), BERTH_OK);
        assert_true(found[0] == 2 && found[1] == 4 && found[3] == (i == 2 ? 12 : 8));
        assert_true(found[4] == (i == 2 ? -4 : -3) && found[7] == (i == 2 ? -20 : -12));
        for (uint64_t n = 1; n <= 2; n++) {
            memory_fail_at(n, 0);
            assert_int_equal(weights_read_f32(&weights, weight, found, NULL), BERTH_NO_MEMORY);
            memory_fail_at(0, 0);
        }
        weights_close(&weights);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct berth_error error = {0};
        enum berth_status status = open_scaled(&bad[i], &weights, &error);
        if (status == BERTH_OK) {
            status = weights_read_f32(&weights, weights_find(&weights, "bert.pooler.dense.weight"),
                                      found, &error);
            weights_close(&weights);
        }
        assert_int_equal(status, BERTH_BAD_DATA);
        assert_message_has(&error, "\"bert.pooler.dense.weight\" of type I8");
        assert_message_has(&error, i == 0 ? "no such tensor" : "another shape or type");
    }
}

#define SCALES                                                                                     \
    {                                                                                              \
        .name = "bert.pooler.dense.weight_scale", .dtype = TENSOR_F32, .rank = 2, .shape = {2, 2}, \
        .data = scales                                                                             \
    }
#define ZERO_POINTS .name = "bert.pooler.dense.weight_zero_point", .data = zero_points

static const float a_number[] = {1}, scales[] = {2, 3, 4, 5};
static const signed char zero_points[] = {0, 1, -128, 127, 0, 0, 0, 0};

// compressed-tensors: W = (q - zero point) * scale.
static void test_zero_points(void **state) {
    (void)state;
    static const float expected[] = {2, 4, 6, 9, 4 * 127, 4 * 126, 5 * -130, 5 * -131};
    static const struct tensor_out good[] = {
        SCALES, {ZERO_POINTS, .dtype = TENSOR_I8, .rank = 2, .shape = {2, 2}}};
    static const struct tensor_out bad[][2] = {
        {SCALES, {ZERO_POINTS, .dtype = TENSOR_U8, .rank = 2, .shape = {2, 2}}},
        {SCALES, {ZERO_POINTS, .dtype = TENSOR_I8, .rank = 1, .shape = {2}}},
        {SCALES, {ZERO_POINTS, .dtype = TENSOR_I8, .rank = 2, .shape = {2, 4}}}};
    struct weights weights;
    struct berth_error error;
    float found[8];
    assert_int_equal(open_integers(good, 2, &weights, NULL), BERTH_OK);
    assert_int_equal(weights.count, 1);
    const struct weight *weight = weights_find(&weights, "bert.pooler.dense.weight");
    assert_int_equal(weights_read_f32(&weights, weight, found, NULL), BERTH_OK);
    assert_memory_equal(found, expected, sizeof expected);
    weights_close(&weights);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(open_integers(bad[i], 2, &weights, NULL), BERTH_OK);
        weight = weights_find(&weights, "bert.pooler.dense.weight");
        assert_int_equal(weights_read_f32(&weights, weight, found, &error), BERTH_BAD_DATA);
        assert_message_has(&error, "weight_zero_point\": expected type I8 and the shape of");
        weights_close(&weights);
    }
}

// Of a padded word table only the words' rows are read, and as many scales and zero points.
static void test_padded_integers(void **state) {
    (void)state;
    enum { WORDS = 5, ROWS = 128, GROUPS = 8 };
    static signed char ones[ROWS * GROUPS], threes[ROWS * GROUPS];
    static float factors[ROWS * GROUPS], found[WORDS * GROUPS], expected[WORDS * GROUPS];
    const struct tensor_out tensors[] = {
        {.name = "bert.embeddings.word_embeddings.weight",
         .dtype = TENSOR_I8,
         .rank = 2,
         .shape = {ROWS, GROUPS},
         .data = threes},
        {.name = "bert.embeddings.word_embeddings.weight_scale",
         .dtype = TENSOR_F32,
         .rank = 2,
         .shape = {ROWS, GROUPS},
         .data = factors},
        {.name = "bert.embeddings.word_embeddings.weight_zero_point",
         .dtype = TENSOR_I8,
         .rank = 2,
         .shape = {ROWS, GROUPS},
         .data = ones}};
    struct weights weights;
    memset(ones, 1, sizeof ones);
    memset(threes, 3, sizeof threes);
    for (int i = 0; i < WORDS * GROUPS; i++) {
        factors[i] = (float)i;
        expected[i] = 2 * factors[i];
    }
    assert_int_equal(safetensors_write(scratch("a.safetensors"), tensors, 3, NULL, NULL), BERTH_OK);
    open_file(&weights, WORDS);
    assert_int_equal(weights.padding_rows, ROWS - WORDS);
    const struct weight *words = weights_find(&weights, tensors[0].name);
    assert_int_equal(weights_read_f32(&weights, words, found, NULL), BERTH_OK);
    assert_memory_equal(found, expected, sizeof expected);
    weights_close(&weights);
}

// What describes activations is left out; the same names beside other tensors are not.
static void test_beside_integers(void **state) {
    (void)state;
    static const struct tensor_out beside[] = {
        SCALES,
        {.name = "bert.pooler.dense.input_scale", .dtype = TENSOR_F32, .data = a_number},
        {.name = "bert.pooler.norm.input_scale", .dtype = TENSOR_F32, .data = a_number}};
    struct weights weights;
    assert_int_equal(open_integers(beside, 3, &weights, NULL), BERTH_OK);
    assert_int_equal(weights.count, 2);
    assert_int_equal(weights.dropped, 1);
    assert_non_null(weights_find(&weights, "bert.pooler.norm.input_scale"));
    weights_close(&weights);
}

static void test_other_layouts(void **state) {
    (void)state;
    static const struct {
        const char *name, *part;
    } cases[] = {{"bert.pooler.dense.weight_packed", "found several integers in one number"},
                 {"bert.pooler.dense.weight_g_idx", "found groups of columns in any order"},
                 {"_CHECKPOINTABLE_OBJECT_GRAPH", "found one of objects (tf.train.Checkpoint)"}};
    struct weights weights;
    struct berth_error error;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct tensor_out tensor = {
            .name = cases[i].name, .dtype = TENSOR_F32, .data = a_number};
        assert_int_equal(open_integers(&tensor, 1, &weights, &error), BERTH_BAD_DATA);
        assert_message_has(&error, cases[i].name);
        assert_message_has(&error, cases[i].part);
    }
}

// --- slots of optimizers ------------------------------------------------------------------------

// What lies below a variable of TensorFlow is no part of the model, whatever its name.
static void test_slots(void **state) {
    (void)state;
    static const char *const names[] = {"bert/pooler/dense/bias", "bert/pooler/dense/bias/Adam",
                                        "bert/pooler/dense/bias/lamb_v", "bert/pooler/dense/x/y"};
    struct tensor_out tensors[4];
    struct weights weights;
    for (size_t i = 0; i < 4; i++) {
        tensors[i] = (struct tensor_out){.name = names[i], .dtype = TENSOR_F32, .data = a_number};
    }
    assert_int_equal(tensorflow_write(scratch("m.ckpt"), tensors, 4, NULL), BERTH_OK);
    assert_int_equal(weights_open(&weights, scratch_folder, 0, NULL), BERTH_OK);
    assert_int_equal(weights.count, 2);
    assert_int_equal(weights.dropped, 2);
    assert_non_null(weights_find(&weights, "bert.pooler.dense.bias"));
    assert_non_null(weights_find(&weights, "bert.pooler.dense.x.y"));
    weights_close(&weights);
}

// --- names of architectures ---------------------------------------------------------------------

static const struct {
    const char *type, *ours, *theirs;
} own_names[] = {
    {"roberta", "bert.encoder.layer.1.output.LayerNorm.bias",
     "roberta.encoder.layer.1.output.LayerNorm.bias"},
    {"xlm-roberta", "cls.predictions.transform.dense.weight", "lm_head.dense.weight"},
    {"camembert", "cls.predictions.transform.LayerNorm.bias", "lm_head.layer_norm.bias"},
    {"roberta", "cls.predictions.bias", "lm_head.bias"},
    {"roberta", "cls.predictions.decoder.weight", "lm_head.decoder.weight"},
    {"roberta", "classifier.out_proj.weight", "classifier.out_proj.weight"},
    {"distilbert", "bert.embeddings.LayerNorm.weight", "distilbert.embeddings.LayerNorm.weight"},
    {"distilbert", "bert.encoder.layer.10.attention.self.query.weight",
     "distilbert.transformer.layer.10.attention.q_lin.weight"},
    {"distilbert", "bert.encoder.layer.0.attention.output.dense.bias",
     "distilbert.transformer.layer.0.attention.out_lin.bias"},
    {"distilbert", "bert.encoder.layer.0.attention.output.LayerNorm.bias",
     "distilbert.transformer.layer.0.sa_layer_norm.bias"},
    {"distilbert", "bert.encoder.layer.0.intermediate.dense.bias",
     "distilbert.transformer.layer.0.ffn.lin1.bias"},
    {"distilbert", "bert.encoder.layer.0.output.dense.bias",
     "distilbert.transformer.layer.0.ffn.lin2.bias"},
    {"distilbert", "bert.encoder.layer.0.output.LayerNorm.bias",
     "distilbert.transformer.layer.0.output_layer_norm.bias"},
    {"distilbert", "cls.predictions.bias", "vocab_projector.bias"},
    {"distilbert", "cls.predictions.decoder.weight", "vocab_projector.weight"},
    {"electra", "bert.embeddings_project.weight", "electra.embeddings_project.weight"},
    {"electra", "cls.predictions.transform.LayerNorm.bias", "generator_predictions.LayerNorm.bias"},
    {"electra", "cls.predictions.bias", "generator_lm_head.bias"},
    {"electra", "cls.predictions.decoder.weight", "generator_lm_head.weight"},
};

static const struct architecture *row_of(const char *type) {
    size_t i = 0;
    while (architecture_at(i) != NULL && strcmp(architecture_at(i)->type, type) != 0) {
        i++;
    }
    return architecture_at(i);
}

static void test_names_of_architectures(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof own_names / sizeof *own_names; i++) {
        char name[WEIGHT_NAME_SIZE];
        name_for_architecture(row_of(own_names[i].type), own_names[i].ours, name, sizeof name);
        assert_string_equal(name, own_names[i].theirs);
        assert_int_equal(name_translate(own_names[i].theirs, name, sizeof name), NAME_KEPT);
        assert_string_equal(name, own_names[i].ours);
    }
}

// Without the prefix, as the class without a head is saved; and names that become too long.
static void test_bare_names(void **state) {
    (void)state;
    char name[WEIGHT_NAME_SIZE], narrow[8];
    (void)name_translate("transformer.layer.3.attention.v_lin.bias", name, sizeof name);
    assert_string_equal(name, "bert.encoder.layer.3.attention.self.value.bias");
    (void)name_translate("embeddings_project.bias", name, sizeof name);
    assert_string_equal(name, "bert.embeddings_project.bias");
    (void)name_translate("electra.", narrow, sizeof narrow);
    assert_string_equal(narrow, "");
    name_for_architecture(row_of("electra"), "bert.", narrow, sizeof narrow);
    assert_string_equal(narrow, "");
}

// --- other architectures ------------------------------------------------------------------------

// A tensor of each model that transformers saves, with and without a head.
static void test_other_architectures(void **state) {
    (void)state;
    static const char *const tensors[][2] = {
        {"albert.embeddings.LayerNorm.bias", "an ALBERT"},
        {"encoder.albert_layer_groups.0.albert_layers.0.attention.LayerNorm.bias", "an ALBERT"},
        {"deberta.embeddings.LayerNorm.bias", "a DeBERTa"},
        {"encoder.rel_embeddings.weight", "a DeBERTa"},
        {"encoder.relative_attention_bias.weight", "an MPNet"},
        {"model.layers.0.attn.Wqkv.weight", "a ModernBERT"},
        {"embeddings.embedding_transformation.bias", "a MobileBERT"},
        {"encoder.layer.0.attention.self.key_conv_attn_layer.bias", "a ConvBERT"},
        {"encoder.layer.0.attention.self.query_global.bias", "a Longformer"},
        {"transformer.layer.0.rel_attn.q", "an XLNet"},
        {"roformer.embeddings.LayerNorm.bias", "a RoFormer"},
        {"bert.encoder.layer.0.attention.ln.bias", "a Megatron-BERT"},
        {"encoder.layer.0.attention.LayerNorm.bias", "a RoBERTa with pre-layer norms"},
        {"h.0.attn.c_attn.bias", "a GPT-2"},
        {"bert.encoder.layer.1.attention.self.distance_embedding.weight",
         "a BERT with relative positions"},
        {"encoder.layer.0.crossattention.output.LayerNorm.bias", "cross attention"},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        struct tensor_out out[] = {
            {.name = "bert.embeddings.LayerNorm.weight", .rank = 1, .shape = {2}},
            {.name = tensors[i][0], .rank = 1, .shape = {2}}};
        expect_refused(out, 2, tensors[i][1]);
    }
    for (size_t i = 0; i < sizeof kernel_names / sizeof *kernel_names; i++) {
        assert_null(architecture_of_tensor(kernel_names[i].ours));
    }
}

static void expect_config(const char *text, const char *part) {
    struct bert_config config;
    struct berth_error error = {0};
    assert_int_equal(bert_config_read_memory("config.json", text, strlen(text), &config, &error),
                     BERTH_CONFIG);
    assert_message_has(&error, part);
    assert_message_has(&error, "config.json");
}

static void test_other_types(void **state) {
    (void)state;
    expect_config("{\"model_type\": \"mpnet\"}", "this is an MPNet");
    expect_config("{\"model_type\": \"albert\"}",
                  "this is an ALBERT; choose another model, such as bert-base-uncased");
    expect_config("{\"model_type\": \"xmod\"}", "this is an X-MOD (RoBERTa's architecture)");
    expect_config("{\"model_type\": \"berd\"}", "\"berd\": this is another architecture; choose");
    expect_config("{\"model_type\": \"bert\", \"position_embedding_type\": \"relative_key\"}",
                  "a BERT with relative positions");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel_names),
        cmocka_unit_test(test_nvidia_names),
        SCRATCH_TEST(test_stack),
        SCRATCH_TEST(test_stack_with_a_long_name),
        SCRATCH_TEST(test_refusals),
        SCRATCH_TEST(test_pre_norm),
        SCRATCH_TEST(test_padding_rows),
        SCRATCH_TEST(test_beside_the_model),
        SCRATCH_TEST(test_transposed),
        SCRATCH_TEST(test_memory_fails),
        SCRATCH_TEST(test_scales),
        SCRATCH_TEST(test_zero_points),
        SCRATCH_TEST(test_padded_integers),
        SCRATCH_TEST(test_beside_integers),
        SCRATCH_TEST(test_other_layouts),
        SCRATCH_TEST(test_slots),
        cmocka_unit_test(test_names_of_architectures),
        cmocka_unit_test(test_bare_names),
        SCRATCH_TEST(test_other_architectures),
        cmocka_unit_test(test_other_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
