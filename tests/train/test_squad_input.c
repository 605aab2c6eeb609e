// SPDX-License-Identifier: Apache-2.0
// Tests the data sets of runs with the feature cache: it is used if it matches and replaced if it
// does not, and a run does not fail because it cannot be written.
#include "core/scratch.h"
#include "data/squad_fixture.h"
#include "train/tasks/squad_input.h"

#include <errno.h>

struct messages {
    char notes[4096], warnings[4096];
};

static void record_message(void *context, const struct berth_record *record) {
    struct messages *all = context;
    char *to = record->kind == BERTH_RECORD_WARNING ? all->warnings : all->notes;
    size_t used = strlen(to);
    snprintf(to + used, sizeof all->notes - used, "%s\n", record->text);
}

static struct messages messages;
static struct tokenizer *tokenizer;

// The names of the caches' folders are relative to the test's own.
static int set_up(void **state) {
    return scratch_setup(state) != 0 || chdir(scratch_folder) != 0;
}

static int tear_down(void **state) {
    return chdir("/") != 0 || scratch_teardown(state) != 0;
}

#define INPUT_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static struct berth_config config_with(const char *folder) {
    struct berth_config config;
    berth_config_init(&config);
    config.max_seq_length = 32;
    config.doc_stride = 8;
    config.max_query_length = 6;
    config.threads = 1;
    config.cache_dir = folder;
    return config;
}

static enum berth_status try_input(const struct berth_config *config, int training,
                                   struct squad_input *input, struct berth_error *error) {
    const struct berth_log log = {record_message, &messages};
    const struct squad_input_args args = {.path = fixture_source("tests/data/squad/v1.json"),
                                          .training = training,
                                          .config = config,
                                          .tokenizer = tokenizer,
                                          .log = &log};
    messages = (struct messages){0};
    return squad_input_open(input, &args, error);
}

