// SPDX-License-Identifier: Apache-2.0
// Training of a vocabulary: counted words, the alphabet, and the same pieces as a slow trainer that
// recounts every pair for each piece.
#include "core/harness.h"
#include "core/memory.h"
#include "format/json/json.h"
#include "text/text_pipeline.h"
#include "text/tokenizer.h"
#include "text/vocabulary_form.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct berth_log silent = {0};

static void count_text(struct word_counts *counts, const char *text) {
    assert_int_equal(word_counts_add_text(counts, text, strlen(text), 1, NULL), BERTH_OK);
}

static uint64_t count_of(const struct word_counts *counts, const char *word) {
    uint32_t number = string_index_find(&counts->words, word, strlen(word));
    return number != STRING_INDEX_NONE ? counts->counts[number] : 0;
}

static void test_words(void **state) {
    (void)state;
    struct word_counts counts = {0};
    count_text(&counts, "The cat's caf\xC3\xA9; the CAT");
    count_text(&counts, "\xE6\x9D\xB1the");
    assert_int_equal(count_of(&counts, "the"), 3);
    assert_int_equal(count_of(&counts, "cat"), 2);
    assert_int_equal(count_of(&counts, "cafe"), 1);
    assert_int_equal(count_of(&counts, "'"), 1);
    assert_int_equal(count_of(&counts, "\xE6\x9D\xB1"), 1);
    assert_int_equal(counts.words.count, 7);
    assert_int_equal(counts.total, 10);
    char longest[WORD_CHARACTERS_MAX + 2];
    memset(longest, 'x', sizeof longest);
    longest[WORD_CHARACTERS_MAX + 1] = '\0';
    count_text(&counts, longest);
    assert_int_equal(counts.total, 10);
    count_text(&counts, longest + 1);
    assert_int_equal(count_of(&counts, longest + 1), 1);
    word_counts_done(&counts);
}

// --- the slow trainer ---------------------------------------------------------------------------

#define SLOW_WORDS 400
#define SLOW_LENGTH 12
#define SLOW_PIECES 400

struct slow {
    int symbols[SLOW_WORDS][SLOW_LENGTH];
    int lengths[SLOW_WORDS];
    uint64_t counts[SLOW_WORDS];
    int words;
    char pieces[SLOW_PIECES][4 * SLOW_LENGTH];
    int piece_count;
};

static int slow_piece(struct slow *slow, const char *text) {
    for (int i = 0; i < slow->piece_count; i++) {
        if (strcmp(slow->pieces[i], text) == 0) {
            return i;
        }
    }
    assert_true(slow->piece_count < SLOW_PIECES);
    snprintf(slow->pieces[slow->piece_count], sizeof slow->pieces[0], "%s", text);
    return slow->piece_count++;
}

// The most frequent pair, the smaller pieces first; 0 when none occurs twice.
static uint64_t slow_best(const struct slow *slow, int *left, int *right) {
    static uint64_t table[SLOW_PIECES][SLOW_PIECES];
    uint64_t best = 1;
    memset(table, 0, sizeof table);
    for (int w = 0; w < slow->words; w++) {
        for (int i = 0; i + 1 < slow->lengths[w]; i++) {
            table[slow->symbols[w][i]][slow->symbols[w][i + 1]] += slow->counts[w];
        }
    }
    for (int a = 0; a < slow->piece_count; a++) {
        for (int b = 0; b < slow->piece_count; b++) {
            if (table[a][b] > best) {
                best = table[a][b];
                *left = a;
                *right = b;
            }
        }
    }
    return best > 1 ? best : 0;
}

static void slow_join(struct slow *slow, int left, int right, int piece) {
    for (int w = 0; w < slow->words; w++) {
        int out = 0;
        for (int i = 0; i < slow->lengths[w]; i++) {
            int *symbols = slow->symbols[w];
            int joins = i + 1 < slow->lengths[w] && symbols[i] == left && symbols[i + 1] == right;
            symbols[out++] = joins ? piece : symbols[i];
            i += joins;
        }
        slow->lengths[w] = out;
    }
}

