// SPDX-License-Identifier: Apache-2.0
// The tokenizers' rules for one code point: its properties and its mappings.
//
// The properties are those of the two reference programs, which differ from Unicode's; they were
// extracted by dev/unicode/make_tables.py. For BERT's own tokenizer the only normal form is NFD
// without non-spacing marks; the components of other tokenizers use all four. basic.c, special.c
// and the components look characters up.
#ifndef BERTH_TEXT_UNICODE_H
#define BERTH_TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

enum unicode_flag {
    UNICODE_DROP = 1,        // removed by cleaning
    UNICODE_SPACE = 2,       // white space: ends a word
    UNICODE_PUNCTUATION = 4, // a word of its own
    UNICODE_CJK = 8,         // an ideograph: gets blanks around it
    UNICODE_MARK = 16,       // removed when accents are stripped
    UNICODE_MAPPED = 32,     // becomes other characters when lower-cased and stripped
    UNICODE_KEPT = 64,       // is, or contains, a combining character that is not stripped, so
                             // the canonical order of its neighbours matters
    UNICODE_CASED = 128,     // Google's only: a cased letter, which decides about a capital sigma
    UNICODE_IGNORABLE = 256, // Google's only: ignored when deciding about a capital sigma
    UNICODE_WORD = 512       // \w of the tokenizers library: a letter, digit, mark or connector
};

struct unicode_properties {
    uint16_t flags;
    uint8_t combining; // canonical combining class of the first character of the decomposition
};

// The columns of the tables: whose rules.
enum { UNICODE_HUGGINGFACE, UNICODE_GOOGLE };

#define UNICODE_MAP_MAX 3

// The properties of a code point (below 0x110000).
const struct unicode_properties *unicode_properties_of(uint32_t point, int column);

// How characters are mapped. The flags describe UNICODE_FOLD; MARK and KEPT also apply to
// UNICODE_STRIP.
enum unicode_mapping {
    UNICODE_FOLD,  // lower-cased, decomposed and stripped
    UNICODE_LOWER, // lower-cased only
    UNICODE_STRIP, // decomposed and stripped only
    UNICODE_AS_IS
};

// Maps a point that is not a MARK to output[]; returns the number of points. A point without a
// mapping is mapped to itself.
size_t unicode_map(uint32_t point, int column, enum unicode_mapping mapping,
                   uint32_t output[UNICODE_MAP_MAX]);

// What the components of the tokenizers library but BERT's take a character for.
enum unicode_kind {
    UNICODE_LETTER = 1,       // \p{L} of its regular expressions
    UNICODE_NUMBER = 2,       // \p{N}
    UNICODE_NUMERIC = 4,      // numeric to the component Digits
    UNICODE_BLANK = 8,        // white space
    UNICODE_ACCENT = 16,      // removed by the component StripAccents
    UNICODE_JOINS = 32,       // continues a cluster of characters
    UNICODE_JOINED = 64,      // begins a cluster that the next character continues
    UNICODE_CONTROL = 128,    // is a cluster of its own
    UNICODE_DECOMPOSES = 256, // has a decomposition
    UNICODE_COMPOSES = 512    // may compose a character with the one before it
};

struct unicode_component {
    uint16_t kinds;
    uint8_t combining; // canonical combining class of a character without decomposition
};
struct unicode_component unicode_component_of(uint32_t point);

#define UNICODE_PARTS_MAX 18
// The whole decomposition of a character, canonical or compatible; the number of its parts.
size_t unicode_decompose(uint32_t point, int compatible, uint32_t output[UNICODE_PARTS_MAX]);
// The character that two compose in the forms NFC and NFKC; 0: none.
uint32_t unicode_compose(uint32_t first, uint32_t second);

#endif
