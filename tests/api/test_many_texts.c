// SPDX-License-Identifier: Apache-2.0
// Tests the functions that process many texts in one call: scores, hidden states and tokens against
// transformers' (tests/golden/classifier, dev/goldens/texts.py); the same bits in one call as one
// by one, for every instruction set, on several threads, in batches of any size; a bad text among
// good ones; no texts; memory that is out.
#include "core/calls.h"
#include "core/harness.h"
#include "core/memory.h"
#include "format/json/json.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER BERTH_TEST_SOURCE_DIR "/tests/golden/classifier"

enum { TEXTS_MAX = 16, CLASSES = 3, SIZE = 16, MANY = 24, THREADS = 3 };

static const struct berth_log silent;

static struct berth_config config_of(int64_t batch) {
    struct berth_config config;
    berth_config_init(&config);
    config.model_name_or_path = FOLDER;
    config.device = "cpu";
    config.threads = 2;
    config.precision = BERTH_FP32;
    config.max_seq_length = 16;
    config.predict_batch_size = batch;
    config.allow_new_head = 1; // it is a classifier
    return config;
}

#define OPEN(kind, config, handle)                                                                 \
    do {                                                                                           \
        struct berth_error open_error;                                                             \
        if (berth_##kind##_open(config, silent, handle, &open_error) != BERTH_OK) {                \
            fail_msg("%s", open_error.message);                                                    \
        }                                                                                          \
    } while (0)