static void slow_train(struct slow *slow, int size) {
    int left, right;
    while (slow->piece_count < size && slow_best(slow, &left, &right) > 0) {
        char text[4 * SLOW_LENGTH];
        snprintf(text, sizeof text, "%s%s", slow->pieces[left], slow->pieces[right] + 2);
        slow_join(slow, left, right, slow_piece(slow, text));
    }
}

// Words of the letters a to d: few letters give long runs and pieces that can form in two ways.
static void make_words(struct slow *slow, struct word_counts *counts, unsigned seed) {
    static const char *const first[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a",  "b",
                                        "c",     "d",     "##a",   "##b",   "##c",    "##d"};
    *slow = (struct slow){.words = 0};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        slow_piece(slow, first[i]);
    }
    srand(seed);
    while (slow->words < SLOW_WORDS) {
        char word[SLOW_LENGTH + 1];
        int length = 1 + rand() % SLOW_LENGTH;
        for (int i = 0; i < length; i++) {
            int letter = rand() % 7 % 4;
            word[i] = (char)('a' + letter);
            slow->symbols[slow->words][i] = letter + (i == 0 ? 5 : 9);
        }
        slow->lengths[slow->words] = length;
        slow->counts[slow->words] = 1 + (uint64_t)(rand() % 5);
        assert_int_equal(
            word_counts_add(counts, word, (size_t)length, slow->counts[slow->words], NULL),
            BERTH_OK);
        slow->words++;
    }
}

static void expect_pieces(const struct string_index *pieces, const struct slow *slow) {
    assert_int_equal(pieces->count, slow->piece_count);
    for (int i = 0; i < slow->piece_count; i++) {
        assert_int_equal(string_index_length(pieces, (size_t)i), strlen(slow->pieces[i]));
        assert_memory_equal(string_index_bytes(pieces, (size_t)i), slow->pieces[i],
                            strlen(slow->pieces[i]));
    }
}

static void test_against_slow_trainer(void **state) {
    (void)state;
    static struct slow slow;
    for (unsigned seed = 1; seed <= 5; seed++) {
        struct word_counts counts = {0};
        struct string_index pieces;
        make_words(&slow, &counts, seed);
        slow_train(&slow, 300);
        assert_true(slow.piece_count > 100);
        const struct vocabulary_rules rules = {
            .size = 300, .limit_alphabet = 100, .min_frequency = 2};
        assert_int_equal(vocabulary_train(&counts, &rules, &silent, NULL, &pieces, NULL), BERTH_OK);
        expect_pieces(&pieces, &slow);
        string_index_done(&pieces);
        word_counts_done(&counts);
    }
}

// --- rules --------------------------------------------------------------------------------------

static void expect_vocabulary(const char *text, const struct vocabulary_rules *rules,
                              const char *expected) {
    struct word_counts counts = {0};
    struct string_index pieces;
    char found[512] = "";
    count_text(&counts, text);
    assert_int_equal(vocabulary_train(&counts, rules, &silent, NULL, &pieces, NULL), BERTH_OK);
    for (size_t i = 5, used = 0; i < pieces.count; i++) {
        used +=
            (size_t)snprintf(found + used, sizeof found - used, "%s%.*s", i > 5 ? " " : "",
                             (int)string_index_length(&pieces, i), string_index_bytes(&pieces, i));
    }
    assert_string_equal(found, expected);
    string_index_done(&pieces);
    word_counts_done(&counts);
}

