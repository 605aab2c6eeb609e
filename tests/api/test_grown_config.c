// SPDX-License-Identifier: Apache-2.0
// Tests that struct berth_config may grow: this file and the library's option table are compiled
// with a berth.h in which it has one more field, `planted`, at its end (CMakeLists.txt);
// grown_config_program.c, the program, is compiled with the real one.
#include "core/harness.h"
#include "grown_config_program.h"
#include "task/arguments.h"

#include <stdlib.h>
#include <string.h>

static void an_older_program_gets_defaults(void **state) {
    struct berth_error error;
    struct berth_config whole;
    const struct berth_config *config = program_config();
    assert_true(config->size < sizeof whole);
    assert_true(program_guard_is_intact());
    assert_int_equal(option_complete(&config, &whole, &error), BERTH_OK);
    assert_ptr_equal(config, &whole);
    assert_int_equal(whole.size, sizeof whole);
    assert_int_equal(whole.planted, 0);
    assert_int_equal(whole.max_seq_length, 77);
    assert_string_equal(whole.model_name_or_path, "folder");
    assert_true(option_is_given(&whole, option_find("max_seq_length")));
    assert_int_equal(option_check(config, &error), BERTH_OK);
    assert_int_equal(whole.doc_stride, 128); // a default
}

static void a_program_of_this_version_is_not_copied(void **state) {
    struct berth_config own, whole;
    const struct berth_config *config = &own;
    berth_config_init(&own);
    assert_int_equal(own.size, sizeof own);
    assert_int_equal(option_complete(&config, &whole, NULL), BERTH_OK);
    assert_ptr_equal(config, &own);
}

static void a_newer_program_may_not_set_unknown_fields(void **state) {
    struct {
        struct berth_config config;
        int64_t newer;
    } program;
    struct berth_config whole;
    struct berth_error error;
    const struct berth_config *config = &program.config;
    program.newer = 5;
    berth_config_init_size(&program.config, sizeof program);
    assert_int_equal(program.newer, 0);
    program.config.max_seq_length = 99;
    assert_int_equal(option_complete(&config, &whole, &error), BERTH_OK);
    assert_int_equal(config->max_seq_length, 99);
    assert_int_equal(config->size, sizeof whole);
    program.newer = 1;
    config = &program.config;
    assert_int_equal(option_complete(&config, &whole, &error), BERTH_USAGE);
    assert_non_null(strstr(error.message, "does not have"));
}

static void a_struct_that_was_not_initialised_is_refused(void **state) {
    struct berth_config own = {.max_seq_length = 5}, whole;
    const struct berth_config *config = &own;
    struct berth_error error;
    assert_int_equal(option_complete(&config, &whole, &error), BERTH_USAGE);
    assert_non_null(strstr(error.message, "berth_config_init"));
    assert_int_equal(berth_config_set(&own, "max_seq_length", "7", &error), BERTH_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_program_gets_defaults),
        cmocka_unit_test(a_program_of_this_version_is_not_copied),
        cmocka_unit_test(a_newer_program_may_not_set_unknown_fields),
        cmocka_unit_test(a_struct_that_was_not_initialised_is_refused),
    };
    return cmocka_run_group_tests_name("grown config", tests, NULL, NULL);
}
