// SPDX-License-Identifier: Apache-2.0
// Tests words for [MASK] against the fill-mask pipeline of transformers (tests/golden/fill,
// dev/goldens/fill.py), in fp32: scores, tokens and decoded texts, of one text or of several at
// once; whole distributions; what is refused.
#include "api/opened.h"
#include "core/memory.h"
#include "core/options.h"
#include "core/scratch.h"
#include "format/json/json.h"
#include "model/folder.h"

#include <omp.h>
#include <stdio.h>

#define FOLDER BERTH_TEST_SOURCE_DIR "/tests/golden/fill"

enum { TEXTS = 6, TOP_K = 4, WORDS = 37, PADDED = 40 };

static struct berth_model *open_filler_of(const char *folder, const char *length) {
    return open_model(folder, SETTINGS("vocab_file", FOLDER "/vocab.txt", "device", "cpu",
                                       "threads", "2", "max_seq_length", length));
}

static struct berth_model *open_filler(const char *length) {
    return open_filler_of(FOLDER, length);
}

static size_t own_threads(void) {
    return count_entries("/proc/self/task");
}

// The first test: OpenMP's threads stay. Its default is not the number of threads to use.
static void starts_no_other_threads(void **state) {
    (void)state;
    const size_t before = own_threads();
    omp_set_num_threads(4);
    struct berth_model *model = open_model(FOLDER, SETTINGS("device", "cpu", "threads", "1"));
    berth_result_free(run_one(model, "fill", "the [MASK]", NULL, NULL));
    berth_close(model);
    omp_set_num_threads(1);
    assert_int_equal(own_threads(), before);
}

static json *golden;

static int open_golden(void **state) {
    (void)state;
    return json_read_file(FOLDER "/fill.json", &golden, NULL) != BERTH_OK;
}

static int close_golden(void **state) {
    (void)state;
    json_free(golden);
    return 0;
}

static double largest;

static void compare_word(const struct berth_item *word, const json *expected) {
    const double apart = fabs(word->score - json_as_real(json_member(expected, "score")));
    largest = apart > largest ? apart : largest;
    assert_true(apart < 2e-6);
    assert_int_equal(word->id, json_as_integer(json_member(expected, "token")));
    assert_string_equal(word->text, json_text(json_member(expected, "token_str")));
}

// The JSON of a text is the pipeline's: its words, and the text with each of them.
static void compare_json(struct berth_result *result, size_t input, const json *found) {
    const char *text = berth_result_text(result, input);
    const int has_one = !json_is_array_value(json_at(found, 0));
    json *own;
    assert_non_null(text);
    assert_int_equal(json_read_memory("the result", text, strlen(text), &own, NULL), BERTH_OK);
    assert_int_equal(json_length(own),
                     json_length(found) < TOP_K && has_one ? 0 : json_length(own));
    for (size_t i = 0; i < json_length(own); i++) {
        for (size_t k = 0; k < (has_one ? 1 : TOP_K); k++) {
            const json *word = has_one ? json_at(own, i) : json_at(json_at(own, i), k);
            const json *right = has_one ? json_at(found, i) : json_at(json_at(found, i), k);
            assert_string_equal(json_text(json_member(word, "sequence")),
                                json_text(json_member(right, "sequence")));
            assert_string_equal(json_text(json_member(word, "token_str")),
                                json_text(json_member(right, "token_str")));
            assert_int_equal(json_as_integer(json_member(word, "token")),
                             json_as_integer(json_member(right, "token")));
        }
    }
    json_free(own);
}

static void compare_text(struct berth_result *result, size_t input, const json *found) {
    const int has_one = !json_is_array_value(json_at(found, 0));
    const size_t masks = has_one ? 1 : json_length(found);
    size_t count;
    const struct berth_item *items = berth_result_items(result, input, &count);
    assert_int_equal(count, masks * TOP_K);
    for (size_t mask = 0; mask < masks; mask++) {
        const json *words = has_one ? found : json_at(found, mask);
        for (size_t i = 0; i < TOP_K; i++) {
            const struct berth_item *word = &items[mask * TOP_K + i];
            assert_int_equal(word->group, mask);
            compare_word(word, json_at(words, i));
        }
    }
    compare_json(result, input, found);
}

static void equals_the_pipeline(void **state) {
    (void)state;
    struct berth_model *model = open_filler("24");
    struct berth_text texts[TEXTS] = {{.text = NULL}};
    assert_int_equal(json_length(golden), TEXTS);
    for (size_t i = 0; i < TEXTS; i++) {
        texts[i].text = json_text(json_member(json_at(golden, i), "text"));
    }
    struct berth_result *together = run_all(model, "fill", texts, TEXTS, SETTINGS("top", "4"));
    for (size_t i = 0; i < TEXTS; i++) {
        const json *found = json_member(json_at(golden, i), "found");
        compare_text(together, i, found);
        struct berth_result *alone = run_all(model, "fill", &texts[i], 1, SETTINGS("top", "4"));
        compare_text(alone, 0, found);
        assert_true(same_found(together, i, alone, 0));
        berth_result_free(alone);
    }
    print_message("scores apart by %.1e\n", largest);
    berth_result_free(together);
    berth_close(model);
}

