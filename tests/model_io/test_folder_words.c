// SPDX-License-Identifier: Apache-2.0
// Tests folders whose words are in vocab.json and merges.txt, or in a model of sentencepiece: which
// ids they get by the tokenizer's class, which tokens are added, what is refused and by which name.
// dev/unicode/check_pipelines.py compares such folders with transformers.
#include "core/memory.h"
#include "core/scratch.h"
#include "format/json/json.h"
#include "format/protobuf/protobuf.h"
#include "format/sentencepiece/sentencepiece.h"
#include "model/folder.h"
#include "model/folder_words.h"
#include "text/tokenizer.h"

#define MARK "\xE2\x96\x81"
#define SPACE "\xC4\xA0" // how byte-level words write a blank
#define WORDS                                                                                      \
    "{\"<s>\": 0, \"<pad>\": 1, \"</s>\": 2, \"<unk>\": 3, \"<mask>\": 4, \"a\": 5, \"b\": 6, "    \
    "\"" SPACE "\": 7, \"ab\": 8, \"" SPACE "ab\": 9}"
#define MERGES "#version: 0.2\na b\r\n" SPACE " ab\n"

// --- files --------------------------------------------------------------------------------------

static void write_bytes_words(const char *config, const char *settings) {
    scratch_write("config.json", config);
    scratch_write("vocab.json", WORDS);
    scratch_write("merges.txt", MERGES);
    if (settings != NULL) {
        scratch_write("tokenizer_config.json", settings);
    }
}

static void put_piece(struct buffer *to, const char *text, float score, int type) {
    const size_t begun = protobuf_begin(to, 1);
    protobuf_put_text(to, 1, text);
    protobuf_put_float(to, 2, score);
    if (type != SENTENCEPIECE_NORMAL) {
        protobuf_put_varint(to, 3, (uint64_t)type);
    }
    protobuf_end(to, begun);
}

// The pieces of a model; each text begins with the digit of its type.
static void put_pieces(struct buffer *to, const char *const *texts, size_t count) {
    for (size_t i = 0; i < count; i++) {
        put_piece(to, texts[i] + 1, texts[i][0] == '1' ? -(float)i : 0, texts[i][0] - '0');
    }
}

static void put_trainer(struct buffer *to, int kind, int falls_back) {
    const size_t begun = protobuf_begin(to, 2);
    protobuf_put_varint(to, 3, (uint64_t)kind);
    protobuf_put_varint(to, 35, (uint64_t)falls_back);
    protobuf_end(to, begun);
}

static void put_normalizer(struct buffer *to, int prefix, int removes) {
    const size_t begun = protobuf_begin(to, 3);
    protobuf_put_varint(to, 3, (uint64_t)prefix);
    protobuf_put_varint(to, 4, (uint64_t)removes);
    protobuf_end(to, begun);
}

static void write_model(const char *name, struct buffer *bytes) {
    assert_false(bytes->failed);
    scratch_write_bytes(name, bytes->bytes, bytes->length);
    buffer_done(bytes);
}

static const char *const fairseq[] = {"2<unk>", "3<s>", "3</s>", "1" MARK "a",
                                      "1a",     "1b",   "1" MARK};
#define FAIRSEQ (sizeof fairseq / sizeof *fairseq)

static void write_fairseq(const char *name, int kind) {
    struct buffer bytes = {0};
    put_pieces(&bytes, fairseq, FAIRSEQ);
    put_trainer(&bytes, kind, 0);
    write_model(name, &bytes);
}

// --- tokens -------------------------------------------------------------------------------------

