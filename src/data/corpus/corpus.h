// SPDX-License-Identifier: Apache-2.0
// The articles of a corpus, one at a time, from any of its forms:
//
//   extracted  a folder of WikiExtractor's files (AA/wiki_00, ...: <doc id=...> ... </doc>), made
//              by it or by us; an article's first line, the title, and empty lines are dropped
//   text       files of text; an empty line ends an article
//   books      a folder with a file a book; its empty lines are dropped
//
// Files come in the order of their names. What no reader of words can use, ill-formed UTF-8, is an
// error that names file and byte. Memory holds a window of a file and one article.
#ifndef BERTH_DATA_CORPUS_H
#define BERTH_DATA_CORPUS_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

enum corpus_form { CORPUS_EXTRACTED, CORPUS_TEXT, CORPUS_BOOKS };

// Of one line, and of one article.
#define CORPUS_ARTICLE_MAX ((size_t)1 << 30)

struct corpus;

// `paths` are a folder for extracted and books; for text files, or folders of which every file is
// taken. A folder without such files is BERTH_NO_INPUT.
enum berth_status corpus_open(enum corpus_form form, const char *const *paths, size_t count,
                              struct corpus **corpus, struct berth_error *error);

// The next article: lines that are not empty, without blanks at their ends, each with its newline;
// valid until the next call. Articles without lines are passed over. A *length of 0 is the end.
// BERTH_BAD_DATA: ill-formed UTF-8, NUL bytes, a <doc> without its </doc> (the file is cut), more
// than CORPUS_ARTICLE_MAX bytes.
enum berth_status corpus_next(struct corpus *corpus, const char **lines, size_t *length,
                              struct berth_error *error);
// The file that is being read, for messages.
const char *corpus_path(const struct corpus *corpus);
// Bytes of all files, and how many of them have been read.
uint64_t corpus_size(const struct corpus *corpus);
uint64_t corpus_position(const struct corpus *corpus);
// All files, in their order.
const char *const *corpus_files(const struct corpus *corpus, size_t *count);

void corpus_close(struct corpus *corpus);

#endif