static void test_rules(void **state) {
    (void)state;
    struct vocabulary_rules rules = {.size = 100, .limit_alphabet = 100, .min_frequency = 2};
    expect_vocabulary("hug hug pug", &rules, "g h p u ##g ##u ##ug hug");
    rules.min_frequency = 3;
    expect_vocabulary("hug hug pug", &rules, "g h p u ##g ##u ##ug");
    rules.min_frequency = 1;
    expect_vocabulary("hug hug pug", &rules, "g h p u ##g ##u ##ug hug pug");
    rules.size = 12;
    expect_vocabulary("hug hug pug", &rules, "g h p u ##g ##u ##ug");
    // The rarest character, and with it the word, is left out.
    rules = (struct vocabulary_rules){.size = 100, .limit_alphabet = 3, .min_frequency = 1};
    expect_vocabulary("hug hug pug", &rules, "g h u ##g ##u hu hug");
    rules = (struct vocabulary_rules){.size = 100, .limit_alphabet = 9, .min_frequency = 1};
    expect_vocabulary("aaaa", &rules, "a ##a ##aa aaa aaaa");
}

static void test_refusals(void **state) {
    (void)state;
    struct word_counts counts = {0};
    struct string_index pieces;
    struct berth_error error;
    struct vocabulary_rules rules = {.size = 10, .limit_alphabet = 100, .min_frequency = 2};
    assert_int_equal(vocabulary_train(&counts, &rules, &silent, NULL, &pieces, &error),
                     BERTH_BAD_DATA);
    count_text(&counts, "hug pug");
    assert_int_equal(vocabulary_train(&counts, &rules, &silent, NULL, &pieces, &error),
                     BERTH_CONFIG);
    assert_non_null(strstr(error.message, "at least 11, "));
    string_index_done(&pieces);
    rules.size = 12;
    atomic_int stop = 1;
    assert_int_equal(vocabulary_train(&counts, &rules, &silent, &stop, &pieces, &error),
                     BERTH_INTERRUPTED);
    string_index_done(&pieces);
    word_counts_done(&counts);
}

static enum berth_status train_text(void) {
    struct word_counts counts = {0};
    struct string_index pieces = {0};
    const struct vocabulary_rules rules = {.size = 60, .limit_alphabet = 100, .min_frequency = 1};
    const char *text = "the quick brown fox jumps over the lazy dog the end";
    enum berth_status status = word_counts_add_text(&counts, text, strlen(text), 1, NULL);
    if (status == BERTH_OK) {
        status = vocabulary_train(&counts, &rules, &silent, NULL, &pieces, NULL);
    }
    string_index_done(&pieces);
    word_counts_done(&counts);
    return status;
}

static void test_out_of_memory(void **state) {
    (void)state;
    memory_fail_at(0, 0);
    assert_int_equal(train_text(), BERTH_OK);
    uint64_t calls = memory_fail_at(0, 0);
    assert_true(calls > 20);
    for (uint64_t call = 1; call <= calls; call++) {
        memory_fail_at(call, 0);
        assert_int_equal(train_text(), BERTH_NO_MEMORY);
        memory_fail_at(0, 0);
    }
}

// Special pieces and characters fill the piece index until the next look-up would grow it: 5
// special ones, 254 at the start of words and 253 within, together half of 1,024 slots.
static void test_out_of_memory_at_a_full_index(void **state) {
    (void)state;
    const struct vocabulary_rules rules = {600, 1000, 1};
    struct word_counts counts = {0};
    for (int i = 0; i < 254; i++) {
        char word[6];
        for (int j = 0; j < 6; j += 3) { // from U+4E00
            word[j] = '\xE4';
            word[j + 1] = (char)(0xB8 + i / 64);
            word[j + 2] = (char)(0x80 + i % 64);
        }
        assert_int_equal(word_counts_add(&counts, word, i == 253 ? 3 : 6, 1, NULL), BERTH_OK);
    }
    for (uint64_t call = 0; call <= 60; call++) { // spelling words needs fewer allocations
        struct string_index pieces;
        memory_fail_at(call, 0);
        enum berth_status status = vocabulary_train(&counts, &rules, &silent, NULL, &pieces, NULL);
        memory_fail_at(0, 0);
        assert_int_equal(status, call == 0 ? BERTH_OK : BERTH_NO_MEMORY);
        assert_true(call > 0 || pieces.count == 600);
        string_index_done(&pieces);
    }
    word_counts_done(&counts);
}

