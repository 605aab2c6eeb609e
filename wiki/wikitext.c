// SPDX-License-Identifier: Apache-2.0
// The first pass of cleaning: templates, tables, links, tags and comments, which nest.
//
// Everything is copied to the output in order. An open construct is a frame that remembers where
// its output starts; its end truncates the output to that start, or to what is kept of the
// construct. In [[a|b|c]] each bar truncates, so that the last part remains. wikipedia.c calls it
// for each page, on any thread; the second pass is wikitext_lines.c.
#include "wiki/wikitext.h"

#include "core/caseless.h"
#include "core/memory.h"
#include "core/number.h"
#include "wiki/wikitext_parts.h"

// How many frames are searched for the start of a construct; limited so that broken markup is not
// slow.
#define SEARCH_DEPTH 64
#define TITLE_MAX 512    // bytes; MediaWiki's limit is 255
#define VARIANT_MAX 2048 // bytes; limited like SEARCH_DEPTH

enum frame_kind {
    FRAME_TEMPLATE,
    FRAME_TABLE,
    FRAME_LINK,
    FRAME_EXTERNAL,
    FRAME_TAG,
    FRAME_VARIANT
};

struct wikitext_frame {
    enum frame_kind kind : 8;
    int is_dropped : 8;  // with all its contents
    int is_labelled : 8; // a link whose target has been read
    int tag : 8;         // index of the element
    uint32_t start;      // offset of its output
    const struct wikitext_template *template_;
};

struct pass {
    struct wikitext *wikitext;
    struct buffer *out;
    const char *cursor, *begin, *end;
};

// --- frames -------------------------------------------------------------------------------------

static void push(struct pass *pass, struct wikitext_frame frame) {
    struct wikitext *wikitext = pass->wikitext;
    struct wikitext_frame *grown = memory_grow(wikitext->frames, &wikitext->frame_capacity,
                                               wikitext->frame_count + 1, sizeof *grown);
    if (grown == NULL) {
        wikitext->failed = 1;
        return;
    }
    wikitext->frames = grown;
    frame.start = (uint32_t)pass->out->length;
    wikitext->frames[wikitext->frame_count++] = frame;
}

static struct wikitext_frame *top(const struct pass *pass) {
    const struct wikitext *wikitext = pass->wikitext;
    return wikitext->frame_count > 0 ? &wikitext->frames[wikitext->frame_count - 1] : NULL;
}

// The innermost frame of the kind (and, for tags, with the index). Removes frames above it if their
// kinds are in the bit set `through`: their ends are missing. NULL: none.
static struct wikitext_frame *find_frame(struct pass *pass, enum frame_kind kind, int tag,
                                         unsigned through) {
    struct wikitext *wikitext = pass->wikitext;
    for (size_t i = 0; i < SEARCH_DEPTH && i < wikitext->frame_count; i++) {
        size_t index = wikitext->frame_count - 1 - i;
        struct wikitext_frame *frame = &wikitext->frames[index];
        if (frame->kind == kind && (kind != FRAME_TAG || frame->tag == tag)) {
            wikitext->frame_count = index + 1;
            return frame;
        }
        if (!(through >> frame->kind & 1)) {
            return NULL;
        }
    }
    return NULL;
}

static void pop(struct pass *pass) {
    pass->wikitext->frame_count--;
}

// --- positions -----------------------------------------------------------------------------------

static int starts_with(const struct pass *pass, const char *word) {
    size_t length = strlen(word);
    return (size_t)(pass->end - pass->cursor) >= length && memcmp(pass->cursor, word, length) == 0;
}

// Whether only blanks and indentation precede the cursor on its line.
static int begins_line(const struct pass *pass) {
    const char *before = pass->cursor;
    for (int i = 0; i < 32 && before > pass->begin; i++) {
        char byte = before[-1];
        if (byte == '\n') {
            return 1;
        }
        if (byte != ' ' && byte != '\t' && byte != ':') {
            return 0;
        }
        before--;
    }
    return before == pass->begin;
}

// --- templates and tables -----------------------------------------------------------------------

