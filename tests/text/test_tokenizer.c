// SPDX-License-Identifier: Apache-2.0
// Tests beyond the golden cases: settings, ill-formed text, basic words, the token list, and
// running out of memory.
#include "core/harness.h"
#include "core/memory.h"
#include "text/tokenizer.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"         // 0 to 4
                                 "the\nun\n##aff\n##able\ncafe\n.\n[\n]\ncls\n" // 5 to 13
                                 "a\n##a\nb\n##b\n\xE4\xB8\xAD\n"               // 14 to 18
                                 "\xCF\x83\n##\xCF\x83\n##\xCF\x82\n\xE3\x80\xAE\n##\xE3\x80\xAE\n"
                                 "e\n##t\n##e\n\xE1\x84\x80\n##\xE1\x85\xA1\n"; // 24 to 28

static struct tokenizer *open_words(const char *words, struct tokenizer_options options) {
    struct tokenizer *tokenizer;
    struct berth_error error;
    if (tokenizer_open_memory("test", words, strlen(words), &options, &tokenizer, &error) !=
        BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return tokenizer;
}

static struct tokenizer *open_options(struct tokenizer_options options) {
    return open_words(vocabulary, options);
}

static struct tokenizer *open_uncased(void) {
    return open_options((struct tokenizer_options){.lower_case = 1});
}

static void expect_ids(struct tokenizer *tokenizer, const char *text, const int32_t *ids,
                       size_t count) {
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, text, strlen(text), &list, NULL), BERTH_OK);
    assert_int_equal(list.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(list.items[i].id, ids[i]);
    }
    token_list_done(&list);
    tokenizer_close(tokenizer);
}

