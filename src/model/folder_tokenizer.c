// SPDX-License-Identifier: Apache-2.0
// The tokenizer's files of a model folder. Files that still apply are copied byte by byte.
// tokenizer.json repeats the vocabulary and the casing, so it is left out if either was replaced
// (transformers recreates it from vocab.txt).
#include "core/file.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "core/words.h"
#include "format/json/json.h"
#include "model/folder.h"

#include <string.h>
#include <strings.h>

#define SETTINGS_FILE "tokenizer_config.json"
#define SPECIALS_FILE "special_tokens_map.json"
#define VOCAB_FILE "vocab.txt"
#define TOKENIZER_FILE "tokenizer.json"
#define ADDED_FILE "added_tokens.json"

static const char *const special_tokens[][2] = {{"unk_token", "[UNK]"},
                                                {"sep_token", "[SEP]"},
                                                {"pad_token", "[PAD]"},
                                                {"cls_token", "[CLS]"},
                                                {"mask_token", "[MASK]"}};

// --- reading ------------------------------------------------------------------------------------

// The object in a file of the folder; NULL if there is none.
static enum berth_status read_object(const char *folder, const char *name, json **object,
                                     struct berth_error *error) {
    *object = NULL;
    char *path = folder_file(folder, name);
    if (path == NULL) {
        return file_no_path(error);
    }
    enum berth_status status = file_exists(path) ? json_read_file(path, object, error) : BERTH_OK;
    memory_free(path);
    return status;
}

// The last component of a folder's path, without trailing slashes; for a file, of its folder's.
static size_t last_part(const char *path, const char **part) {
    size_t end = strlen(path);
    while (file_exists(path) && end > 0 && path[end - 1] != '/') {
        end--;
    }
    while (end > 0 && path[end - 1] == '/') {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') {
        begin--;
    }
    *part = path + begin;
    return end - begin;
}

int folder_name_casing(const char *folder) {
    const char *name;
    size_t length = last_part(folder, &name);
    for (size_t i = 0; i + 5 <= length; i++) {
        if (strncasecmp(name + i, "cased", 5) == 0) {
            return i >= 2 && strncasecmp(name + i - 2, "un", 2) == 0;
        }
    }
    return -1;
}

// Whether tokenizer_config.json leaves everything to tokenizer.json: its class is the library's
// generic one.
static int is_general(const json *settings) {
    static const char *const classes[] = {"PreTrainedTokenizerFast", "TokenizersBackend"};
    const char *name = json_text(json_member(settings, "tokenizer_class"));
    return name != NULL && (strcmp(name, classes[0]) == 0 || strcmp(name, classes[1]) == 0);
}

// Those of models with BERT's tokenizer under another name, such as DistilBertTokenizerFast; not
// BertJapaneseTokenizer or PhobertTokenizer.
static int is_class_of_bert(const char *name) {
    static const char *const ends[] = {"BertTokenizer", "BertTokenizerFast", "ElectraTokenizer",
                                       "ElectraTokenizerFast"};
    int found = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        found |= text_ends_with(name, ends[i]);
    }
    return found;
}

static enum berth_status check_class(const json *settings, struct berth_error *error) {
    const char *name = json_text(json_member(settings, "tokenizer_class"));
    return name == NULL || is_general(settings) || is_class_of_bert(name)
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           SETTINGS_FILE ": key \"tokenizer_class\": %.*s is not BERT's tokenizer, "
                                         "the only one that is supported; if the model was made "
                                         "with BERT's, remove the key",
                           UTF8_SHOWN(name, 60));
}

static enum berth_status read_truth(const json *settings, const char *key, int *value,
                                    struct berth_error *error) {
    return json_is_null_value(json_member(settings, key))
               ? BERTH_OK
               : json_get_boolean(settings, SETTINGS_FILE, key, value, error);
}

static enum berth_status apply_settings(const json *settings, struct text_rules *rules,
                                        struct berth_error *error) {
    if (json_is_null_value(json_member(settings, "strip_accents"))) {
        rules->strip_accents = -1;
    }
    TRY(read_truth(settings, "do_lower_case", &rules->lower_case, error));
    TRY(read_truth(settings, "strip_accents", &rules->strip_accents, error));
    return read_truth(settings, "tokenize_chinese_chars", &rules->tokenize_chinese_chars, error);
}

