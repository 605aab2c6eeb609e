// SPDX-License-Identifier: Apache-2.0
// Tests answers from random logits against a Python implementation of Google's rules: the three
// files byte for byte on a small set, probabilities to the last digits, checksums on real ones, and
// each branch that chooses a text. The search of all spans must find what Google's rules find when
// every row is among the best.
#include "core/harness.h"
#include "core/memory.h"
#include "data/squad_fixture.h"
#include "metrics/squad_answers.h"
#include "metrics/squad_text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float *draw_logits(const struct squad_feature_set *set) {
    struct fixture_draws draws = {1};
    float *logits = memory_array(set->token_count * 2 + 1, sizeof *logits);
    for (size_t i = 0; i < set->token_count * 2; i++) {
        logits[i] = fixture_logit(&draws);
    }
    return logits;
}

static struct squad_result *answer_all(const struct squad_dataset *dataset,
                                       const struct squad_feature_set *set,
                                       const struct tokenizer *tokenizer,
                                       const struct squad_answer_options *options, int threads) {
    struct berth_error error = {0};
    struct squad_result *results = NULL;
    float *logits = draw_logits(set);
    const struct squad_outcome outcome = {.dataset = dataset,
                                          .set = set,
                                          .logits = logits,
                                          .tokenizer = tokenizer,
                                          .options = options};
    if (squad_answer_all(&outcome, threads, &results, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    memory_free(logits);
    return results;
}

static void expect_same_file(const char *golden_folder, const char *name) {
    char golden_path[128];
    snprintf(golden_path, sizeof golden_path, "%s/%s", golden_folder, name);
    assert_same_file(scratch(name), fixture_source(golden_path));
}

// The same text, but for the last digits of numbers: Python's exponential is its C library's.
static void expect_same_numbers(const char *golden_folder, const char *name) {
    char golden_path[128];
    snprintf(golden_path, sizeof golden_path, "%s/%s", golden_folder, name);
    char *own, *golden;
    size_t length;
    assert_int_equal(file_read(scratch(name), 1 << 20, &own, &length, NULL), BERTH_OK);
    assert_int_equal(file_read(fixture_source(golden_path), 1 << 20, &golden, &length, NULL),
                     BERTH_OK);
    char *a = own, *b = golden;
    while (*a != '\0' && *b != '\0') {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            const double x = strtod(a, &a), y = strtod(b, &b);
            assert_true(fabs(x - y) <= 4e-15 * fabs(y));
        } else {
            assert_int_equal(*a++, *b++);
        }
    }
    assert_int_equal(*a, *b);
    memory_free(own);
    memory_free(golden);
}

static void writes_the_same_files_as_python(const char *name, int version_2) {
    static const int64_t lengths[3] = {48, 16, 12};
    char set_path[64], golden[64];
    struct berth_error error = {0};
    snprintf(set_path, sizeof set_path, "tests/data/squad/%s.json", name);
    snprintf(golden, sizeof golden, "tests/metrics/answers/%s", name);
    struct tokenizer *tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    struct squad_dataset dataset = fixture_dataset(fixture_source(set_path));
    struct squad_feature_set set = fixture_features(&dataset, tokenizer, 0, lengths, 1);
    struct squad_answer_options options = {5, 8, version_2, 0.0, 0, 0, 0};
    struct squad_result *results = answer_all(&dataset, &set, tokenizer, &options, 2);
    assert_int_equal(squad_answers_write(scratch_folder, &dataset, results, &options, &error),
                     BERTH_OK);
    expect_same_file(golden, "predictions.json");
    expect_same_numbers(golden, "nbest_predictions.json");
    if (version_2) {
        expect_same_file(golden, "null_odds.json");
    }
    assert_int_equal(scratch_count(), version_2 ? 3 : 2);
    squad_results_free(results, dataset.count);
    squad_feature_set_done(&set);
    squad_dataset_done(&dataset);
    tokenizer_close(tokenizer);
}

static void writes_version_1(void **state) {
    writes_the_same_files_as_python("v1", 0);
}

static void writes_version_2(void **state) {
    writes_the_same_files_as_python("v2", 1);
}

// --- real data ----------------------------------------------------------------------------------

static uint32_t checksum_of(uint32_t crc, const char *id, const struct squad_result *result) {
    crc = fixture_crc(crc, id, strlen(id) + 1);
    crc = fixture_crc(crc, result->prediction, strlen(result->prediction) + 1);
    crc = fixture_crc(crc, &result->null_odds, sizeof result->null_odds);
    for (size_t i = 0; i < result->count; i++) {
        const struct squad_candidate *candidate = &result->candidates[i];
        crc = fixture_crc(crc, candidate->text, strlen(candidate->text));
        crc = fixture_crc(crc, &candidate->start_logit, sizeof(float));
        crc = fixture_crc(crc, &candidate->end_logit, sizeof(float));
    }
    return crc;
}

static void check_candidates(const struct squad_example *example,
                             const struct squad_result *result) {
    double total = 0.0;
    for (size_t i = 0; i < result->count; i++) {
        const struct squad_candidate *candidate = &result->candidates[i];
        total += candidate->probability;
        if (candidate->begin < 0) {
            assert_true(*candidate->text == '\0' || strcmp(candidate->text, "empty") == 0);
            continue;
        }
        // The characters [begin, end) of the context must equal the text, except for white space.
        int64_t characters = 0;
        const char *at = example->context, *text = candidate->text;
        for (; characters < candidate->begin; characters++) {
            while ((*++at & 0xC0) == 0x80) {
            }
        }
        assert_memory_equal(at, text, strcspn(text, " "));
        while (characters < candidate->end) {
            while ((*++at & 0xC0) == 0x80) {
            }
            characters++;
        }
        size_t last = strlen(strrchr(text, ' ') == NULL ? text : strrchr(text, ' ') + 1);
        assert_memory_equal(at - last, text + strlen(text) - last, last);
    }
    assert_true(fabs(total - 1.0) < 1e-12);
}

static void check_real(const char *key, struct tokenizer *tokenizer) {
    static const int64_t lengths[3] = {384, 128, 64};
    json *golden = fixture_json(fixture_source("tests/metrics/real.golden.json"));
    struct json_walk walk = {.object = golden};
    assert_int_equal(json_length(golden), 2);
    while (json_walk_next(&walk)) {
        char path[64];
        snprintf(path, sizeof path, "squad/%s.json", walk.key);
        struct squad_dataset dataset = fixture_dataset(data_path(path));
        struct squad_feature_set set = fixture_features(&dataset, tokenizer, 0, lengths, 2);
        struct squad_answer_options options = {20, 30, dataset.version_2, 0.0, 0, 0, 0};
        struct squad_result *results = answer_all(&dataset, &set, tokenizer, &options, 3);
        uint32_t crc = 0;
        for (size_t i = 0; i < dataset.count; i++) {
            crc = checksum_of(crc, dataset.examples[i].id, &results[i]);
            check_candidates(&dataset.examples[i], &results[i]);
        }
        assert_int_equal(crc, json_as_integer(json_member(walk.value, key)));
        squad_results_free(results, dataset.count);
        squad_feature_set_done(&set);
        squad_dataset_done(&dataset);
    }
    tokenizer_close(tokenizer);
    json_free(golden);
}

static struct tokenizer *open_google(const char *vocab_path) {
    const struct tokenizer_options options = {.rules = TOKENIZER_GOOGLE, .lower_case = 1};
    struct tokenizer *tokenizer = NULL;
    assert_int_equal(tokenizer_open(vocab_path, &options, &tokenizer, NULL), BERTH_OK);
    return tokenizer;
}

// Both rules for the tokens of these files make the same tokens; the texts differ where Google's
// program gives up.
static void equals_python_on_real_data(void **state) {
    if (!fixture_has_data()) {
        skip();
    }
    check_real("answers", fixture_tokenizer(data_path("vocab/bert-base-uncased-vocab.txt")));
    check_real("google", open_google(data_path("vocab/bert-base-uncased-vocab.txt")));
}

// --- single rules -------------------------------------------------------------------------------

static void align(const char *predicted, const char *original, const char *expected) {
    struct tokenizer *tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    struct squad_text_range part;
    assert_int_equal(
        squad_text_align(tokenizer, predicted, original, strlen(original), &part, NULL), BERTH_OK);
    char *found = memory_string_of(original + part.begin, part.end - part.begin);
    assert_string_equal(found, expected);
    memory_free(found);
    tokenizer_close(tokenizer);
}

static void aligns_to_the_original_words(void **state) {
    align("steve smith", "Steve Smith's", "Steve Smith");
    align("koln", "(K\xC3\xB6ln)", "K\xC3\xB6ln");
    align("3 . 6", "$3.5m", "$3.5m"); // missing
    align("$ 3", "$3.5m", "$3");
    align("3 . 5", "$3.5m", "3.5");
    align("", "Smith's", "Smith's");         // nothing to look for
    align(" smith", "Mr Smith", "Mr Smith"); // begins with a space
    align("smith ", "Smith 's", "Smith 's"); // ends with a blank
    align("a",
          "b\xE2\x80\x8B"
          "a",
          "b\xE2\x80\x8B"
          "a"); // cleaning drops a character: counts differ
}

struct question {
    struct squad_dataset dataset;
    struct squad_feature_set set;
    struct tokenizer *tokenizer;
    float *logits;
    struct squad_answer_options options;
    struct squad_result result;
};

// One window: [CLS] when [SEP] old stone bridge [SEP]; "when" has four pieces.
enum { OLD = 6, STONE, BRIDGE };

static void ask_about(const char *context, struct tokenizer *tokenizer, struct question *question) {
    static const int64_t lengths[3] = {64, 16, 16};
    char text[256];
    snprintf(text, sizeof text, "[{\"id\":\"q\",\"question\":\"when\",\"context\":\"%s\"}]",
             context);
    *question = (struct question){.options = {20, 30, 0, 0.0, 0, 0, 0}};
    question->tokenizer = tokenizer;
    question->dataset = fixture_dataset_of(text);
    question->set = fixture_features(&question->dataset, question->tokenizer, 0, lengths, 1);
    assert_int_equal(question->set.count, 1);
    assert_int_equal(question->set.features[0].document_begin, OLD);
    question->logits = memory_array_zeroed(question->set.token_count * 2, sizeof(float));
    for (size_t i = 0; i < question->set.token_count * 2; i++) {
        question->logits[i] = -10.0f;
    }
}

static void ask(struct question *question, int version_2) {
    ask_about(" Old stone\\n Bridge.",
              fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt")), question);
    question->options.version_2_with_negative = version_2;
}

static enum berth_status answer(struct question *question, struct berth_error *error) {
    squad_result_done(&question->result);
    const struct squad_outcome outcome = {.dataset = &question->dataset,
                                          .set = &question->set,
                                          .logits = question->logits,
                                          .tokenizer = question->tokenizer,
                                          .options = &question->options};
    return squad_answer_question(&outcome, 0, question->set.count, &question->result, error);
}

static void done(struct question *question) {
    squad_result_done(&question->result);
    memory_free(question->logits);
    squad_feature_set_done(&question->set);
    squad_dataset_done(&question->dataset);
    tokenizer_close(question->tokenizer);
}

static void gives_text_and_offsets(void **state) {
    struct question question;
    ask(&question, 0);
    question.logits[2 * STONE] = 3.0f;
    question.logits[2 * BRIDGE + 1] = 2.0f;
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_string_equal(question.result.prediction, "stone Bridge");
    assert_int_equal(question.result.candidates[0].begin, 5);
    assert_int_equal(question.result.candidates[0].end, 18);
    assert_true(question.result.candidates[0].start_logit == 3.0f);
    done(&question);
}

// Texts without blanks are a single word. The tokenizer drops U+200B; the vocabulary lacks \u6c34.
#define EAST "\xE6\x9D\xB1"
#define CAPITAL "\xE4\xBA\xAC"
#define WATER "\xE6\xB0\xB4"
#define NO_WIDTH "\xE2\x80\x8B"

static void cuts_words_at_tokens(void **state) {
    static const struct {
        const char *context;
        int first, last; // tokens
        const char *text;
        int64_t begin, end;
        int google;
    } cases[] = {
        {EAST CAPITAL NO_WIDTH EAST CAPITAL, 3, 3, CAPITAL, 4, 5, 0},
        {EAST CAPITAL NO_WIDTH EAST CAPITAL, 1, 2, CAPITAL NO_WIDTH EAST, 1, 4, 0},
        {EAST CAPITAL NO_WIDTH EAST CAPITAL, 3, 3, EAST CAPITAL NO_WIDTH EAST CAPITAL, 0, 5, 1},
        {EAST WATER CAPITAL, 1, 2, WATER CAPITAL, 1, 3, 0},
        {EAST WATER CAPITAL, 1, 2, EAST WATER CAPITAL, 0, 3, 1},
        {NO_WIDTH EAST CAPITAL NO_WIDTH, 0, 1, NO_WIDTH EAST CAPITAL NO_WIDTH, 0, 4, 0},
        {NO_WIDTH EAST CAPITAL NO_WIDTH, 0, 0, NO_WIDTH EAST, 0, 2, 0},
        {EAST CAPITAL NO_WIDTH "\\n " CAPITAL EAST, 1, 2, CAPITAL NO_WIDTH " " CAPITAL, 1, 6, 0},
        {EAST CAPITAL EAST, 2, 2, EAST, 2, 3, 0},
        {EAST CAPITAL EAST, 2, 2, EAST, 0, 1, 1},
        {"a-A", 2, 2, "A", 2, 3, 0},
        {"a-A", 2, 2, "a", 0, 1, 1},
        {"\u00e9" EAST, 0, 0, "\u00e9", 0, 1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct question question;
        const char *vocab = fixture_source("tests/data/squad/vocab.txt");
        ask_about(cases[i].context, cases[i].google ? open_google(vocab) : fixture_tokenizer(vocab),
                  &question);
        question.logits[2 * (OLD + cases[i].first)] = 3.0f;
        question.logits[2 * (OLD + cases[i].last) + 1] = 2.0f;
        assert_int_equal(answer(&question, NULL), BERTH_OK);
        assert_string_equal(question.result.prediction, cases[i].text);
        assert_int_equal(question.result.candidates[0].begin, cases[i].begin);
        assert_int_equal(question.result.candidates[0].end, cases[i].end);
        done(&question);
    }
}

// Features from a damaged cache: the words are all that can be relied on.
static void gives_whole_words_for_features_of_another_text(void **state) {
    struct question question;
    ask_about(EAST CAPITAL EAST, fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt")),
              &question);
    question.logits[2 * STONE] = 3.0f;
    question.logits[2 * STONE + 1] = 2.0f;
    question.set.features[0].document_start = INT32_MAX;
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_string_equal(question.result.prediction, EAST CAPITAL EAST);
    done(&question);
}

static void limits_length_and_order(void **state) {
    struct question question;
    ask(&question, 0);
    question.logits[2 * OLD] = 3.0f;
    question.logits[2 * BRIDGE + 1] = 2.0f;
    question.logits[2 * OLD + 1] = 1.0f;
    question.options.max_answer_length = 2;
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_string_equal(question.result.prediction, "Old");
    question.options.n_best_size = 1; // the best end alone is out of reach
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_string_equal(question.result.prediction, "empty");
    assert_int_equal(question.result.candidates[0].begin, -1);
    assert_true(question.result.candidates[0].probability == 1.0);
    done(&question);
}

static void wants_the_best_window(void **state) {
    struct question question;
    ask(&question, 0);
    question.logits[2 * STONE] = 3.0f;
    question.logits[2 * BRIDGE + 1] = 2.0f;
    question.set.max_context[STONE] = 0;
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_string_equal(question.result.prediction, "Old stone Bridge");
    done(&question);
}

static void weighs_no_answer(void **state) {
    struct question question;
    ask(&question, 1);
    question.logits[0] = 1.0f;
    question.logits[1] = 1.5f;
    question.logits[2 * STONE] = 3.0f;
    question.logits[2 * BRIDGE + 1] = 2.0f;
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_true(question.result.null_odds == 2.5 - 5.0);
    assert_string_equal(question.result.prediction, "stone Bridge");
    question.options.null_score_diff_threshold = -2.5;
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_string_equal(question.result.prediction, "stone Bridge"); // not greater
    question.options.null_score_diff_threshold = -2.75;
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_string_equal(question.result.prediction, "");
    assert_string_equal(question.result.candidates[0].text, "stone Bridge");
    assert_string_equal(question.result.candidates[1].text, "");
    question.options.n_best_size = 1; // the null answer is added beyond the limit
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_int_equal(question.result.count, 2);
    done(&question);
}

static void answers_without_windows(void **state) {
    struct question question;
    ask(&question, 1);
    question.set.count = 0;
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_int_equal(question.result.count, 2);
    assert_string_equal(question.result.candidates[0].text, "empty");
    assert_true(question.result.null_odds == 1000000.0);
    assert_string_equal(question.result.prediction, "");
    assert_int_equal(squad_result_chosen(&question.result), 1);
    question.options.version_2_with_negative = 0;
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_string_equal(question.result.prediction, "empty");
    assert_int_equal(squad_result_chosen(&question.result), 0);
    for (int version_2 = 0; version_2 < 2; version_2++) {
        question.options.version_2_with_negative = version_2;
        question.options.all_spans = 1;
        assert_int_equal(answer(&question, NULL), BERTH_OK);
        assert_int_equal(question.result.count, 1);
        assert_string_equal(question.result.candidates[0].text, "");
        assert_int_equal(question.result.candidates[0].begin, -1);
    }
    done(&question);
}

// --- all spans ----------------------------------------------------------------------------------

// The question's rows and [CLS] have the best logits, and the best start and end make no span.
static void finds_a_span_where_the_best_rows_make_none(void **state) {
    struct question question;
    ask(&question, 1);
    for (size_t i = 0; i < 2 * OLD; i++) {
        question.logits[i] = 3.0f;
    }
    question.logits[2 * OLD] = 2.0f;
    question.logits[2 * BRIDGE + 1] = 2.0f;
    question.logits[2 * STONE + 1] = 1.0f;
    question.options = (struct squad_answer_options){2, 1, 1, 100.0, 0, 0, 0};
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_string_equal(question.result.candidates[0].text, "empty");
    question.options.all_spans = 1;
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_int_equal(question.result.count, 2);
    assert_string_equal(question.result.candidates[0].text, "");
    assert_string_equal(question.result.candidates[1].text, "Old");
    assert_int_equal(squad_result_chosen(&question.result), 1);
    question.options.null_score_diff_threshold = 0.0;
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_string_equal(question.result.prediction, "");
    assert_int_equal(squad_result_chosen(&question.result), 0);
    done(&question);
}

// A context of letters and logits of 24 bits, so that hardly any two spans are equal.
static void ask_of_letters(struct question *question, size_t letters) {
    static const int64_t lengths[3] = {64, 16, 16};
    struct fixture_draws draws = {1};
    char *text = memory_new(2 * letters + 100);
    size_t length = (size_t)sprintf(text, "[{\"id\":\"q\",\"question\":\"when\",\"context\":\"");
    for (size_t i = 0; i < letters; i++) {
        text[length++] = (char)('a' + (int)(fixture_logit(&draws) * 128.0f + 2048.0f) % 26);
        text[length++] = ' ';
    }
    strcpy(text + length, "\"}]");
    *question = (struct question){.options = {20, 30, 0, 0.0, 0, 0, 0}};
    question->tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    question->dataset = fixture_dataset_of(text);
    question->set = fixture_features(&question->dataset, question->tokenizer, 0, lengths, 1);
    question->logits = draw_logits(&question->set);
    for (size_t i = 0; i < question->set.token_count * 2; i++) {
        question->logits[i] += fixture_logit(&draws) / 4096.0f;
    }
    memory_free(text);
}

// With every row among the best, the original finds all spans.
static void finds_the_best_of_all_spans(struct question *question, size_t compared) {
    struct question all = *question;
    const int64_t n = question->options.n_best_size;
    all.result = (struct squad_result){0};
    all.options.n_best_size = 64; // rows of a window
    question->options.all_spans = 1;
    assert_int_equal(answer(&all, NULL), BERTH_OK);
    assert_int_equal(answer(question, NULL), BERTH_OK);
    assert_in_range(question->result.count, 1, n);
    compared = all.result.count < compared ? all.result.count : compared;
    assert_true(compared > 0);
    for (size_t i = 0; i < compared; i++) {
        const struct squad_candidate *expected = &all.result.candidates[i];
        const struct squad_candidate *found = &question->result.candidates[i];
        assert_string_equal(found->text, expected->text);
        assert_int_equal(found->begin, expected->begin);
        assert_int_equal(found->end, expected->end);
        assert_true(found->start_logit == expected->start_logit);
        assert_true(found->end_logit == expected->end_logit);
    }
    squad_result_done(&all.result);
}

static void searches_all_spans(void **state) {
    struct question question;
    ask_of_letters(&question, 300);
    assert_true(question.set.count > 5);
    for (int64_t longest = 1; longest < 60; longest += longest < 3 ? 1 : 28) {
        for (int64_t n = 1; n < 64; n = 4 * n + 1) {
            question.options = (struct squad_answer_options){n, longest, 0, 0.0, 1, 0, 0};
            finds_the_best_of_all_spans(&question, n == 1 ? 1 : (size_t)n / 3);
        }
    }
    done(&question);
}

// More spans than are kept.
static void searches_a_long_context(void **state) {
    struct question question;
    ask_of_letters(&question, 4000);
    finds_the_best_of_all_spans(&question, 20);
    done(&question);
}

// --- as transformers' pipeline -------------------------------------------------------------------

// P(start) or P(end) of a row, over [CLS] and the document part.
static double chance(const struct question *question, const struct squad_feature *feature,
                     int32_t row, int side) {
    const float *logits = question->logits + 2 * (size_t)feature->first + side;
    double sum = exp((double)logits[0]);
    for (int32_t i = 0; i < feature->document_length; i++) {
        sum += exp((double)logits[2 * (feature->document_begin + i)]);
    }
    return exp((double)logits[2 * row]) / sum;
}

static void gives_the_probability_of_a_span(void **state) {
    struct question question;
    ask(&question, 1);
    const struct squad_feature *feature = question.set.features;
    question.logits[2 * OLD] = question.logits[1] = 1.0f;
    question.logits[2 * STONE] = 3.0f;
    question.logits[2 * BRIDGE + 1] = 2.0f;
    question.logits[2 * (OLD - 1)] = 9.0f; // of the question: in no sum
    question.options.all_spans = question.options.by_span = 1;
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    double total = 0.0, before = 1.0;
    for (size_t i = 0; i < question.result.count; i++) {
        const struct squad_candidate *candidate = &question.result.candidates[i];
        assert_true(candidate->probability <= before);
        before = candidate->probability;
        total += before;
        if (strcmp(candidate->text, "stone\n Bridge") == 0) {
            const double expected =
                chance(&question, feature, STONE, 0) * chance(&question, feature, BRIDGE, 1);
            assert_true(fabs(candidate->probability - expected) < 1e-12);
            assert_int_equal(i, 0);
        } else if (candidate->begin < 0) {
            const double expected =
                chance(&question, feature, 0, 0) * chance(&question, feature, 0, 1);
            assert_true(fabs(candidate->probability - expected) < 1e-12);
        }
    }
    assert_true(total < 1.0);
    done(&question);
}

// A window with larger logits, but more rows that have them, gives smaller probabilities.
static void orders_windows_by_probability(void **state) {
    for (int by_span = 0; by_span < 2; by_span++) {
        struct question question;
        ask_of_letters(&question, 300);
        for (size_t i = 0; i < 2 * question.set.token_count; i++) {
            question.logits[i] = -10.0f;
        }
        const struct squad_feature *calm = &question.set.features[0];
        const struct squad_feature *loud = &question.set.features[question.set.count - 1];
        for (int32_t i = 0; i < loud->document_length; i++) {
            float *own = question.logits + 2 * ((int32_t)loud->first + loud->document_begin + i);
            own[0] = own[1] = 5.0f;
        }
        float *own = question.logits + 2 * ((int32_t)calm->first + calm->document_begin);
        own[0] = own[1] = 4.0f;
        question.options.all_spans = 1;
        question.options.by_span = by_span;
        assert_int_equal(answer(&question, NULL), BERTH_OK);
        const struct squad_candidate *best = question.result.candidates;
        assert_true(best->start_logit == (by_span ? 4.0f : 5.0f));
        if (by_span) {
            assert_true(best->probability > 0.99);
        }
        done(&question);
    }
}

static void copies_the_context(void **state) {
    static const char written[] = "Old  stone\t\n Bridge", joined[] = "Old stone Bridge";
    for (int google = 0; google < 2; google++) {
        for (int all_spans = 0; all_spans < 2; all_spans++) {
            struct question question;
            const char *vocab = fixture_source("tests/data/squad/vocab.txt");
            ask_about(" Old  stone\\t\\n Bridge.",
                      google ? open_google(vocab) : fixture_tokenizer(vocab), &question);
            question.logits[2 * OLD] = 3.0f;
            question.logits[2 * BRIDGE + 1] = 2.0f;
            question.options.all_spans = all_spans;
            assert_int_equal(answer(&question, NULL), BERTH_OK);
            const struct squad_candidate *best = question.result.candidates;
            assert_string_equal(best->text, all_spans ? written : joined);
            assert_int_equal(best->begin, 1);
            assert_int_equal(best->end, 1 + strlen(written));
            done(&question);
        }
    }
}

static void refuses_bad_input(void **state) {
    struct question question;
    struct berth_error error = {0};
    ask(&question, 0);
    question.logits[2 * 3 + 1] = NAN;
    assert_int_equal(answer(&question, &error), BERTH_FAILURE);
    assert_non_null(
        strstr(error.message, "question \"q\": the end logit of token 3 is not a finite"));
    question.options.n_best_size = 0;
    assert_int_equal(answer(&question, &error), BERTH_USAGE);
    assert_non_null(strstr(error.message, "n_best_size: expected 1 to 65536, found 0"));
    question.options.n_best_size = 20;
    question.options.max_answer_length = 0;
    assert_int_equal(answer(&question, &error), BERTH_USAGE);
    assert_non_null(strstr(error.message, "max_answer_length: expected at least 1, found 0"));
    done(&question);
}

static void survives_missing_memory_with(struct tokenizer *tokenizer) {
    struct question question;
    struct berth_error error;
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t n = 0;
    ask_about(" Old stone\\n Bridge.", tokenizer, &question);
    question.options.version_2_with_negative = 1;
    while (status == BERTH_NO_MEMORY) {
        memory_fail_at(++n, 0);
        status = answer(&question, &error);
    }
    memory_fail_at(0, 0);
    assert_int_equal(status, BERTH_OK);
    assert_true(n > 10);
    done(&question);
}

static void survives_missing_memory(void **state) {
    survives_missing_memory_with(fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt")));
    survives_missing_memory_with(open_google(fixture_source("tests/data/squad/vocab.txt")));
}

static void names_a_folder_it_cannot_write(void **state) {
    struct question question;
    struct berth_error error = {0};
    ask(&question, 0);
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    assert_int_equal(squad_answers_write("/no/such/folder", &question.dataset, &question.result,
                                         &question.options, &error),
                     BERTH_CANT_CREATE);
    assert_non_null(strstr(error.message, "/no/such/folder"));
    done(&question);
}

// With a full disk the files stay as they were, whichever of them is being written.
static void writes_all_files_or_none(void **state) {
    static const char *const names[] = {"predictions.json", "nbest_predictions.json",
                                        "null_odds.json"};
    enum { FILES = sizeof names / sizeof *names };
    struct question question;
    enum berth_status status = BERTH_IO;
    int mixed = 0;
    ask(&question, 1);
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    for (uint64_t n = 1; status != BERTH_OK; n++) {
        size_t fresh = 0;
        for (size_t i = 0; i < FILES; i++) {
            scratch_write(names[i], "old");
        }
        file_fail_at(n, ENOSPC);
        status = squad_answers_write(scratch_folder, &question.dataset, &question.result,
                                     &question.options, NULL);
        file_fail_at(0, 0);
        assert_int_equal(scratch_count(), FILES);
        for (size_t i = 0; i < FILES; i++) {
            char *bytes;
            size_t length;
            assert_int_equal(file_read(scratch(names[i]), 1 << 20, &bytes, &length, NULL),
                             BERTH_OK);
            fresh += length != strlen("old");
            memory_free(bytes);
        }
        mixed += fresh > 0 && fresh < FILES;
        assert_true(status != BERTH_OK || fresh == FILES);
    }
    assert_int_equal(mixed, FILES - 1); // only where a rename fails after another
    done(&question);
}

static void writes_nothing_without_memory(void **state) {
    struct question question;
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t n = 0;
    ask(&question, 1);
    assert_int_equal(answer(&question, NULL), BERTH_OK);
    while (status == BERTH_NO_MEMORY) {
        assert_int_equal(scratch_count(), 0);
        memory_fail_at(++n, 0);
        status = squad_answers_write(scratch_folder, &question.dataset, &question.result,
                                     &question.options, NULL);
        memory_fail_at(0, 0);
    }
    assert_int_equal(status, BERTH_OK);
    assert_true(n > 10);
    done(&question);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(writes_version_1),
        SCRATCH_TEST(writes_version_2),
        SCRATCH_TEST(writes_all_files_or_none),
        SCRATCH_TEST(writes_nothing_without_memory),
        cmocka_unit_test(equals_python_on_real_data),
        cmocka_unit_test(aligns_to_the_original_words),
        cmocka_unit_test(gives_text_and_offsets),
        cmocka_unit_test(cuts_words_at_tokens),
        cmocka_unit_test(gives_whole_words_for_features_of_another_text),
        cmocka_unit_test(limits_length_and_order),
        cmocka_unit_test(wants_the_best_window),
        cmocka_unit_test(weighs_no_answer),
        cmocka_unit_test(answers_without_windows),
        cmocka_unit_test(finds_a_span_where_the_best_rows_make_none),
        cmocka_unit_test(searches_all_spans),
        cmocka_unit_test(searches_a_long_context),
        cmocka_unit_test(gives_the_probability_of_a_span),
        cmocka_unit_test(orders_windows_by_probability),
        cmocka_unit_test(copies_the_context),
        cmocka_unit_test(refuses_bad_input),
        cmocka_unit_test(survives_missing_memory),
        cmocka_unit_test(names_a_folder_it_cannot_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
