// SPDX-License-Identifier: Apache-2.0
// Tests conversions: names of tensors, round trips through every format, config.json, heads and
// padding; and with each system call and each allocation failing in turn, when it reports an error
// and leaves no part of an output, under the final name or a temporary one.
#include "api/conversion.h"
#include "core/buffer.h"
#include "core/scratch.h"
#include "format/containers/containers.h"
#include "format/json/json.h"
#include "format/safetensors/safetensors.h"

#include <errno.h>

#define VOCAB 9
#define HIDDEN 8

// Torch's and NVIDIA's files are written like DeepSpeed's, which represents them.
static const char *const targets[] = {"hf", "tensorflow", "deepspeed", "onnx", "gguf"};
static const char *const round_targets[] = {"hf", "torch", "tensorflow", "nvidia", "deepspeed"};

static const struct berth_log silent;

// Of a job that succeeds.
static struct berth_result *run_job(const char *name, const char *const *settings) {
    struct berth_error error;
    struct berth_result *result = berth_job(name, settings, NULL, &error);
    assert_string_equal(error.message, "");
    assert_non_null(result);
    return result;
}

static enum berth_status convert_with(const char *input, const char *output,
                                      const char *const *settings, const struct berth_log *log,
                                      struct berth_error *error) {
    struct job job = {.row = &job_convert, .log = log != NULL ? *log : silent};
    assert_int_equal(job_set(&job, "input", input, error), BERTH_OK);
    assert_int_equal(job_set(&job, "output", output, error), BERTH_OK);
    for (; *settings != NULL; settings += 2) {
        const enum berth_status status = job_set(&job, settings[0], settings[1], error);
        if (status != BERTH_OK) {
            return status;
        }
    }
    return convert_model(&job, error);
}
#define SETTINGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void init_model(const char *config, const char *path) {
    berth_result_free(
        run_job("init", (const char *[]){"config", config, "output", path, "seed", "1", NULL}));
}

static void make_model(const char *path) {
    static const char config[] =
        "{\"vocab_size\": 9, \"hidden_size\": 8, \"num_hidden_layers\": 1, "
        "\"num_attention_heads\": 2, \"intermediate_size\": 16, "
        "\"max_position_embeddings\": 16, \"type_vocab_size\": 2, \"model_type\": \"bert\"}";
    static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nwor\n##ld\n!\n";
    const char *file = scratch("shape.json");
    assert_int_equal(file_write(file, config, sizeof config - 1, NULL), BERTH_OK);
    init_model(file, path);
    file_remove(file, NULL);
    char *vocab_path = path_join(path, "vocab.txt");
    assert_int_equal(file_write(vocab_path, vocab, sizeof vocab - 1, NULL), BERTH_OK);
    memory_free(vocab_path);
}

static enum berth_status convert_as(const char *to, struct berth_error *error) {
    return convert_with(scratch("model"), scratch("out"), SETTINGS("to", to, "allow_lossy", "true"),
                        NULL, error);
}

// Only the model, or also the complete output (of `files` files).
static void expect_all_or_nothing(size_t files) {
    size_t names = count_entries(scratch_folder);
    if (dir_exists(scratch("out"))) {
        assert_int_equal(names, 2);
        assert_int_equal(count_entries(scratch("out")), files);
    } else {
        assert_int_equal(names, 1);
    }
}

static void fail_calls(const char *to) {
    file_fail_at(0, 0);
    assert_int_equal(convert_as(to, NULL), BERTH_OK);
    uint64_t calls = file_fail_at(0, 0);
    size_t files = count_entries(scratch("out"));
    int complete = 0;
    assert_true(calls > 20);
    for (uint64_t n = 1; n <= calls; n++) {
        assert_int_equal(dir_remove(scratch("out"), NULL), BERTH_OK);
        struct berth_error error = {0};
        file_fail_at(n, EIO);
        enum berth_status status = convert_as(to, &error);
        file_fail_at(0, 0);
        assert_int_not_equal(status, BERTH_OK);
        assert_int_not_equal(error.message[0], '\0');
        expect_all_or_nothing(files);
        complete += dir_exists(scratch("out"));
    }
    assert_in_range(complete, 1, 2); // once the new name exists, its folder is opened and synced
}

