// SPDX-License-Identifier: Apache-2.0
// text.json: which files of text are finished, and where in the dump the next one begins.
#ifndef BERTH_DATA_WIKIPEDIA_STATE_H
#define BERTH_DATA_WIKIPEDIA_STATE_H

#include "data/wikipedia/wikipedia.h"

#include <stddef.h>

// A place between two pages.
struct wikipedia_place {
    uint64_t page;  // byte of the XML where the next page begins; 0: the dump's begin
    uint64_t block; // byte of the XML where the block of bzip2 that holds it begins
    uint64_t bit;   // of the dump, where that block begins
};

struct wikipedia_file {
    uint64_t bytes;
    struct wikipedia_place next;    // after its last page
    struct wikipedia_counts counts; // from the dump's begin to there
};

struct wikipedia_state {
    char *path;
    char dump[65]; // SHA-256 of the first mebibyte
    uint64_t file_size;
    int complete;
    int is_new; // begun by this run, and no file of text is there
    struct wikipedia_file *files;
    size_t count, capacity;
};

// Reads text.json, or begins a new one when the folder is empty. Files that are not there any more,
// or have another size, are forgotten with all that follow them, so that they are made again.
enum berth_status wikipedia_state_open(struct wikipedia_state *state,
                                       const struct wikipedia_settings *settings,
                                       struct berth_error *error);
// Adds a file and writes text.json.
enum berth_status wikipedia_state_add(struct wikipedia_state *state, struct wikipedia_file file,
                                      struct berth_error *error);
enum berth_status wikipedia_state_complete(struct wikipedia_state *state,
                                           const struct wikipedia_counts *counts,
                                           struct berth_error *error);
// Removes a text.json that is new and in which nothing was entered.
void wikipedia_state_done(struct wikipedia_state *state);

// "AA/wiki_00" under `folder`; newly allocated, NULL when memory is out.
char *wikipedia_file_path(const char *folder, size_t index);

#endif
