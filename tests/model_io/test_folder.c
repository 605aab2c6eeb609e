// SPDX-License-Identifier: Apache-2.0
// Tests the weights of a model folder: round trips, dialects, missing, unexpected or misshapen
// tensors. If BERTH_MODEL names a real Hugging Face folder, it is read too.
#include "core/scratch.h"
#include "format/json/json.h"
#include "format/safetensors/safetensors.h"
#include "format/torch/torch.h"
#include "model/folder.h"
#include "model/names.h"
#include "model_io/short_sink.h"

#include <errno.h>

#define WORDS "bert.embeddings.word_embeddings.weight"

// A model small enough to write in no time, its table and a buffer of initial values.
struct small {
    struct bert_config config;
    struct param_table table;
    float *weights, *read;
    struct folder_report report;
};

static void small_open_sized(struct small *small, enum param_head head, int64_t words) {
    *small = (struct small){0};
    assert_int_equal(bert_config_builtin("tiny", &small->config, NULL), BERTH_OK);
    small->config.vocab_size = words;
    small->config.hidden_size = 6;
    small->config.intermediate_size = 10;
    small->config.max_position_embeddings = 12;
    assert_int_equal(param_table_init(&small->table, &small->config, head, NULL), BERTH_OK);
    small->weights = memory_array((size_t)small->table.total, sizeof *small->weights);
    small->read = memory_array((size_t)small->table.total, sizeof *small->read);
    param_initialise(&small->table, &small->config, 7, small->weights, 1);
}

static void small_open_with(struct small *small, enum param_head head) {
    small_open_sized(small, head, 20);
}

static void small_open(struct small *small) {
    small_open_with(small, PARAM_HEAD_SPAN);
}

static void small_close(struct small *small) {
    folder_report_done(&small->report);
    memory_free(small->weights);
    memory_free(small->read);
    param_table_done(&small->table);
    bert_config_done(&small->config);
}

// The model's tensors as a file holds them, to be changed by a test.
static struct tensor_out *list_tensors(const struct small *small) {
    struct tensor_out *tensors = memory_array_zeroed(small->table.count + 4, sizeof *tensors);
    for (size_t i = 0; i < small->table.count; i++) {
        const struct param *param = &small->table.params[i];
        tensors[i].name = param->name;
        tensors[i].dtype = TENSOR_F32;
        tensors[i].rank = param->rank;
        tensors[i].shape[0] = param->rank == 2 ? param->rows : param->cols;
        tensors[i].shape[1] = param->rank == 2 ? param->cols : 0;
        tensors[i].data = small->weights + param->offset;
    }
    return tensors;
}

static struct tensor_out *find(struct tensor_out *tensors, const char *name) {
    while (strcmp(tensors->name, name) != 0) {
        tensors++;
    }
    return tensors;
}

static void write_tensors(const struct tensor_out *tensors, size_t count) {
    assert_int_equal(safetensors_write(scratch("model.safetensors"), tensors, count, NULL, NULL),
                     BERTH_OK);
}

static enum berth_status read_small(struct small *small, struct berth_error *error) {
    folder_report_done(&small->report);
    memset(small->read, 0xFF, (size_t)small->table.total * sizeof *small->read);
    return folder_read_weights(scratch_folder, &small->config, &small->table, 7, small->read,
                               &small->report, error);
}

static void assert_same_weights(const struct small *small) {
    assert_memory_equal(small->read, small->weights,
                        (size_t)small->table.total * sizeof *small->read);
}

// --- success -------------------------------------------------------------------------------------

static void test_round_trip(void **state) {
    (void)state;
    struct small small;
    struct bert_config config;
    small_open(&small);
    assert_int_equal(
        folder_write_weights(scratch_folder, &small.config, &small.table, small.weights, NULL),
        BERTH_OK);
    assert_int_equal(read_small(&small, NULL), BERTH_OK);
    assert_same_weights(&small);
    assert_int_equal(small.report.loaded, small.table.count);
    assert_null(small.report.missing);
    assert_null(small.report.unexpected);
    assert_int_equal(bert_config_read(scratch("config.json"), &config, NULL), BERTH_OK);
    assert_int_equal(config.hidden_size, 6);
    assert_non_null(strstr(config.source_json, "BertForQuestionAnswering"));
    bert_config_done(&config);
    small_close(&small);
}