static int follows_hyphen(const struct pass *pass) {
    const struct buffer *out = pass->out;
    return pass->cursor > pass->begin && pass->cursor[-1] == '-' && out->length > 0 &&
           out->bytes[out->length - 1] == '-';
}

// {{ opens a template, {| a table, -{ language variants.
static void open_braces(struct pass *pass) {
    // The number of equal characters from the cursor on.
    const char *to = pass->cursor;
    while (to < pass->end && *to == *pass->cursor) {
        to++;
    }
    size_t count = (size_t)(to - pass->cursor);
    if (count == 1 && follows_hyphen(pass)) {
        push(pass, (struct wikitext_frame){.kind = FRAME_VARIANT});
        pass->cursor++;
        return;
    }
    if (count == 1) {
        if (pass->cursor + 1 < pass->end && pass->cursor[1] == '|' && begins_line(pass)) {
            push(pass, (struct wikitext_frame){.kind = FRAME_TABLE});
            pass->cursor += 2;
        } else {
            buffer_put_byte(pass->out, *pass->cursor++);
        }
        return;
    }
    pass->cursor += count & 1; // {{{ is read as { and {{, and its third end as a single brace
    for (size_t i = 0; i < count / 2; i++) {
        pass->cursor += 2;
        const struct wikitext_template *found =
            i + 1 == count / 2 && count % 2 == 1
                ? wikitext_parameter()
                : wikitext_find_template(pass->cursor, (size_t)(pass->end - pass->cursor));
        push(pass, (struct wikitext_frame){.kind = FRAME_TEMPLATE, .template_ = found});
    }
}

// Whether the braces are within a word, as in "4-{2-ethyl}-phenol", and name no variant.
static int is_within_word(const struct pass *pass, const struct wikitext_frame *frame) {
    const char *text = pass->out->bytes + frame->start;
    const char before = frame->start > 1 ? text[-2] : ' ';
    const size_t length = pass->out->length - frame->start;
    return (caseless_is_alphanumeric(before) || before == ')' || before == ']') &&
           !wikitext_has_variants(text, length < VARIANT_MAX ? length : VARIANT_MAX);
}

// What is kept overwrites the hyphen before the frame.
static void close_variant(struct pass *pass) {
    unsigned through = 1u << FRAME_LINK | 1u << FRAME_EXTERNAL | 1u << FRAME_TAG;
    struct wikitext_frame *frame = find_frame(pass, FRAME_VARIANT, 0, through);
    if (frame == NULL) {
        return;
    }
    if (is_within_word(pass, frame)) {
        pop(pass); // the text stays, with both hyphens
        return;
    }
    char *text = pass->out->bytes + frame->start;
    size_t length = pass->out->length - frame->start;
    if (length <= VARIANT_MAX) {
        length = wikitext_choose_variant(text, length);
        memmove(text - 1, text, length);
        pass->out->length = frame->start - 1 + length;
    }
    pop(pass);
    pass->cursor++;
}

static void close_braces(struct pass *pass) {
    pass->cursor++;
    if (pass->cursor < pass->end && *pass->cursor == '-') {
        close_variant(pass);
        return;
    }
    if (pass->cursor == pass->end || *pass->cursor != '}') {
        return; // a single brace is ignored
    }
    unsigned through = 1u << FRAME_LINK | 1u << FRAME_EXTERNAL | 1u << FRAME_TAG |
                       1u << FRAME_TABLE | 1u << FRAME_VARIANT;
    struct wikitext_frame *frame = find_frame(pass, FRAME_TEMPLATE, 0, through);
    pass->cursor++;
    if (frame == NULL) {
        return;
    }
    struct wikitext_frame closed = *frame;
    pop(pass);
    wikitext_expand(pass->wikitext, closed.template_, closed.start);
}

// |} at the start of a line ends a table, unless the bar belongs to a template.
static int close_table(struct pass *pass) {
    if (pass->cursor + 1 == pass->end || pass->cursor[1] != '}' || !begins_line(pass)) {
        return 0;
    }
    unsigned through =
        1u << FRAME_LINK | 1u << FRAME_EXTERNAL | 1u << FRAME_TAG | 1u << FRAME_VARIANT;
    struct wikitext_frame *frame = find_frame(pass, FRAME_TABLE, 0, through);
    if (frame == NULL) {
        return 0;
    }
    pass->out->length = frame->start;
    pop(pass);
    pass->cursor += 2;
    return 1;
}

