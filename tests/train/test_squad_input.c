// SPDX-License-Identifier: Apache-2.0
// Tests data sets for runs with the feature cache: used if it matches, replaced if it does not;
// failing to write it does not fail the run.
#include "core/file.h"
#include "core/harness.h"
#include "core/memory.h"
#include "data/squad_fixture.h"
#include "train/tasks/squad_input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct heard {
    char notes[4096], warnings[4096];
};

static void record_message(void *context, const struct berth_record *record) {
    struct heard *heard = context;
    char *to = record->kind == BERTH_RECORD_WARNING ? heard->warnings : heard->notes;
    size_t used = strlen(to);
    snprintf(to + used, sizeof heard->notes - used, "%s\n", record->text);
}

static struct heard heard;
static struct tokenizer *tokenizer;

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

static struct squad_input open_input(const struct berth_config *config, int training) {
    struct squad_input input;
    struct berth_error error = {0};
    struct berth_log log = {record_message, &heard};
    heard = (struct heard){0};
    struct squad_input_args args = {.path = fixture_source("tests/data/squad/v1.json"),
                                    .training = training,
                                    .config = config,
                                    .tokenizer = tokenizer,
                                    .log = &log};
    if (squad_input_open(&input, &args, &error) != BERTH_OK) {
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
    return strstr(heard.notes, "features from") != NULL;
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
        assert_true((strstr(heard.notes, "; questions left out when they were built: 1") != NULL) ==
                    training);
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
        assert_null(strstr(heard.warnings, "not cached"));
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
        assert_non_null(strstr(heard.notes, says[i]));
        assert_non_null(strstr(heard.notes, "; rebuilding the features"));
        assert_int_equal(open_and_sum(&config, 1), plain);
        assert_true(came_from_cache());
    }
    memory_free(bytes);
    memory_free(path);
    assert_int_equal(dir_remove("damaged", NULL), BERTH_OK);
}

static void a_cache_that_cannot_be_written_is_a_warning(void **state) {
    struct berth_config config = config_with("a-file/cache");
    assert_int_equal(file_write("a-file", "x", 1, NULL), BERTH_OK);
    uint32_t plain = open_and_sum(&config, 1);
    assert_non_null(strstr(heard.warnings, "the features are not cached: "));
    assert_int_equal(file_remove("a-file", NULL), BERTH_OK);
    // A disk that is full from some call on: reading the data set must go well, then all may fail.
    config.cache_dir = "full";
    int warned = 0;
    for (uint64_t n = 1; n < 80; n++) {
        struct squad_input input;
        struct berth_error error = {0};
        struct berth_log log = {record_message, &heard};
        heard = (struct heard){0};
        struct squad_input_args args = {.path = fixture_source("tests/data/squad/v1.json"),
                                        .training = 1,
                                        .config = &config,
                                        .tokenizer = tokenizer,
                                        .log = &log};
        file_fail_at(n, ENOSPC);
        enum berth_status status = squad_input_open(&input, &args, &error);
        file_fail_at(0, 0);
        if (status == BERTH_OK) {
            assert_int_equal(sum_of(&input), plain);
            warned += strstr(heard.warnings, "not cached") != NULL;
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
        cmocka_unit_test(keeps_features_for_the_next_run),
        cmocka_unit_test(replaces_what_does_not_fit),
        cmocka_unit_test(a_cache_that_cannot_be_written_is_a_warning),
        cmocka_unit_test(a_plan_leaves_nothing_behind),
    };
    char folder[] = "input.XXXXXX"; // its own, because tests run concurrently
    if (mkdtemp(folder) == NULL || chdir(folder) != 0) {
        return 1;
    }
    tokenizer = fixture_tokenizer(fixture_source("tests/data/squad/vocab.txt"));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tokenizer_close(tokenizer);
    return chdir("..") != 0 || rmdir(folder) != 0 ? 1 : failed;
}
