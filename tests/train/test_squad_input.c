// SPDX-License-Identifier: Apache-2.0
// Tests the data sets of runs: what is noted about their questions, and what strict_answers
// refuses.
#include "core/log.h"
#include "core/scratch.h"
#include "data/squad_fixture.h"
#include "settings/settings.h"
#include "task/squad_input.h"

static char notes[4096];

static void record_note(void *context, const struct berth_record *record) {
    (void)context;
    size_t used = strlen(notes);
    const char *detail = log_detail_text(record);
    snprintf(notes + used, sizeof notes - used, "%s\n", detail != NULL ? detail : record->text);
}

static struct tokenizer *tokenizer;

static struct settings short_windows(void) {
    struct settings config;
    settings_init(&config);
    config.features.max_seq_length = 32;
    config.features.doc_stride = 8;
    config.features.max_query_length = 6;
    config.machine.threads = 1;
    return config;
}

static enum berth_status open_input(struct squad_input *input, const char *path,
                                    const struct settings *config, int training,
                                    struct berth_error *error) {
    const struct berth_log log = {record_note, NULL};
    const struct squad_input_args args = {
        .path = path, .training = training, .config = config, .tokenizer = tokenizer, .log = &log};
    notes[0] = '\0';
    return squad_input_open(input, &args, error);
}

static void names_questions_that_are_cut(void **state) {
    (void)state;
    const char *path = fixture_source("tests/data/squad/v1.json");
    struct squad_input input;
    struct settings config = short_windows();
    config.features.max_query_length = 1;
    assert_int_equal(open_input(&input, path, &config, 0, NULL), BERTH_OK);
    assert_non_null(strstr(notes, "v1.json: 7 questions are cut to max_query_length (1)"));
    squad_input_done(&input);
    config.features.max_query_length = 100;
    config.features.max_seq_length = 128;
    assert_int_equal(open_input(&input, path, &config, 0, NULL), BERTH_OK);
    assert_null(strstr(notes, "are cut"));
    squad_input_done(&input);
}

#define QUESTION(id, start)                                                                        \
    "{\"id\": \"" id "\", \"question\": \"the?\", \"answers\": [{\"text\": \"old\", "              \
    "\"answer_start\": " start "}]}"

// One of two answers is elsewhere in the context.
static void leaves_out_or_refuses_a_misplaced_answer(void **state) {
    (void)state;
    const char *path = scratch("moved.json");
    struct squad_input input;
    struct berth_error error = {0};
    struct settings config = short_windows();
    scratch_write(
        "moved.json",
        "{\"data\": [{\"title\": \"t\", \"paragraphs\": [{\"context\": \"the old bridge\", "
        "\"qas\": [" QUESTION("q1", "4") ", " QUESTION("q2", "9") "]}]}]}");
    assert_int_equal(open_input(&input, path, &config, 1, NULL), BERTH_OK);
    assert_int_equal(input.dataset.count, 2);
    assert_int_equal(input.features.skipped_examples, 1);
    assert_non_null(strstr(notes, "moved.json: 2 questions, 1 features, "));
    squad_input_done(&input);
    config.features.strict_answers = 1;
    assert_int_equal(open_input(&input, path, &config, 1, &error), BERTH_BAD_DATA);
    assert_non_null(strstr(error.message, "moved.json"));
    assert_non_null(strstr(error.message, "q2"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(names_questions_that_are_cut),
        SCRATCH_TEST(leaves_out_or_refuses_a_misplaced_answer),
    };
    tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tokenizer_close(tokenizer);
    return failed;
}