// --- BPE and Unigram
// ------------------------------------------------------------------------------

// Counts the lines by the components of the form.
static void count_lines(enum vocabulary_form form, const char *text, struct word_counts *counts) {
    struct text_pipeline *pipeline;
    json *splitter = form_splitter(form, 1);
    assert_int_equal(text_pipeline_open("new", splitter, &pipeline, NULL), BERTH_OK);
    assert_int_equal(word_counts_add_lines(counts, pipeline, text, strlen(text), NULL), BERTH_OK);
    text_pipeline_close(pipeline);
    json_free(splitter);
}

static void assert_ids(const json *form, const char *text, const char *expected) {
    const struct tokenizer_names names = {.pad = NULL};
    const struct tokenizer_options options = {.lower_case = 0};
    struct tokenizer *tokenizer;
    struct token_list list = {0};
    char found[128];
    size_t length = 0;
    assert_int_equal(tokenizer_open_pipeline("new", form, &names, &options, &tokenizer, NULL),
                     BERTH_OK);
    assert_int_equal(tokenizer_special_ids(tokenizer).sep, 2);
    assert_int_equal(tokenizer_encode(tokenizer, text, strlen(text), &list, NULL), BERTH_OK);
    for (size_t i = 0; i < list.count; i++) {
        length += (size_t)snprintf(found + length, sizeof found - length, "%d ", list.items[i].id);
    }
    assert_string_equal(found, expected);
    token_list_done(&list);
    tokenizer_close(tokenizer);
}

// The merges are those of the tokenizers library.
static void test_bytes(void **state) {
    (void)state;
    static const char *const texts[] = {"ug", "\xC4\xA0h", "\xC3\x83\xC2\xA9",
                                        "\xC4\xA0h\xC3\x83\xC2\xA9"};
    const struct vocabulary_rules rules = {.size = 300, .limit_alphabet = 1, .min_frequency = 2};
    struct word_counts counts = {0};
    struct string_index pieces;
    struct vocabulary_merges merges;
    count_lines(FORM_BPE, "hug Hug pug h\xC3\xA9 h\xC3\xA9\n", &counts);
    assert_int_equal(vocabulary_train_bytes(&counts, &rules, form_specials, FORM_SPECIALS, &silent,
                                            NULL, &pieces, &merges, NULL),
                     BERTH_OK);
    assert_int_equal(pieces.count, FORM_SPECIALS + 256 + 4);
    assert_int_equal(merges.count, 4);
    for (size_t i = 0; i < 4; i++) {
        const size_t piece = FORM_SPECIALS + 256 + i;
        assert_int_equal(string_index_length(&pieces, piece), strlen(texts[i]));
        assert_memory_equal(string_index_bytes(&pieces, piece), texts[i], strlen(texts[i]));
    }
    json *form = form_of_merges(1, &pieces, &merges);
    assert_ids(form, "HUG h\xC3\xA9<mask>", "76 261 264 4 ");
    json_free(form);
    string_index_done(&pieces);
    memory_free(merges.items);
    word_counts_done(&counts);
}

static const struct {
    const char *word;
    uint64_t count;
} bugs[] = {{"hug", 10}, {"pug", 5},       {"hugs", 5}, {"bun", 4},
            {"pun", 12}, {"huggingly", 2}, {"bugs", 3}};

static void count_bugs(struct word_counts *counts, int turned) {
    const size_t count = sizeof bugs / sizeof *bugs;
    for (size_t i = 0; i < count; i++) {
        const size_t at = turned ? count - 1 - i : i;
        assert_int_equal(
            word_counts_add(counts, bugs[at].word, strlen(bugs[at].word), bugs[at].count, NULL),
            BERTH_OK);
    }
}

