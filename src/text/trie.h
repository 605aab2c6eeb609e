// SPDX-License-Identifier: Apache-2.0
// A trie of byte strings as a double array (Aoe, "An efficient digital search algorithm by using a
// double-array structure", 1989): the child of node n by byte c is slot base[n] + c, if that slot's
// parent is n. Slot 0 is the root. Read-only once built. Vocabularies, special tokens and unigram
// models are searched with it.
#ifndef BERTH_TEXT_TRIE_H
#define BERTH_TEXT_TRIE_H

#include <stddef.h>
#include <stdint.h>

#define TRIE_NONE UINT32_MAX

struct trie_node {
    uint32_t base;
    uint32_t parent; // TRIE_NONE: a free slot
    int32_t id;      // of the string that ends here, or -1
};

struct trie {
    struct trie_node *nodes; // there are at least 256 after any base
    size_t count;
};

struct trie_string {
    const char *bytes;
    size_t length;
    int32_t id;
};

// Builds the trie of `count` distinct strings in ascending order of their bytes (as memcmp, a
// prefix first). 0 when out of memory, or if it would need more than 2^31 slots; the trie is then
// empty.
int trie_build(struct trie *trie, const struct trie_string *strings, size_t count);
void trie_done(struct trie *trie);

// The child of `node` by `byte`, or TRIE_NONE.
static inline uint32_t trie_step(const struct trie *trie, uint32_t node, unsigned char byte) {
    uint32_t child = trie->nodes[node].base + byte;
    return trie->nodes[child].parent == node ? child : TRIE_NONE;
}

// The node reached from `node` by the whole string, or TRIE_NONE.
uint32_t trie_walk(const struct trie *trie, uint32_t node, const char *bytes, size_t length);

#endif
