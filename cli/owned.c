// SPDX-License-Identifier: Apache-2.0
// Memory that a command line makes and that is used until its verb ends.
#include "cli.h"
#include "core/memory.h"

struct kept {
    struct kept *next;
    void *block;
};

static struct kept *all;

void *cli_keep(void *block) {
    struct kept *kept = block != NULL ? memory_new(sizeof *kept) : NULL;
    if (kept == NULL) {
        memory_free(block);
        return NULL;
    }
    *kept = (struct kept){.next = all, .block = block};
    all = kept;
    return block;
}

void cli_release(void) {
    while (all != NULL) {
        struct kept *kept = all;
        all = kept->next;
        memory_free(kept->block);
        memory_free(kept);
    }
}