struct scored {
    const char *text;
    double score;
};

static void assert_scored(const struct unigram_pieces *pieces, const struct scored *expected,
                          size_t count) {
    assert_int_equal(pieces->texts.count, count);
    for (size_t i = 0; i < count; i++) {
        const uint32_t found =
            string_index_find(&pieces->texts, expected[i].text, strlen(expected[i].text));
        assert_int_not_equal(found, STRING_INDEX_NONE);
        assert_true(fabs(pieces->scores[found] - expected[i].score) < 1e-9);
        assert_true(i == 0 || pieces->scores[i] <= pieces->scores[i - 1]);
    }
}

// Pieces and scores are those of the tokenizers library, with none and with one round of pruning;
// the order of the words changes nothing.
static void test_unigram(void **state) {
    (void)state;
    static const struct scored all[] = {
        {"n", -1.60041750205927},   {"hug", -1.6678076841556817}, {"pu", -1.8975681371619224},
        {"g", -2.232987161738655},  {"s", -2.447112881855687},    {"bu", -2.744422482369072},
        {"p", -3.3595572075383817}, {"ug", -3.8372300923669567},  {"u", -3.9039121965805963},
        {"i", -4.03997002475279},   {"y", -4.03997002475279},     {"l", -4.03997002475279},
        {"h", -5.157334828004816},  {"b", -5.157334828004816}};
    static const struct scored pruned[] = {
        {"n", -1.60041750205927},   {"hug", -1.6678076841556817}, {"g", -2.232987161738655},
        {"s", -2.447112881855687},  {"p", -3.3595572075383817},   {"ug", -3.8372300923669567},
        {"u", -3.9039121965805963}, {"y", -4.03997002475279},     {"l", -4.03997002475279},
        {"i", -4.03997002475279},   {"b", -5.157334828004816},    {"h", -5.157334828004816}};
    for (int turned = 0; turned < 2; turned++) {
        struct word_counts counts = {0};
        struct unigram_pieces pieces;
        count_bugs(&counts, turned);
        assert_int_equal(unigram_train(&counts, 18, 1, &silent, NULL, &pieces, NULL), BERTH_OK);
        assert_scored(&pieces, all, sizeof all / sizeof *all);
        unigram_pieces_done(&pieces);
        assert_int_equal(unigram_train(&counts, 13, 1, &silent, NULL, &pieces, NULL), BERTH_OK);
        assert_scored(&pieces, pruned, sizeof pruned / sizeof *pruned);
        unigram_pieces_done(&pieces);
        word_counts_done(&counts);
    }
}

// A piece that is left out may still replace another in the same round: the library then keeps one
// piece and not the other.
static void test_unigram_replacements(void **state) {
    (void)state;
    static const struct {
        const char *word;
        uint64_t count;
    } words[] = {{"sasa", 2},     {"mimikato", 3}, {"raminomi", 2}, {"kasarano", 4},
                 {"nokakara", 4}, {"ra", 1},       {"no", 3},       {"satomimi", 2},
                 {"tora", 3},     {"ratoto", 2},   {"torarara", 4}, {"kakarami", 1},
                 {"ratomi", 6},   {"nonokara", 4}, {"ka", 5},       {"mika", 3}};
    static const char kept[] = "\xE2\x96\x81tora", left_out[] = "\xE2\x96\x81ka";
    struct word_counts counts = {0};
    struct unigram_pieces pieces;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        char word[16];
        const int length = snprintf(word, sizeof word, "\xE2\x96\x81%s", words[i].word);
        assert_int_equal(word_counts_add(&counts, word, (size_t)length, words[i].count, NULL),
                         BERTH_OK);
    }
    assert_int_equal(unigram_train(&counts, 17, 5, &silent, NULL, &pieces, NULL), BERTH_OK);
    assert_int_not_equal(string_index_find(&pieces.texts, kept, sizeof kept - 1),
                         STRING_INDEX_NONE);
    assert_int_equal(string_index_find(&pieces.texts, left_out, sizeof left_out - 1),
                     STRING_INDEX_NONE);
    unigram_pieces_done(&pieces);
    word_counts_done(&counts);
}

