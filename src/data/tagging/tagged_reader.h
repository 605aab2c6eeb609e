// SPDX-License-Identifier: Apache-2.0
// A data set of tags while it is read: what tagged.c hands to the reader of a format, with the
// functions that add to it. Only files tagged*.c include it.
#ifndef BERTH_DATA_TAGGED_READER_H
#define BERTH_DATA_TAGGED_READER_H

#include "core/string_index.h"
#include "data/tables/table.h"
#include "data/tagging/tagged.h"

struct tagged_storage {
    char *name, *bytes;        // of a file of columns
    struct table table;        // of JSON lines
    struct string_index names; // the tags
    const char **tag_names;
};

struct tagged_reader {
    const struct tagged_settings *settings;
    struct tagged_dataset *dataset;
    struct tagged_storage *storage;
    int has_tags;
    size_t word_capacity, tag_capacity, start_capacity, line_capacity;
    struct berth_error *error;
};

// Adds a word to the current sentence; `tag` is read only if the file has tags. The word is
// borrowed for as long as the data set lives, the tag is copied.
enum berth_status tagged_reader_add_word(struct tagged_reader *reader, const char *word,
                                         const char *tag);
// Begins a sentence whose first word is in `line`.
enum berth_status tagged_reader_begin_sentence(struct tagged_reader *reader, size_t line);
// Whether the requested number of sentences has been read.
int tagged_reader_is_full(const struct tagged_reader *reader);

enum berth_status tagged_read_columns(struct tagged_reader *reader, const char *path);
enum berth_status tagged_read_json(struct tagged_reader *reader, const char *path);

#endif
