// SPDX-License-Identifier: Apache-2.0
// The names of the tokenizer's files of a folder, and which class of tokenizer they name. The other
// folder_*.c of the tokenizer read their files by what is found here.
#ifndef BERTH_MODEL_FOLDER_CLASS_H
#define BERTH_MODEL_FOLDER_CLASS_H

#include "core/error.h"
#include "format/json/json.h"

#define CONFIG_FILE "config.json"
#define SETTINGS_FILE "tokenizer_config.json"
#define SPECIALS_FILE "special_tokens_map.json"
#define VOCAB_FILE "vocab.txt"
#define TOKENIZER_FILE "tokenizer.json"
#define ADDED_FILE "added_tokens.json"

// The special tokens that a tokenizer has a key for, and BERT's name of each.
struct special_token {
    const char *key, *text;
};
#define SPECIAL_TOKENS 5
extern const struct special_token special_tokens[SPECIAL_TOKENS];

// Keys of the tokens that are special beside BERT's: a list, an object of names and tokens, or one
// token.
#define OTHER_TOKEN_KEYS 4
extern const char *const other_token_keys[OTHER_TOKEN_KEYS];

// The object in a file of the folder; NULL if there is none.
enum berth_status folder_read_object(const char *folder, const char *name, json **object,
                                     struct berth_error *error);

// The first class that "architectures" of the folder's config.json names; "": none, or a name of
// `size` bytes or more.
enum berth_status folder_read_architecture(const char *folder, char *name, size_t size,
                                           struct berth_error *error);

// Which tokenizer a folder's files name, as transformers chooses it.
enum class_kind {
    CLASS_OF_BERT, // built from the settings; only the words of tokenizer.json are used
    CLASS_GENERAL, // tokenizer.json as it is
    CLASS_OTHER    // tokenizer.json as it is, but it must be a BERT tokenizer
};
// The kind of the class that "tokenizer_class" names.
enum class_kind folder_class_kind(const char *name);

struct folder_class {
    enum class_kind kind;
    const char *file; // that names the class
    char name[64];
};
// `settings` is tokenizer_config.json, or NULL. If it names no class, config.json does; if that
// names none either, the class follows from the model's type.
enum berth_status folder_find_class(const char *folder, const json *settings,
                                    struct folder_class *class, struct berth_error *error);

// Whether the folder's tokenizer gives every token the type 0, so that a pair's texts have the
// same.
enum berth_status folder_has_one_type(const char *folder, const json *settings, int *one_type,
                                      struct berth_error *error);
// Makes settings say so; not 0 when out of memory.
int folder_set_one_type(json *settings);

#endif