#define OK(call)                                                                                   \
    do {                                                                                           \
        if ((call) != BERTH_OK) {                                                                  \
            fail_msg("%s: %s", #call, error.message);                                              \
        }                                                                                          \
    } while (0)

// --- transformers' results -----------------------------------------------------------------------

struct expected {
    json *file;
    const json *rows;
    struct berth_text texts[TEXTS_MAX];
    size_t count;
};

static void expected_open(struct expected *expected) {
    struct berth_error error;
    OK(json_read_file(FOLDER "/expected.json", &expected->file, &error));
    expected->rows = json_member(expected->file, "texts");
    expected->count = json_length(expected->rows);
    assert_in_range(expected->count, 5, TEXTS_MAX);
    for (size_t i = 0; i < expected->count; i++) {
        const json *row = json_at(expected->rows, i);
        expected->texts[i] = (struct berth_text){json_text(json_member(row, "text")),
                                                 json_text(json_member(row, "pair"))};
    }
}

static double real_at(const json *array, size_t index) {
    return json_as_real(json_at(array, index));
}

static void scores_equal_transformers(void **state) {
    static const char *const names[] = {[BERTH_SCORE_USUAL] = "default",
                                        [BERTH_SCORE_NONE] = "none",
                                        [BERTH_SCORE_SIGMOID] = "sigmoid",
                                        [BERTH_SCORE_SOFTMAX] = "softmax"};
    const struct berth_config config = config_of(32);
    struct expected expected;
    struct berth_classifier *classifier;
    struct berth_error error;
    float scores[TEXTS_MAX][CLASSES];
    struct berth_text_status statuses[TEXTS_MAX];
    expected_open(&expected);
    OPEN(classifier, &config, &classifier);
    const struct berth_classes classes = berth_classifier_classes(classifier);
    assert_int_equal(classes.problem, BERTH_SINGLE_LABEL);
    assert_int_equal(classes.count, CLASSES);
    assert_string_equal(classes.names[0], "no");
    assert_string_equal(classes.names[2], "yes");
    assert_int_equal(berth_classifier_max_length(classifier), 16);
    for (int score = 0; score < 4; score++) {
        OK(berth_classifier_classify(classifier, expected.texts, expected.count,
                                     (enum berth_score)score, scores[0], statuses, &error));
        for (size_t i = 0; i < expected.count; i++) {
            const json *row = json_at(expected.rows, i);
            const json *right = json_member(json_member(row, "scores"), names[score]);
            for (size_t k = 0; k < CLASSES; k++) {
                if (!(fabs((double)scores[i][k] - real_at(right, k)) <= 3e-6)) {
                    fail_msg("text %zu, class %zu, %s: %g instead of %g", i, k, names[score],
                             (double)scores[i][k], real_at(right, k));
                }
            }
            assert_int_equal(statuses[i].error.status, BERTH_OK);
            assert_int_equal(statuses[i].tokens, json_length(json_member(row, "ids")));
            assert_int_equal(statuses[i].truncated, json_truth(json_member(row, "truncated")));
        }
    }
    berth_classifier_close(classifier);
    json_free(expected.file);
}

static void hidden_states_equal_transformers(void **state) {
    const struct berth_config config = config_of(2);
    struct expected expected;
    struct berth_encoder *encoder;
    struct berth_error error;
    struct berth_hidden_states states[TEXTS_MAX];
    expected_open(&expected);
    OPEN(encoder, &config, &encoder);
    assert_int_equal(berth_encoder_size(encoder), SIZE);
    assert_int_equal(berth_encoder_max_length(encoder), 16);
    OK(berth_encoder_hidden_states(encoder, expected.texts, expected.count, states, &error));
    for (size_t i = 0; i < expected.count; i++) {
        const json *row = json_at(expected.rows, i), *right = json_member(row, "hidden");
        assert_int_equal(states[i].status.error.status, BERTH_OK);
        assert_int_equal(states[i].status.tokens * SIZE, json_length(right));
        assert_int_equal(states[i].status.truncated, json_truth(json_member(row, "truncated")));
        for (size_t k = 0; k < json_length(right); k++) {
            assert_true(fabs((double)states[i].rows[k] - real_at(right, k)) <= 1e-5);
        }
    }
    berth_hidden_states_free(states, expected.count);
    assert_null(states[0].rows);
    berth_encoder_close(encoder);
    json_free(expected.file);
}

static void pairs_have_transformers_tokens(void **state) {
    const struct berth_config config = config_of(2);
    struct expected expected;
    struct berth_tokenizer *tokenizer;
    struct berth_error error;
    expected_open(&expected);
    OK(berth_tokenizer_open(&config, &tokenizer, &error));
    for (size_t i = 0; i < expected.count; i++) {
        const json *row = json_at(expected.rows, i), *ids = json_member(row, "ids");
        struct berth_input_token *tokens;
        size_t count;
        int truncated;
        OK(berth_tokenizer_encode_pair(tokenizer, &expected.texts[i], 16, &tokens, &count,
                                       &truncated, &error));
        assert_int_equal(count, json_length(ids));
        assert_int_equal(truncated, json_truth(json_member(row, "truncated")));
        for (size_t k = 0; k < count; k++) {
            const json *offsets = json_at(json_member(row, "offsets"), k);
            assert_int_equal(tokens[k].token.id, json_as_integer(json_at(ids, k)));
            assert_int_equal(tokens[k].type,
                             json_as_integer(json_at(json_member(row, "types"), k)));
            assert_int_equal(tokens[k].token.start, json_as_integer(json_at(offsets, 0)));
            assert_int_equal(tokens[k].token.end, json_as_integer(json_at(offsets, 1)));
        }
        assert_string_equal(tokens[0].token.piece, "[CLS]");
        assert_string_equal(tokens[count - 1].token.piece, "[SEP]");
        berth_input_tokens_free(tokens);
        assert_int_equal(berth_tokenizer_encode_pair(tokenizer, &expected.texts[i], 3, &tokens,
                                                     &count, NULL, &error),
                         BERTH_USAGE);
        assert_null(tokens);
    }
    berth_tokenizer_close(tokenizer);
    json_free(expected.file);
}

// --- many texts in one call ----------------------------------------------------------------------

// Texts of different lengths, made of known and unknown words.
struct many {
    char lines[MANY][256];
    struct berth_text texts[MANY];
    struct berth_question questions[MANY];
};

static void many_fill(struct many *many) {
    static const char *const words[] = {"anna", "ben", "red",   "ball",  "the",  "coat", "lamp",
                                        "of",   "?",   "zebra", "balls", "book", "blue", "and"};
    uint32_t random = 7;
    for (size_t i = 0; i < MANY; i++) {
        char *line = many->lines[i];
        line[0] = '\0';
        for (size_t left = 1 + i * 7 % 30; left > 0; left--) {
            random = random * 1664525 + 1013904223;
            strcat(strcat(line, words[(random >> 16) % 14]), " ");
        }
        many->texts[i] = (struct berth_text){line, i % 3 == 1 ? many->lines[i / 2] : NULL};
        many->questions[i] = (struct berth_question){.question = "what colour has the ball ?",
                                                     .context = line,
                                                     .capacity = 1 + i % 4,
                                                     .with_no_answer = -1};
    }
    many->questions[5].max_answer_length = 2;
    many->questions[6].with_no_answer = 1;
}

// A model of each kind, opened alike.
struct handles {
    struct berth_answerer *model;
    struct berth_classifier *classifier;
    struct berth_encoder *encoder;
};

static void handles_open(struct handles *handles, struct berth_config config) {
    OPEN(classifier, &config, &handles->classifier);
    OPEN(encoder, &config, &handles->encoder);
    config.doc_stride = 4; // several windows
    OPEN(model, &config, &handles->model);
}

static void handles_close(const struct handles *handles) {
    berth_answerer_close(handles->model);
    berth_classifier_close(handles->classifier);
    berth_encoder_close(handles->encoder);
}

struct results {
    float scores[MANY][CLASSES], embeddings[MANY][SIZE];
    struct berth_text_status statuses[2][MANY];
    struct berth_hidden_states states[MANY];
    struct berth_answers answers[MANY];
};

static const struct berth_embedding how = {BERTH_POOL_MEAN, 1};

// Processes texts [first, end) in one call of each function.
static enum berth_status process(const struct handles *handles, const struct many *many,
                                 size_t first, size_t end, struct results *results) {
    const struct berth_text *texts = many->texts + first;
    const size_t count = end - first;
    enum berth_status statuses[] = {
        berth_classifier_classify(handles->classifier, texts, count, BERTH_SCORE_USUAL,
                                  results->scores[first], results->statuses[0] + first, NULL),
        berth_encoder_embed_many(handles->encoder, texts, count, how, results->embeddings[first],
                                 results->statuses[1] + first, NULL),
        berth_encoder_hidden_states(handles->encoder, texts, count, results->states + first, NULL),
        berth_answerer_answer_many(handles->model, many->questions + first, count,
                                results->answers + first, NULL)};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        if (statuses[i] != BERTH_OK) {
            return statuses[i];
        }
    }
    return BERTH_OK;
}

