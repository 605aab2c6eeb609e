// SPDX-License-Identifier: Apache-2.0
// Vocabulary files: malformed ones are refused with the position and the remedy; unusual but legal
// ones are read unchanged.
#include "core/harness.h"
#include "core/memory.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <string.h>

static enum berth_status open_bytes(const char *bytes, size_t length, struct tokenizer **tokenizer,
                                    struct berth_error *error) {
    struct tokenizer_options options = {.lower_case = 1};
    return tokenizer_open_memory("vocab.txt", bytes, length, &options, tokenizer, error);
}

static void expect_refused(const char *bytes, size_t length, const char *const words[3]) {
    struct tokenizer *tokenizer = (struct tokenizer *)&length;
    struct berth_error error;
    assert_int_equal(open_bytes(bytes, length, &tokenizer, &error), BERTH_BAD_DATA);
    assert_null(tokenizer);
    assert_int_equal(error.status, BERTH_BAD_DATA);
    assert_non_null(strstr(error.message, "vocab.txt"));
    for (int i = 0; i < 3 && words[i] != NULL; i++) {
        if (strstr(error.message, words[i]) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", error.message, words[i]);
        }
    }
    assert_int_equal(open_bytes(bytes, length, &tokenizer, NULL), BERTH_BAD_DATA);
}

#define EXPECT_REFUSED(literal, ...)                                                               \
    expect_refused(literal, sizeof(literal) - 1, (const char *const[3]){__VA_ARGS__})

static void test_malformed(void **state) {
    (void)state;
    EXPECT_REFUSED("", "empty", "one token per line");
    EXPECT_REFUSED("\xEF\xBB\xBF[UNK]\n", "byte 0", "byte order mark");
    EXPECT_REFUSED("\x1f\x8b\x08[UNK]\n", "compressed with gzip", "gunzip");
    EXPECT_REFUSED("[UNK]\nab\nc\xC3\n", "byte 10", "line 3", "UTF-8");
    EXPECT_REFUSED("[UNK]\n\xED\xA0\x80\n", "byte 6", "line 2");
    EXPECT_REFUSED("[UNK]\na\xF0\x9F\x98", "byte 7", "line 2");
    EXPECT_REFUSED("[UNK]\na\0b\n", "byte 7", "line 2", "NUL");
    EXPECT_REFUSED("[PAD]\nthe\n", "[UNK]", "2 lines", "WordPiece");
    EXPECT_REFUSED("\n", "[UNK]", "1 lines");
    EXPECT_REFUSED("[UNK] \nthe\n", "[UNK]");
}

static void test_missing_file(void **state) {
    (void)state;
    struct tokenizer_options options = {0};
    struct tokenizer *tokenizer;
    struct berth_error error;
    assert_int_equal(tokenizer_open(BERTH_TEST_SOURCE_DIR "/tests/text/no-such-vocab.txt", &options,
                                    &tokenizer, &error),
                     BERTH_NO_INPUT);
    assert_null(tokenizer);
    assert_non_null(strstr(error.message, "no-such-vocab.txt"));
}