static void test_failing_calls(void **state) {
    (void)state;
    make_model(scratch("model"));
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        fail_calls(targets[i]);
        dir_remove(scratch("out"), NULL);
    }
}

// A killed conversion, with the same process number, has left its folder.
static void test_remains_of_a_killed_conversion(void **state) {
    (void)state;
    char name[64];
    make_model(scratch("model"));
    assert_int_equal(convert_as("hf", NULL), BERTH_OK);
    const size_t files = count_entries(scratch("out"));
    assert_int_equal(dir_remove(scratch("out"), NULL), BERTH_OK);
    snprintf(name, sizeof name, "out.%ld.0.tmp", (long)getpid());
    assert_int_equal(dir_make(scratch(name), NULL), BERTH_OK);
    char *theirs = path_join(scratch(name), "theirs");
    assert_int_equal(file_write(theirs, "kept", 4, NULL), BERTH_OK);
    memory_free(theirs);
    assert_int_equal(convert_as("hf", NULL), BERTH_OK);
    assert_int_equal(count_entries(scratch("out")), files);
    assert_int_equal(count_entries(scratch(name)), 1);
}

// Another process fills the output during the conversion.
static void fill_output(void *context, const struct berth_record *record) {
    (void)context;
    if (record->kind == BERTH_WARNING) {
        assert_int_equal(dir_make(scratch("out"), NULL), BERTH_OK);
        assert_int_equal(file_write(scratch("out/theirs"), "kept", 4, NULL), BERTH_OK);
    }
}

static void test_output_filled_meanwhile(void **state) {
    (void)state;
    struct berth_log log = {.write = fill_output};
    struct berth_error error = {0};
    make_model(scratch("model"));
    assert_int_equal(convert_with(scratch("model"), scratch("out"),
                                  SETTINGS("to", "gguf", "allow_lossy", "true"), &log, &error),
                     BERTH_CANT_CREATE);
    assert_non_null(strstr(error.message, scratch("out")));
    assert_true(file_exists(scratch("out/theirs")));
    expect_all_or_nothing(1);
}

// The name of the model in a GGUF file is text, whatever its folder is called.
static void test_names_of_models(void **state) {
    (void)state;
    static const char key[] = "general.name";
    char longest[256] = "";
    for (size_t i = 0; i < 100; i++) {
        strcat(longest, "\xC3\xA9");
    }
    const struct {
        const char *folder, *name;
        size_t length;
    } cases[] = {{"m\xC3\xB6"
                  "del",
                  "m\xC3\xB6"
                  "del",
                  6},
                 {longest, longest, 126},
                 {"mod\xE9l", "bert", 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bytes;
        size_t length;
        make_model(scratch(cases[i].folder));
        assert_int_equal(convert_with(scratch(cases[i].folder), scratch("out"),
                                      SETTINGS("to", "gguf", "allow_lossy", "true"), NULL, NULL),
                         BERTH_OK);
        assert_int_equal(file_read(scratch("out/model.gguf"), 1 << 20, &bytes, &length, NULL),
                         BERTH_OK);
        const char *at = memmem(bytes, length, key, strlen(key));
        assert_non_null(at);
        at += strlen(key) + 4; // and the type of the value
        assert_int_equal(little_endian((const unsigned char *)at, 8), cases[i].length);
        assert_memory_equal(at + 8, cases[i].name, cases[i].length);
        memory_free(bytes);
        assert_int_equal(dir_remove(scratch("out"), NULL), BERTH_OK);
    }
}

// Checks for optional files may fail for lack of memory without harm.
static void fail_memory(const char *to) {
    assert_int_equal(dir_remove(scratch("out"), NULL), BERTH_OK);
    memory_fail_at(0, 0);
    assert_int_equal(convert_as(to, NULL), BERTH_OK);
    uint64_t calls = memory_fail_at(0, 0), refused = 0;
    size_t files = count_entries(scratch("out"));
    assert_true(calls > 20);
    for (uint64_t n = 1; n <= calls; n++) {
        assert_int_equal(dir_remove(scratch("out"), NULL), BERTH_OK);
        struct berth_error error = {0};
        memory_fail_at(n, 0);
        enum berth_status status = convert_as(to, &error);
        memory_fail_at(0, 0);
        if (status != BERTH_NO_MEMORY && (status != BERTH_OK || !dir_exists(scratch("out")))) {
            fail_msg("%s: call %d of %d: %d %s", to, (int)n, (int)calls, status, error.message);
        }
        expect_all_or_nothing(files);
        refused += status != BERTH_OK;
    }
    assert_true(refused + 3 >= calls);
}

static void test_no_memory(void **state) {
    (void)state;
    make_model(scratch("model"));
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        fail_memory(targets[i]);
    }
}

