// SPDX-License-Identifier: Apache-2.0
// Masked words: reading lines, sequences by line and in blocks as run_mlm makes them, and the draws
// of masks: their fractions, what they depend on and what they do not, whole words.
#include "core/scratch.h"
#include "data/masked/text_lines.h"
#include "data/masked/word_masks.h"

#include <math.h>
#include <string.h>

static const char vocabulary[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n##s\n##ly\nsat\n.\n";
enum { CLS = 2, SEP, MASK, THE, CAT, S, LY, SAT, DOT, WORDS };

static struct tokenizer *open_words(void) {
    const struct tokenizer_options options = {.lower_case = 1};
    struct tokenizer *tokenizer;
    assert_int_equal(tokenizer_open_memory("words", vocabulary, sizeof vocabulary - 1, &options,
                                           &tokenizer, NULL),
                     BERTH_OK);
    return tokenizer;
}

// --- lines --------------------------------------------------------------------------------------

static void expect_lines_of(const char *path, const char *column, const char *const *expected) {
    struct text_lines lines;
    struct berth_error error = {0};
    if (text_lines_read(path, column, &lines, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    size_t count = 0;
    for (; expected[count] != NULL; count++) {
        assert_true(count < lines.count);
        assert_string_equal(lines.items[count], expected[count]);
    }
    assert_int_equal(lines.count, count);
    text_lines_done(&lines);
}

static void expect_lines(const char *name, const char *content, const char *column,
                         const char *const *expected) {
    scratch_write(name, content);
    expect_lines_of(scratch(name), column, expected);
}

static void test_lines(void **state) {
    (void)state;
    expect_lines("a.txt", "one\r\n\rtwo\n\nend", NULL,
                 (const char *const[]){"one", "", "two", "", "end", NULL});
    expect_lines("b.wiki", "one\n", NULL, (const char *const[]){"one", NULL});
    expect_lines("c.csv", "id,text\n1,\"a, b\"\n2,c\n", NULL,
                 (const char *const[]){"a, b", "c", NULL});
    expect_lines("d.csv", "first,other\nx,y\n", NULL, (const char *const[]){"x", NULL});
    expect_lines("n.csv", ",idx,other\n0,1,x\n", NULL, (const char *const[]){"x", NULL});
    expect_lines("e.json", "{\"a\": \"x\", \"b\": \"y\"}\n", "b", (const char *const[]){"y", NULL});
}

static void test_encodings(void **state) {
    (void)state;
    static const char little[] = "\xFF\xFE\xE9\0t\0\xE9\0\r\0\n\0x"; // its NUL ends the "x"
    const char *const expected[] = {"\xC3\xA9t\xC3\xA9", "x", NULL};
    scratch_write_bytes("f.txt", little, sizeof little);
    expect_lines_of(scratch("f.txt"), NULL, expected);
    expect_lines("g.txt", "\xEF\xBB\xBF\xC3\xA9t\xC3\xA9\nx\n", NULL, expected);
}

static void expect_bad(const char *content, size_t length, const char *words) {
    struct text_lines lines;
    struct berth_error error;
    scratch_write_bytes("bad.txt", content, length);
    assert_int_equal(text_lines_read(scratch("bad.txt"), NULL, &lines, &error), BERTH_BAD_DATA);
    assert_message_has(&error, words);
    text_lines_done(&lines);
}

static void test_table_of_numbers(void **state) {
    struct text_lines lines;
    struct berth_error error;
    (void)state;
    scratch_write("numbers.csv", ",id\n0,1\n");
    assert_int_equal(text_lines_read(scratch("numbers.csv"), NULL, &lines, &error), BERTH_BAD_DATA);
    assert_message_has(&error, "name that of the text with text_column");
    text_lines_done(&lines);
    expect_lines("numbers.csv", ",id\n0,1\n", "id", (const char *const[]){"1", NULL});
}

static void test_bad_text(void **state) {
    (void)state;
    expect_bad("", 0, "the file is empty");
    expect_bad("ab\0c", 4, "line 1: a NUL byte");
    expect_bad("a\nbc\xff", 5, "line 2: not UTF-8");
    expect_bad("\xFF\xFE\0\0a\0\0\0", 8, "UTF-32");
    expect_bad("\x1F\x8B\x08\0....", 8, ": compressed with gzip; decompress it first (gunzip)");
}

// --- sequences ----------------------------------------------------------------------------------

static struct text_sequences build(const char *const *texts, size_t count, int by_line,
                                   int64_t length, int threads) {
    const struct text_sequence_rules rules = {by_line, length, threads};
    struct text_sequences sequences;
    struct tokenizer *tokenizer = open_words();
    assert_int_equal(text_sequences_build(texts, count, tokenizer, &rules, &sequences, NULL),
                     BERTH_OK);
    tokenizer_close(tokenizer);
    return sequences;
}

static void expect_sequence(const struct text_sequences *sequences, size_t index,
                            const int32_t *ids, int32_t length) {
    const struct packer_sequence sequence = text_sequences_get(sequences, index);
    assert_int_equal(sequence.length, length);
    assert_memory_equal(sequence.ids, ids, (size_t)length * sizeof *ids);
    for (int32_t i = 0; i < length; i++) {
        assert_int_equal(sequence.type_ids[i], 0);
    }
}

static const char *const texts[] = {"The cats sat.", "", " ", "the the the the the the", "cat"};

static void test_lines_as_sequences(void **state) {
    (void)state;
    struct text_sequences all = build(texts, 5, 1, 6, 1);
    assert_int_equal(all.count, 3);
    assert_int_equal(all.truncated, 2);
    assert_int_equal(all.longest, 6);
    expect_sequence(&all, 0, (const int32_t[]){CLS, THE, CAT, S, SAT, SEP}, 6);
    expect_sequence(&all, 1, (const int32_t[]){CLS, THE, THE, THE, THE, SEP}, 6);
    expect_sequence(&all, 2, (const int32_t[]){CLS, CAT, SEP}, 3);
    text_sequences_done(&all);
}

// Empty lines have their [CLS] and [SEP] in blocks, as there.
static void test_blocks(void **state) {
    (void)state;
    struct text_sequences all = build(texts, 5, 0, 9, 1);
    assert_int_equal(all.count, 2);
    assert_int_equal(all.dropped, 4);
    expect_sequence(&all, 0, (const int32_t[]){CLS, THE, CAT, S, SAT, DOT, SEP, CLS, SEP}, 9);
    expect_sequence(&all, 1, (const int32_t[]){CLS, SEP, CLS, THE, THE, THE, THE, THE, THE}, 9);
    text_sequences_done(&all);
}

enum { MANY = 2300 };

// Each 1,000 lines begin a block; threads change nothing.
static void test_groups(void **state) {
    (void)state;
    const char *lines[MANY];
    for (size_t i = 0; i < MANY; i++) {
        lines[i] = i % 7 == 0 ? "the cats sat." : i % 5 == 0 ? "" : "cat";
    }
    struct text_sequences one = build(lines, MANY, 0, 16, 1), three = build(lines, MANY, 0, 16, 3);
    assert_int_equal(one.count, three.count);
    assert_memory_equal(one.ids, three.ids, one.starts[one.count] * sizeof *one.ids);
    size_t blocks = 0, rest = 0;
    for (size_t group = 0; group < MANY; group += 1000) {
        size_t tokens = 0;
        for (size_t i = group; i < MANY && i < group + 1000; i++) {
            tokens += i % 7 == 0 ? 7 : i % 5 == 0 ? 2 : 3;
        }
        if (group > 0) {
            assert_int_equal(text_sequences_get(&one, blocks).ids[0], CLS);
        }
        blocks += tokens / 16;
        rest += tokens % 16;
    }
    assert_int_equal(one.count, blocks);
    assert_int_equal(one.dropped, rest);
    text_sequences_done(&one);
    text_sequences_done(&three);
}

// The tokens of a group that is shorter than a block are left out, too, and counted.
static void test_short_group(void **state) {
    (void)state;
    const char *lines[1001];
    for (size_t i = 0; i < 1001; i++) {
        lines[i] = "cat";
    }
    struct text_sequences all = build(lines, 1001, 0, 16, 1), few = build(lines, 2, 0, 16, 1);
    assert_int_equal(all.count, 3000 / 16);
    assert_int_equal(all.dropped, 3000 % 16 + 3);
    assert_int_equal(few.count, 0);
    assert_int_equal(few.dropped, 6);
    text_sequences_done(&all);
    text_sequences_done(&few);
}

// --- masks --------------------------------------------------------------------------------------

static unsigned char pieces[WORDS];

static struct word_masks masks_of(const struct text_sequences *all, double probability, int whole) {
    struct tokenizer *tokenizer = open_words();
    for (int32_t i = 0; i < WORDS; i++) {
        pieces[i] = strncmp(tokenizer_piece(tokenizer, i), "##", 2) == 0;
    }
    struct word_masks masks = {.all = all,
                               .rules = {.seed = 3,
                                         .probability = probability,
                                         .vocab_size = WORDS,
                                         .special = tokenizer_special_ids(tokenizer),
                                         .whole_words = whole}};
    tokenizer_close(tokenizer);
    return masks;
}

static struct text_sequences many_lines(void) {
    static const char *lines[MANY];
    for (size_t i = 0; i < MANY; i++) {
        lines[i] = "the cats sat the catsly the cat.";
    }
    return build(lines, MANY, 1, 32, 2);
}

static void draw(struct word_masks *masks, uint32_t epoch, const uint32_t *order, size_t count,
                 int threads) {
    const struct word_mask_choice choice = {epoch, order, count};
    assert_int_equal(word_masks_draw(masks, &choice, threads, NULL), BERTH_OK);
}

struct fractions {
    double predicted, masked, random, kept; // of the words; of the predicted ones
};

static struct fractions count_fractions(const struct word_masks *masks) {
    double words = 0, predicted = 0, masked = 0, kept = 0;
    for (size_t i = 0; i < masks->count; i++) {
        const struct packer_sequence copy = word_masks_get(masks, i);
        const struct packer_sequence plain = text_sequences_get(masks->all, i);
        assert_int_equal(copy.length, plain.length);
        words += copy.length - 2;
        predicted += copy.masked_count;
        int32_t next = 0;
        for (int32_t row = 0; row < copy.length; row++) {
            if (next < copy.masked_count && copy.masked_positions[next] == row) {
                assert_int_equal(copy.masked_labels[next++], plain.ids[row]);
                assert_true(plain.ids[row] != CLS && plain.ids[row] != SEP);
                masked += copy.ids[row] == MASK;
                kept += copy.ids[row] == plain.ids[row];
            } else {
                assert_int_equal(copy.ids[row], plain.ids[row]);
            }
        }
        assert_int_equal(next, copy.masked_count);
    }
    return (struct fractions){predicted / words, masked / predicted,
                              (predicted - masked - kept) / predicted, kept / predicted};
}

// Within four standard deviations of what is expected.
static void expect_fraction(double found, double expected, double draws) {
    const double deviation = sqrt(expected * (1 - expected) / draws);
    if (fabs(found - expected) > 4 * deviation) {
        fail_msg("fraction %.4f, expected %.4f +- %.4f", found, expected, deviation);
    }
}

static void test_fractions(void **state) {
    (void)state;
    struct text_sequences all = many_lines();
    struct word_masks masks = masks_of(&all, 0.15, 0);
    draw(&masks, 0, NULL, all.count, 2);
    const struct fractions fractions = count_fractions(&masks);
    const double words = (double)all.starts[all.count] - 2.0 * MANY, predicted = 0.15 * words;
    // One random word in WORDS is [MASK], and one is the word itself.
    expect_fraction(fractions.predicted, 0.15, words);
    expect_fraction(fractions.masked, 0.8 + 0.1 / WORDS, predicted);
    expect_fraction(fractions.random, 0.1 * (WORDS - 2) / WORDS, predicted);
    expect_fraction(fractions.kept, 0.1 + 0.1 / WORDS, predicted);
    word_masks_done(&masks);
    text_sequences_done(&all);
}

static int same(const struct packer_sequence *a, const struct packer_sequence *b) {
    const size_t length = (size_t)a->length * sizeof *a->ids;
    return a->length == b->length && a->masked_count == b->masked_count &&
           memcmp(a->ids, b->ids, length) == 0 &&
           memcmp(a->masked_positions, b->masked_positions,
                  (size_t)a->masked_count * sizeof *a->masked_positions) == 0;
}

// How many of the sequences 0 to 99 have the same masks in both.
static int count_same(const struct word_masks *a, const struct word_masks *b) {
    int count = 0;
    for (size_t i = 0; i < 100; i++) {
        const struct packer_sequence x = word_masks_get(a, i), y = word_masks_get(b, i);
        count += same(&x, &y);
    }
    return count;
}

// Seed, epoch and sequence decide; what else is drawn, its order and the threads do not.
static void test_what_decides(void **state) {
    (void)state;
    struct text_sequences all = many_lines();
    struct word_masks first = masks_of(&all, 0.3, 0), other = masks_of(&all, 0.3, 0);
    draw(&first, 1, NULL, all.count, 1);
    draw(&other, 1, NULL, all.count, 3);
    assert_int_equal(count_same(&first, &other), 100);
    draw(&other, 2, NULL, all.count, 1);
    assert_true(count_same(&first, &other) < 20);
    other.rules.seed = 4;
    draw(&other, 1, NULL, all.count, 1);
    assert_true(count_same(&first, &other) < 20);
    other.rules.seed = 3;
    const uint32_t order[] = {77, 5, 2000};
    draw(&other, 1, order, 3, 2);
    for (size_t i = 0; i < 3; i++) {
        const struct packer_sequence x = word_masks_get(&first, order[i]);
        const struct packer_sequence y = word_masks_get(&other, i);
        assert_true(same(&x, &y));
    }
    int equal = 0; // all lines are the same
    for (size_t i = 0; i < 100; i++) {
        const struct packer_sequence x = word_masks_get(&first, i);
        const struct packer_sequence y = word_masks_get(&first, i + 1);
        equal += same(&x, &y);
    }
    assert_true(equal < 20);
    word_masks_done(&first);
    word_masks_done(&other);
    text_sequences_done(&all);
}

static void test_extremes(void **state) {
    (void)state;
    struct text_sequences all = many_lines();
    struct word_masks masks = masks_of(&all, 1, 0);
    draw(&masks, 0, NULL, 10, 1);
    for (size_t i = 0; i < 10; i++) {
        const struct packer_sequence copy = word_masks_get(&masks, i);
        assert_int_equal(copy.masked_count, copy.length - 2);
    }
    masks.rules.probability = 0;
    draw(&masks, 0, NULL, 10, 1);
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(word_masks_get(&masks, i).masked_count, 0);
    }
    word_masks_done(&masks);
    text_sequences_done(&all);
}

// Pieces share the fate of their word; without the option some do not.
static int count_split_words(int whole) {
    struct text_sequences all = many_lines();
    struct word_masks masks = masks_of(&all, 0.3, whole);
    int split = 0;
    draw(&masks, 0, NULL, all.count, 2);
    for (size_t i = 0; i < all.count; i++) {
        const struct packer_sequence copy = word_masks_get(&masks, i);
        const struct packer_sequence plain = text_sequences_get(&all, i);
        unsigned char predicted[64] = {0};
        for (int32_t k = 0; k < copy.masked_count; k++) {
            predicted[copy.masked_positions[k]] = 1;
        }
        for (int32_t row = 1; row < plain.length; row++) {
            split += pieces[plain.ids[row]] && predicted[row] != predicted[row - 1];
        }
    }
    if (whole) { // words, not pieces, have the probability
        expect_fraction(count_fractions(&masks).predicted, 0.3, 8.0 * MANY / 2);
    }
    word_masks_done(&masks);
    text_sequences_done(&all);
    return split;
}

static void test_whole_words(void **state) {
    (void)state;
    assert_int_equal(count_split_words(1), 0);
    assert_true(count_split_words(0) > 1000);
}

static void test_out_of_memory(void **state) {
    (void)state;
    struct tokenizer *tokenizer = open_words();
    const struct text_sequence_rules rules = {.by_line = 1, .max_length = 8, .threads = 1};
    enum berth_status status = BERTH_NO_MEMORY;
    uint64_t n;
    for (n = 1; status != BERTH_OK; n++) {
        struct text_sequences all;
        struct word_masks masks = masks_of(&all, 0.5, 0);
        memory_fail_at(n, 0);
        status = text_sequences_build(texts, 5, tokenizer, &rules, &all, NULL);
        if (status == BERTH_OK) {
            const struct word_mask_choice choice = {.count = all.count};
            status = word_masks_draw(&masks, &choice, 1, NULL);
        }
        memory_fail_at(0, 0);
        word_masks_done(&masks);
        text_sequences_done(&all);
        assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
    }
    assert_in_range(n, 8, 100);
    tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_lines),
        SCRATCH_TEST(test_encodings),
        SCRATCH_TEST(test_table_of_numbers),
        SCRATCH_TEST(test_bad_text),
        cmocka_unit_test(test_lines_as_sequences),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_short_group),
        cmocka_unit_test(test_fractions),
        cmocka_unit_test(test_what_decides),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_whole_words),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("masked", tests, NULL, NULL);
}
