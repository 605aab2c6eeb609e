// SPDX-License-Identifier: Apache-2.0
// Writes the articles of a corpus to one text file, an article on each line with an empty line
// after it: what NVIDIA's bertPrep.py has between the articles and the shards, and what CORPUS_TEXT
// reads. The lines of an article are joined by blanks. For the job prepare (api/prepare.c); shards
// are written by text_shards.h.
#ifndef BERTH_DATA_ARTICLE_LINES_H
#define BERTH_DATA_ARTICLE_LINES_H

#include "core/file.h"
#include "data/corpus/corpus.h"

#include <stdatomic.h>

struct article_lines {
    struct file_writer file;
    int64_t articles, bytes; // written so far
};

// The file appears when it is complete, and replaces an existing one. After a failure call
// article_lines_done.
enum berth_status article_lines_open(struct article_lines *lines, const char *path,
                                     struct berth_error *error);
// Appends all articles of a source. BERTH_CANT_CREATE: the file that is written is one of its own.
// BERTH_INTERRUPTED: *stop was set.
enum berth_status article_lines_add(struct article_lines *lines, enum corpus_form form,
                                    const char *const *paths, size_t count, const atomic_int *stop,
                                    struct berth_error *error);
enum berth_status article_lines_commit(struct article_lines *lines, struct berth_error *error);
void article_lines_done(struct article_lines *lines);

#endif
