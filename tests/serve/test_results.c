// SPDX-License-Identifier: Apache-2.0
// Results that are written while memory runs out: complete, or known to be incomplete.
#include "core/harness.h"
#include "core/memory.h"
#include "serve/page.h"
#include "serve/protocols.h"
#include "serve/state.h"
#include "settings/settings.h"

#include <string.h>

extern const struct task_row row_tag;

static const struct task_model tagger = {.task = &row_tag};
static struct berth_item person = {.text = "PER", .score = 0.5, .start = 4, .end = 9, .id = -1};
static struct task_text item = {.texts = {"for Hilda and her long, long list of words", NULL},
                                .items = &person,
                                .item_count = 1};

// With each allocation failing in turn, alone and with all later ones.
static void assert_all_or_nothing(void (*write)(struct json_line *line)) {
    struct json_line whole = {0};
    write(&whole);
    assert_non_null(strstr(whole.text, "Hilda"));
    for (int persistent = 0; persistent < 2; persistent++) {
        int failed = 1;
        for (uint64_t at = 1; failed; at++) {
            struct json_line line = {0};
            memory_fail_at(at, persistent);
            write(&line);
            failed = memory_fail_at(0, 0) >= at;
            assert_true(line.failed || strcmp(line.text, whole.text) == 0);
            json_line_done(&line);
        }
    }
    json_line_done(&whole);
}

static void write_row(struct json_line *line) {
    row_tag.write(line, &tagger, &item);
}

static void test_a_word_that_cannot_be_copied(void **state) {
    (void)state;
    assert_all_or_nothing(write_row);
}

// A reply of KServe's protocol, whose tensor has the result as a text.
static void write_reply(struct json_line *line, json *document) {
    struct call call = {.document = document,
                        .instance = &tagger,
                        .model_name = "tags",
                        .items = &item,
                        .count = 1};
    protocol_kserve.write(line, &call);
    line->failed |= call.binary.failed;
    if (call.binary.length > 0) { // copied after the JSON, so that the comparison includes it
        char *text = memory_string_of(call.binary.bytes + 4, call.binary.length - 4);
        line->failed |= text == NULL;
        json_line_text(line, NULL, text);
        memory_free(text);
    }
    buffer_done(&call.binary);
}

static json *as_text, *as_binary;

static void write_text(struct json_line *line) {
    write_reply(line, as_text);
}

static void write_binary_text(struct json_line *line) {
    write_reply(line, as_binary);
}

static void test_a_result_within_a_text(void **state) {
    (void)state;
    assert_int_equal(json_read_memory("a request", "{}", 2, &as_text, NULL), BERTH_OK);
    assert_all_or_nothing(write_text);
    json_free(as_text);
}

static void test_a_binary_result(void **state) {
    static const char request[] = "{\"parameters\": {\"binary_data_output\": true}}";
    (void)state;
    assert_int_equal(json_read_memory("a request", request, strlen(request), &as_binary, NULL),
                     BERTH_OK);
    struct json_line line = {0};
    write_binary_text(&line);
    assert_non_null(strstr(line.text, "binary_data_size"));
    json_line_done(&line);
    assert_all_or_nothing(write_binary_text);
    json_free(as_binary);
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
    const struct settings config = {.run.seed = 0};
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
