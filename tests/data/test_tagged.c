// SPDX-License-Identifier: Apache-2.0
// Tests the readers of words with tags on files in CoNLL-2003's layout and JSON lines, what they
// refuse, and the windows of long sentences.
#include "core/scratch.h"
#include "data/tagging/word_windows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char path[512]; // of the file that write_file has written

static void write_file(const char *name, const char *text) {
    scratch_write(name, text);
    snprintf(path, sizeof path, "%s", scratch(name));
}

// Made up, in the layout of CoNLL-2003: word, part of speech, phrase, entity.
static const char conll[] = "-DOCSTART- -X- -X- O\n"
                            "\n"
                            "Mara NNP B-NP B-PER\n"
                            "Quell NNP I-NP I-PER\n"
                            "left VBD B-VP O\n"
                            "Oslo NNP B-NP B-LOC\n"
                            "\n"
                            "\n"
                            "-DOCSTART- -X- -X- O\n"
                            "\n"
                            "Rain\tNN\tB-NP\tO\r\n"
                            ". . O O";

static void assert_sentences(const struct tagged_dataset *dataset, const char *const *words,
                             const char *const *tags, size_t count) {
    assert_int_equal(dataset->word_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(dataset->words[i], words[i]);
        if (tags != NULL) {
            assert_string_equal(dataset->tag_names[dataset->tags[i]], tags[i]);
        }
    }
}

static const char *const words[] = {"Mara", "Quell", "left", "Oslo", "Rain", "."};
static const char *const entities[] = {"B-PER", "I-PER", "O", "B-LOC", "O", "O"};

static void reads_columns(void **state) {
    static const char *const speech[] = {"NNP", "NNP", "VBD", "NNP", "NN", "."};
    struct tagged_dataset dataset;
    write_file("a.txt", conll);
    assert_int_equal(tagged_read(path, &(struct tagged_settings){0}, &dataset, NULL), BERTH_OK);
    assert_sentences(&dataset, words, entities, 6);
    assert_int_equal(dataset.count, 2);
    assert_int_equal(dataset.starts[1], 4);
    assert_int_equal(tagged_line(&dataset, 0, 3), 6);
    assert_int_equal(tagged_line(&dataset, 1, 1), 12);
    assert_int_equal(dataset.tag_count, 4);
    assert_string_equal(dataset.tag_names[0], "B-LOC");
    tagged_done(&dataset);
    const struct tagged_settings second = {.tag_column = "2", .sentences = 1};
    assert_int_equal(tagged_read(path, &second, &dataset, NULL), BERTH_OK);
    assert_sentences(&dataset, words, speech, 4);
    tagged_done(&dataset);
    const struct tagged_settings none = {.tag_column = "0"};
    assert_int_equal(tagged_read(path, &none, &dataset, NULL), BERTH_OK);
    assert_sentences(&dataset, words, NULL, 6);
    assert_null(dataset.tags);
    tagged_done(&dataset);
    write_file("words.txt", "Mara\nQuell\nleft\nOslo\n\nRain\n.\n");
    const struct tagged_settings optional = {.tag_optional = 1};
    assert_int_equal(tagged_read(path, &optional, &dataset, NULL), BERTH_OK);
    assert_sentences(&dataset, words, NULL, 6);
    tagged_done(&dataset);
}

static void reads_json_lines(void **state) {
    struct tagged_dataset dataset;
    write_file("a.jsonl", "{\"tokens\": [\"Mara\", \"Quell\", \"left\", \"Oslo\"], "
                          "\"ner_tags\": [\"B-PER\", \"I-PER\", \"O\", \"B-LOC\"]}\n"
                          "\n{\"tokens\": [], \"ner_tags\": []}\n"
                          "{\"tokens\": [\"Rain\", \".\"], \"ner_tags\": [\"O\", \"O\"]}\n");
    assert_int_equal(tagged_read(path, &(struct tagged_settings){0}, &dataset, NULL), BERTH_OK);
    assert_sentences(&dataset, words, entities, 6);
    assert_int_equal(dataset.count, 3);
    assert_int_equal(tagged_line(&dataset, 2, 1), 4);
    tagged_done(&dataset);
    write_file("b.json", "{\"w\": [\"Rain\"], \"pos\": [3]}\n");
    const struct tagged_settings named = {.word_column = "w", .tag_column = "pos"};
    assert_int_equal(tagged_read(path, &named, &dataset, NULL), BERTH_OK);
    assert_string_equal(dataset.tag_names[dataset.tags[0]], "3");
    tagged_done(&dataset);
    const struct tagged_settings untagged = {.word_column = "w", .tag_optional = 1};
    assert_int_equal(tagged_read(path, &untagged, &dataset, NULL), BERTH_OK);
    assert_null(dataset.tags);
    tagged_done(&dataset);
}

