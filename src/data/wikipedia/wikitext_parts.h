// SPDX-License-Identifier: Apache-2.0
// What the files of the wikitext cleaner share.
#ifndef BERTH_DATA_WIKITEXT_PARTS_H
#define BERTH_DATA_WIKITEXT_PARTS_H

#include "data/wikipedia/wikitext.h"

// Stands in the output of the first pass between the arguments of a template that is kept.
#define WIKITEXT_SEPARATOR '\x1F'

// --- templates (wikitext_templates.c) -----------------------------------------------------------

struct wikitext_template;
// The template that is kept under the name at text[0, length), which ends at '|' or '}'; NULL: it
// is dropped.
const struct wikitext_template *wikitext_find_template(const char *text, size_t length);
// Turns the output from `start` on, the template's name and arguments, into its text.
void wikitext_expand(struct wikitext *wikitext, const struct wikitext_template *template_,
                     size_t start);

// --- tags (wikitext_tags.c) ---------------------------------------------------------------------

enum wikitext_tag_kind {
    TAG_INLINE,  // the tag goes, its content stays
    TAG_SPACE,   // becomes a blank
    TAG_LINE,    // becomes the end of a line
    TAG_DROP,    // goes with its content, which is wikitext
    TAG_RAW,     // goes with its content, which is not looked at
    TAG_LITERAL, // its content is no wikitext and stays
    TAG_FORMULA, // becomes formula_N
};

struct wikitext_tag {
    enum wikitext_tag_kind kind;
    int number;        // the same for equal names; -1: inline ones
    int is_closing;    // </x>
    int closes_itself; // <x/>
    const char *name;
    size_t name_length;
    const char *end; // after the '>'
};

// The tag at `text`, which begins with '<'; 0 when it is none.
int wikitext_read_tag(const char *text, const char *end, struct wikitext_tag *tag);
// The closing tag for an opened one, at or after tag->end: *begin and *after; 0 when there is none.
int wikitext_find_closing(struct wikitext *wikitext, const struct wikitext_tag *tag,
                          const char *end, const char **begin, const char **after);

// --- lines (wikitext_lines.c) -------------------------------------------------------------------

// The second pass: from `stripped` to `plain`.
void wikitext_finish_lines(struct wikitext *wikitext);
// The character of the entity at text[0, length), "&...;", as UTF-8 in bytes[4]; *used is what it
// takes. 0 when it is none.
size_t wikitext_entity(const char *text, size_t length, char bytes[4], size_t *used);

#endif