static struct tokenizer *open_folder(const char *folder) {
    const struct tokenizer_names names = {.pad = NULL};
    const struct tokenizer_options options = {.lower_case = 0};
    struct vocabulary_file file = {0};
    struct tokenizer *tokenizer = NULL;
    struct berth_error error = {0};
    char *path;
    if (folder_find_vocabulary(folder, &path, &file, &error) != BERTH_OK ||
        folder_read_vocabulary(folder, path, &file, &error) != BERTH_OK ||
        tokenizer_open_pipeline(path, file.object, &names, &options, &tokenizer, &error) !=
            BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_true(file.is_other && file.rules.is_pipeline);
    vocabulary_file_done(&file);
    memory_free(path);
    return tokenizer;
}

// The ids of a text, and the special tokens around it: "cls: ids :sep" with their number.
static void assert_ids(const char *folder, const char *text, const char *expected) {
    struct tokenizer *tokenizer = open_folder(folder);
    const struct tokenizer_special special = tokenizer_special_ids(tokenizer);
    struct token_list list = {0};
    char found[256];
    size_t length = (size_t)snprintf(found, sizeof found, "%d:", special.cls);
    assert_int_equal(tokenizer_encode(tokenizer, text, strlen(text), &list, NULL), BERTH_OK);
    for (size_t i = 0; i < list.count; i++) {
        length += (size_t)snprintf(found + length, sizeof found - length, " %d", list.items[i].id);
    }
    snprintf(found + length, sizeof found - length, " :%d x%d", special.sep, special.separators);
    assert_string_equal(found, expected);
    token_list_done(&list);
    tokenizer_close(tokenizer);
}

static void assert_refused(enum berth_status status, const char *part) {
    struct vocabulary_file file = {0};
    struct berth_error error = {0};
    char *path;
    enum berth_status found = folder_find_vocabulary(scratch_folder, &path, &file, &error);
    found = found == BERTH_OK ? folder_read_vocabulary(scratch_folder, path, &file, &error) : found;
    assert_int_equal(found, status);
    assert_message_has(&error, scratch_folder);
    assert_message_has(&error, part);
    vocabulary_file_done(&file);
    memory_free(path);
}

// --- vocab.json and merges.txt ------------------------------------------------------------------

static void test_bytes(void **state) {
    (void)state;
    write_bytes_words("{\"model_type\": \"roberta\"}", NULL);
    assert_ids(scratch_folder, "ab ab<mask>b", "0: 8 9 4 6 :2 x2");
    write_bytes_words("{\"model_type\": \"bert\"}",
                      "{\"tokenizer_class\": \"LongformerTokenizerFast\", \"add_prefix_space\": "
                      "true, \"cls_token\": \"<pad>\"}");
    assert_ids(scratch_folder, "ab ab<mask>b", "1: 9 9 4 7 6 :2 x2");
    write_bytes_words("{\"model_type\": \"deberta\"}", "{}");
    assert_ids(scratch_folder, "[SEP]ab", "10: 11 8 :11 x2");
    write_bytes_words("{\"model_type\": \"gpt2\"}", "{}");
    assert_ids(scratch_folder, "ab<|endoftext|>", "-1: 8 10 :-1 x1");
}

// In the order of transformers: tokens with ids, then named ones, then lists. A word keeps its id,
// another token has the next one, whatever the files say.
static void test_added_tokens(void **state) {
    (void)state;
    static const char roberta[] = "{\"model_type\": \"roberta\"}";
    write_bytes_words(roberta,
                      "{\"additional_special_tokens\": [\"<l>\"], \"sep_token\": \"<n>\"}");
    scratch_write("added_tokens.json", "{\"<y>\": 12, \"<x>\": 11, \"b\": 13}");
    scratch_write("special_tokens_map.json",
                  "{\"mask_token\": {\"content\": \"<mask>\", \"lstrip\": true}}");
    assert_ids(scratch_folder, "<x><y>ab <mask><n><l>b", "0: 10 11 5 6 4 12 13 6 :12 x2");
    // Tokens of the settings with their ids replace the two other files.
    write_bytes_words(roberta,
                      "{\"added_tokens_decoder\": {\"20\": {\"content\": \"<x>\"}, \"19\": "
                      "{\"content\": \"<z>\", \"rstrip\": true}}}");
    assert_ids(scratch_folder, "<x><y><z> b", "0: 11 10 6 :2 x2");
}

// --- models of sentencepiece --------------------------------------------------------------------

static void test_fairseq(void **state) {
    (void)state;
    scratch_write("config.json", "{\"model_type\": \"xlm-roberta\"}");
    write_fairseq("sentencepiece.bpe.model", SENTENCEPIECE_UNIGRAM);
    assert_ids(scratch_folder, "a b <mask>?", "0: 4 7 6 8 7 3 :2 x2");
    scratch_write("tokenizer_config.json",
                  "{\"tokenizer_class\": \"CamembertTokenizer\", \"add_prefix_space\": false}");
    assert_ids(scratch_folder, "a b <mask>?", "5: 8 9 11 3 :6 x2");
    write_fairseq("sentencepiece.bpe.model", SENTENCEPIECE_BPE);
    assert_refused(BERTH_CONFIG, "sentencepiece.bpe.model: expected a model of the type unigram "
                                 "for CamembertTokenizer");
}

static void test_albert_and_big_bird(void **state) {
    (void)state;
    static const char *const pieces[] = {"3<pad>", "2<unk>", "3[CLS]",     "3[SEP]", "3[MASK]",
                                         "4-",     "1" MARK, "1" MARK "a", "1a",     "1A"};
    struct buffer bytes = {0};
    put_pieces(&bytes, pieces, sizeof pieces / sizeof *pieces);
    write_model("spiece.model", &bytes);
    scratch_write("config.json", "{\"model_type\": \"albert\"}");
    assert_ids(scratch_folder, "\xC3\x84-A[MASK]?", "2: 7 5 7 4 6 1 :3 x1");
    scratch_write("tokenizer_config.json", "{\"do_lower_case\": false}");
    assert_ids(scratch_folder, "\xC3\x84-A", "2: 6 9 5 6 9 :3 x1");
    scratch_write("tokenizer_config.json", "{\"add_bos_token\": false}");
    assert_refused(BERTH_CONFIG,
                   "tokenizer_config.json: key \"add_bos_token\": expected none for the class "
                   "AlbertTokenizer");
    scratch_write("tokenizer_config.json",
                  "{\"tokenizer_class\": \"BigBirdTokenizer\", \"bos_token\": null}");
    assert_ids(scratch_folder, "a  a?", "2: 7 7 1 :3 x1");
    scratch_write("tokenizer_config.json", "{\"cls_token\": null}");
    assert_refused(BERTH_BAD_DATA,
                   "spiece.model: expected the token \"\", which key \"cls_token\"");
}

// Scores rank the merges; characters that are no pieces become bytes.
static void test_general(void **state) {
    (void)state;
    static const char *const pieces[] = {"2<unk>", "3<s>", "3</s>", "6<0xC3>", "6<0xA9>", "1bc",
                                         "1ab",    "1a",   "1b",    "1c",      "1" MARK};
    for (int prefix = 0; prefix < 2; prefix++) {
        struct buffer bytes = {0};
        put_pieces(&bytes, pieces, sizeof pieces / sizeof *pieces);
        put_trainer(&bytes, SENTENCEPIECE_BPE, 1);
        put_normalizer(&bytes, prefix, prefix);
        write_model("tokenizer.model", &bytes);
        scratch_write("config.json", "{\"model_type\": \"nystromformer\"}");
        assert_ids(scratch_folder, "  abc  ab\xC3\xA9 ",
                   prefix ? "-1: 10 7 5 10 6 3 4 :-1 x1" : "-1: 10 10 7 5 10 10 6 3 4 10 :-1 x1");
    }
    scratch_write("tokenizer_config.json", "{\"added_tokens_decoder\": {\"6\": \"<x>\"}}");
    assert_refused(BERTH_CONFIG, "tokenizer.model: piece 6: expected \"<x>\"");
}

// --- copies -------------------------------------------------------------------------------------

static void test_copies(void **state) {
    (void)state;
    struct text_rules rules;
    write_bytes_words("{\"model_type\": \"roberta\"}", NULL);
    scratch_write("added_tokens.json", "{\"<x>\": 10}");
    assert_int_equal(folder_text_rules(scratch_folder, NULL, &rules, NULL), BERTH_OK);
    assert_true(rules.is_pipeline);
    for (int named = 0; named < 2; named++) {
        const char *target = scratch(named ? "one" : "two");
        assert_int_equal(dir_make(target, NULL), BERTH_OK);
        assert_int_equal(folder_copy_tokenizer(scratch_folder, named ? scratch("vocab.json") : NULL,
                                               &rules, target, NULL),
                         BERTH_OK);
        assert_ids(target, "ab<x>", "0: 8 10 :2 x2");
    }
    assert_file_holds(scratch("two/tokenizer_config.json"),
                      "{\n  \"tokenizer_class\": \"RobertaTokenizer\"\n}\n");
    assert_false(file_exists(scratch("two/vocab.txt")));
}

// --- refusals -----------------------------------------------------------------------------------

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *config, *words, *merges, *part;
        enum berth_status status;
    } cases[] = {
        {"{\"model_type\": \"bert\"}", WORDS, MERGES,
         "vocab.json: the tokenizer's class says how a text becomes words: expected one of "
         "RobertaTokenizer, DebertaTokenizer, GPT2Tokenizer",
         BERTH_CONFIG},
        {"{\"model_type\": \"roberta\"}", "[]", MERGES,
         "vocab.json: expected an object of words and ids", BERTH_BAD_DATA},
        {"{\"model_type\": \"roberta\"}", WORDS, "a\xFF b\n", "merges.txt: not UTF-8",
         BERTH_BAD_DATA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write("config.json", cases[i].config);
        scratch_write("vocab.json", cases[i].words);
        scratch_write("merges.txt", cases[i].merges);
        assert_refused(cases[i].status, cases[i].part);
    }
    assert_int_equal(file_remove(scratch("merges.txt"), NULL), BERTH_OK);
    assert_refused(BERTH_NO_INPUT, "merges.txt");
    struct vocabulary_file file = {0};
    struct berth_error error;
    assert_int_equal(folder_read_vocabulary(NULL, scratch("vocab.json"), &file, &error),
                     BERTH_CONFIG);
    assert_message_has(&error, "of these words name the folder");
}

