// SPDX-License-Identifier: Apache-2.0
// Makes tokenizer.json of other files of words, as transformers 5 does: for each class of tokenizer
// a row says which special tokens it has and how a text is prepared.
#include "model/folder_words.h"

#include "core/base64.h"
#include "core/buffer.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/number.h"
#include "core/string_index.h"
#include "core/utf8.h"
#include "core/words.h"
#include "format/sentencepiece/sentencepiece.h"
#include "model/folder.h"
#include "model/folder_class.h"

#include <stdlib.h>
#include <string.h>

#define MARK "\xE2\x96\x81" // U+2581, which stands for a blank
#define WORDS_FILE "vocab.json"
#define MERGES_FILE "merges.txt"
#define MERGES_LIMIT ((size_t)256 << 20)

// In the order in which transformers adds them.
enum { NAMED_BEGIN, NAMED_END, NAMED_UNKNOWN, NAMED_SEP, NAMED_PAD, NAMED_CLS, NAMED_MASK, NAMED };
static const char *const named_keys[NAMED] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                              "pad_token", "cls_token", "mask_token"};

// A token that is added to the words. `normalized` is -1 if nothing says it.
struct word_token {
    const char *text;
    int64_t id;
    int single_word, lstrip, rstrip, normalized, special;
};

// What is known of a text of such a token.
struct token_mark {
    int is_numbered; // the files give it an id
    int is_named;    // it is one of the named tokens
    int is_listed;   // the files say that it is special
    size_t added;    // 1 + its place in words->added; 0: it is not there yet
};

struct words {
    const struct words_input *input;
    const struct words_class *class;
    struct sentencepiece model;
    json *vocabulary, *merges;   // an object of ids, or a list of words with scores
    size_t count;                // of its words
    int64_t unknown;             // of a list
    struct string_index numbers; // of the words of a list
    int32_t *ids;                // by such a number
    size_t id_capacity;
    struct string_index texts; // of tokens
    struct token_mark *marks;  // by their numbers
    size_t mark_capacity;
    struct word_token *added;
    size_t added_count, added_capacity;
    int64_t highest; // id of an added token
};

struct words_class {
    const char *name, *file;
    const char *others; // names of the class that mean the same
    const char *types;  // of models whose tokenizer it is
    const char *tokens[NAMED];
    int mask_takes_blank;
    // Fills the words.
    enum berth_status (*read)(struct words *words, struct berth_error *error);
    // Make parts of tokenizer.json; NULL: out of memory.
    json *(*normalizer)(const struct words *words);
    json *(*pre_tokenizer)(const struct words *words);
    json *(*decoder)(const struct words *words);
    json *(*processor)(const struct words *words);
    int cls, sep; // of the named tokens, those that the processor puts around a text
};

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

static const json *setting(const struct words *words, const char *key) {
    const json *own = json_member(specials_of(words), key);
    return own != NULL ? own : json_member(words->input->settings, key);
}

static int flag_of(const struct words *words, const char *key, int usual) {
    const json *value = json_member(words->input->settings, key);
    return json_is_boolean(value) ? json_truth(value) : usual;
}

// A token is its text or an object with its settings.
static const char *text_of(const json *token) {
    const char *text = json_text(token);
    return text != NULL ? text : json_text(json_member(token, "content"));
}

static int is_general(const struct words *words) {
    return words->class->tokens[NAMED_UNKNOWN] == NULL;
}

// The name that the class, or a model whose class has none, gives a token; NULL: there is none.
static const char *usual_name(const struct words *words, int named) {
    const struct sentencepiece *model = &words->model;
    return !is_general(words)                                 ? words->class->tokens[named]
           : named == NAMED_BEGIN && model->begin_id >= 0     ? model->begin
           : named == NAMED_END && model->end_id >= 0         ? model->end
           : named == NAMED_UNKNOWN && model->unknown_id >= 0 ? model->unknown
                                                              : NULL;
}

// The text of a named token; NULL: there is none.
static const char *name_of(const struct words *words, int named) {
    const json *own = setting(words, named_keys[named]);
    return own != NULL ? text_of(own) : usual_name(words, named);
}

// The same where transformers takes the usual name if the files give none.
static const char *name_in_list(const struct words *words, int named) {
    const char *own = text_of(setting(words, named_keys[named]));
    return own != NULL ? own : words->class->tokens[named];
}

static enum berth_status no_memory(const struct words *words, struct berth_error *error) {
    return error_no_memory(error, 0, words->input->name);
}

static enum berth_status refuse(const struct words *words, const char *what,
                                struct berth_error *error) {
    return error_set(error, BERTH_CONFIG, "%s: %s", words->input->name, what);
}

// --- ids ----------------------------------------------------------------------------------------

