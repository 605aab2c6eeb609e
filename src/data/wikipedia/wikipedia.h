// SPDX-License-Identifier: Apache-2.0
// Converts a Wikipedia dump to files of plain text, in bounded memory.
//
// The folder has WikiExtractor's layout: AA/wiki_00 to AA/wiki_99, AB/wiki_00, ..., each with
//
//   <doc id="12" url="https://en.wikipedia.org/wiki?curid=12" title="Anarchism">
//   Anarchism
//   (an empty line, the article's lines, an empty line)
//   </doc>
//
// Files are written atomically. text.json in the folder lists the finished files and where in the
// dump the next one begins, so that a run can resume a stopped or killed one. The same dump gives
// the same bytes, whatever the number of threads and ranks and however often runs were stopped.
// Ranks share decompression (bzip2.h) and cleaning: every rank parses the whole dump and cleans a
// part of each batch of pages; rank 0 collects the text and writes it. `berth prepare` calls it for
// a dump (api/prepare.c); wiki/wikipedia.c does it, which only the program contains.
#ifndef BERTH_DATA_WIKIPEDIA_H
#define BERTH_DATA_WIKIPEDIA_H

#include "comm/comm.h"
#include "core/error.h"
#include "core/log.h"

#include <stdatomic.h>
#include <stdint.h>

// Pages by what became of them. Skipped pages are reported; they are no error.
struct wikipedia_counts {
    int64_t pages, articles;
    int64_t redirects, other_namespaces; // left out
    int64_t empty;                       // without text after cleaning
    int64_t oversize, damaged;           // skipped (mediawiki.h)
    int64_t xml_bytes, text_bytes, files;
    int64_t sentences_left_out; // because of templates that are not known (wikitext.h)
};

#define TEXT_MANIFEST "text.json"

struct wikipedia_settings {
    const char *dump;   // XML, plain or bzip2
    const char *folder; // created if missing
    uint64_t file_size; // maximum size of a file; a longer article gets a file of its own;
                        // 0: WIKIPEDIA_FILE_SIZE
    int threads;        // 0: OpenMP's default
    struct comm *comm;  // of the ranks, all of which call it
};
#define WIKIPEDIA_FILE_SIZE ((uint64_t)100 << 20) // WikiExtractor's -b 100M

// Polls `stop` (may be NULL) between batches of pages. BERTH_CONFIG: the folder has the text of
// another dump. BERTH_CANT_CREATE: the folder has other files, or another process uses it. On rank
// 0 *counts includes the finished files of earlier runs.
enum berth_status wikipedia_text(const struct wikipedia_settings *settings,
                                 const struct berth_log *log, const atomic_int *stop,
                                 struct wikipedia_counts *counts, struct berth_error *error);

#endif