// --- links --------------------------------------------------------------------------------------

// The length of the prefix of a target ("File" in "File:x.jpg") without surrounding blanks; moves
// *text to it. 0: none.
static size_t target_prefix(const char **text, size_t length) {
    const char *from = *text, *colon = memchr(from, ':', length < 64 ? length : 64);
    if (colon == NULL) {
        return 0;
    }
    while (from < colon && *from == ' ') {
        from++;
    }
    size_t prefix = (size_t)(colon - from);
    while (prefix > 0 && from[prefix - 1] == ' ') {
        prefix--;
    }
    *text = from;
    return prefix;
}

// Called at the end of the target, which is the first bar or the end of the link. A leading colon,
// as in [[:Category:x]], makes any target an ordinary link.
static void check_target(struct pass *pass, struct wikitext_frame *frame) {
    size_t length = pass->out->length - frame->start;
    const char *text = pass->out->bytes + frame->start;
    if (length == 0 || text[0] == ':') {
        return;
    }
    size_t prefix = target_prefix(&text, length);
    frame->is_dropped = prefix > 0 && wikitext_drops_prefix(pass->wikitext, text, prefix);
}

// A link without a label shows its target, without the prefix of another wiki.
static void show_target(struct pass *pass, struct wikitext_frame *frame) {
    size_t length = pass->out->length - frame->start;
    char *text = pass->out->bytes + frame->start;
    if (length > TITLE_MAX) {
        return;
    }
    size_t skip = length > 0 && text[0] == ':';
    const char *const prefixes[] = {"w:", "wikt:", "wiktionary:", "s:", "q:"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t own = strlen(prefixes[i]);
        if (length >= skip + own && caseless_equal_bytes(text + skip, prefixes[i], own)) {
            skip += own;
            break;
        }
    }
    if (skip > 0) {
        memmove(text, text + skip, length - skip);
        pass->out->length -= skip;
    }
}

static void close_link(struct pass *pass) {
    struct wikitext_frame *frame = top(pass);
    if (!frame->is_labelled) {
        check_target(pass, frame);
        if (!frame->is_dropped) {
            show_target(pass, frame);
        }
    }
    if (frame->is_dropped) {
        pass->out->length = frame->start;
    }
    pop(pass);
}

static int scheme_length(const struct pass *pass) {
    static const char *const schemes[] = {
        "http://", "https://", "ftp://",    "//",      "mailto:", "news:", "irc://",
        "ftps://", "git:",     "gopher://", "ircs://", "nntp://", "tel:",  "urn:",
        "magnet:", "svn://",   "ssh://",    "sftp://", "sip:",    "geo:"};
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        size_t length = strlen(schemes[i]);
        if ((size_t)(pass->end - pass->cursor) > length &&
            caseless_equal_bytes(pass->cursor + 1, schemes[i], length)) {
            return (int)length;
        }
    }
    return 0;
}

// [http://url label]
static void open_external(struct pass *pass, int scheme) {
    const char *to = pass->cursor + 1 + scheme;
    while (to < pass->end && (unsigned char)*to > ' ' && strchr("[]<>\"", *to) == NULL) {
        to += 1;
    }
    if (to == pass->end || *to == '\n') {
        pass->cursor++; // unclosed: drops the bracket, the rest is text
        return;
    }
    push(pass, (struct wikitext_frame){.kind = FRAME_EXTERNAL});
    pass->cursor = to;
    while (pass->cursor < pass->end && *pass->cursor == ' ') {
        pass->cursor++;
    }
}

static void open_bracket(struct pass *pass) {
    if (starts_with(pass, "[[")) {
        push(pass, (struct wikitext_frame){.kind = FRAME_LINK});
        pass->cursor += 2;
        return;
    }
    int scheme = scheme_length(pass);
    if (scheme > 0) {
        open_external(pass, scheme);
    } else {
        buffer_put_byte(pass->out, *pass->cursor++);
    }
}

