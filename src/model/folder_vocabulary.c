// SPDX-License-Identifier: Apache-2.0
// A folder's vocabulary: tokenizer.json, which transformers prefers, vocab.txt, or what else its
// class is made of (folder_words.h), and the tokens that the other files add to it. As in
// transformers, "added_tokens_decoder" in tokenizer_config.json replaces special_tokens_map.json
// and added_tokens.json.
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "model/folder.h"
#include "model/folder_class.h"
#include "model/folder_words.h"

#include <stdlib.h>
#include <string.h>

// --- which file ---------------------------------------------------------------------------------

// If the class builds the tokenizer itself, a tokenizer.json that is not BERT's yields to
// vocab.txt.
static enum berth_status prefer_whole(const char *folder, const char *whole,
                                      struct vocabulary_file *file, int *use_whole,
                                      struct berth_error *error) {
    json *settings;
    struct folder_class class;
    TRY(folder_read_object(folder, SETTINGS_FILE, &settings, error));
    enum berth_status status = folder_find_class(folder, settings, &class, error);
    json_free(settings);
    TRY(status);
    *use_whole = class.kind != CLASS_OF_BERT;
    if (!*use_whole) {
        status = vocabulary_file_open(whole, file, error);
        *use_whole = status == BERTH_OK;
    }
    if (status == BERTH_CONFIG) {
        vocabulary_file_done(file);
        return BERTH_OK;
    }
    return status;
}

enum berth_status folder_find_vocabulary(const char *folder, char **path,
                                         struct vocabulary_file *file, struct berth_error *error) {
    const struct words_class *class;
    TRY(folder_words_path(folder, path, &class, error));
    if (*path != NULL) {
        return BERTH_OK;
    }
    char *text = folder_file(folder, VOCAB_FILE), *whole = folder_file(folder, TOKENIZER_FILE);
    int use_whole = 0;
    enum berth_status status =
        text != NULL && whole != NULL ? BERTH_OK : error_no_memory(error, 0, "a path");
    if (status == BERTH_OK && file_exists(whole)) {
        use_whole = !file_exists(text);
        status = use_whole ? BERTH_OK : prefer_whole(folder, whole, file, &use_whole, error);
    }
    *path = status != BERTH_OK ? NULL : use_whole ? whole : text;
    memory_free(*path == text ? NULL : text);
    memory_free(*path == whole ? NULL : whole);
    return status;
}

enum berth_status folder_vocabulary_path(const char *folder, char **path,
                                         struct berth_error *error) {
    struct vocabulary_file file = {0};
    enum berth_status status = folder_find_vocabulary(folder, path, &file, error);
    vocabulary_file_done(&file);
    return status;
}

// --- special tokens -----------------------------------------------------------------------------

// One of the files, and the key that is read in it; NULL: the whole file is.
struct source {
    const char *file, *key;
    const json *object;
};

// A token is its text or an object with its settings.
static const char *text_of(const json *token) {
    const char *text = json_text(token);
    return text != NULL ? text : json_text(json_member(token, "content"));
}

static enum berth_status check_names(const char *file, const json *object,
                                     struct berth_error *error) {
    for (size_t i = 0; i < SPECIAL_TOKENS; i++) {
        const char *text = text_of(json_member(object, special_tokens[i].key));
        if (text != NULL && strcmp(text, special_tokens[i].text) != 0) {
            return error_key(error, BERTH_CONFIG, file, special_tokens[i].key,
                             "expected %s, found %.*s; only BERT's own names are "
                             "supported: rename the token in the vocabulary and in this file",
                             special_tokens[i].text, UTF8_SHOWN(text, 40));
        }
    }
    return BERTH_OK;
}

// --- added tokens -------------------------------------------------------------------------------

static enum berth_status add_token(struct vocabulary_file *file, const struct source *source,
                                   const json *token, int64_t id, struct berth_error *error) {
    const char *text = text_of(token);
    if (text == NULL) {
        return error_key(error, BERTH_BAD_DATA, source->file, source->key,
                         "expected tokens as strings or as objects with \"content\"");
    }
    struct added_token added = {.text = text};
    if (json_is_object_value(token)) {
        TRY(vocabulary_added_flags(token, source->file, &added.flags, error));
    }
    return added.flags == 0 && vocabulary_is_bert_special(text)
               ? BERTH_OK
               : vocabulary_file_add(file, source->file, added, id, error);
}

// Walks the tokens of a value of such a key.
struct token_walk {
    const json *list;
    size_t index;
    struct json_walk members;
};

static struct token_walk walk_tokens(const json *object, const char *key) {
    const json *list = json_member(object, key);
    return (struct token_walk){.list = list, .members = {.object = list}};
}

// NULL: no more.
static const json *next_token(struct token_walk *walk) {
    const size_t index = walk->index++;
    if (json_is_array_value(walk->list)) {
        return index < json_length(walk->list) ? json_at(walk->list, index) : NULL;
    }
    if (text_of(walk->list) != NULL) {
        return index == 0 ? walk->list : NULL;
    }
    return json_is_object_value(walk->list) && json_walk_next(&walk->members) ? walk->members.value
                                                                              : NULL;
}