// The id of a word or an added token; -1: none.
static int64_t find_id(const struct words *words, const char *text) {
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
        return no_memory(words, error);
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
        return no_memory(words, error);
    }
    words->added = added;
    const int64_t own = find_id(words, token.text), count = (int64_t)words->count;
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
        return error_set(error, BERTH_BAD_DATA,
                         "%s: key \"%s\": expected tokens as strings or as objects with "
                         "\"content\"",
                         file, key);
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
        return no_memory(words, error);
    }
    TRY(read_numbered(words, object, by_id, *tokens, error));
    qsort(*tokens, *count, sizeof **tokens, compare_ids);
    return BERTH_OK;
}

// A piece of another name at the id would have to be renamed.
static enum berth_status check_names(const struct words *words, const struct word_token *token,
                                     struct berth_error *error) {
    const size_t id = (size_t)token->id;
    return id >= words->model.count || words->model.kind != SENTENCEPIECE_BPE ||
                   strcmp(words->model.pieces[id].text, token->text) == 0
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "%s: piece %zu: expected \"%.*s\", the token that " SETTINGS_FILE
                           " gives this id, found \"%.*s\"; save a " TOKENIZER_FILE
                           " with transformers",
                           words->input->name, id, UTF8_SHOWN(token->text, 40),
                           UTF8_SHOWN(words->model.pieces[id].text, 40));
}

