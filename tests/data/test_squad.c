// SPDX-License-Identifier: Apache-2.0
// The SQuAD reader: every layout, the message for each kind of bad file, real files.
#include "core/harness.h"
#include "core/json_memory.h"
#include "core/memory.h"
#include "data/squad_fixture.h"

#include <stdio.h>
#include <string.h>

#define CONTEXT "\"context\":\"The caf\xC3\xA9 opened in 1998.\""
#define NESTED(qas)                                                                                \
    "{\"version\":\"1.1\",\"data\":[{\"title\":\"Caf\\u00e9\",\"paragraphs\":[{" CONTEXT           \
    ",\"qas\":[" qas "]}]}]}"
#define QUESTION(answers) "{\"id\":\"q1\",\"question\":\"When?\",\"answers\":[" answers "]}"
#define FLAT(id)                                                                                   \
    "{\"id\":\"" id "\",\"title\":\"T\"," CONTEXT ",\"question\":\"When?\",\"answers\":"           \
    "{\"text\":[\"1998\"],\"answer_start\":[19]}}"

static void assert_says(const char *message, const char *part) {
    if (strstr(message, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", message, part);
    }
}

static void reads_nested_files(void **state) {
    struct squad_dataset set = fixture_dataset_of(NESTED(
        QUESTION("{\"text\":\"1998\",\"answer_start\":19}") ","
                                                            "{\"id\":\"q2\",\"question\":"
                                                            "\"What\\u003f\",\"answers\":[]}"));
    assert_int_equal(set.count, 2);
    assert_string_equal(set.name, "set.json");
    assert_string_equal(set.examples[0].title, "Caf\xC3\xA9");
    assert_string_equal(set.examples[0].answers[0].text, "1998");
    assert_int_equal(set.examples[0].answers[0].start, 19);
    assert_int_equal(set.examples[0].context_length, strlen(set.examples[0].context));
    assert_ptr_equal(set.examples[0].context, set.examples[1].context);
    assert_string_equal(set.examples[1].question, "What?");
    assert_int_equal(set.examples[1].answer_count, 0);
    squad_dataset_done(&set);
}

static void reads_version_2(void **state) {
    struct squad_dataset set = fixture_dataset_of(
        NESTED("{\"id\":\"q1\",\"question\":\"Why?\",\"is_impossible\":true,\"answers\":[],"
               "\"plausible_answers\":[{\"text\":\"x\",\"answer_start\":99}]}"));
    assert_int_equal(set.version_2, 1);
    assert_int_equal(set.examples[0].impossible, 1);
    squad_dataset_done(&set);
}

// The rules of v2.0 are those of a file that says so, or that has questions with an empty array of
// answers beside questions with answers. Without either such an array tells nothing.
static void finds_the_version(void **state) {
#define SAYS(version, questions)                                                                   \
    "{\"version\":" version ",\"data\":[{\"paragraphs\":[{" CONTEXT ",\"qas\":[" questions "]}]}]" \
    "}"
#define ANSWERED QUESTION("{\"text\":\"1998\",\"answer_start\":19}")
#define EMPTY "{\"id\":\"e\",\"question\":\"?\",\"answers\":[]}"
#define MISSING "{\"id\":\"m\",\"question\":\"?\"}"
    static const struct {
        const char *text;
        int version_2, impossible, references; // impossible: of the first question
    } cases[] = {
        {SAYS("\"1.1\"", ANSWERED), 0, 0, 1},
        {SAYS("\"v2.0\"", ANSWERED), 1, 0, 1},
        {SAYS("\"2.0\"", ANSWERED), 1, 0, 1},
        {SAYS("\"\"", ANSWERED), 0, 0, 1},
        {SAYS("2", ANSWERED), 0, 0, 1},
        {SAYS("\"v2.0\"", EMPTY), 1, 1, 1},
        {SAYS("\"v2.0\"", MISSING), 1, 0, 0},
        {SAYS("\"1.1\"", EMPTY), 0, 0, 0},
        {SAYS("\"1.1\"", MISSING), 0, 0, 0},
        {SAYS("\"1.1\"", EMPTY "," ANSWERED), 1, 0, 1},
        {SAYS("\"1.1\"", MISSING "," ANSWERED), 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct squad_dataset set = fixture_dataset_of(cases[i].text);
        assert_int_equal(set.version_2, cases[i].version_2);
        assert_int_equal(set.examples[0].impossible, cases[i].impossible);
        assert_int_equal(squad_has_references(&set), cases[i].references);
        squad_dataset_done(&set);
    }
}

static void takes_numbers_as_ids(void **state) {
    struct squad_dataset set =
        fixture_dataset_of(NESTED("{\"id\":5,\"question\":\"?\"},{\"id\":-12,\"question\":\"?\"}"));
    assert_string_equal(set.examples[0].id, "5");
    assert_string_equal(set.examples[1].id, "-12");
    squad_dataset_done(&set);
}

// An empty object of answers means an impossible question, unless the question says otherwise.
static void flat_records_may_say_that_there_is_an_answer(void **state) {
    static const struct {
        const char *member;
        int impossible;
    } cases[] = {{"", 1}, {",\"is_impossible\":true", 1}, {",\"is_impossible\":false", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "[{\"id\":\"a\",\"question\":\"?\",\"context\":\"c\","
                 "\"answers\":{\"text\":[],\"answer_start\":[]}%s}]",
                 cases[i].member);
        struct squad_dataset set = fixture_dataset_of(text);
        assert_int_equal(set.examples[0].impossible, cases[i].impossible);
        assert_int_equal(set.version_2, 1);
        squad_dataset_done(&set);
    }
}

static void check_flat(const char *text, size_t count) {
    struct squad_dataset set = fixture_dataset_of(text);
    assert_int_equal(set.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(set.examples[i].answer_count, 1);
        assert_string_equal(set.examples[i].answers[0].text, "1998");
        assert_int_equal(set.examples[i].answers[0].start, 19);
        assert_string_equal(set.examples[i].title, "T");
        assert_ptr_equal(set.examples[i].context, set.examples[0].context);
    }
    squad_dataset_done(&set);
}

static void reads_flat_records(void **state) {
    check_flat("[" FLAT("a") "," FLAT("b") "]", 2);
    check_flat("{\"version\":\"x\",\"data\":[" FLAT("a") "," FLAT("b") "]}", 2);
    check_flat(FLAT("a") "\n" FLAT("b") "\n\n  " FLAT("c") "\r\n", 3);
    check_flat(FLAT("a") "\r" FLAT("b") "\r\r" FLAT("c") "\r", 3); // Python's lines
    check_flat(FLAT("a"), 1);
    check_flat(" \n" FLAT("a") "\n", 1);
    struct squad_dataset set =
        fixture_dataset_of("[{\"id\":\"a\"," CONTEXT ",\"question\":\"?\",\"answers\":{\"text\":[],"
                           "\"answer_start\":[]}}]");
    assert_int_equal(set.examples[0].impossible, 1);
    assert_int_equal(set.version_2, 1);
    assert_string_equal(set.examples[0].title, "");
    squad_dataset_done(&set);
}

static void keeps_the_first_examples(void **state) {
    static const char *const texts[] = {
        "[" FLAT("a") "," FLAT("b") "," FLAT("c") "]", FLAT("a") "\n" FLAT("b") "\n{broken\n",
        NESTED("{\"id\":\"a\",\"question\":\"?\"},{\"id\":\"b\",\"question\":\"?\"},"
               "{\"id\":\"c\",\"question\":\"?\"}")};
    for (size_t i = 0; i < 3; i++) {
        struct squad_dataset set;
        struct berth_error error;
        assert_int_equal(squad_read_memory("x", texts[i], strlen(texts[i]), 2, &set, &error), 0);
        assert_int_equal(set.count, 2);
        assert_string_equal(set.examples[1].id, "b");
        squad_dataset_done(&set);
    }
}

// The message of squad_refuse_misplaced for the file, which the reader accepts.
static const char *complaint(const char *text) {
    static struct berth_error error;
    struct squad_dataset set = fixture_dataset_of(text);
    assert_int_equal(set.misplaced, 1);
    assert_int_equal(squad_refuse_misplaced(&set, &error), BERTH_BAD_DATA);
    squad_dataset_done(&set);
    return error.message;
}

static void marks_misplaced_answers(void **state) {
    assert_string_equal(
        complaint(NESTED(QUESTION("{\"text\":\"1998\",\"answer_start\":18}"))),
        "set.json: data[0].paragraphs[0].qas[0].answers[0]: question \"q1\": the answer "
        "\"1998\" is not in its context at character 18: found \" 199\"; set "
        "answer_start to 19");
    assert_says(complaint(NESTED(QUESTION("{\"text\":\"1999\",\"answer_start\":20}"))),
                "found \"998.\"; the context does not contain that text");
    assert_says(complaint(NESTED(QUESTION("{\"text\":\"1998\",\"answer_start\":99}"))),
                "the context has 24 characters");
    assert_says(complaint(NESTED(QUESTION("{\"text\":\"1998\",\"answer_start\":-1}"))),
                "at character -1");
    assert_says(
        complaint(NESTED(QUESTION("{\"text\":\"1998\",\"answer_start\":9223372036854775807}"))),
        "is not in its context");
    assert_says(complaint(NESTED(QUESTION("{\"text\":\"1998.  more\",\"answer_start\":19}"))),
                "found \"1998.\"");
    assert_says(complaint(FLAT("a") "\n{\"id\":\"b\"," CONTEXT ",\"question\":\"?\",\"answers\":"
                                    "{\"text\":[\"cafe\"],\"answer_start\":[4]}}\n"),
                "line 2.answers: question \"b\"");
    struct squad_dataset set =
        fixture_dataset_of(NESTED(QUESTION("{\"text\":\"1998\",\"answer_start\":19},"
                                           "{\"text\":\"1998\",\"answer_start\":18}")));
    assert_int_equal(set.examples[0].answers[0].misplaced, 0);
    assert_int_equal(set.examples[0].answers[1].misplaced, 1);
    squad_dataset_done(&set);
}

static void lets_white_space_differ(void **state) {
    struct squad_dataset set =
        fixture_dataset_of(NESTED(QUESTION("{\"text\":\"opened\\tin  1998\",\"answer_start\":9}")));
    assert_int_equal(set.count, 1);
    squad_dataset_done(&set);
}

struct bad {
    const char *text, *says;
};

static void names_what_is_wrong(void **state) {
    static const struct bad cases[] = {
        {"", "the file is empty"},
        {" \n\t ", "the file is empty"},
        {"[]", "no questions"},
        {"{\"data\":[]}", "no questions"},
        {"{}", "found an object whose \"data\" is nothing"},
        {"{\"data\":{}}", "found an object whose \"data\" is an object"},
        {"7", "found a number"},
        {"null", "found null"},
        {"{\"data\":[", "line 1"},
        {"[1]", "record [0]: expected an article or a question (an object), found a number"},
        {"{\"data\":[{\"paragraphs\":{}}]}",
         "data[0]: key \"paragraphs\": expected an array, found an object"},
        {"{\"data\":[{\"paragraphs\":[7]}]}",
         "data[0].paragraphs[0]: key \"context\": expected a string, found nothing"},
        {"{\"data\":[{\"title\":3,\"paragraphs\":[]}]}",
         "data[0]: key \"title\": expected a string, found a number"},
        {"{\"data\":[{\"paragraphs\":[{\"context\":\"c\"}]}]}",
         "data[0].paragraphs[0]: key \"qas\": expected an array, found nothing"},
        {NESTED("{\"question\":\"?\"}"),
         "qas[0]: key \"id\": expected a string or an integer, found nothing"},
        {NESTED("{\"id\":5.5,\"question\":\"?\"}"),
         "key \"id\": expected a string or an integer, found a number"},
        {NESTED("{\"id\":\"a\",\"question\":null}"),
         "qas[0]: key \"question\": expected a string, found null"},
        {NESTED("{\"id\":\"a\\u0000b\",\"question\":\"?\"}"),
         "qas[0]: key \"id\": the string contains U+0000"},
        {NESTED("{\"id\":\"a\",\"question\":\"?\",\"is_impossible\":1}"),
         "key \"is_impossible\": expected true or false, found a number"},
        {NESTED("{\"id\":\"a\",\"question\":\"?\",\"answers\":\"x\"}"),
         "key \"answers\": expected an array or an object of arrays, found a string"},
        {NESTED(QUESTION("{\"text\":\"1998\"}")),
         "answers[0]: key \"answer_start\": expected an integer, found nothing"},
        {NESTED(QUESTION("{\"text\":\"1998\",\"answer_start\":1.5}")), "expected an integer"},
        {NESTED(QUESTION("{\"answer_start\":19}")),
         "key \"text\": expected a string, found nothing"},
        {"[{\"id\":\"a\",\"context\":\"c\",\"question\":\"?\",\"answers\":{\"text\":[\"c\"]}}]",
         "record [0].answers: key \"answer_start\": expected an array, found nothing"},
        {"[{\"id\":\"a\",\"context\":\"c\",\"question\":\"?\",\"answers\":{\"text\":[\"c\"],"
         "\"answer_start\":[]}}]",
         "1 texts but 0 answer_start"},
        {"[{\"id\":\"a\",\"context\":\"c\",\"question\":\"?\",\"answers\":{\"text\":[4],"
         "\"answer_start\":[0]}}]",
         "expected an array of strings"},
        {FLAT("a") "\n{\"id\":\n", "line 2"},
        {FLAT("a") "\n[1]\n", "line 2: expected an article or a question"},
        {"{\"data\":\"\xFF\"}", "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_says(fixture_failure(cases[i].text, BERTH_BAD_DATA), cases[i].says);
    }
}

static enum berth_status read_prefix(const char *text, size_t length, size_t *count) {
    struct squad_dataset set;
    struct berth_error error = {0};
    // A copy, so that the sanitizer detects a read past the end.
    char *copy = memory_string_of(text, length);
    enum berth_status status = squad_read_memory("prefix", copy, length, 0, &set, &error);
    memory_free(copy);
    *count = set.count;
    if (status != BERTH_OK) {
        assert_says(error.message, "prefix");
        assert_null(set.storage);
    }
    squad_dataset_done(&set);
    return status;
}

static void refuses_every_prefix(void **state) {
    static const char *const texts[] = {NESTED(QUESTION("{\"text\":\"1998\",\"answer_start\":19}")),
                                        "[" FLAT("a") "," FLAT("b") "]",
                                        "{\"data\":[" FLAT("a") "," FLAT("b") "]}", FLAT("a")};
    size_t count;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (size_t length = 0; length < strlen(texts[i]); length++) {
            assert_int_equal(read_prefix(texts[i], length, &count), BERTH_BAD_DATA);
        }
        assert_int_equal(read_prefix(texts[i], strlen(texts[i]), &count), BERTH_OK);
    }
}

// JSON lines truncated after a line are a shorter file; any other truncation is refused.
static void refuses_lines_cut_inside(void **state) {
    static const char text[] = FLAT("a") "\n" FLAT("b") "\n" FLAT("c") "\n";
    size_t line = strlen(FLAT("a")) + 1, count;
    for (size_t length = 0; length < sizeof text; length++) {
        int whole = length >= line - 1 && (length % line == 0 || length % line == line - 1);
        assert_int_equal(read_prefix(text, length, &count), whole ? BERTH_OK : BERTH_BAD_DATA);
        assert_int_equal(count, whole ? (length + 1) / line : 0);
    }
}

static void survives_missing_memory(void **state) {
    static const char *const texts[] = {NESTED(QUESTION("{\"text\":\"1998\",\"answer_start\":19}")),
                                        FLAT("a") "\n" FLAT("b") "\n",
                                        NESTED("{\"id\":5,\"question\":\"?\"}")};
    for (size_t i = 0; i < 3; i++) {
        uint64_t n = 0, made;
        do {
            struct squad_dataset set;
            struct berth_error error = {0};
            memory_fail_at(++n, 0);
            enum berth_status status =
                squad_read_memory("x", texts[i], strlen(texts[i]), 0, &set, &error);
            made = memory_fail_at(0, 0);
            assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
            if (status == BERTH_OK) {
                squad_dataset_done(&set);
            }
        } while (made >= n);
        assert_true(n > 3);
    }
}

static enum berth_status read_lines(void) {
    static const char text[] = FLAT("a") "\n" FLAT("b") "\n" FLAT("c") "\n" FLAT("d") "\n" FLAT(
        "e") "\n" FLAT("f") "\n" FLAT("g") "\n" FLAT("h") "\n" FLAT("i") "\n";
    struct squad_dataset set;
    struct berth_error error;
    const enum berth_status status = squad_read_memory("x", text, sizeof text - 1, 0, &set, &error);
    if (status == BERTH_OK) {
        assert_int_equal(set.count, 9);
        squad_dataset_done(&set);
    }
    return status;
}

static void reads_json_without_memory(void **state) {
    assert_true(json_memory_fail_each(read_lines) > 20);
}

static void tells_missing_files(void **state) {
    struct squad_dataset set;
    struct berth_error error = {0};
    assert_int_equal(squad_read("/no/such/set.json", 0, &set, &error), BERTH_NO_INPUT);
    assert_says(error.message, "/no/such/set.json");
}

static void scoring_needs_no_positions(void **state) {
    struct squad_dataset set;
    scratch_write("references.json", NESTED(QUESTION("{\"text\":\"elsewhere\"}")));
    assert_int_equal(squad_read_references(scratch("references.json"), &set, NULL), BERTH_OK);
    assert_string_equal(set.examples[0].answers[0].text, "elsewhere");
    squad_dataset_done(&set);
}

static void finds_equal_ids(void **state) {
    struct squad_dataset set =
        fixture_dataset_of("[" FLAT("a") "," FLAT("b") "," FLAT("a") "," FLAT("c") "]");
    struct berth_error error = {0};
    memory_fail_at(1, 0);
    assert_int_equal(squad_check_ids(&set, "f.json", &error), BERTH_NO_MEMORY);
    memory_fail_at(0, 0);
    assert_int_equal(squad_check_ids(&set, "f.json", &error), BERTH_BAD_DATA);
    assert_says(error.message, "f.json: questions 0 and 2 (counted from 0) have the duplicate id "
                               "\"a\"");
    squad_dataset_done(&set);
    set = fixture_dataset_of("[" FLAT("a") "," FLAT("b") "]");
    assert_int_equal(squad_check_ids(&set, "f.json", &error), BERTH_OK);
    squad_dataset_done(&set);
}

static void reads_the_real_files(void **state) {
    static const struct {
        const char *path;
        size_t count;
        int version_2;
    } files[] = {{"squad/train-v1.1.json", 7771, 0},
                 {"squad/dev-v1.1.json", 1226, 0},
                 {"squad/train-v2.0.json", 8749, 1},
                 {"squad/dev-v2.0.json", 1426, 1}};
    if (!fixture_has_data()) {
        skip();
    }
    for (size_t i = 0; i < 4; i++) {
        struct squad_dataset set = fixture_dataset(data_path(files[i].path));
        struct berth_error error;
        assert_int_equal(set.count, files[i].count);
        assert_int_equal(set.version_2, files[i].version_2);
        assert_int_equal(squad_check_ids(&set, set.name, &error), BERTH_OK);
        squad_dataset_done(&set);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_nested_files),
        cmocka_unit_test(reads_version_2),
        cmocka_unit_test(finds_the_version),
        cmocka_unit_test(takes_numbers_as_ids),
        cmocka_unit_test(reads_flat_records),
        cmocka_unit_test(flat_records_may_say_that_there_is_an_answer),
        cmocka_unit_test(keeps_the_first_examples),
        cmocka_unit_test(marks_misplaced_answers),
        cmocka_unit_test(lets_white_space_differ),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(refuses_every_prefix),
        cmocka_unit_test(refuses_lines_cut_inside),
        cmocka_unit_test(survives_missing_memory),
        cmocka_unit_test(tells_missing_files),
        cmocka_unit_test(reads_json_without_memory),
        SCRATCH_TEST(scoring_needs_no_positions),
        cmocka_unit_test(finds_equal_ids),
        cmocka_unit_test(reads_the_real_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
