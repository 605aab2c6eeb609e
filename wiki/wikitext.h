// SPDX-License-Identifier: Apache-2.0
// Converts wikitext to plain text: the article's prose, one paragraph per line.
//
// Keeps paragraphs, indented lines, quotations, the text of links, headings ("History.") of
// sections with text, and the text of the templates that wikitext_rows.c lists. Drops tables,
// lists, references, files, categories, galleries, source code, comments and tags; a formula
// becomes formula_1. What another template shows is not known, so the sentence that has one is
// left out and counted; one alone on its line, at its beginning or between sentences is a box, and
// is dropped. doc/pretraining-data.md has all rules.
//
// There are two passes. The first (wikitext.c) handles nested markup with an explicit stack, so
// deep nesting needs memory in proportion to the page and no call stack. A construct is dropped
// when its end is found, so an unclosed one stays. The second (wikitext_lines.c) handles the
// remaining lines: headings, lists, quote marks, entities, blanks. Time is linear in the length of
// the page.
#ifndef BERTH_WIKI_WIKITEXT_H
#define BERTH_WIKI_WIKITEXT_H

#include "core/buffer.h"
#include "core/error.h"
#include "core/string_index.h"

#include <stddef.h>
#include <stdint.h>

// Zero-initialise; reuse it for all pages of a thread, to save allocations.
struct wikitext {
    // Local names of the namespaces ("Datei"); borrowed. English names, and those of files and
    // categories in the larger wikis, are always known.
    // They must not change once a page has been cleaned.
    char *const *namespaces;
    size_t namespace_count;

    struct string_index dropped_prefixes; // of links; the names that are looked up, in lower case
    struct wikitext_frame *frames;        // open markup, outermost first
    size_t frame_count, frame_capacity;
    int failed;             // out of memory
    struct buffer stripped; // output of the first pass
    struct buffer plain;    // output of the second pass
    struct buffer scratch, line, headings, gaps;
    size_t formulas;
    int64_t left_out;           // sentences with a template that is not known
    const char *no_closing[24]; // per tag: there is no closing tag from here on
};

// Cleans text[0, length). *plain (valid until the next call, not NUL-terminated) has the non-empty
// lines, each with its newline; it may be empty. It has no control characters. Unless the page
// writes them as entities, in <nowiki> or with a template, it has no '{', '}' or '|', and no "[["
// or
// "]]". Ill-formed UTF-8 is copied.
enum berth_status wikitext_clean(struct wikitext *wikitext, const char *text, size_t length,
                                 const char **plain, size_t *plain_length,
                                 struct berth_error *error);
void wikitext_done(struct wikitext *wikitext);

#endif
