// SPDX-License-Identifier: Apache-2.0
// The tokens that a tokenizer adds to its words, in the order of transformers: those that the files
// number, the named ones, and those of lists or of the model. The order gives new ones their ids.
#include "core/memory.h"
#include "core/number.h"
#include "core/text_util.h"
#include "core/utf8.h"
#include "model/folder_class.h"
#include "model/words_build.h"

#include <stdlib.h>
#include <string.h>

const char *const words_named_keys[NAMED] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                             "pad_token", "cls_token", "mask_token"};

// --- the settings of the folder -----------------------------------------------------------------

static const char decoder_key[] = "added_tokens_decoder", extra_key[] = "extra_special_tokens",
                  additional_key[] = "additional_special_tokens";

static int has_numbered(const struct words *words) {
    return json_is_object_value(json_member(words->input->settings, decoder_key));
}

// special_tokens_map.json counts only if the settings list no tokens with their ids.
static const json *specials_of(const struct words *words) {
    return has_numbered(words) ? NULL : words->input->specials;
}

const json *words_setting(const struct words *words, const char *key) {
    const json *own = json_member(specials_of(words), key);
    return own != NULL ? own : json_member(words->input->settings, key);
}

int words_flag(const struct words *words, const char *key, int usual) {
    const json *value = json_member(words->input->settings, key);
    return json_is_boolean(value) ? json_truth(value) : usual;
}

// A token is its text or an object with its settings.
static const char *text_of(const json *token) {
    const char *text = json_text(token);
    return text != NULL ? text : json_text(json_member(token, "content"));
}

int words_are_general(const struct words *words) {
    return words->class->tokens[NAMED_UNKNOWN] == NULL;
}

// The name that the class, or a model whose class has none, gives a token; NULL: there is none.
static const char *usual_name(const struct words *words, int named) {
    const struct sentencepiece *model = &words->model;
    return !words_are_general(words)                          ? words->class->tokens[named]
           : named == NAMED_BEGIN && model->begin_id >= 0     ? model->begin
           : named == NAMED_END && model->end_id >= 0         ? model->end
           : named == NAMED_UNKNOWN && model->unknown_id >= 0 ? model->unknown
                                                              : NULL;
}

// The text of a named token; NULL: there is none.
const char *words_name(const struct words *words, int named) {
    const json *own = words_setting(words, words_named_keys[named]);
    return own != NULL ? text_of(own) : usual_name(words, named);
}

// The same where transformers takes the usual name if the files give none.
const char *words_name_in_list(const struct words *words, int named) {
    const char *own = text_of(words_setting(words, words_named_keys[named]));
    return own != NULL ? own : words->class->tokens[named];
}

enum berth_status words_no_memory(const struct words *words, struct berth_error *error) {
    return error_no_memory(error, 0, words->input->name);
}

// --- ids ----------------------------------------------------------------------------------------

// The id of a word or an added token; -1: none.
int64_t words_find_id(const struct words *words, const char *text) {
    const uint32_t mark = string_index_find(&words->texts, text, strlen(text));
    if (mark != STRING_INDEX_NONE && words->marks[mark].added > 0) {
        return words->added[words->marks[mark].added - 1].id;
    }
    if (json_is_object_value(words->vocabulary)) {
        const json *id = json_member(words->vocabulary, text);
        return json_is_integer_value(id) ? json_as_integer(id) : -1;
    }
    const uint32_t number = string_index_find(&words->numbers, text, strlen(text));
    return number != STRING_INDEX_NONE ? words->ids[number] : -1;
}

// NULL: out of memory.
static struct token_mark *find_mark(struct words *words, const char *text) {
    const size_t known = words->texts.count;
    struct token_mark *marks =
        memory_grow(words->marks, &words->mark_capacity, known + 1, sizeof *marks);
    words->marks = marks != NULL ? marks : words->marks;
    const uint32_t number =
        marks != NULL ? string_index_put(&words->texts, text, strlen(text)) : STRING_INDEX_NONE;
    if (number == STRING_INDEX_NONE) {
        return NULL;
    }
    if (number == known) {
        marks[number] = (struct token_mark){.added = 0};
    }
    return &marks[number];
}

