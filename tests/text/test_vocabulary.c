// SPDX-License-Identifier: Apache-2.0
// Vocabulary files: malformed ones are refused with the position and the remedy; unusual but legal
// ones are read unchanged. A tokenizer.json is refused by the name and place of what is not
// supported, and what its post-processor and flags say has its effect.
#include "core/harness.h"
#include "core/memory.h"
#include "format/json/json.h"
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

// --- tokenizer.json ------------------------------------------------------------------------------

#define BPE                                                                                        \
    "{\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"<m>\": 3}, \"merges\": "     \
    "[\"a b\"]}"
#define WITH(...) "{\"model\": " BPE ", " __VA_ARGS__ "}"
#define MODEL(...) "{\"model\": {" __VA_ARGS__ "}}"

static enum berth_status open_json(const char *text, struct tokenizer **tokenizer,
                                   struct berth_error *error) {
    const struct tokenizer_names names = {.mask = "<m>"};
    const struct tokenizer_options options = {.lower_case = 0};
    json *object;
    assert_int_equal(json_read_memory("t", text, strlen(text), &object, error), BERTH_OK);
    const enum berth_status status =
        tokenizer_open_pipeline("t.json", object, &names, &options, tokenizer, error);
    json_free(object);
    return status;
}

static void test_refused_components(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {WITH("\"normalizer\": {\"type\": \"Nmt\"}"), "key \"normalizer.type\": expected Bert"},
        {WITH("\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, "
              "{}]}"),
         "key \"normalizer.normalizers[1].type\": expected BertNormalizer, "},
        {WITH("\"normalizer\": {\"type\": \"Sequence\"}"),
         "key \"normalizer.normalizers\": expected"},
        {WITH("\"normalizer\": {\"type\": \"Strip\", \"strip_left\": 1}"),
         "key \"normalizer.strip_left\": expected true or false"},
        {WITH("\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \"x?\"}}"),
         "key \"normalizer.pattern\": expected a \"String\""},
        {WITH("\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAA=\"}"),
         "key \"normalizer.precompiled_charsmap\": expected a table"},
        {WITH("\"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}"), "found UnicodeScripts"},
        {WITH("\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": "
              "[{\"type\": \"ByteLevel\"}, {\"type\": \"Digits\"}]}"),
         "expected ByteLevel as the last one, found Digits"},
        {WITH("\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, "
              "\"behavior\": \"Kept\"}"),
         "key \"pre_tokenizer.behavior\": expected Removed"},
        {WITH("\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"ab\"}"),
         "expected one character, found ab"},
        {WITH("\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"_\", "
              "\"prepend_scheme\": \"twice\"}"),
         "expected always, first or never, found twice"},
        {WITH("\"post_processor\": {\"type\": \"Other\"}"), "key \"post_processor.type\""},
        {WITH("\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": []}"),
         "the parts CLS A SEP"},
        {WITH("\"decoder\": {\"type\": \"CTC\"}"), "key \"decoder.type\": expected BPEDecoder"},
        {WITH("\"added_tokens\": [{\"id\": 9}]"), "entry 0: expected a \"content\""},
        {WITH("\"added_tokens\": [{\"id\": 1, \"content\": \"x\"}]"), "duplicate id 1"},
        {WITH("\"added_tokens\": [{\"id\": 999999, \"content\": \"x\"}]"), "expected an id from 0"},
        {MODEL("\"type\": \"WordLevel\", \"vocab\": {\"a\": 0}"),
         "expected BPE, Unigram or WordPiece"},
        {MODEL("\"type\": \"BPE\", \"vocab\": {}"), "key \"model.vocab\": expected words"},
        {MODEL("\"type\": \"BPE\", \"vocab\": {\"a\": 0}"),
         "key \"model.merges\": expected a list"},
        {MODEL("\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]"),
         "entry 0: \"a\" and \"b\": expected two words"},
        {MODEL("\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a\"]"),
         "entry 0: expected two words"},
        {MODEL("\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": 0.1"),
         "key \"model.dropout\": expected null"},
        {MODEL("\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]]"), "key \"model.unk_id\": expected"},
        {MODEL("\"type\": \"Unigram\", \"vocab\": [[\"a\"]], \"unk_id\": 0"),
         "a word and its score"},
        {MODEL("\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}"),
         "key \"model.unk_token\": expected a word"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tokenizer *tokenizer;
        struct berth_error error = {0};
        assert_int_not_equal(open_json(cases[i].text, &tokenizer, &error), BERTH_OK);
        assert_null(tokenizer);
        if (strstr(error.message, cases[i].message) == NULL ||
            strstr(error.message, "t.json") == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", error.message, cases[i].message);
        }
    }
}

static void test_what_a_processor_says(void **state) {
    (void)state;
    static const struct {
        const char *processor;
        int cls, sep, separators, one_type;
    } cases[] = {
        {"null", -1, -1, 1, 0},
        {"{\"type\": \"BertProcessing\", \"cls\": [\"a\", 0], \"sep\": [\"b\", 1]}", 0, 1, 1, 0},
        {"{\"type\": \"RobertaProcessing\", \"cls\": [\"a\", 0], \"sep\": [\"b\", 1]}", 0, 1, 2,
         1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];
        struct tokenizer *tokenizer;
        snprintf(text, sizeof text, WITH("\"post_processor\": %s"), cases[i].processor);
        assert_int_equal(open_json(text, &tokenizer, NULL), BERTH_OK);
        const struct tokenizer_special special = tokenizer_special_ids(tokenizer);
        assert_int_equal(special.cls, cases[i].cls);
        assert_int_equal(special.sep, cases[i].sep);
        assert_int_equal(special.separators, cases[i].separators);
        assert_int_equal(special.mask, 3);
        assert_int_equal(tokenizer_rules_of(tokenizer)->one_type, cases[i].one_type);
        tokenizer_close(tokenizer);
    }
}

// A blank that belongs to a token's offsets is taken out of them; ill-formed bytes count.
static void test_blanks_and_ill_formed_bytes(void **state) {
    (void)state;
    struct tokenizer *tokenizer;
    struct token_list list = {0};
    static const char text[] = "ab \xFFqab";
    assert_int_equal(
        open_json("{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"?\", 0], "
                  "[\"_ab\", -1], [\"_\", -2], [\"ab\", -1.5]]}, \"pre_tokenizer\": {\"type\": "
                  "\"Metaspace\", \"replacement\": \"_\"}}",
                  &tokenizer, NULL),
        BERTH_OK);
    assert_int_equal(tokenizer_encode(tokenizer, text, sizeof text - 1, &list, NULL), BERTH_OK);
    static const struct token expected[] = {
        {1, 0, 0, 2, 0, 2}, {2, 1, 2, 3, 2, 3}, {0, 1, 3, 5, 3, 5}, {3, 1, 5, 7, 5, 7}};
    assert_int_equal(list.count, 4);
    assert_memory_equal(list.items, expected, sizeof expected);
    assert_int_equal(list.ill_formed, 1);
    token_list_trim(&list, text);
    assert_int_equal(list.items[1].begin, 3);
    assert_int_equal(list.items[1].byte_begin, 3);
    assert_int_equal(list.items[0].begin, 0);
    token_list_done(&list);
    tokenizer_close(tokenizer);
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
        cmocka_unit_test(test_refused_components),
        cmocka_unit_test(test_what_a_processor_says),
        cmocka_unit_test(test_blanks_and_ill_formed_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
