// SPDX-License-Identifier: Apache-2.0
// The elements of HTML and MediaWiki in a page: a table says whether an element is dropped, kept as
// text or ends a paragraph, and its end is found. wikitext.c asks when it meets a "<"; templates
// and links are its own affair.
#include "core/caseless.h"
#include "wiki/wikitext_parts.h"

#include <string.h>

static const struct element {
    const char *name;
    enum wikitext_tag_kind kind;
} elements[] = {
    // Content that is not wikitext. These come first: wikitext->no_closing is indexed by them.
    {"ref", TAG_RAW},
    {"references", TAG_RAW},
    {"gallery", TAG_RAW},
    {"timeline", TAG_RAW},
    {"source", TAG_RAW},
    {"syntaxhighlight", TAG_RAW},
    {"pre", TAG_RAW},
    {"score", TAG_RAW},
    {"hiero", TAG_RAW},
    {"imagemap", TAG_RAW},
    {"graph", TAG_RAW},
    {"mapframe", TAG_RAW},
    {"maplink", TAG_RAW},
    {"templatedata", TAG_RAW},
    {"inputbox", TAG_RAW},
    {"categorytree", TAG_RAW},
    {"indicator", TAG_RAW},
    {"includeonly", TAG_RAW},
    {"nowiki", TAG_LITERAL},
    {"math", TAG_FORMULA},
    {"chem", TAG_FORMULA},
    {"ce", TAG_FORMULA},
    // Wikitext that is dropped: lists, tables, layout, fine print.
    {"table", TAG_DROP},
    {"tr", TAG_DROP},
    {"td", TAG_DROP},
    {"th", TAG_DROP},
    {"caption", TAG_DROP},
    {"div", TAG_DROP},
    {"ul", TAG_DROP},
    {"ol", TAG_DROP},
    {"li", TAG_DROP},
    {"dl", TAG_DROP},
    {"dt", TAG_DROP},
    {"dd", TAG_DROP},
    {"form", TAG_DROP},
    {"select", TAG_DROP},
    {"option", TAG_DROP},
    {"textarea", TAG_DROP},
    {"menu", TAG_DROP},
    {"dir", TAG_DROP},
    {"br", TAG_SPACE},
    {"hr", TAG_LINE},
    {"p", TAG_LINE},
    {"center", TAG_LINE},
    {"blockquote", TAG_LINE},
    {"poem", TAG_LINE},
    {"h1", TAG_LINE},
    {"h2", TAG_LINE},
    {"h3", TAG_LINE},
    {"h4", TAG_LINE},
    {"h5", TAG_LINE},
    {"h6", TAG_LINE},
    {"sup", TAG_RAISED},
    {"sub", TAG_LOWERED},
    {"q", TAG_QUOTE},
    {"abbr", TAG_INLINE},
    {"acronym", TAG_INLINE},
    {"b", TAG_INLINE},
    {"bdi", TAG_INLINE},
    {"bdo", TAG_INLINE},
    {"big", TAG_INLINE},
    {"cite", TAG_INLINE},
    {"code", TAG_INLINE},
    {"data", TAG_INLINE},
    {"del", TAG_INLINE},
    {"dfn", TAG_INLINE},
    {"em", TAG_INLINE},
    {"font", TAG_INLINE},
    {"i", TAG_INLINE},
    {"ins", TAG_INLINE},
    {"kbd", TAG_INLINE},
    {"languages", TAG_INLINE},
    {"link", TAG_INLINE},
    {"mark", TAG_INLINE},
    {"meta", TAG_INLINE},
    {"noinclude", TAG_INLINE},
    {"onlyinclude", TAG_INLINE},
    {"phonos", TAG_INLINE},
    {"rb", TAG_INLINE},
    {"rbc", TAG_INLINE},
    {"rp", TAG_INLINE},
    {"rt", TAG_INLINE},
    {"rtc", TAG_INLINE},
    {"ruby", TAG_INLINE},
    {"s", TAG_INLINE},
    {"samp", TAG_INLINE},
    {"section", TAG_INLINE},
    {"small", TAG_INLINE},
    {"span", TAG_INLINE},
    {"strike", TAG_INLINE},
    {"strong", TAG_INLINE},
    {"templatestyles", TAG_INLINE},
    {"time", TAG_INLINE},
    {"translate", TAG_INLINE},
    {"tt", TAG_INLINE},
    {"tvar", TAG_INLINE},
    {"u", TAG_INLINE},
    {"var", TAG_INLINE},
    {"wbr", TAG_INLINE},
};

static int is_letter(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static int look_up(struct wikitext_tag *tag) {
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        if (strlen(elements[i].name) == tag->name_length &&
            caseless_equal_bytes(elements[i].name, tag->name, tag->name_length)) {
            tag->kind = elements[i].kind;
            tag->index = (int)i;
            return 1;
        }
    }
    return 0;
}

int wikitext_read_tag(const char *text, const char *end, struct wikitext_tag *tag) {
    const char *at = text + 1;
    tag->is_closing = at < end && *at == '/';
    at += tag->is_closing;
    tag->name = at;
    if (at == end || !is_letter(*at)) {
        return 0;
    }
    while (at < end && (is_letter(*at) || (*at >= '0' && *at <= '9') || *at == '-' || *at == ':')) {
        at++;
    }
    tag->name_length = (size_t)(at - tag->name);
    if (!look_up(tag)) {
        return 0; // MediaWiki shows it as text
    }
    while (at < end && *at != '>' && *at != '<') {
        at++; // attributes
    }
    if (at == end || *at == '<') {
        return 0;
    }
    tag->closes_itself = at[-1] == '/';
    tag->end = at + 1;
    return 1;
}

// The end of the tag name, blanks and ">" at `at`; NULL if they are not there.
static const char *end_of_closing(const char *at, const char *end, const struct wikitext_tag *tag) {
    if ((size_t)(end - at) <= tag->name_length ||
        !caseless_equal_bytes(at, tag->name, tag->name_length)) {
        return NULL;
    }
    at += tag->name_length;
    for (int i = 0; i < 64 && at < end && (*at == ' ' || *at == '\n' || *at == '\t'); i++) {
        at++;
    }
    return at < end && *at == '>' ? at + 1 : NULL;
}

int wikitext_find_closing(struct wikitext *wikitext, const struct wikitext_tag *tag,
                          const char *end, const char **begin, const char **after) {
    const char **none = &wikitext->no_closing[tag->index];
    if (*none != NULL && tag->end >= *none) {
        return 0;
    }
    const char *at = tag->end;
    while (at < end && (at = memchr(at, '<', (size_t)(end - at))) != NULL) {
        if (end - at > 2 && at[1] == '/' && (*after = end_of_closing(at + 2, end, tag)) != NULL) {
            *begin = at;
            return 1;
        }
        at++;
    }
    *none = tag->end;
    return 0;
}
