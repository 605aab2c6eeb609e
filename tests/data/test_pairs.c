// SPDX-License-Identifier: Apache-2.0
// Text pairs from tables: every task's published layout (glue_layouts.md), the examples of
// doc/tasks.md, MRPC's real files, user-defined columns and labels, messages for bad data.
#include "core/file.h"
#include "core/foreign_locale.h"
#include "core/harness.h"
#include "core/memory.h"
#include "data/pairs/glue_tasks.h"
#include "data/pairs/pair_labels.h"
#include "data/pairs/pairs.h"
#include "data/pairs/text_examples.h"
#include "data/pairs_fixture.h"
#include "data/squad_fixture.h"
#include "data/tables/label_names.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *failure(const char *text, const struct pair_settings *settings) {
    static struct berth_error error;
    struct pair_dataset set;
    error = (struct berth_error){0};
    assert_int_equal(pairs_read_memory("t", text, strlen(text), settings, &set, &error),
                     BERTH_BAD_DATA);
    assert_null(set.storage);
    assert_null(set.examples);
    return error.message;
}

// --- published layouts, and the examples of doc/tasks.md ----------------------------------------

static char *document, *published;

static int open_documents(void **state) {
    size_t length;
    return file_read(fixture_source("doc/tasks.md"), 1 << 20, &document, &length, NULL) !=
               BERTH_OK ||
           file_read(fixture_source("tests/data/glue_layouts.md"), 1 << 20, &published, &length,
                     NULL) != BERTH_OK;
}

static int close_documents(void **state) {
    memory_free(document);
    memory_free(published);
    return 0;
}

// The code block that begins with "```HEAD", newly allocated.
static char *example_block(const char *head) {
    char fence[64];
    snprintf(fence, sizeof fence, "\n```%s\n", head);
    const char *begin = strstr(published, fence);
    if (begin == NULL) {
        fail_msg("glue_layouts.md has no block \"%s\"", head);
    }
    begin += strlen(fence);
    return memory_string_of(begin, (size_t)(strstr(begin, "\n```") - begin) + 1);
}

// The file that a block writes with "cat >NAME <<'END'", newly allocated.
static char *example_file(const char *name) {
    char head[64];
    snprintf(head, sizeof head, "\ncat >%s <<'END'\n", name);
    const char *begin = strstr(document, head);
    if (begin == NULL) {
        fail_msg("doc/tasks.md does not write %s", name);
    }
    begin += strlen(head);
    return memory_string_of(begin, (size_t)(strstr(begin, "\nEND\n") - begin) + 1);
}

struct layout {
    const char *task, *block;
    enum glue_split split;
    size_t count;
    const char *text, *pair;  // of the first example
    const char *first, *last; // labels; NULL: none
    double value;             // of the first example, for real labels
};

static void check_label(const struct pair_dataset *set, size_t index, const char *name) {
    assert_int_equal(set->has_labels, name != NULL);
    if (name == NULL) {
        assert_int_equal(set->examples[index].label, -1);
        assert_true(isnan(set->examples[index].value));
    } else if (set->target == PAIR_CLASS) {
        assert_string_equal(set->labels[set->examples[index].label], name);
    }
}

static void check_layout(const struct layout *layout) {
    struct pair_settings settings;
    char *text = example_block(layout->block);
    const struct glue_task *task = task_of(layout->task);
    assert_int_equal(glue_task_settings(task, layout->split, NULL, &settings, NULL), BERTH_OK);
    struct pair_dataset set = read_text(text, &settings);
    assert_int_equal(set.count, layout->count);
    assert_string_equal(set.examples[0].text, layout->text);
    assert_true((set.examples[0].pair == NULL) == (layout->pair == NULL));
    if (layout->pair != NULL) {
        assert_string_equal(set.examples[0].pair, layout->pair);
    }
    check_label(&set, 0, layout->first);
    check_label(&set, set.count - 1, layout->last);
    assert_true(task->labels != NULL || layout->first == NULL ||
                set.examples[0].value == layout->value);
    assert_int_equal(set.skipped_rows, strcmp(layout->block, "tsv qqp train") == 0);
    pair_dataset_done(&set);
    memory_free(text);
}