// --- added tokens -------------------------------------------------------------------------------

// A word keeps its id, another token gets the next one. Of several additions the last one counts.
static enum berth_status add_token(struct words *words, struct word_token token,
                                   struct berth_error *error) {
    if (token.text[0] == '\0') {
        return BERTH_OK;
    }
    struct token_mark *mark = find_mark(words, token.text);
    if (mark == NULL) {
        return words_no_memory(words, error);
    }
    token.special |= mark->is_named;
    token.normalized = token.normalized < 0 ? !token.special : token.normalized;
    if (mark->added > 0) {
        token.id = words->added[mark->added - 1].id;
        words->added[mark->added - 1] = token;
        return BERTH_OK;
    }
    struct word_token *added =
        memory_grow(words->added, &words->added_capacity, words->added_count + 1, sizeof *added);
    if (added == NULL) {
        return words_no_memory(words, error);
    }
    words->added = added;
    const int64_t own = words_find_id(words, token.text), count = (int64_t)words->count;
    token.id = own >= 0 ? own : words->highest >= count ? words->highest + 1 : count;
    words->highest = token.id > words->highest ? token.id : words->highest;
    added[words->added_count++] = token;
    mark->added = words->added_count;
    return BERTH_OK;
}

static enum berth_status read_token(const char *file, const char *key, const json *value,
                                    struct word_token *token, struct berth_error *error) {
    *token = (struct word_token){.text = text_of(value), .normalized = -1, .special = 1};
    if (token->text == NULL) {
        return error_key(error, BERTH_BAD_DATA, file, key,
                         "expected tokens as strings or as objects with "
                         "\"content\"");
    }
    if (json_is_object_value(value)) {
        token->special = 0;
        TRY(json_get_boolean(value, file, "single_word", &token->single_word, error));
        TRY(json_get_boolean(value, file, "lstrip", &token->lstrip, error));
        TRY(json_get_boolean(value, file, "rstrip", &token->rstrip, error));
        TRY(json_get_boolean(value, file, "normalized", &token->normalized, error));
        TRY(json_get_boolean(value, file, "special", &token->special, error));
    }
    return BERTH_OK;
}

