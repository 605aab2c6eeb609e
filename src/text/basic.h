// SPDX-License-Identifier: Apache-2.0
// The basic tokenizer: cleans, lower-cases and strips accents, and splits at white space,
// punctuation and ideographs. It yields one word at a time, with the origin of every byte.
// tokenizer.h cuts its words into pieces, and the counting of a vocabulary's words uses the same.
#ifndef BERTH_TEXT_BASIC_H
#define BERTH_TEXT_BASIC_H

#include "core/added_token.h"
#include "text/trie.h"
#include "text/unicode.h"

#include <stddef.h>
#include <stdint.h>

// The settings of walks; read-only, so threads may share them.
struct basic_rules {
    int column;                   // UNICODE_HUGGINGFACE or UNICODE_GOOGLE
    enum unicode_mapping mapping; // of letters
    int whole_ideographs;         // ideographs are ordinary letters
    // Tokens that are never split: first `written` ones, which are found in the text as they are
    // written, then those that are found where the text equals them after normalization.
    const struct added_token *specials;
    size_t special_count, written;
    struct trie normalized;           // of those, whose ids are their indices in `specials`
    unsigned char special_first[256]; // [byte]: whether one of them may begin with it
    int whole_specials; // only if surrounded by white space, ideographs or the ends of the text
    // What an ASCII byte becomes in a word, or one of the BASIC_* codes.
    unsigned char ascii[256];
};

enum { BASIC_SLOW, BASIC_SPACE, BASIC_PUNCTUATION, BASIC_DROP, BASIC_FIRST_LETTER };

// The character of the text that a byte of a word came from.
struct basic_origin {
    uint32_t character; // its index in code points
    uint32_t begin;     // its bytes in the text
    uint32_t end;
};

// The characters [character, character_end) of the text, and their bytes.
struct basic_range {
    uint32_t character, character_end;
    uint32_t begin, end;
};

struct basic_mark; // a combining character that waits to be sorted

// A walk over a text, and its current word.
struct basic_walk {
    const struct basic_rules *rules;
    const unsigned char *text;
    size_t length;
    size_t offset;          // the next byte
    uint32_t character;     // index of the next character
    size_t run_offset;      // where the combining characters before `offset` begin
    uint32_t run_character; // index of the character at run_offset
    size_t ill_formed;
    size_t special_end; // of the last special token
    size_t written_end; // of the last one that is found as it is written
    // Before these offsets no special token begins: one that is not a single word, as it must be,
    // hides those within it.
    size_t written_hidden, normalized_hidden;

    const char *bytes; // the word, or the special token, as the vocabulary sees it
    size_t count;
    size_t characters;
    int plain;                // the word came from `count` consecutive ASCII bytes: its byte i is
    uint32_t plain_begin;     // byte plain_begin + i and character plain_character + i of the text;
    uint32_t plain_character; // `origins` is not set
    const struct basic_origin *origins; // [count]
    struct basic_range special;         // of the special token that the word is; empty: it is none

    char *buffer;
    struct basic_origin *origin_buffer;
    size_t capacity;
    struct basic_mark *marks;
    size_t mark_capacity;
};

// Initialises rules without special tokens.
void basic_rules_init(struct basic_rules *rules, int column, enum unicode_mapping mapping);
// Sets the special tokens, which are borrowed and not empty; the first `written` of them are found
// as they are written. 0 when out of memory. Call it at most once, after basic_rules_init, and
// basic_rules_done at the end.
int basic_rules_set_specials(struct basic_rules *rules, const struct added_token *specials,
                             size_t count, size_t written);
void basic_rules_done(struct basic_rules *rules);

// Whether combining characters are stripped.
static inline int basic_strips(const struct basic_rules *rules) {
    return rules->mapping == UNICODE_FOLD || rules->mapping == UNICODE_STRIP;
}

// The flags of a character under these rules.
static inline unsigned basic_flags_of(const struct basic_rules *rules, uint32_t point) {
    unsigned flags = unicode_properties_of(point, rules->column)->flags;
    return rules->whole_ideographs ? flags & ~(unsigned)UNICODE_CJK : flags;
}

// Begins a walk; `length` is at most UINT32_MAX. basic_done frees its memory.
void basic_init(struct basic_walk *walk, const struct basic_rules *rules, const char *text,
                size_t length);
void basic_done(struct basic_walk *walk);

// Moves to the next word. Returns 1; 0 at the end of the text; -1 when out of memory. The word's
// arrays are valid until the next call.
int basic_next(struct basic_walk *walk);

// The origin of byte `i` of the word.
static inline struct basic_origin basic_origin_of(const struct basic_walk *walk, size_t i) {
    if (!walk->plain) {
        return walk->origins[i];
    }
    uint32_t begin = walk->plain_begin + (uint32_t)i;
    return (struct basic_origin){walk->plain_character + (uint32_t)i, begin, begin + 1};
}

// --- special tokens -----------------------------------------------------------------------------

// Tokens that are never split: first those that are found as they are written, then, in the texts
// between them, those that are found after normalization. What decides is the leftmost longest
// token, as in the tokenizers library.
struct special {
    const char *token; // NULL: none
    size_t begin, end; // bytes of the text, with the white space that belongs to it
    int written;       // found as it is written
};

// The special token at walk->offset. All offsets must be asked for at which one may begin
// (rules->special_first), in ascending order; asking again is harmless.
struct special special_at(struct basic_walk *walk);

// Builds rules->normalized from the special tokens that are not found as they are written, and
// marks in `special_first` the bytes with which a text may begin that becomes one of them. 0 when
// out of memory.
int special_build(struct basic_rules *rules);

#endif