// The pieces of the other tokenizers that a GGUF file may have.
static void test_no_memory_for_pieces(void **state) {
    (void)state;
    static const char start[] =
        "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", "
        "\"special\": true}, {\"id\": 1, \"content\": \"</s>\", \"special\": true}], "
        "\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"</s>\", 1], \"cls\": "
        "[\"<s>\", 0]}, ";
    static const char *const ends[] = {
        "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": "
        "true}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"<s>\": 0, \"</s>\": 1, \"a\": 2, "
        "\"b\": 3, \"ab\": 4, \"c\": 5, \"d\": 6, \"e\": 7, \"f\": 8}, \"merges\": [[\"a\", "
        "\"b\"]]}}",
        "\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": "
        "\"BAAAAAAAAAB4AA==\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": "
        "[{\"type\": \"WhitespaceSplit\"}, {\"type\": \"Metaspace\", \"replacement\": "
        "\"\xE2\x96\x81\", \"prepend_scheme\": \"always\"}]}, \"model\": {\"type\": "
        "\"Unigram\", \"unk_id\": 2, \"vocab\": [[\"<s>\", 0], [\"</s>\", 0], [\"<unk>\", 0], "
        "[\"a\", -1], [\"b\", -2], [\"c\", -3], [\"d\", -4], [\"e\", -5], [\"f\", -6]]}}"};
    make_model(scratch("model"));
    assert_int_equal(file_remove(scratch("model/vocab.txt"), NULL), BERTH_OK);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char whole[2000];
        const int length = snprintf(whole, sizeof whole, "%s%s", start, ends[i]);
        assert_in_range(length, 1, sizeof whole - 1);
        assert_int_equal(file_write(scratch("model/tokenizer.json"), whole, (size_t)length, NULL),
                         BERTH_OK);
        fail_memory("gguf");
    }
}

static void test_no_memory_to_compare(void **state) {
    (void)state;
    make_model(scratch("model"));
    const char *path = scratch("model");
    const char *const settings[] = {"a", path, "b", path, NULL};
    memory_fail_at(0, 0);
    struct berth_result *result = run_job("compare", settings);
    const uint64_t calls = memory_fail_at(0, 0);
    uint64_t refused = 0;
    const double tensors = berth_result_number(result, "tensors");
    assert_true(tensors > 20 && berth_result_number(result, "compared") == tensors);
    berth_result_free(result);
    for (uint64_t n = 1; n <= calls; n++) {
        struct berth_error error;
        memory_fail_at(n, 0);
        result = berth_job("compare", settings, NULL, &error);
        memory_fail_at(0, 0);
        assert_true(result != NULL ? berth_result_number(result, "compared") == tensors
                                   : error.status == BERTH_NO_MEMORY);
        refused += result == NULL;
        berth_result_free(result);
    }
    assert_true(refused + 3 >= calls);
}

// --- names --------------------------------------------------------------------------------------

static void write_shard(const char *name, const struct tensor_out *tensors, size_t count) {
    char *path = path_join(scratch("model"), name);
    assert_int_equal(safetensors_write(path, tensors, count, NULL, NULL), BERTH_OK);
    memory_free(path);
}

#define BODY 21 // tensors, of one layer

// The body of the model without "bert.", all zeros in F16; `left_out` is not among the tensors.
static size_t list_body(const struct safetensors *file, const char *left_out,
                        struct tensor_out *tensors) {
    static const uint16_t zeros[256];
    size_t count = 0;
    for (size_t i = 0; i < file->count; i++) {
        const struct tensor_entry *entry = &file->entries[i];
        if (strncmp(entry->name, "bert.", 5) == 0 && strstr(entry->name, ".pooler.") == NULL &&
            strcmp(entry->name, left_out) != 0) {
            tensors[count] = (struct tensor_out){.name = entry->name + strlen("bert."),
                                                 .dtype = TENSOR_F16,
                                                 .rank = entry->rank,
                                                 .data = zeros};
            memcpy(tensors[count++].shape, entry->shape, sizeof entry->shape);
        }
    }
    return count;
}

