// SPDX-License-Identifier: Apache-2.0
// Tests Google's model folders: TensorFlow's names and ours in both directions, transposed
// matrices, and a tiny BERT saved by TensorFlow (../format/data/tensorflow/bert) against the file
// that its weights come from (../golden/tiny_h20.safetensors).
#include "core/rng.h"
#include "core/scratch.h"
#include "format/safetensors/safetensors.h"
#include "format/tensorflow/tensorflow.h"
#include "model/folder.h"
#include "model/names.h"

#define FOLDER BERTH_TEST_FORMAT_DATA "/tensorflow/bert"
#define GOLDEN BERTH_TEST_SOURCE_DIR "/tests/golden/tiny_h20.safetensors"

// --- names --------------------------------------------------------------------------------------

static const struct {
    const char *google, *ours;
    enum name_use use;
} names[] = {
    {"bert/embeddings/word_embeddings", "bert.embeddings.word_embeddings.weight", NAME_KEPT},
    {"bert/embeddings/position_embeddings", "bert.embeddings.position_embeddings.weight",
     NAME_KEPT},
    {"bert/embeddings/token_type_embeddings", "bert.embeddings.token_type_embeddings.weight",
     NAME_KEPT},
    {"bert/embeddings/LayerNorm/gamma", "bert.embeddings.LayerNorm.weight", NAME_KEPT},
    {"bert/embeddings/LayerNorm/beta", "bert.embeddings.LayerNorm.bias", NAME_KEPT},
    {"bert/encoder/layer_0/attention/self/query/kernel",
     "bert.encoder.layer.0.attention.self.query.weight", NAME_TRANSPOSED},
    {"bert/encoder/layer_23/attention/self/value/bias",
     "bert.encoder.layer.23.attention.self.value.bias", NAME_KEPT},
    {"bert/encoder/layer_10/attention/output/dense/kernel",
     "bert.encoder.layer.10.attention.output.dense.weight", NAME_TRANSPOSED},
    {"bert/encoder/layer_10/attention/output/LayerNorm/gamma",
     "bert.encoder.layer.10.attention.output.LayerNorm.weight", NAME_KEPT},
    {"bert/encoder/layer_1/intermediate/dense/kernel",
     "bert.encoder.layer.1.intermediate.dense.weight", NAME_TRANSPOSED},
    {"bert/encoder/layer_1/output/LayerNorm/beta", "bert.encoder.layer.1.output.LayerNorm.bias",
     NAME_KEPT},
    {"bert/pooler/dense/kernel", "bert.pooler.dense.weight", NAME_TRANSPOSED},
    {"bert/pooler/dense/bias", "bert.pooler.dense.bias", NAME_KEPT},
    {"cls/predictions/transform/dense/kernel", "cls.predictions.transform.dense.weight",
     NAME_TRANSPOSED},
    {"cls/predictions/transform/LayerNorm/gamma", "cls.predictions.transform.LayerNorm.weight",
     NAME_KEPT},
    {"cls/predictions/output_bias", "cls.predictions.bias", NAME_KEPT},
    {"cls/seq_relationship/output_weights", "cls.seq_relationship.weight", NAME_KEPT},
    {"cls/seq_relationship/output_bias", "cls.seq_relationship.bias", NAME_KEPT},
    {"cls/squad/output_weights", "qa_outputs.weight", NAME_KEPT},
    {"cls/squad/output_bias", "qa_outputs.bias", NAME_KEPT},
    {"output_weights", "classifier.weight", NAME_KEPT},
    {"output_bias", "classifier.bias", NAME_KEPT},
};

static void test_names_in_both_directions(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[96];
        assert_int_equal(name_translate(names[i].google, name, sizeof name), names[i].use);
        assert_string_equal(name, names[i].ours);
        assert_int_equal(name_for(&names_tensorflow, names[i].ours, name, sizeof name),
                         names[i].use);
        assert_string_equal(name, names[i].google);
        // A name of our own is its own translation: nothing is transposed twice.
        assert_int_equal(name_translate(names[i].ours, name, sizeof name), NAME_KEPT);
        assert_string_equal(name, names[i].ours);
    }
}