static void test_missing_head_is_initialised_and_reported(void **state) {
    (void)state;
    struct small small;
    small_open(&small);
    struct tensor_out *tensors = list_tensors(&small);
    *find(tensors, "qa_outputs.weight") =
        (struct tensor_out){.name = "cls.predictions.bias", .dtype = TENSOR_U8};
    *find(tensors, "qa_outputs.bias") =
        (struct tensor_out){.name = "bert.pooler.dense.weight", .dtype = TENSOR_I64};
    static const char zeros[8];
    find(tensors, "cls.predictions.bias")->data = zeros;
    find(tensors, "bert.pooler.dense.weight")->data = zeros;
    write_tensors(tensors, small.table.count);
    assert_int_equal(read_small(&small, NULL), BERTH_OK);
    assert_string_equal(small.report.missing, "qa_outputs.weight\nqa_outputs.bias");
    assert_string_equal(small.report.unexpected, "bert.pooler.dense.weight\ncls.predictions.bias");
    assert_int_equal(small.report.loaded, small.table.count - 2);
    assert_same_weights(&small); // seed 7 made both
    memory_free(tensors);
    small_close(&small);
}

static void test_dialects(void **state) {
    (void)state;
    static const struct {
        const char *theirs, *ours; // NULL: left out
    } cases[] = {
        {"bert.encoder.layer.0.output.dense.weight", "bert.encoder.layer.0.output.dense.weight"},
        {"encoder.layer.0.output.dense.weight", "bert.encoder.layer.0.output.dense.weight"},
        {"embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.weight"},
        {"pooler.dense.bias", "bert.pooler.dense.bias"},
        {"bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight"},
        {"embeddings.LayerNorm.beta", "bert.embeddings.LayerNorm.bias"},
        {"module.bert.embeddings.LayerNorm.bias", "bert.embeddings.LayerNorm.bias"},
        {"module.qa_outputs.bias", "qa_outputs.bias"},
        {"model_state_dict.bert.pooler.dense.bias", "bert.pooler.dense.bias"},
        {"model.module.bert.pooler.dense.bias", "bert.pooler.dense.bias"},
        {"module.model.bert.pooler.dense.bias", "bert.pooler.dense.bias"},
        {"state_dict.pooler.dense.bias", "bert.pooler.dense.bias"},
        {"_orig_mod.bert.pooler.dense.bias", "bert.pooler.dense.bias"},
        {"model._orig_mod.module.pooler.dense.bias", "bert.pooler.dense.bias"},
        {"bert.encoder.layer.0._orig_mod.output.dense.bias",
         "bert.encoder.layer.0.output.dense.bias"},
        {"optimizer.state.0.exp_avg", NULL},
        {"optimizer_state_dict.state.0.exp_avg", NULL},
        {"master params.0", NULL},
        {"model.bert.encoder.layer.11.output.LayerNorm.gamma",
         "bert.encoder.layer.11.output.LayerNorm.weight"},
        {"module.model.encoder.layer.3.intermediate.dense_act.weight",
         "bert.encoder.layer.3.intermediate.dense.weight"},
        {"gamma", "gamma"},
        {"", ""},
        {"cls.seq_relationship.weight", "cls.seq_relationship.weight"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[96];
        int kept = name_translate(cases[i].theirs, name, sizeof name);
        assert_int_equal(kept, cases[i].ours != NULL);
        if (kept) {
            assert_string_equal(name, cases[i].ours);
        }
    }
}

static void test_buffers(void **state) {
    (void)state;
    static const char *const theirs[] = {"embeddings.position_ids", "bert.embeddings.position_ids",
                                         "module.bert.embeddings.position_ids",
                                         "bert/embeddings/position_ids"};
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++) {
        char name[96];
        assert_int_equal(name_translate(theirs[i], name, sizeof name), NAME_BUFFER);
        assert_string_equal(name, "bert.embeddings.position_ids");
    }
}

