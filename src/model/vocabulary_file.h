// SPDX-License-Identifier: Apache-2.0
// Reads a model's vocabulary file: vocab.txt, or the tokenizer.json of the tokenizers library,
// which is all that current versions of transformers write.
//
// Of BERT's tokenizer.json the words and the rules are read here. Another one is only recognised:
// it is a pipeline of components, which the room text reads (text/text_pipeline.h).
#ifndef BERTH_MODEL_VOCABULARY_FILE_H
#define BERTH_MODEL_VOCABULARY_FILE_H

#include "core/added_token.h"
#include "core/error.h"
#include "format/json/json.h"

#include <stddef.h>
#include <stdint.h>

// How text is normalised, according to a folder's files or to the settings.
struct text_rules {
    int lower_case;
    int strip_accents;          // -1: as lower_case
    int tokenize_chinese_chars; // each ideograph is a word
    int is_pipeline;            // the folder's tokenizer.json says all: the other rules are unused
    int google_pairs;           // pairs are truncated by Google's rule (data/pairs/pair_features.h)
};
extern const struct text_rules text_rules_default; // the rules of an uncased BERT

struct vocabulary_file {
    char *bytes; // the text of a vocab.txt: one token per line, line number = id
    size_t length;
    // Ids from this one on were added to the words: they are never pieces of one. 0: none.
    size_t word_pieces;
    // From a tokenizer.json only:
    int has_rules; // whether `rules` is set
    int is_other;  // it is not BERT's: nothing else is set but `object` and `rules`
    struct text_rules rules;
    int max_word_length; // characters; longer words become [UNK]; 0: unspecified
    json *object;
    // Of [PAD], [UNK], [CLS], [SEP] and [MASK] only those with flags.
    struct added_token *added;
    size_t added_count, added_capacity;
};

// Whether the token is [PAD], [UNK], [CLS], [SEP] or [MASK].
int vocabulary_is_bert_special(const char *token);
// Whether the path is that of a tokenizer.json (it ends in .json).
int vocabulary_file_is_json(const char *path);
// Reads either kind of file into an empty *file ({0}), or the rest of the opened one; errors name
// it. A tokenizer.json that is not BERT's is no error (is_other). Call vocabulary_file_done
// afterwards, even on failure.
enum berth_status vocabulary_file_read(const char *path, struct vocabulary_file *file,
                                       struct berth_error *error);
// Parses the tokenizer.json at `path` and takes everything but the tokens from it. BERTH_CONFIG,
// naming the part, if it is not BERT's.
enum berth_status vocabulary_file_open(const char *path, struct vocabulary_file *file,
                                       struct berth_error *error);
void vocabulary_file_done(struct vocabulary_file *file);

// Adds a token, at the end if the vocabulary lacks it. `name` is the file that says so. The token
// must have that id; -1: any.
enum berth_status vocabulary_file_add(struct vocabulary_file *file, const char *name,
                                      struct added_token token, int64_t id,
                                      struct berth_error *error);
// Whether it is one of the added tokens.
int vocabulary_file_adds(const struct vocabulary_file *file, const char *text);
// The text of the first added token but the usual special ones; NULL: there are none.
const char *vocabulary_file_first_added(const struct vocabulary_file *file);
// Reads the flags of an added token of the file `name`.
enum berth_status vocabulary_added_flags(const json *token, const char *name, unsigned *flags,
                                         struct berth_error *error);

// Reads the rules of the tokenizer.json at `path`, and whether it is another one than BERT's.
enum berth_status vocabulary_file_rules(const char *path, struct text_rules *rules, int *is_other,
                                        struct berth_error *error);

#endif