struct model_case {
    const char *bytes;
    size_t length;
    const char *part;
    enum berth_status status;
};
#define BYTES(text) (text), sizeof(text) - 1

static void test_models_that_are_refused(void **state) {
    (void)state;
    static const struct model_case cases[] = {
        {BYTES(""), "expected a model of sentencepiece, found no pieces", BERTH_BAD_DATA},
        {BYTES("\x0A\x02\x0A\x00"), "expected pieces of 1 to 512 bytes", BERTH_BAD_DATA},
        {BYTES("\x0A\x03\x0A\x01\xFF"), "a piece is not UTF-8", BERTH_BAD_DATA},
        {BYTES("\x0A\x05\x15\x00\x00\x00\x00"), "piece 0 has no text", BERTH_BAD_DATA},
        {BYTES("\x0A\x08\x0A\x01\x61\x15\x00\x00\x80\x7F"), "score is not a finite number",
         BERTH_BAD_DATA},
        {BYTES("\x0A\x05\x0A\x01\x61\x18\x07"), "expected pieces of the types 1 to 6",
         BERTH_BAD_DATA},
        {BYTES("\x12\x02\x18\x03"), "expected a model of the type unigram or bpe, found word",
         BERTH_CONFIG},
        {BYTES("\x0A\x7F\x0A"), "expected 127 bytes", BERTH_BAD_DATA},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sentencepiece model;
        struct berth_error error;
        assert_int_equal(
            sentencepiece_read("x.model", cases[i].bytes, cases[i].length, &model, &error),
            cases[i].status);
        assert_message_has(&error, "x.model");
        assert_message_has(&error, cases[i].part);
    }
}

