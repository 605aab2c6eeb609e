// SPDX-License-Identifier: Apache-2.0
// Replaces a template with the text that a reader of the page sees. wikitext_rows.c lists the
// templates whose text is known; any other leaves a gap, and its sentence is left out. wikitext.c
// calls it when the end of a template is found.
#include "core/caseless.h"
#include "wiki/wikitext_parts.h"

#include <stdlib.h>

// The longest template, in bytes: longer ones are not part of a sentence. This also limits how
// often nested templates are copied.
#define TEXT_MAX ((size_t)16 << 10)
#define NAME_MAX_BYTES 64

static int unknown(struct wikitext_call *call) {
    (void)call;
    return 0;
}

static const struct wikitext_template unknown_template = {"", unknown, "?"};
static const struct wikitext_template parameter = {"", wikitext_show, "$1"}; // {{{1|default}}}

// Names that begin like this.
static const struct wikitext_template families[] = {{"ipa-", wikitext_ipa_of, NULL},
                                                    {"lang-", wikitext_lang_of, NULL},
                                                    {"script/", wikitext_show, "$1"}};

// --- names --------------------------------------------------------------------------------------

static int compare_name(const void *key, const void *row) {
    return strcmp(key, ((const struct wikitext_template *)row)->name);
}

static const struct wikitext_template *find_row(const char *name) {
    return bsearch(name, wikitext_templates, wikitext_template_count, sizeof *wikitext_templates,
                   compare_name);
}

const struct wikitext_template *wikitext_find_template(const char *text, size_t length) {
    char name[NAME_MAX_BYTES];
    size_t used = 0, i = 0;
    while (i < length && (text[i] == ' ' || text[i] == '\n')) {
        i++;
    }
    for (; i < length && text[i] != '|' && text[i] != '}' && used < sizeof name - 1; i++) {
        name[used++] = text[i] == '_' ? ' ' : caseless_lower(text[i]);
        if (text[i] == ':') { // of a parser function, whose first argument follows
            name[used] = '\0';
            const struct wikitext_template *function = find_row(name);
            if (function != NULL) {
                return function;
            }
        }
    }
    if (i == length || (text[i] != '|' && text[i] != '}')) {
        return &unknown_template;
    }
    while (used > 0 && (name[used - 1] == ' ' || name[used - 1] == '\n')) {
        used--;
    }
    name[used] = '\0';
    const struct wikitext_template *row = find_row(name);
    if (row != NULL) {
        return row;
    }
    for (size_t k = 0; k < sizeof families / sizeof *families; k++) {
        if (strncmp(name, families[k].name, strlen(families[k].name)) == 0) {
            return &families[k];
        }
    }
    return &unknown_template;
}

const struct wikitext_template *wikitext_parameter(void) {
    return &parameter;
}

// --- arguments ----------------------------------------------------------------------------------

static struct wikitext_argument trimmed(const char *text, size_t length) {
    while (length > 0 && strchr(" \n\t", text[0]) != NULL) {
        text++;
        length--;
    }
    while (length > 0 && strchr(" \n\t", text[length - 1]) != NULL) {
        length--;
    }
    return (struct wikitext_argument){text, length};
}

// The length of "name=" in "name=value"; 0: the argument has no name. Names are short words.
static size_t name_length(const struct wikitext_argument *argument) {
    for (size_t i = 0; i < argument->length && i < 24; i++) {
        char byte = argument->text[i];
        if (byte == '=') {
            return i + 1;
        }
        int is_word = (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '-' ||
                      byte == '_' || byte == ' ';
        if (!is_word) {
            return 0;
        }
    }
    return 0;
}

static void add_position(struct wikitext_call *call, size_t at, struct wikitext_argument value) {
    if (at >= WIKITEXT_ARGUMENTS) {
        call->is_cut = 1;
        return;
    }
    call->all[at] = value;
    call->count = at >= call->count ? at + 1 : call->count;
}

static void add_argument(struct wikitext_call *call, struct wikitext_argument argument) {
    const size_t length = call->is_function ? 0 : name_length(&argument);
    if (length == 0) {
        add_position(call, call->next++, argument);
        return;
    }
    const struct wikitext_argument name = trimmed(argument.text, length - 1);
    const struct wikitext_argument value =
        trimmed(argument.text + length, argument.length - length);
    if (name.length == 1 && name.text[0] >= '1' && name.text[0] <= '9') {
        add_position(call, (size_t)(name.text[0] - '1'), value);
    } else if (wikitext_is(&name, "text") || wikitext_is(&name, "quote")) {
        add_position(call, 0, value);
    } else if (call->named_count < WIKITEXT_ARGUMENTS) {
        call->names[call->named_count] = name;
        call->values[call->named_count++] = value;
    } else {
        call->is_cut = 1;
    }
}

// --- the template -------------------------------------------------------------------------------

void wikitext_expand(struct wikitext *wikitext, const struct wikitext_template *template_,
                     size_t start) {
    struct buffer *out = &wikitext->stripped, *scratch = &wikitext->scratch;
    const size_t length = out->length - start;
    const char *name = template_->name;
    struct wikitext_call call = {.out = scratch,
                                 .pattern = template_->pattern,
                                 .is_function = name[0] != '\0' && name[strlen(name) - 1] == ':'};
    out->length = start;
    if (template_->write == wikitext_show && template_->pattern[0] == '\0') {
        return;
    }
    buffer_clear(scratch);
    int is_known = template_->write != unknown && length <= TEXT_MAX;
    if (is_known) {
        // Splits "name SEP argument SEP argument"; the first argument of a function follows the
        // colon.
        const char *text = out->bytes + start;
        const char *end = text + length,
                   *at = memchr(text, call.is_function ? ':' : WIKITEXT_SEPARATOR, length);
        call.name = trimmed(text, (size_t)((at != NULL ? at : end) - text));
        while (at != NULL) {
            const char *next = memchr(at + 1, WIKITEXT_SEPARATOR, (size_t)(end - at - 1));
            add_argument(&call, trimmed(at + 1, (size_t)((next != NULL ? next : end) - at - 1)));
            at = next;
        }
        is_known = !call.is_cut && template_->write(&call);
    }
    if (scratch->failed) {
        wikitext->failed = 1;
        return;
    }
    if (!is_known) {
        buffer_put_byte(out, WIKITEXT_GAP);
        return;
    }
    buffer_put(out, scratch->bytes, scratch->length);
    if (template_->write == wikitext_script) {
        wikitext_set_script(wikitext, start, template_->pattern[0] == '+', ' ');
    }
}
