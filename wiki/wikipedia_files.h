// SPDX-License-Identifier: Apache-2.0
// Writes articles to files, AA/wiki_00 and so on: the tags around an article, when a file is full,
// and which files are finished (text.json). wikipedia.c gives articles in the order of the dump.
#ifndef BERTH_WIKI_WIKIPEDIA_FILES_H
#define BERTH_WIKI_WIKIPEDIA_FILES_H

#include "core/buffer.h"
#include "core/file.h"
#include "data/wikipedia/wikipedia_state.h"

struct wikipedia_article {
    int64_t id;
    const char *url;                // of the wiki
    const char *title;              // NUL-terminated
    const char *text;               // from wikipedia_put_text
    size_t length;                  // 0: nothing is written
    int64_t left_out;               // its sentences with unknown templates
    struct wikipedia_position end;  // after the page
    struct wikipedia_counts counts; // of the pages read, this one included
};

// Zero-initialise with descriptors of -1.
struct wikipedia_files {
    const struct wikipedia_settings *settings;
    struct file_lock lock;
    struct wikipedia_state state;
    struct file_writer writer;
    struct buffer header;
    uint64_t written;              // bytes in the open file; 0: none is open
    struct wikipedia_file last;    // the entry that the open file would have now
    struct wikipedia_counts saved; // articles, text and files that are written
};

// Creates and locks the folder, and finds what earlier runs have finished; `last` is then the last
// of these files. Call wikipedia_files_close, also after a failure.
enum berth_status wikipedia_files_open(struct wikipedia_files *files,
                                       const struct wikipedia_settings *settings,
                                       struct berth_error *error);
// Appends the text of an article; document tags in it become "&lt;doc id=" and "&lt;/doc>".
void wikipedia_put_text(struct buffer *to, const char *text, size_t length);
// Writes an article; they must come in the order of their pages.
enum berth_status wikipedia_files_put(struct wikipedia_files *files,
                                      const struct wikipedia_article *article,
                                      struct berth_error *error);
// Finishes the last file and text.json. *counts has the counts of pages read; those of what is
// written are filled in.
enum berth_status wikipedia_files_end(struct wikipedia_files *files,
                                      struct wikipedia_counts *counts, struct berth_error *error);
void wikipedia_files_close(struct wikipedia_files *files);

#endif
