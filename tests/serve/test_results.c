// SPDX-License-Identifier: Apache-2.0
// Results that are written while memory runs out: complete, or known to be incomplete.
#include "core/harness.h"
#include "core/memory.h"
#include "serve/page.h"
#include "serve/state.h"

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

static void write_text(struct json_line *line, const struct instance *instance,
                       const struct item *own) {
    task_put_text(&(struct tensor_writer){.line = line}, instance, own);
}

static void test_a_result_within_a_text(void **state) {
    (void)state;
    assert_all_or_nothing(write_text);
}

// As JSON, which is copied after it, so that the comparison includes it.
static void write_binary_text(struct json_line *line, const struct instance *instance,
                              const struct item *own) {
    struct buffer binary = {0};
    task_put_text(&(struct tensor_writer){.line = line, .binary = &binary}, instance, own);
    buffer_put_byte(&binary, '\0');
    line->failed |= binary.failed;
    json_line_text(line, NULL, binary.failed ? NULL : binary.bytes + 4);
    buffer_done(&binary);
}

static void test_a_binary_result(void **state) {
    (void)state;
    assert_all_or_nothing(write_binary_text);
}

static void test_a_reply_with_binary_tensors(void **state) {
    (void)state;
    const struct buffer tensors = {.bytes = (char[]){1, 0, 2}, .length = 3};
    int failed = 1;
    for (uint64_t at = 1; failed; at++) {
        struct json_line line = {0};
        memory_fail_at(at, 0);
        json_line_integer(&line, NULL, 7);
        struct http_reply reply = reply_tensors(&line, &tensors);
        failed = memory_fail_at(0, 0) >= at;
        assert_true(reply.status == (failed ? 503 : 200));
        assert_true(failed || (reply.json_length == 2 && reply.length == 5 &&
                               memcmp(reply.body, "7\n\1\0\2", 5) == 0));
        memory_free(reply.body);
    }
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
        cmocka_unit_test(test_a_binary_result),
        cmocka_unit_test(test_a_reply_with_binary_tensors),
        cmocka_unit_test(test_a_result_on_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