static void close_bracket(struct pass *pass) {
    struct wikitext_frame *frame = top(pass);
    if (frame != NULL && frame->kind == FRAME_EXTERNAL) {
        pop(pass);
        pass->cursor++;
    } else if (starts_with(pass, "]]")) {
        unsigned through = 1u << FRAME_TAG | 1u << FRAME_EXTERNAL | 1u << FRAME_VARIANT;
        if (find_frame(pass, FRAME_LINK, 0, through) != NULL) {
            close_link(pass);
        }
        pass->cursor += 2;
    } else {
        buffer_put_byte(pass->out, *pass->cursor++);
    }
}

static void handle_bar(struct pass *pass) {
    struct wikitext_frame *frame = top(pass);
    if (close_table(pass)) {
        return;
    }
    pass->cursor++;
    if (frame != NULL && frame->kind == FRAME_LINK) {
        if (!frame->is_labelled) {
            check_target(pass, frame);
        }
        frame->is_labelled = 1;
        pass->out->length = frame->start;
    } else if (frame != NULL && frame->kind == FRAME_TEMPLATE) {
        buffer_put_byte(pass->out, WIKITEXT_SEPARATOR);
    } else {
        buffer_put_byte(pass->out, '|'); // a table cell, or part of a dropped construct
    }
}

// Links to pages and variants end with the line; captions of files may have several lines.
static void end_line(struct pass *pass) {
    struct wikitext_frame *frame = top(pass);
    while (frame != NULL && (frame->kind == FRAME_EXTERNAL || frame->kind == FRAME_VARIANT ||
                             (frame->kind == FRAME_LINK && !frame->is_labelled))) {
        pop(pass);
        frame = top(pass);
    }
    buffer_put_byte(pass->out, *pass->cursor++);
}

// --- tags ---------------------------------------------------------------------------------------

static void put_formula(struct pass *pass) {
    char name[64];
    int length = number_format(name, sizeof name, "formula_%zu", ++pass->wikitext->formulas);
    buffer_put(pass->out, name, (size_t)length);
}

// Handles an element whose content is wikitext, and is dropped, raised or lowered.
static void handle_nested_element(struct pass *pass, const struct wikitext_tag *tag) {
    pass->cursor = tag->end;
    if (tag->closes_itself) {
        return;
    }
    if (!tag->is_closing) {
        push(pass, (struct wikitext_frame){.kind = FRAME_TAG, .tag = tag->index});
        return;
    }
    unsigned through = 1u << FRAME_TAG | 1u << FRAME_EXTERNAL | 1u << FRAME_VARIANT;
    struct wikitext_frame *frame = find_frame(pass, FRAME_TAG, tag->index, through);
    if (frame == NULL) {
        return;
    }
    const size_t start = frame->start;
    pop(pass);
    if (tag->kind == TAG_DROP) {
        pass->out->length = start;
    } else {
        wikitext_set_script(pass->wikitext, start, tag->kind == TAG_RAISED,
                            pass->cursor < pass->end ? *pass->cursor : ' ');
    }
}

static void handle_angle(struct pass *pass) {
    struct wikitext_tag tag;
    if (starts_with(pass, "<!--")) {
        const char *close = memmem(pass->cursor, (size_t)(pass->end - pass->cursor), "-->", 3);
        pass->cursor =
            close != NULL
                ? close + 3
                : pass->end; // an unclosed one extends to the end of the page, as in MediaWiki
    } else if (!wikitext_read_tag(pass->cursor, pass->end, &tag)) {
        buffer_put_byte(pass->out, *pass->cursor++);
    } else if (tag.kind == TAG_DROP || tag.kind == TAG_RAISED || tag.kind == TAG_LOWERED) {
        handle_nested_element(pass, &tag);
    } else if (tag.kind == TAG_RAW || tag.kind == TAG_LITERAL || tag.kind == TAG_FORMULA) {
        // Handles an element whose content is not wikitext.
        const char *close, *after;
        pass->cursor = tag.end;
        if (!tag.is_closing && !tag.closes_itself &&
            wikitext_find_closing(pass->wikitext, &tag, pass->end, &close, &after)) {
            if (tag.kind == TAG_FORMULA) {
                put_formula(pass);
            } else if (tag.kind == TAG_LITERAL) {
                for (const char *at = tag.end; at < close; at++) {
                    buffer_put_byte(pass->out, wikitext_protect(*at));
                }
            }
            pass->cursor = after;
        }
    } else {
        buffer_put_text(pass->out, tag.kind == TAG_SPACE   ? " "
                                   : tag.kind == TAG_LINE  ? "\n"
                                   : tag.kind != TAG_QUOTE ? ""
                                   : tag.is_closing        ? "”"
                                                           : "“");
        pass->cursor = tag.end;
    }
}