// Sets *found to whether the folder has a tokenizer.json of BERT's.
static enum berth_status read_normalizer(const char *folder, struct text_rules *rules, int *found,
                                         struct berth_error *error) {
    char *path = folder_file(folder, TOKENIZER_FILE);
    enum berth_status status = path != NULL ? BERTH_OK : file_no_path(error);
    *found = path != NULL && file_exists(path);
    if (*found) {
        status = vocabulary_file_rules(path, rules, error);
    }
    memory_free(path);
    return status;
}

static enum berth_status combine_rules(const char *folder, const json *settings,
                                       struct text_rules *rules, struct berth_error *error) {
    struct text_rules normalizer;
    int found;
    enum berth_status status = read_normalizer(folder, &normalizer, &found, error);
    if (status == BERTH_CONFIG || (status == BERTH_OK && !found)) {
        TRY(check_class(settings, error));
    }
    if (status == BERTH_OK && found) {
        *rules = normalizer;
    }
    if (is_general(settings) && found) {
        return status;
    }
    // The normalizer of another tokenizer has no effect if the settings name BERT's tokenizer.
    return status == BERTH_OK || status == BERTH_CONFIG ? apply_settings(settings, rules, error)
                                                        : status;
}

enum berth_status folder_text_rules(const char *folder, struct text_rules *rules,
                                    struct berth_error *error) {
    json *settings;
    *rules = text_rules_usual;
    rules->lower_case = folder_name_casing(folder) != 0;
    TRY(read_object(folder, SETTINGS_FILE, &settings, error));
    enum berth_status status = combine_rules(folder, settings, rules, error);
    json_free(settings);
    return status == BERTH_OK ? BERTH_OK : error_prefix(error, status, "%s", folder);
}

// --- added tokens -------------------------------------------------------------------------------

// Whether a list of tokens, an object with tokens as keys, or one with tokens' settings as values
// has another token than the usual ones.
static int has_others(const json *tokens) {
    int found = 0;
    for (size_t i = 0; json_is_array_value(tokens) && i < json_length(tokens); i++) {
        const char *text = json_text(json_at(tokens, i));
        found |= text == NULL || !vocabulary_is_usual(text);
    }
    struct json_walk walk = {.object = tokens};
    while (json_is_object_value(tokens) && json_walk_next(&walk)) {
        const char *content = json_text(json_member(walk.value, "content"));
        found |= !vocabulary_is_usual(content != NULL ? content : walk.key);
    }
    return found;
}

// In the lists under `keys`, or with NULL in the file itself; a missing file has none.
static enum berth_status look_for_others(const char *folder, const char *name,
                                         const char *const *keys, int *found,
                                         struct berth_error *error) {
    json *object;
    TRY(read_object(folder, name, &object, error));
    *found |= keys == NULL && has_others(object);
    for (size_t i = 0; keys != NULL && keys[i] != NULL; i++) {
        *found |= has_others(json_member(object, keys[i]));
    }
    json_free(object);
    return BERTH_OK;
}

// Whether the folder's files name tokens that vocab.txt lacks or does not tell from others.
static enum berth_status find_added_tokens(const char *folder, int *found,
                                           struct berth_error *error) {
    static const char *const keys[] = {"extra_special_tokens", "additional_special_tokens",
                                       "added_tokens_decoder", NULL};
    *found = 0;
    TRY(look_for_others(folder, SETTINGS_FILE, keys, found, error));
    TRY(look_for_others(folder, SPECIALS_FILE, keys, found, error));
    return look_for_others(folder, ADDED_FILE, NULL, found, error);
}

enum berth_status folder_vocabulary_path(const char *folder, char **path,
                                         struct berth_error *error) {
    char *text = folder_file(folder, VOCAB_FILE), *whole = folder_file(folder, TOKENIZER_FILE);
    int use_whole = 0;
    enum berth_status status = text != NULL && whole != NULL ? BERTH_OK : file_no_path(error);
    if (status == BERTH_OK && file_exists(whole)) {
        use_whole = !file_exists(text);
        status = use_whole ? BERTH_OK : find_added_tokens(folder, &use_whole, error);
    }
    *path = status != BERTH_OK ? NULL : use_whole ? whole : text;
    memory_free(*path == text ? NULL : text);
    memory_free(*path == whole ? NULL : whole);
    return status;
}

// --- copying ------------------------------------------------------------------------------------