static int compare_ids(const void *a, const void *b) {
    const struct word_token *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

// Reads "added_tokens_decoder", whose keys are ids, or added_tokens.json, whose values are.
static enum berth_status read_numbered(const struct words *words, const json *object, int by_id,
                                       struct word_token *tokens, struct berth_error *error) {
    struct json_walk walk = {.object = object};
    for (size_t i = 0; json_walk_next(&walk); i++) {
        int64_t id = -1;
        if (by_id) {
            TRY(read_token(SETTINGS_FILE, decoder_key, walk.value, &tokens[i], error));
            id = number_parse_integer(walk.key, &id) ? id : -1;
        } else {
            const uint32_t mark = string_index_find(&words->texts, walk.key, strlen(walk.key));
            const int special = mark != STRING_INDEX_NONE && words->marks[mark].is_listed;
            tokens[i] =
                (struct word_token){.text = walk.key, .normalized = !special, .special = special};
            id = json_is_integer_value(walk.value) ? json_as_integer(walk.value) : -1;
        }
        if (id < 0) {
            return error_set(error, BERTH_BAD_DATA, "%s: \"%.*s\": expected a token with an id",
                             by_id ? SETTINGS_FILE : ADDED_FILE, UTF8_SHOWN(walk.key, 40));
        }
        tokens[i].id = id;
    }
    return BERTH_OK;
}

// The tokens with ids in the order of these; newly allocated.
static enum berth_status sort_numbered(const struct words *words, struct word_token **tokens,
                                       size_t *count, struct berth_error *error) {
    const int by_id = has_numbered(words);
    const json *object =
        by_id ? json_member(words->input->settings, decoder_key) : words->input->added;
    *count = json_length(object);
    *tokens = memory_array_zeroed(*count + 1, sizeof **tokens);
    if (*tokens == NULL) {
        return words_no_memory(words, error);
    }
    TRY(read_numbered(words, object, by_id, *tokens, error));
    qsort(*tokens, *count, sizeof **tokens, compare_ids);
    return BERTH_OK;
}

static enum berth_status add_numbered(struct words *words, struct word_token *tokens, size_t count,
                                      struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (words_are_general(words)) {
            // A piece of another name at the id would have to be renamed.
            const size_t id = (size_t)tokens[i].id;
            if (id < words->model.count && words->model.kind == SENTENCEPIECE_BPE &&
                strcmp(words->model.pieces[id].text, tokens[i].text) != 0) {
                return error_set(error, BERTH_CONFIG,
                                 "%s: piece %zu: expected \"%.*s\", the token that " SETTINGS_FILE
                                 " gives this id, found \"%.*s\"; save a " TOKENIZER_FILE
                                 " with transformers",
                                 words->input->name, id, UTF8_SHOWN(tokens[i].text, 40),
                                 UTF8_SHOWN(words->model.pieces[id].text, 40));
            }
            tokens[i].normalized = words->model.adds_prefix ? 0 : tokens[i].normalized;
        }
        struct token_mark *mark = find_mark(words, tokens[i].text);
        if (mark == NULL) {
            return words_no_memory(words, error);
        }
        mark->is_numbered = 1;
        TRY(add_token(words, tokens[i], error));
    }
    return BERTH_OK;
}

static enum berth_status add_unless_numbered(struct words *words, struct word_token token,
                                             struct berth_error *error) {
    const struct token_mark *mark = find_mark(words, token.text);
    if (mark == NULL) {
        return words_no_memory(words, error);
    }
    return mark->is_numbered ? BERTH_OK : add_token(words, token, error);
}

static int is_standard(const char *key) {
    for (int named = 0; named < NAMED; named++) {
        if (strcmp(words_named_keys[named], key) == 0) {
            return 1;
        }
    }
    return 0;
}

// What is done with each named token: first it is marked, then added.
typedef enum berth_status take_token(struct words *words, struct word_token token,
                                     struct berth_error *error);

static enum berth_status mark_named(struct words *words, struct word_token token,
                                    struct berth_error *error) {
    struct token_mark *mark = find_mark(words, token.text);
    if (mark == NULL) {
        return words_no_memory(words, error);
    }
    mark->is_named = 1;
    return BERTH_OK;
}

static enum berth_status mark_listed(struct words *words, struct word_token token,
                                     struct berth_error *error) {
    struct token_mark *mark = find_mark(words, token.text);
    if (mark == NULL) {
        return words_no_memory(words, error);
    }
    mark->is_listed = 1;
    return BERTH_OK;
}

// Tokens that a model names beside the usual ones: by keys that end in _token, or in an object.
static enum berth_status walk_own_names(struct words *words, const char *file, const json *object,
                                        take_token *take, struct berth_error *error) {
    const json *list = json_member(object, extra_key);
    struct json_walk walk = {.object = object},
                     extra = {.object = json_is_object_value(list) ? list : NULL};
    struct word_token token;
    while (json_walk_next(&walk)) {
        if (text_ends_with(walk.key, "_token") && !is_standard(walk.key) &&
            text_of(walk.value) != NULL) {
            TRY(read_token(file, walk.key, walk.value, &token, error));
            TRY(take(words, token, error));
        }
    }
    while (extra.object != NULL && json_walk_next(&extra)) {
        TRY(read_token(file, extra_key, extra.value, &token, error));
        TRY(take(words, token, error));
    }
    return BERTH_OK;
}