static void write_index(const struct tensor_out *tensors, size_t count, const char *name) {
    char *index = path_join(scratch("model"), "model.safetensors.index.json");
    struct buffer text = {0};
    buffer_put_text(&text, "{\"weight_map\": {");
    for (size_t i = 0; i < count; i++) {
        buffer_put_text(&text, "\"");
        buffer_put_text(&text, tensors[i].name);
        buffer_put_text(&text, "\": \"a.safetensors\", ");
    }
    buffer_put_text(&text, "\"");
    buffer_put_text(&text, name);
    buffer_put_text(&text, "\": \"b.safetensors\"}}");
    assert_int_equal(file_write(index, text.bytes, text.length, NULL), BERTH_OK);
    buffer_done(&text);
    memory_free(index);
}

// A vector of that name.
static struct tensor_out halves_of(const char *name) {
    static const uint16_t halves[HIDDEN] = {0x3C00, 0x4000};
    return (struct tensor_out){
        .name = name, .dtype = TENSOR_F16, .rank = 1, .shape = {HIDDEN}, .data = halves};
}

// A model of two files: one tensor in the second, which may stand for another.
static void make_shards(struct tensor_out other, const char *left_out) {
    static const int64_t positions[2] = {0, 1};
    char *model = memory_string(scratch("model"));
    struct safetensors file;
    struct tensor_out tensors[BODY + 1];
    assert_int_equal(dir_remove(model, NULL), BERTH_OK);
    make_model(model);
    char *weights = path_join(model, "model.safetensors");
    assert_int_equal(safetensors_open(&file, weights, NULL), BERTH_OK);
    size_t count = list_body(&file, left_out, tensors);
    tensors[count++] = (struct tensor_out){.name = "embeddings.position_ids",
                                           .dtype = TENSOR_I64,
                                           .rank = 1,
                                           .shape = {2},
                                           .data = positions};
    file_remove(weights, NULL);
    write_index(tensors, count, other.name);
    write_shard("a.safetensors", tensors, count);
    write_shard("b.safetensors", &other, 1);
    safetensors_close(&file);
    memory_free(weights);
    memory_free(model);
}

// Asserts that the converted file has `count` tensors, among them those of the three names.
static void expect_tensors(const char *const names[3], size_t count) {
    struct safetensors file;
    char *path = path_join(scratch("out"), "model.safetensors");
    assert_int_equal(dir_remove(scratch("out"), NULL), BERTH_OK);
    assert_int_equal(convert_as("hf", NULL), BERTH_OK);
    assert_int_equal(safetensors_open(&file, path, NULL), BERTH_OK);
    assert_int_equal(file.count, count);
    assert_string_equal(safetensors_metadata(&file, "format"), "pt");
    for (size_t i = 0; i < 3; i++) {
        const struct tensor_entry *entry = safetensors_find(&file, names[i]);
        assert_non_null(entry);
        assert_int_equal(entry->dtype, strstr(names[i], "ids") ? TENSOR_I64 : TENSOR_F16);
    }
    safetensors_close(&file);
    memory_free(path);
}

static void test_names(void **state) {
    (void)state;
    static const char *const kept[] = {"embeddings.position_ids", "embeddings.LayerNorm.bias",
                                       "pooler.dense.bias"};
    static const char *const translated[] = {"bert.embeddings.LayerNorm.bias",
                                             "bert.embeddings.LayerNorm.weight",
                                             "bert.embeddings.position_ids"};
    make_shards(halves_of("pooler.dense.bias"), "");
    expect_tensors(kept, BODY + 2);
    make_shards(halves_of("module.bert.embeddings.LayerNorm.gamma"),
                "bert.embeddings.LayerNorm.weight");
    expect_tensors(translated, BODY + 1);
}

static void expect_refused(const char *part) {
    struct berth_error error;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        assert_int_equal(convert_as(targets[i], &error), BERTH_BAD_DATA);
        assert_non_null(strstr(error.message, part));
        assert_false(dir_exists(scratch("out")));
    }
}

