// SPDX-License-Identifier: Apache-2.0
// What the files of the wikitext cleaner share: the page that is being cleaned, a template's call,
// and the functions that show templates, which wikitext_rows.c lists. Users of the cleaner include
// wikitext.h.
#ifndef BERTH_WIKI_WIKITEXT_PARTS_H
#define BERTH_WIKI_WIKITEXT_PARTS_H

#include "wiki/wikitext.h"

// Separates the arguments of a template while the first pass collects them.
#define WIKITEXT_SEPARATOR '\x1F'
// Stands where a reader sees something that is not known: the second pass leaves its sentence out.
#define WIKITEXT_GAP '\x1E'

// The byte that stands for a character that is text here, not markup; the byte itself if it cannot
// be markup. The second pass writes the character.
char wikitext_protect(char byte);

// --- templates (wikitext_templates.c) -----------------------------------------------------------

struct wikitext_call;
struct wikitext_template {
    const char *name; // in lower case; that of a parser function ends with a colon
    // Writes what a reader sees to call->out; 0: it is not known.
    int (*write)(struct wikitext_call *call);
    const char *pattern; // for `write`
};
// wikitext_rows.c, sorted by name.
extern const struct wikitext_template wikitext_templates[];
extern const size_t wikitext_template_count;

// The template with the name at text[0, length), which ends at '|', '}', or a function's colon.
const struct wikitext_template *wikitext_find_template(const char *text, size_t length);
// {{{name|default}}}, which in an article shows the default.
const struct wikitext_template *wikitext_parameter(void);
// Replaces the name and arguments of a template, which are the output from `start` on, with its
// text, or with a gap.
void wikitext_expand(struct wikitext *wikitext, const struct wikitext_template *template_,
                     size_t start);

// --- the arguments of a template (wikitext_call.c) ----------------------------------------------

// A piece of the output. An argument that is not given has length 0.
struct wikitext_argument {
    const char *text;
    size_t length;
};

enum { WIKITEXT_ARGUMENTS = 48 };
struct wikitext_call {
    struct buffer *out; // empty at first
    const char *pattern;
    int is_function;                                  // its arguments have no names
    struct wikitext_argument name;                    // as written
    struct wikitext_argument all[WIKITEXT_ARGUMENTS]; // by position, from 0
    size_t count, next;                               // next: position of one without a name
    struct wikitext_argument names[WIKITEXT_ARGUMENTS], values[WIKITEXT_ARGUMENTS];
    size_t named_count;
    int is_cut; // there were more arguments
};

struct wikitext_argument wikitext_positional(const struct wikitext_call *call, size_t index);
struct wikitext_argument wikitext_named(const struct wikitext_call *call, const char *name);
// Whether all named arguments are in the list of names, which has a blank between them.
int wikitext_names_only(const struct wikitext_call *call, const char *known);
int wikitext_is(const struct wikitext_argument *argument, const char *text);
void wikitext_put(struct wikitext_call *call, struct wikitext_argument argument);

// Writers. A pattern has text, arguments by position or name ($1, $lit), and groups: <...> is shown
// if all its arguments are given, <a~b~c> shows the first such alternative. $?hide and $!hide only
// ask whether the argument is given, or not. Without one of its other arguments the text is not
// known.
int wikitext_show(struct wikitext_call *call);
int wikitext_listed(struct wikitext_call *call); // the groups of the pattern, with semicolons
int wikitext_join(struct wikitext_call *call);   // all arguments; the pattern goes between them
int wikitext_choose(struct wikitext_call *call); // "value=text;value=text", by the first argument

// --- numbers (wikitext_numbers.c) ---------------------------------------------------------------

int wikitext_number(struct wikitext_argument number, double *value);
// Writes a number, with commas if it has at least so many digits; 0: it is none.
int wikitext_put_number(struct wikitext_call *call, struct wikitext_argument number, size_t least);
// Appends the text in raised or lowered characters; 0, and nothing, if one of them does not exist.
int wikitext_put_script(struct buffer *out, const char *text, size_t length, int is_raised);
// Raises or lowers the output from `start` on where plain characters would be another number, and
// exponents always. `next` follows it.
void wikitext_set_script(struct wikitext *wikitext, size_t start, int is_raised, char next);

// Writers.
int wikitext_script(struct wikitext_call *call); // pattern "+": raised, "-": lowered
int wikitext_formatnum(struct wikitext_call *call);
int wikitext_fraction(struct wikitext_call *call); // the pattern is the stroke
int wikitext_ordinal(struct wikitext_call *call);
int wikitext_percentage(struct wikitext_call *call);
int wikitext_power(struct wikitext_call *call); // the pattern is the base
int wikitext_val(struct wikitext_call *call);
int wikitext_expression(struct wikitext_call *call);
int wikitext_if(struct wikitext_call *call);
int wikitext_ifeq(struct wikitext_call *call);
int wikitext_case(struct wikitext_call *call);    // "u" or "l", "f": of the first letter only
int wikitext_convert(struct wikitext_call *call); // wikitext_convert.c

// --- words (wikitext_words.c) -------------------------------------------------------------------

int wikitext_date(struct wikitext_call *call);
int wikitext_age(struct wikitext_call *call);
int wikitext_aged(struct wikitext_call *call); // a date of death with the age
int wikitext_as_of(struct wikitext_call *call);
int wikitext_ship(struct wikitext_call *call); // the pattern is the prefix; NULL: an argument
int wikitext_chem(struct wikitext_call *call);
int wikitext_chem2(struct wikitext_call *call);
int wikitext_coord(struct wikitext_call *call);
int wikitext_unichar(struct wikitext_call *call);

// --- languages (wikitext_languages.c) -----------------------------------------------------------

int wikitext_langx(struct wikitext_call *call);
int wikitext_lang_of(struct wikitext_call *call); // {{lang-fr|...}}
int wikitext_ipa(struct wikitext_call *call);
int wikitext_ipa_of(struct wikitext_call *call); // {{IPA-fr|...}}
int wikitext_ipac(struct wikitext_call *call);
int wikitext_respell(struct wikitext_call *call);

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
    TAG_RAISED,  // its content becomes superscript characters where it can
    TAG_LOWERED, // subscript
    TAG_QUOTE,   // becomes quotation marks
};

struct wikitext_tag {
    enum wikitext_tag_kind kind;
    int index;         // of the element in the table
    int is_closing;    // </x>
    int closes_itself; // <x/>
    const char *name;
    size_t name_length;
    const char *end; // after the '>'
};

// Reads the tag at `text`, which begins with '<'; 0 when it is not a tag that the wiki knows.
int wikitext_read_tag(const char *text, const char *end, struct wikitext_tag *tag);
// Finds the closing tag [*begin, *after) of an open tag, from tag->end on; 0: there is none.
int wikitext_find_closing(struct wikitext *wikitext, const struct wikitext_tag *tag,
                          const char *end, const char **begin, const char **after);

// --- lines (wikitext_lines.c) -------------------------------------------------------------------

// The second pass: from `stripped` to `plain`.
void wikitext_finish_lines(struct wikitext *wikitext);

#endif
