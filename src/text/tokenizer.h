// SPDX-License-Identifier: Apache-2.0
// Converts text to ids, with the offsets of every piece in the text. BERT's tokenizer does so in
// one pass: cleaning, lower-casing, splitting and greedy longest match. Others are pipelines of
// components (text_pipeline.h), behind the same functions.
//
// BERT's has two rule sets: TOKENIZER_HUGGINGFACE equals the `tokenizers` library (BertNormalizer,
// BertPreTokenizer, WordPiece with words of at most 100 characters); TOKENIZER_GOOGLE follows
// Google's tokenization.py (200 characters, its Unicode ranges, final sigma).
// Text is bytes with a length; each ill-formed UTF-8 sequence counts as U+FFFD, which is dropped.
// An open tokenizer is read-only, so threads may share it.
#ifndef BERTH_TEXT_TOKENIZER_H
#define BERTH_TEXT_TOKENIZER_H

#include "core/added_token.h"
#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

enum tokenizer_rules { TOKENIZER_HUGGINGFACE, TOKENIZER_GOOGLE };

enum tokenizer_accents {
    TOKENIZER_ACCENTS_AUTO, // stripped where text is lower-cased
    TOKENIZER_ACCENTS_STRIP,
    TOKENIZER_ACCENTS_KEEP
};

struct tokenizer_options {
    enum tokenizer_rules rules;
    int lower_case;
    enum tokenizer_accents accents;
    int whole_ideographs; // 1: ideographs are ordinary letters, not words of their own
    // Tokens that are never split beyond [PAD], [UNK], [CLS], [SEP] and [MASK], or the flags of
    // these. Not kept.
    const struct added_token *added;
    size_t added_count;
    // Ids from this one on are never pieces of a word: they are only matched as special tokens. 0:
    // all may be pieces.
    size_t word_pieces;
    int max_word_length; // characters; 0: the rule set's own (100 or 200)
    int one_type;        // 1: inputs made of the tokens give both texts of a pair the type 0
    int google_pairs;    // 1: inputs of two long texts are truncated by Google's rule
    int cleans_up;       // 1: decoded text is cleaned of some blanks (decode.h)
    int keeps_blanks;    // 1: decoded text has blanks before . , ? ! n't and the like
    int keeps_pieces;    // 1: decoded text is the tokens, separated by blanks
    int split_special;   // 1: [CLS] and the like are ordinary characters of a text; -1: they are
                         // tokens, by Hugging Face's rules anywhere, by Google's only as separate
                         // words, as in NVIDIA's copy; 0: the default of the rule set (-1 or 1).
                         // Those that are not in the vocabulary are always ordinary text
};

struct tokenizer; // owns the vocabulary
struct json_t;
struct text_pipeline;
struct text_room;

struct tokenizer_special {
    int32_t pad, unknown, cls, sep, mask; // -1: not in the vocabulary
    int separators;                       // `sep` between the texts of a pair: 1 or 2
};

// The names of special tokens of a pipeline that its files give; NULL: those of its components.
struct tokenizer_names {
    const char *pad, *unknown, *mask;
};

// One piece. Offsets refer to the original text.
struct token {
    int32_t id;
    int32_t word;   // index of the basic token (word) that it is part of
    uint32_t begin; // first character, in code points
    uint32_t end;   // one past the last character, in code points
    uint32_t byte_begin;
    uint32_t byte_end;
};

// A growing list of tokens, reused between calls to avoid allocation. Zero-initialise.
struct token_list {
    struct token *items;
    size_t count;
    size_t capacity;
    size_t ill_formed;      // ill-formed UTF-8 sequences since the caller last set it to 0
    struct text_room *room; // memory of a pipeline
};

void token_list_done(struct token_list *list);
// Takes white space at the beginnings of tokens out of their offsets: a pipeline may count the
// blank before a word to its first token.
void token_list_trim(struct token_list *list, const char *text);

// Reads a vocabulary: one token per line, whose number from 0 is its id; lines end in LF, or all in
// CR LF.
// Errors: missing file (BERTH_NO_INPUT), empty file, invalid UTF-8 with its offset, byte order
// mark, NUL, no [UNK] (BERTH_BAD_DATA).
enum berth_status tokenizer_open(const char *vocab_path, const struct tokenizer_options *options,
                                 struct tokenizer **tokenizer, struct berth_error *error);
// As tokenizer_open for a vocabulary in memory; messages call it `name`.
enum berth_status tokenizer_open_memory(const char *name, const char *bytes, size_t length,
                                        const struct tokenizer_options *options,
                                        struct tokenizer **tokenizer, struct berth_error *error);
// Opens a tokenizer.json that was parsed as a pipeline; messages call it `name`. Of the options
// split_special, cleans_up and google_pairs count; its components say whether pairs have one type.
enum berth_status tokenizer_open_pipeline(const char *name, const struct json_t *object,
                                          const struct tokenizer_names *names,
                                          const struct tokenizer_options *options,
                                          struct tokenizer **tokenizer, struct berth_error *error);
void tokenizer_close(struct tokenizer *tokenizer);
// NULL: BERT's tokenizer.
const struct text_pipeline *tokenizer_pipeline(const struct tokenizer *tokenizer);

size_t tokenizer_size(const struct tokenizer *tokenizer);
// The options with defaults filled in: split_special is 0 or 1, no tokens are added.
const struct tokenizer_options *tokenizer_rules_of(const struct tokenizer *tokenizer);
struct tokenizer_special tokenizer_special_ids(const struct tokenizer *tokenizer);
// The tokens that are never split in a text: the special ones and the added ones; *count is their
// number.
const struct added_token *tokenizer_specials(const struct tokenizer *tokenizer, size_t *count);
// The piece of an id, NUL-terminated UTF-8 ("##ing"); NULL if the id is out of range.
const char *tokenizer_piece(const struct tokenizer *tokenizer, int32_t id);
// The number of pieces with a capital letter of ASCII, which no text has after conversion to lower
// case; 0 if the tokenizer keeps the case. Special ("[UNK]") and added tokens do not count.
size_t tokenizer_capital_pieces(const struct tokenizer *tokenizer);
// The id of a piece, or -1.
int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *piece, size_t length);

// Appends the pieces of text[0, length) to `list`. The only error is BERTH_NO_MEMORY, also for a
// text of 2^32 - 1 bytes or more.
enum berth_status tokenizer_encode(const struct tokenizer *tokenizer, const char *text,
                                   size_t length, struct token_list *list,
                                   struct berth_error *error);

// The basic tokens of a text (after cleaning and, if the tokenizer does so, lower-casing) joined by
// single blanks, as Google's BasicTokenizer returns them; newly allocated (memory_free),
// *words_length bytes and a NUL. Not of a pipeline. The only error is that of tokenizer_encode.
enum berth_status tokenizer_basic(const struct tokenizer *tokenizer, const char *text,
                                  size_t length, char **words, size_t *words_length,
                                  struct berth_error *error);

// The text of ids[count], newly allocated (memory_free); NULL: out of memory. Ids outside the
// vocabulary and [PAD] are skipped; with `skips_special` so are [CLS], [SEP], [MASK] and [UNK].
char *decode_text(const struct tokenizer *tokenizer, const int32_t *ids, size_t count,
                  int skips_special);

#endif