static enum berth_status walk_names(struct words *words, take_token *take,
                                    struct berth_error *error) {
    for (int named = 0; named < NAMED; named++) {
        const json *own = words_setting(words, words_named_keys[named]);
        const char *text = words_name(words, named);
        struct word_token token = {.text = text, .normalized = -1, .special = 1};
        if (text == NULL) {
            continue;
        }
        if (own != NULL) {
            TRY(read_token(SETTINGS_FILE, words_named_keys[named], own, &token, error));
        }
        if (!json_is_object_value(own) && named == NAMED_MASK) {
            token.lstrip = words->class->mask_takes_blank;
        }
        TRY(take(words, token, error));
    }
    TRY(walk_own_names(words, SPECIALS_FILE, specials_of(words), take, error));
    return walk_own_names(words, SETTINGS_FILE, words->input->settings, take, error);
}

static enum berth_status walk_list(struct words *words, const char *file, const char *key,
                                   const json *list, take_token *take, struct berth_error *error) {
    for (size_t i = 0; json_is_array_value(list) && i < json_length(list); i++) {
        struct word_token token;
        TRY(read_token(file, key, json_at(list, i), &token, error));
        TRY(take(words, token, error));
    }
    return BERTH_OK;
}

// The lists of both files. The older key counts if the newer one has no tokens. *found: whether
// there is a list.
static enum berth_status walk_lists(struct words *words, take_token *take, int *found,
                                    struct berth_error *error) {
    const json *own = json_member(words->input->settings, extra_key),
               *old = json_member(words->input->settings, additional_key),
               *other = json_member(specials_of(words), extra_key);
    const int is_old = json_length(own) == 0 && old != NULL;
    own = is_old ? old : own;
    *found = json_is_array_value(own) || json_is_array_value(other);
    TRY(walk_list(words, SETTINGS_FILE, is_old ? additional_key : extra_key, own, take, error));
    return walk_list(words, SPECIALS_FILE, extra_key, other, take, error);
}

// The pieces of sentencepiece that are found in a text as they are written.
static enum berth_status add_pieces(struct words *words, struct berth_error *error) {
    for (size_t i = 0; i < words->model.count; i++) {
        const struct sentencepiece_piece *piece = &words->model.pieces[i];
        const int is_control = piece->type == SENTENCEPIECE_CONTROL;
        if (is_control || piece->type == SENTENCEPIECE_USER_DEFINED) {
            TRY(add_unless_numbered(
                words, (struct word_token){.text = piece->text, .special = is_control}, error));
        }
    }
    return BERTH_OK;
}

// Without a list, the pieces count.
static enum berth_status add_extra(struct words *words, struct berth_error *error) {
    int found;
    TRY(walk_lists(words, add_unless_numbered, &found, error));
    if (found) {
        return BERTH_OK;
    }
    return words->model.count > 0 ? add_pieces(words, error)
                                  : walk_list(words, SPECIALS_FILE, additional_key,
                                              json_member(specials_of(words), additional_key),
                                              add_unless_numbered, error);
}

enum berth_status words_add_tokens(struct words *words, struct berth_error *error) {
    struct word_token *tokens;
    size_t count;
    int found;
    TRY(walk_names(words, mark_named, error));
    for (int named = 0; named < NAMED; named++) {
        const char *text = text_of(words_setting(words, words_named_keys[named]));
        if (text != NULL) {
            TRY(mark_listed(words, (struct word_token){.text = text}, error));
        }
    }
    TRY(walk_lists(words, mark_listed, &found, error));
    enum berth_status status = sort_numbered(words, &tokens, &count, error);
    if (status == BERTH_OK) {
        status = add_numbered(words, tokens, count, error);
    }
    memory_free(tokens);
    TRY(status);
    TRY(walk_names(words, add_unless_numbered, error));
    return add_extra(words, error);
}