static enum berth_status add_numbered(struct words *words, struct word_token *tokens, size_t count,
                                      struct berth_error *error) {
    for (size_t i = 0; i < count; i++) {
        if (is_general(words)) {
            TRY(check_names(words, &tokens[i], error));
            tokens[i].normalized = words->model.adds_prefix ? 0 : tokens[i].normalized;
        }
        struct token_mark *mark = find_mark(words, tokens[i].text);
        if (mark == NULL) {
            return no_memory(words, error);
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
        return no_memory(words, error);
    }
    return mark->is_numbered ? BERTH_OK : add_token(words, token, error);
}

static int is_standard(const char *key) {
    for (int named = 0; named < NAMED; named++) {
        if (strcmp(named_keys[named], key) == 0) {
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
        return no_memory(words, error);
    }
    mark->is_named = 1;
    return BERTH_OK;
}

static enum berth_status mark_listed(struct words *words, struct word_token token,
                                     struct berth_error *error) {
    struct token_mark *mark = find_mark(words, token.text);
    if (mark == NULL) {
        return no_memory(words, error);
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
        const json *own = setting(words, named_keys[named]);
        const char *text = name_of(words, named);
        struct word_token token = {.text = text, .normalized = -1, .special = 1};
        if (text == NULL) {
            continue;
        }
        if (own != NULL) {
            TRY(read_token(SETTINGS_FILE, named_keys[named], own, &token, error));
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

static enum berth_status mark_tokens(struct words *words, struct berth_error *error) {
    int found;
    TRY(walk_names(words, mark_named, error));
    for (int named = 0; named < NAMED; named++) {
        const char *text = text_of(setting(words, named_keys[named]));
        if (text != NULL) {
            TRY(mark_listed(words, (struct word_token){.text = text}, error));
        }
    }
    return walk_lists(words, mark_listed, &found, error);
}

static enum berth_status add_tokens(struct words *words, struct berth_error *error) {
    struct word_token *tokens;
    size_t count;
    TRY(mark_tokens(words, error));
    enum berth_status status = sort_numbered(words, &tokens, &count, error);
    if (status == BERTH_OK) {
        status = add_numbered(words, tokens, count, error);
    }
    memory_free(tokens);
    TRY(status);
    TRY(walk_names(words, add_unless_numbered, error));
    return add_extra(words, error);
}

// --- vocab.json and merges.txt ------------------------------------------------------------------

static json *read_lines(const char *bytes, size_t length) {
    json *list = json_new_array();
    int failed = 0;
    for (size_t at = 0; at < length && !failed;) {
        const char *newline = memchr(bytes + at, '\n', length - at);
        const size_t end = newline != NULL ? (size_t)(newline - bytes) : length;
        const size_t size = end - at - (end > at && bytes[end - 1] == '\r');
        char *line = memory_string_of(bytes + at, size);
        failed = line == NULL ||
                 (strncmp(line, "#version", 8) != 0 && json_append(list, json_new_text(line)) != 0);
        memory_free(line);
        at = end + 1;
    }
    return json_unless_failed(list, failed);
}

static enum berth_status read_bpe(struct words *words, struct berth_error *error) {
    const struct words_input *input = words->input;
    TRY(json_read_memory(input->name, input->bytes, input->length, &words->vocabulary, error));
    words->count = json_length(words->vocabulary);
    if (!json_is_object_value(words->vocabulary)) {
        return error_set(error, BERTH_BAD_DATA, "%s: expected an object of words and ids",
                         input->name);
    }
    if (utf8_text_prefix(input->merges, input->merges_length) != input->merges_length) {
        return error_set(error, BERTH_BAD_DATA, MERGES_FILE ": not UTF-8, or a NUL byte");
    }
    words->merges = read_lines(input->merges, input->merges_length);
    return words->merges != NULL ? BERTH_OK : no_memory(words, error);
}

// --- models of sentencepiece --------------------------------------------------------------------

static enum berth_status put_word(struct words *words, const char *text, double score,
                                  struct berth_error *error) {
    json *word = json_new_array();
    const int failed =
        json_append(word, json_new_text(text)) | json_append(word, json_new_real(score));
    const size_t known = words->numbers.count;
    int32_t *ids = memory_grow(words->ids, &words->id_capacity, known + 1, sizeof *ids);
    words->ids = ids != NULL ? ids : words->ids;
    if (json_append(words->vocabulary, json_unless_failed(word, failed)) != 0 || ids == NULL) {
        return no_memory(words, error);
    }
    const uint32_t number = string_index_put(&words->numbers, text, strlen(text));
    if (number == STRING_INDEX_NONE) {
        return no_memory(words, error);
    }
    ids[number] = (int32_t)words->count++; // of equal words the last one counts
    return BERTH_OK;
}

static enum berth_status put_pieces(struct words *words, size_t from, struct berth_error *error) {
    for (size_t i = from; i < words->model.count; i++) {
        TRY(put_word(words, words->model.pieces[i].text, words->model.pieces[i].score, error));
    }
    return BERTH_OK;
}

static enum berth_status read_pieces(struct words *words, struct berth_error *error) {
    const struct words_input *input = words->input;
    words->vocabulary = json_new_array();
    return sentencepiece_read(input->name, input->bytes, input->length, &words->model, error);
}

// fairseq's ids: its own special tokens come first, then the pieces without sentencepiece's.
static enum berth_status read_xlm(struct words *words, struct berth_error *error) {
    static const int first[] = {NAMED_BEGIN, NAMED_PAD, NAMED_END, NAMED_UNKNOWN};
    TRY(read_pieces(words, error));
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        TRY(put_word(words, name_in_list(words, first[i]), 0, error));
    }
    TRY(put_pieces(words, 3, error));
    words->unknown = 3;
    return put_word(words, name_in_list(words, NAMED_MASK), 0, error);
}

static enum berth_status read_camembert(struct words *words, struct berth_error *error) {
    TRY(read_pieces(words, error));
    if (words->model.kind != SENTENCEPIECE_UNIGRAM) {
        return refuse(words, "expected a model of the type unigram for CamembertTokenizer", error);
    }
    TRY(put_word(words, "<s>NOTUSED", 0, error));
    TRY(put_word(words, name_in_list(words, NAMED_PAD), 0, error));
    TRY(put_word(words, "</s>NOTUSED", 0, error));
    TRY(put_word(words, name_in_list(words, NAMED_UNKNOWN), 0, error));
    TRY(put_word(words, "<unk>NOTUSED", -100, error));
    TRY(put_pieces(words, 1, error));
    words->unknown = 3;
    return put_word(words, name_in_list(words, NAMED_MASK), 0, error);
}

static enum berth_status read_albert(struct words *words, struct berth_error *error) {
    TRY(read_pieces(words, error));
    words->unknown = 1;
    return put_pieces(words, 0, error);
}

static enum berth_status read_big_bird(struct words *words, struct berth_error *error) {
    TRY(read_albert(words, error));
    const char *name = name_in_list(words, NAMED_UNKNOWN);
    words->unknown = 100;
    for (size_t i = words->model.count; i-- > 0;) {
        if (strcmp(words->model.pieces[i].text, name) == 0 && words->model.pieces[i].score == 0) {
            words->unknown = (int64_t)i;
        }
    }
    return BERTH_OK;
}

// --- merges of sentencepiece --------------------------------------------------------------------

// Of two normal pieces that are a third one: by its score, its id and the length of the left one.
struct piece_merge {
    float score;
    uint32_t id, left;
};

static int compare_merges(const void *a, const void *b) {
    const struct piece_merge *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score ? -1 : 1)
           : x->id != y->id     ? (x->id < y->id ? -1 : 1)
                                : (x->left > y->left) - (x->left < y->left);
}

// Whether bytes[0, length) are a piece that merges may make.
static int is_normal(const struct words *words, const char *bytes, size_t length) {
    const uint32_t number = string_index_find(&words->numbers, bytes, length);
    return number != STRING_INDEX_NONE &&
           words->model.pieces[words->ids[number]].type == SENTENCEPIECE_NORMAL;
}

struct merge_list {
    struct piece_merge *items;
    size_t count, capacity;
};

static int find_merges(const struct words *words, uint32_t id, struct merge_list *list) {
    const char *text = words->model.pieces[id].text;
    const size_t length = strlen(text);
    for (size_t left = utf8_whole(text[0]); left < length; left += utf8_whole(text[left])) {
        if (!is_normal(words, text, left) || !is_normal(words, text + left, length - left)) {
            continue;
        }
        struct piece_merge *items =
            memory_grow(list->items, &list->capacity, list->count + 1, sizeof *items);
        if (items == NULL) {
            return 0;
        }
        list->items = items;
        items[list->count++] =
            (struct piece_merge){words->model.pieces[id].score, id, (uint32_t)left};
    }
    return 1;
}

static json *merge_of(const struct words *words, const struct piece_merge *merge) {
    const char *text = words->model.pieces[merge->id].text;
    char left[SENTENCEPIECE_LONGEST + 1];
    json *pair = json_new_array();
    memcpy(left, text, merge->left);
    left[merge->left] = '\0';
    const int failed = json_append(pair, json_new_text(left)) |
                       json_append(pair, json_new_text(text + merge->left));
    return json_unless_failed(pair, failed);
}

// The model's scores rank the merges, which it does not list.
static enum berth_status make_merges(struct words *words, struct berth_error *error) {
    struct merge_list list = {.items = NULL};
    int failed = 0;
    words->merges = json_new_array();
    for (size_t i = 0; i < words->model.count && !failed; i++) {
        const char *text = words->model.pieces[i].text;
        const uint32_t number = string_index_find(&words->numbers, text, strlen(text));
        failed = words->ids[number] == (int32_t)i &&
                 words->model.pieces[i].type == SENTENCEPIECE_NORMAL &&
                 !find_merges(words, (uint32_t)i, &list);
    }
    if (list.count > 0) {
        qsort(list.items, list.count, sizeof *list.items, compare_merges);
    }
    for (size_t i = 0; i < list.count && !failed; i++) {
        failed = json_append(words->merges, merge_of(words, &list.items[i])) != 0;
    }
    memory_free(list.items);
    return failed ? no_memory(words, error) : BERTH_OK;
}

// Words and ids in place of the list.
static enum berth_status make_object(struct words *words, struct berth_error *error) {
    json *object = json_new_object();
    int failed = 0;
    for (size_t i = 0; i < words->model.count; i++) {
        failed |= json_set(object, words->model.pieces[i].text, json_new_integer((int64_t)i));
    }
    json_free(words->vocabulary);
    words->vocabulary = json_unless_failed(object, failed);
    words->count = json_length(object);
    return words->vocabulary != NULL ? BERTH_OK : no_memory(words, error);
}

static enum berth_status read_general(struct words *words, struct berth_error *error) {
    const struct sentencepiece *model = &words->model;
    TRY(read_pieces(words, error));
    for (size_t i = 0; i < model->count; i++) {
        if (model->pieces[i].type == SENTENCEPIECE_USER_DEFINED) {
            return error_set(error, BERTH_CONFIG,
                             "%s: piece %zu: user-defined pieces are not supported; save "
                             "a " TOKENIZER_FILE " with transformers",
                             words->input->name, i);
        }
    }
    TRY(put_pieces(words, 0, error));
    words->unknown = model->unknown_id;
    if (model->kind == SENTENCEPIECE_BPE) {
        TRY(make_merges(words, error));
        return make_object(words, error);
    }
    return BERTH_OK;
}

// --- parts of tokenizer.json --------------------------------------------------------------------

static json *list_of(json *const *items, size_t count) {
    json *list = json_new_array();
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        failed |= json_append(list, items[i]);
    }
    return json_unless_failed(list, failed);
}

static json *sequence(const char *key, json *const *items, size_t count) {
    return JSON_OBJECT({"type", json_new_text("Sequence")}, {key, list_of(items, count)});
}

static json *plain(const char *type) {
    return JSON_OBJECT({"type", json_new_text(type)});
}

static json *replace(const char *kind, const char *pattern, const char *content) {
    return JSON_OBJECT({"type", json_new_text("Replace")},
                       {"pattern", JSON_OBJECT({kind, json_new_text(pattern)})},
                       {"content", json_new_text(content)});
}

static json *precompiled(const struct words *words) {
    struct buffer text = {0};
    base64_put(&text, words->model.charsmap, words->model.charsmap_length);
    buffer_put_byte(&text, '\0');
    json *object = text.failed ? NULL
                               : JSON_OBJECT({"type", json_new_text("Precompiled")},
                                             {"precompiled_charsmap", json_new_text(text.bytes)});
    buffer_done(&text);
    return object;
}

static json *no_normalizer(const struct words *words) {
    (void)words;
    return json_new_null();
}

static json *map_normalizer(const struct words *words) {
    return words->model.charsmap_length > 0 ? precompiled(words) : json_new_null();
}

static json *albert_normalizer(const struct words *words) {
    json *items[6];
    size_t count = 0;
    items[count++] = replace("String", "``", "\"");
    items[count++] = replace("String", "''", "\"");
    if (!flag_of(words, "keep_accents", 0)) {
        items[count++] = plain("NFKD");
        items[count++] = plain("StripAccents");
    }
    if (flag_of(words, "do_lower_case", 1)) {
        items[count++] = plain("Lowercase");
    }
    if (words->model.charsmap_length > 0) {
        items[count++] = precompiled(words);
    }
    return sequence("normalizers", items, count);
}

static json *big_bird_normalizer(const struct words *words) {
    (void)words;
    return replace("Regex", " {2,}", MARK);
}

static int is_legacy(const struct words *words) {
    return flag_of(words, "legacy", 1);
}

// In the order of sentencepiece.
static json *general_normalizer(const struct words *words) {
    json *items[5];
    size_t count = 0;
    if (words->model.charsmap_length > 0) {
        items[count++] = precompiled(words);
    }
    if (words->model.removes_blanks) {
        items[count++] = replace("Regex", "\\A +| +\\z", "");
        items[count++] = replace("Regex", " {2,}", " ");
    }
    if (words->model.escapes_blanks) {
        items[count++] = replace("String", " ", MARK);
    }
    if (words->model.adds_prefix && is_legacy(words)) {
        items[count++] = replace("Regex", "\\A" MARK, MARK MARK);
    }
    return sequence("normalizers", items, count);
}

static json *byte_level(int adds_prefix) {
    return JSON_OBJECT({"type", json_new_text("ByteLevel")},
                       {"add_prefix_space", json_new_boolean(adds_prefix)},
                       {"trim_offsets", json_new_boolean(1)}, {"use_regex", json_new_boolean(1)});
}

static json *byte_pre_tokenizer(const struct words *words) {
    return byte_level(flag_of(words, "add_prefix_space", 0));
}

static json *byte_decoder(const struct words *words) {
    (void)words;
    return byte_level(1);
}

static json *metaspace(const char *scheme, int splits) {
    return JSON_OBJECT({"type", json_new_text("Metaspace")}, {"replacement", json_new_text(MARK)},
                       {"prepend_scheme", json_new_text(scheme)},
                       {"split", json_new_boolean(splits)});
}

static json *mark_decoder(const struct words *words) {
    return metaspace(flag_of(words, "add_prefix_space", 1) ? "always" : "never", 1);
}

static json *word_pre_tokenizer(const struct words *words) {
    json *items[] = {plain("WhitespaceSplit"), mark_decoder(words)};
    return sequence("pretokenizers", items, 2);
}

static json *general_pre_tokenizer(const struct words *words) {
    return words->model.adds_prefix ? metaspace(is_legacy(words) ? "always" : "first", 0)
                                    : json_new_null();
}

static json *general_decoder(const struct words *words) {
    json *items[4];
    size_t count = 0;
    items[count++] = replace("String", MARK, " ");
    if (words->model.byte_fallback) {
        items[count++] = plain("ByteFallback");
    }
    if (words->model.byte_fallback || words->model.adds_prefix) {
        items[count++] = plain("Fuse");
    }
    if (words->model.adds_prefix) {
        items[count++] =
            JSON_OBJECT({"type", json_new_text("Strip")}, {"content", json_new_text(" ")},
                        {"start", json_new_integer(1)}, {"stop", json_new_integer(0)});
    }
    return sequence("decoders", items, count);
}

// --- the post-processor -------------------------------------------------------------------------

static json *text_and_id(const struct words *words, int named) {
    const char *text = name_of(words, named);
    json *items[] = {json_new_text(text), json_new_integer(find_id(words, text))};
    return list_of(items, 2);
}

static json *roberta_processor(const struct words *words) {
    return JSON_OBJECT(
        {"type", json_new_text("RobertaProcessing")}, {"sep", text_and_id(words, NAMED_SEP)},
        {"cls", text_and_id(words, NAMED_CLS)},
        {"trim_offsets", json_new_boolean(flag_of(words, "trim_offsets", 1))},
        {"add_prefix_space", json_new_boolean(flag_of(words, "add_prefix_space", 0))});
}

static json *part(const char *kind, const char *id, int type) {
    return JSON_OBJECT(
        {kind, JSON_OBJECT({"id", json_new_text(id)}, {"type_id", json_new_integer(type)})});
}

static json *special_of(const struct words *words, const char *text) {
    json *id = json_new_integer(find_id(words, text)), *own = json_new_text(text);
    return JSON_OBJECT({"id", json_new_text(text)}, {"ids", list_of(&id, 1)},
                       {"tokens", list_of(&own, 1)});
}

// "CLS A SEP" and, with one or two SEP between, "CLS A SEP B SEP".
static json *template_of(const struct words *words, int separators, int type) {
    const char *cls = name_of(words, words->class->cls), *sep = name_of(words, words->class->sep);
    json *single[] = {part("SpecialToken", cls, 0), part("Sequence", "A", 0),
                      part("SpecialToken", sep, 0)};
    json *pair[6];
    size_t count = 0;
    pair[count++] = part("SpecialToken", cls, 0);
    pair[count++] = part("Sequence", "A", 0);
    pair[count++] = part("SpecialToken", sep, 0);
    if (separators == 2) {
        pair[count++] = part("SpecialToken", sep, 0);
    }
    pair[count++] = part("Sequence", "B", type);
    pair[count++] = part("SpecialToken", sep, type);
    const int is_one = strcmp(cls, sep) == 0;
    return JSON_OBJECT(
        {"type", json_new_text("TemplateProcessing")}, {"single", list_of(single, 3)},
        {"pair", list_of(pair, count)},
        {"special_tokens", JSON_OBJECT({cls, special_of(words, cls)},
                                       {is_one ? NULL : sep, special_of(words, sep)})});
}

static json *fairseq_processor(const struct words *words) {
    return template_of(words, 2, 0);
}

static json *bert_processor(const struct words *words) {
    return template_of(words, 1, 1);
}

static json *no_processor(const struct words *words) {
    (void)words;
    return json_new_null();
}

// --- classes ------------------------------------------------------------------------------------

#define FAIRSEQ_TOKENS                                                                             \
    { "<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>" }
static const struct words_class classes[] = {
    {"RobertaTokenizer", WORDS_FILE, "BartTokenizer LongformerTokenizer",
     "roberta roberta-prelayernorm bart bridgetower clap data2vec-text ibert lilt longformer mega "
     "mra",
     FAIRSEQ_TOKENS, 0, read_bpe, no_normalizer, byte_pre_tokenizer, byte_decoder,
     roberta_processor, NAMED_CLS, NAMED_SEP},
    {"DebertaTokenizer",
     WORDS_FILE,
     "",
     "deberta",
     {"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"},
     0,
     read_bpe,
     no_normalizer,
     byte_pre_tokenizer,
     byte_decoder,
     fairseq_processor,
     NAMED_CLS,
     NAMED_SEP},
    {"GPT2Tokenizer",
     WORDS_FILE,
     "",
     "gpt2 gpt_neo gptj opt codegen",
     {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL, NULL, NULL, NULL},
     0,
     read_bpe,
     no_normalizer,
     byte_pre_tokenizer,
     byte_decoder,
     no_processor,
     -1,
     -1},
    {"XLMRobertaTokenizer", "sentencepiece.bpe.model", "",
     "xlm-roberta xmod gte jina_embeddings_v3 metaclip_2 trocr", FAIRSEQ_TOKENS, 0, read_xlm,
     map_normalizer, word_pre_tokenizer, mark_decoder, fairseq_processor, NAMED_BEGIN, NAMED_END},
    {"CamembertTokenizer", "sentencepiece.bpe.model", "", "camembert", FAIRSEQ_TOKENS, 1,
     read_camembert, map_normalizer, word_pre_tokenizer, mark_decoder, fairseq_processor,
     NAMED_BEGIN, NAMED_END},
    {"AlbertTokenizer",
     "spiece.model",
     "",
     "albert yoso",
     {"[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"},
     0,
     read_albert,
     albert_normalizer,
     word_pre_tokenizer,
     mark_decoder,
     bert_processor,
     NAMED_CLS,
     NAMED_SEP},
    {"BigBirdTokenizer",
     "spiece.model",
     "",
     "big_bird",
     {"<s>", "</s>", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"},
     1,
     read_big_bird,
     big_bird_normalizer,
     mark_decoder,
     mark_decoder,
     bert_processor,
     NAMED_CLS,
     NAMED_SEP},
    {"TokenizersBackend",
     "tokenizer.model",
     "PreTrainedTokenizerFast",
     "nystromformer xlm-roberta-xl",
     {NULL},
     0,
     read_general,
     general_normalizer,
     general_pre_tokenizer,
     general_decoder,
     no_processor,
     -1,
     -1},
};
#define CLASSES (sizeof classes / sizeof *classes)

const struct words_class *words_class_find(const char *name, const char *model_type) {
    char own[64] = "";
    if (name != NULL && strlen(name) < sizeof own) {
        const size_t length = strlen(name);
        memcpy(own, name, length + 1);
        own[text_ends_with(name, "Fast") ? length - 4 : length] = '\0';
    }
    for (size_t i = 0; i < CLASSES; i++) {
        const struct words_class *class = &classes[i];
        const int found = name != NULL
                              ? strcmp(class->name, own) == 0 ||
                                    words_contain(class->others, ' ', own) ||
                                    words_contain(class->others, ' ', name)
                              : model_type != NULL && words_contain(class->types, ' ', model_type);
        if (found) {
            return class;
        }
    }
    return NULL;
}

const char *words_class_name(const struct words_class *class) {
    return class->name;
}

const char *words_class_file(const struct words_class *class) {
    return class->file;
}

int words_class_has_merges(const struct words_class *class) {
    return strcmp(class->file, WORDS_FILE) == 0;
}

// --- tokenizer.json -----------------------------------------------------------------------------

// Other values of these keys would give texts other special tokens.
static enum berth_status check_processor(const struct words *words, struct berth_error *error) {
    static const char *const keys[] = {"add_bos_token", "add_eos_token"};
    const int has_own = words->class->processor != no_processor;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json *value = json_member(words->input->settings, keys[i]);
        if (value != NULL && (json_truth(value) || words->class->processor == bert_processor) &&
            (!has_own || words->class->processor == bert_processor)) {
            return error_set(error, BERTH_CONFIG,
                             SETTINGS_FILE ": key \"%s\": expected none for the class %s; save "
                                           "a " TOKENIZER_FILE " with transformers",
                             keys[i], words->class->name);
        }
    }
    for (int i = 0; has_own && i < 2; i++) {
        const int named = i == 0 ? words->class->cls : words->class->sep;
        const char *name = name_of(words, named);
        if (name == NULL || find_id(words, name) < 0) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: expected the token \"%s\", which key \"%s\" of " SETTINGS_FILE
                             " names: the class %s puts it around texts",
                             words->input->name, name != NULL ? name : "", named_keys[named],
                             words->class->name);
        }
    }
    return BERTH_OK;
}