static void test_names_that_do_not_fit(void **state) {
    (void)state;
    char longer[40], name[32];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(name_translate(longer, name, sizeof name), 1);
    assert_string_equal(name, "");
    memcpy(longer, "encoder.", 8);
    longer[31] = '\0'; // fits, but not with "bert." in front
    assert_int_equal(name_translate(longer, name, sizeof name), 1);
    assert_string_equal(name, "");
}

// A bare BertModel with old names, in bf16, with the old buffer.
static void test_legacy_file(void **state) {
    (void)state;
    struct small small;
    char names[64][96];
    uint16_t halves[16][256];
    int64_t positions[12] = {0};
    size_t count = 0, converted = 0;
    small_open(&small);
    struct tensor_out *tensors = list_tensors(&small);
    for (size_t i = 0; i < small.table.count; i++) {
        if (strncmp(tensors[i].name, "bert.", 5) != 0) {
            continue;
        }
        snprintf(names[count], sizeof names[0], "%s", tensors[i].name + 5);
        char *end = strstr(names[count], "LayerNorm.");
        if (end != NULL) {
            strcpy(end + 10, strcmp(end + 10, "weight") == 0 ? "gamma" : "beta");
        }
        tensors[count] = tensors[i];
        tensors[count].name = names[count];
        if (tensors[count].rank == 2 && converted < 16) { // small enough for the array
            const struct param *param = &small.table.params[i];
            for (int64_t k = 0; k < param->rows * param->cols; k++) {
                uint32_t bits;
                float *value = &small.weights[param->offset + k];
                memcpy(&bits, value, 4);
                bits &= 0xFFFF0000u;
                memcpy(value, &bits, 4);
                halves[converted][k] = (uint16_t)(bits >> 16);
            }
            tensors[count].dtype = TENSOR_BF16;
            tensors[count].data = halves[converted++];
        }
        count++;
    }
    tensors[count++] = (struct tensor_out){.name = "embeddings.position_ids",
                                           .dtype = TENSOR_I64,
                                           .rank = 2,
                                           .shape = {1, 12},
                                           .data = positions};
    write_tensors(tensors, count);
    assert_int_equal(read_small(&small, NULL), BERTH_OK);
    assert_same_weights(&small);
    assert_null(small.report.unexpected);
    memory_free(tensors);
    small_close(&small);
}

// What other trainers write: everything in one dictionary with the optimizer's tensors, in halves
// of several files, or both.
static void test_pytorch_model(void **state) {
    (void)state;
    struct small small;
    small_open(&small);
    struct tensor_out *tensors = list_tensors(&small);
    struct tensor_out moment = {
        .name = "exp_avg", .dtype = TENSOR_F32, .rank = 1, .shape = {2}, .data = small.weights};
    struct torch_node members[] = {
        {.key = "model", .kind = TORCH_TENSORS, .count = small.table.count, .tensors = tensors},
        {.key = "optimizer", .kind = TORCH_TENSORS, .count = 1, .tensors = &moment},
        {.key = "step", .kind = TORCH_INTEGER, .integer = 5}};
    struct torch_node root = {.kind = TORCH_DICT, .count = 3, .children = members};
    static const char *const keys[] = {"model", "module", "model_state_dict"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        members[0].key = keys[i];
        assert_int_equal(torch_write(scratch("pytorch_model.bin"), &root, NULL), BERTH_OK);
        assert_int_equal(read_small(&small, NULL), BERTH_OK);
        assert_same_weights(&small);
        assert_null(small.report.missing);
        assert_null(small.report.unexpected);
    }
    assert_int_equal(torch_write(scratch("pytorch_model.bin"), &members[0], NULL), BERTH_OK);
    assert_int_equal(read_small(&small, NULL), BERTH_OK); // bare
    assert_same_weights(&small);
    memory_free(tensors);
    small_close(&small);
}

