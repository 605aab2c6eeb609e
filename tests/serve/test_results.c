// SPDX-License-Identifier: Apache-2.0
// Results that are written while memory runs out: complete, or known to be incomplete.
#include "core/harness.h"
#include "core/memory.h"
#include "serve/page.h"

#include <string.h>

static struct berth_entity entities[] = {{.start = 4, .end = 9, .type = "PER", .score = 0.5}};
static const struct instance tagger = {.task = &served_tokens};
static struct item item = {.texts = {"for Hilda and her long, long list of words", NULL},
                           .tags = {.entities = entities, .entity_count = 1}};

// With each allocation failing in turn, alone and with all later ones.
static void assert_all_or_nothing(void (*write)(struct json_line *line,
                                                const struct instance *instance,
                                                const struct item *item)) {
    struct json_line whole = {0};
    write(&whole, &tagger, &item);
    assert_non_null(strstr(whole.text, "Hilda"));
    for (int persistent = 0; persistent < 2; persistent++) {
        int failed = 1;
        for (uint64_t at = 1; failed; at++) {
            struct json_line line = {0};
            memory_fail_at(at, persistent);
            write(&line, &tagger, &item);
            failed = memory_fail_at(0, 0) >= at;
            assert_true(line.failed || strcmp(line.text, whole.text) == 0);
            json_line_done(&line);
        }
    }
    json_line_done(&whole);
}

static void test_a_word_that_cannot_be_copied(void **state) {
    (void)state;
    assert_all_or_nothing(served_tokens.write);
}

static void test_a_result_within_a_text(void **state) {
    (void)state;
    assert_all_or_nothing(task_write_text);
}

static void test_a_result_on_the_page(void **state) {
    (void)state;
    const char *const specs[] = {"tags=."};
    const struct berth_config config = {.seed = 0};
    const struct call call = {.instance = &tagger, .items = &item, .count = 1};
    struct models *models;
    int failed = 1;
    assert_int_equal(models_open(specs, 1, &config, &models, NULL), BERTH_OK);
    for (uint64_t at = 1; failed; at++) {
        memory_fail_at(at, 0);
        struct http_reply reply = page_make(models, &call);
        failed = memory_fail_at(0, 0) >= at;
        assert_true(reply.status == 503 || strstr(reply.body, "&quot;end&quot;:9}]") != NULL);
        memory_free(reply.body);
    }
    models_close(models);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_word_that_cannot_be_copied),
        cmocka_unit_test(test_a_result_within_a_text),
        cmocka_unit_test(test_a_result_on_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