static json *model_of(struct words *words) {
    json *vocabulary = words->vocabulary, *merges = words->merges;
    const int is_general_model = is_general(words),
              falls_back = is_general_model && words->model.byte_fallback;
    words->vocabulary = words->merges = NULL;
    if (merges == NULL) {
        return JSON_OBJECT({"type", json_new_text("Unigram")},
                           {"unk_id", json_new_integer(words->unknown)}, {"vocab", vocabulary},
                           {"byte_fallback", json_new_boolean(falls_back)});
    }
    return JSON_OBJECT(
        {"type", json_new_text("BPE")}, {"dropout", json_new_null()},
        {"unk_token", is_general_model ? json_new_text(words->model.unknown) : json_new_null()},
        {"continuing_subword_prefix", json_new_null()}, {"end_of_word_suffix", json_new_null()},
        {"fuse_unk", json_new_boolean(is_general_model)},
        {"byte_fallback", json_new_boolean(falls_back)}, {"ignore_merges", json_new_boolean(0)},
        {"vocab", vocabulary}, {"merges", merges});
}

static json *added_of(const struct words *words) {
    json *list = json_new_array();
    int failed = 0;
    for (size_t i = 0; i < words->added_count; i++) {
        const struct word_token *token = &words->added[i];
        failed |=
            json_append(list, JSON_OBJECT({"id", json_new_integer(token->id)},
                                          {"content", json_new_text(token->text)},
                                          {"single_word", json_new_boolean(token->single_word)},
                                          {"lstrip", json_new_boolean(token->lstrip)},
                                          {"rstrip", json_new_boolean(token->rstrip)},
                                          {"normalized", json_new_boolean(token->normalized)},
                                          {"special", json_new_boolean(token->special)}));
    }
    return json_unless_failed(list, failed);
}

