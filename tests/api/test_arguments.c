// SPDX-License-Identifier: Apache-2.0
// Tests that every function of berth.h refuses NULL for a required argument, and that the error
// names the function and the argument as the header calls them.
#include "core/calls.h"
#include "core/harness.h"

#include <math.h>
#include <string.h>

#define GOLDEN BERTH_TEST_SOURCE_DIR "/tests/golden/"

static const struct berth_log silent;

static struct berth_config config_of(const char *folder) {
    struct berth_config config;
    berth_config_init(&config);
    config.model_name_or_path = folder;
    config.device = "cpu";
    config.threads = 1;
    config.max_seq_length = 8;
    config.allow_new_head = 1;
    return config;
}

#define OPEN(kind, folder, handle)                                                                 \
    do {                                                                                           \
        const struct berth_config own_config = config_of(GOLDEN folder);                           \
        struct berth_error open_error;                                                             \
        if (berth_##kind##_open(&own_config, silent, handle, &open_error) != BERTH_OK) {           \
            fail_msg("%s", open_error.message);                                                    \
        }                                                                                          \
    } while (0)

#define NEEDS(function, argument, ...)                                                             \
    do {                                                                                           \
        struct berth_error found_error = {.status = BERTH_OK};                                     \
        assert_int_equal(function(__VA_ARGS__, &found_error), BERTH_USAGE);                        \
        assert_int_equal(found_error.status, BERTH_USAGE);                                         \
        assert_string_equal(found_error.message,                                                   \
                            #function ": the argument \"" argument "\" is NULL");                  \
        assert_int_equal(function(__VA_ARGS__, NULL), BERTH_USAGE);                                \
    } while (0)

static const char *const words[1] = {"hello"};
static char *text;

static void settings(void **state) {
    struct berth_config config = config_of(NULL);
    struct berth_reporter *reporter;
    NEEDS(berth_config_set, "config", NULL, "seed", "1");
    NEEDS(berth_config_set, "name", &config, NULL, "1");
    NEEDS(berth_config_set, "value", &config, "seed", NULL);
    NEEDS(berth_reporter_open, "config", NULL, 1, &reporter);
    NEEDS(berth_reporter_open, "reporter", &config, 1, NULL);
}

// The library refuses what only the program does.
static void program(void **state) {
    static const struct berth_prepare_input input = {.wikipedia = "dump.xml"};
    struct berth_prepare_result result;
    struct berth_error error;
    struct berth_config config = config_of(NULL);
    config.stages = "text";
    config.output_dir = "none";
    assert_int_equal(berth_prepare(&config, &input, silent, NULL, &result, &error),
                     BERTH_UNAVAILABLE);
    assert_non_null(strstr(error.message, "only the program reads dump.xml"));
    config.report = "report.html";
    assert_int_equal(berth_train("squad", &config, silent, NULL, NULL, &error), BERTH_UNAVAILABLE);
    assert_non_null(strstr(error.message, "only the program writes report.html"));
}

static int see(void *context, const struct berth_sample *sample) {
    return 0;
}

static void jobs(void **state) {
    const struct berth_config config = config_of(NULL);
    const struct berth_tag_scoring scoring = {.scheme = NULL};
    const struct berth_selection samples = {.count = 1};
    NEEDS(job_train, "task", NULL, &config, silent, NULL, NULL);
    NEEDS(job_train, "config", "squad", NULL, silent, NULL, NULL);
    NEEDS(job_predict, "task", NULL, &config, silent, NULL, NULL);
    NEEDS(job_predict, "config", "squad", NULL, silent, NULL, NULL);
    NEEDS(job_evaluate, "task", NULL, &config, silent, NULL, NULL);
    NEEDS(job_evaluate, "config", "squad", NULL, silent, NULL, NULL);
    NEEDS(berth_evaluate_tokens, "dataset_path", NULL, "b", &scoring, &text);
    NEEDS(berth_evaluate_tokens, "predictions_path", "a", NULL, &scoring, &text);
    NEEDS(berth_evaluate_tokens, "scoring", "a", "b", NULL, &text);
    NEEDS(berth_evaluate_tokens, "json", "a", "b", &scoring, NULL);
    NEEDS(berth_evaluate_squad, "dataset_path", NULL, "b", NULL, 0, silent, &text);
    NEEDS(berth_evaluate_squad, "predictions_path", "a", NULL, NULL, 0, silent, &text);
    NEEDS(berth_show_squad, "config", NULL, samples, silent, see, NULL);
    NEEDS(berth_show_squad, "visit", &config, samples, silent, NULL, NULL);
}

// What a job returns if it fails before it begins.
static void results(void **state) {
    static enum berth_status (*const functions[])(
        const char *task, const struct berth_config *config, struct berth_log log,
        const volatile int *stop, struct berth_run_result *result,
        struct berth_error *error) = {job_train, job_predict, job_evaluate};
    const struct berth_config config = config_of(NULL);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        struct berth_run_result result = {.steps = 7, .final_loss = 7, .metric_count = 7};
        assert_int_equal(functions[i]("sqaud", &config, silent, NULL, &result, NULL), BERTH_USAGE);
        assert_true(result.steps == 0 && result.metric_count == 0);
        assert_true(isnan(result.final_loss) && isnan(result.mfu));
    }
}