static void expect_pieces(const char *bytes, size_t length, const char *const *pieces,
                          size_t count) {
    struct tokenizer *tokenizer;
    struct berth_error error;
    if (open_bytes(bytes, length, &tokenizer, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(tokenizer_size(tokenizer), count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(tokenizer_piece(tokenizer, (int32_t)i), pieces[i]);
        assert_int_equal(tokenizer_find(tokenizer, pieces[i], strlen(pieces[i])), i);
    }
    tokenizer_close(tokenizer);
}

#define EXPECT_PIECES(literal, ...)                                                                \
    expect_pieces(literal, sizeof(literal) - 1, (const char *const[]){__VA_ARGS__},                \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void test_line_ends(void **state) {
    (void)state;
    EXPECT_PIECES("[UNK]\nthe\n", "[UNK]", "the");
    EXPECT_PIECES("[UNK]\nthe", "[UNK]", "the");
    EXPECT_PIECES("[UNK]", "[UNK]");
    EXPECT_PIECES("[UNK]\r\nthe\r\n", "[UNK]", "the");
    EXPECT_PIECES("[UNK]\r\nthe", "[UNK]", "the");
    EXPECT_PIECES("[UNK]\nthe\r\n", "[UNK]", "the");
    EXPECT_PIECES("[UNK]\r\nthe\n", "[UNK]", "the");
    // A CR within a line is part of its token, and so are blanks; an empty line is a token that
    // never occurs.
    EXPECT_PIECES("[UNK]\nt\rhe\n", "[UNK]", "t\rhe");
    EXPECT_PIECES("[UNK]\n a \n\xE2\x80\xA8\n", "[UNK]", " a ", "\xE2\x80\xA8");
    EXPECT_PIECES("[UNK]\n\nthe\n", "[UNK]", "", "the");
}

// The last of equal lines is the token's; the others keep their place.
static void test_equal_lines(void **state) {
    (void)state;
    static const char bytes[] = "[UNK]\nthe\n\ncat\nthe\n\nthe\ns";
    struct tokenizer *tokenizer;
    struct token_list list = {0};
    assert_int_equal(open_bytes(bytes, sizeof bytes - 1, &tokenizer, NULL), BERTH_OK);
    assert_int_equal(tokenizer_size(tokenizer), 8);
    assert_string_equal(tokenizer_piece(tokenizer, 1), "the");
    assert_int_equal(tokenizer_find(tokenizer, "cat", 3), 3);
    assert_int_equal(tokenizer_find(tokenizer, "s", 1), 7);
    assert_int_equal(tokenizer_encode(tokenizer, "the cat", 7, &list, NULL), BERTH_OK);
    assert_int_equal(list.count, 2);
    assert_int_equal(list.items[0].id, 6);
    assert_int_equal(list.items[1].id, 3);
    token_list_done(&list);
    tokenizer_close(tokenizer);
}

static void test_without_the_other_special_tokens(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    struct token_list list = {0};
    assert_int_equal(open_bytes("[UNK]\n[\n]\ncls\n", 14, &tokenizer, NULL), BERTH_OK);
    struct tokenizer_special special = tokenizer_special_ids(tokenizer);
    assert_int_equal(special.unknown, 0);
    assert_int_equal(special.pad, -1);
    assert_int_equal(special.cls, -1);
    assert_int_equal(special.sep, -1);
    assert_int_equal(special.mask, -1);
    assert_int_equal(tokenizer_encode(tokenizer, "[CLS]", 5, &list, NULL), BERTH_OK);
    assert_int_equal(list.count, 3);
    token_list_done(&list);
    tokenizer_close(tokenizer);
}

// A prefix of a small file is read if it has [UNK] and ends between characters.
static void test_every_truncation(void **state) {
    (void)state;
    static const char whole[] = "[PAD]\n[UNK]\ncaf\xC3\xA9\n##\xE4\xB8\xAD\n\xF0\x9F\x98\x80\r\n";
    for (size_t length = 0; length < sizeof whole; length++) {
        char *copy = memory_string_of(whole, length);
        struct tokenizer *tokenizer;
        struct berth_error error;
        enum berth_status status = open_bytes(copy, length, &tokenizer, &error);
        const int cuts_a_character = length < sizeof whole - 1 && (whole[length] & 0xC0) == 0x80;
        assert_int_equal(status, length < 11 || cuts_a_character ? BERTH_BAD_DATA : BERTH_OK);
        assert_int_equal(status == BERTH_OK, tokenizer != NULL);
        tokenizer_close(tokenizer);
        memory_free(copy);
    }
}

// Pieces of many bytes, many pieces, and all bytes of UTF-8 as neighbours in the search tree.
static void test_large(void **state) {
    (void)state;
    size_t capacity = (size_t)4 << 20;
    char *bytes = memory_new(capacity);
    size_t length = (size_t)snprintf(bytes, capacity, "[UNK]\n");
    for (unsigned i = 0; i < 60000; i++) {
        length += (size_t)snprintf(bytes + length, capacity - length, "%s%x\n", i % 2 ? "##" : "",
                                   i * 2654435761u);
    }
    for (unsigned point = 0x80; point < 0x800; point++) {
        bytes[length++] = (char)(0xC0 | point >> 6);
        bytes[length++] = (char)(0x80 | (point & 0x3F));
        bytes[length++] = '\n';
    }
    memset(bytes + length, 'x', 1 << 20);
    length += 1 << 20;
    struct tokenizer *tokenizer;
    struct berth_error error;
    if (open_bytes(bytes, length, &tokenizer, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(tokenizer_size(tokenizer), 1 + 60000 + 0x780 + 1);
    for (size_t id = 0; id < tokenizer_size(tokenizer); id++) {
        const char *piece = tokenizer_piece(tokenizer, (int32_t)id);
        assert_int_equal(tokenizer_find(tokenizer, piece, strlen(piece)), id);
    }
    tokenizer_close(tokenizer);
    memory_free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_line_ends),
        cmocka_unit_test(test_equal_lines),
        cmocka_unit_test(test_without_the_other_special_tokens),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