static void reads_every_published_layout(void **state) {
    static const struct layout layouts[] = {
        {"mrpc", "tsv mrpc dev", GLUE_DEV, 2, "The mayor said \"no comment\" on Monday.",
         "On Monday the mayor declined to comment.", "equivalent", "not_equivalent", 0},
        {"mrpc", "tsv mrpc dev", GLUE_TEST, 2, "The mayor said \"no comment\" on Monday.",
         "On Monday the mayor declined to comment.", "equivalent", "not_equivalent", 0},
        {"mrpc", "tsv mrpc test", GLUE_TEST, 1, "The bridge was closed.", "They closed the bridge.",
         NULL, NULL, 0},
        {"cola", "tsv cola train", GLUE_TRAIN, 2, "The cat that I fed slept.", NULL, "acceptable",
         "unacceptable", 0},
        {"CoLA", "tsv cola test", GLUE_TEST, 1, "Whom did the bird see?", NULL, NULL, NULL, 0},
        {"SST-2", "tsv sst2 train", GLUE_TRAIN, 2, "a dull , overlong film ", NULL, "negative",
         "positive", 0},
        {"sst_2", "tsv sst2 test", GLUE_TEST, 1, "a fine cast .", NULL, NULL, NULL, 0},
        {"qqp", "tsv qqp train", GLUE_TRAIN, 2, "How do I read faster?", "How can I read faster?",
         "duplicate", "not_duplicate", 0},
        {"qqp", "tsv qqp test", GLUE_TEST, 1, "Is it late?", "Is it too late?", NULL, NULL, 0},
        {"STS-B", "tsv stsb train", GLUE_DEV, 2, "A dog runs.", "A dog is running.", "", "", 4.8},
        {"stsb", "tsv stsb test", GLUE_TEST, 1, "A boy sings.", "A boy is singing.", NULL, NULL, 0},
        {"mnli", "tsv mnli train", GLUE_TRAIN, 2, "The fort is old.", "The fort is made of brick.",
         "neutral", "contradiction", 0},
        {"mnli", "tsv mnli dev_mismatched", GLUE_DEV_MISMATCHED, 1, "Please give.",
         "We ask you to give.", "entailment", "entailment", 0},
        {"mnli", "tsv mnli test", GLUE_TEST_MISMATCHED, 1, "He laughed.", "He was happy.", NULL,
         NULL, 0},
        {"qnli", "tsv qnli train", GLUE_TRAIN, 2, "When did it open?", "It opened in 1998.",
         "entailment", "not_entailment", 0},
        {"rte", "tsv rte dev", GLUE_DEV, 2, "No weapons were found.", "Weapons were found.",
         "not_entailment", "entailment", 0},
        {"wnli", "tsv wnli dev", GLUE_DEV, 2, "The cup fell on the plate and it broke.",
         "The plate broke.", "entailment", "not_entailment", 0},
        {"xnli", "tsv xnli train", GLUE_TRAIN, 2,
         "\xE9\x97\xA8 \xE5\xBC\x80 \xE4\xBA\x86 \xE3\x80\x82",
         "\xE9\x97\xA8 \xE6\xB2\xA1 \xE5\x85\xB3 \xE3\x80\x82", "entailment", "contradiction", 0},
        {"xnli", "tsv xnli dev", GLUE_DEV, 1, "\xE9\x97\xA8\xE5\xBC\x80\xE4\xBA\x86\xE3\x80\x82",
         "\xE9\x97\xA8\xE6\x98\xAF\xE7\xBA\xA2\xE8\x89\xB2\xE7\x9A\x84\xE3\x80\x82", "neutral",
         "neutral", 0},
    };
    size_t blocks = 0;
    for (const char *at = published; (at = strstr(at, "\n```tsv ")) != NULL; at++) {
        blocks++;
    }
    assert_int_equal(blocks, sizeof layouts / sizeof *layouts - 1); // one is read twice
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        check_layout(&layouts[i]);
    }
}

static void chooses_the_language(void **state) {
    struct pair_settings settings;
    char *text = example_block("tsv xnli dev");
    glue_task_settings(task_of("xnli"), GLUE_DEV, "de", &settings, NULL);
    struct pair_dataset set = read_text(text, &settings);
    assert_int_equal(set.count, 1);
    assert_string_equal(set.examples[0].pair, "Die T\xC3\xBCr ist rot.");
    assert_int_equal(set.examples[0].line, 2);
    pair_dataset_done(&set);
    glue_task_settings(task_of("xnli"), GLUE_DEV, "fr", &settings, NULL);
    assert_string_equal(failure(text, &settings),
                        "t: none of the 2 rows has \"fr\" in column \"language\"");
    memory_free(text);
}

static void labels_stand_in_the_published_order(void **state) {
    static const struct {
        const char *task, *labels;
    } orders[] = {{"cola", "unacceptable acceptable "},
                  {"sst2", "negative positive "},
                  {"mrpc", "not_equivalent equivalent "},
                  {"qqp", "not_duplicate duplicate "},
                  {"stsb", ""},
                  {"mnli", "contradiction entailment neutral "},
                  {"qnli", "entailment not_entailment "},
                  {"rte", "entailment not_entailment "},
                  {"wnli", "not_entailment entailment "},
                  {"xnli", "contradiction entailment neutral "}};
    size_t count = 0;
    for (; glue_tasks[count].name != NULL; count++) {
        char found[128] = "", row[64];
        for (size_t i = 0; i < glue_tasks[count].label_count; i++) {
            strcat(strcat(found, glue_tasks[count].labels[i].name), " ");
        }
        assert_string_equal(found, orders[count].labels);
        assert_string_equal(glue_tasks[count].name, orders[count].task);
        snprintf(row, sizeof row, "\n| `%s` |", glue_tasks[count].name);
        assert_says(document, row);
    }
    assert_int_equal(count, sizeof orders / sizeof *orders);
}