static void test_unigram_form(void **state) {
    (void)state;
    struct word_counts counts = {0};
    struct unigram_pieces pieces;
    struct berth_error error;
    count_lines(FORM_UNIGRAM, "Hug hug\n\npug HUG", &counts);
    assert_int_equal(counts.total, 4);
    assert_int_equal(unigram_train(&counts, 9, FORM_SPECIALS, &silent, NULL, &pieces, &error),
                     BERTH_CONFIG);
    assert_non_null(strstr(error.message, "at least 10, "));
    unigram_pieces_done(&pieces);
    atomic_int stop = 1;
    assert_int_equal(unigram_train(&counts, 20, FORM_SPECIALS, &silent, &stop, &pieces, NULL),
                     BERTH_INTERRUPTED);
    unigram_pieces_done(&pieces);
    assert_int_equal(unigram_train(&counts, 20, FORM_SPECIALS, &silent, NULL, &pieces, NULL),
                     BERTH_OK);
    json *form = form_of_scores(1, &pieces);
    assert_ids(form, "HUG<mask>q", "5 8 6 7 4 5 3 ");
    json_free(form);
    unigram_pieces_done(&pieces);
    word_counts_done(&counts);
}

static enum berth_status train_other(int is_unigram) {
    struct word_counts counts = {0};
    struct unigram_pieces scored = {.scores = NULL};
    struct string_index pieces = {0};
    struct vocabulary_merges merges = {.items = NULL};
    const struct vocabulary_rules rules = {.size = 300, .limit_alphabet = 1, .min_frequency = 2};
    enum berth_status status = BERTH_OK;
    json *form = NULL;
    for (size_t i = 0; i < sizeof bugs / sizeof *bugs && status == BERTH_OK; i++) {
        status = word_counts_add(&counts, bugs[i].word, strlen(bugs[i].word), bugs[i].count, NULL);
    }
    if (status == BERTH_OK && is_unigram) {
        status = unigram_train(&counts, 12, 1, &silent, NULL, &scored, NULL);
        form = status == BERTH_OK ? form_of_scores(0, &scored) : NULL;
    } else if (status == BERTH_OK) {
        status = vocabulary_train_bytes(&counts, &rules, form_specials, 1, &silent, NULL, &pieces,
                                        &merges, NULL);
        form = status == BERTH_OK ? form_of_merges(0, &pieces, &merges) : NULL;
    }
    status = status == BERTH_OK && form == NULL ? BERTH_NO_MEMORY : status;
    json_free(form);
    unigram_pieces_done(&scored);
    string_index_done(&pieces);
    memory_free(merges.items);
    word_counts_done(&counts);
    return status;
}

static void test_others_out_of_memory(void **state) {
    (void)state;
    for (int is_unigram = 0; is_unigram < 2; is_unigram++) {
        memory_fail_at(0, 0);
        assert_int_equal(train_other(is_unigram), BERTH_OK);
        const uint64_t calls = memory_fail_at(0, 0);
        assert_true(calls > 20);
        for (uint64_t call = 1; call <= calls; call++) {
            memory_fail_at(call, 0);
            assert_int_equal(train_other(is_unigram), BERTH_NO_MEMORY);
            memory_fail_at(0, 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_against_slow_trainer),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_unigram),
        cmocka_unit_test(test_unigram_replacements),
        cmocka_unit_test(test_unigram_form),
        cmocka_unit_test(test_others_out_of_memory),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_out_of_memory_at_a_full_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