static void questions(void **state) {
    const struct berth_config config = config_of(NULL);
    const struct berth_question asked = {.question = "who ?", .context = "anna", .capacity = 1};
    struct berth_answerer *model;
    struct berth_answer answer;
    struct berth_answers answers;
    size_t count;
    NEEDS(berth_answerer_open, "config", NULL, silent, &model);
    NEEDS(berth_answerer_open, "model", &config, silent, NULL);
    OPEN(model, "classifier", &model);
    NEEDS(berth_answerer_answer, "model", NULL, "who ?", "anna", &answer, 1, &count);
    NEEDS(berth_answerer_answer, "question", model, NULL, "anna", &answer, 1, &count);
    NEEDS(berth_answerer_answer, "context", model, "who ?", NULL, &answer, 1, &count);
    NEEDS(berth_answerer_answer, "answers", model, "who ?", "anna", NULL, 1, &count);
    NEEDS(berth_answerer_answer, "count", model, "who ?", "anna", &answer, 1, NULL);
    NEEDS(berth_answerer_answer_many, "model", NULL, &asked, 1, &answers);
    NEEDS(berth_answerer_answer_many, "questions", model, NULL, 1, &answers);
    NEEDS(berth_answerer_answer_many, "answers", model, &asked, 1, NULL);
    berth_answerer_close(model);
}

static void classes(void **state) {
    const struct berth_config config = config_of(NULL);
    const struct berth_text one = {"hello", NULL};
    struct berth_classifier *classifier;
    struct berth_text_status status;
    float scores[8];
    const enum berth_score usual = BERTH_SCORE_USUAL;
    NEEDS(berth_classifier_open, "config", NULL, silent, &classifier);
    NEEDS(berth_classifier_open, "classifier", &config, silent, NULL);
    OPEN(classifier, "classifier", &classifier);
    NEEDS(berth_classifier_classify, "classifier", NULL, &one, 1, usual, scores, &status);
    NEEDS(berth_classifier_classify, "texts", classifier, NULL, 1, usual, scores, &status);
    NEEDS(berth_classifier_classify, "scores", classifier, &one, 1, usual, NULL, &status);
    NEEDS(berth_classifier_classify, "statuses", classifier, &one, 1, usual, scores, NULL);
    berth_classifier_close(classifier);
}

static void tags(void **state) {
    const struct berth_config config = config_of(NULL);
    struct berth_tagger *tagger;
    struct berth_tags found;
    struct berth_text_status status;
    NEEDS(berth_tagger_open, "config", NULL, silent, &tagger);
    NEEDS(berth_tagger_open, "tagger", &config, silent, NULL);
    OPEN(tagger, "tags", &tagger);
    NEEDS(berth_tag, "tagger", NULL, "hello", &found);
    NEEDS(berth_tag, "text", tagger, NULL, &found);
    NEEDS(berth_tag, "tags", tagger, "hello", NULL);
    NEEDS(berth_tag_many, "tagger", NULL, words, 1, &found, &status);
    NEEDS(berth_tag_many, "texts", tagger, NULL, 1, &found, &status);
    NEEDS(berth_tag_many, "tags", tagger, words, 1, NULL, &status);
    NEEDS(berth_tag_many, "statuses", tagger, words, 1, &found, NULL);
    berth_tagger_close(tagger);
}

static void embeddings(void **state) {
    const struct berth_config config = config_of(NULL);
    const struct berth_text one = {"hello", NULL};
    const struct berth_embedding how = {BERTH_POOL_MEAN, 1};
    struct berth_encoder *encoder;
    struct berth_text_status status;
    struct berth_hidden_states rows;
    float numbers[64];
    NEEDS(berth_encoder_open, "config", NULL, silent, &encoder);
    NEEDS(berth_encoder_open, "encoder", &config, silent, NULL);
    OPEN(encoder, "classifier", &encoder);
    NEEDS(berth_encoder_embed, "encoder", NULL, words, 1, how, numbers);
    NEEDS(berth_encoder_embed, "texts", encoder, NULL, 1, how, numbers);
    NEEDS(berth_encoder_embed, "embeddings", encoder, words, 1, how, NULL);
    NEEDS(berth_encoder_embed_many, "encoder", NULL, &one, 1, how, numbers, &status);
    NEEDS(berth_encoder_embed_many, "texts", encoder, NULL, 1, how, numbers, &status);
    NEEDS(berth_encoder_embed_many, "embeddings", encoder, &one, 1, how, NULL, &status);
    NEEDS(berth_encoder_embed_many, "statuses", encoder, &one, 1, how, numbers, NULL);
    NEEDS(berth_encoder_hidden_states, "encoder", NULL, &one, 1, &rows);
    NEEDS(berth_encoder_hidden_states, "texts", encoder, NULL, 1, &rows);
    NEEDS(berth_encoder_hidden_states, "states", encoder, &one, 1, NULL);
    berth_encoder_close(encoder);
}