// A decoder of words that is stored beside the words it is tied to.
static void check_tied_decoder(int64_t count) {
    struct small small;
    struct berth_error error;
    small_open_sized(&small, PARAM_HEAD_MASKED, count);
    struct tensor_out *tensors = list_tensors(&small);
    struct tensor_out *const copies = tensors + small.table.count;
    const struct param *words = param_table_find(&small.table, WORDS);
    const size_t bytes = (size_t)(words->rows * words->cols) * sizeof(float);
    float *const decoder = memory_new(bytes), *const bias =
                                                  memory_new((size_t)count * sizeof *bias);
    memcpy(decoder, find(tensors, WORDS)->data, bytes);
    memcpy(bias, find(tensors, "cls.predictions.bias")->data, (size_t)count * sizeof *bias);
    copies[0] = *find(tensors, WORDS);
    copies[1] = *find(tensors, "cls.predictions.bias");
    copies[0].name = "cls.predictions.decoder.weight";
    copies[1].name = "cls.predictions.decoder.bias";
    copies[0].data = decoder;
    copies[1].data = bias;
    write_tensors(tensors, small.table.count + 2);
    assert_int_equal(read_small(&small, NULL), BERTH_OK);
    assert_same_weights(&small);
    assert_null(small.report.unexpected);
    for (int i = 0; i < 2; i++) {
        float *const number = i == 0 ? decoder + words->cols * (count - 1) : bias + count - 1;
        *number += 1;
        write_tensors(tensors, small.table.count + 2);
        assert_int_equal(read_small(&small, &error), BERTH_CONFIG);
        assert_non_null(strstr(error.message, copies[i].name));
        assert_non_null(strstr(error.message, "tie_word_embeddings"));
        *number -= 1;
    }
    copies[0].shape[0]--;
    write_tensors(tensors, small.table.count + 2);
    assert_int_equal(read_small(&small, &error), BERTH_CONFIG);
    struct small span; // predicts no words
    small_open_sized(&span, PARAM_HEAD_SPAN, count);
    assert_int_equal(read_small(&span, NULL), BERTH_OK);
    assert_non_null(strstr(span.report.unexpected, copies[0].name));
    small_close(&span);
    memory_free(decoder);
    memory_free(bias);
    memory_free(tensors);
    small_close(&small);
}

static void test_tied_decoder(void **state) {
    (void)state;
    check_tied_decoder(20);
    check_tied_decoder(60000); // which are compared in two pieces
}

static void test_several_files(void **state) {
    (void)state;
    struct small small;
    small_open(&small);
    struct tensor_out *tensors = list_tensors(&small);
    size_t half = small.table.count / 2;
    json *index = json_new_object(), *map = json_new_object();
    for (size_t i = 0; i < small.table.count; i++) {
        json_set(map, tensors[i].name, json_new_text(i < half ? "one.safetensors" : "two.bin"));
    }
    json_set(index, "weight_map", map);
    struct torch_node root = {
        .kind = TORCH_TENSORS, .count = small.table.count - half, .tensors = tensors + half};
    assert_int_equal(
        json_write_file(index, JSON_COMPACT, scratch("model.safetensors.index.json"), NULL),
        BERTH_OK);
    assert_int_equal(safetensors_write(scratch("one.safetensors"), tensors, half, NULL, NULL),
                     BERTH_OK);
    assert_int_equal(torch_write(scratch("two.bin"), &root, NULL), BERTH_OK);
    assert_int_equal(read_small(&small, NULL), BERTH_OK);
    assert_same_weights(&small);
    assert_int_equal(small.report.loaded, small.table.count);
    json_free(index);
    memory_free(tensors);
    small_close(&small);
}

// --- errors --------------------------------------------------------------------------------------

