// SPDX-License-Identifier: Apache-2.0
// Tests words for [MASK] against the fill-mask pipeline of transformers (tests/golden/fill,
// dev/goldens/fill.py), in fp32: scores, tokens and decoded texts, of one text or of several at
// once; whole distributions; what is refused.
#include "core/memory.h"
#include "core/options.h"
#include "core/scratch.h"
#include "format/json/json.h"
#include "model/folder.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#define FOLDER BERTH_TEST_SOURCE_DIR "/tests/golden/fill"

enum { TEXTS = 6, TOP_K = 4, WORDS = 37, PADDED = 40 };

static struct berth_filler *open_filler_of(const char *folder, int64_t length) {
    struct berth_config config;
    struct berth_filler *filler;
    struct berth_error error = {0};
    berth_config_init(&config);
    config.model_name_or_path = folder;
    config.vocab_file = FOLDER "/vocab.txt";
    config.device = "cpu";
    config.threads = 2;
    if (length > 0) {
        config.max_seq_length = length;
    }
    if (berth_filler_open(&config, (struct berth_log){0}, &filler, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return filler;
}

static size_t own_threads(void) {
    char **names;
    size_t count = 0;
    assert_int_equal(dir_list("/proc/self/task", &names, NULL), BERTH_OK);
    while (names[count] != NULL) {
        count++;
    }
    memory_free(names);
    return count;
}

// The first test: OpenMP's threads stay. Its default is not the number of threads to use.
static void starts_no_other_threads(void **state) {
    (void)state;
    struct berth_config config;
    struct berth_filler *filler;
    struct berth_filled filled;
    const char *const text = "the [MASK]";
    const size_t before = own_threads();
    berth_config_init(&config);
    config.model_name_or_path = FOLDER;
    config.device = "cpu";
    config.threads = 1;
    omp_set_num_threads(4);
    assert_int_equal(berth_filler_open(&config, (struct berth_log){0}, &filler, NULL), BERTH_OK);
    assert_int_equal(berth_fill(filler, &text, 1, 1, &filled, NULL), BERTH_OK);
    berth_filled_free(&filled, 1);
    berth_filler_close(filler);
    omp_set_num_threads(1);
    assert_int_equal(own_threads(), before);
}

static struct berth_filler *open_filler(int64_t length) {
    return open_filler_of(FOLDER, length);
}

static void fill(const struct berth_filler *filler, const char *const *texts, size_t count,
                 size_t top_k, struct berth_filled *filled) {
    struct berth_error error = {0};
    if (berth_fill(filler, texts, count, top_k, filled, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
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

static void compare_word(const struct berth_word *word, const json *expected) {
    const double apart = fabs(word->score - json_as_real(json_member(expected, "score")));
    largest = apart > largest ? apart : largest;
    assert_true(apart < 2e-6);
    assert_int_equal(word->token, json_as_integer(json_member(expected, "token")));
    assert_string_equal(word->token_str, json_text(json_member(expected, "token_str")));
    assert_string_equal(word->sequence, json_text(json_member(expected, "sequence")));
}

static void compare_text(const struct berth_filled *filled, const json *found) {
    const int has_one = !json_is_array_value(json_at(found, 0));
    assert_int_equal(filled->masks, has_one ? 1 : json_length(found));
    assert_int_equal(filled->top_k, TOP_K);
    for (size_t mask = 0; mask < filled->masks; mask++) {
        const json *words = has_one ? found : json_at(found, mask);
        for (size_t i = 0; i < TOP_K; i++) {
            compare_word(&filled->words[mask * TOP_K + i], json_at(words, i));
        }
    }
}

static void equals_the_pipeline(void **state) {
    (void)state;
    struct berth_filler *filler = open_filler(0);
    const char *texts[TEXTS];
    struct berth_filled filled[TEXTS], alone;
    assert_int_equal(json_length(golden), TEXTS);
    for (size_t i = 0; i < TEXTS; i++) {
        texts[i] = json_text(json_member(json_at(golden, i), "text"));
    }
    fill(filler, texts, TEXTS, TOP_K, filled);
    for (size_t i = 0; i < TEXTS; i++) {
        const json *found = json_member(json_at(golden, i), "found");
        compare_text(&filled[i], found);
        fill(filler, &texts[i], 1, TOP_K, &alone);
        compare_text(&alone, found);
        berth_filled_free(&alone, 1);
    }
    print_message("scores apart by %.1e\n", largest);
    berth_filled_free(filled, TEXTS);
    berth_filler_close(filler);
}

// More masks than a batch or a segment of the decoder holds; every other text is the same.
static void many_texts(void **state) {
    (void)state;
    enum { MANY = 400 };
    static const char *texts[MANY];
    static struct berth_filled filled[MANY];
    struct berth_filler *filler = open_filler(0);
    for (size_t i = 0; i < MANY; i++) {
        texts[i] = i % 2 == 0 ? "[MASK] [MASK] [MASK] the dog" : "the zebra is [MASK]";
    }
    fill(filler, texts, MANY, WORDS, filled);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(filled[i].masks, i % 2 == 0 ? 3 : 1);
        double sum = 0;
        for (size_t word = 0; word < WORDS; word++) {
            const struct berth_word *own = &filled[i].words[word];
            const struct berth_word *first = &filled[i % 2].words[word];
            sum += own->score;
            assert_int_equal(own->token, first->token);
            assert_true(fabs(own->score - first->score) < 1e-6);
            assert_true(word == 0 || own->score <= own[-1].score);
        }
        assert_true(fabs(sum - 1) < 1e-5);
    }
    berth_filled_free(filled, MANY);
    berth_filler_close(filler);
}

static void refuse(const struct berth_filler *filler, const char *text, size_t top_k,
                   enum berth_status status, const char *words) {
    const char *texts[] = {"[MASK]", text};
    struct berth_filled filled[2];
    struct berth_error error;
    assert_int_equal(berth_fill(filler, texts, 2, top_k, filled, &error), status);
    if (strstr(error.message, words) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", words, error.message);
    }
}

// A text that fails has its own error, and the others their words.
static void one_fails_of_many(void **state) {
    (void)state;
    enum { COUNT = 4 };
    static const char *const texts[COUNT] = {"the dog", "the zebra is [MASK]", NULL, "[MASK] dog"};
    static const enum berth_status expected[COUNT] = {BERTH_BAD_DATA, BERTH_OK, BERTH_USAGE,
                                                      BERTH_OK};
    struct berth_filler *filler = open_filler(8);
    struct berth_filled filled[COUNT], alone;
    struct berth_text_status statuses[COUNT];
    assert_int_equal(berth_fill_many(filler, texts, COUNT, 2, filled, statuses, NULL), BERTH_OK);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(statuses[i].error.status, expected[i]);
        assert_int_equal(filled[i].masks, expected[i] == BERTH_OK);
    }
    assert_int_equal(statuses[3].tokens, 4);
    fill(filler, &texts[3], 1, 2, &alone);
    assert_int_equal(alone.words[0].token, filled[3].words[0].token);
    assert_string_equal(alone.words[1].sequence, filled[3].words[1].sequence);
    berth_filled_free(&alone, 1);
    berth_filled_free(filled, COUNT);
    // Only texts that fail.
    assert_int_equal(berth_fill_many(filler, &texts[2], 1, 2, filled, statuses, NULL), BERTH_OK);
    assert_int_equal(statuses[0].error.status, BERTH_USAGE);
    assert_int_equal(berth_filler_max_length(filler), 8);
    berth_filler_close(filler);
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
    static const char *const texts[1] = {"the [MASK]"};
    struct berth_filled filled;
    write_padded_model();
    struct berth_filler *filler = open_filler_of(scratch_folder, 8);
    fill(filler, texts, 1, TOP_K, &filled);
    for (size_t i = 0; i < TOP_K; i++) {
        const struct berth_word *word = &filled.words[i];
        assert_int_equal(word->token >= WORDS, i < PADDED - WORDS);
        assert_non_null(word->token_str);
        assert_int_equal(word->token_str[0] == '\0', word->token >= WORDS);
    }
    berth_filled_free(&filled, 1);
    berth_filler_close(filler);
}

static void refusals(void **state) {
    (void)state;
    static const char long_text[] =
        "a 10 20 30 40 50 60 70 80 90 100 110 120 130 140 150 160 17\u00e4ther";
    struct berth_filler *filler = open_filler(8);
    refuse(filler, long_text, 1, BERTH_BAD_DATA, "150 160 17...\"");
    refuse(filler, "the dog", 1, BERTH_BAD_DATA, "text 2: no [MASK] in \"the dog\"");
    refuse(filler, "the the the the the the [MASK]", 1, BERTH_BAD_DATA,
           "text 2: no [MASK] in the first max_seq_length tokens");
    refuse(filler, NULL, 1, BERTH_USAGE, "text 2 of 2 is NULL");
    refuse(filler, "[MASK]", 0, BERTH_USAGE, "top_k: expected 1 to 37, found 0");
    refuse(filler, "[MASK]", WORDS + 1, BERTH_USAGE, "found 38");
    assert_int_equal(berth_fill(filler, NULL, 0, 1, NULL, NULL), BERTH_OK);
    berth_filler_close(filler);
    berth_filler_close(NULL);
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