static struct squad_input open_input(const struct berth_config *config, int training) {
    struct squad_input input;
    struct berth_error error = {0};
    if (try_input(config, training, &input, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(input.examples, 7);
    return input;
}

// The features of an input as one number.
static uint32_t sum_of(const struct squad_input *input) {
    uint32_t crc = 0;
    for (size_t i = 0; i < input->features.count; i++) {
        const struct squad_feature *feature = &input->features.features[i];
        const int32_t fields[4] = {feature->example, feature->length, feature->start, feature->end};
        crc = fixture_crc(crc, fields, sizeof fields);
    }
    size_t tokens = input->features.token_count;
    crc = fixture_crc(crc, input->features.ids, tokens * sizeof(int32_t));
    return fixture_crc(crc, input->features.type_ids, tokens);
}

static uint32_t open_and_sum(const struct berth_config *config, int training) {
    struct squad_input input = open_input(config, training);
    uint32_t sum = sum_of(&input);
    squad_input_done(&input);
    return sum;
}

static int came_from_cache(void) {
    return strstr(messages.notes, "features from") != NULL;
}

// The path of the one file in a folder.
static char *only_file(const char *folder) {
    char **names;
    assert_int_equal(dir_list(folder, &names, NULL), BERTH_OK);
    assert_non_null(names[0]);
    assert_null(names[1]);
    char *path = path_join(folder, names[0]);
    memory_free(names);
    return path;
}

static void names_questions_that_are_cut(void **state) {
    (void)state;
    struct berth_config config = config_with(NULL);
    config.max_query_length = 1;
    open_and_sum(&config, 0);
    assert_non_null(strstr(messages.notes, "v1.json: 7 questions are cut to max_query_length (1)"));
    config.max_query_length = 100;
    config.max_seq_length = 128;
    open_and_sum(&config, 0);
    assert_null(strstr(messages.notes, "are cut"));
}

static void keeps_features_for_the_next_run(void **state) {
    for (int training = 0; training <= 1; training++) {
        struct berth_config config = config_with(NULL);
        uint32_t plain = open_and_sum(&config, training);
        config.cache_dir = "kept";
        assert_int_equal(open_and_sum(&config, training), plain);
        assert_false(came_from_cache());
        assert_int_equal(open_and_sum(&config, training), plain);
        assert_true(came_from_cache());
        // The answer that could not be found is reported again.
        assert_true((strstr(messages.notes, "; questions left out when they were built: 1") !=
                     NULL) == training);
        config.skip_cache = 1;
        assert_int_equal(open_and_sum(&config, training), plain);
        assert_false(came_from_cache());
        config.skip_cache = 0;
        config.overwrite_cache = 1;
        assert_int_equal(open_and_sum(&config, training), plain);
        assert_false(came_from_cache());
        config.overwrite_cache = 0;
        config.doc_stride = 9; // other windows
        open_and_sum(&config, training);
        assert_false(came_from_cache());
        assert_null(strstr(messages.warnings, "not cached"));
        assert_int_equal(dir_remove("kept", NULL), BERTH_OK);
    }
}

static void replaces_what_does_not_fit(void **state) {
    struct berth_config config = config_with("damaged");
    uint32_t plain = open_and_sum(&config, 1);
    char *path = only_file("damaged"), *bytes;
    size_t length;
    assert_int_equal(file_read(path, 1 << 20, &bytes, &length, NULL), BERTH_OK);
    static const char *const says[] = {"wrong checksum", "too short", "not a feature cache"};
    for (size_t i = 0; i < 3; i++) {
        bytes[i == 2 ? 0 : length / 2] ^= 4;
        assert_int_equal(file_write(path, bytes, i == 1 ? 50 : length, NULL), BERTH_OK);
        bytes[i == 2 ? 0 : length / 2] ^= 4;
        assert_int_equal(open_and_sum(&config, 1), plain);
        assert_non_null(strstr(messages.notes, says[i]));
        assert_non_null(strstr(messages.notes, "; rebuilding the features"));
        assert_int_equal(open_and_sum(&config, 1), plain);
        assert_true(came_from_cache());
    }
    memory_free(bytes);
    memory_free(path);
}

static void a_cache_that_cannot_be_written_is_a_warning(void **state) {
    struct berth_config config = config_with("a-file/cache");
    assert_int_equal(file_write("a-file", "x", 1, NULL), BERTH_OK);
    uint32_t plain = open_and_sum(&config, 1);
    assert_non_null(strstr(messages.warnings, "the features are not cached: "));
    // One call finds the disk full. An error is of reading the data set, never of the cache.
    config.cache_dir = "full";
    int warned = 0;
    for (uint64_t n = 1; n < 80; n++) {
        struct squad_input input;
        struct berth_error error = {0};
        file_fail_at(n, ENOSPC);
        enum berth_status status = try_input(&config, 1, &input, &error);
        file_fail_at(0, 0);
        if (status == BERTH_OK) {
            assert_int_equal(sum_of(&input), plain);
            warned += strstr(messages.warnings, "not cached") != NULL;
            squad_input_done(&input);
        } else {
            assert_non_null(strstr(error.message, "v1.json")); // the data set itself
        }
        assert_int_equal(dir_remove("full", NULL), BERTH_OK);
    }
    assert_true(warned >= 4);
}

static void a_plan_leaves_nothing_behind(void **state) {
    struct berth_config config = config_with("dry");
    config.dry_run = 1;
    open_and_sum(&config, 1);
    assert_false(dir_exists("dry"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        INPUT_TEST(names_questions_that_are_cut),
        INPUT_TEST(keeps_features_for_the_next_run),
        INPUT_TEST(replaces_what_does_not_fit),
        INPUT_TEST(a_cache_that_cannot_be_written_is_a_warning),
        INPUT_TEST(a_plan_leaves_nothing_behind),
    };
    tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tokenizer_close(tokenizer);
    return failed;
}