// --- user-defined files -------------------------------------------------------------------------

static void reads_columns_of_ones_own(void **state) {
    struct pair_settings settings = {
        .table = {.format = TABLE_CSV}, .text_column = "text", .label_column = "label"};
    char *text = example_file("reviews.csv");
    struct pair_dataset set = read_text(text, &settings);
    memory_free(text);
    assert_int_equal(set.count, 3);
    assert_int_equal(set.target, PAIR_CLASS);
    assert_string_equal(set.examples[0].text, "Works well, and is \"quiet\".");
    assert_null(set.examples[0].pair);
    assert_int_equal(set.label_count, 3);
    assert_string_equal(set.labels[0], "bad");
    assert_string_equal(set.labels[2], "neither");
    assert_int_equal(set.examples[0].label, 1);
    assert_int_equal(set.examples[1].label, 0);
    assert_int_equal(set.examples[2].line, 5);
    pair_dataset_done(&set);

    settings = (struct pair_settings){.table = {.format = TABLE_JSON_LINES},
                                      .text_column = "first",
                                      .text_pair_column = "second",
                                      .label_column = "score"};
    text = example_file("pairs.jsonl");
    set = read_text(text, &settings);
    memory_free(text);
    assert_int_equal(set.target, PAIR_REAL);
    assert_int_equal(set.label_count, 0);
    assert_true(set.examples[0].value == 4.5 && set.examples[1].value == 1);
    assert_int_equal(set.examples[0].label, -1);
    assert_string_equal(set.examples[1].pair, "A man runs.");
    pair_dataset_done(&set);
}

// The labels of "a\tl" tables with these lines, in order.
static void expect_labels(const char *lines, enum pair_target target, const char *expected) {
    char text[256], found[256] = "";
    snprintf(text, sizeof text, "a\tl\n%s", lines);
    struct pair_settings settings = {.text_column = "a", .label_column = "l", .target = target};
    struct pair_dataset set = read_text(text, &settings);
    for (size_t i = 0; i < set.label_count; i++) {
        strcat(strcat(found, set.labels[i]), " ");
    }
    assert_string_equal(found, expected);
    for (size_t i = 0; i < set.count && set.label_count > 0; i++) { // lines are "LABEL\tLABEL"
        assert_string_equal(set.examples[i].text, set.labels[set.examples[i].label]);
    }
    pair_dataset_done(&set);
}

static void sorts_labels(void **state) {
    expect_labels("b\tb\na\ta\nB\tB\na\ta\n", PAIR_AUTO, "B a b ");
    expect_labels("10\t10\n9\t9\n-1\t-1\n", PAIR_AUTO, "-1 9 10 ");
    expect_labels("10\t10\n9\t9\nx\tx\n", PAIR_AUTO, "10 9 x ");
    expect_labels("1\t1\n01\t01\n2\t2\n", PAIR_AUTO, "01 1 2 ");
    expect_labels("1\t1.5\n2\t2\n", PAIR_AUTO, "");
    expect_labels("1.5\t1.5\n2\t2\n", PAIR_CLASS, "1.5 2 ");
    expect_labels("1\t1\n2\t2\n", PAIR_REAL, "");
    expect_labels("\xC3\xA9\t\xC3\xA9\nz\tz\n", PAIR_AUTO, "z \xC3\xA9 ");
    expect_labels("1\t 1\n2\t2 \n1\t1\n", PAIR_AUTO, "1 2 ");
    expect_labels(" a\t a\na \ta \na\ta\n", PAIR_AUTO, " a a a  "); // not numbers
}

static void describe(const char *text, const struct pair_settings *settings, const char *expected) {
    char found[128];
    struct pair_dataset set = read_text(text, settings);
    pair_labels_describe(&set, found, sizeof found);
    assert_string_equal(found, expected);
    pair_dataset_done(&set);
}