enum berth_status folder_copy_file(const char *path, const char *target, const char *name,
                                   struct berth_error *error) {
    char *from = folder_file(path, name), *to = path_join(target, name);
    enum berth_status status = BERTH_OK;
    if (from == NULL || to == NULL) {
        status = file_no_path(error);
    } else if (file_exists(from)) {
        status = file_copy(from, to, error);
    }
    memory_free(from);
    memory_free(to);
    return status;
}

// A vocab.txt is copied as it is; from a tokenizer.json, one is written.
static enum berth_status copy_vocab(const char *vocab_path, const char *target,
                                    struct berth_error *error) {
    struct vocabulary_file file = {0};
    char *to = path_join(target, VOCAB_FILE);
    enum berth_status status =
        to != NULL ? vocabulary_file_read(vocab_path, &file, error) : file_no_path(error);
    if (status == BERTH_OK) {
        status = file_write(to, file.bytes, file.length, error);
    }
    vocabulary_file_done(&file);
    memory_free(to);
    return status;
}

// A tokenizer.json that is not BERT's has another vocabulary.
static enum berth_status have_same_words(const char *own, const char *vocab_path, int *same,
                                         struct berth_error *error) {
    struct vocabulary_file files[2] = {{0}, {0}};
    enum berth_status status = vocabulary_file_read(own, &files[0], error);
    const int is_other = status == BERTH_CONFIG;
    if (status == BERTH_OK) {
        status = vocabulary_file_read(vocab_path, &files[1], error);
    }
    *same = status == BERTH_OK && files[0].length == files[1].length &&
            memcmp(files[0].bytes, files[1].bytes, files[0].length) == 0;
    vocabulary_file_done(&files[0]);
    vocabulary_file_done(&files[1]);
    return is_other ? BERTH_OK : status;
}

// Copies the vocabulary at `vocab_path` (NULL: the source's own, if any). Sets *same to whether it
// equals the source's.
static enum berth_status copy_words(const char *source, const char *vocab_path, const char *target,
                                    int *same, struct berth_error *error) {
    char *own = NULL;
    enum berth_status status =
        source != NULL ? folder_vocabulary_path(source, &own, error) : BERTH_OK;
    const int has_own = own != NULL && file_exists(own);
    *same = vocab_path == NULL;
    if (status == BERTH_OK && (vocab_path != NULL || has_own)) {
        status = copy_vocab(vocab_path != NULL ? vocab_path : own, target, error);
    }
    if (status == BERTH_OK && vocab_path != NULL && has_own) {
        status = have_same_words(own, vocab_path, same, error);
    }
    memory_free(own);
    return status;
}

// --- writing missing files -----------------------------------------------------------------------

static json *special_tokens_object(void) {
    json *object = json_new_object();
    for (size_t i = 0; i < sizeof special_tokens / sizeof *special_tokens; i++) {
        if (json_set(object, special_tokens[i][0], json_new_text(special_tokens[i][1])) != 0) {
            json_free(object);
            return NULL;
        }
    }
    return object;
}

static json *default_settings(void) {
    json *settings = special_tokens_object();
    int failed = json_set(settings, "tokenizer_class", json_new_text("BertTokenizer")) |
                 json_set(settings, "tokenize_chinese_chars", json_new_boolean(1));
    return json_if_whole(settings, failed);
}

static enum berth_status write_member(const json *value, const char *folder, const char *name,
                                      struct berth_error *error) {
    char *path = path_join(folder, name);
    enum berth_status status = path != NULL
                                   ? json_write_file(value, JSON_INDENT_2_SORTED, path, error)
                                   : file_no_path(error);
    memory_free(path);
    return status;
}

static json *accents_of(const struct text_rules *rules) {
    return rules->strip_accents < 0 ? json_new_null() : json_new_boolean(rules->strip_accents);
}

static int set_rules(json *settings, const struct text_rules *rules) {
    return json_set(settings, "do_lower_case", json_new_boolean(rules->lower_case)) |
           json_set(settings, "tokenize_chinese_chars",
                    json_new_boolean(rules->tokenize_chinese_chars)) |
           json_set(settings, "strip_accents", accents_of(rules));
}

