// SPDX-License-Identifier: Apache-2.0
// The tokenizer's rules of a model folder, and copies of its files. Files that still
// apply are copied byte by byte. tokenizer.json repeats the vocabulary, so it is left out if that
// was replaced (transformers recreates it from vocab.txt).
#include "core/caseless.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/text_util.h"
#include "format/json/json.h"
#include "model/folder.h"
#include "model/folder_class.h"
#include "model/folder_words.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

// The rule for pairs, which only Berth records, and only where it is not that of `tokenizers`.
#define PAIRS_KEY "pair_truncation"
#define PAIRS_GOOGLE "google"

// --- reading ------------------------------------------------------------------------------------

// The last component of a folder's path, without trailing slashes; for a file, of its folder's.
static size_t last_component(const char *path, const char **component) {
    const size_t end =
        file_exists(path) ? path_parent_length(path, strlen(path)) : path_length(path);
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') {
        begin--;
    }
    *component = path + begin;
    return end - begin;
}

static int casing_of(const char *folder) {
    const char *name;
    size_t length = last_component(folder, &name);
    for (size_t i = 0; i + 5 <= length; i++) {
        if (caseless_equal_bytes(name + i, "cased", 5)) {
            return i >= 2 && caseless_equal_bytes(name + i - 2, "un", 2);
        }
    }
    return -1;
}

int folder_name_casing(const char *folder) {
    char resolved[PATH_MAX];
    return casing_of(realpath(folder, resolved) != NULL ? resolved : folder);
}

static enum berth_status read_truth(const json *settings, const char *key, int *value,
                                    struct berth_error *error) {
    return json_is_null_value(json_member(settings, key))
               ? BERTH_OK
               : json_get_boolean(settings, SETTINGS_FILE, key, value, error);
}

// Whether the folder has the files of words that become a tokenizer.json.
static enum berth_status has_words(const char *folder, int *found, struct berth_error *error) {
    const struct words_class *class;
    char *path;
    TRY(folder_words_path(folder, &path, &class, error));
    *found = path != NULL;
    memory_free(path);
    return BERTH_OK;
}

// Reads the rules of the folder's tokenizer.json; *found: whether it has one.
static enum berth_status read_whole(const char *folder, const struct vocabulary_file *file,
                                    struct text_rules *rules, int *found, int *is_other,
                                    struct berth_error *error) {
    if (file != NULL && file->has_rules) {
        *found = 1;
        *rules = file->rules;
        *is_other = file->is_other;
        return BERTH_OK;
    }
    char *path = folder_file(folder, TOKENIZER_FILE);
    enum berth_status status = path != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
    *found = path != NULL && file_exists(path);
    if (*found) {
        status = vocabulary_file_rules(path, rules, is_other, error);
    } else if (status == BERTH_OK) {
        status = has_words(folder, found, error);
        *is_other = *found;
    }
    memory_free(path);
    return status;
}

// Whether the folder's words are those of a tokenizer.json that is not BERT's, or become one.
static enum berth_status has_other_words(const char *folder, const struct vocabulary_file *file,
                                         int *is_other, struct berth_error *error) {
    struct text_rules unused;
    int has_list, found;
    *is_other = file != NULL && file->is_other;
    TRY(folder_has_file(folder, VOCAB_FILE, &has_list, error));
    return *is_other || has_list || file != NULL
               ? BERTH_OK
               : read_whole(folder, NULL, &unused, &found, is_other, error);
}

// For BERT's class, a key that the settings lack has the class's default, whatever the normalizer
// says.
static enum berth_status combine_rules(const char *folder, const json *settings,
                                       const struct vocabulary_file *file, struct text_rules *rules,
                                       struct berth_error *error) {
    struct folder_class class;
    int found = 0, is_other = 0;
    TRY(folder_find_class(folder, settings, &class, error));
    if (class.kind != CLASS_OF_BERT) {
        TRY(read_whole(folder, file, rules, &found, &is_other, error));
        if (class.kind == CLASS_OTHER && !found) {
            return error_set(
                error, BERTH_CONFIG,
                "%s: key \"tokenizer_class\": %s is not BERT's tokenizer, and there is "
                "no " TOKENIZER_FILE
                ", which would say how it works; if the model was made with BERT's, remove the key",
                class.file, class.name);
        }
    } else {
        TRY(has_other_words(folder, file, &is_other, error));
    }
    if (is_other) {
        *rules = text_rules_default;
        rules->is_pipeline = 1;
    }
    if (found || is_other) {
        return BERTH_OK;
    }
    TRY(read_truth(settings, "do_lower_case", &rules->lower_case, error));
    TRY(read_truth(settings, "strip_accents", &rules->strip_accents, error));
    return read_truth(settings, "tokenize_chinese_chars", &rules->tokenize_chinese_chars, error);
}

