// SPDX-License-Identifier: Apache-2.0
// A Wikipedia dump to files of plain text: decompressed, parsed, cleaned, written, in bounded
// memory.
//
// The folder is laid out as WikiExtractor does it: AA/wiki_00 to AA/wiki_99, AB/wiki_00, ..., each
// of
//
//   <doc id="12" url="https://en.wikipedia.org/wiki?curid=12" title="Anarchism">
//   Anarchism
//   (an empty line, the article's lines, an empty line)
//   </doc>
//
// Every file appears whole or not at all. text.json beside them says which are finished and where
// in the dump the next one begins; a run that was stopped or killed goes on there. The same dump
// gives the same bytes, whatever the number of threads and wherever runs were stopped.
#ifndef BERTH_DATA_WIKIPEDIA_H
#define BERTH_DATA_WIKIPEDIA_H

#include "core/error.h"
#include "core/log.h"

#include <stdint.h>

// What became of the pages; the skips are reported, not errors.
struct wikipedia_counts {
    int64_t pages, articles;
    int64_t redirects, other_namespaces; // left out
    int64_t empty;                       // nothing was left of the text
    int64_t oversize, damaged;           // skipped (mediawiki.h)
    int64_t xml_bytes, text_bytes, files;
};

#define TEXT_MANIFEST "text.json"

struct wikipedia_settings {
    const char *dump;   // XML, plain or bzip2
    const char *folder; // made when it is not there
    uint64_t file_size; // a file is ended before it grows beyond; a longer article has its own; 0:
                        // WIKIPEDIA_FILE_SIZE
    int threads;        // 0: as many as OpenMP gives
};
#define WIKIPEDIA_FILE_SIZE ((uint64_t)100 << 20) // WikiExtractor's -b 100M

// `stop` (may be NULL) is polled between batches of pages. BERTH_CONFIG: the folder holds the text
// of another dump. BERTH_CANT_CREATE: something else is in it, or another process is at work on it.
// *counts covers the finished files of earlier runs as well.
enum berth_status wikipedia_text(const struct wikipedia_settings *settings,
                                 const struct berth_log *log, const volatile int *stop,
                                 struct wikipedia_counts *counts, struct berth_error *error);

#endif
