// SPDX-License-Identifier: Apache-2.0
// A vocabulary: tokens by id. Of WordPiece it is a text file with one token per line, whose number
// from 0 is its id. tokenizer.h looks pieces up; which file of a folder has the vocabulary is found
// by model/folder_vocabulary.c.
#ifndef BERTH_TEXT_VOCABULARY_H
#define BERTH_TEXT_VOCABULARY_H

#include "core/error.h"
#include "text/trie.h"

struct vocabulary {
    char *text;     // the tokens, each followed by a NUL
    size_t *starts; // [count + 1] offsets of the tokens, then the length of `text`
    size_t count;
    struct trie trie; // from a token's bytes to its id
};

// Reads the bytes of a vocabulary file; messages call it `name`. Lines end in LF, or all of them in
// CR LF; nothing else is stripped. Of equal lines the last is the token's. Errors (BERTH_BAD_DATA):
// no lines, a byte order mark, ill-formed UTF-8, a NUL byte.
enum berth_status vocabulary_read(struct vocabulary *vocabulary, const char *name,
                                  const char *bytes, size_t length, struct berth_error *error);
// The vocabulary of `count` tokens by id; NULL: the id has none, and its text is empty.
enum berth_status vocabulary_collect(struct vocabulary *vocabulary, const char *const *tokens,
                                     size_t count, struct berth_error *error);
void vocabulary_done(struct vocabulary *vocabulary);

// The id of a token, or -1.
int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *token, size_t length);

// Sorts the strings and builds their trie; of equal ones the last id counts. 0 when out of memory.
int vocabulary_build_trie(struct trie *trie, struct trie_string *strings, size_t count);

#endif