// Two names that translate to the same one are refused.
static void test_equal_names(void **state) {
    (void)state;
    make_shards(halves_of("module.bert.embeddings.LayerNorm.bias"), "");
    expect_refused("bert.embeddings.LayerNorm.bias");
}

// Nothing is written of a file without the model's body, or with a part of another shape.
static void test_without_a_body(void **state) {
    (void)state;
    make_shards(halves_of("module.bert.embeddings.LayerNorm.gamma.x"),
                "bert.embeddings.LayerNorm.weight");
    expect_refused("missing tensor \"bert.embeddings.LayerNorm.weight\" (1 in all)");
    make_shards(halves_of("ema.embeddings.LayerNorm.weight"), "bert.embeddings.LayerNorm.weight");
    expect_refused("the file has \"ema.embeddings.LayerNorm.weight\": rename its tensors");
    make_shards(halves_of("bert.embeddings.word_embeddings.weight"),
                "bert.embeddings.word_embeddings.weight");
    expect_refused("expected the shape [9, 8], found [8]");
}

static void test_integers_without_scales(void **state) {
    (void)state;
    static const signed char integers[HIDDEN * 2 * HIDDEN];
    const struct tensor_out matrix = {.name = "encoder.layer.0.output.dense.weight",
                                      .dtype = TENSOR_I8,
                                      .rank = 2,
                                      .shape = {HIDDEN, 2 * HIDDEN},
                                      .data = integers};
    make_shards(matrix, "bert.encoder.layer.0.output.dense.weight");
    expect_refused("expected \"encoder.layer.0.output.dense.weight_scale\" with 8 rows");
}

// --- there and back -----------------------------------------------------------------------------

// Tensors of heads and an old buffer, which no part of Berth's own models has.
static const struct extra {
    const char *name;
    int rank;
    int64_t shape[2];
} extras[] = {
    {"bert.pooler.dense.weight", 2, {HIDDEN, HIDDEN}},
    {"bert.pooler.dense.bias", 1, {HIDDEN}},
    {"cls.predictions.transform.dense.weight", 2, {HIDDEN, HIDDEN}},
    {"cls.predictions.transform.LayerNorm.weight", 1, {HIDDEN}},
    {"cls.predictions.bias", 1, {VOCAB}},
    {"cls.seq_relationship.weight", 2, {2, HIDDEN}},
    {"classifier.weight", 2, {3, HIDDEN}},
    {"classifier.bias", 1, {3}},
    {"bert.embeddings.position_ids", 2, {1, 16}},
};
#define EXTRAS (sizeof extras / sizeof *extras)

static void fill(void *to, enum tensor_dtype dtype, size_t count, unsigned seed) {
    float *numbers = memory_array(count, sizeof *numbers);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (float)((i * 37 + seed * 101) % 251) / 16 - 7;
    }
    if (dtype == TENSOR_F32) {
        memcpy(to, numbers, count * sizeof *numbers);
    } else {
        tensor_narrow(dtype, numbers, count, to);
    }
    memory_free(numbers);
}