static enum berth_status read_nothing(void *context, const char *const **texts, size_t *count,
                                      struct berth_error *error) {
    return BERTH_OK;
}

static enum berth_status begin_nothing(void *context, struct berth_embedding usual, size_t size,
                                       struct berth_error *error) {
    return BERTH_OK;
}

static enum berth_status put_nothing(void *context, const float *numbers, size_t count,
                                     struct berth_error *error) {
    return BERTH_OK;
}

static enum berth_status end_nothing(void *context, struct berth_error *error) {
    return BERTH_OK;
}

static void embedding_jobs(void **state) {
    const struct berth_config config = config_of(NULL);
    struct berth_embed_job job = {.read = NULL};
    NEEDS(berth_embed, "config", NULL, silent, &job);
    NEEDS(berth_embed, "job", &config, silent, NULL);
    NEEDS(berth_embed, "job->read", &config, silent, &job);
    job.read = read_nothing;
    NEEDS(berth_embed, "job->begin", &config, silent, &job);
    job.begin = begin_nothing;
    NEEDS(berth_embed, "job->put", &config, silent, &job);
    job.put = put_nothing;
    NEEDS(berth_embed, "job->end", &config, silent, &job);
}

static enum berth_status refuse_texts(void *context, const char *const **texts, size_t *count,
                                      struct berth_error *error) {
    strcpy(error->message, "no texts today");
    return error->status = BERTH_NO_INPUT;
}

// The functions of a job can always fill in the error, also for a caller that does not want it.
static void embedding_job_without_error(void **state) {
    const struct berth_config config = config_of(GOLDEN "classifier");
    const struct berth_embed_job job = {.pooling = -1,
                                        .normalize = -1,
                                        .read = refuse_texts,
                                        .begin = begin_nothing,
                                        .put = put_nothing,
                                        .end = end_nothing};
    assert_int_equal(berth_embed(&config, silent, &job, NULL), BERTH_NO_INPUT);
}

static void masked_words(void **state) {
    const struct berth_config config = config_of(NULL);
    struct berth_filler *filler;
    struct berth_filled filled;
    struct berth_text_status status;
    NEEDS(berth_filler_open, "config", NULL, silent, &filler);
    NEEDS(berth_filler_open, "filler", &config, silent, NULL);
    OPEN(filler, "fill", &filler);
    NEEDS(berth_fill, "filler", NULL, words, 1, 1, &filled);
    NEEDS(berth_fill, "texts", filler, NULL, 1, 1, &filled);
    NEEDS(berth_fill, "filled", filler, words, 1, 1, NULL);
    NEEDS(berth_fill_many, "filler", NULL, words, 1, 1, &filled, &status);
    NEEDS(berth_fill_many, "texts", filler, NULL, 1, 1, &filled, &status);
    NEEDS(berth_fill_many, "filled", filler, words, 1, 1, NULL, &status);
    NEEDS(berth_fill_many, "statuses", filler, words, 1, 1, &filled, NULL);
    berth_filler_close(filler);
}

static void tokens(void **state) {
    const struct berth_config config = config_of(GOLDEN "classifier");
    const struct berth_text one = {"hello", NULL}, none = {NULL, NULL};
    struct berth_tokenizer *tokenizer;
    struct berth_token *found;
    struct berth_input_token *input;
    size_t count;
    NEEDS(berth_tokenizer_open, "config", NULL, &tokenizer);
    NEEDS(berth_tokenizer_open, "tokenizer", &config, NULL);
    assert_int_equal(berth_tokenizer_open(&config, &tokenizer, NULL), BERTH_OK);
    NEEDS(berth_tokenizer_encode, "tokenizer", NULL, "a", 1, &found, &count, NULL);
    NEEDS(berth_tokenizer_encode, "text", tokenizer, NULL, 1, &found, &count, NULL);
    NEEDS(berth_tokenizer_encode, "tokens", tokenizer, "a", 1, NULL, &count, NULL);
    NEEDS(berth_tokenizer_encode, "count", tokenizer, "a", 1, &found, NULL, NULL);
    NEEDS(berth_tokenizer_encode_pair, "tokenizer", NULL, &one, 8, &input, &count, NULL);
    NEEDS(berth_tokenizer_encode_pair, "text", tokenizer, NULL, 8, &input, &count, NULL);
    NEEDS(berth_tokenizer_encode_pair, "text->text", tokenizer, &none, 8, &input, &count, NULL);
    NEEDS(berth_tokenizer_encode_pair, "tokens", tokenizer, &one, 8, NULL, &count, NULL);
    NEEDS(berth_tokenizer_encode_pair, "count", tokenizer, &one, 8, &input, NULL, NULL);
    berth_tokenizer_close(tokenizer);
}