#define EXPECT_IDS(tokenizer, text, ...)                                                           \
    expect_ids(tokenizer, text, (const int32_t[]){__VA_ARGS__},                                    \
               sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void expect_tokens(const struct tokenizer *tokenizer, const char *text,
                          const struct token *expected, size_t count) {
    struct token_list list = {0};
    assert_int_equal(tokenizer_encode(tokenizer, text, strlen(text), &list, NULL), BERTH_OK);
    assert_int_equal(list.count, count);
    assert_memory_equal(list.items, expected, count * sizeof *expected);
    token_list_done(&list);
}

static void test_pieces_and_offsets(void **state) {
    (void)state;
    struct tokenizer *tokenizer = open_uncased();
    const struct token whole[] = {{5, 0, 0, 3, 0, 3},     {6, 1, 4, 6, 4, 6},
                                  {7, 1, 6, 9, 6, 9},     {8, 1, 9, 13, 9, 13},
                                  {9, 2, 14, 18, 14, 19}, {10, 3, 18, 19, 19, 20}};
    expect_tokens(tokenizer, "The UNaffable Caf\xC3\xA9.", whole, sizeof whole / sizeof *whole);
    // An accent is stripped, and the character before the second E is dropped.
    const struct token stripped[] = {{24, 0, 0, 1, 0, 2}, {25, 0, 1, 2, 2, 3}, {26, 0, 3, 4, 4, 5},
                                     {1, 1, 6, 7, 7, 8},  {14, 2, 7, 8, 8, 9}, {1, 3, 8, 9, 9, 10}};
    expect_tokens(tokenizer,
                  "\xC3\x89t\x01"
                  "E  (A)",
                  stripped, sizeof stripped / sizeof *stripped);
    // One character becomes two pieces.
    const struct token decomposed[] = {{27, 0, 0, 1, 0, 3}, {28, 0, 0, 1, 0, 3}};
    expect_tokens(tokenizer, "\xEA\xB0\x80", decomposed, sizeof decomposed / sizeof *decomposed);
    tokenizer_close(tokenizer);
}

static void test_encode_appends(void **state) {
    (void)state;
    struct tokenizer *tokenizer = open_uncased();
    struct token_list list = {0};
    for (size_t i = 1; i <= 1000; i++) {
        assert_int_equal(tokenizer_encode(tokenizer, "a \xFF", 3, &list, NULL), BERTH_OK);
        assert_int_equal(list.count, i);
        assert_int_equal(list.ill_formed, i);
        assert_int_equal(list.items[i - 1].word, 0);
    }
    assert_int_equal(tokenizer_encode(tokenizer, "", 0, &list, NULL), BERTH_OK);
    assert_int_equal(list.count, 1000);
    token_list_done(&list);
    tokenizer_close(tokenizer);
}

// Each sequence that Python's decoder replaces by one U+FFFD counts once and is one character.
static void test_ill_formed_text(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t length, ill_formed;
    } cases[] = {
        {"a\x80z", 3, 1},         {"a\xC0\x80z", 4, 2},         {"a\xC3z", 3, 1},
        {"a\xE4\xB8z", 4, 1},     {"a\xE0\x80\x80z", 5, 3},     {"a\xED\xA0\x80z", 5, 3},
        {"a\xF0\x9F\x98z", 5, 1}, {"a\xF4\x90\x80\x80z", 6, 4}, {"a\xF8\x88\x80\x80\x80z", 7, 5},
        {"a\xFF\xFEz", 4, 2},     {"a\xE4\xB8", 3, 1},          {"a\xF0\x9F\x98\xE4z", 6, 2},
    };
    struct tokenizer *tokenizer = open_uncased();
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct token_list list = {0};
        // The last byte becomes a "b" after a blank, to check its offset.
        char text[16];
        memcpy(text, cases[i].text, cases[i].length);
        int ends_in_z = text[cases[i].length - 1] == 'z';
        size_t begin = cases[i].length - (size_t)ends_in_z;
        memcpy(text + begin, " b", 2);
        assert_int_equal(tokenizer_encode(tokenizer, text, begin + 2, &list, NULL), BERTH_OK);
        assert_int_equal(list.ill_formed, cases[i].ill_formed);
        assert_int_equal(list.count, 2);
        assert_int_equal(list.items[0].id, 14);
        assert_int_equal(list.items[0].byte_end, 1);
        assert_int_equal(list.items[1].id, 16);
        assert_int_equal(list.items[1].begin, 2 + cases[i].ill_formed);
        assert_int_equal(list.items[1].byte_begin, begin + 1);
        token_list_done(&list);
    }
    tokenizer_close(tokenizer);
}

static void test_dropped_bytes_do_not_cut_a_word(void **state) {
    (void)state;
    EXPECT_IDS(open_uncased(),
               "u\xFFn\x01"
               "aff\xC2\xAD"
               "able",
               6, 7, 8);
}

static void test_special_tokens(void **state) {
    (void)state;
    EXPECT_IDS(open_uncased(), "the[CLS]the [cls]", 5, 2, 5, 11, 13, 12);
    EXPECT_IDS(open_options((struct tokenizer_options){.lower_case = 1, .split_special = 1}),
               "the[CLS]", 5, 11, 13, 12);
    struct tokenizer *google =
        open_options((struct tokenizer_options){.rules = TOKENIZER_GOOGLE, .lower_case = 1});
    assert_int_equal(tokenizer_rules_of(google)->split_special, 1);
    EXPECT_IDS(google, "[CLS]", 11, 13, 12);
    // NVIDIA's copy of Google's tokenizer never splits a special token that is a separate word.
    // Dropped characters and ideographs do not count as its neighbours.
    struct tokenizer_options nvidia = {
        .rules = TOKENIZER_GOOGLE, .lower_case = 1, .split_special = -1};
    struct tokenizer *kept = open_options(nvidia);
    assert_int_equal(tokenizer_rules_of(kept)->split_special, 0);
    EXPECT_IDS(kept, "[CLS] the [MASK]", 2, 5, 4);
    EXPECT_IDS(open_options(nvidia), "the[CLS] [CLS].", 5, 11, 13, 12, 11, 13, 12, 10);
    EXPECT_IDS(open_options(nvidia), "\xE4\xB8\xAD[SEP]\xE4\xB8\xAD", 18, 3, 18);
    EXPECT_IDS(open_options(nvidia), "the\x01 \x01[SEP]\xFF\x01\tthe", 5, 3, 5);
    EXPECT_IDS(open_options(nvidia), "the\x01[cls]", 5, 11, 13, 12);
    EXPECT_IDS(open_options(nvidia), "the\x01[CLS]", 5, 11, 13, 12);
}

