// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the files of the wikitext cleaner.
#ifndef BERTH_DATA_WIKITEXT_PARTS_H
#define BERTH_DATA_WIKITEXT_PARTS_H

#include "data/wikipedia/wikitext.h"

// Separates the arguments of a kept template while the first pass collects them.
#define WIKITEXT_SEPARATOR '\x1F'

// --- templates (wikitext_templates.c) -----------------------------------------------------------

struct wikitext_template;
// The kept template with the name at text[0, length), which ends at '|' or '}'; NULL: dropped.
const struct wikitext_template *wikitext_find_template(const char *text, size_t length);
// Replaces the name and arguments of a template, which are the output from `start` on, with its
// text.
void wikitext_expand(struct wikitext *wikitext, const struct wikitext_template *template_,
                     size_t start);

// --- names and variants (wikitext_names.c) ------------------------------------------------------

// Whether a link with the prefix text[0, length) is dropped: files, categories, other namespaces,
// pages in other languages.
int wikitext_drops_prefix(struct wikitext *wikitext, const char *text, size_t length);
// Whether the content of -{...}-, text[0, length), has flags or names a variant.
int wikitext_has_variants(const char *text, size_t length);
// Replaces the content of -{...}-, text[0, length), with its first branch; returns the new length.
size_t wikitext_choose_variant(char *text, size_t length);

// --- tags (wikitext_tags.c) ---------------------------------------------------------------------

enum wikitext_tag_kind {
    TAG_INLINE,  // drops the tag, keeps its content
    TAG_SPACE,   // becomes a blank
    TAG_LINE,    // becomes the end of a line
    TAG_DROP,    // dropped with its content, which is wikitext
    TAG_RAW,     // dropped with its content, which is not parsed
    TAG_LITERAL, // keeps its content, which is not wikitext
    TAG_FORMULA, // becomes formula_N
};

struct wikitext_tag {
    enum wikitext_tag_kind kind;
    int index;         // of the element in the table; -1: an inline element
    int is_closing;    // </x>
    int closes_itself; // <x/>
    const char *name;
    size_t name_length;
    const char *end; // after the '>'
};

// Reads the tag at `text`, which begins with '<'; 0 when it is not a tag.
int wikitext_read_tag(const char *text, const char *end, struct wikitext_tag *tag);
// Finds the closing tag [*begin, *after) of an open tag, from tag->end on; 0: there is none.
int wikitext_find_closing(struct wikitext *wikitext, const struct wikitext_tag *tag,
                          const char *end, const char **begin, const char **after);

// --- lines (wikitext_lines.c) -------------------------------------------------------------------

// The second pass: from `stripped` to `plain`.
void wikitext_finish_lines(struct wikitext *wikitext);

#endif