static void results_free(struct results *results) {
    berth_hidden_states_free(results->states, MANY);
    berth_answer_lists_free(results->answers, MANY);
    free(results);
}

static int same_answers(const struct berth_answers *a, const struct berth_answers *b) {
    int same = a->error.status == b->error.status && a->count == b->count && a->tokens == b->tokens;
    for (size_t i = 0; same && i < a->count; i++) {
        const struct berth_answer *x = &a->answers[i], *y = &b->answers[i];
        same = strcmp(x->text, y->text) == 0 && x->start == y->start && x->end == y->end &&
               memcmp(&x->probability, &y->probability, sizeof x->probability) == 0 &&
               memcmp(&x->start_logit, &y->start_logit, sizeof x->start_logit) == 0 &&
               memcmp(&x->end_logit, &y->end_logit, sizeof x->end_logit) == 0;
    }
    return same;
}

static int same_text(const struct results *a, const struct results *b, size_t i) {
    const struct berth_hidden_states *x = &a->states[i], *y = &b->states[i];
    return memcmp(a->scores[i], b->scores[i], sizeof a->scores[i]) == 0 &&
           memcmp(a->embeddings[i], b->embeddings[i], sizeof a->embeddings[i]) == 0 &&
           x->status.tokens == y->status.tokens &&
           memcmp(x->rows, y->rows, (size_t)x->status.tokens * SIZE * sizeof *x->rows) == 0 &&
           same_answers(&a->answers[i], &b->answers[i]);
}

static void check_same(const char *what, const struct results *a, const struct results *b) {
    for (size_t i = 0; i < MANY; i++) {
        if (!same_text(a, b, i)) {
            fail_msg("%s: text %zu has other results", what, i);
        }
    }
}

static struct results *results_alone(const struct handles *handles, const struct many *many) {
    struct results *alone = calloc(1, sizeof *alone);
    assert_non_null(alone);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(process(handles, many, i, i + 1, alone), BERTH_OK);
    }
    return alone;
}

