// SPDX-License-Identifier: Apache-2.0
// Tests answers to features by Keras's rules: texts are slices of the context, ends may be one row
// later, and the demos choose start and end independently.
#include "core/harness.h"
#include "core/memory.h"
#include "data/squad_fixture.h"
#include "metrics/squad_answers.h"

#include <math.h>
#include <string.h>

#define CONTEXT "The  old bridge at\u00a0Brekke."
// Tokens (rows): the 1, old 2, bridge 3, at 4, [UNK] for Brekke 5, . 6; [SEP] 7; the question
// from 8.

struct asked {
    struct squad_dataset dataset;
    struct tokenizer *tokenizer;
    struct squad_feature_set set;
    float *logits;
    struct squad_result result;
};

static struct asked ask(int end_exclusive) {
    struct asked asked = {
        .dataset = fixture_dataset_of("[{\"id\":\"q\",\"question\":\"what?\",\"context\":\"" CONTEXT
                                      "\",\"answers\":[]}]"),
        .tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"))};
    struct squad_feature_options options = {.max_length = 64,
                                            .doc_stride = 1,
                                            .max_query_length = 1,
                                            .rules = SQUAD_RULES_KERAS,
                                            .end_exclusive = end_exclusive};
    struct berth_error error = {0};
    struct berth_log log = {0};
    assert_int_equal(
        squad_features_build(&asked.dataset, asked.tokenizer, &options, &log, &asked.set, &error),
        BERTH_OK);
    assert_int_equal(asked.set.count, 1);
    asked.logits = memory_array_zeroed(asked.set.token_count, 2 * sizeof *asked.logits);
    return asked;
}

static void asked_done(struct asked *asked) {
    squad_result_done(&asked->result);
    memory_free(asked->logits);
    squad_feature_set_done(&asked->set);
    squad_dataset_done(&asked->dataset);
    tokenizer_close(asked->tokenizer);
}

// The row of the last document token.
static int32_t last_row(const struct asked *asked) {
    return asked->set.features[0].document_length;
}

// The row of the token that begins where the word does in the context.
static int32_t row_at(const struct asked *asked, const char *word) {
    size_t byte = (size_t)(strstr(CONTEXT, word) - CONTEXT);
    for (int32_t row = 1; row <= last_row(asked); row++) {
        if (asked->set.word_begin[asked->set.words[row]] == byte) {
            return row;
        }
    }
    fail_msg("no token begins at \"%s\"", word);
    return 0;
}

static struct squad_outcome outcome_of(const struct asked *asked,
                                       const struct squad_answer_options *options) {
    return (struct squad_outcome){.dataset = &asked->dataset,
                                  .set = &asked->set,
                                  .logits = asked->logits,
                                  .tokenizer = asked->tokenizer,
                                  .options = options};
}

static enum berth_status answer_separately(struct asked *asked, struct berth_error *error) {
    const struct squad_outcome outcome = outcome_of(asked, NULL);
    return squad_answer_separately(&outcome, &asked->set.features[0], &asked->result, error);
}

static void choose_separately(struct asked *asked, int32_t start, int32_t end) {
    struct berth_error error = {0};
    squad_result_done(&asked->result);
    memset(asked->logits, 0, asked->set.token_count * 2 * sizeof *asked->logits);
    asked->logits[2 * start] = 3.0f;
    asked->logits[2 * end + 1] = 2.0f;
    if (answer_separately(asked, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

static void expect(const struct asked *asked, const char *text, const char *begin,
                   const char *past) {
    assert_int_equal(asked->result.count, 1);
    const struct squad_candidate *answer = &asked->result.candidates[0];
    assert_string_equal(answer->text, text);
    assert_string_equal(asked->result.prediction, text);
    // The no-break space is one character of two bytes.
    const char *wide = strstr(CONTEXT, "\u00a0");
    assert_int_equal(answer->begin, begin - CONTEXT - (begin > wide));
    assert_int_equal(answer->end, past - CONTEXT - (past > wide));
    assert_true(answer->start_logit == 3.0f && answer->end_logit == 2.0f);
    double rows = (double)asked->set.features[0].length - 1.0;
    double expected = 1.0 / (1.0 + rows * exp(-3.0)) / (1.0 + rows * exp(-2.0));
    assert_true(fabs(answer->probability - expected) < 1e-12);
}

static void shows_the_slice_between_the_best_rows(void **state) {
    const char *context = CONTEXT, *end = context + strlen(context);
    for (int exclusive = 0; exclusive <= 1; exclusive++) {
        struct asked asked = ask(exclusive);
        int32_t the = row_at(&asked, "The"), old = row_at(&asked, "old");
        int32_t bridge = row_at(&asked, "bridge");
        choose_separately(&asked, the, old + exclusive);
        expect(&asked, "The old", context, context + 8);
        choose_separately(&asked, old, last_row(&asked) + exclusive);
        expect(&asked, "old bridge at Brekke.", context + 5, end);
        // After the context: to its end. Before the start: empty.
        choose_separately(&asked, old, asked.set.features[0].length - 1);
        expect(&asked, "old bridge at Brekke.", context + 5, end);
        choose_separately(&asked, bridge, the);
        expect(&asked, "", strstr(context, "bridge"), strstr(context, "bridge"));
        asked_done(&asked);
    }
}

static void a_start_outside_the_context_is_no_answer(void **state) {
    struct asked asked = ask(0);
    int32_t outside[] = {0, last_row(&asked) + 1, asked.set.features[0].length - 1};
    for (size_t i = 0; i < 3; i++) {
        choose_separately(&asked, outside[i], 2);
        assert_int_equal(asked.result.count, 0);
        assert_null(asked.result.prediction);
    }
    asked_done(&asked);
}

static void logits_must_be_finite(void **state) {
    struct asked asked = ask(0);
    struct berth_error error = {0};
    asked.logits[5] = NAN;
    assert_int_equal(answer_separately(&asked, &error), BERTH_FAILURE);
    assert_non_null(strstr(error.message, "the end logit of token 2 is not a finite number"));
    asked_done(&asked);
}

// "Brekke" has several pieces.
static void widens_answers_to_words(void **state) {
    struct asked asked = ask(0);
    const int32_t first = row_at(&asked, "Brekke");
    struct squad_answer_options options = {
        .n_best_size = 5, .max_answer_length = 3, .all_spans = 1, .by_span = 1};
    const struct squad_outcome outcome = outcome_of(&asked, &options);
    assert_true(row_at(&asked, ".") > first + 1);
    asked.logits[2 * (first + 1)] = 9.0f;
    asked.logits[2 * (first + 1) + 1] = 9.0f;
    for (int whole_words = 0; whole_words < 2; whole_words++) {
        options.whole_words = whole_words;
        assert_int_equal(squad_answer_question(&outcome, 0, 1, &asked.result, NULL), BERTH_OK);
        assert_int_equal(strcmp(asked.result.prediction, "Brekke") == 0, whole_words);
        squad_result_done(&asked.result);
    }
    asked_done(&asked);
}

static void the_n_best_search_knows_the_later_end(void **state) {
    for (int exclusive = 0; exclusive <= 1; exclusive++) {
        struct asked asked = ask(exclusive);
        struct squad_answer_options options = {.n_best_size = 5, .max_answer_length = 3};
        struct berth_error error = {0};
        const struct squad_outcome outcome = outcome_of(&asked, &options);
        int32_t old = row_at(&asked, "old"), bridge = row_at(&asked, "bridge");
        asked.logits[2 * old] = 3.0f;
        asked.logits[2 * (bridge + exclusive) + 1] = 2.0f;
        assert_int_equal(squad_answer_question(&outcome, 0, 1, &asked.result, &error), BERTH_OK);
        assert_string_equal(asked.result.prediction, "old bridge");
        assert_true(asked.result.candidates[0].end_logit == 2.0f);
        // The context's last token can be an end, whatever the rule.
        asked.logits[2 * (last_row(&asked) + exclusive) + 1] = 9.0f;
        asked.logits[2 * last_row(&asked)] = 9.0f;
        squad_result_done(&asked.result);
        assert_int_equal(squad_answer_question(&outcome, 0, 1, &asked.result, &error), BERTH_OK);
        assert_string_equal(asked.result.prediction, ".");
        asked_done(&asked);
    }
}

static void survives_missing_memory(void **state) {
    struct asked asked = ask(0);
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t n = 0;
    asked.logits[2] = asked.logits[3] = 1.0f;
    while (status == BERTH_NO_MEMORY) {
        struct berth_error error = {0};
        memory_fail_at(++n, 0);
        status = answer_separately(&asked, &error);
    }
    memory_fail_at(0, 0);
    assert_int_equal(status, BERTH_OK);
    assert_true(n > 3);
    asked_done(&asked);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_the_slice_between_the_best_rows),
        cmocka_unit_test(a_start_outside_the_context_is_no_answer),
        cmocka_unit_test(logits_must_be_finite),
        cmocka_unit_test(widens_answers_to_words),
        cmocka_unit_test(the_n_best_search_knows_the_later_end),
        cmocka_unit_test(survives_missing_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