static enum berth_status add_key(struct vocabulary_file *file, const struct source *source,
                                 struct berth_error *error) {
    struct token_walk walk = walk_tokens(source->object, source->key);
    const json *token;
    while ((token = next_token(&walk)) != NULL) {
        TRY(add_token(file, source, token, -1, error));
    }
    return BERTH_OK;
}

static int lists_token(const struct source *source, const char *text) {
    struct token_walk walk = walk_tokens(source->object, source->key);
    const json *token;
    while ((token = next_token(&walk)) != NULL) {
        const char *other = text_of(token);
        if (other != NULL && strcmp(other, text) == 0) {
            return 1;
        }
    }
    return 0;
}

// --- tokens with ids ----------------------------------------------------------------------------

struct numbered {
    const char *text;
    const json *token; // the token's settings; NULL: none
    int64_t id;
};

static int compare_ids(const void *a, const void *b) {
    const struct numbered *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int64_t id_of(const char *text) {
    int64_t id;
    return number_parse_integer(text, &id) ? id : -1;
}

// The tokens of an object in the order of their ids; newly allocated.
static enum berth_status sort_tokens(const struct source *source, const json *object,
                                     struct numbered **tokens, struct berth_error *error) {
    struct json_walk walk = {.object = object};
    size_t count = 0;
    *tokens = memory_array_zeroed(json_length(object) + 1, sizeof **tokens);
    if (*tokens == NULL) {
        return error_no_memory(error, json_length(object) * sizeof **tokens, source->file);
    }
    while (json_walk_next(&walk)) {
        // "added_tokens_decoder" has ids as keys, added_tokens.json has them as values.
        struct numbered *token = &(*tokens)[count++];
        const int by_text = source->key == NULL;
        *token = (struct numbered){.text = by_text ? walk.key : text_of(walk.value),
                                   .token = by_text ? NULL : walk.value,
                                   .id = !by_text ? id_of(walk.key)
                                         : json_is_integer_value(walk.value)
                                             ? json_as_integer(walk.value)
                                             : -1};
        if (token->text == NULL || token->id < 0) {
            return error_set(error, BERTH_BAD_DATA, "%s: \"%.*s\": expected a token with an id",
                             source->file, UTF8_SHOWN(walk.key, 40));
        }
    }
    qsort(*tokens, count, sizeof **tokens, compare_ids);
    return BERTH_OK;
}

// The files of a folder that describe tokens.
struct token_files {
    json *settings, *specials, *added;
};

// --- special tokens beside BERT's ---------------------------------------------------------------

#define EXTRA "extra_special_tokens"
#define ADDITIONAL "additional_special_tokens" // the list's name before transformers 5
#define LISTS 2

static struct source in_settings(const struct token_files *files, const char *key) {
    return (struct source){.file = SETTINGS_FILE, .key = key, .object = files->settings};
}

static struct source in_specials(const struct token_files *files, const char *key) {
    return (struct source){.file = SPECIALS_FILE, .key = key, .object = files->specials};
}

// The lists of both files; a key that is NULL: none. In the settings the older name counts only if
// the newer one is absent or empty.
static void find_lists(const struct token_files *files, struct source lists[LISTS]) {
    const json *own = json_member(files->settings, EXTRA);
    const int is_old = json_length(own) == 0 && json_member(files->settings, ADDITIONAL) != NULL;
    const int is_new = own != NULL && !json_is_object_value(own);
    lists[0] = in_settings(files, is_old ? ADDITIONAL : is_new ? EXTRA : NULL);
    lists[1] =
        in_specials(files, json_is_array_value(json_member(files->specials, EXTRA)) ? EXTRA : NULL);
}

// special_tokens_map.json's value of a key, else that of the settings.
static struct source find_key(const struct token_files *files, const char *key) {
    return json_member(files->specials, key) != NULL ? in_specials(files, key)
                                                     : in_settings(files, key);
}

static int is_special(const struct token_files *files, const char *text) {
    const struct source bos = find_key(files, "bos_token"), eos = find_key(files, "eos_token");
    struct source lists[LISTS];
    int found = lists_token(&bos, text) || lists_token(&eos, text);
    find_lists(files, lists);
    for (size_t i = 0; i < LISTS; i++) {
        found |= lists[i].key != NULL && lists_token(&lists[i], text);
    }
    return found;
}

// added_tokens.json has only the ids of tokens. One that is not special is found in normalized
// text.
static enum berth_status add_numbered(struct vocabulary_file *file, const struct token_files *files,
                                      const struct source *source, const struct numbered *token,
                                      struct berth_error *error) {
    if (token->token != NULL) {
        return add_token(file, source, token->token, token->id, error);
    }
    const struct added_token added = {
        .text = token->text, .flags = is_special(files, token->text) ? 0 : ADDED_NORMALIZED};
    return vocabulary_is_bert_special(token->text)
               ? BERTH_OK
               : vocabulary_file_add(file, source->file, added, token->id, error);
}

static enum berth_status add_all_numbered(struct vocabulary_file *file,
                                          const struct token_files *files,
                                          const struct source *source, struct berth_error *error) {
    struct numbered *tokens;
    const json *object =
        source->key != NULL ? json_member(source->object, source->key) : source->object;
    if (object != NULL && !json_is_object_value(object)) {
        return error_set(error, BERTH_BAD_DATA, "%s: expected an object of tokens and ids",
                         source->file);
    }
    enum berth_status status = sort_tokens(source, object, &tokens, error);
    for (size_t i = 0; status == BERTH_OK && i < json_length(object); i++) {
        status = add_numbered(file, files, source, &tokens[i], error);
    }
    memory_free(tokens);
    return status;
}

// --- all of them --------------------------------------------------------------------------------

static enum berth_status add_tokens(struct vocabulary_file *file, const struct token_files *files,
                                    struct berth_error *error) {
    static const char key[] = "added_tokens_decoder";
    const struct source by_id = {.file = SETTINGS_FILE, .key = key, .object = files->settings},
                        by_text = {.file = ADDED_FILE, .object = files->added};
    const int has_ids = json_is_object_value(json_member(files->settings, key));
    TRY(check_names(SETTINGS_FILE, files->settings, error));
    if (has_ids) {
        TRY(add_all_numbered(file, files, &by_id, error));
    } else {
        TRY(check_names(SPECIALS_FILE, files->specials, error));
        TRY(add_all_numbered(file, files, &by_text, error));
    }
    const struct token_files known = {.settings = files->settings,
                                      .specials = has_ids ? NULL : files->specials};
    // In the order of their ids in transformers 5: single tokens, objects of names and tokens, then
    // lists. A list of the older name alone is the last resort.
    const struct source singles[] = {find_key(&known, "bos_token"), find_key(&known, "eos_token")};
    const struct source objects[] = {in_settings(&known, EXTRA), in_specials(&known, EXTRA)};
    struct source lists[LISTS];
    find_lists(&known, lists);
    if (lists[0].key == NULL && lists[1].key == NULL) {
        lists[0] = find_key(&known, ADDITIONAL);
    }
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) {
        TRY(add_key(file, &singles[i], error));
    }
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
        if (json_is_object_value(json_member(objects[i].object, EXTRA))) {
            TRY(add_key(file, &objects[i], error));
        }
    }
    for (size_t i = 0; i < LISTS; i++) {
        if (lists[i].key != NULL) {
            TRY(add_key(file, &lists[i], error));
        }
    }
    return BERTH_OK;
}

