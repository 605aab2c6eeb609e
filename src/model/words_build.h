// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json in the making (folder_words.h): the words that the files give, the tokens that
// are added to them, and the class of tokenizer whose row says the rest.
#ifndef BERTH_MODEL_WORDS_BUILD_H
#define BERTH_MODEL_WORDS_BUILD_H

#include "core/string_index.h"
#include "format/sentencepiece/sentencepiece.h"
#include "model/folder_words.h"

#include <stdint.h>

#define WORDS_FILE "vocab.json"
#define MERGES_FILE "merges.txt"

// In the order in which transformers adds them.
enum { NAMED_BEGIN, NAMED_END, NAMED_UNKNOWN, NAMED_SEP, NAMED_PAD, NAMED_CLS, NAMED_MASK, NAMED };
extern const char *const words_named_keys[NAMED];

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
    int cls, sep;   // of the named tokens, those that the processor puts around a text; -1: none
    int takes_ends; // "add_bos_token" and "add_eos_token" replace the processor
};

// A key of special_tokens_map.json, or of the settings; NULL: neither has it.
const json *words_setting(const struct words *words, const char *key);
int words_flag(const struct words *words, const char *key, int usual);
// Whether the class is the general one, which has no names of its own.
int words_are_general(const struct words *words);
// The text of a named token; NULL: there is none.
const char *words_name(const struct words *words, int named);
// The same where transformers takes the usual name if the files give none.
const char *words_name_in_list(const struct words *words, int named);
// The id of a word or an added token; -1: none.
int64_t words_find_id(const struct words *words, const char *text);
// Adds the tokens that the settings, the class and the model name.
enum berth_status words_add_tokens(struct words *words, struct berth_error *error);
enum berth_status words_no_memory(const struct words *words, struct berth_error *error);

const struct words_class *words_class_at(size_t number); // NULL: there are no more

// Fill the words of a class from its files.
enum berth_status words_read_bpe(struct words *words, struct berth_error *error);
enum berth_status words_read_xlm(struct words *words, struct berth_error *error);
enum berth_status words_read_camembert(struct words *words, struct berth_error *error);
enum berth_status words_read_albert(struct words *words, struct berth_error *error);
enum berth_status words_read_big_bird(struct words *words, struct berth_error *error);
enum berth_status words_read_general(struct words *words, struct berth_error *error);

#endif
