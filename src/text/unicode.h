// SPDX-License-Identifier: Apache-2.0
// What the tokenizers' rules say about one code point, and UTF-8 in and out.
//
// The properties are not Unicode's but those of the two reference programs, read off them by
// dev/unicode/make_tables.py. Left out: normalisation beyond NFD without non-spacing marks (the
// only one that BERT uses), and upper case.
#ifndef BERTH_TEXT_UNICODE_H
#define BERTH_TEXT_UNICODE_H

#include <stddef.h>
#include <stdint.h>

enum unicode_flag {
    UNICODE_DROP = 1,        // removed by cleaning
    UNICODE_SPACE = 2,       // white space: ends a word
    UNICODE_PUNCTUATION = 4, // a word by itself
    UNICODE_CJK = 8,         // an ideograph that stands between blanks
    UNICODE_MARK = 16,       // nothing is left of it when accents are stripped
    UNICODE_MAPPED = 32,     // becomes other characters when lower-cased and stripped
    UNICODE_KEPT = 64,       // is, or contains, a combining character that is not stripped: the
                             // canonical order of its neighbours matters
    UNICODE_CASED = 128,     // Google's only: decides what becomes of a capital sigma
    UNICODE_IGNORABLE = 256  // Google's only: looked past when a capital sigma is judged
};

struct unicode_kind {
    uint16_t flags;
    uint8_t combining; // canonical combining class of the first character of the decomposition
};

// Columns of the tables: whose rules.
enum { UNICODE_HUGGINGFACE, UNICODE_GOOGLE };

#define UNICODE_MAP_MAX 3

// The kind of a code point (below 0x110000).
const struct unicode_kind *unicode_kind_of(uint32_t point, int column);

// What is done to characters. Flags speak of UNICODE_FOLD; MARK and KEPT hold for UNICODE_STRIP
// too.
enum unicode_mapping {
    UNICODE_FOLD,  // lower-cased, decomposed and stripped
    UNICODE_LOWER, // lower-cased only
    UNICODE_STRIP, // decomposed and stripped only
    UNICODE_AS_IS
};

// What becomes of a point that is not a MARK; of others as they are the point itself.
size_t unicode_map(uint32_t point, int column, enum unicode_mapping mapping,
                   uint32_t output[UNICODE_MAP_MAX]);

#endif
