// SPDX-License-Identifier: Apache-2.0
// Reads the pages of a MediaWiki export, such as Wikipedia's dumps, through expat.
//
// Takes bytes as they arrive and returns pages one at a time; memory is bounded by the largest
// page. Only the last revision of a page counts. Invalid UTF-8 and control characters mark the page
// as damaged. Broken or deep nesting, an overlong tag and a DOCTYPE are errors: no dump has one,
// and entities allow XML bombs. The text of a page is cleaned by wikitext.h.
#ifndef BERTH_WIKI_MEDIAWIKI_H
#define BERTH_WIKI_MEDIAWIKI_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

// MediaWiki itself accepts pages of up to 2 MiB.
#define MEDIAWIKI_TEXT_MAX ((size_t)16 << 20)

struct mediawiki_page {
    int64_t id, ns;     // namespace; 0: articles
    const char *title;  // NUL-terminated, not empty, one line
    const char *text;   // NUL-terminated wikitext
    size_t text_length; // in bytes
    int is_redirect;
    int is_oversize; // longer than MEDIAWIKI_TEXT_MAX: the text is left out
    int is_damaged;  // had invalid UTF-8, or no id or title
    uint64_t end;    // offset in the XML after the page
};

// Facts about the wiki, from the head of the export.
struct mediawiki_site {
    char *base;        // URL of the main page; NULL: unknown
    char **namespaces; // [namespace_count] local names of the namespaces, except the first
    size_t namespace_count;
};

struct mediawiki_reader;

// `page` is called for each page, which is valid during the call. A status other than BERTH_OK
// (with `error` filled) ends the reading. `name` is for messages. `from` is the offset in the XML
// of the first byte fed: 0, or the `end` of a page.
typedef enum berth_status mediawiki_page_function(void *context, const struct mediawiki_page *page,
                                                  struct berth_error *error);
enum berth_status mediawiki_open(const char *name, uint64_t from, mediawiki_page_function *page,
                                 void *context, struct mediawiki_reader **reader,
                                 struct berth_error *error);
// Takes the next bytes. BERTH_BAD_DATA names the offset.
enum berth_status mediawiki_feed(struct mediawiki_reader *reader, const char *bytes, size_t length,
                                 struct berth_error *error);
// Call it after the last byte: BERTH_BAD_DATA when the export is truncated.
enum berth_status mediawiki_finish(struct mediawiki_reader *reader, struct berth_error *error);
// Complete after the first page (or the end); owned by the reader.
const struct mediawiki_site *mediawiki_get_site(const struct mediawiki_reader *reader);
void mediawiki_close(struct mediawiki_reader *reader);

#endif