// Writes model/model.safetensors again with its tensors and the extras in the type: of a BertModel
// the encoder alone, as transformers names it; qa_outputs only of a BertForQuestionAnswering.
static void retype_model(enum tensor_dtype dtype, const char *architecture) {
    const int bare = strcmp(architecture, "BertModel") == 0;
    const int answers = strcmp(architecture, "BertForQuestionAnswering") == 0;
    static const char *const metadata[] = {"format", "pt", NULL};
    static int64_t positions[16];
    static char data[1 << 16], config[1024];
    struct tensor_out tensors[80];
    struct safetensors file;
    char *path = path_join(scratch("model"), "model.safetensors");
    size_t count = 0, used = 0;
    assert_int_equal(safetensors_open(&file, path, NULL), BERTH_OK);
    for (size_t i = 0; i < file.count + EXTRAS; i++) {
        struct tensor_out *tensor = &tensors[count++];
        if (i < file.count) {
            *tensor =
                (struct tensor_out){.name = file.entries[i].name, .rank = file.entries[i].rank};
            memcpy(tensor->shape, file.entries[i].shape, sizeof tensor->shape);
        } else {
            const struct extra *extra = &extras[i - file.count];
            *tensor = (struct tensor_out){.name = extra->name, .rank = extra->rank};
            memcpy(tensor->shape, extra->shape, sizeof extra->shape);
        }
        size_t elements = 1;
        for (int k = 0; k < tensor->rank; k++) {
            elements *= (size_t)tensor->shape[k];
        }
        int is_buffer = strstr(tensor->name, "position_ids") != NULL;
        tensor->dtype = is_buffer ? TENSOR_I64 : dtype;
        tensor->data = is_buffer ? (void *)positions : data + used;
        if (!is_buffer) {
            fill(data + used, dtype, elements, (unsigned)i);
            used += elements * tensor_dtype_size(dtype);
        }
        if ((bare && strncmp(tensor->name, "bert.", 5) != 0) ||
            (!answers && strncmp(tensor->name, "qa_outputs.", 11) == 0)) {
            count--;
        } else if (bare) {
            tensor->name += 5;
        }
        assert_true(count < 80 && used < sizeof data);
    }
    for (int i = 0; i < 16; i++) {
        positions[i] = i;
    }
    assert_int_equal(safetensors_write(path, tensors, count, metadata, NULL), BERTH_OK);
    safetensors_close(&file);
    memory_free(path);
    path = path_join(scratch("model"), "config.json");
    snprintf(config, sizeof config,
             "{\"architectures\": [\"%s\"], \"vocab_size\": 9, \"hidden_size\": 8, "
             "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"intermediate_size\": 16, "
             "\"max_position_embeddings\": 16, \"type_vocab_size\": 2, \"model_type\": \"bert\", "
             "\"num_labels\": 3}",
             architecture);
    assert_int_equal(file_write(path, config, strlen(config), NULL), BERTH_OK);
    memory_free(path);
}

static void assert_same_member(const char *a, const char *b, const char *name) {
    char *paths[2] = {path_join(scratch(a), name), path_join(scratch(b), name)};
    assert_same_file(paths[0], paths[1]);
    memory_free(paths[0]);
    memory_free(paths[1]);
}

static void go_round(const char *to, const char *names) {
    struct berth_error error = {0};
    char *model = memory_string(scratch("model")), *other = memory_string(scratch("other"));
    char *home = memory_string(scratch("home"));
    const char *const *there =
        SETTINGS("to", to, "step", "7", names != NULL ? "names" : NULL, names);
    if (convert_with(model, other, there, NULL, &error) != BERTH_OK ||
        convert_with(other, home, SETTINGS("to", "hf"), NULL, &error) != BERTH_OK) {
        fail_msg("%s: %s", to, error.message);
    }
    assert_same_member("model", "home", "model.safetensors");
    assert_same_member("model", "home", "config.json");
    assert_same_member("model", "other", "vocab.txt");
    struct berth_result *result =
        run_job("compare", (const char *[]){"a", model, "b", other, NULL});
    const double tensors = berth_result_number(result, "tensors");
    assert_true(berth_result_number(result, "differing") == 0 && tensors > 20);
    assert_true(berth_result_number(result, "compared") == tensors);
    berth_result_free(result);
    assert_int_equal(dir_remove(other, NULL), BERTH_OK);
    assert_int_equal(dir_remove(home, NULL), BERTH_OK);
    memory_free(model);
    memory_free(other);
    memory_free(home);
}

// Every type through every format that can be read back: the file is reproduced byte for byte.
static void test_round_trips(void **state) {
    (void)state;
    static const enum tensor_dtype dtypes[] = {TENSOR_F32, TENSOR_F16, TENSOR_BF16};
    for (size_t i = 0; i < 2 * sizeof dtypes / sizeof *dtypes; i++) {
        make_model(scratch("model"));
        retype_model(dtypes[i / 2], i % 2 == 1 ? "BertModel" : "BertForQuestionAnswering");
        for (size_t k = 0; k < sizeof round_targets / sizeof *round_targets; k++) {
            go_round(round_targets[k], NULL);
        }
        go_round("deepspeed", "nvidia");
        go_round("deepspeed", "kernel");
        assert_int_equal(dir_remove(scratch("model"), NULL), BERTH_OK);
    }
}

// --- config.json --------------------------------------------------------------------------------