static void files(void **state) {
    const struct berth_convert_settings conversion = {.to = "hf"}, none = {.to = NULL};
    NEEDS(berth_inspect, "path", NULL, NULL, NULL, &text);
    NEEDS(berth_inspect_data, "path", NULL, NULL);
    NEEDS(berth_verify, "path", NULL, NULL);
    NEEDS(berth_init_model, "name_or_file", NULL, "b", 1);
    NEEDS(berth_init_model, "output_dir", "tiny", NULL, 1);
    NEEDS(berth_convert, "input", NULL, "b", &conversion, silent);
    NEEDS(berth_convert, "output_dir", "a", NULL, &conversion, silent);
    NEEDS(berth_convert, "settings", "a", "b", NULL, silent);
    NEEDS(berth_convert, "settings->to", "a", "b", &none, silent);
    NEEDS(berth_compare, "a", NULL, "b", 0, NULL, NULL, NULL);
    NEEDS(berth_compare, "b", "a", NULL, 0, NULL, NULL, NULL);
    NEEDS(berth_find_data, "name", NULL, "dev", &text);
    NEEDS(berth_find_data, "split", "squad", NULL, &text);
    NEEDS(berth_find_data, "path", "squad", "dev", NULL);
    NEEDS(berth_find_model, "name_or_path", NULL, &text);
    NEEDS(berth_find_model, "path", "a/b", NULL);
}

static void data_for_pretraining(void **state) {
    const struct berth_config config = config_of(NULL);
    const struct berth_prepare_input input = {.name = NULL};
    const struct berth_vocab_settings vocabulary = {.output = NULL};
    NEEDS(berth_prepare, "config", NULL, &input, silent, NULL, NULL);
    NEEDS(berth_prepare, "input", &config, NULL, silent, NULL, NULL);
    NEEDS(berth_pack, "config", NULL, "a", "b", silent, NULL, NULL);
    NEEDS(berth_pack, "input_dir", &config, NULL, "b", silent, NULL, NULL);
    NEEDS(berth_pack, "output_dir", &config, "a", NULL, silent, NULL, NULL);
    NEEDS(berth_vocab_train, "config", NULL, &vocabulary, silent, NULL, NULL);
    NEEDS(berth_vocab_train, "settings", &config, NULL, silent, NULL, NULL);
}

// What a caller frees after any status, although it has not initialised it.
static void results_of_refused_calls(void **state) {
    struct berth_answers answers;
    struct berth_tags found;
    struct berth_hidden_states rows;
    struct berth_filled filled[2];
    memset(&answers, 1, sizeof answers);
    memset(&found, 1, sizeof found);
    memset(&rows, 1, sizeof rows);
    memset(filled, 1, sizeof filled);
    assert_int_equal(berth_answerer_answer_many(NULL, NULL, 1, &answers, NULL), BERTH_USAGE);
    assert_null(answers.answers);
    assert_int_equal(berth_tag_many(NULL, NULL, 1, &found, NULL, NULL), BERTH_USAGE);
    assert_null(found.words);
    assert_int_equal(berth_encoder_hidden_states(NULL, NULL, 1, &rows, NULL), BERTH_USAGE);
    assert_null(rows.rows);
    assert_int_equal(berth_fill(NULL, NULL, 1, 1, &filled[0], NULL), BERTH_USAGE);
    assert_int_equal(berth_fill_many(NULL, NULL, 1, 1, &filled[1], NULL, NULL), BERTH_USAGE);
    assert_true(filled[0].words == NULL && filled[1].words == NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings),
        cmocka_unit_test(program),
        cmocka_unit_test(jobs),
        cmocka_unit_test(results),
        cmocka_unit_test(questions),
        cmocka_unit_test(classes),
        cmocka_unit_test(tags),
        cmocka_unit_test(embeddings),
        cmocka_unit_test(embedding_jobs),
        cmocka_unit_test(embedding_job_without_error),
        cmocka_unit_test(masked_words),
        cmocka_unit_test(results_of_refused_calls),
        cmocka_unit_test(tokens),
        cmocka_unit_test(files),
        cmocka_unit_test(data_for_pretraining),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