static enum berth_status convert(struct words *words, json **object, struct berth_error *error) {
    const struct words_class *class = words->class;
    TRY(class->read(words, error));
    TRY(add_tokens(words, error));
    TRY(check_processor(words, error));
    *object = JSON_OBJECT({"version", json_new_text("1.0")}, {"truncation", json_new_null()},
                          {"padding", json_new_null()}, {"added_tokens", added_of(words)},
                          {"normalizer", class->normalizer(words)},
                          {"pre_tokenizer", class->pre_tokenizer(words)},
                          {"post_processor", class->processor(words)},
                          {"decoder", class->decoder(words)}, {"model", model_of(words)});
    return *object != NULL ? BERTH_OK : no_memory(words, error);
}

enum berth_status words_convert(const struct words_input *input, json **object,
                                struct berth_error *error) {
    struct words words = {.input = input, .class = input->class, .highest = -1};
    *object = NULL;
    const enum berth_status status = convert(&words, object, error);
    sentencepiece_done(&words.model);
    json_free(words.vocabulary);
    json_free(words.merges);
    string_index_done(&words.numbers);
    string_index_done(&words.texts);
    memory_free(words.ids);
    memory_free(words.marks);
    memory_free(words.added);
    return status;
}

// --- folders ------------------------------------------------------------------------------------