// No value is Hugging Face's default.
static const char odd_config[] =
    "{\"vocab_size\": 9, \"hidden_size\": 8, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
    "\"intermediate_size\": 16, \"max_position_embeddings\": 16, \"type_vocab_size\": 3, "
    "\"model_type\": \"bert\", \"initializer_range\": 0.03125, \"hidden_dropout_prob\": 0.25, "
    "\"attention_probs_dropout_prob\": 0.0625, \"classifier_dropout\": 0.375, "
    "\"layer_norm_eps\": 1e-06, \"hidden_act\": \"gelu_new\", \"pad_token_id\": 1, "
    "\"problem_type\": \"multi_label_classification\", "
    "\"id2label\": {\"0\": \"a\", \"1\": \"b\", \"2\": \"c\"}, "
    "\"label2id\": {\"a\": 0, \"b\": 1, \"c\": 2}, \"use_cache\": false, "
    "\"nobody_knows\": {\"this\": [1, 2]}}";

static json *read_json(const char *folder, const char *name) {
    json *object = NULL;
    char *path = path_join(scratch(folder), name);
    if (file_exists(path)) {
        assert_int_equal(json_read_file(path, &object, NULL), BERTH_OK);
    }
    memory_free(path);
    return object;
}

static int is_value(const json *a, const json *b) {
    char *text = json_write(a, JSON_COMPACT),
         *other = b != NULL ? json_write(b, JSON_COMPACT) : NULL;
    int equal = other != NULL && strcmp(text, other) == 0;
    memory_free(text);
    memory_free(other);
    return equal;
}

// All of odd_config is in the config file of `folder`, if it has one.
static int expect_odd_config(const char *folder, const char *name, const char *conversion) {
    json *expected, *found = read_json(folder, name);
    assert_int_equal(json_read_memory("", odd_config, sizeof odd_config - 1, &expected, NULL),
                     BERTH_OK);
    struct json_walk walk = {.object = expected};
    const int exists = found != NULL;
    while (exists && json_walk_next(&walk)) {
        if (!is_value(walk.value, json_member(found, walk.key))) {
            fail_msg("%s: %s has lost %s", conversion, name, walk.key);
        }
    }
    json_free(expected);
    json_free(found);
    return exists;
}

static void convert_to(const char *from, const char *folder, const char *to) {
    char *input = memory_string(scratch(from));
    assert_int_equal(
        convert_with(input, scratch(folder), SETTINGS("to", to, "allow_lossy", "true"), NULL, NULL),
        BERTH_OK);
    memory_free(input);
}

static void test_an_unknown_format(void **state) {
    (void)state;
    struct berth_error error;
    assert_int_equal(
        convert_with(scratch("model"), scratch("none"), SETTINGS("to", "nonsense"), NULL, &error),
        BERTH_USAGE);
    assert_non_null(strstr(error.message, "expected one of hf, "));
    assert_non_null(strstr(error.message, "found \"nonsense\""));
}

// From every format, with either of the two files, to every format.
static void test_configs_survive(void **state) {
    (void)state;
    static const char *const all[] = {"hf",        "torch", "tensorflow", "nvidia",
                                      "deepspeed", "onnx",  "gguf"};
    int found = 0;
    const char *file = scratch("shape.json");
    assert_int_equal(file_write(file, odd_config, sizeof odd_config - 1, NULL), BERTH_OK);
    init_model(file, scratch("model"));
    for (size_t i = 0; i < 2 * sizeof round_targets / sizeof *round_targets; i++) {
        const char *from = round_targets[i / 2];
        convert_to("model", "other", from);
        if (i % 2 == 1) { // Google's alone
            char *path = path_join(scratch("other"), "config.json");
            assert_int_equal(file_remove(path, NULL), BERTH_OK);
            memory_free(path);
            if (!file_exists(scratch("other/bert_config.json"))) {
                assert_int_equal(dir_remove(scratch("other"), NULL), BERTH_OK);
                continue;
            }
        }
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            char conversion[64];
            snprintf(conversion, sizeof conversion, "%s to %s", from, all[k]);
            convert_to("other", "home", all[k]);
            assert_true(expect_odd_config("home", "config.json", conversion));
            found += expect_odd_config("home", "bert_config.json", conversion);
            assert_int_equal(dir_remove(scratch("home"), NULL), BERTH_OK);
        }
        assert_int_equal(dir_remove(scratch("other"), NULL), BERTH_OK);
    }
    assert_int_equal(found, 3 * 8); // to three of the formats, from five and, with Google's, three
}