static struct results *results_together(const struct handles *handles, const struct many *many) {
    struct results *together = calloc(1, sizeof *together);
    assert_non_null(together);
    assert_int_equal(process(handles, many, 0, MANY, together), BERTH_OK);
    return together;
}

static void one_call_gives_the_bits_of_single_calls(void **state) {
    static const char *const instructions[] = {"auto",   "generic",    "avx2",
                                               "avx512", "avx512bf16", "amx"};
    static struct many many;
    many_fill(&many);
    for (size_t i = 0; i < sizeof instructions / sizeof *instructions; i++) {
        struct berth_config config = config_of(i % 2 ? 3 : 32);
        struct berth_error error;
        struct berth_encoder *encoder;
        struct handles handles;
        config.instructions = instructions[i];
        config.precision = i % 2 ? BERTH_BF16 : BERTH_FP32;
        if (berth_encoder_open(&config, silent, &encoder, &error) == BERTH_UNAVAILABLE) {
            continue; // the processor lacks these instructions
        }
        berth_encoder_close(encoder);
        handles_open(&handles, config);
        struct results *alone = results_alone(&handles, &many);
        struct results *together = results_together(&handles, &many);
        check_same(config.instructions, alone, together);
        results_free(alone);
        results_free(together);
        handles_close(&handles);
    }
}

static void answers_are_those_of_one_question(void **state) {
    static struct many many;
    struct berth_config config = config_of(32);
    struct handles handles;
    struct berth_error error;
    many_fill(&many);
    handles_open(&handles, config);
    struct results *together = results_together(&handles, &many);
    int several = 0;
    for (size_t i = 0; i < MANY; i++) {
        const struct berth_question *question = &many.questions[i];
        struct berth_answers one = {.answers = NULL};
        struct berth_answer answers[4];
        if (question->max_answer_length > 0 || question->with_no_answer >= 0) {
            continue;
        }
        OK(berth_answerer_answer(handles.model, question->question, question->context, answers,
                              question->capacity, &one.count, &error));
        one.answers = answers;
        one.tokens = together->answers[i].tokens;
        assert_true(same_answers(&one, &together->answers[i]));
        several |= one.tokens > 2 * berth_answerer_max_length(handles.model);
        berth_answers_free(answers, one.count);
    }
    assert_true(several); // some questions had several windows
    results_free(together);
    handles_close(&handles);
}

static void a_question_has_options_of_its_own(void **state) {
    struct berth_config config = config_of(32);
    struct handles handles;
    struct berth_error error;
    handles_open(&handles, config);
    struct berth_question questions[3];
    struct berth_answers answers[3];
    for (size_t i = 0; i < 3; i++) {
        questions[i] = (struct berth_question){.question = "what colour ?",
                                               .context = "red blue green black red blue",
                                               .capacity = 20,
                                               .max_answer_length = i == 1 ? 1 : 0,
                                               .with_no_answer = i == 2 ? 1 : -1};
    }
    OK(berth_answerer_answer_many(handles.model, questions, 3, answers, &error));
    int longer = 0, none[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < answers[i].count; k++) {
            const int words = strchr(answers[i].answers[k].text, ' ') != NULL;
            longer |= i == 0 && words;
            assert_false(i == 1 && words);
            none[i] |= answers[i].answers[k].start < 0;
        }
    }
    assert_true(longer);
    assert_true(!none[0] && !none[1] && none[2]);
    berth_answer_lists_free(answers, 3);
    handles_close(&handles);
}

// --- bad texts -----------------------------------------------------------------------------------

