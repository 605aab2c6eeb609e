// SPDX-License-Identifier: Apache-2.0
// A token that a model adds to its vocabulary, as `AddedToken` of the tokenizers library: it is
// never split in a text.
#ifndef BERTH_CORE_ADDED_TOKEN_H
#define BERTH_CORE_ADDED_TOKEN_H

enum added_flag {
    // Found where the text equals it after normalization, in any case if text is lower-cased; the
    // others are found as they are written.
    ADDED_NORMALIZED = 1,
    ADDED_SINGLE_WORD = 2, // not found beside a letter, digit, mark or connector such as _
    ADDED_LSTRIP = 4,      // includes the white space before it
    ADDED_RSTRIP = 8       // includes the white space after it
};

struct added_token {
    const char *text;
    unsigned flags;
};

#endif
