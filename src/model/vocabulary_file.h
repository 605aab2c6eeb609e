// SPDX-License-Identifier: Apache-2.0
// The vocabulary of a model as a file: vocab.txt, or the tokenizer.json of the tokenizers library,
// which is all that today's transformers writes.
//
// Of tokenizer.json what BERT's tokenizer is made of is read; another model, normalizer or splitter
// is refused by name, as is an added token that is looked for in normalized text.
#ifndef BERTH_MODEL_VOCABULARY_FILE_H
#define BERTH_MODEL_VOCABULARY_FILE_H

#include "core/error.h"
#include "format/json/json.h"

#include <stddef.h>

// How text is made ready, by a folder's files or by the settings.
struct text_rules {
    int lower_case;
    int strip_accents;          // -1: as lower_case
    int tokenize_chinese_chars; // whether ideographs are words by themselves
};
extern const struct text_rules text_rules_usual; // those of an uncased BERT

struct vocabulary_file {
    char *bytes; // the text of a vocab.txt: one token per line, line number = id
    size_t length;
    // Of a tokenizer.json:
    int has_rules; // whether it says `rules`
    struct text_rules rules;
    int max_word_length; // characters of the longest word that is cut; 0: not said
    const char **added;  // special tokens but [PAD], [UNK], [CLS], [SEP] and [MASK],
                         // NULL-terminated; NULL: none
    json *object;        // owns the texts
};

// Whether a path names a tokenizer.json (by the ending .json).
int vocabulary_file_is_json(const char *path);
// Reads either kind; errors name the file. Free with vocabulary_file_done, also after a failure.
enum berth_status vocabulary_file_read(const char *path, struct vocabulary_file *file,
                                       struct berth_error *error);
void vocabulary_file_done(struct vocabulary_file *file);

// The rules in the normalizer of the tokenizer.json at `path`; BERTH_CONFIG where that is none of
// BERT's.
enum berth_status vocabulary_file_rules(const char *path, struct text_rules *rules,
                                        struct berth_error *error);

#endif