// Added tokens are found wherever they are, whatever they consist of and whatever is before them;
// ids and characters are those of `tokenizers` 0.23.
static void test_added_tokens(void **state) {
    (void)state;
    static const struct added_token added[] = {
        {"[\xE4\xBC\x9A]", 0}, {"\t", 0}, {"\xE3\x80\x80", 0}, {" a ", 0}, {"\xE2\x80\x8B", 0}};
    static const char words[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[\xE4\xBC\x9A]\n\t\n"
                                "\xE3\x80\x80\n a \n\xE2\x80\x8B\na\nb\n\xC3\xA9\n";
    static const struct {
        const char *text;
        size_t count;
        struct token tokens[5]; // id, word, characters, bytes
    } cases[] = {
        {"[\xE4\xBC\x9A] b", 2, {{5, 0, 0, 3, 0, 5}, {11, 1, 4, 5, 6, 7}}},
        {"[\xE4\xBC\x9A]b", 2, {{5, 0, 0, 3, 0, 5}, {11, 1, 3, 4, 5, 6}}},
        {"\tb \t", 3, {{6, 0, 0, 1, 0, 1}, {11, 1, 1, 2, 1, 2}, {6, 2, 3, 4, 3, 4}}},
        {"\xE3\x80\x80"
         "b \xE3\x80\x80",
         3,
         {{7, 0, 0, 1, 0, 3}, {11, 1, 1, 2, 3, 4}, {7, 2, 3, 4, 5, 8}}},
        {"b a b", 3, {{11, 0, 0, 1, 0, 1}, {8, 1, 1, 4, 1, 4}, {11, 2, 4, 5, 4, 5}}},
        {" \xC3\xA9  a b", 3, {{1, 0, 1, 2, 1, 3}, {8, 1, 3, 6, 4, 7}, {11, 2, 6, 7, 7, 8}}},
        {".\t", 2, {{1, 0, 0, 1, 0, 1}, {6, 1, 1, 2, 1, 2}}},
        // U+302E is a mark that is not stripped.
        {"\xE3\x80\xAE\xE2\x80\x8B"
         "b",
         3,
         {{1, 0, 0, 1, 0, 3}, {9, 1, 1, 2, 3, 6}, {11, 2, 2, 3, 6, 7}}},
    };
    const struct tokenizer_options options = {
        .lower_case = 1, .added = added, .added_count = COUNT(added)};
    struct tokenizer *tokenizer = open_words(words, options);
    for (size_t i = 0; i < COUNT(cases); i++) {
        expect_tokens(tokenizer, cases[i].text, cases[i].tokens, cases[i].count);
    }
    tokenizer_close(tokenizer);
}

// Added tokens that are found in normalized text; ids and characters are those of `tokenizers`
// 0.23.
static void test_normalized_tokens(void **state) {
    (void)state;
    static const struct added_token added[] = {{"[E1]", 0},
                                               {"covid19", ADDED_NORMALIZED},
                                               {"Z\xC3\xBCrich", ADDED_NORMALIZED},
                                               {"new york", ADDED_NORMALIZED},
                                               {"\xE8\xA9\xB1", ADDED_NORMALIZED},
                                               {"b [e", ADDED_NORMALIZED},
                                               {"Covid19", ADDED_NORMALIZED},
                                               {"\xCC\x81", ADDED_NORMALIZED},
                                               {"ab", ADDED_NORMALIZED},
                                               {"ab[e", ADDED_NORMALIZED},
                                               {"b\xEF\xA4\x80", ADDED_NORMALIZED}};
    static const char words[] =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\ncovid19\nZ\xC3\xBCrich\nnew york\n\xE8\xA9\xB1\n"
        "b [e\n[E1]\nCovid19\n\xCC\x81\nab\nab[e\nb\xEF\xA4\x80\n";
    static const struct {
        const char *text;
        size_t count;
        struct token tokens[4]; // id, word, characters, bytes
    } cases[] = {
        {"COVID19 a", 2, {{7, 0, 0, 7, 0, 7}, {5, 1, 8, 9, 8, 9}}},
        {"aCovid19b", 3, {{5, 0, 0, 1, 0, 1}, {7, 1, 1, 8, 1, 8}, {6, 2, 8, 9, 8, 9}}},
        {"ZU\xCC\x88RICH\xCC\x81 b", 2, {{8, 0, 0, 7, 0, 8}, {6, 1, 9, 10, 11, 12}}},
        {"New\tYork, new  york",
         4,
         {{9, 0, 0, 8, 0, 8}, {1, 1, 8, 9, 8, 9}, {1, 2, 10, 13, 10, 13}, {1, 3, 15, 19, 15, 19}}},
        {"b\xE8\xA9\xB1"
         "a",
         3,
         {{6, 0, 0, 1, 0, 1}, {10, 1, 1, 2, 1, 4}, {5, 2, 2, 3, 4, 5}}},
        {"b [E1]", 2, {{6, 0, 0, 1, 0, 1}, {12, 1, 2, 6, 2, 6}}}, // the written one comes first
        {"AB[E1]", 2, {{15, 0, 0, 2, 0, 2}, {12, 1, 2, 6, 2, 6}}},
        {"b [e1]", 3, {{11, 0, 0, 4, 0, 4}, {1, 1, 4, 5, 4, 5}, {1, 2, 5, 6, 5, 6}}},
        {"\xCC\x81\x01"
         "covi\x0F"
         "d19\xCC\x81",
         1,
         {{7, 0, 2, 10, 3, 11}}},
        // U+F900 and U+8C48 are one ideograph.
        {"B\xE8\xB1\x88"
         "a",
         2,
         {{17, 0, 0, 2, 0, 4}, {5, 1, 2, 3, 4, 5}}},
        {"b\xEF\xA4\x80 b", 2, {{17, 0, 0, 2, 0, 4}, {6, 1, 3, 4, 5, 6}}},
        {"\xC3\xA9", 1, {{1, 0, 0, 1, 0, 2}}}, // U+0301 becomes nothing, so it is never found
    };
    const struct tokenizer_options options = {
        .lower_case = 1, .added = added, .added_count = COUNT(added), .word_pieces = 7};
    struct tokenizer *tokenizer = open_words(words, options);
    for (size_t i = 0; i < COUNT(cases); i++) {
        expect_tokens(tokenizer, cases[i].text, cases[i].tokens, cases[i].count);
    }
    tokenizer_close(tokenizer);
}

// Added tokens that must be single words or take the white space beside them; ids and offsets are
// those of `tokenizers` 0.23.
static void test_neighbours_of_tokens(void **state) {
    (void)state;
    static const struct added_token added[] = {
        {"<w>", ADDED_SINGLE_WORD},
        {"wo", ADDED_SINGLE_WORD | ADDED_NORMALIZED},
        {"<l>", ADDED_LSTRIP},
        {"<r>", ADDED_RSTRIP},
        {"<both>", ADDED_LSTRIP | ADDED_RSTRIP | ADDED_NORMALIZED},
        {"won", ADDED_SINGLE_WORD},
        {"[MASK]", ADDED_LSTRIP},
        {"n", 0}};
    static const char words[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n.\n<w>\nwo\n<l>\n<r>\n"
                                "<both>\nwon\nn\n";
    static const struct {
        const char *text;
        size_t count;
        struct token tokens[7]; // id, word, characters, bytes
    } cases[] = {
        {"<w> a<w>",
         5,
         {{8, 0, 0, 3, 0, 3},
          {5, 1, 4, 5, 4, 5},
          {1, 2, 5, 6, 5, 6},
          {1, 3, 6, 7, 6, 7},
          {1, 4, 7, 8, 7, 8}}},
        {"\xCC\x81<w>.<w>",
         5,
         {{1, 0, 1, 2, 2, 3},
          {1, 1, 2, 3, 3, 4},
          {1, 2, 3, 4, 4, 5},
          {7, 3, 4, 5, 5, 6},
          {8, 4, 5, 8, 6, 9}}},
        {"WO awo Wo. wo\xCC\x81",
         5,
         {{9, 0, 0, 2, 0, 2},
          {1, 1, 3, 6, 3, 6},
          {9, 2, 7, 9, 7, 9},
          {7, 3, 9, 10, 9, 10},
          {9, 4, 11, 13, 11, 13}}},
        // A written token ends the text in which normalized ones are looked for.
        {"nwo a<l>wo",
         5,
         {{14, 0, 0, 1, 0, 1},
          {9, 1, 1, 3, 1, 3},
          {5, 2, 4, 5, 4, 5},
          {10, 3, 5, 8, 5, 8},
          {9, 4, 8, 10, 8, 10}}},
        // "won", which is no single word, hides "n".
        {"a wona won.",
         4,
         {{5, 0, 0, 1, 0, 1}, {1, 1, 2, 6, 2, 6}, {13, 2, 7, 10, 7, 10}, {7, 3, 10, 11, 10, 11}}},
        {"a \t<l> b", 3, {{5, 0, 0, 1, 0, 1}, {10, 1, 1, 6, 1, 6}, {6, 2, 7, 8, 7, 8}}},
        {"a  <both>  <r> \x0B b",
         4,
         {{5, 0, 0, 1, 0, 1},
          {12, 1, 1, 11, 1, 11},
          {11, 2, 11, 17, 11, 17},
          {6, 3, 17, 18, 17, 18}}},
        // The blank beside <l> is that token's.
        {"<Both> \x01 <l>a",
         3,
         {{12, 0, 0, 7, 0, 7}, {10, 1, 8, 12, 8, 12}, {5, 2, 12, 13, 12, 13}}},
        {"<r>\xE2\x80\xA8<l>", 2, {{11, 0, 0, 4, 0, 6}, {10, 1, 4, 7, 6, 9}}},
        // The blanks that normalization puts around an ideograph are not the token's.
        {"\xE4\xB8\xAD <both>", 2, {{1, 0, 0, 1, 0, 3}, {12, 1, 1, 8, 3, 10}}},
        {"a [MASK].", 3, {{5, 0, 0, 1, 0, 1}, {4, 1, 1, 8, 1, 8}, {7, 2, 8, 9, 8, 9}}},
        {"<BOTH>\x01 . <both> <both>",
         4,
         {{12, 0, 0, 8, 0, 8}, {7, 1, 8, 9, 8, 9}, {12, 2, 9, 17, 9, 17}, {12, 3, 17, 23, 17, 23}}},
    };
    const struct tokenizer_options options = {
        .lower_case = 1, .added = added, .added_count = COUNT(added), .word_pieces = 8};
    struct tokenizer *tokenizer = open_words(words, options);
    for (size_t i = 0; i < COUNT(cases); i++) {
        expect_tokens(tokenizer, cases[i].text, cases[i].tokens, cases[i].count);
    }
    tokenizer_close(tokenizer);
}

// A text that is an added token only when it is normalized, or has one as the beginning of a word,
// does not contain it if the token is found as it is written.
static void test_added_tokens_are_no_pieces(void **state) {
    (void)state;
    static const struct added_token added[] = {{"ab", 0}, {"##b", 0}};
    static const char words[] = "[UNK]\na\n##bc\nab\n##b\n";
    const struct tokenizer_options options = {
        .lower_case = 1, .added = added, .added_count = COUNT(added), .word_pieces = 3};
    struct tokenizer *tokenizer = open_words(words, options);
    assert_int_equal(tokenizer_find(tokenizer, "ab", 2), 3);
    assert_string_equal(tokenizer_piece(tokenizer, 4), "##b");
    EXPECT_IDS(tokenizer, "ABC aB ab a##b", 1, 2, 0, 3, 1, 4);
}

static void test_longest_word(void **state) {
    (void)state;
    static const struct {
        struct tokenizer_options options;
        size_t limit;
    } cases[] = {{{.rules = TOKENIZER_HUGGINGFACE}, 100},
                 {{.rules = TOKENIZER_GOOGLE}, 200},
                 {{.max_word_length = 7}, 7},
                 {{.max_word_length = 5000}, 5000}};
    static char text[5001];
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct tokenizer *tokenizer = open_options(cases[i].options);
        assert_int_equal(tokenizer_rules_of(tokenizer)->max_word_length, cases[i].limit);
        struct token_list list = {0};
        assert_int_equal(tokenizer_encode(tokenizer, text, cases[i].limit, &list, NULL), BERTH_OK);
        assert_int_equal(list.count, cases[i].limit);
        list.count = 0;
        assert_int_equal(tokenizer_encode(tokenizer, text, cases[i].limit + 1, &list, NULL),
                         BERTH_OK);
        assert_int_equal(list.count, 1);
        assert_int_equal(list.items[0].id, 1);
        assert_int_equal(list.items[0].end, cases[i].limit + 1);
        token_list_done(&list);
        tokenizer_close(tokenizer);
    }
}

// Capital sigma at the end of a word: final by Google's rules, ordinary by Hugging Face's.
static void test_final_sigma(void **state) {
    (void)state;
    struct tokenizer_options google = {.rules = TOKENIZER_GOOGLE, .lower_case = 1};
    EXPECT_IDS(open_options(google), "A\xCE\xA3 \xCE\xA3", 14, 21, 19);
    EXPECT_IDS(open_options(google),
               "A\xCE\xA3"
               "A",
               14, 20, 15);
    EXPECT_IDS(open_options(google), "A\xCE\xA3.", 14, 21, 10);
    EXPECT_IDS(open_options(google), "A\xCE\xA3.A", 14, 20, 10, 14);
    EXPECT_IDS(open_options(google), "A\xFF\xCE\xA3\xFF A", 14, 21, 14);
    EXPECT_IDS(open_options(google), "\xE4\xB8\xAD\xCE\xA3", 18, 19);
    EXPECT_IDS(open_uncased(), "A\xCE\xA3", 14, 20);
}

// U+302E survives stripping and moves before or after its neighbours by combining class.
static void test_marks_in_order(void **state) {
    (void)state;
    struct tokenizer *tokenizer = open_uncased();
    struct token_list list = {0};
    // b, U+302E (class 224), an ill-formed byte, U+0316 (class 220): U+0316 comes first and takes
    // the origin of U+302E.
    static const char text[] = "b\xE3\x80\xAE\xFF\xCC\x96";
    assert_int_equal(tokenizer_encode(tokenizer, text, sizeof text - 1, &list, NULL), BERTH_OK);
    const struct token expected[] = {{16, 0, 0, 1, 0, 1}, {23, 0, 3, 4, 5, 7}};
    assert_int_equal(list.count, 2);
    assert_memory_equal(list.items, expected, sizeof expected);
    assert_int_equal(list.ill_formed, 1);
    // Before the mark that causes a second pass over the run it also counts once.
    static const char again[] = "b\xCC\x96\xFF\xE3\x80\xAE";
    assert_int_equal(tokenizer_encode(tokenizer, again, sizeof again - 1, &list, NULL), BERTH_OK);
    assert_int_equal(list.ill_formed, 2);
    token_list_done(&list);
    tokenizer_close(tokenizer);
}

static void expect_words(const char *text, const char *expected) {
    struct tokenizer *tokenizer = open_uncased();
    char *words;
    size_t length;
    assert_int_equal(tokenizer_basic(tokenizer, text, strlen(text), &words, &length, NULL),
                     BERTH_OK);
    assert_string_equal(words, expected);
    assert_int_equal(length, strlen(expected));
    memory_free(words);
    tokenizer_close(tokenizer);
}

static void test_basic_words(void **state) {
    (void)state;
    expect_words("", "");
    expect_words(" \t\n", "");
    expect_words("\xC3\x89t\x01"
                 "E  (A)",
                 "ete ( a )");
    // One character becomes two, of three bytes each.
    expect_words("\xEA\xB0\x80", "\xE1\x84\x80\xE1\x85\xA1");
}

static void test_questions(void **state) {
    (void)state;
    struct tokenizer *tokenizer = open_uncased();
    assert_int_equal(tokenizer_size(tokenizer), 29);
    for (int32_t id = 0; id < 29; id++) {
        const char *piece = tokenizer_piece(tokenizer, id);
        assert_int_equal(tokenizer_find(tokenizer, piece, strlen(piece)), id);
    }
    assert_null(tokenizer_piece(tokenizer, 29));
    assert_null(tokenizer_piece(tokenizer, -1));
    assert_int_equal(tokenizer_find(tokenizer, "th", 2), -1);
    assert_int_equal(tokenizer_find(tokenizer, "thea", 4), -1);
    assert_int_equal(tokenizer_find(tokenizer, "", 0), -1);
    struct tokenizer_special special = tokenizer_special_ids(tokenizer);
    assert_int_equal(special.pad, 0);
    assert_int_equal(special.unknown, 1);
    assert_int_equal(special.cls, 2);
    assert_int_equal(special.sep, 3);
    assert_int_equal(special.mask, 4);
    tokenizer_close(tokenizer);
    tokenizer_close(NULL);
}

// --- memory -------------------------------------------------------------------------------------

static const char memory_text[] =
    "[SEP]the caf\xC3\xA9 \xF0\x9D\x85\x9E\xCC\x96 aaaaaaaaaaaaaaaaaaaaaaaaa "
    "\xE4\xB8\xAD\xE4\xB8\xAD b\xE3\x80\xAE\xCC\x96";

static enum berth_status try_all(void) {
    struct tokenizer *tokenizer = NULL;
    struct tokenizer_options options = {.lower_case = 1};
    struct token_list list = {0};
    struct berth_error error;
    char *words = NULL;
    size_t length;
    enum berth_status status = tokenizer_open_memory("test", vocabulary, sizeof vocabulary - 1,
                                                     &options, &tokenizer, &error);
    if (status == BERTH_OK) {
        status = tokenizer_encode(tokenizer, memory_text, sizeof memory_text - 1, &list, &error);
    }
    if (status == BERTH_OK) {
        status = tokenizer_basic(tokenizer, memory_text, sizeof memory_text - 1, &words, &length,
                                 &error);
        memory_free(status == BERTH_OK ? words : NULL);
    } else {
        assert_int_equal(list.count, 0);
        assert_non_null(strstr(error.message, "out of memory"));
    }
    token_list_done(&list);
    tokenizer_close(tokenizer);
    return status;
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    memory_fail_at(0, 0);
    assert_int_equal(try_all(), BERTH_OK);
    uint64_t calls = memory_fail_at(0, 0);
    assert_true(calls > 10);
    for (int persistent = 0; persistent < 2; persistent++) {
        for (uint64_t call = 1; call <= calls; call++) {
            memory_fail_at(call, persistent);
            assert_int_equal(try_all(), BERTH_NO_MEMORY);
        }
    }
    memory_fail_at(0, 0);
}

static void test_text_beyond_32_bits(void **state) {
    (void)state;
    struct tokenizer *tokenizer = open_uncased();
    struct token_list list = {0};
    struct berth_error error;
    assert_int_equal(tokenizer_encode(tokenizer, "a", (size_t)UINT32_MAX, &list, &error),
                     BERTH_NO_MEMORY);
    assert_non_null(strstr(error.message, "4294967295"));
    tokenizer_close(tokenizer);
}

// The second text is what transformers' clean_up_tokenization makes of the first.
static void test_decoded_texts(void **state) {
    static const char words[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
                                "don\nt\n'\ns\na\nb\nx\nn\n.\n,\n##ve\n";
    static const struct {
        const char *text, *decoded, *cleaned;
    } cases[] = {
        {"don't '' s", "[CLS] don ' t ' ' s [SEP]", "[CLS] don't'' s [SEP]"},
        {"'a'b", "[CLS] ' a ' b [SEP]", "[CLS]'a'b [SEP]"},
        {"x'n't, a's.", "[CLS] x ' n ' t, a ' s. [SEP]", "[CLS] x'n't, a's. [SEP]"},
        {"xve '", "[CLS] xve ' [SEP]", "[CLS] xve'[SEP]"},
        {"[MASK][PAD] a", "[CLS] [MASK] a [SEP]", "[CLS] [MASK] a [SEP]"},
    };
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(cases); i++) {
        const int cleans_up = i % 2 == 1;
        struct tokenizer *tokenizer =
            open_words(words, (struct tokenizer_options){.cleans_up = cleans_up});
        const char *text = cases[i / 2].text;
        struct token_list list = {0};
        int32_t ids[16] = {2};
        assert_int_equal(tokenizer_encode(tokenizer, text, strlen(text), &list, NULL), BERTH_OK);
        for (size_t k = 0; k < list.count; k++) {
            ids[k + 1] = list.items[k].id;
        }
        ids[list.count + 1] = 3;
        char *decoded = decode_text(tokenizer, ids, list.count + 2, 0);
        assert_string_equal(decoded, cleans_up ? cases[i / 2].cleaned : cases[i / 2].decoded);
        memory_free(decoded);
        token_list_done(&list);
        tokenizer_close(tokenizer);
    }
}

// What the tokenizers library decodes with cleanup false, and without a decoder.
static void test_decoded_texts_with_blanks(void **state) {
    static const char words[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n.\n'\n##b\n";
    static const struct {
        struct tokenizer_options options;
        const char *decoded;
    } cases[] = {{{.keeps_blanks = 0}, "ab ' a."},
                 {{.keeps_blanks = 1}, "ab ' a ."},
                 {{.keeps_pieces = 1}, "a ##b ' a ."},
                 {{.keeps_pieces = 1, .cleans_up = 1}, "a ##b'a."}};
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        static const int32_t ids[] = {5, 8, 7, 5, 6};
        struct tokenizer *tokenizer = open_words(words, cases[i].options);
        char *decoded = decode_text(tokenizer, ids, COUNT(ids), 0);
        assert_string_equal(decoded, cases[i].decoded);
        memory_free(decoded);
        tokenizer_close(tokenizer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoded_texts),
        cmocka_unit_test(test_decoded_texts_with_blanks),
        cmocka_unit_test(test_pieces_and_offsets),
        cmocka_unit_test(test_encode_appends),
        cmocka_unit_test(test_ill_formed_text),
        cmocka_unit_test(test_dropped_bytes_do_not_cut_a_word),
        cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_added_tokens),
        cmocka_unit_test(test_normalized_tokens),
        cmocka_unit_test(test_neighbours_of_tokens),
        cmocka_unit_test(test_added_tokens_are_no_pieces),
        cmocka_unit_test(test_longest_word),
        cmocka_unit_test(test_final_sigma),
        cmocka_unit_test(test_marks_in_order),
        cmocka_unit_test(test_basic_words),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_every_allocation_may_fail),
        cmocka_unit_test(test_text_beyond_32_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
