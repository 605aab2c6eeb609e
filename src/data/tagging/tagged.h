// SPDX-License-Identifier: Apache-2.0
// Reads sentences whose words have a tag each (named entities, parts of speech): CoNLL's columns,
// or JSON lines with an array of words and an array of tags.
//
//   columns     one word per line, columns separated by blanks or tabs, an empty line after each
//               sentence; lines whose word is -DOCSTART- are skipped
//   JSON lines  one sentence per line: {"tokens": ["EU", "rejects"], "ner_tags": ["B-ORG", "O"]}
//
// The extension gives the format: .json, .jsonl and .ndjson are JSON lines, all others columns.
// Comments and multi-word tokens (CoNLL-U) and nested tags are not supported; metrics/entities.h
// interprets tag schemes. The task tag makes windows of the sentences (word_windows.h).
#ifndef BERTH_DATA_TAGGED_H
#define BERTH_DATA_TAGGED_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct tagged_settings {
    // In JSON lines the name of a column, otherwise its number from 1. NULL: "tokens" or "words";
    // column 1.
    const char *word_column;
    // The same for tags. NULL: "ner_tags", "tags" or "labels"; the last column. "0": no tags.
    const char *tag_column;
    // 1: the file may have no tags, or only empty or null arrays of tags.
    int tag_optional;
    int64_t sentences; // > 0: reads only the first so many
};

struct tagged_dataset {
    const char *name;             // the file
    const char **words;           // [word_count], not empty
    int32_t *tags;                // [word_count] index in tag_names; NULL: the file has no tags
    size_t *starts;               // [count + 1] first word of each sentence, then word_count
    size_t *lines;                // [count] line of each sentence's first word
    int word_lines;               // 1: each word has a line of its own
    const char *const *tag_names; // ascending: as numbers if all are integers, else by their bytes
    int tags_in_order;            // tagged_renumber matched unnamed classes by order
    const char *empty_tag_column; // a column without any tag, not read; NULL: none
    size_t word_count, count;     // words, sentences
    size_t tag_count;
    void *storage; // owns every text
};

// Reads a data set; free with tagged_done (allowed after a failure). Errors (BERTH_BAD_DATA) name
// file and line: not UTF-8, no words, lines with different numbers of columns, a column that is not
// there, arrays of different lengths, an empty word or tag.
enum berth_status tagged_read(const char *path, const struct tagged_settings *settings,
                              struct tagged_dataset *dataset, struct berth_error *error);
void tagged_done(struct tagged_dataset *dataset);

// The line of a word of a sentence.
size_t tagged_line(const struct tagged_dataset *dataset, size_t sentence, size_t word);

// Renumbers the tags in the order of `names`, which must outlive the data set. label_names_match
// decides which tag is which class; names are compared exactly. Tags that are matched with
// placeholders by order keep their own names. A tag without a class is BERTH_BAD_DATA, with its
// line and what was expected; the data set is then unchanged. Does nothing without tags.
enum berth_status tagged_renumber(struct tagged_dataset *dataset, const char *const *names,
                                  size_t count, struct berth_error *error);

#endif
