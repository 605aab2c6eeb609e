// SPDX-License-Identifier: Apache-2.0
// text.json, a manifest (format/manifest): the finished text files, and where in the dump the next
// one begins. wiki/ keeps it while it works; the stages that read the text see a complete folder or
// refuse it.
#ifndef BERTH_DATA_WIKIPEDIA_STATE_H
#define BERTH_DATA_WIKIPEDIA_STATE_H

#include "core/file.h"
#include "data/wikipedia/wikipedia.h"
#include "format/manifest/manifest.h"

#include <stddef.h>

// A position between two pages.
struct wikipedia_position {
    uint64_t page;  // offset in the XML of the next page; 0: the start of the dump
    uint64_t block; // offset in the XML of the bzip2 block that contains it
    uint64_t bit;   // bit offset of that block in the dump
};

struct wikipedia_file {
    uint64_t bytes;
    struct wikipedia_position next; // after the last page of the file
    struct wikipedia_counts counts; // from the start of the dump up to `next`
};

// Folders AA to ZZ.
enum {
    WIKIPEDIA_FILES_PER_FOLDER = 100,
    WIKIPEDIA_FILES_MAX = 26 * 26 * WIKIPEDIA_FILES_PER_FOLDER
};

struct wikipedia_state {
    char *path;
    struct manifest_settings settings;
    int complete;
    int is_new; // created by this run, and no text file exists
    struct wikipedia_file *files;
    size_t count, capacity;
};

// Reads text.json, or creates it if the folder is empty. Drops entries of files that are
// missing or have another size, and all entries after them, so that they are made again.
enum berth_status wikipedia_state_open(struct wikipedia_state *state,
                                       const struct wikipedia_settings *settings,
                                       struct berth_error *error);
// Adds a file and writes text.json.
enum berth_status wikipedia_state_add(struct wikipedia_state *state, struct wikipedia_file file,
                                      struct berth_error *error);
enum berth_status wikipedia_state_complete(struct wikipedia_state *state,
                                           const struct wikipedia_counts *counts,
                                           struct berth_error *error);
// Removes a new text.json without entries.
void wikipedia_state_done(struct wikipedia_state *state);

// "AA/wiki_00" under `folder`, for an index below WIKIPEDIA_FILES_MAX; newly allocated, NULL when
// out of memory.
struct path wikipedia_file_path(const char *folder, size_t index);

#endif