// Blanks beside a number make it no name.
static void says_which_kind_the_labels_are(void **state) {
    static const struct pair_settings csv = {
        .table = {.format = TABLE_CSV}, .text_column = "t", .label_column = "l"};
    static const struct pair_settings several = {
        .table = {.format = TABLE_JSON_LINES}, .text_column = "t", .label_column = "l"};
    describe("t,l\na, 1.5\nb,5 \nc,\t 0\n", &csv, "numbers from 0 to 5");
    describe("t,l\na,y\nb,x\n", &csv, "2 classes (\"x\", \"y\")");
    describe("t,l\na, 1\nb,1\n", &csv, "1 class (\"1\")");
    describe("{\"t\":\"a\",\"l\":[\"p\",\"q\"]}\n{\"t\":\"b\",\"l\":[]}", &several,
             "2 classes, several at once (\"p\", \"q\")");
    struct pair_dataset set = read_text("t,l\na, 1.5\nb,2 \n", &csv);
    assert_true(set.examples[0].value == 1.5 && set.examples[1].value == 2);
    pair_dataset_done(&set);
}

// What Hugging Face's data sets have where the labels are not published.
static void a_test_file_may_have_an_empty_column_of_labels(void **state) {
    static const struct {
        const char *text;
        int has_labels;
    } cases[] = {{"{\"t\":\"a\",\"l\":-1}\n{\"t\":\"b\",\"l\":-1}\n", 0},
                 {"{\"t\":\"a\",\"l\":-1.0}\n{\"t\":\"b\",\"l\":\"\"}\n", 0},
                 {"{\"t\":\"a\",\"l\":null}\n{\"t\":\"b\"}\n", 0},
                 {"{\"t\":\"a\",\"l\":[]}\n{\"t\":\"b\",\"l\":null}\n", 0},
                 {"{\"t\":\"a\",\"l\":-1}\n{\"t\":\"b\",\"l\":0}\n", 1},
                 {"{\"t\":\"a\",\"l\":\"x\"}\n", 1}};
    struct pair_settings settings = {.table = {.format = TABLE_JSON_LINES},
                                     .text_column = "t",
                                     .label_column = "l",
                                     .label_optional = 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pair_dataset set = read_text(cases[i].text, &settings);
        assert_int_equal(set.has_labels, cases[i].has_labels);
        assert_int_equal(set.empty_label_column == NULL, cases[i].has_labels);
        pair_dataset_done(&set);
    }
    settings.label_remedy = "; ask";
    assert_says(failure("{\"t\":\"a\",\"l\":\"x\"}\n{\"t\":\"b\",\"l\":null}\n", &settings),
                "line 2, column \"l\": the label is empty; ask");
    settings.has_class_minus_one = 1;
    struct pair_dataset set = read_text(cases[0].text, &settings);
    assert_string_equal(set.labels[0], "-1");
    pair_dataset_done(&set);
    settings.label_optional = 0; // a file to train on
    assert_says(failure(cases[2].text, &settings), "line 1, column \"l\": the label is empty");
}

static void names_what_is_wrong(void **state) {
    static const struct {
        const char *task, *text, *says;
        enum glue_split split;
    } cases[] = {
        {"rte", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailed\n",
         "t: line 2, column \"label\": unknown label \"entailed\"; expected one of "
         "\"entailment\", \"not_entailment\"",
         GLUE_DEV},
        {"mrpc", "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n2\t1\t2\ta\tb\n",
         "unknown label \"2\"; expected one of \"0\", \"1\"", GLUE_TRAIN},
        {"stsb", "sentence1\tsentence2\tscore\na\tb\tx\n",
         "t: line 2, column \"score\": expected a number, found \"x\"", GLUE_TRAIN},
        {"stsb", "sentence1\tsentence2\tscore\na\tb\t5\na\tb\t5.1\n",
         "t: line 3, column \"score\": expected a number from 0 to 5, found 5.1", GLUE_TRAIN},
        {"stsb", "sentence1\tsentence2\tscore\na\tb\tnan\n", "expected a number", GLUE_TRAIN},
        {"sst2", "sentence\tlabel\na\t\n", "t: line 2, column \"label\": the label is empty",
         GLUE_TRAIN},
        {"sst2", "sentence\nb\n", "label_column: no column \"label\"", GLUE_TRAIN},
        {"sst2", "text\tlabel\nb\t1\n", "text_column: no column \"sentence\"", GLUE_TEST},
        {"cola", "a\t1\tb\n",
         "t: line 1: the row has 3 fields, expected 4; nothing for "
         "column \"sentence\"",
         GLUE_TRAIN},
        {"rte", "", "t: the file is empty", GLUE_DEV},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pair_settings settings;
        glue_task_settings(task_of(cases[i].task), cases[i].split, NULL, &settings, NULL);
        assert_says(failure(cases[i].text, &settings), cases[i].says);
    }
    struct pair_settings own = {
        .table = {.format = TABLE_JSON_LINES}, .text_column = "a", .label_column = "l"};
    assert_says(failure("{\"a\":\"x\",\"l\":1}\n{\"a\":\"x\"}\n", &own),
                "t: line 2, column \"l\": the label is empty");
    assert_says(failure("{\"a\":[],\"l\":1}\n", &own),
                "t: line 1, column \"a\": expected a string");
}