static void refuses_what_is_wrong(void **state) {
    static const struct {
        const char *name, *text, *tag_column, *message;
    } cases[] = {
        {"a.txt", "", NULL, "no words"},
        {"a.txt", "\n\n", NULL, "no words"},
        {"a.txt", "a O\nb\n", NULL, "line 2: expected 2 columns as in the lines before, found 1"},
        {"a.txt", "# id 7\na O\n", NULL,
         "line 2: expected 3 columns as in the lines before, found 2; is line 1 a comment?"},
        {"a.txt", "a\nb\n", NULL, "line 1: words and tags would be the same column, 1"},
        {"a.txt", "a O\n", "3", "line 1: label_column: no column 3, the line has 2 columns"},
        {"a.txt", "a O\n", "ner", "label_column: expected the number of a column"},
        {"a.txt", "a O\nb\xff O\n", NULL, "line 2: not UTF-8"},
        {"a.json", "{\"tokens\": [\"a\"], \"ner_tags\": []}", NULL, "0 tags for 1 words"},
        {"a.json", "{\"tokens\": \"a\", \"ner_tags\": []}", NULL, "expected an array of strings"},
        {"a.json", "{\"tokens\": [\"a\"]}", NULL, "ner_tags"},
        {"a.json", "{\"tokens\": [\"\"], \"ner_tags\": [\"O\"]}", NULL, "not empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tagged_dataset dataset;
        struct berth_error error = {0};
        const struct tagged_settings settings = {.tag_column = cases[i].tag_column};
        write_file(cases[i].name, cases[i].text);
        assert_int_not_equal(tagged_read(path, &settings, &dataset, &error), BERTH_OK);
        if (strstr(error.message, cases[i].message) == NULL) {
            fail_msg("%s\ninstead of: %s", error.message, cases[i].message);
        }
        assert_null(dataset.storage);
    }
}

// Of many known tags the first are named.
static void shortens_lists_of_tags(void **state) {
    const char *names[60];
    char numbers[60][8];
    struct tagged_dataset dataset;
    struct berth_error error;
    for (size_t i = 0; i < 60; i++) {
        snprintf(numbers[i], sizeof numbers[i], "T%zu", i);
        names[i] = numbers[i];
    }
    write_file("a.txt", conll);
    assert_int_equal(tagged_read(path, &(struct tagged_settings){0}, &dataset, NULL), BERTH_OK);
    assert_int_equal(tagged_renumber(&dataset, names, 60, &error), BERTH_BAD_DATA);
    assert_non_null(strstr(error.message, "expected one of \"T0\", \"T1\", "));
    assert_non_null(strstr(error.message, ", ...;"));
    assert_null(strstr(error.message, "T50"));
    tagged_done(&dataset);
}

// As in pairs: LABEL_10 is the class 10, and so is the number 10.
static void placeholders_are_names_and_numbers(void **state) {
    static const char *const befores[] = {"LABEL_", ""};
    char names[12][16], text[512];
    const char *list[12];
    for (size_t round = 0; round < 2; round++) {
        size_t used = 0;
        for (int i = 0; i < 12; i++) {
            snprintf(names[i], sizeof names[i], "LABEL_%d", i);
            list[i] = names[i];
            used +=
                (size_t)sprintf(text + used, "%d %s%d\n", i * 5 % 12, befores[round], i * 5 % 12);
        }
        struct tagged_dataset dataset;
        write_file("a.txt", text);
        assert_int_equal(tagged_read(path, &(struct tagged_settings){0}, &dataset, NULL), BERTH_OK);
        assert_int_equal(tagged_renumber(&dataset, list, 12, NULL), BERTH_OK);
        assert_int_equal(dataset.word_count, 12);
        for (size_t i = 0; i < dataset.word_count; i++) {
            assert_int_equal(dataset.tags[i], atoi(dataset.words[i]));
        }
        assert_false(dataset.tags_in_order);
        tagged_done(&dataset);
    }
}

static void a_test_file_may_have_an_empty_column_of_tags(void **state) {
    const struct tagged_settings settings = {.tag_optional = 1};
    struct tagged_dataset dataset;
    write_file("a.json", "{\"tokens\": [\"a\"], \"ner_tags\": []}\n"
                         "{\"tokens\": [\"b\"], \"ner_tags\": null}\n{\"tokens\": [\"c\"]}\n");
    assert_int_equal(tagged_read(path, &settings, &dataset, NULL), BERTH_OK);
    assert_null(dataset.tags);
    assert_string_equal(dataset.empty_tag_column, "ner_tags");
    assert_int_equal(dataset.word_count, 3);
    tagged_done(&dataset);
    write_file("a.json", "{\"tokens\": [\"a\"], \"ner_tags\": []}\n"
                         "{\"tokens\": [\"b\"], \"ner_tags\": [\"O\"]}\n");
    assert_int_equal(tagged_read(path, &settings, &dataset, NULL), BERTH_BAD_DATA);
}

static void renumbers_tags(void **state) {
    static const char *const model[] = {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"};
    static const char *const lacking[] = {"O", "B-PER", "B-LOC"};
    static const char *const placeholders[] = {"LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3"};
    struct tagged_dataset dataset;
    struct berth_error error = {0};
    write_file("a.txt", conll);
    assert_int_equal(tagged_read(path, &(struct tagged_settings){0}, &dataset, NULL), BERTH_OK);
    assert_int_equal(tagged_renumber(&dataset, lacking, 3, &error), BERTH_BAD_DATA);
    assert_non_null(strstr(error.message, "line 4: the model has no label \"I-PER\"; expected one "
                                          "of \"O\", \"B-PER\", \"B-LOC\""));
    assert_int_equal(dataset.tags[0], 1); // unchanged
    assert_int_equal(tagged_renumber(&dataset, placeholders, 4, NULL), BERTH_OK);
    assert_int_equal(dataset.tags[3], 0);
    assert_true(dataset.tags_in_order);
    tagged_done(&dataset);
    assert_int_equal(tagged_read(path, &(struct tagged_settings){0}, &dataset, NULL), BERTH_OK);
    memory_fail_at(1, 0);
    assert_int_equal(tagged_renumber(&dataset, model, 5, NULL), BERTH_NO_MEMORY);
    memory_fail_at(0, 0);
    assert_int_equal(tagged_renumber(&dataset, model, 5, NULL), BERTH_OK);
    assert_int_equal(dataset.tags[3], 3);
    assert_sentences(&dataset, words, entities, 6);
    tagged_done(&dataset);
}

// --- windows ------------------------------------------------------------------------------------

static const struct tokenizer_special special = {.cls = 101, .sep = 102};

// A sentence and how it is cut; piece k of word w is 1000 w + k.
struct layout {
    const size_t *lengths; // number of pieces of each word
    size_t count;
    int64_t max_length, stride;
};

static void add_words(struct word_window_set *set, const struct layout *layout) {
    const struct word_window_rule rule = {layout->max_length, layout->stride, special};
    int32_t ids[512], classes[64];
    size_t starts[65] = {0}, used = 0;
    for (size_t w = 0; w < layout->count; w++) {
        for (size_t k = 0; k < layout->lengths[w]; k++) {
            ids[used++] = (int32_t)(1000 * w + k);
        }
        starts[w + 1] = used;
        classes[w] = (int32_t)w % 3;
    }
    const struct word_pieces pieces = {ids, starts, layout->count, classes, 7};
    assert_int_equal(word_windows_add(set, &rule, &pieces, NULL), BERTH_OK);
}

// Each word with pieces is labelled once, on its first piece, in the window where its smaller
// distance to an end is largest.
static void check_windows(const struct layout *layout) {
    struct word_window_set set = {.windows = NULL};
    size_t labelled[64] = {0}, distance[64] = {0}, best[64] = {0};
    add_words(&set, layout);
    for (size_t i = 0; i < set.count; i++) {
        const struct packer_sequence sequence = word_windows_sequence(&set, i);
        assert_true(sequence.length <= layout->max_length && sequence.masked_count > 0);
        assert_int_equal(sequence.ids[0], 101);
        assert_int_equal(sequence.ids[sequence.length - 1], 102);
        for (int32_t row = 1; row < sequence.length - 1; row++) {
            const size_t word = (size_t)sequence.ids[row] / 1000;
            int32_t end = row;
            while (end < sequence.length - 1 && (size_t)sequence.ids[end] / 1000 == word) {
                end++;
            }
            const size_t left = (size_t)row - 1, right = (size_t)(sequence.length - 1 - end);
            const size_t own = left < right ? left : right;
            if (sequence.ids[row] % 1000 == 0) {
                best[word] = own > best[word] ? own : best[word];
            }
            for (int32_t k = 0; k < sequence.masked_count; k++) {
                if (sequence.masked_positions[k] == row) {
                    assert_int_equal(sequence.ids[row] % 1000, 0);
                    assert_int_equal(sequence.masked_labels[k], (int32_t)word % 3);
                    assert_int_equal(set.words[set.windows[i].labels + (size_t)k], 7 + word);
                    labelled[word]++;
                    distance[word] = own;
                }
            }
        }
    }
    for (size_t w = 0; w < layout->count; w++) {
        assert_int_equal(labelled[w], layout->lengths[w] > 0);
        assert_int_equal(distance[w], best[w]);
    }
    word_windows_done(&set);
}

static void labels_each_word_once(void **state) {
    size_t lengths[64];
    uint32_t random = 5;
    for (int round = 0; round < 300; round++) {
        struct layout layout = {.lengths = lengths, .count = 1 + (size_t)round % 60};
        for (size_t i = 0; i < layout.count; i++) {
            random = random * 1664525u + 1013904223u;
            lengths[i] = round % 7 == 0 ? 1 : (random >> 24) % (round % 3 == 0 ? 9 : 4);
        }
        lengths[0] = 1; // a sentence has a word with pieces
        layout.max_length = 8 + round % 13;
        layout.stride = 1 + round % (layout.max_length - 2);
        check_windows(&layout);
    }
}

static void cuts_long_words_and_counts(void **state) {
    static const size_t lengths[] = {2, 9, 2};
    struct word_window_set set = {.windows = NULL};
    add_words(&set, &(struct layout){lengths, 3, 8, 6});
    assert_int_equal(set.truncated, 1);
    assert_int_equal(set.split_sentences, 1);
    assert_int_equal(set.label_count, 3);
    word_windows_done(&set);
    static const size_t short_ones[] = {2, 2, 2};
    add_words(&set, &(struct layout){short_ones, 3, 8, 6});
    assert_int_equal(set.count, 1);
    assert_int_equal(set.split_sentences, 0);
    word_windows_done(&set);
}

static void running_out_of_memory_is_an_error(void **state) {
    static const struct word_window_rule rule = {8, 3, {.cls = 2, .sep = 3}};
    static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nmara\noslo\n";
    struct tokenizer_options options = {.lower_case = 1};
    struct tokenizer *tokenizer;
    assert_int_equal(
        tokenizer_open_memory("v", vocabulary, sizeof vocabulary - 1, &options, &tokenizer, NULL),
        BERTH_OK);
    write_file("a.txt", conll);
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t n;
    for (n = 1; status != BERTH_OK; n++) {
        struct tagged_dataset dataset;
        struct word_window_set set = {.windows = NULL};
        memory_fail_at(n, 0);
        status = tagged_read(path, &(struct tagged_settings){0}, &dataset, NULL);
        if (status == BERTH_OK) {
            status = word_windows_build(&set, &rule, &dataset, tokenizer, NULL);
        }
        memory_fail_at(0, 0);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
        word_windows_done(&set);
        tagged_done(&dataset);
    }
    assert_true(n > 10);
    tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(reads_columns),
        SCRATCH_TEST(reads_json_lines),
        SCRATCH_TEST(refuses_what_is_wrong),
        SCRATCH_TEST(shortens_lists_of_tags),
        SCRATCH_TEST(placeholders_are_names_and_numbers),
        SCRATCH_TEST(a_test_file_may_have_an_empty_column_of_tags),
        SCRATCH_TEST(renumbers_tags),
        SCRATCH_TEST(labels_each_word_once),
        SCRATCH_TEST(cuts_long_words_and_counts),
        SCRATCH_TEST(running_out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("tagged", tests, NULL, NULL);
}
