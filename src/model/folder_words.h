// SPDX-License-Identifier: Apache-2.0
// Words in other files than vocab.txt and tokenizer.json: vocab.json with merges.txt, and models of
// sentencepiece. They say what the words are, and the class of the tokenizer what is done with a
// text. Both become the tokenizer.json that transformers 5 would make of the folder, so that
// nothing else knows these files.
#ifndef BERTH_MODEL_FOLDER_WORDS_H
#define BERTH_MODEL_FOLDER_WORDS_H

#include "core/error.h"
#include "format/json/json.h"

#include <stddef.h>

struct words_class; // of a tokenizer

// The class by its name in "tokenizer_class", or without one by the model's type; NULL: none of
// them has such files.
const struct words_class *words_class_find(const char *name, const char *model_type);
const char *words_class_name(const struct words_class *class);
const char *words_class_file(const struct words_class *class); // "vocab.json"
int words_class_has_merges(const struct words_class *class);   // merges.txt beside it

// The contents of a folder's files.
struct words_input {
    const struct words_class *class;
    const char *name; // of the file of words, for messages
    const char *bytes;
    size_t length;
    const char *merges; // of merges.txt
    size_t merges_length;
    const json *settings, *specials, *added; // NULL: none
};
// Makes a value of tokenizer.json; json_free. BERTH_BAD_DATA or BERTH_CONFIG, naming the part, if
// that is not possible.
enum berth_status words_convert(const struct words_input *input, json **object,
                                struct berth_error *error);

// The folder's file of words, newly allocated, and its class. NULL: it has a tokenizer.json, or no
// file that its class is made of. BERTH_CONFIG if it has nothing but files of words of another
// class.
enum berth_status folder_words_path(const char *folder, char **path,
                                    const struct words_class **class, struct berth_error *error);
// Reads the files of the class.
enum berth_status folder_words_read(const char *folder, const struct words_class *class,
                                    json **object, struct berth_error *error);

#endif