static void test_optimizer_is_dropped(void **state) {
    (void)state;
    static const char *const dropped[] = {"global_step",
                                          "bert/pooler/dense/kernel/adam_m",
                                          "bert/embeddings/LayerNorm/beta/adam_v",
                                          "output_weights/adam_m",
                                          "beta1_power",
                                          "beta2_power",
                                          "loss_scale",
                                          "good_steps",
                                          "optimizer_states.0.state.0.exp_avg",
                                          "callbacks.ModelCheckpoint.best_model_score",
                                          "frozen_param_fragments.bert.pooler.dense.bias"};
    static const char *const kept[] = {"global_step/x", "my_global_step", "adam_m", "x/adam_m/y"};
    char name[96];
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++) {
        assert_int_equal(name_translate(dropped[i], name, sizeof name), NAME_DROPPED);
    }
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        assert_int_equal(name_translate(kept[i], name, sizeof name), NAME_KEPT);
    }
    char small[32]; // "/" and "." have one length, "_embeddings" grows
    assert_int_equal(name_translate("a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p", small, sizeof small),
                     NAME_KEPT);
    assert_string_equal(small, "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p");
    assert_int_equal(name_translate("embeddings/word_embeddings", small, sizeof small), NAME_KEPT);
    assert_string_equal(small, "");
}

// --- matrices -----------------------------------------------------------------------------------