// --- heads --------------------------------------------------------------------------------------

static int graph_has(const char *text) {
    char *path = path_join(scratch("out"), "model.onnx"), *bytes;
    size_t length;
    assert_int_equal(dir_remove(scratch("out"), NULL), BERTH_OK);
    assert_int_equal(convert_as("onnx", NULL), BERTH_OK);
    assert_int_equal(file_read(path, 1 << 24, &bytes, &length, NULL), BERTH_OK);
    assert_non_null(memmem(bytes, length, "classifier.weight", strlen("classifier.weight")));
    const int found = memmem(bytes, length, text, strlen(text)) != NULL;
    memory_free(bytes);
    memory_free(path);
    return found;
}

// A classifier with a pooler is one of texts, unless config.json says that it is one of tokens.
static void test_tagger_with_pooler(void **state) {
    (void)state;
    static const char *const architectures[] = {"BertForTokenClassification",
                                                "BertForSequenceClassification"};
    for (int pools = 0; pools < 2; pools++) {
        make_model(scratch("model"));
        retype_model(TENSOR_F32, architectures[pools]);
        assert_int_equal(graph_has("bert.pooler.dense.weight"), pools);
        assert_int_equal(dir_remove(scratch("model"), NULL), BERTH_OK);
    }
}

// --- padding ------------------------------------------------------------------------------------

// NVIDIA's and DeepSpeed's models have a multiple of 8 rows for their words; those after the last
// word are zero.
static void test_padding_rows(void **state) {
    (void)state;
    static const char *const targets_with_names[] = {"nvidia", "deepspeed"};
    make_model(scratch("model"));
    retype_model(TENSOR_F32, "BertForQuestionAnswering");
    for (size_t i = 0; i < 2; i++) {
        struct tensor_file file;
        char *path;
        float words[16 * HIDDEN], bias[16];
        assert_int_equal(convert_with(scratch("model"), scratch("out"),
                                      SETTINGS("to", targets_with_names[i], "names", "nvidia"),
                                      NULL, NULL),
                         BERTH_OK);
        assert_int_equal(tensor_file_find_in(scratch("out"), &path, NULL), BERTH_OK);
        assert_int_equal(tensor_file_open(&file, path, NULL), BERTH_OK);
        const char *key = i == 0 ? "model." : "module.";
        char name[96];
        snprintf(name, sizeof name, "%sbert.embeddings.word_embeddings.weight", key);
        const struct tensor_entry *entry = tensor_file_find(&file, name);
        assert_int_equal(entry->shape[0], 16);
        assert_int_equal(tensor_file_read(&file, entry, words, NULL), BERTH_OK);
        snprintf(name, sizeof name, "%scls.predictions.bias", key);
        assert_int_equal(tensor_file_find(&file, name)->shape[0], 16);
        assert_int_equal(tensor_file_read(&file, tensor_file_find(&file, name), bias, NULL),
                         BERTH_OK);
        for (size_t k = VOCAB * HIDDEN; k < 16 * HIDDEN; k++) {
            assert_true(words[k] == 0 && bias[k / HIDDEN] == 0);
        }
        tensor_file_close(&file);
        memory_free(path);
        assert_int_equal(dir_remove(scratch("out"), NULL), BERTH_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_round_trips),
        SCRATCH_TEST(test_tagger_with_pooler),
        SCRATCH_TEST(test_an_unknown_format),
        SCRATCH_TEST(test_configs_survive),
        SCRATCH_TEST(test_padding_rows),
        SCRATCH_TEST(test_names),
        SCRATCH_TEST(test_names_of_models),
        SCRATCH_TEST(test_equal_names),
        SCRATCH_TEST(test_without_a_body),
        SCRATCH_TEST(test_integers_without_scales),
        SCRATCH_TEST(test_failing_calls),
        SCRATCH_TEST(test_no_memory),
        SCRATCH_TEST(test_no_memory_for_pieces),
        SCRATCH_TEST(test_no_memory_to_compare),
        SCRATCH_TEST(test_output_filled_meanwhile),
        SCRATCH_TEST(test_remains_of_a_killed_conversion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
