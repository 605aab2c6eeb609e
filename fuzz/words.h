// SPDX-License-Identifier: Apache-2.0
// The tokenizers of the fuzz targets, opened once and never closed.
#ifndef BERTH_FUZZ_WORDS_H
#define BERTH_FUZZ_WORDS_H

#include "input.h"
#include "text/tokenizer.h"

// A target has one vocabulary: that of the first call.
static inline const struct tokenizer *fuzz_tokenizer(const char *vocab, size_t size) {
    static struct tokenizer *tokenizer;
    if (tokenizer == NULL) {
        struct tokenizer_options options = {.lower_case = 1};
        require(tokenizer_open_memory("vocab", vocab, size, &options, &tokenizer, NULL) ==
                BERTH_OK);
    }
    return tokenizer;
}

// For texts of a few letters.
static inline const struct tokenizer *fuzz_words(void) {
    static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\n.\n";
    return fuzz_tokenizer(vocab, sizeof vocab - 1);
}

#endif