// Several labels of one text: lists, or texts with commas; each once, in the order of their names.
static void takes_several_labels(void **state) {
    const struct pair_settings settings = {
        .table = {.format = TABLE_JSON_LINES}, .text_column = "a", .label_column = "l"};
    struct pair_dataset set = read_text("{\"a\":\"x\",\"l\":[\"q\",\"p\",\"q\"]}\n"
                                        "{\"a\":\"y\",\"l\":\" r , p,, \"}\n"
                                        "{\"a\":\"z\",\"l\":[]}\n{\"a\":\"z\",\"l\":\"\"}\n",
                                        &settings);
    static const int32_t labels[][2] = {{1, 0}, {2, 0}};
    assert_int_equal(set.target, PAIR_MULTI_LABEL);
    assert_int_equal(set.label_count, 3);
    assert_string_equal(set.labels[2], "r");
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(set.examples[i].label_count, i < 2 ? 2 : 0);
        for (int32_t k = 0; k < set.examples[i].label_count; k++) {
            assert_int_equal(set.examples[i].labels[k], labels[i][k]);
        }
    }
    pair_dataset_done(&set);
    assert_says(failure("{\"a\":\"x\",\"l\":[\"q\",\"\"]}\n", &settings),
                "t: line 1, column \"l\": expected an array of strings or numbers");
    assert_says(failure("{\"a\":\"x\",\"l\":[\"q\",null]}\n", &settings),
                "expected an array of strings or numbers");
    assert_says(
        failure("{\"a\":\"x\",\"l\":[\"q\"]}\n{\"a\":\"x\",\"l\":[[\"q\",\"p\"]]}\n", &settings),
        "t: line 2, column \"l\": expected a string or a number, found a nested array or object");
    assert_says(failure("{\"a\":\"x\",\"l\":[]}\n", &settings), "t: no example has a label");
}

// Whole numbers are classes in the order of numbers, however large: ids and hashes do not fit into
// 64 bits.
static void takes_whole_numbers_as_classes(void **state) {
    static const char *const names[] = {
        "-18446744073709551617", "-3", "0", "007", "7", "10", "18446744073709551614",
        "18446744073709551615"};
    static const char text[] =
        "a\tl\nx\t18446744073709551615\nx\t10\nx\t7\nx\t-3\nx\t18446744073709551614\nx\t007\n"
        "x\t0\nx\t-18446744073709551617\n";
    (void)state;
    struct pair_dataset set = read_text(text, &plain);
    assert_int_equal(set.target, PAIR_CLASS);
    assert_int_equal(set.label_count, sizeof names / sizeof *names);
    for (size_t i = 0; i < set.label_count; i++) {
        assert_string_equal(set.labels[i], names[i]);
    }
    pair_dataset_done(&set);
}

// In JSON only those in quotes are what the file says.
static void refuses_rounded_numbers(void **state) {
    const struct pair_settings settings = {
        .table = {.format = TABLE_JSON_LINES}, .text_column = "a", .label_column = "l"};
    (void)state;
    assert_says(
        failure("{\"a\":\"x\",\"l\":1}\n{\"a\":\"x\",\"l\":18446744073709551615}\n", &settings),
        "t: line 2, column \"l\": 1.8446744073709552e+19 is beyond 64 bits, where numbers are "
        "rounded; write it in quotes");
    struct pair_dataset set = read_text("{\"a\":\"x\",\"l\":\"18446744073709551614\"}\n"
                                        "{\"a\":\"x\",\"l\":\"18446744073709551615\"}\n",
                                        &settings);
    assert_int_equal(set.label_count, 2);
    pair_dataset_done(&set);
}

// One word must not make each of many fractions a class.
static void refuses_fractions_beside_words(void **state) {
    static const char *const words[] = {"N/A", "nan", "inf", "x"};
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char text[96], message[96];
        snprintf(text, sizeof text, "a\tl\nx\t2\nx\t0.5\nx\t%s\nx\t1e-3\nx\ty\n", words[i]);
        snprintf(message, sizeof message,
                 "t: line 4, column \"l\": \"%s\" is not a number, but line 3 has 0.5; ", words[i]);
        assert_says(failure(text, &plain), message);
        struct pair_settings classes = plain;
        classes.target = PAIR_CLASS;
        struct pair_dataset set = read_text(text, &classes);
        assert_int_equal(set.label_count, 5);
        pair_dataset_done(&set);
    }
}