// A model that ends anywhere is refused or has fewer pieces; an allocation that fails is reported.
static void test_cut_models(void **state) {
    (void)state;
    struct buffer bytes = {0};
    struct berth_error error;
    json *object;
    put_pieces(&bytes, fairseq, FAIRSEQ);
    put_normalizer(&bytes, 1, 1);
    struct words_input input = {.class = words_class_find("XLMRobertaTokenizer", NULL),
                                .name = "x.model",
                                .bytes = bytes.bytes};
    for (; input.length < bytes.length; input.length++) {
        const enum berth_status status = words_convert(&input, &object, &error);
        assert_true(status == BERTH_BAD_DATA || status == BERTH_OK);
        assert_int_equal(object != NULL, status == BERTH_OK);
        json_free(object);
    }
    int failed = 1;
    for (uint64_t fail_at = 1; failed; fail_at++) {
        memory_fail_at(fail_at, 0);
        const enum berth_status status = words_convert(&input, &object, &error);
        failed = memory_fail_at(0, 0) >= fail_at;
        assert_int_equal(status, failed ? BERTH_NO_MEMORY : BERTH_OK);
        json_free(object);
    }
    buffer_done(&bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_bytes),      SCRATCH_TEST(test_added_tokens),
        SCRATCH_TEST(test_fairseq),    SCRATCH_TEST(test_albert_and_big_bird),
        SCRATCH_TEST(test_general),    SCRATCH_TEST(test_copies),
        SCRATCH_TEST(test_refusals),   SCRATCH_TEST(test_models_that_are_refused),
        SCRATCH_TEST(test_cut_models),
    };
    return cmocka_run_group_tests_name("folder words", tests, NULL, NULL);
}