// More masks than a batch or a segment of the decoder holds; every other text is the same.
static void many_texts(void **state) {
    (void)state;
    enum { MANY = 400 };
    static struct berth_text texts[MANY];
    struct berth_model *model = open_filler("24");
    for (size_t i = 0; i < MANY; i++) {
        texts[i].text = i % 2 == 0 ? "[MASK] [MASK] [MASK] the dog" : "the zebra is [MASK]";
    }
    struct berth_result *result = run_all(model, "fill", texts, MANY, SETTINGS("top", "37"));
    for (size_t i = 0; i < MANY; i++) {
        size_t count;
        const struct berth_item *own = berth_result_items(result, i, &count);
        double sum = 0;
        assert_int_equal(count, (i % 2 == 0 ? 3 : 1) * WORDS);
        assert_true(same_found(result, i, result, i % 2));
        for (size_t word = 0; word < WORDS; word++) {
            sum += own[word].score;
            assert_true(word == 0 || own[word].score <= own[word - 1].score);
        }
        assert_true(fabs(sum - 1) < 1e-5);
    }
    berth_result_free(result);
    berth_close(model);
}

// The second of two texts is refused.
static void refuse(const struct berth_model *model, const char *text, const char *top,
                   enum berth_status status, const char *words) {
    const struct berth_text texts[] = {{.text = "[MASK]"}, {.text = text}};
    struct berth_error error;
    struct berth_result *result =
        berth_run(model, "fill", texts, 2, SETTINGS("top", top), NULL, &error);
    expect_refusal(&error, status, words);
    berth_result_free(result);
}

// A text that fails has its own error, and the others their words.
static void one_fails_of_many(void **state) {
    (void)state;
    enum { COUNT = 4 };
    static const struct berth_text texts[COUNT] = {{.text = "the dog"},
                                                   {.text = "the zebra is [MASK]"},
                                                   {.text = NULL},
                                                   {.text = "[MASK] dog"}};
    static const enum berth_status expected[COUNT] = {BERTH_BAD_DATA, BERTH_OK, BERTH_USAGE,
                                                      BERTH_OK};
    struct berth_model *model = open_filler("8");
    struct berth_error error;
    struct berth_result *result =
        berth_run(model, "fill", texts, COUNT, SETTINGS("top", "2"), NULL, &error);
    assert_int_equal(error.status, BERTH_BAD_DATA);
    assert_int_equal(error.input, 0);
    for (size_t i = 0; i < COUNT; i++) {
        size_t count;
        (void)berth_result_items(result, i, &count);
        assert_int_equal(berth_result_outcome(result, i)->status, expected[i]);
        assert_int_equal(count, expected[i] == BERTH_OK ? 2 : 0);
    }
    assert_int_equal(berth_result_outcome(result, 3)->tokens, 4);
    struct berth_result *alone = run_all(model, "fill", &texts[3], 1, SETTINGS("top", "2"));
    assert_true(same_found(result, 3, alone, 0));
    assert_string_equal(berth_result_text(result, 3), berth_result_text(alone, 0));
    berth_result_free(alone);
    berth_result_free(result);
    assert_true(berth_model_number(model, "max_length") == 8);
    berth_close(model);
}

// A model with more rows than the vocabulary has pieces, which it prefers to all words.
static void write_padded_model(void) {
    struct bert_config config;
    struct param_table table;
    assert_int_equal(bert_config_read(FOLDER "/config.json", &config, NULL), BERTH_OK);
    config.vocab_size = PADDED;
    assert_int_equal(param_table_init(&table, &config, PARAM_HEAD_MASKED, NULL), BERTH_OK);
    float *buffer = memory_array_zeroed((size_t)table.total, sizeof *buffer);
    assert_non_null(buffer);
    param_initialise(&table, &config, 1, buffer, 1);
    for (int64_t row = WORDS; row < PADDED; row++) {
        buffer[table.decoder_bias + row] = 100;
    }
    assert_int_equal(folder_write_weights(scratch_folder, &config, &table, buffer, NULL), BERTH_OK);
    memory_free(buffer);
    param_table_done(&table);
    bert_config_done(&config);
}

// transformers decodes such a row to "", too.
static void a_row_without_a_piece_is_an_empty_word(void **state) {
    (void)state;
    write_padded_model();
    struct berth_model *model = open_filler_of(scratch_folder, "8");
    struct berth_result *result = run_one(model, "fill", "the [MASK]", NULL, SETTINGS("top", "4"));
    size_t count;
    const struct berth_item *words = berth_result_items(result, 0, &count);
    assert_int_equal(count, TOP_K);
    for (size_t i = 0; i < TOP_K; i++) {
        assert_int_equal(words[i].id >= WORDS, i < PADDED - WORDS);
        assert_int_equal(words[i].text[0] == '\0', words[i].id >= WORDS);
    }
    berth_result_free(result);
    berth_close(model);
}

static void refusals(void **state) {
    (void)state;
    static const char long_text[] =
        "a 10 20 30 40 50 60 70 80 90 100 110 120 130 140 150 160 17\u00e4ther";
    struct berth_model *model = open_filler("8");
    refuse(model, long_text, "1", BERTH_BAD_DATA, "150 160 17...\"");
    refuse(model, "the dog", "1", BERTH_BAD_DATA, "text 2: no [MASK] in \"the dog\"");
    refuse(model, "the the the the the the [MASK]", "1", BERTH_BAD_DATA,
           "text 2: no [MASK] in the first max_seq_length tokens");
    refuse(model, NULL, "1", BERTH_USAGE, "text 2: the text is NULL");
    refuse(model, "[MASK]", "0", BERTH_USAGE, "top: expected a whole number of at least 1, found");
    refuse(model, "[MASK]", "38", BERTH_USAGE, "expected 1 to 37, found 38");
    berth_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_no_other_threads),
        cmocka_unit_test(equals_the_pipeline),
        cmocka_unit_test(many_texts),
        cmocka_unit_test(one_fails_of_many),
        SCRATCH_TEST(a_row_without_a_piece_is_an_empty_word),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests_name("fill", tests, open_golden, close_golden);
}