// A vector with a number for each class is no list of labels; lists of the classes 0 and 1 are.
static void refuses_vectors(void **state) {
    static const char *const vectors[] = {"[1.0,0.0,1.0]", "[0,1,0]",     "[1.0,0.0]",
                                          "[0,0]",         "\"1, 0, 0\"", "[1,1]"};
    static const char *const labels[] = {"[0,1]",     "[1,0]",       "[1]",       "[0,1,2]",
                                         "[2.0,1.0]", "[0.5,\"x\"]", "\"0.5,1\"", "\"1,0\""};
    const struct pair_settings settings = {.table = {.format = TABLE_JSON_LINES},
                                           .text_column = "a",
                                           .label_column = "l",
                                           .target = PAIR_MULTI_LABEL};
    char lines[96];
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        snprintf(lines, sizeof lines, "{\"a\":\"x\",\"l\":[]}\n{\"a\":\"x\",\"l\":%s}\n",
                 vectors[i]);
        assert_says(failure(lines, &settings),
                    "t: line 2, column \"l\": expected the labels of the text, found a vector of "
                    "zeros and ones; write the names or numbers of the classes that have a one");
    }
    assert_says(
        failure("{\"a\":\"x\",\"l\":[1,0.5]}\n", &settings),
        "t: line 1, column \"l\": expected the labels of the text, found an array of fractions");
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        snprintf(lines, sizeof lines, "{\"a\":\"x\",\"l\":%s}\n", labels[i]);
        struct pair_dataset set = read_text(lines, &settings);
        pair_dataset_done(&set);
    }
}

// Without names the texts are the columns beside the label, except numbers of rows.
static void guesses_columns(void **state) {
    static const struct {
        const char *head, *text, *pair;
    } cases[] = {{"id\tfirst\tlabel\tsecond\n", "1", "3"},
                 {"label\tidx\tonly\tid\n", "2", NULL},
                 {"\tonly\tlabel\tid\n", "1", NULL}, // as pandas writes an index
                 {"sentence2\tlabel\tsentence1\tid\n", "2", "0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128];
        const struct pair_settings settings = {.target = PAIR_CLASS};
        snprintf(text, sizeof text, "%s0\t1\t2\t3\n", cases[i].head);
        struct pair_dataset set = read_text(text, &settings);
        assert_string_equal(set.examples[0].text, cases[i].text);
        assert_true((set.examples[0].pair != NULL) == (cases[i].pair != NULL));
        if (cases[i].pair != NULL) {
            assert_string_equal(set.examples[0].pair, cases[i].pair);
        }
        pair_dataset_done(&set);
    }
    const struct pair_settings settings = {.target = PAIR_CLASS};
    assert_says(failure("label\tid\n0\t1\n", &settings), "no text column besides the label");
    assert_says(failure("a\tb\n0\t1\n", &settings), "label_column: no column \"label\"");
}

// Without names of texts, a score that is named is no text; nor is one of the usual names.
static void guesses_columns_of_embeddings(void **state) {
    static const struct {
        const char *head, *score;
        size_t texts;
        const char *found; // the column of the score
    } cases[] = {{"id,a,b,score", NULL, 2, "score"},
                 {",a,b", NULL, 2, NULL},
                 {"a,b,similarity", "similarity", 2, "similarity"},
                 {"a,similarity,b", "similarity", 2, "similarity"},
                 {"a,b,0.5", NULL, 3, NULL}};
    const struct text_example_settings wrong = {.score = "similar"};
    struct text_examples examples;
    struct berth_error error;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct text_example_settings settings = {.score = cases[i].score};
        char text[128];
        snprintf(text, sizeof text, "%s\n%s1,0.5,1\n", cases[i].head, i == 0 ? "0," : "");
        scratch_write("t.csv", text);
        assert_int_equal(text_examples_read(scratch("t.csv"), &settings, &examples, NULL),
                         BERTH_OK);
        assert_int_equal(examples.texts, cases[i].texts);
        assert_int_equal(examples.scores, cases[i].found != NULL);
        if (cases[i].found != NULL) {
            assert_string_equal(examples.score_column, cases[i].found);
        }
        text_examples_done(&examples);
    }
    assert_int_equal(text_examples_read(scratch("t.csv"), &wrong, &examples, &error),
                     BERTH_BAD_DATA);
    assert_says(error.message, "label_column: no column \"similar\"");
    text_examples_done(&examples);
}

// Of many known labels the first are named.
static void shortens_lists_of_labels(void **state) {
    const char *names[30];
    char text[2048];
    for (size_t i = 0; i < 30; i++) {
        names[i] = "label";
    }
    const struct label_names some = {names, 20}, all = {names, 30};
    label_names_list(&some, text, sizeof text);
    assert_null(strstr(text, "..."));
    label_names_list(&all, text, sizeof text);
    assert_string_equal(text + strlen(text) - 5, ", ...");
    label_names_list(&some, text, 128);
    assert_non_null(strstr(text, "..."));
    const struct pair_dataset set = {.target = PAIR_CLASS, .labels = names, .label_count = 30};
    pair_labels_describe(&set, text, 128);
    assert_memory_equal(text, "30 classes (\"label\", ", 21);
    assert_string_equal(text + strlen(text) - 6, ", ...)");
}