static enum berth_status read_additions(const char *folder, struct vocabulary_file *file,
                                        struct berth_error *error) {
    struct token_files files = {0};
    enum berth_status status = folder_read_object(folder, SETTINGS_FILE, &files.settings, error);
    if (status == BERTH_OK) {
        status = folder_read_object(folder, SPECIALS_FILE, &files.specials, error);
    }
    if (status == BERTH_OK) {
        status = folder_read_object(folder, ADDED_FILE, &files.added, error);
    }
    if (status == BERTH_OK) {
        status = add_tokens(file, &files, error);
        status = status == BERTH_OK ? status : error_prefix(error, status, "%s", folder);
    }
    json_free(files.settings);
    json_free(files.specials);
    json_free(files.added);
    return status;
}

// Reads the folder's words if they are in other files, of which `path` is one.
static enum berth_status read_words(const char *folder, const char *path,
                                    struct vocabulary_file *file, int *found,
                                    struct berth_error *error) {
    const struct words_class *class;
    char *own;
    TRY(folder_words_path(folder, &own, &class, error));
    *found = own != NULL && path_is_same(own, path);
    memory_free(own);
    if (!*found) {
        return BERTH_OK;
    }
    TRY(folder_words_read(folder, class, &file->object, error));
    file->is_other = file->has_rules = 1;
    file->rules = text_rules_default;
    file->rules.is_pipeline = 1;
    return BERTH_OK;
}

// The files alone do not say what is done with a text.
static enum berth_status refuse_words(const char *path, struct berth_error *error) {
    const char *name = path_name(path);
    return strcmp(name, "vocab.json") != 0 && !name_has_extension(name, ".model")
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s: expected a " VOCAB_FILE " or a " TOKENIZER_FILE
                           "; of these words name the folder, which says the tokenizer's class",
                           path);
}

enum berth_status folder_read_vocabulary(const char *folder, const char *path,
                                         struct vocabulary_file *file, struct berth_error *error) {
    if (folder != NULL && !file_exists(path)) {
        return error_set(error, BERTH_NO_INPUT,
                         "%s: no such file, nor is there a " TOKENIZER_FILE
                         "; the folder needs one of them, or name a vocabulary with vocab_file",
                         path);
    }
    int found = 0;
    TRY(folder != NULL ? read_words(folder, path, file, &found, error) : refuse_words(path, error));
    if (found) {
        return BERTH_OK;
    }
    TRY(vocabulary_file_read(path, file, error));
    return folder != NULL && !file->is_other ? read_additions(folder, file, error) : BERTH_OK;
}