// --- the pass -----------------------------------------------------------------------------------

static void copy_plain(struct pass *pass) {
    static const char special[256] = {
        ['{'] = 1, ['}'] = 1, ['['] = 1, [']'] = 1, ['|'] = 1, ['<'] = 1, ['\n'] = 1};
    const char *to = pass->cursor + 1;
    while (to < pass->end && !special[(unsigned char)*to]) {
        to++;
    }
    buffer_put(pass->out, pass->cursor, (size_t)(to - pass->cursor));
    pass->cursor = to;
}

static void strip(struct pass *pass) {
    static void (*const handlers[256])(struct pass * pass) = {
        ['{'] = open_braces, ['}'] = close_braces, ['['] = open_bracket, [']'] = close_bracket,
        ['|'] = handle_bar,  ['<'] = handle_angle, ['\n'] = end_line};
    while (pass->cursor < pass->end && !pass->wikitext->failed) {
        void (*handler)(struct pass *) = handlers[(unsigned char)*pass->cursor];
        (handler != NULL ? handler : copy_plain)(pass);
    }
}

// Empties the buffers and resets their failures.
static void clear(struct wikitext *wikitext) {
    struct buffer *const all[] = {&wikitext->stripped, &wikitext->plain,    &wikitext->scratch,
                                  &wikitext->line,     &wikitext->headings, &wikitext->gaps};
    wikitext->frame_count = wikitext->formulas = 0;
    wikitext->failed = 0;
    wikitext->left_out = 0;
    memset(wikitext->no_closing, 0, sizeof wikitext->no_closing);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        buffer_clear(all[i]);
        all[i]->failed = 0;
    }
}

enum berth_status wikitext_clean(struct wikitext *wikitext, const char *text, size_t length,
                                 const char **plain, size_t *plain_length,
                                 struct berth_error *error) {
    *plain = "";
    *plain_length = 0;
    if (length > UINT32_MAX / 8) { // the text of templates may be longer than they are
        return error_set(error, BERTH_BAD_DATA, "a page of %zu bytes is too long", length);
    }
    clear(wikitext);
    struct pass pass = {wikitext, &wikitext->stripped, text, text, text + length};
    if (length > 0 && buffer_reserve(&wikitext->stripped, length)) {
        strip(&pass);
    }
    if (!wikitext->failed && !wikitext->stripped.failed) {
        wikitext_finish_lines(wikitext);
    }
    if (wikitext->failed || wikitext->stripped.failed || wikitext->plain.failed ||
        wikitext->scratch.failed || wikitext->line.failed || wikitext->headings.failed ||
        wikitext->gaps.failed) {
        return error_no_memory(error, length, "a page's text");
    }
    if (wikitext->plain.length > 0) {
        *plain = wikitext->plain.bytes;
        *plain_length = wikitext->plain.length;
    }
    return BERTH_OK;
}

void wikitext_done(struct wikitext *wikitext) {
    memory_free(wikitext->frames);
    buffer_done(&wikitext->stripped);
    buffer_done(&wikitext->plain);
    buffer_done(&wikitext->scratch);
    buffer_done(&wikitext->line);
    buffer_done(&wikitext->headings);
    buffer_done(&wikitext->gaps);
    string_index_done(&wikitext->dropped_prefixes);
    *wikitext = (struct wikitext){.frames = NULL};
}