static enum berth_status find_class(const char *folder, const struct words_class **class,
                                    struct berth_error *error) {
    static const char key[] = "tokenizer_class";
    json *settings, *config;
    TRY(folder_read_object(folder, SETTINGS_FILE, &settings, error));
    const enum berth_status status = folder_read_object(folder, CONFIG_FILE, &config, error);
    if (status == BERTH_OK) {
        const char *own = json_text(json_member(settings, key));
        *class = words_class_find(own != NULL ? own : json_text(json_member(config, key)),
                                  json_text(json_member(config, "model_type")));
        json_free(config);
    }
    json_free(settings);
    return status;
}

// A folder without other words, whose files of words belong to another class.
static enum berth_status check_other_files(const char *folder, struct berth_error *error) {
    char names[300] = "";
    const char *file = NULL;
    for (size_t i = 0; i < CLASSES; i++) {
        int found;
        TRY(folder_has_file(folder, classes[i].file, &found, error));
        if (found && (file == NULL || strcmp(file, classes[i].file) == 0)) {
            file = classes[i].file;
            words_add(names, sizeof names, classes[i].name);
        }
    }
    return file == NULL ? BERTH_OK
                        : error_set(error, BERTH_CONFIG,
                                    "%s: %s: the tokenizer's class says how a text becomes words: "
                                    "expected one of %s as \"tokenizer_class\" in " SETTINGS_FILE
                                    "; or save a " TOKENIZER_FILE " with transformers",
                                    folder, file, names);
}

