// SPDX-License-Identifier: Apache-2.0
// Memory that belongs to a command line: words from a file, paths that were found. Verbs hand
// blocks over while they read their words and run, and main.c frees all of them when the verb has
// ended.
#include "cli.h"
#include "core/memory.h"

struct owned {
    struct owned *next;
    void *block;
};

static struct owned *list;

void *cli_own(void *block) {
    struct owned *owned = block != NULL ? memory_new(sizeof *owned) : NULL;
    if (owned == NULL) {
        memory_free(block);
        return NULL;
    }
    *owned = (struct owned){.next = list, .block = block};
    list = owned;
    return block;
}

void cli_free_owned(void) {
    while (list != NULL) {
        struct owned *owned = list;
        list = owned->next;
        memory_free(owned->block);
        memory_free(owned);
    }
}
