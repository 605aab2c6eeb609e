// SPDX-License-Identifier: Apache-2.0
// The pages of a MediaWiki export (what Wikipedia's dumps are): the door to expat.
//
// Bytes go in as they come, pages come out one at a time; memory is bounded by the largest page
// that is kept. Of a page's revisions the last one counts. Bytes that are no UTF-8, and control
// characters, do not stop the reader: the page that holds them is marked. What cannot be read at
// all is an error: broken nesting, a DOCTYPE (no dump has one, and entities are what bombs are made
// of), an endless tag, deep nesting.
#ifndef BERTH_FORMAT_MEDIAWIKI_H
#define BERTH_FORMAT_MEDIAWIKI_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

// MediaWiki itself takes pages of up to 2 MiB.
#define MEDIAWIKI_TEXT_MAX ((size_t)16 << 20)

struct mediawiki_page {
    int64_t id, ns;     // namespace: 0 holds the articles
    const char *title;  // NUL-terminated, not empty, one line
    const char *text;   // NUL-terminated wikitext
    size_t text_length; // in bytes
    int is_redirect;
    int is_oversize; // longer than MEDIAWIKI_TEXT_MAX: the text is left out
    int is_damaged;  // held bytes that are no UTF-8, or no id or title
    uint64_t end;    // byte of the XML after the page
};

// What the export says of its wiki, from its head.
struct mediawiki_site {
    char *base;        // URL of the main page; NULL: not said
    char **namespaces; // local names of the namespaces but the first; [namespace_count]
    size_t namespace_count;
};

struct mediawiki_reader;

// `page` gets each page; what it points at is valid during the call. A status other than BERTH_OK
// (with `error` filled) ends the reading. `name` is for messages. `from` is the byte of the XML
// where feeding begins: 0, or the `end` of a page.
typedef enum berth_status mediawiki_page_function(void *context, const struct mediawiki_page *page,
                                                  struct berth_error *error);
enum berth_status mediawiki_open(const char *name, uint64_t from, mediawiki_page_function *page,
                                 void *context, struct mediawiki_reader **reader,
                                 struct berth_error *error);
// Takes the next bytes. BERTH_BAD_DATA names the byte.
enum berth_status mediawiki_feed(struct mediawiki_reader *reader, const char *bytes, size_t length,
                                 struct berth_error *error);
// After the last byte: BERTH_BAD_DATA when the export is cut.
enum berth_status mediawiki_finish(struct mediawiki_reader *reader, struct berth_error *error);
// Whole once the first page has come (or the end); owned by the reader.
const struct mediawiki_site *mediawiki_get_site(const struct mediawiki_reader *reader);
void mediawiki_close(struct mediawiki_reader *reader);

#endif