enum berth_status folder_words_path(const char *folder, char **path,
                                    const struct words_class **class, struct berth_error *error) {
    int has_whole, has_words, found = 0;
    *path = NULL;
    *class = NULL;
    TRY(folder_has_file(folder, TOKENIZER_FILE, &has_whole, error));
    TRY(folder_has_file(folder, VOCAB_FILE, &has_words, error));
    if (has_whole) {
        return BERTH_OK;
    }
    TRY(find_class(folder, class, error));
    if (*class != NULL) {
        TRY(folder_has_file(folder, (*class)->file, &found, error));
    }
    if (!found) {
        *class = NULL;
        return has_words ? BERTH_OK : check_other_files(folder, error);
    }
    *path = folder_file(folder, (*class)->file);
    return *path != NULL ? BERTH_OK : path_no_memory(error);
}

struct words_files {
    char *words, *merges; // contents
    json *settings, *specials, *added;
};

static enum berth_status read_file(const char *folder, const char *name, size_t limit, char **bytes,
                                   size_t *length, struct berth_error *error) {
    char *path = folder_file(folder, name);
    const enum berth_status status =
        path != NULL ? file_read(path, limit, bytes, length, error) : path_no_memory(error);
    memory_free(path);
    return status;
}

static enum berth_status read_all(const char *folder, const struct words_class *class,
                                  struct words_files *files, struct words_input *input,
                                  struct berth_error *error) {
    const int has_merges = words_class_has_merges(class);
    TRY(read_file(folder, class->file, has_merges ? JSON_FILE_LIMIT : SENTENCEPIECE_LIMIT,
                  &files->words, &input->length, error));
    if (has_merges) {
        TRY(read_file(folder, MERGES_FILE, MERGES_LIMIT, &files->merges, &input->merges_length,
                      error));
    }
    TRY(folder_read_object(folder, SETTINGS_FILE, &files->settings, error));
    TRY(folder_read_object(folder, SPECIALS_FILE, &files->specials, error));
    TRY(folder_read_object(folder, ADDED_FILE, &files->added, error));
    input->bytes = files->words;
    input->merges = files->merges;
    input->settings = files->settings;
    input->specials = files->specials;
    input->added = files->added;
    return BERTH_OK;
}

enum berth_status folder_words_read(const char *folder, const struct words_class *class,
                                    json **object, struct berth_error *error) {
    struct words_files files = {.words = NULL};
    struct words_input input = {.class = class, .name = class->file};
    *object = NULL;
    enum berth_status status = read_all(folder, class, &files, &input, error);
    status = status == BERTH_OK ? words_convert(&input, object, error) : status;
    memory_free(files.words);
    memory_free(files.merges);
    json_free(files.settings);
    json_free(files.specials);
    json_free(files.added);
    return status == BERTH_OK ? BERTH_OK : error_prefix(error, status, "%s", folder);
}