static void knows_its_tasks(void **state) {
    const struct glue_task *task;
    struct pair_settings settings;
    struct berth_error error = {0};
    assert_int_equal(glue_task_find("sts", &task, &error), BERTH_USAGE);
    assert_null(task);
    assert_string_equal(error.message,
                        "task_name: expected one of cola, sst2, mrpc, qqp, stsb, mnli, qnli, "
                        "rte, wnli, xnli, found \"sts\"");
    assert_int_equal(
        glue_task_settings(task_of("rte"), GLUE_DEV_MISMATCHED, NULL, &settings, &error),
        BERTH_USAGE);
    assert_string_equal(error.message, "RTE has no mismatched files; only MNLI has them");
}

// --- folders ------------------------------------------------------------------------------------

static void expect_path(const char *task, enum glue_split split, const char *expected) {
    char *path;
    struct berth_error error = {0};
    if (glue_task_path(task_of(task), scratch_folder, split, NULL, &path, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_string_equal(path, scratch(expected));
    memory_free(path);
}

static void finds_files_in_folders(void **state) {
    const char *folder = scratch_folder;
    char *path;
    struct berth_error error = {0};
    assert_int_equal(glue_task_path(task_of("mrpc"), folder, GLUE_TRAIN, NULL, &path, &error),
                     BERTH_NO_INPUT);
    assert_null(path);
    assert_says(error.message, "no train.tsv or msr_paraphrase_train.txt here or in "
                               "the subfolder MRPC; expected the files of MRPC");
    scratch_write("msr_paraphrase_train.txt", "x\n");
    scratch_write("msr_paraphrase_test.txt", "x\n");
    expect_path("mrpc", GLUE_TRAIN, "msr_paraphrase_train.txt");
    expect_path("mrpc", GLUE_DEV, "msr_paraphrase_test.txt");
    assert_int_equal(dir_make(scratch("MRPC"), NULL), BERTH_OK);
    scratch_write("MRPC/dev.tsv", "x\n");
    expect_path("mrpc", GLUE_DEV, "MRPC/dev.tsv");
    expect_path("mrpc", GLUE_TEST, "msr_paraphrase_test.txt");
    scratch_write("dev_mismatched.tsv", "x\n");
    expect_path("mnli", GLUE_DEV_MISMATCHED, "dev_mismatched.tsv");
    scratch_write("multinli.train.zh.tsv", "x\n");
    expect_path("xnli", GLUE_TRAIN, "multinli.train.zh.tsv");
    assert_int_equal(glue_task_path(task_of("xnli"), folder, GLUE_TRAIN, "de", &path, &error),
                     BERTH_NO_INPUT);
    assert_says(error.message, "multinli.train.de.tsv or multinli/multinli.train.de.tsv");
    memory_fail_at(1, 0);
    assert_int_equal(glue_task_path(task_of("mrpc"), folder, GLUE_DEV, NULL, &path, &error),
                     BERTH_NO_MEMORY);
    memory_fail_at(0, 0);
}

// --- real data ----------------------------------------------------------------------------------

static void check_real(const char *folder, enum glue_split split, size_t count, size_t equivalent) {
    char *path;
    struct pair_settings settings;
    struct pair_dataset set;
    struct berth_error error = {0};
    const struct glue_task *task = task_of("mrpc");
    assert_int_equal(glue_task_path(task, folder, split, NULL, &path, &error), BERTH_OK);
    assert_int_equal(glue_task_settings(task, split, NULL, &settings, &error), BERTH_OK);
    if (pairs_read(path, &settings, &set, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    memory_free(path);
    assert_int_equal(set.count, count);
    for (size_t i = 0; i < set.count; i++) {
        equivalent -= set.examples[i].label == 1;
        assert_int_equal(set.examples[i].line, i + 2);
    }
    assert_int_equal(equivalent, 0);
    pair_dataset_done(&set);
}

static void reads_the_real_mrpc(void **state) {
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", data_path("mrpc"));
    if (!dir_exists(folder)) {
        printf("skipped: no real data at %s (set BERTH_DATA)\n", folder);
        skip();
    }
    check_real(folder, GLUE_TRAIN, 4076, 2753);
    check_real(folder, GLUE_TEST, 1725, 1147);
}

// --- locales ------------------------------------------------------------------------------------

static void does_not_depend_on_the_locale(void **state) {
    static const char *const model[] = {"ENTAILMENT", "NOT_ENTAILMENT"};
    struct pair_settings settings;
    foreign_locale_set();
    glue_task_settings(task_of("WNLI"), GLUE_DEV, NULL, &settings, NULL);
    struct pair_dataset set = read_text("sentence1\tsentence2\tlabel\na\tb\t1\n", &settings);
    assert_int_equal(pairs_relabel(&set, model, 2, NULL), BERTH_OK);
    assert_int_equal(set.examples[0].label, 0);
    pair_dataset_done(&set);
    glue_task_settings(task_of("stsb"), GLUE_DEV, NULL, &settings, NULL);
    set = read_text("sentence1\tsentence2\tscore\na\tb\t4.25\n", &settings);
    assert_true(set.examples[0].value == 4.25);
    pair_dataset_done(&set);
    setlocale(LC_ALL, "C");
}

// --- other reads ------------------------------------------------------------------------------

static void begins_with_a_prompt(void **state) {
    struct pair_dataset set;
    char *texts;
    assert_int_equal(pairs_read_memory("t", three, strlen(three), &plain, &set, NULL), BERTH_OK);
    char *before = memory_string(set.examples[1].text);
    const char *other = set.examples[0].text;
    set.examples[1].prompt = "query: ";
    memory_fail_at(1, 0);
    assert_int_equal(pairs_put_prompts(&set, &texts, NULL), BERTH_NO_MEMORY);
    memory_fail_at(0, 0);
    assert_string_equal(set.examples[1].text, before);
    assert_int_equal(pairs_put_prompts(&set, &texts, NULL), BERTH_OK);
    assert_memory_equal(set.examples[1].text, "query: ", 7);
    assert_string_equal(set.examples[1].text + 7, before);
    assert_ptr_equal(set.examples[0].text, other);
    memory_free(before);
    memory_free(texts);
    pair_dataset_done(&set);
}

static void survives_missing_memory(void **state) {
    static const char *const order[] = {"dog", "cat", "ant"};
    struct pair_settings task;
    glue_task_settings(task_of("rte"), GLUE_DEV, NULL, &task, NULL);
    static const char rte[] = "sentence1\tsentence2\tlabel\na\tb\tentailment\n";
    static const struct pair_settings several = {
        .table = {.format = TABLE_JSON_LINES}, .text_column = "a", .label_column = "l"};
    static const char lists[] = "{\"a\":\"x\",\"l\":[\"p\",\"q\"]}\n{\"a\":\"y\",\"l\":\"q, p\"}\n";
    static const char blanks[] = "a\tl\nx\t 1.5\ny\t2 \n";
    const struct pair_settings *const settings[] = {&plain, &task, &several, &plain};
    const char *const texts[] = {three, rte, lists, blanks};
    for (size_t i = 0; i < 4; i++) {
        enum berth_status status;
        uint64_t n = 0, made;
        do {
            struct pair_dataset set;
            struct berth_error error = {0};
            memory_fail_at(++n, 0);
            status = pairs_read_memory("t", texts[i], strlen(texts[i]), settings[i], &set, &error);
            if (status == BERTH_OK && i == 0) {
                status = pairs_relabel(&set, order, 3, &error);
            }
            made = memory_fail_at(0, 0);
            assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
            assert_null(strstr(error.message,
                               "out of memory for the labels")); // without the number of bytes
            pair_dataset_done(&set);
        } while (made >= n);
        assert_int_equal(status, BERTH_OK);
        assert_true(n > 8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_published_layout),
        cmocka_unit_test(chooses_the_language),
        cmocka_unit_test(labels_stand_in_the_published_order),
        cmocka_unit_test(reads_columns_of_ones_own),
        cmocka_unit_test(sorts_labels),
        cmocka_unit_test(says_which_kind_the_labels_are),
        cmocka_unit_test(a_test_file_may_have_an_empty_column_of_labels),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(takes_several_labels),
        cmocka_unit_test(refuses_fractions_beside_words),
        cmocka_unit_test(refuses_rounded_numbers),
        cmocka_unit_test(takes_whole_numbers_as_classes),
        cmocka_unit_test(refuses_vectors),
        cmocka_unit_test(guesses_columns),
        SCRATCH_TEST(guesses_columns_of_embeddings),
        cmocka_unit_test(shortens_lists_of_labels),
        cmocka_unit_test(knows_its_tasks),
        SCRATCH_TEST(finds_files_in_folders),
        cmocka_unit_test(reads_the_real_mrpc),
        cmocka_unit_test(does_not_depend_on_the_locale),
        cmocka_unit_test(begins_with_a_prompt),
        cmocka_unit_test(survives_missing_memory),
    };
    return cmocka_run_group_tests(tests, open_documents, close_documents);
}