// The name counts as in Google's programs, which have no files of the tokenizer but vocab.txt.
static enum berth_status apply_name(const char *folder, struct text_rules *rules,
                                    struct berth_error *error) {
    int has_whole;
    TRY(folder_has_file(folder, TOKENIZER_FILE, &has_whole, error));
    rules->lower_case = has_whole || folder_name_casing(folder) != 0;
    return BERTH_OK;
}

enum berth_status folder_text_rules(const char *folder, const struct vocabulary_file *file,
                                    struct text_rules *rules, struct berth_error *error) {
    json *settings;
    *rules = text_rules_default;
    TRY(folder_read_object(folder, SETTINGS_FILE, &settings, error));
    enum berth_status status = settings == NULL ? apply_name(folder, rules, error) : BERTH_OK;
    if (status == BERTH_OK) {
        status = combine_rules(folder, settings, file, rules, error);
    }
    const char *pairs = json_text(json_member(settings, PAIRS_KEY));
    rules->google_pairs = pairs != NULL && strcmp(pairs, PAIRS_GOOGLE) == 0;
    json_free(settings);
    return status == BERTH_OK ? BERTH_OK : error_prefix(error, status, "%s", folder);
}

// --- copying ------------------------------------------------------------------------------------

enum berth_status folder_copy_file(const char *path, const char *target, const char *name,
                                   struct berth_error *error) {
    char *from = folder_file(path, name), *to = path_join(target, name);
    enum berth_status status = BERTH_OK;
    if (from == NULL || to == NULL) {
        status = error_no_memory(error, 0, "a path");
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
    enum berth_status status = to != NULL ? vocabulary_file_read(vocab_path, &file, error)
                                          : error_no_memory(error, 0, "a path");
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
    if (status == BERTH_OK) {
        status = vocabulary_file_read(vocab_path, &files[1], error);
    }
    *same = status == BERTH_OK && !files[0].is_other && files[0].length == files[1].length &&
            memcmp(files[0].bytes, files[1].bytes, files[0].length) == 0;
    vocabulary_file_done(&files[0]);
    vocabulary_file_done(&files[1]);
    return status;
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
    for (size_t i = 0; i < SPECIAL_TOKENS; i++) {
        const struct special_token *token = &special_tokens[i];
        if (json_set(object, token->key, json_new_text(token->text)) != 0) {
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
    return json_unless_failed(settings, failed);
}

static enum berth_status write_member(const json *value, const char *folder, const char *name,
                                      struct berth_error *error) {
    char *path = path_join(folder, name);
    enum berth_status status = path != NULL
                                   ? json_write_file(value, JSON_INDENT_2_SORTED, path, error)
                                   : error_no_memory(error, 0, "a path");
    memory_free(path);
    return status;
}

static json *accents_of(const struct text_rules *rules) {
    return rules->strip_accents < 0 ? json_new_null() : json_new_boolean(rules->strip_accents);
}

static int set_rules(json *settings, const struct text_rules *rules) {
    json_remove(settings, PAIRS_KEY);
    return (rules->google_pairs ? json_set(settings, PAIRS_KEY, json_new_text(PAIRS_GOOGLE)) : 0) |
           json_set(settings, "do_lower_case", json_new_boolean(rules->lower_case)) |
           json_set(settings, "tokenize_chinese_chars",
                    json_new_boolean(rules->tokenize_chinese_chars)) |
           json_set(settings, "strip_accents", accents_of(rules));
}

// Removes settings of the source's vocabulary, which do not apply to another one.
static int remove_tokens(json *settings) {
    int failed = 0;
    json_remove(settings, "added_tokens_decoder");
    for (size_t i = 0; i < OTHER_TOKEN_KEYS; i++) {
        json_remove(settings, other_token_keys[i]);
    }
    for (size_t i = 0; i < SPECIAL_TOKENS; i++) {
        failed |= json_set(settings, special_tokens[i].key, json_new_text(special_tokens[i].text));
    }
    return failed;
}

// Writes the source's settings with the rules that were used. A class that would leave the rules to
// tokenizer.json becomes BERT's.
static enum berth_status write_settings(const char *source, const struct text_rules *rules,
                                        int same_vocab, const char *target,
                                        struct berth_error *error) {
    json *settings = NULL;
    if (source != NULL) {
        TRY(folder_read_object(source, SETTINGS_FILE, &settings, error));
    }
    int one_type = 0;
    enum berth_status status =
        source != NULL ? folder_has_one_type(source, settings, &one_type, error) : BERTH_OK;
    if (status != BERTH_OK) {
        json_free(settings);
        return status;
    }
    settings = settings != NULL ? settings : default_settings();
    int failed = set_rules(settings, rules) | (one_type ? folder_set_one_type(settings) : 0);
    failed |= same_vocab ? 0 : remove_tokens(settings);
    const char *name = json_text(json_member(settings, "tokenizer_class"));
    if (name == NULL || folder_class_kind(name) != CLASS_OF_BERT) {
        failed |= json_set(settings, "tokenizer_class", json_new_text("BertTokenizer"));
    }
    status = failed != 0 ? error_no_memory(error, 0, SETTINGS_FILE)
                         : write_member(settings, target, SETTINGS_FILE, error);
    json_free(settings);
    return status;
}

// Writes the source's tokenizer.json with the rules that were used.
static enum berth_status write_whole(const char *source, const struct text_rules *rules,
                                     const char *target, struct berth_error *error) {
    json *object;
    TRY(folder_read_object(source, TOKENIZER_FILE, &object, error));
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

// tokenizer.json repeats the rules: with others, one of BERT's is rewritten, another left out.
static enum berth_status copy_whole(const char *source, const struct text_rules *rules,
                                    const char *target, struct berth_error *error) {
    char *vocabulary;
    if (rules == NULL) {
        return folder_copy_file(source, target, TOKENIZER_FILE, error);
    }
    TRY(folder_vocabulary_path(source, &vocabulary, error));
    const int is_used = vocabulary_file_is_json(vocabulary);
    memory_free(vocabulary);
    return is_used ? write_whole(source, rules, target, error) : BERTH_OK;
}

static enum berth_status write_missing_specials(const char *target, struct berth_error *error) {
    char *path = path_join(target, SPECIALS_FILE);
    if (path == NULL) {
        return error_no_memory(error, 0, "a path");
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

static int is_same(const struct text_rules *a, const struct text_rules *b) {
    return a->lower_case == b->lower_case && a->strip_accents == b->strip_accents &&
           a->tokenize_chinese_chars == b->tokenize_chinese_chars &&
           a->google_pairs == b->google_pairs && a->is_pipeline == b->is_pipeline;
}

// Writes the tokenizer.json that the source's files of words become, and settings that name their
// class. *found: whether the source has such files, and `vocab_path` is one of them or NULL.
static enum berth_status write_words(const char *source, const char *vocab_path, const char *target,
                                     int *found, struct berth_error *error) {
    const struct words_class *class;
    json *object, *settings;
    char *own;
    TRY(folder_words_path(source, &own, &class, error));
    *found = own != NULL && (vocab_path == NULL || path_is_same(vocab_path, own));
    memory_free(own);
    if (!*found) {
        return BERTH_OK;
    }
    TRY(folder_words_read(source, class, &object, error));
    char *path = path_join(target, TOKENIZER_FILE);
    enum berth_status status = path != NULL ? json_write_file(object, JSON_COMPACT, path, error)
                                            : error_no_memory(error, 0, "a path");
    memory_free(path);
    json_free(object);
    TRY(status);
    TRY(folder_copy_file(source, target, SPECIALS_FILE, error));
    TRY(folder_copy_file(source, target, ADDED_FILE, error));
    TRY(folder_read_object(source, SETTINGS_FILE, &settings, error));
    settings = settings != NULL ? settings : json_new_object();
    status = json_set(settings, "tokenizer_class", json_new_text(words_class_name(class))) == 0
                 ? write_member(settings, target, SETTINGS_FILE, error)
                 : error_no_memory(error, 0, SETTINGS_FILE);
    json_free(settings);
    return status;
}

// A tokenizer.json that is not BERT's is copied, with what the source's files say of it, unless it
// is another's.
static enum berth_status copy_pipeline(const char *source, const char *vocab_path,
                                       const char *target, struct berth_error *error) {
    static const char *const others[] = {SETTINGS_FILE, SPECIALS_FILE, ADDED_FILE};
    int found = 0;
    if (source != NULL) {
        TRY(write_words(source, vocab_path, target, &found, error));
    }
    if (found) {
        return BERTH_OK;
    }
    char *own = source != NULL ? folder_file(source, TOKENIZER_FILE) : NULL,
         *to = path_join(target, TOKENIZER_FILE);
    const int is_own = own != NULL && (vocab_path == NULL || path_is_same(vocab_path, own));
    enum berth_status status = to == NULL || (source != NULL && own == NULL)
                                   ? error_no_memory(error, 0, "a path")
                                   : file_copy(is_own ? own : vocab_path, to, error);
    for (size_t i = 0; status == BERTH_OK && is_own && i < sizeof others / sizeof *others; i++) {
        status = folder_copy_file(source, target, others[i], error);
    }
    if (status == BERTH_OK && !is_own) {
        json *settings = JSON_OBJECT({"tokenizer_class", json_new_text("PreTrainedTokenizerFast")});
        status = write_member(settings, target, SETTINGS_FILE, error);
        json_free(settings);
    }
    memory_free(own);
    memory_free(to);
    return status;
}

enum berth_status folder_copy_tokenizer(const char *source, const char *vocab_path,
                                        const struct text_rules *rules, const char *target,
                                        struct berth_error *error) {
    struct text_rules own = text_rules_default;
    int same_vocab, has = 0;
    if (source != NULL) {
        TRY(folder_has_file(source, SETTINGS_FILE, &has, error));
        TRY(folder_text_rules(source, NULL, &own, error));
    }
    const int is_whole = vocab_path == NULL || vocabulary_file_is_json(vocab_path) ||
                         name_has_extension(vocab_path, ".model");
    if (is_whole && (rules != NULL ? rules->is_pipeline : own.is_pipeline)) {
        return copy_pipeline(source, vocab_path, target, error);
    }
    const int same_rules = rules == NULL || is_same(rules, &own);
    TRY(copy_words(source, vocab_path, target, &same_vocab, error));
    if (source != NULL && same_vocab) {
        // Copies what the source's files say about its vocabulary.
        TRY(folder_copy_file(source, target, SPECIALS_FILE, error));
        TRY(folder_copy_file(source, target, ADDED_FILE, error));
        TRY(copy_whole(source, same_rules ? NULL : rules, target, error));
    }
    if (same_rules && same_vocab && has) {
        TRY(folder_copy_file(source, target, SETTINGS_FILE, error));
    } else {
        TRY(write_settings(source, rules != NULL ? rules : &own, same_vocab, target, error));
    }
    return write_missing_specials(target, error);
}

enum berth_status folder_keep_rules(const char *source, int same_vocab, const char *target,
                                    struct berth_error *error) {
    struct text_rules rules, copied;
    enum berth_status status = folder_text_rules(source, NULL, &rules, error);
    if (status != BERTH_OK) {
        return status == BERTH_CONFIG ? BERTH_OK : status;
    }
    status = folder_text_rules(target, NULL, &copied, error);
    if (status != BERTH_OK && status != BERTH_CONFIG) {
        return status;
    }
    return rules.is_pipeline || (status == BERTH_OK && is_same(&rules, &copied))
               ? BERTH_OK
               : write_settings(source, &rules, same_vocab, target, error);
}
