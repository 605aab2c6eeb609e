// SPDX-License-Identifier: Apache-2.0
// Builds the double array breadth first, so that nodes near the root, which every search visits,
// are close together in memory. Whole vocabularies and lists of special tokens are looked up in it.
#include "text/trie.h"

#include "core/memory.h"

#define ALPHABET 256
#define MAX_SLOTS ((size_t)1 << 31)

// A node whose children have no slots yet: the strings [first, last) share `depth` bytes.
struct pending {
    uint32_t node;
    size_t first, last, depth;
};

struct builder {
    struct trie *trie;
    const struct trie_string *strings;
    struct pending *queue;
    size_t queued, queue_capacity;
    size_t search_from; // where the search for free slots starts
};

static int grow_nodes(struct trie *trie, size_t needed) {
    if (needed <= trie->count) {
        return 1;
    }
    size_t count = needed + needed / 2 + 2 * ALPHABET;
    if (count > MAX_SLOTS) {
        return 0;
    }
    struct trie_node *nodes = memory_resize(trie->nodes, count, sizeof *nodes);
    if (nodes == NULL) {
        return 0;
    }
    for (size_t i = trie->count; i < count; i++) {
        nodes[i] = (struct trie_node){.parent = TRIE_NONE, .id = -1};
    }
    trie->nodes = nodes;
    trie->count = count;
    return 1;
}

static int push(struct builder *builder, struct pending pending) {
    struct pending *queue =
        memory_grow(builder->queue, &builder->queue_capacity, builder->queued + 1, sizeof *queue);
    if (queue == NULL) {
        return 0;
    }
    builder->queue = queue;
    builder->queue[builder->queued++] = pending;
    return 1;
}

static unsigned char byte_at(const struct builder *builder, size_t string, size_t depth) {
    return (unsigned char)builder->strings[string].bytes[depth];
}

static int fits(const struct trie *trie, size_t base, const unsigned char *labels, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (trie->nodes[base + labels[i]].parent != TRIE_NONE) {
            return 0;
        }
    }
    return 1;
}

// A base that puts all labels on free slots; SIZE_MAX when out of memory. Tries slots in ascending
// order. If it had to pass many slots, or nine tenths of them were in use, the next search starts
// where this one ended.
static size_t find_base(struct builder *builder, const unsigned char *labels, size_t count) {
    struct trie *trie = builder->trie;
    size_t taken = 0;
    size_t slot = builder->search_from > labels[0] ? builder->search_from : labels[0] + (size_t)1;
    size_t begin = slot;
    for (;; slot++) {
        if (!grow_nodes(trie, slot + 2 * ALPHABET)) {
            return SIZE_MAX;
        }
        if (trie->nodes[slot].parent != TRIE_NONE) {
            taken++;
        } else if (fits(trie, slot - labels[0], labels, count)) {
            break;
        }
    }
    if (taken * 10 >= (slot - begin + 1) * 9 || slot - begin > 4096) {
        builder->search_from = slot;
    }
    return slot - labels[0];
}

static int add_children(struct builder *builder, struct pending pending) {
    struct trie *trie = builder->trie;
    if (builder->strings[pending.first].length == pending.depth) {
        trie->nodes[pending.node].id = builder->strings[pending.first].id;
        pending.first++;
    }
    if (pending.first == pending.last) {
        return 1;
    }
    unsigned char labels[ALPHABET];
    // The distinct next bytes of the strings in `pending`, ascending.
    size_t count = 0;
    for (size_t i = pending.first; i < pending.last; i++) {
        unsigned char byte = byte_at(builder, i, pending.depth);
        if (count == 0 || labels[count - 1] != byte) {
            labels[count++] = byte;
        }
    }
    size_t base = find_base(builder, labels, count);
    if (base == SIZE_MAX) {
        return 0;
    }
    trie->nodes[pending.node].base = (uint32_t)base;
    size_t first = pending.first;
    for (size_t i = 0; i < count; i++) {
        size_t last = first;
        while (last < pending.last && byte_at(builder, last, pending.depth) == labels[i]) {
            last++;
        }
        uint32_t child = (uint32_t)(base + labels[i]);
        trie->nodes[child].parent = pending.node;
        if (!push(builder, (struct pending){child, first, last, pending.depth + 1})) {
            return 0;
        }
        first = last;
    }
    return 1;
}

int trie_build(struct trie *trie, const struct trie_string *strings, size_t count) {
    *trie = (struct trie){0};
    struct builder builder = {.trie = trie, .strings = strings, .search_from = 1};
    int done = grow_nodes(trie, 2 * ALPHABET);
    if (done) {
        trie->nodes[0].parent = TRIE_NONE - 1; // in use, but no node's child
        done = count == 0 || push(&builder, (struct pending){0, 0, count, 0});
    }
    for (size_t next = 0; done && next < builder.queued; next++) {
        done = add_children(&builder, builder.queue[next]);
    }
    memory_free(builder.queue);
    if (!done) {
        trie_done(trie);
    }
    return done;
}

void trie_done(struct trie *trie) {
    memory_free(trie->nodes);
    *trie = (struct trie){0};
}

uint32_t trie_walk(const struct trie *trie, uint32_t node, const char *bytes, size_t length) {
    for (size_t i = 0; i < length && node != TRIE_NONE; i++) {
        node = trie_step(trie, node, (unsigned char)bytes[i]);
    }
    return node;
}