static void a_bad_text_does_not_affect_the_others(void **state) {
    static struct many good, bad;
    const struct berth_config config = config_of(3);
    struct handles handles;
    many_fill(&good);
    many_fill(&bad);
    handles_open(&handles, config);
    bad.texts[0].text = NULL;
    bad.texts[17] = (struct berth_text){NULL, "pair"};
    bad.questions[0].context = NULL;
    bad.questions[17].question = NULL;
    bad.questions[20].question = " \n ";
    bad.questions[23].context = "";
    bad.questions[8].max_answer_length = -3;
    bad.questions[11].with_no_answer = 9;
    struct results *right = results_together(&handles, &good);
    struct results *found = results_together(&handles, &bad);
    for (size_t i = 0; i < MANY; i++) {
        const int is_bad = bad.texts[i].text == NULL;
        const enum berth_status wanted = is_bad ? BERTH_USAGE : BERTH_OK;
        assert_int_equal(found->statuses[0][i].error.status, wanted);
        assert_int_equal(found->statuses[1][i].error.status, wanted);
        assert_int_equal(found->states[i].status.error.status, wanted);
        if (is_bad) {
            static const float zeros[SIZE];
            assert_string_equal(found->statuses[0][i].error.message, "the text is NULL");
            assert_memory_equal(found->scores[i], zeros, sizeof found->scores[i]);
            assert_memory_equal(found->embeddings[i], zeros, sizeof found->embeddings[i]);
            assert_null(found->states[i].rows);
        }
    }
    static const struct {
        size_t question;
        enum berth_status status;
        const char *message;
    } failures[] = {
        {0, BERTH_USAGE, "the context is NULL"},
        {17, BERTH_USAGE, "the question is NULL"},
        {20, BERTH_USAGE, "the question has no words"},
        {23, BERTH_BAD_DATA, "the context has no words to answer from"},
        {8, BERTH_USAGE, "max_answer_length: expected a number of tokens or 0, found -3"},
        {11, BERTH_USAGE, "with_no_answer: expected -1, 0 or 1, found 9"}};
    int is_bad[MANY] = {0};
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        const struct berth_answers *answers = &found->answers[failures[i].question];
        is_bad[failures[i].question] = 1;
        assert_int_equal(answers->error.status, failures[i].status);
        assert_string_equal(answers->error.message, failures[i].message);
        assert_null(answers->answers);
        assert_int_equal(answers->count, 0);
    }
    for (size_t i = 0; i < MANY; i++) {
        if (!is_bad[i] && !same_text(found, right, i)) {
            fail_msg("text %zu has other results beside bad ones", i);
        }
    }
    results_free(right);
    results_free(found);
    handles_close(&handles);
}

static void a_call_with_only_bad_texts_succeeds(void **state) {
    const struct berth_config config = config_of(3);
    const struct berth_text none = {NULL, NULL};
    const struct berth_question question = {.question = "who ?", .context = ""};
    struct handles handles;
    struct berth_error error;
    float numbers[SIZE];
    struct berth_text_status status;
    struct berth_hidden_states states;
    struct berth_answers answers;
    handles_open(&handles, config);
    OK(berth_classifier_classify(handles.classifier, &none, 1, BERTH_SCORE_USUAL, numbers, &status,
                                 &error));
    assert_int_equal(status.error.status, BERTH_USAGE);
    OK(berth_encoder_embed_many(handles.encoder, &none, 1, how, numbers, &status, &error));
    assert_int_equal(status.error.status, BERTH_USAGE);
    OK(berth_encoder_hidden_states(handles.encoder, &none, 1, &states, &error));
    assert_int_equal(states.status.error.status, BERTH_USAGE);
    OK(berth_answerer_answer_many(handles.model, &question, 1, &answers, &error));
    assert_int_equal(answers.error.status, BERTH_BAD_DATA);
    handles_close(&handles);
}

// --- threads -------------------------------------------------------------------------------------

struct caller {
    const struct handles *handles;
    const struct many *many;
    const struct results *right;
    size_t group; // texts of a call
    int failed;
};

static void *call(void *argument) {
    struct caller *caller = argument;
    for (int round = 0; round < 3; round++) {
        struct results *found = calloc(1, sizeof *found);
        for (size_t i = 0; i < MANY; i += caller->group) {
            const size_t end = i + caller->group < MANY ? i + caller->group : MANY;
            caller->failed |= process(caller->handles, caller->many, i, end, found) != BERTH_OK;
        }
        for (size_t i = 0; i < MANY && !caller->failed; i++) {
            caller->failed |= !same_text(found, caller->right, i);
        }
        results_free(found);
    }
    return NULL;
}