static void test_missing_body(void **state) {
    (void)state;
    struct small small;
    struct berth_error error;
    small_open(&small);
    struct tensor_out *tensors = list_tensors(&small);
    find(tensors, "bert.encoder.layer.1.output.dense.bias")->name = "something";
    find(tensors, "bert.encoder.layer.1.output.LayerNorm.bias")->name = "something.else";
    write_tensors(tensors, small.table.count);
    assert_int_equal(read_small(&small, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "model.safetensors: missing tensor "
                               "\"bert.encoder.layer.1.output.dense.bias\" (2 in all)");
    assert_message_has(&error, "the file has \"something\": rename"); // neither is like it
    find(tensors, "something")->name = "backbone.encoder.layer.1.output.dense.bias";
    write_tensors(tensors, small.table.count);
    assert_int_equal(read_small(&small, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "has \"backbone.encoder.layer.1.output.dense.bias\"");
    assert_null(small.report.unexpected);
    memory_free(tensors);
    small_close(&small);
}

static void test_wrong_shape(void **state) {
    (void)state;
    struct small small;
    struct berth_error error;
    small_open(&small);
    struct tensor_out *tensors = list_tensors(&small);
    struct tensor_out *weight = find(tensors, "bert.encoder.layer.1.intermediate.dense.weight");
    weight->shape[0] = 6;
    weight->shape[1] = 10; // transposed
    write_tensors(tensors, small.table.count);
    assert_int_equal(read_small(&small, &error), BERTH_BAD_DATA);
    assert_message_has(&error, scratch("model.safetensors"));
    assert_message_has(&error, "\"bert.encoder.layer.1.intermediate.dense.weight\": expected the "
                               "shape [10, 6], found [6, 10]");
    weight->rank = 1;
    weight->shape[0] = 60;
    write_tensors(tensors, small.table.count);
    assert_int_equal(read_small(&small, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "found [60]");
    memory_free(tensors);
    small_close(&small);
}

static void test_wrong_type(void **state) {
    (void)state;
    struct small small;
    struct berth_error error;
    small_open(&small);
    struct tensor_out *tensors = list_tensors(&small);
    find(tensors, "qa_outputs.bias")->dtype = TENSOR_I32;
    write_tensors(tensors, small.table.count);
    assert_int_equal(read_small(&small, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "\"qa_outputs.bias\": expected F32, F16, BF16 or F64, found I32");
    memory_free(tensors);
    small_close(&small);
}

static void test_two_names_for_one(void **state) {
    (void)state;
    struct small small;
    struct berth_error error;
    small_open(&small);
    struct tensor_out *tensors = list_tensors(&small);
    tensors[small.table.count] = *find(tensors, "bert.embeddings.LayerNorm.weight");
    tensors[small.table.count].name = "bert.embeddings.LayerNorm.gamma";
    write_tensors(tensors, small.table.count + 1);
    assert_int_equal(read_small(&small, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "are both bert.embeddings.LayerNorm.weight");
    memory_free(tensors);
    small_close(&small);
}

static void test_folders_without_weights(void **state) {
    (void)state;
    struct small small;
    struct berth_error error;
    small_open(&small);
    assert_int_equal(read_small(&small, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "model.safetensors");
    static const char *const names[] = {"pytorch_model.bin.index.json", "pytorch_model.bin",
                                        "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) { // each goes before the ones above
        scratch_write(names[i], "x");
        assert_int_not_equal(read_small(&small, &error), BERTH_OK);
        assert_message_has(&error, scratch(names[i]));
    }
    scratch_write("model.safetensors", "x");
    assert_int_equal(read_small(&small, &error), BERTH_BAD_DATA);
    small_close(&small);
}

static void test_vocabulary_fits(void **state) {
    (void)state;
    struct bert_config config;
    struct berth_error error;
    assert_int_equal(bert_config_builtin("base", &config, NULL), BERTH_OK);
    assert_int_equal(folder_check_vocab(&config, "c", 30522, "v", NULL), BERTH_OK);
    assert_int_equal(folder_check_vocab(&config, "c.json", 30521, "v.txt", &error), BERTH_CONFIG);
    assert_message_has(&error, "v.txt has 30521 entries, but \"vocab_size\" in c.json is 30522");
    assert_int_equal(folder_check_vocab(&config, "c", 30523, "v", NULL), BERTH_CONFIG);
    static const int64_t padded[] = {30528, 30592}; // to a multiple of 8 or 64, of 128
    for (size_t i = 0; i < sizeof padded / sizeof *padded; i++) {
        config.vocab_size = padded[i];
        assert_int_equal(folder_check_vocab(&config, "c", 30522, "v", NULL), BERTH_OK);
    }
    config.vocab_size = 30720; // of 256
    assert_int_equal(folder_check_vocab(&config, "c", 30522, "v", NULL), BERTH_CONFIG);
}

// A search that is quadratic in the number of tensors would not end within the test's time limit.
static void test_very_many_names(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    struct small small;
    struct berth_error error;
    struct tensor_out *tensors = memory_array_zeroed(COUNT, sizeof *tensors);
    char(*names)[16] = memory_array(COUNT, sizeof *names);
    static const char zero;
    small_open(&small);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "x%zu", i);
        tensors[i] = (struct tensor_out){.name = names[i], .dtype = TENSOR_U8, .data = &zero};
    }
    write_tensors(tensors, COUNT);
    assert_int_equal(read_small(&small, &error), BERTH_BAD_DATA);
    assert_message_has(&error, ".query.weight\" (37 in all)");
    memory_free(tensors);
    memory_free(names);
    small_close(&small);
}

// --- failures -----------------------------------------------------------------------------------

// The weights are the old file or the new one as a whole, and config.json is whole if there is one.
static void assert_old_or_new(struct small *small) {
    char *bytes;
    size_t length;
    assert_int_equal(file_read(scratch("model.safetensors"), 1 << 24, &bytes, &length, NULL),
                     BERTH_OK);
    if (strcmp(bytes, "old") != 0) {
        assert_int_equal(read_small(small, NULL), BERTH_OK);
        assert_same_weights(small);
    }
    memory_free(bytes);
    if (file_exists(scratch("config.json"))) {
        struct bert_config config;
        assert_int_equal(bert_config_read(scratch("config.json"), &config, NULL), BERTH_OK);
        bert_config_done(&config);
    }
}

// Writing fails at every system call and every allocation.
static void test_write_fails_at_every_call(void **state) {
    (void)state;
    struct small small;
    enum berth_status status = BERTH_IO;
    small_open(&small);
    scratch_write("model.safetensors", "old");
    for (uint64_t call = 1; call < 200 && status != BERTH_OK; call++) {
        file_fail_at(call, ENOSPC);
        status =
            folder_write_weights(scratch_folder, &small.config, &small.table, small.weights, NULL);
        file_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_IO);
        assert_in_range(scratch_count(), 1, 2);
        assert_old_or_new(&small);
    }
    assert_int_equal(status, BERTH_OK);
    status = BERTH_NO_MEMORY;
    scratch_write("model.safetensors", "old");
    for (uint64_t call = 1; call < 500 && status != BERTH_OK; call++) {
        memory_fail_at(call, 0);
        status =
            folder_write_weights(scratch_folder, &small.config, &small.table, small.weights, NULL);
        memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        assert_old_or_new(&small);
    }
    assert_int_equal(status, BERTH_OK);
    assert_int_equal(read_small(&small, NULL), BERTH_OK);
    assert_same_weights(&small);
    small_close(&small);
}

static void test_read_fails_at_every_call(void **state) {
    (void)state;
    struct small small;
    enum berth_status status = BERTH_IO;
    small_open(&small);
    assert_int_equal(
        folder_write_weights(scratch_folder, &small.config, &small.table, small.weights, NULL),
        BERTH_OK);
    for (uint64_t call = 1; call < 500 && status != BERTH_OK; call++) {
        file_fail_at(call, EIO);
        status = read_small(&small, NULL);
        assert_true(status == BERTH_OK || status == BERTH_IO);
    }
    file_fail_at(0, 0);
    assert_int_equal(status, BERTH_OK);
    status = BERTH_NO_MEMORY;
    for (uint64_t call = 1; call < 500 && status != BERTH_OK; call++) {
        memory_fail_at(call, 0);
        status = read_small(&small, NULL);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
    }
    memory_fail_at(0, 0);
    assert_int_equal(status, BERTH_OK);
    small_close(&small);
}

// --- sinks that fail -----------------------------------------------------------------------------

static void test_sinks_that_fail(void **state) {
    (void)state;
    static struct short_sink sink;
    const struct param_sink failing = {begin_some, end_some, NULL, &sink, 1};
    struct small small;
    struct berth_error error;
    small_open(&small);
    assert_int_equal(
        folder_write_weights(scratch_folder, &small.config, &small.table, small.weights, NULL),
        BERTH_OK);
    for (size_t i = 0; i < small.table.count; i++) {
        sink.begins = i;
        sink.ends = small.table.count;
        assert_int_equal(folder_read_weights_into(scratch_folder, &small.config, &small.table, 7,
                                                  &failing, &small.report, &error),
                         BERTH_NO_MEMORY);
        assert_message_has(&error, small.table.params[i].name);
        folder_report_done(&small.report);
        sink.begins = small.table.count;
        sink.ends = i;
        assert_int_equal(folder_read_weights_into(scratch_folder, &small.config, &small.table, 7,
                                                  &failing, &small.report, &error),
                         BERTH_IO);
        assert_message_has(&error, small.table.params[i].name);
        folder_report_done(&small.report);
    }
    small_close(&small);
}

// --- a real model -------------------------------------------------------------------------------

static void test_real_folder(void **state) {
    (void)state;
    const char *folder = getenv("BERTH_MODEL");
    if (folder == NULL || !dir_exists(folder)) {
        print_message("BERTH_MODEL names no model folder: skipped\n");
        skip();
    }
    struct bert_config config;
    struct param_table table;
    struct folder_report report;
    struct berth_error error;
    char path[4096];
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(bert_config_read(path, &config, &error), BERTH_OK);
    assert_int_equal(param_table_init(&table, &config, PARAM_HEAD_SPAN, NULL), BERTH_OK);
    float *weights = memory_pages((size_t)table.total * sizeof *weights);
    float *again = memory_pages((size_t)table.total * sizeof *again);
    if (folder_read_weights(folder, &config, &table, 42, weights, &report, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_in_range(report.loaded, table.count - 2, table.count);
    folder_report_done(&report);
    assert_int_equal(folder_write_weights(scratch_folder, &config, &table, weights, NULL),
                     BERTH_OK);
    assert_int_equal(folder_read_weights(scratch_folder, &config, &table, 42, again, &report, NULL),
                     BERTH_OK);
    assert_int_equal(report.loaded, table.count);
    assert_memory_equal(weights, again, (size_t)table.total * sizeof *weights);
    folder_report_done(&report);
    memory_pages_free(weights, (size_t)table.total * sizeof *weights);
    memory_pages_free(again, (size_t)table.total * sizeof *again);
    param_table_done(&table);
    bert_config_done(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_round_trip),
        SCRATCH_TEST(test_missing_head_is_initialised_and_reported),
        SCRATCH_TEST(test_dialects),
        SCRATCH_TEST(test_buffers),
        SCRATCH_TEST(test_names_that_do_not_fit),
        SCRATCH_TEST(test_legacy_file),
        SCRATCH_TEST(test_pytorch_model),
        SCRATCH_TEST(test_tied_decoder),
        SCRATCH_TEST(test_several_files),
        SCRATCH_TEST(test_missing_body),
        SCRATCH_TEST(test_wrong_shape),
        SCRATCH_TEST(test_wrong_type),
        SCRATCH_TEST(test_two_names_for_one),
        SCRATCH_TEST(test_folders_without_weights),
        SCRATCH_TEST(test_vocabulary_fits),
        SCRATCH_TEST(test_very_many_names),
        SCRATCH_TEST(test_write_fails_at_every_call),
        SCRATCH_TEST(test_read_fails_at_every_call),
        SCRATCH_TEST(test_sinks_that_fail),
        SCRATCH_TEST(test_real_folder),
    };
    return cmocka_run_group_tests_name("folder", tests, NULL, NULL);
}