static void test_transpose(void **state) {
    (void)state;
    static const struct {
        int64_t rows, cols;
        size_t size;
    } cases[] = {{1, 1, 4},   {3, 5, 4},   {5, 3, 2}, {32, 32, 4},
                 {33, 70, 2}, {70, 33, 8}, {40, 1, 1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        int64_t rows = cases[k].rows, cols = cases[k].cols;
        size_t size = cases[k].size, bytes = (size_t)(rows * cols) * size;
        unsigned char *from = memory_new(bytes), *to = memory_new(bytes);
        uint64_t at = 0;
        for (size_t i = 0; i < bytes; i++) {
            from[i] = (unsigned char)rng_draw(1, 1, &at);
        }
        tensor_transpose(from, rows, cols, size, to);
        for (int64_t i = 0; i < rows; i++) {
            for (int64_t j = 0; j < cols; j++) {
                assert_memory_equal(to + (size_t)(j * rows + i) * size,
                                    from + (size_t)(i * cols + j) * size, size);
            }
        }
        memory_free(from);
        memory_free(to);
    }
}

// --- the folder ---------------------------------------------------------------------------------

static void assert_config_path(const char *expected) {
    char *path = folder_config_path(scratch_folder);
    assert_string_equal(path, scratch(expected));
    memory_free(path);
}

static void test_config_path(void **state) {
    (void)state;
    assert_config_path("config.json");
    scratch_write("bert_config.json", "{}");
    assert_config_path("bert_config.json");
    scratch_write("config.json", "{}");
    assert_config_path("config.json");
}

struct model {
    struct bert_config config;
    struct param_table table;
    float *buffer;
    struct folder_report report;
};

static void open_model(struct model *model) {
    *model = (struct model){0};
    char *path = folder_config_path(FOLDER);
    assert_string_equal(path, FOLDER "/bert_config.json");
    assert_int_equal(bert_config_read(path, &model->config, NULL), BERTH_OK);
    memory_free(path);
    assert_int_equal(param_table_init(&model->table, &model->config, PARAM_HEAD_SPAN, NULL),
                     BERTH_OK);
    model->buffer = memory_array((size_t)model->table.total, sizeof *model->buffer);
}

static void close_model(struct model *model) {
    folder_report_done(&model->report);
    memory_free(model->buffer);
    param_table_done(&model->table);
    bert_config_done(&model->config);
}

static void test_weights_are_the_golden_files(void **state) {
    (void)state;
    struct model model;
    struct berth_error error;
    struct safetensors golden;
    open_model(&model);
    if (folder_read_weights(FOLDER, &model.config, &model.table, 7, model.buffer, &model.report,
                            &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(model.report.loaded, model.table.count);
    assert_null(model.report.missing);
    assert_null(model.report.unexpected); // slots and global_step are not worth a word
    assert_int_equal(safetensors_open(&golden, GOLDEN, NULL), BERTH_OK);
    for (size_t i = 0; i < model.table.count; i++) {
        const struct param *param = &model.table.params[i];
        int64_t count = param->rows * param->cols;
        float *expected = memory_array((size_t)count, sizeof *expected);
        assert_int_equal(safetensors_read_f32(&golden, safetensors_find(&golden, param->name), 0,
                                              count, expected, NULL),
                         BERTH_OK);
        assert_memory_equal(model.buffer + param->offset, expected,
                            (size_t)count * sizeof *expected);
        memory_free(expected);
    }
    safetensors_close(&golden);
    close_model(&model);
}

// The model under Google's names, with one tensor in the shape of the case. A vector is then named
// as if it were a matrix.
static enum berth_status read_with_shape(struct model *model, const char *name, int64_t rows,
                                         int64_t cols, struct berth_error *error) {
    struct tensor_out *tensors = memory_array(model->table.count, sizeof *tensors);
    char(*google_names)[96] = memory_array(model->table.count, sizeof *google_names);
    for (size_t i = 0; i < model->table.count; i++) {
        const struct param *param = &model->table.params[i];
        char *google = google_names[i];
        int transposed = name_for(&names_tensorflow, param->name, google, sizeof *google_names) ==
                         NAME_TRANSPOSED;
        tensors[i] = (struct tensor_out){
            .name = google,
            .dtype = TENSOR_F32,
            .rank = param->rank,
            .shape = {transposed || param->rank == 1 ? param->cols : param->rows,
                      transposed ? param->rows : param->cols},
            .data = model->buffer + param->offset};
        if (strcmp(google, name) == 0) {
            if (param->rank == 1) {
                strcpy(strrchr(google, '/'), "/kernel");
            }
            tensors[i].rank = 2;
            tensors[i].shape[0] = rows;
            tensors[i].shape[1] = cols;
        }
    }
    assert_int_equal(tensorflow_write(scratch("model.ckpt"), tensors, model->table.count, NULL),
                     BERTH_OK);
    memory_free(tensors);
    memory_free(google_names);
    folder_report_done(&model->report);
    float *read = memory_array((size_t)model->table.total, sizeof *read);
    enum berth_status status = folder_read_weights(scratch_folder, &model->config, &model->table, 7,
                                                   read, &model->report, error);
    memory_free(read);
    return status;
}

static void test_shapes(void **state) {
    (void)state;
    static const char kernel[] = "bert/encoder/layer_0/intermediate/dense/kernel";
    struct model model;
    struct berth_error error;
    open_model(&model);
    param_initialise(&model.table, &model.config, 7, model.buffer, 1);
    assert_int_equal(read_with_shape(&model, kernel, 20, 37, &error), BERTH_OK);
    assert_int_equal(read_with_shape(&model, kernel, 37, 20, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "expected the shape [20, 37], found [37, 20]");
    assert_int_equal(read_with_shape(&model, "bert/embeddings/word_embeddings", 20, 101, &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "expected the shape [101, 20], found [20, 101]");
    assert_int_equal(read_with_shape(&model, "bert/embeddings/LayerNorm/gamma", 4, 5, &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "\"bert/embeddings/LayerNorm/kernel\": expected the shape [20], ");
    close_model(&model);
}

static void test_memory_runs_out(void **state) {
    (void)state;
    struct model model;
    open_model(&model);
    for (uint64_t call = 1;; call++) {
        struct berth_error error = {0};
        memory_fail_at(call, 0);
        enum berth_status status = folder_read_weights(FOLDER, &model.config, &model.table, 7,
                                                       model.buffer, &model.report, &error);
        if (memory_fail_at(0, 0) < call) {
            assert_int_equal(status, BERTH_OK);
            break;
        }
        if (status == BERTH_OK) { // what failed was not needed
            assert_int_equal(model.report.loaded, model.table.count);
        } else {
            assert_int_equal(status, BERTH_NO_MEMORY);
            assert_true(error.message[0] != '\0');
        }
        folder_report_done(&model.report);
    }
    close_model(&model);
}

// A folder's safetensors come first; a folder without either reports the usual file.
static void test_which_weights(void **state) {
    (void)state;
    struct tensor_file file;
    struct berth_error error;
    float one = 1;
    struct tensor_out tensor = {.name = "x", .dtype = TENSOR_F32, .data = &one};
    assert_int_equal(folder_open_weights(scratch_folder, &file, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "model.safetensors");
    assert_int_equal(tensorflow_write(scratch("a.ckpt"), &tensor, 1, NULL), BERTH_OK);
    assert_int_equal(folder_open_weights(scratch_folder, &file, NULL), BERTH_OK);
    assert_string_equal(file.format->name, "tensorflow");
    tensor_file_close(&file);
    assert_int_equal(safetensors_write(scratch("model.safetensors"), &tensor, 1, NULL, NULL),
                     BERTH_OK);
    assert_int_equal(folder_open_weights(scratch_folder, &file, NULL), BERTH_OK);
    assert_string_equal(file.format->name, "safetensors");
    tensor_file_close(&file);
    assert_int_equal(file_remove(scratch("model.safetensors"), NULL), BERTH_OK);
    assert_int_equal(file_remove(scratch("checkpoint"), NULL), BERTH_OK);
    scratch_write("b.ckpt.index", "");
    assert_int_equal(folder_open_weights(scratch_folder, &file, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "a.ckpt.index and b.ckpt.index");
}

// Weights of other programs are named, in a folder and alone; those that Berth reads come first.
static void test_foreign_weights(void **state) {
    (void)state;
    static const struct {
        const char *name, *what, *remedy;
    } cases[] = {{"tf_model.h5", "weights for Keras", "from_tf=True"},
                 {"flax_model.msgpack", "weights for Flax", "from_flax=True"},
                 {"adapter_model.safetensors", "an adapter of PEFT", "its adapter_config.json"},
                 {"adapter_model.bin", "an adapter of PEFT", "its adapter_config.json"},
                 {"__0_0.distcp", "a shard of torch.distributed.checkpoint", "dcp_to_torch"},
                 {"bert_model.ckpt", "a TensorFlow checkpoint of version 1", "version 2"},
                 {"saved_model.pb", "a SavedModel", "by name"},
                 {"model.onnx", "an ONNX graph", "exported from"},
                 {"bert.gguf", "a GGUF file", "exported from"}};
    struct tensor_file file;
    struct berth_error error;
    float one = 1;
    const struct tensor_out tensor = {.name = "x", .dtype = TENSOR_F32, .data = &one};
    assert_int_equal(folder_open_weights(scratch("bert_model.ckpt"), &file, &error),
                     BERTH_NO_INPUT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write("a.h5", "x");
        scratch_write(cases[i].name, "x");
        const char *const paths[] = {scratch_folder, scratch(cases[i].name)};
        for (size_t k = 0; k < 2; k++) {
            assert_int_equal(folder_open_weights(paths[k], &file, &error), BERTH_BAD_DATA);
            assert_message_has(&error, cases[i].name);
            assert_message_has(&error, cases[i].what);
            assert_message_has(&error, cases[i].remedy);
        }
        assert_int_equal(safetensors_write(scratch("model.safetensors"), &tensor, 1, NULL, NULL),
                         BERTH_OK);
        assert_int_equal(folder_open_weights(scratch_folder, &file, NULL), BERTH_OK);
        tensor_file_close(&file);
        file_remove(scratch("model.safetensors"), NULL);
        file_remove(scratch(cases[i].name), NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_in_both_directions),
        cmocka_unit_test(test_optimizer_is_dropped),
        cmocka_unit_test(test_transpose),
        SCRATCH_TEST(test_config_path),
        SCRATCH_TEST(test_weights_are_the_golden_files),
        SCRATCH_TEST(test_shapes),
        SCRATCH_TEST(test_memory_runs_out),
        SCRATCH_TEST(test_which_weights),
        SCRATCH_TEST(test_foreign_weights),
    };
    return cmocka_run_group_tests_name("folder_tensorflow", tests, NULL, NULL);
}