static void threads_share_handles(void **state) {
    static struct many many;
    const struct berth_config config = config_of(3);
    struct handles handles;
    struct caller callers[THREADS];
    pthread_t threads[THREADS];
    many_fill(&many);
    handles_open(&handles, config);
    struct results *right = results_together(&handles, &many);
    for (size_t i = 0; i < THREADS; i++) {
        callers[i] = (struct caller){&handles, &many, right, 1 + 8 * i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(callers[i].failed);
    }
    results_free(right);
    handles_close(&handles);
}

// --- arguments -----------------------------------------------------------------------------------

// Which arguments must not be NULL: test_arguments.c.
static void nothing_to_process_is_no_error(void **state) {
    struct handles h;
    struct berth_error error;
    handles_open(&h, config_of(3));
    OK(berth_classifier_classify(h.classifier, NULL, 0, BERTH_SCORE_USUAL, NULL, NULL, &error));
    OK(berth_encoder_embed_many(h.encoder, NULL, 0, how, NULL, NULL, &error));
    OK(berth_encoder_hidden_states(h.encoder, NULL, 0, NULL, &error));
    OK(berth_answerer_answer_many(h.model, NULL, 0, NULL, &error));
    assert_int_equal(berth_classifier_classes(NULL).count, 0);
    assert_int_equal(berth_classifier_max_length(NULL), 0);
    assert_int_equal(berth_answerer_max_length(NULL), 0);
    assert_int_equal(berth_encoder_max_length(NULL), 0);
    berth_classifier_close(NULL);
    berth_answer_lists_free(NULL, 2);
    berth_hidden_states_free(NULL, 2);
    berth_input_tokens_free(NULL);
    handles_close(&h);
}

static void an_unknown_score_is_refused(void **state) {
    const struct berth_text text = {"ben", NULL};
    struct handles h;
    struct berth_error error;
    struct berth_text_status status;
    float numbers[CLASSES];
    handles_open(&h, config_of(3));
    assert_int_equal(berth_classifier_classify(h.classifier, &text, 1, (enum berth_score)4, numbers,
                                               &status, &error),
                     BERTH_USAGE);
    assert_non_null(strstr(error.message, "score 4"));
    handles_close(&h);
}

// --- out of memory ----------------------------------------------------------------------------

// Every allocation of a call fails in turn: the call or a text of it says so, and nothing leaks.
static void every_allocation_may_fail(void **state) {
    static struct many many;
    struct berth_config config = config_of(3);
    config.threads = 1; // for the same allocations in every round
    struct handles handles;
    many_fill(&many);
    handles_open(&handles, config);
    // The device keeps what it makes for new shapes.
    results_free(results_together(&handles, &many));
    // Most allocations are for the candidates of answers, all alike: of the later ones some are
    // tried.
    for (uint64_t call = 0, calls = 0; call <= calls; call += call > 100 ? 40 : 1) {
        struct results *found = calloc(1, sizeof *found);
        memory_fail_at(call, 0);
        enum berth_status status = process(&handles, &many, 0, 6, found);
        const uint64_t made = memory_fail_at(0, 0);
        if (call == 0) {
            calls = made;
            assert_in_range(calls, 100, 2000);
        }
        for (size_t i = 0; i < 6 && status == BERTH_OK; i++) {
            status = found->answers[i].error.status != BERTH_OK
                         ? found->answers[i].error.status
                         : found->states[i].status.error.status;
        }
        if (status != (call == 0 ? BERTH_OK : BERTH_NO_MEMORY)) {
            fail_msg("allocation %d: status %d", (int)call, (int)status);
        }
        results_free(found);
    }
    handles_close(&handles);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_equal_transformers),
        cmocka_unit_test(hidden_states_equal_transformers),
        cmocka_unit_test(pairs_have_transformers_tokens),
        cmocka_unit_test(one_call_gives_the_bits_of_single_calls),
        cmocka_unit_test(answers_are_those_of_one_question),
        cmocka_unit_test(a_question_has_options_of_its_own),
        cmocka_unit_test(a_bad_text_does_not_affect_the_others),
        cmocka_unit_test(a_call_with_only_bad_texts_succeeds),
        cmocka_unit_test(threads_share_handles),
        cmocka_unit_test(nothing_to_process_is_no_error),
        cmocka_unit_test(an_unknown_score_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("many texts", tests, NULL, NULL);
}
