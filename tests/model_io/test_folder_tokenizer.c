// SPDX-License-Identifier: Apache-2.0
// Tests the tokenizer's files of a model folder: they are copied unchanged, created if missing, and
// never state another vocabulary or casing than was used.
#include "core/json_memory.h"
#include "core/scratch.h"
#include "format/json/json.h"
#include "model/folder.h"

#include <errno.h>
#include <limits.h>

#define SETTINGS                                                                                   \
    "{\"do_lower_case\": false, \"model_max_length\": 1000000000000000019884624838656, "           \
    "\"tokenizer_class\": \"BertTokenizer\"}"

static void make_source(void) {
    assert_int_equal(dir_make(scratch("source"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("target"), NULL), BERTH_OK);
    scratch_write("source/vocab.txt", "[PAD]\n[UNK]\n");
    scratch_write("source/tokenizer.json", "{\"fast\": 1}");
    scratch_write("source/tokenizer_config.json", SETTINGS);
    scratch_write("source/special_tokens_map.json", "{\"unk_token\": \"<unk>\"}");
}

static const struct text_rules cased = {.strip_accents = -1, .tokenize_chinese_chars = 1};

static void copy(const char *source, const char *vocab, const struct text_rules *rules) {
    struct berth_error error;
    if (folder_copy_tokenizer(source, vocab, rules, scratch("target"), &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

static int target_lower_case(void) {
    struct text_rules rules;
    assert_int_equal(folder_text_rules(scratch("target"), NULL, &rules, NULL), BERTH_OK);
    return rules.lower_case;
}

static void test_everything_is_copied(void **state) {
    (void)state;
    make_source();
    copy(scratch("source"), NULL, NULL);
    assert_file_holds(scratch("target/vocab.txt"), "[PAD]\n[UNK]\n");
    assert_file_holds(scratch("target/tokenizer.json"), "{\"fast\": 1}");
    assert_file_holds(scratch("target/tokenizer_config.json"), SETTINGS);
    assert_file_holds(scratch("target/special_tokens_map.json"), "{\"unk_token\": \"<unk>\"}");
    assert_int_equal(target_lower_case(), 0);
}

// A tokenizer.json that is not BERT's is copied with its settings, or alone if it is another's.
static void test_other_tokenizers_are_copied(void **state) {
    (void)state;
    struct text_rules rules;
    static const char whole[] = "{\"model\": {\"type\": \"Unigram\"}}";
    assert_int_equal(dir_make(scratch("of"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("target"), NULL), BERTH_OK);
    scratch_write("of/config.json", "{\"model_type\": \"bert\"}");
    scratch_write("of/tokenizer.json", whole);
    scratch_write("of/special_tokens_map.json", "{\"mask_token\": \"<mask>\"}");
    scratch_write("mine.json", "{\"model\": {\"type\": \"BPE\"}}");
    assert_int_equal(folder_text_rules(scratch("of"), NULL, &rules, NULL), BERTH_OK);
    assert_true(rules.is_pipeline);
    copy(scratch("of"), NULL, NULL);
    assert_file_holds(scratch("target/tokenizer.json"), whole);
    assert_true(file_exists(scratch("target/special_tokens_map.json")));
    assert_false(file_exists(scratch("target/vocab.txt")));
    copy(scratch("of"), scratch("mine.json"), &rules);
    assert_file_holds(scratch("target/tokenizer.json"), "{\"model\": {\"type\": \"BPE\"}}");
    assert_true(file_exists(scratch("target/tokenizer_config.json")));
}

// The vocabulary is named by its path, but is the folder's own.
static void test_own_vocabulary_by_path(void **state) {
    (void)state;
    make_source();
    copy(scratch("source"), scratch("source/vocab.txt"), &cased);
    assert_true(file_exists(scratch("target/tokenizer.json")));
    assert_file_holds(scratch("target/tokenizer_config.json"), SETTINGS);
}

static void test_other_vocabulary(void **state) {
    (void)state;
    make_source();
    scratch_write("mine.txt", "[UNK]\n");
    copy(scratch("source"), scratch("mine.txt"), NULL);
    assert_file_holds(scratch("target/vocab.txt"), "[UNK]\n");
    assert_false(file_exists(scratch("target/tokenizer.json")));
}

// A vocabulary that cannot be read for comparison is an error, not another vocabulary.
static void test_a_failing_call_is_reported(void **state) {
    (void)state;
    struct berth_error error;
    make_source();
    file_fail_at(0, 0);
    copy(scratch("source"), scratch("source/vocab.txt"), &cased);
    uint64_t calls = file_fail_at(0, 0);
    assert_true(file_exists(scratch("target/tokenizer.json")));
    for (uint64_t call = 1; call <= calls; call++) {
        file_fail_at(call, EIO);
        enum berth_status status = folder_copy_tokenizer(
            scratch("source"), scratch("source/vocab.txt"), &cased, scratch("target"), &error);
        file_fail_at(0, 0);
        assert_int_equal(status, BERTH_IO);
    }
}

static void test_source_without_vocabulary(void **state) {
    (void)state;
    make_source();
    scratch_write("mine.txt", "[UNK]\n");
    assert_int_equal(file_remove(scratch("source/vocab.txt"), NULL), BERTH_OK);
    copy(scratch("source"), scratch("mine.txt"), NULL);
    assert_file_holds(scratch("target/vocab.txt"), "[UNK]\n");
    assert_false(file_exists(scratch("target/tokenizer.json")));
}

static void test_other_casing(void **state) {
    (void)state;
    json *settings;
    make_source();
    copy(scratch("source"), NULL, &text_rules_default);
    assert_int_equal(target_lower_case(), 1);
    assert_false(file_exists(scratch("target/tokenizer.json")));
    assert_int_equal(json_read_file(scratch("target/tokenizer_config.json"), &settings, NULL),
                     BERTH_OK);
    assert_true(json_as_real(json_member(settings, "model_max_length")) > 1e29); // kept
    json_free(settings);
}

static void test_missing_files_are_made(void **state) {
    (void)state;
    json *settings;
    assert_int_equal(dir_make(scratch("target"), NULL), BERTH_OK);
    scratch_write("vocab.txt", "[UNK]\n");
    copy(NULL, scratch("vocab.txt"), NULL);
    assert_file_holds(scratch("target/vocab.txt"), "[UNK]\n");
    assert_int_equal(target_lower_case(), 1);
    assert_int_equal(json_read_file(scratch("target/tokenizer_config.json"), &settings, NULL),
                     BERTH_OK);
    assert_string_equal(json_text(json_member(settings, "tokenizer_class")), "BertTokenizer");
    json_free(settings);
    assert_file_holds(scratch("target/special_tokens_map.json"),
                      "{\n  \"cls_token\": \"[CLS]\",\n  \"mask_token\": \"[MASK]\",\n"
                      "  \"pad_token\": \"[PAD]\",\n  \"sep_token\": \"[SEP]\",\n"
                      "  \"unk_token\": \"[UNK]\"\n}\n");
}

static void test_casing_of_a_folder(void **state) {
    (void)state;
    struct text_rules rules;
    struct berth_error error;
    assert_int_equal(folder_text_rules(scratch_folder, NULL, &rules, NULL), BERTH_OK);
    assert_int_equal(rules.lower_case, 1);
    scratch_write("tokenizer_config.json", "{\"do_lower_case\": \"no\"}");
    assert_int_equal(folder_text_rules(scratch_folder, NULL, &rules, &error), BERTH_CONFIG);
    assert_message_has(&error, scratch_folder);
    assert_message_has(&error, "\"do_lower_case\": expected true or false, found a string");
    scratch_write("tokenizer_config.json", "{");
    assert_int_equal(folder_text_rules(scratch_folder, NULL, &rules, &error), BERTH_BAD_DATA);
}

static void test_casing_by_name(void **state) {
    (void)state;
    static const struct {
        const char *folder;
        int casing;
    } cases[] = {{"a/uncased_L-12_H-768_A-12", 1},
                 {"cased_L-24_H-1024_A-16/", 0},
                 {"/x/bert-base-cased", 0},
                 {"bert-large-uncased-whole-word-masking", 1},
                 {"multi_Cased_L-12", 0},
                 {"uncased/minilm", -1},
                 {"case", -1},
                 {"", -1},
                 {"/", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(folder_name_casing(cases[i].folder), cases[i].casing);
    }
    struct text_rules rules;
    assert_int_equal(dir_make(scratch("bert-base-cased"), NULL), BERTH_OK);
    assert_int_equal(folder_text_rules(scratch("bert-base-cased"), NULL, &rules, NULL), BERTH_OK);
    assert_int_equal(rules.lower_case, 0);
    assert_int_equal(
        folder_text_rules(scratch("bert-base-cased/../bert-base-cased/."), NULL, &rules, NULL),
        BERTH_OK);
    assert_int_equal(rules.lower_case, 0);
    assert_int_equal(symlink("bert-base-cased", scratch("link")), 0);
    assert_int_equal(folder_text_rules(scratch("link"), NULL, &rules, NULL), BERTH_OK);
    assert_int_equal(rules.lower_case, 0);
    // As transformers does, whatever the name.
    scratch_write("bert-base-cased/tokenizer_config.json", "{\"model_max_length\": 512}");
    assert_int_equal(folder_text_rules(scratch("bert-base-cased"), NULL, &rules, NULL), BERTH_OK);
    assert_int_equal(rules.lower_case, 1);
}

// --- tokenizer.json ------------------------------------------------------------------------------

#define TOKEN(id, text, more) "{\"id\": " #id ", \"content\": \"" text "\"" more "}"
// Each token is followed by ~ if it is found in normalized text, ! if it must be a single word, and
// < and > if it takes the white space before and after it.
static void assert_added(const struct vocabulary_file *file, const char *added) {
    static const char flags[] = "~!<>";
    char text[64] = "";
    for (size_t i = 0; i < file->added_count; i++) {
        strcat(text, file->added[i].text);
        for (size_t flag = 0; flag < strlen(flags); flag++) {
            strncat(text, &flags[flag], file->added[i].flags >> flag & 1u);
        }
        strcat(text, " ");
    }
    assert_string_equal(text, added);
}

#define WHOLE(normalizer, model, added)                                                            \
    "{\"added_tokens\": [" added "], \"normalizer\": " normalizer                                  \
    ", \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, \"model\": " model "}"
#define NORMALIZER(more) "{\"type\": \"BertNormalizer\"" more "}"
#define WORDS                                                                                      \
    "{\"type\": \"WordPiece\", \"max_input_chars_per_word\": 7, \"vocab\": "                       \
    "{\"a\": 2, \"[UNK]\": 1, \"[PAD]\": 0}}"

// As the first versions of the tokenizers library wrote it.
#define UNTYPED                                                                                    \
    "\"unk_token\": \"[UNK]\", \"continuing_subword_prefix\": \"##\", "                            \
    "\"max_input_chars_per_word\": 100, \"vocab\": {\"[PAD]\": 0, \"[UNK]\": 1}"

// The copy has another name than the source, and settings that say what the source's name said.
static void test_casing_by_name_is_copied(void **state) {
    (void)state;
    assert_int_equal(dir_make(scratch("my-cased"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("target"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("kept"), NULL), BERTH_OK);
    scratch_write("my-cased/vocab.txt", "[PAD]\n[UNK]\n");
    assert_int_equal(folder_keep_rules(scratch("my-cased"), 1, scratch("kept"), NULL), BERTH_OK);
    struct text_rules rules;
    assert_int_equal(folder_text_rules(scratch("kept"), NULL, &rules, NULL), BERTH_OK);
    assert_int_equal(rules.lower_case, 0);
    scratch_write("my-cased/tokenizer_config.json", "{\"model_max_length\": 512}");
    copy(scratch("my-cased"), NULL, &cased);
    assert_int_equal(target_lower_case(), 0);
}

// A source with another tokenizer, whose files are only copied; and one with BERT's, whose copy,
// with another vocabulary, has config.json alone.
static void test_rules_that_cannot_be_kept(void **state) {
    (void)state;
    static const struct {
        const char *settings, *whole;
        int writes;
    } cases[] = {
        {"{\"tokenizer_class\": \"BertJapaneseTokenizer\"}", NULL, 0},
        {"{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}",
         WHOLE("{\"type\": \"Lowercase\"}", WORDS, ""), 0},
        {"{}", WHOLE(NORMALIZER(", \"lowercase\": false"), WORDS, ""), 1},
    };
    assert_int_equal(dir_make(scratch("of"), NULL), BERTH_OK);
    assert_int_equal(dir_make(scratch("target"), NULL), BERTH_OK);
    scratch_write("of/config.json", "{\"tokenizer_class\": \"BertJapaneseTokenizer\"}");
    scratch_write("target/config.json", "{\"tokenizer_class\": \"BertJapaneseTokenizer\"}");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_write("of/tokenizer_config.json", cases[i].settings);
        if (cases[i].whole != NULL) {
            scratch_write("of/tokenizer.json", cases[i].whole);
        }
        assert_int_equal(folder_keep_rules(scratch("of"), 0, scratch("target"), NULL), BERTH_OK);
        assert_int_equal(file_exists(scratch("target/tokenizer_config.json")), cases[i].writes);
    }
    assert_int_equal(target_lower_case(), 0);
}

static void test_only_tokenizer_json(void **state) {
    (void)state;
    struct vocabulary_file file = {0};
    struct text_rules rules;
    make_source();
    assert_int_equal(file_remove(scratch("source/vocab.txt"), NULL), BERTH_OK);
    assert_int_equal(file_remove(scratch("source/tokenizer_config.json"), NULL), BERTH_OK);
    scratch_write("source/tokenizer.json",
                  WHOLE(NORMALIZER(", \"lowercase\": false, \"strip_accents\": true, "
                                   "\"handle_chinese_chars\": false"),
                        WORDS, TOKEN(1, "[UNK]", ", \"lstrip\": true") ", " TOKEN(3, "<q>", "")));
    char *path;
    assert_int_equal(folder_vocabulary_path(scratch("source"), &path, NULL), BERTH_OK);
    assert_string_equal(path, scratch("source/tokenizer.json"));
    assert_int_equal(vocabulary_file_read(path, &file, NULL), BERTH_OK);
    assert_string_equal(file.bytes, "[PAD]\n[UNK]\na\n<q>\n");
    assert_int_equal(file.max_word_length, 7);
    assert_added(&file, "[UNK]< <q> ");
    vocabulary_file_done(&file);
    memory_free(path);
    // The folder's rules, and a copy that has both files and the same rules.
    for (int copied = 0; copied < 2; copied++) {
        const char *folder = scratch(copied ? "target" : "source");
        assert_int_equal(folder_text_rules(folder, NULL, &rules, NULL), BERTH_OK);
        assert_int_equal(rules.lower_case, 0);
        assert_int_equal(rules.strip_accents, 1);
        assert_int_equal(rules.tokenize_chinese_chars, 0);
        copy(scratch("source"), NULL, NULL);
    }
    assert_file_holds(scratch("target/vocab.txt"), "[PAD]\n[UNK]\na\n<q>\n");
    assert_true(file_exists(scratch("target/tokenizer.json")));
}

static void test_blanks_after_tokens(void **state) {
    (void)state;
    static const struct {
        const char *text, *read;
    } cases[] = {
        {"[PAD]\n[UNK]\na\n", "[PAD]\n[UNK]\na\n"},
        {"[PAD] \n[UNK]\t \n b", "[PAD]\n[UNK]\n b"},
        {"[PAD] \r\n[UNK]\r\na b\t\r\n", "[PAD]\r\n[UNK]\r\na b\r\n"},
        {"[PAD]\n \n\t\r\n\n[UNK] ", "[PAD]\n \n\t\r\n\n[UNK]"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vocabulary_file file = {0};
        scratch_write("vocab.txt", cases[i].text);
        assert_int_equal(vocabulary_file_read(scratch("vocab.txt"), &file, NULL), BERTH_OK);
        assert_int_equal(file.length, strlen(cases[i].read));
        assert_memory_equal(file.bytes, cases[i].read, file.length);
        vocabulary_file_done(&file);
    }
}

// A file may have a number that is to mean "no limit".
static void test_longest_words(void **state) {
    (void)state;
    static const struct {
        const char *number;
        int limit;
    } cases[] = {{"7", 7}, {"1048577", 1048577}, {"1000000000000", INT_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        struct vocabulary_file file = {0};
        snprintf(text, sizeof text, WHOLE(NORMALIZER(""), "{%s%s, %s}", ""),
                 "\"type\": \"WordPiece\", \"max_input_chars_per_word\": ", cases[i].number,
                 "\"vocab\": {\"[PAD]\": 0, \"[UNK]\": 1}");
        scratch_write("tokenizer.json", text);
        assert_int_equal(vocabulary_file_read(scratch("tokenizer.json"), &file, NULL), BERTH_OK);
        assert_int_equal(file.max_word_length, cases[i].limit);
        vocabulary_file_done(&file);
    }
}

// As transformers 5.24 does: BERT's class, named by a file or by the model's type, has its own
// defaults; another leaves everything to tokenizer.json.
static void test_settings_and_normalizer(void **state) {
    (void)state;
    static const struct {
        const char *config, *settings;
        int lower_case, strip_accents, tokenize_chinese_chars;
    } cases[] = {
        {"{}", "{}", 0, 1, 0},
        {"{}", "{\"do_lower_case\": true, \"strip_accents\": null}", 0, 1, 0},
        {"{\"model_type\": \"bert\"}", "{}", 1, -1, 1},
        {"{\"model_type\": \"bert\"}", "{\"do_lower_case\": false}", 0, -1, 1},
        {"{\"model_type\": \"bert\"}", "{\"tokenizer_class\": \"Other\"}", 0, 1, 0},
        {"{\"model_type\": \"bert\", \"tokenizer_class\": \"Other\"}", "{}", 0, 1, 0},
        {"{}", "{\"tokenizer_class\": \"BertTokenizer\"}", 1, -1, 1},
        {"{}",
         "{\"tokenizer_class\": \"BertTokenizerFast\", \"do_lower_case\": false, "
         "\"strip_accents\": null}",
         0, -1, 1},
        {"{}",
         "{\"tokenizer_class\": \"BertTokenizer\", \"strip_accents\": false, "
         "\"tokenize_chinese_chars\": false}",
         1, 0, 0},
        {"{\"model_type\": \"bert\"}",
         "{\"tokenizer_class\": \"TokenizersBackend\", \"do_lower_case\": true}", 0, 1, 0},
    };
    scratch_write("tokenizer.json", WHOLE(NORMALIZER(", \"lowercase\": false, \"strip_accents\": "
                                                     "true, \"handle_chinese_chars\": false"),
                                          WORDS, ""));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text_rules rules;
        scratch_write("config.json", cases[i].config);
        scratch_write("tokenizer_config.json", cases[i].settings);
        assert_int_equal(folder_text_rules(scratch_folder, NULL, &rules, NULL), BERTH_OK);
        assert_int_equal(rules.lower_case, cases[i].lower_case);
        assert_int_equal(rules.strip_accents, cases[i].strip_accents);
        assert_int_equal(rules.tokenize_chinese_chars, cases[i].tokenize_chinese_chars);
    }
}

// tokenizer.json comes before vocab.txt, except where it is of another tokenizer and BERT's class
// is named, which would build its own.
static void test_which_vocabulary(void **state) {
    (void)state;
    static const struct {
        const char *whole, *settings;
        int is_whole;
    } cases[] = {
        {WHOLE(NORMALIZER(""), WORDS, ""), "{\"tokenizer_class\": \"BertTokenizer\"}", 1},
        {WHOLE(NORMALIZER(""), WORDS, ""), "{}", 1},
        {WHOLE(NORMALIZER(""), "{" UNTYPED "}", ""), "{\"tokenizer_class\": \"BertTokenizer\"}", 1},
        {WHOLE(NORMALIZER(""), "{" UNTYPED ", \"merges\": []}", ""),
         "{\"tokenizer_class\": \"BertTokenizer\"}", 0},
        {"{\"model\": " WORDS "}", "{\"tokenizer_class\": \"BertTokenizer\"}", 0},
        {"{\"model\": " WORDS "}", "{\"tokenizer_class\": \"TokenizersBackend\"}", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path;
        scratch_write("vocab.txt", "[PAD]\n[UNK]\nb\n");
        scratch_write("tokenizer.json", cases[i].whole);
        scratch_write("tokenizer_config.json", cases[i].settings);
        assert_int_equal(folder_vocabulary_path(scratch_folder, &path, NULL), BERTH_OK);
        assert_int_equal(vocabulary_file_is_json(path), cases[i].is_whole);
        memory_free(path);
    }
}

// What was opened to choose the vocabulary is not read again.
static void test_vocabulary_is_read_once(void **state) {
    (void)state;
    struct vocabulary_file file = {0};
    struct text_rules rules;
    char *path;
    scratch_write("vocab.txt", "[PAD]\n[UNK]\nb\n");
    scratch_write("tokenizer.json", WHOLE(NORMALIZER(", \"lowercase\": false"), WORDS, ""));
    scratch_write("config.json", "{}");
    scratch_write("tokenizer_config.json", "{\"tokenizer_class\": \"BertTokenizer\"}");
    assert_int_equal(folder_find_vocabulary(scratch_folder, &path, &file, NULL), BERTH_OK);
    scratch_write("tokenizer.json", "");
    assert_int_equal(folder_read_vocabulary(scratch_folder, path, &file, NULL), BERTH_OK);
    assert_string_equal(file.bytes, "[PAD]\n[UNK]\na\n");
    scratch_write("tokenizer_config.json", "{\"tokenizer_class\": \"TokenizersBackend\"}");
    assert_int_equal(folder_text_rules(scratch_folder, &file, &rules, NULL), BERTH_OK);
    assert_int_equal(rules.lower_case, 0);
    vocabulary_file_done(&file);
    memory_free(path);
}

static enum berth_status read_words(const char *folder, struct vocabulary_file *file,
                                    struct berth_error *error) {
    char *path;
    *file = (struct vocabulary_file){0};
    TRY(folder_vocabulary_path(folder, &path, error));
    enum berth_status status = folder_read_vocabulary(folder, path, file, error);
    memory_free(path);
    return status;
}

// Files of transformers 2 to 5; the words and the added tokens are those of transformers 5.24.
static void test_added_tokens(void **state) {
    (void)state;
#define BERTS "\"tokenizer_class\": \"BertTokenizer\""
    static const struct {
        const char *settings, *specials, *added, *words, *tokens;
        int whole;
    } cases[] = {
        {"{" BERTS "}", "{}", "{}", "a\n<q>\n", "<q> ", 1},
        {"{" BERTS "}", "{}", "{\"<q>\": 3}", "a\n<q>\n", "<q> ", 1},
        {"{" BERTS ", \"extra_special_tokens\": [\"a\"]}", "{}", "{}", "a\n<q>\n", "<q> a ", 1},
        {"{" BERTS "}", "{\"additional_special_tokens\": [\"<y>\"]}", "{\"<y>\": 4, \"<x>\": 3}",
         "a\n<x>\n<y>\n", "<x>~ <y>~ ", 0},
        {"{" BERTS
         ", \"added_tokens_decoder\": {\"3\": {\"content\": \"<x>\", \"normalized\": true}}}",
         "{}", "{}", "a\n<x>\n", "<x>~ ", 0},
        {"{" BERTS
         ", \"added_tokens_decoder\": {\"1\": {\"content\": \"[UNK]\", \"rstrip\": true}, "
         "\"3\": {\"content\": \"<x>\", \"single_word\": true, \"normalized\": true}}}",
         "{}", "{}", "a\n<x>\n", "[UNK]> <x>~! ", 0},
        {"{" BERTS ", \"additional_special_tokens\": [{\"content\": \"<x>\", \"lstrip\": true}]}",
         "{}", "{}", "a\n<x>\n", "<x>< ", 0},
        {"{" BERTS "}", "{\"additional_special_tokens\": [\"<y>\", \"[MASK]\", \"<x>\"]}",
         "{\"<y>\": 4, \"<x>\": 3}", "a\n<x>\n<y>\n", "<x>~ <y>~ ", 0},
        // An additional list counts only where there is no extra one.
        {"{" BERTS
         ", \"additional_special_tokens\": [\"<y>\"], \"extra_special_tokens\": [\"<x>\"]}",
         "{}", "{}", "a\n<x>\n", "<x> ", 0},
        {"{" BERTS ", \"extra_special_tokens\": [\"<x>\"]}",
         "{\"additional_special_tokens\": [\"<y>\"]}", "{}", "a\n<x>\n", "<x> ", 0},
        {"{" BERTS ", \"additional_special_tokens\": [\"<y>\"], \"extra_special_tokens\": []}",
         "{}", "{}", "a\n<y>\n", "<y> ", 0},
        {"{" BERTS ", \"additional_special_tokens\": [\"<y>\"], \"extra_special_tokens\": "
         "{\"e\": \"<x>\"}}",
         "{}", "{}", "a\n<x>\n<y>\n", "<x> <y> ", 0},
        {"{" BERTS ", \"extra_special_tokens\": {\"e\": \"<x>\"}}",
         "{\"additional_special_tokens\": [\"<y>\"], \"extra_special_tokens\": [\"<z>\"]}", "{}",
         "a\n<x>\n<z>\n", "<x> <z> ", 0},
        {"{" BERTS ", \"additional_special_tokens\": [\"<y>\"]}",
         "{\"additional_special_tokens\": [\"<x>\"]}", "{}", "a\n<y>\n", "<y> ", 0},
        {"{" BERTS ", \"additional_special_tokens\": [\"<y>\"]}", "{}", "{\"<y>\": 3}", "a\n<y>\n",
         "<y> ", 0},
        {"{" BERTS ", \"extra_special_tokens\": [\"<z>\"], \"eos_token\": \"<y>\", "
         "\"bos_token\": \"<q>\"}",
         "{\"bos_token\": \"<x>\"}", "{}", "a\n<x>\n<y>\n<z>\n", "<x> <y> <z> ", 0},
        {"{" BERTS ", \"additional_special_tokens\": [\"a\", \"<x>\"]}",
         "{\"cls_token\": \"[CLS]\"}", "{}", "a\n<x>\n", "a <x> ", 0},
        {"{" BERTS ", \"extra_special_tokens\": {\"query\": \"<x>\"}, \"eos_token\": null}",
         "{\"bos_token\": {\"content\": \"a\", \"lstrip\": false}}", "{}", "a\n<x>\n", "a <x> ", 0},
        {"{" BERTS ", \"added_tokens_decoder\": {\"9\": {\"content\": \"[PAD]\"}, \"4\": "
         "{\"content\": \"<y>\"}, \"3\": {\"content\": \"<x>\"}}}",
         "{\"additional_special_tokens\": [\"a\"], \"cls_token\": \"a\"}", "{\"<z>\": 3}",
         "a\n<x>\n<y>\n", "<x> <y> ", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[64];
        struct vocabulary_file file = {0};
        make_source();
        scratch_write("source/vocab.txt", "[PAD]\n[UNK]\na");
        scratch_write("source/tokenizer.json",
                      cases[i].whole ? WHOLE(NORMALIZER(""), WORDS, TOKEN(3, "<q>", "")) : "{}");
        scratch_write("source/tokenizer_config.json", cases[i].settings);
        scratch_write("source/special_tokens_map.json", cases[i].specials);
        scratch_write("source/added_tokens.json", cases[i].added);
        copy(scratch("source"), NULL, i % 2 ? NULL : &cased);
        snprintf(words, sizeof words, "[PAD]\n[UNK]\n%s", cases[i].words);
        for (int copied = 0; copied < 2; copied++) {
            const char *folder = scratch(copied ? "target" : "source");
            assert_int_equal(read_words(folder, &file, NULL), BERTH_OK);
            assert_string_equal(file.bytes, words);
            assert_int_equal(file.word_pieces, 3);
            assert_added(&file, cases[i].tokens);
            vocabulary_file_done(&file);
        }
        // Another vocabulary does not have them.
        scratch_write("mine.txt", "[PAD]\n[UNK]\nb\n");
        assert_int_equal(dir_remove(scratch("target"), NULL), BERTH_OK);
        assert_int_equal(dir_make(scratch("target"), NULL), BERTH_OK);
        copy(scratch("source"), scratch("mine.txt"), NULL);
        assert_int_equal(read_words(scratch("target"), &file, NULL), BERTH_OK);
        assert_string_equal(file.bytes, "[PAD]\n[UNK]\nb\n");
        assert_added(&file, "");
        vocabulary_file_done(&file);
        assert_int_equal(dir_remove(scratch("source"), NULL), BERTH_OK);
        assert_int_equal(dir_remove(scratch("target"), NULL), BERTH_OK);
    }
}

static void test_lines_of_added_tokens(void **state) {
    (void)state;
    struct vocabulary_file file = {0};
    scratch_write("vocab.txt", "[PAD]\r\n[UNK]\r\na");
    scratch_write("added_tokens.json", "{\"<x>\": 3}");
    scratch_write("special_tokens_map.json", "{\"additional_special_tokens\": [\"<x>\", \"a\"]}");
    assert_int_equal(read_words(scratch_folder, &file, NULL), BERTH_OK);
    assert_string_equal(file.bytes, "[PAD]\r\n[UNK]\r\na\r\n<x>\r\n");
    assert_added(&file, "<x>~ a ");
    vocabulary_file_done(&file);
}

// The last of equal lines is the token's, as in transformers.
static void test_duplicate_lines(void **state) {
    (void)state;
    struct vocabulary_file file = {0};
    scratch_write("vocab.txt", "[PAD]\n[UNK]\na\n[PAD]\n");
    scratch_write(
        "tokenizer_config.json",
        "{\"added_tokens_decoder\": {\"3\": {\"content\": \"[PAD]\", \"lstrip\": true}}}");
    assert_int_equal(read_words(scratch_folder, &file, NULL), BERTH_OK);
    assert_added(&file, "[PAD]< ");
    vocabulary_file_done(&file);
}

// A lone CR ends a line, too.
static void test_line_ends(void **state) {
    (void)state;
    struct vocabulary_file file = {0};
    scratch_write("vocab.txt", "[PAD]\r[UNK] \ra\r\nb\r");
    assert_int_equal(vocabulary_file_read(scratch("vocab.txt"), &file, NULL), BERTH_OK);
    assert_string_equal(file.bytes, "[PAD]\n[UNK]\na\r\nb\n");
    vocabulary_file_done(&file);
}

// BERT's class has rules of its own: it takes only the words and the added tokens of a
// tokenizer.json, also of one with other rules. The general class has those of the file.
static void test_unclean_text(void **state) {
    (void)state;
    struct vocabulary_file file = {0};
    struct text_rules rules;
    scratch_write("vocab.txt", "[PAD]\n[UNK]\na\n");
    scratch_write("tokenizer.json",
                  WHOLE(NORMALIZER(", \"clean_text\": false"), WORDS, TOKEN(3, "<q>", "")));
    scratch_write("tokenizer_config.json", "{" BERTS "}");
    assert_int_equal(read_words(scratch_folder, &file, NULL), BERTH_OK);
    assert_string_equal(file.bytes, "[PAD]\n[UNK]\na\n<q>\n");
    assert_added(&file, "<q> ");
    assert_int_equal(folder_text_rules(scratch_folder, &file, &rules, NULL), BERTH_OK);
    scratch_write("tokenizer_config.json", "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}");
    for (int is_read = 0; is_read < 2; is_read++) {
        assert_int_equal(folder_text_rules(scratch_folder, is_read ? &file : NULL, &rules, NULL),
                         BERTH_OK);
        assert_true(rules.is_pipeline);
    }
    vocabulary_file_done(&file);
}

static void test_refused_tokens(void **state) {
    (void)state;
    static const struct {
        const char *file, *content, *message;
    } cases[] = {
        {"tokenizer_config.json", "{\"cls_token\": \"<s>\"}",
         "tokenizer_config.json: key \"cls_token\": expected [CLS], found <s>"},
        {"special_tokens_map.json", "{\"unk_token\": {\"content\": \"a\"}}",
         "special_tokens_map.json: key \"unk_token\": expected [UNK], found a"},
        {"tokenizer_config.json", "{\"sep_token\": \"a\"}", "\"sep_token\": expected [SEP]"},
        {"tokenizer_config.json", "{\"pad_token\": \"a\"}", "\"pad_token\": expected [PAD]"},
        {"tokenizer_config.json", "{\"mask_token\": \"a\"}", "\"mask_token\": expected [MASK]"},
        {"added_tokens.json", "[\"<x>\"]", "expected an object of tokens and ids"},
        {"added_tokens.json", "{\"<x>\": \"3\"}", "\"<x>\": expected a token with an id"},
        {"tokenizer_config.json",
         "{\"added_tokens_decoder\": {\"3\": {\"content\": \"<x>\", \"lstrip\": 1}}}",
         "key \"lstrip\": expected"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"4\": {\"content\": \"<x>\"}}}",
         "token \"<x>\": expected the id 3, the next one, found 4"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"1\": {\"content\": \"a\"}}}",
         "token \"a\": expected the id 2, its line in the vocabulary, found 1"},
        {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"x\": {\"content\": \"a\"}}}",
         "\"x\": expected a token with an id"},
        {"tokenizer_config.json", "{\"extra_special_tokens\": [1]}",
         "key \"extra_special_tokens\": expected tokens as strings"},
        {"tokenizer_config.json", "{\"extra_special_tokens\": [\"a\\nb\"]}", "a line break"},
        {"tokenizer_config.json", "{\"extra_special_tokens\": [\"\"]}", "token is empty"},
        {"tokenizer_config.json", "{\"additional_special_tokens\": 1, \"eos_token\": [{}]}",
         "key \"eos_token\": expected tokens"},
    };
    scratch_write("vocab.txt", "[PAD]\n[UNK]\na\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vocabulary_file file = {0};
        struct berth_error error = {0};
        scratch_write(cases[i].file, cases[i].content);
        assert_int_not_equal(read_words(scratch_folder, &file, &error), BERTH_OK);
        assert_message_has(&error, cases[i].message);
        assert_message_has(&error, scratch_folder);
        vocabulary_file_done(&file);
        assert_int_equal(file_remove(scratch(cases[i].file), NULL), BERTH_OK);
    }
}

// As transformers 5.24 makes inputs of texts, or the refusal.
static void test_input_rules(void **state) {
    (void)state;
#define SPECIAL(id, type) "{\"SpecialToken\": {\"id\": \"" id "\", \"type_id\": " #type "}}"
#define TEXT(id, type) "{\"Sequence\": {\"id\": \"" id "\", \"type_id\": " #type "}}"
#define SINGLE SPECIAL("[CLS]", 0) ", " TEXT("A", 0) ", " SPECIAL("[SEP]", 0)
#define TEMPLATE(pair, cls)                                                                        \
    "{\"type\": \"TemplateProcessing\", \"single\": [" SINGLE "], \"pair\": [" pair                \
    "], \"special_tokens\": {\"[CLS]\": {\"id\": \"[CLS]\", \"ids\": [" #cls                       \
    "]}, \"[SEP]\": {\"id\": \"[SEP]\", \"ids\": [3]}}}"
#define PAIR(type) SINGLE ", " TEXT("B", type) ", " SPECIAL("[SEP]", type)
#define CLASS(name) "\"tokenizer_class\": \"" name "\""
#define NAMES "\"model_input_names\": [\"input_ids\", \"token_type_ids\"]"
    static const char bert[] = "{\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 3], "
                               "\"cls\": [\"[CLS]\", 2]}";
    static const struct {
        const char *settings, *processor; // NULL: no tokenizer.json
        int one_type, split_special;
        const char *message;
    } cases[] = {
        {"{}", NULL, 0, 0, NULL},
        {"{\"truncation_side\": \"right\", \"split_special_tokens\": null}", NULL, 0, 0, NULL},
        {"{" CLASS("BertTokenizer") "}", "null", 0, 0, NULL},
        {"{" CLASS("DistilBertTokenizerFast") "}", "null", 1, 0, NULL},
        {"{" CLASS("PreTrainedTokenizerFast") "}", NULL, 1, 0, NULL},
        {"{" CLASS("TokenizersBackend") "}", bert, 1, 0, NULL},
        {"{" CLASS("Other") "}", bert, 1, 0, NULL},
        {"{}", bert, 1, 0, NULL},
        {"{" CLASS("TokenizersBackend") ", " NAMES "}", TEMPLATE(PAIR(1), 2), 0, 0, NULL},
        {"{" CLASS("TokenizersBackend") "}", TEMPLATE(PAIR(0), 2), 1, 0, NULL},
        {"{" CLASS("BertTokenizer") ", \"model_input_names\": [\"input_ids\"]}", NULL, 1, 0, NULL},
        {"{\"split_special_tokens\": true}", NULL, 0, 1, NULL},
        {"{\"split_special_tokens\": true, \"extra_special_tokens\": [{\"content\": \"[PAD]\", "
         "\"lstrip\": true}]}",
         NULL, 0, 1, NULL},
        {"{\"split_special_tokens\": true, \"extra_special_tokens\": [\"a\"]}", NULL, 0, 0,
         "\"split_special_tokens\": true is not supported with added tokens, such as \"a\""},
        {"{\"truncation_side\": \"left\"}", NULL, 0, 0,
         "\"truncation_side\": expected \"right\", found \"left\""},
        {"{}", "null, \"truncation\": {\"direction\": \"Left\"}", 0, 0,
         "tokenizer.json: key \"truncation\": expected \"right\", found \"left\""},
        {"{" CLASS("BertTokenizer") ", \"truncation_side\": \"right\"}",
         "null, \"truncation\": {\"direction\": \"Left\"}", 0, 0, NULL},
        {"{" CLASS("BertTokenizer") "}", "null, \"truncation\": {\"direction\": \"Right\"}", 0, 0,
         NULL},
        {"{\"model_input_names\": 1}", NULL, 0, 0, "\"model_input_names\": expected a list"},
        {"{" CLASS("TokenizersBackend") "}", "null", 0, 0, "expected BERT's, which makes"},
        {"{" CLASS("TokenizersBackend") "}", "{\"type\": \"RobertaProcessing\"}", 0, 0,
         "\"post_processor\": expected BERT's"},
        {"{" CLASS("TokenizersBackend") "}",
         "{\"type\": \"BertProcessing\", \"sep\": [\"[CLS]\", 2], \"cls\": [\"[SEP]\", 3]}", 0, 0,
         "\"post_processor\": expected BERT's"},
        {"{" CLASS("TokenizersBackend") ", " NAMES "}", TEMPLATE(PAIR(0), 2), 0, 0,
         "\"post_processor\": expected BERT's"},
        {"{" CLASS("TokenizersBackend") "}", TEMPLATE(PAIR(1), 3), 0, 0,
         "\"post_processor\": expected BERT's"},
        {"{" CLASS("TokenizersBackend") "}", TEMPLATE(SINGLE, 2), 0, 0,
         "\"post_processor\": expected BERT's"},
    };
    scratch_write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vocabulary_file file = {0};
        struct input_rules rules;
        struct berth_error error = {0};
        char whole[2000];
        snprintf(whole, sizeof whole,
                 "{\"post_processor\": %s, \"normalizer\": " NORMALIZER(
                     "") ", \"pre_tokenizer\": "
                         "{\"type\": \"BertPreTokenizer\"}, \"model\": {\"type\": \"WordPiece\", "
                         "\"vocab\": "
                         "{\"[PAD]\": 0, \"[UNK]\": 1, \"[CLS]\": 2, \"[SEP]\": 3, \"a\": 4}}}",
                 cases[i].processor);
        scratch_write("tokenizer_config.json", cases[i].settings);
        if (cases[i].processor != NULL) {
            scratch_write("tokenizer.json", whole);
        }
        assert_int_equal(read_words(scratch_folder, &file, NULL), BERTH_OK);
        assert_int_equal(folder_input_rules(scratch_folder, &file, &rules, &error),
                         cases[i].message != NULL ? BERTH_CONFIG : BERTH_OK);
        if (cases[i].message != NULL) {
            assert_message_has(&error, cases[i].message);
            assert_message_has(&error, scratch_folder);
        } else {
            assert_int_equal(rules.one_type, cases[i].one_type);
            assert_int_equal(rules.split_special, cases[i].split_special);
        }
        vocabulary_file_done(&file);
        (void)file_remove(scratch("tokenizer.json"), NULL);
    }
}

// As transformers decodes: BERT's class has a decoder of its own, others have that of
// tokenizer.json.
static void test_decoders(void **state) {
    static const struct {
        const char *class, *decoder;
        int keeps_blanks, keeps_pieces;
    } cases[] = {
        {"BertTokenizer", ", \"decoder\": {\"type\": \"WordPiece\", \"cleanup\": false}", 0, 0},
        {"BertTokenizer", "", 0, 0},
        {"TokenizersBackend", "", 0, 1},
        {"TokenizersBackend", ", \"decoder\": null", 0, 1},
        {"TokenizersBackend", ", \"decoder\": {\"type\": \"WordPiece\", \"cleanup\": true}", 0, 0},
        {"TokenizersBackend", ", \"decoder\": {\"type\": \"WordPiece\", \"cleanup\": false}", 1, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vocabulary_file file = {0};
        struct input_rules rules;
        char text[2000];
        snprintf(text, sizeof text, "{" CLASS("%s") "}", cases[i].class);
        scratch_write("tokenizer_config.json", text);
        snprintf(text, sizeof text,
                 "{\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 3], "
                 "\"cls\": [\"[CLS]\", 2]}, \"normalizer\": " NORMALIZER(
                     "") ", \"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, \"model\": "
                         "{\"type\": \"WordPiece\", \"vocab\": {\"[PAD]\": 0, \"[UNK]\": 1, "
                         "\"[CLS]\": 2, \"[SEP]\": 3, \"a\": 4}}%s}",
                 cases[i].decoder);
        scratch_write("tokenizer.json", text);
        assert_int_equal(read_words(scratch_folder, &file, NULL), BERTH_OK);
        assert_int_equal(folder_input_rules(scratch_folder, &file, &rules, NULL), BERTH_OK);
        assert_int_equal(rules.keeps_blanks, cases[i].keeps_blanks);
        assert_int_equal(rules.keeps_pieces, cases[i].keeps_pieces);
        vocabulary_file_done(&file);
        (void)file_remove(scratch("tokenizer.json"), NULL);
    }
}

// The copy's class is BERT's, which would give a pair two types.
static void test_one_type_is_copied(void **state) {
    (void)state;
    struct input_rules rules;
    make_source();
    scratch_write("source/tokenizer_config.json",
                  "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}");
    assert_int_equal(file_remove(scratch("source/tokenizer.json"), NULL), BERTH_OK);
    copy(scratch("source"), NULL, &cased);
    assert_int_equal(folder_input_rules(scratch("target"), NULL, &rules, NULL), BERTH_OK);
    assert_int_equal(rules.one_type, 1);
}

// Google's rule for pairs, which transformers does not know, is recorded; the other one is not.
static void test_the_rule_for_pairs(void **state) {
    (void)state;
    struct text_rules rules = cased;
    make_source();
    assert_int_equal(file_remove(scratch("source/tokenizer.json"), NULL), BERTH_OK);
    copy(scratch("source"), NULL, &rules);
    assert_same_file(scratch("source/tokenizer_config.json"),
                     scratch("target/tokenizer_config.json"));
    rules.google_pairs = 1;
    copy(scratch("source"), NULL, &rules);
    assert_int_equal(folder_text_rules(scratch("target"), NULL, &rules, NULL), BERTH_OK);
    assert_int_equal(rules.google_pairs, 1);
    assert_int_equal(dir_remove(scratch("source"), NULL), BERTH_OK);
    assert_int_equal(rename(scratch("target"), scratch("source")), 0);
    assert_int_equal(dir_make(scratch("target"), NULL), BERTH_OK);
    rules.google_pairs = 0;
    copy(scratch("source"), NULL, &rules);
    assert_int_equal(folder_text_rules(scratch("target"), NULL, &rules, NULL), BERTH_OK);
    assert_int_equal(rules.google_pairs, 0);
}

static void test_no_vocabulary(void **state) {
    (void)state;
    struct vocabulary_file file = {0};
    struct berth_error error;
    assert_int_equal(read_words(scratch_folder, &file, &error), BERTH_NO_INPUT);
    assert_message_has(&error, "vocab.txt: no such file, nor is there a tokenizer.json");
    vocabulary_file_done(&file);
}

// Other rules do not cost them: tokenizer.json then has the rules that were used.
static void test_added_tokens_with_other_rules(void **state) {
    (void)state;
    static const struct text_rules other = {.lower_case = 1};
    struct vocabulary_file file = {0};
    make_source();
    scratch_write("source/tokenizer.json",
                  WHOLE(NORMALIZER(", \"lowercase\": false"), WORDS, TOKEN(3, "<q>", "")));
    scratch_write("source/tokenizer_config.json", "{\"extra_special_tokens\": [\"<q>\"]}");
    copy(scratch("source"), NULL, &other);
    assert_int_equal(target_lower_case(), 1);
    assert_int_equal(vocabulary_file_read(scratch("target/tokenizer.json"), &file, NULL), BERTH_OK);
    assert_added(&file, "<q> ");
    assert_memory_equal(&file.rules, &other, sizeof other);
    vocabulary_file_done(&file);
}

static void test_other_classes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum berth_status status;
    } cases[] = {{"BertTokenizer", BERTH_OK},
                 {"DistilBertTokenizerFast", BERTH_OK},
                 {"ElectraTokenizer", BERTH_OK},
                 {"PreTrainedTokenizerFast", BERTH_OK},
                 {"BertJapaneseTokenizer", BERTH_CONFIG},
                 {"PhobertTokenizer", BERTH_CONFIG}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char settings[96];
        struct text_rules rules;
        struct berth_error error = {0};
        snprintf(settings, sizeof settings, "{\"tokenizer_class\": \"%s\"}", cases[i].name);
        scratch_write("tokenizer_config.json", settings);
        assert_int_equal(folder_text_rules(scratch_folder, NULL, &rules, &error), cases[i].status);
        if (cases[i].status != BERTH_OK) {
            assert_message_has(&error, "is not BERT's tokenizer");
        }
    }
}

static void test_refused_tokenizers(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {WHOLE(NORMALIZER(""), "{\"type\": \"BPE\"}", ""), "expected WordPiece, found BPE"},
        {WHOLE("{\"type\": \"Sequence\"}", WORDS, ""), "expected BertNormalizer, found Sequence"},
        {WHOLE(NORMALIZER(""), "{\"type\": \"WordPiece\", \"unk_token\": \"<unk>\"}", ""),
         "expected [UNK], found <unk>"},
        {WHOLE(NORMALIZER(""), "{\"type\": \"WordPiece\"}", ""), "model.vocab"},
        {WHOLE(NORMALIZER(""), "{\"type\": \"WordPiece\", \"vocab\": {\"a\": 0, \"b\": 2}}", ""),
         "expected an id from 0 to 1"},
        {WHOLE(NORMALIZER(""), "{\"type\": \"WordPiece\", \"vocab\": {\"a\": 0, \"b\": 0}}", ""),
         "duplicate id 0"},
        {WHOLE(NORMALIZER(""), "{\"type\": \"WordPiece\", \"vocab\": {\"a\\nb\": 0}}", ""),
         "line break"},
        {WHOLE(NORMALIZER(""), WORDS, "{\"id\": 3}"), "entry 0 has no \"content\""},
        {WHOLE(NORMALIZER(", \"clean_text\": 1"), WORDS, ""), "key \"clean_text\": expected"},
        {WHOLE(NORMALIZER(", \"lowercase\": 1"), WORDS, ""), "key \"lowercase\": expected"},
        {WHOLE(NORMALIZER(", \"handle_chinese_chars\": 1"), WORDS, ""),
         "key \"handle_chinese_chars\": expected"},
        {WHOLE(NORMALIZER(", \"strip_accents\": 1"), WORDS, ""), "key \"strip_accents\": expected"},
        {WHOLE(NORMALIZER(""), "{\"type\": \"WordPiece\", \"unk_token\": 1}", ""),
         "key \"unk_token\": expected a string"},
        {WHOLE(NORMALIZER(""), "{\"type\": \"WordPiece\", \"continuing_subword_prefix\": 1}", ""),
         "key \"continuing_subword_prefix\": expected a string"},
        {WHOLE(NORMALIZER(""), "{\"type\": \"WordPiece\", \"continuing_subword_prefix\": \"@\"}",
               ""),
         "model.continuing_subword_prefix"},
        {WHOLE(NORMALIZER(""), "{\"type\": \"WordPiece\", \"max_input_chars_per_word\": \"9\"}",
               ""),
         "key \"max_input_chars_per_word\": expected an integer"},
        {WHOLE(NORMALIZER(""), "{\"type\": \"WordPiece\", \"vocab\": {}}", ""), "model.vocab"},
        {WHOLE(NORMALIZER(""), "{\"type\": \"WordPiece\", \"vocab\": {\"a\": \"0\"}}", ""),
         "token \"a\": expected an id"},
        {WHOLE(NORMALIZER(""), "{\"type\": \"WordPiece\", \"vocab\": {\"a\": -1}}", ""),
         "token \"a\": expected an id"},
        {WHOLE(NORMALIZER(""), WORDS, TOKEN(9, "word", "")), "token \"word\": expected an id"},
        {WHOLE(NORMALIZER(""), WORDS, TOKEN(3, "word", "") ", " TOKEN(3, "word", "")),
         "no token has the id 4 (of 5 tokens)"},
        {WHOLE(NORMALIZER(""), "{\"type\": \"WordPiece\", \"vocab\": {\"a\": 0, \"b\": 2}}",
               TOKEN(1, "word", "")),
         "\"word\", which \"model.vocab\" lacks: expected an id after those of its 2 tokens, found "
         "1"},
        {WHOLE(NORMALIZER(""), WORDS, TOKEN(3, "word", ", \"lstrip\": 1")),
         "key \"lstrip\": expected"},
        {"{\"model\": " WORDS ", \"pre_tokenizer\": {\"type\": \"ByteLevel\"}}",
         "expected BertPreTokenizer, found ByteLevel"},
        {"{", "line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct vocabulary_file file = {0};
        struct berth_error error = {0};
        scratch_write("tokenizer.json", cases[i].text);
        if (vocabulary_file_read(scratch("tokenizer.json"), &file, &error) == BERTH_OK) {
            assert_true(file.is_other && file.rules.is_pipeline && file.bytes == NULL);
            vocabulary_file_done(&file);
            assert_int_equal(vocabulary_file_open(scratch("tokenizer.json"), &file, &error),
                             BERTH_CONFIG);
        }
        assert_message_has(&error, cases[i].message);
        vocabulary_file_done(&file);
    }
}

static enum berth_status make_files(void) {
    return folder_copy_tokenizer(NULL, scratch("mine.txt"), &text_rules_default, scratch("target"),
                                 NULL);
}

static enum berth_status copy_with_other_vocabulary(void) {
    return folder_copy_tokenizer(scratch("source"), scratch("mine.txt"), &text_rules_default,
                                 scratch("target"), NULL);
}

static enum berth_status copy_other_rules(void) {
    return folder_copy_tokenizer(scratch("source"), NULL, &cased, scratch("target"), NULL);
}

static enum berth_status read_whole(void) {
    struct vocabulary_file file = {0};
    const enum berth_status status =
        vocabulary_file_read(scratch("whole/tokenizer.json"), &file, NULL);
    if (status == BERTH_OK) {
        assert_string_equal(file.bytes, "[PAD]\n[UNK]\na\n<q>\n");
    }
    vocabulary_file_done(&file);
    return status;
}

static enum berth_status read_added(void) {
    struct vocabulary_file file = {0};
    const enum berth_status status = read_words(scratch("slow"), &file, NULL);
    if (status == BERTH_OK) {
        assert_added(&file, "<x>~ a ");
    }
    vocabulary_file_done(&file);
    return status;
}

// Each allocation of each job fails once; a failure that does no harm may be overcome.
static void test_each_allocation_fails(void **state) {
    (void)state;
    static enum berth_status (*const jobs[])(void) = {make_files, copy_with_other_vocabulary,
                                                      copy_other_rules, read_whole, read_added};
    make_source();
    scratch_write("mine.txt", "[UNK]\n");
    assert_int_equal(dir_make(scratch("whole"), NULL), BERTH_OK);
    scratch_write("whole/tokenizer.json", WHOLE(NORMALIZER(""), WORDS, TOKEN(3, "<q>", "")));
    assert_int_equal(dir_make(scratch("slow"), NULL), BERTH_OK);
    scratch_write("slow/vocab.txt", "[PAD]\n[UNK]\na\n");
    scratch_write("slow/added_tokens.json", "{\"<x>\": 3}");
    scratch_write("slow/special_tokens_map.json",
                  "{\"additional_special_tokens\": [\"<x>\", \"a\"]}");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        uint64_t made, call = 0, failed = 0;
        do {
            assert_int_equal(dir_remove(scratch("target"), NULL), BERTH_OK);
            assert_int_equal(dir_make(scratch("target"), NULL), BERTH_OK);
            memory_fail_at(++call, 0);
            const enum berth_status status = jobs[i]();
            made = memory_fail_at(0, 0);
            assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
            failed += status != BERTH_OK;
        } while (made >= call);
        assert_true(failed > 0);
    }
    assert_true(json_memory_fail_each(make_files) > 4);
}

// The settings of a generic class, whose rules were changed, get BERT's class.
static void test_generic_class_with_other_rules(void **state) {
    (void)state;
    json *settings;
    make_source();
    assert_int_equal(file_remove(scratch("source/tokenizer.json"), NULL), BERTH_OK);
    scratch_write("source/tokenizer_config.json",
                  "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"do_lower_case\": true}");
    copy(scratch("source"), NULL, &cased);
    assert_int_equal(json_read_file(scratch("target/tokenizer_config.json"), &settings, NULL),
                     BERTH_OK);
    assert_string_equal(json_text(json_member(settings, "tokenizer_class")), "BertTokenizer");
    json_free(settings);
    assert_int_equal(target_lower_case(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_only_tokenizer_json),
        SCRATCH_TEST(test_blanks_after_tokens),
        SCRATCH_TEST(test_longest_words),
        SCRATCH_TEST(test_settings_and_normalizer),
        SCRATCH_TEST(test_which_vocabulary),
        SCRATCH_TEST(test_vocabulary_is_read_once),
        SCRATCH_TEST(test_added_tokens),
        SCRATCH_TEST(test_lines_of_added_tokens),
        SCRATCH_TEST(test_duplicate_lines),
        SCRATCH_TEST(test_line_ends),
        SCRATCH_TEST(test_unclean_text),
        SCRATCH_TEST(test_refused_tokens),
        SCRATCH_TEST(test_input_rules),
        SCRATCH_TEST(test_decoders),
        SCRATCH_TEST(test_one_type_is_copied),
        SCRATCH_TEST(test_the_rule_for_pairs),
        SCRATCH_TEST(test_no_vocabulary),
        SCRATCH_TEST(test_added_tokens_with_other_rules),
        SCRATCH_TEST(test_other_classes),
        SCRATCH_TEST(test_refused_tokenizers),
        SCRATCH_TEST(test_everything_is_copied),
        SCRATCH_TEST(test_own_vocabulary_by_path),
        SCRATCH_TEST(test_other_vocabulary),
        SCRATCH_TEST(test_a_failing_call_is_reported),
        SCRATCH_TEST(test_source_without_vocabulary),
        SCRATCH_TEST(test_other_casing),
        SCRATCH_TEST(test_missing_files_are_made),
        SCRATCH_TEST(test_casing_of_a_folder),
        SCRATCH_TEST(test_casing_by_name),
        SCRATCH_TEST(test_casing_by_name_is_copied),
        SCRATCH_TEST(test_rules_that_cannot_be_kept),
        SCRATCH_TEST(test_other_tokenizers_are_copied),
        SCRATCH_TEST(test_each_allocation_fails),
        SCRATCH_TEST(test_generic_class_with_other_rules),
    };
    return cmocka_run_group_tests_name("folder tokenizer", tests, NULL, NULL);
}