// Writes the source's settings with the rules that were used. A generic class, which would leave
// the rules to the tokenizer.json that is not copied, becomes BERT's.
static enum berth_status write_settings(const char *source, const struct text_rules *rules,
                                        const char *target, struct berth_error *error) {
    json *settings = NULL;
    if (source != NULL) {
        TRY(read_object(source, SETTINGS_FILE, &settings, error));
    }
    settings = settings != NULL ? settings : default_settings();
    int failed = set_rules(settings, rules);
    if (is_general(settings)) {
        failed |= json_set(settings, "tokenizer_class", json_new_text("BertTokenizer"));
    }
    enum berth_status status =
        failed != 0 ? error_set(error, BERTH_NO_MEMORY, "out of memory for " SETTINGS_FILE)
                    : write_member(settings, target, SETTINGS_FILE, error);
    json_free(settings);
    return status;
}

// Writes the source's tokenizer.json with the rules that were used.
static enum berth_status write_whole(const char *source, const struct text_rules *rules,
                                     const char *target, struct berth_error *error) {
    json *object;
    TRY(read_object(source, TOKENIZER_FILE, &object, error));
    json *normalizer = json_copy_deep(json_member(object, "normalizer"));
    int failed = json_set(normalizer, "lowercase", json_new_boolean(rules->lower_case));
    failed |= json_set(normalizer, "handle_chinese_chars",
                       json_new_boolean(rules->tokenize_chinese_chars));
    failed |= json_set(normalizer, "strip_accents", accents_of(rules));
    failed |= json_set(object, "normalizer", normalizer);
    enum berth_status status = failed == 0 ? write_member(object, target, TOKENIZER_FILE, error)
                                           : error_no_memory(error, 0, TOKENIZER_FILE);
    json_free(object);
    return status;
}

// tokenizer.json repeats vocabulary and rules. Where one of them is another, it is left out, but
// not where the rules are others and it alone tells which tokens were added.
static enum berth_status copy_whole(const char *source, const struct text_rules *rules,
                                    const char *target, struct berth_error *error) {
    char *vocabulary;
    TRY(folder_vocabulary_path(source, &vocabulary, error));
    const int is_needed = vocabulary_file_is_json(vocabulary);
    memory_free(vocabulary);
    if (rules == NULL) {
        TRY(folder_copy_file(source, target, TOKENIZER_FILE, error));
    } else if (is_needed) {
        TRY(write_whole(source, rules, target, error));
    }
    return rules == NULL || is_needed ? folder_copy_file(source, target, ADDED_FILE, error)
                                      : BERTH_OK;
}

static enum berth_status write_missing_specials(const char *target, struct berth_error *error) {
    char *path = path_join(target, SPECIALS_FILE);
    if (path == NULL) {
        return file_no_path(error);
    }
    enum berth_status status = BERTH_OK;
    if (!file_exists(path)) {
        json *specials = special_tokens_object();
        status = json_write_file(specials, JSON_INDENT_2_SORTED, path, error);
        json_free(specials);
    }
    memory_free(path);
    return status;
}

static enum berth_status has_settings(const char *source, int *has, struct berth_error *error) {
    *has = 0;
    if (source == NULL) {
        return BERTH_OK;
    }
    char *path = folder_file(source, SETTINGS_FILE);
    *has = path != NULL && file_exists(path);
    const enum berth_status status = path != NULL ? BERTH_OK : file_no_path(error);
    memory_free(path);
    return status;
}

static int is_same(const struct text_rules *a, const struct text_rules *b) {
    return a->lower_case == b->lower_case && a->strip_accents == b->strip_accents &&
           a->tokenize_chinese_chars == b->tokenize_chinese_chars;
}

enum berth_status folder_copy_tokenizer(const char *source, const char *vocab_path,
                                        const struct text_rules *rules, const char *target,
                                        struct berth_error *error) {
    struct text_rules own = text_rules_usual;
    int same_vocab, has;
    TRY(has_settings(source, &has, error));
    if (source != NULL) {
        TRY(folder_text_rules(source, &own, error));
    }
    const int same_rules = rules == NULL || is_same(rules, &own);
    TRY(copy_words(source, vocab_path, target, &same_vocab, error));
    if (source != NULL) {
        TRY(folder_copy_file(source, target, SPECIALS_FILE, error));
    }
    if (source != NULL && same_vocab) {
        TRY(copy_whole(source, same_rules ? NULL : rules, target, error));
    }
    if (same_rules && same_vocab && has) {
        TRY(folder_copy_file(source, target, SETTINGS_FILE, error));
    } else {
        TRY(write_settings(source, rules != NULL ? rules : &own, target, error));
    }
    return write_missing_specials(target, error);
}
