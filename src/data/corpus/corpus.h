// SPDX-License-Identifier: Apache-2.0
// Reads the articles of a corpus, one at a time, in any of these forms:
//
//   extracted  a folder of WikiExtractor's files (AA/wiki_00, ...: <doc id=...> ... </doc>), from
//              it or from Berth; an article's first line (the title) and empty lines are dropped
//   text       text files; an empty line ends an article
//   books      a folder with one file per book; empty lines are dropped
//
// Files are read in the order of their names. Lines end in LF, CR LF or CR; a line of nothing but
// Unicode white space is empty; a byte order mark at the start of a file is skipped. Ill-formed
// UTF-8 is an error that names the file and the offset; so is a compressed file. Memory holds one
// window of a file and one article. The stages of `berth prepare` and the job vocab read text
// through it; sentences.h splits the articles.
#ifndef BERTH_DATA_CORPUS_H
#define BERTH_DATA_CORPUS_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

enum corpus_form { CORPUS_EXTRACTED, CORPUS_TEXT, CORPUS_BOOKS };

// The longest line and the longest article, in bytes.
#define CORPUS_ARTICLE_MAX ((size_t)1 << 30)

struct corpus;

// For extracted and books, `paths` is one folder. For text it is files and folders; every file in a
// folder is read. BERTH_NO_INPUT: there are no files.
enum berth_status corpus_open(enum corpus_form form, const char *const *paths, size_t count,
                              struct corpus **corpus, struct berth_error *error);

// The next article: its non-empty lines without trailing white space, each with its newline; valid
// until the next call. Skips articles without lines. *length is 0 at the end. BERTH_BAD_DATA:
// ill-formed UTF-8, NUL bytes, a <doc> without </doc> (a truncated file), text outside of <doc>,
// more than CORPUS_ARTICLE_MAX bytes.
enum berth_status corpus_next(struct corpus *corpus, const char **lines, size_t *length,
                              struct berth_error *error);
// The current file, for error messages.
const char *corpus_path(const struct corpus *corpus);
// corpus_size: bytes of all files; corpus_position: bytes read so far.
uint64_t corpus_size(const struct corpus *corpus);
uint64_t corpus_position(const struct corpus *corpus);
// All files, in reading order.
const char *const *corpus_files(const struct corpus *corpus, size_t *count);

void corpus_close(struct corpus *corpus);

// BERTH_BAD_DATA if `text`, which begins at `offset` of the file `path`, has ill-formed UTF-8 or a
// NUL.
enum berth_status corpus_check_text(const char *path, uint64_t offset, const char *text,
                                    size_t length, struct berth_error *error);

#endif
