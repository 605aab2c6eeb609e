// SPDX-License-Identifier: Apache-2.0
// The basic tokenizer: cleaning, lower-casing, accent stripping and the split at white space,
// punctuation and ideographs, one word at a time, with the place every byte came from.
#ifndef BERTH_TEXT_BASIC_H
#define BERTH_TEXT_BASIC_H

#include "text/unicode.h"

#include <stddef.h>
#include <stdint.h>

// What a walk needs to know; shared by walks and threads.
struct basic_rules {
    int column;                   // UNICODE_HUGGINGFACE or UNICODE_GOOGLE
    enum unicode_mapping mapping; // what becomes of letters
    int whole_ideographs;         // ideographs are letters like others
    // Tokens that are never split nor changed where they stand in the text, the first of them.
    const char *const *specials;
    size_t special_count;
    unsigned char special_first[256]; // whether one of them begins with that byte
    int whole_specials; // they are so only where white space, ideographs or the text's ends
                        // surround them
    // What an ASCII byte becomes in a word, or one of the BASIC_* codes.
    unsigned char ascii[256];
};

enum { BASIC_SLOW, BASIC_SPACE, BASIC_PUNCTUATION, BASIC_DROP, BASIC_FIRST_LETTER };

// The character of the text that a byte of a word came from.
struct basic_origin {
    uint32_t character; // its number in code points
    uint32_t begin;     // its bytes
    uint32_t end;
};

struct basic_mark; // a combining character that waits to be put in order

// A walk over a text, and the word it stands at.
struct basic {
    const struct basic_rules *rules;
    const unsigned char *text;
    size_t length;
    size_t at;              // the next byte
    uint32_t character;     // the next character's number
    size_t run_at;          // where the combining characters before `at` begin
    uint32_t run_character; // number of the character there
    size_t ill_formed;

    const char *bytes; // the word, in the form that the vocabulary knows
    size_t count;
    size_t characters;
    int plain;                // the word came from `count` ASCII bytes in a row: byte i from
    uint32_t plain_begin;     // plain_begin + i, character plain_character + i, and `origins` does
    uint32_t plain_character; // not hold
    const struct basic_origin *origins; // [count]
    int special;                        // a special token, as it stands in the text

    char *buffer;
    struct basic_origin *places;
    size_t capacity;
    struct basic_mark *marks;
    size_t mark_capacity;
};

// Without special tokens.
void basic_rules_init(struct basic_rules *rules, int column, enum unicode_mapping mapping);
// Borrows the tokens, none of them empty; once, after basic_rules_init.
void basic_rules_keep(struct basic_rules *rules, const char *const *specials, size_t count);

// Begins a walk; length at most UINT32_MAX. basic_done frees what the walk allocated.
void basic_init(struct basic *walk, const struct basic_rules *rules, const char *text,
                size_t length);
void basic_done(struct basic *walk);

// The next word: 1; 0 at the end of the text; -1 when memory is out. The word's arrays are valid
// until the next call.
int basic_next(struct basic *walk);

// The character that byte `i` of the word came from.
static inline struct basic_origin basic_origin_of(const struct basic *walk, size_t i) {
    if (!walk->plain) {
        return walk->origins[i];
    }
    uint32_t begin = walk->plain_begin + (uint32_t)i;
    return (struct basic_origin){walk->plain_character + (uint32_t)i, begin, begin + 1};
}

#endif
