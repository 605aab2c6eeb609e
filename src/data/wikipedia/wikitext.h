// SPDX-License-Identifier: Apache-2.0
// Wikitext to plain text: what a reader of the article's prose sees, a paragraph a line.
//
// Kept: paragraphs, indented lines, quotations, the text of links, headings ("History.") of
// sections that have text, the text of a few templates (wikitext_templates.c). Dropped: other
// templates, tables, lists, references, files, categories, galleries, source code, comments, tags;
// a formula becomes formula_1. doc/pretraining-data.md tells it in full.
//
// Two passes. The first (wikitext.c) walks the markup that nests with a stack of its own, so that
// depth costs memory of the page's order and no call stack; what is dropped is cut off the output
// when its end is found, so what never ends is not dropped. The second (wikitext_lines.c) treats
// the lines that are left: headings, lists, quote marks, entities, blanks. Time is linear in the
// length.
#ifndef BERTH_DATA_WIKITEXT_H
#define BERTH_DATA_WIKITEXT_H

#include "core/buffer.h"
#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

// Zero-initialise; kept from page to page for its memory. One thread at a time.
struct wikitext {
    // Local names of the namespaces ("Datei"); borrowed. The English ones are always known.
    char *const *namespaces;
    size_t namespace_count;

    struct wikitext_frame *frames; // open markup, outermost first
    size_t frame_count, frame_capacity;
    int failed;             // memory ran out
    struct buffer stripped; // of the first pass
    struct buffer plain;    // of the second
    struct buffer scratch, line, headings;
    size_t formulas;
    const char *no_closing[24]; // per tag: none of its closing tags stands at or after this place
};

// Cleans text[0, length). *plain (valid until the next call, not NUL-terminated) holds lines that
// are not empty, each with its newline; empty when nothing is left. It holds no '{', '}' or '|', no
// "[[" or "]]", and no '<' that could begin a tag. Ill-formed UTF-8 goes through as it is.
enum berth_status wikitext_clean(struct wikitext *wikitext, const char *text, size_t length,
                                 const char **plain, size_t *plain_length,
                                 struct berth_error *error);
void wikitext_done(struct wikitext *wikitext);

#endif
