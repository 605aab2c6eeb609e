// SPDX-License-Identifier: Apache-2.0
// Replaces a template with the text that a reader of the page sees. wikitext_rows.c lists the
// templates whose text is known; any other leaves a gap, and its sentence is left out.
#include "core/caseless.h"
#include "data/wikipedia/wikitext_parts.h"

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

static const struct wikitext_template *find_family(const char *name) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strncmp(name, families[i].name, strlen(families[i].name)) == 0) {
            return &families[i];
        }
    }
    return &unknown_template;
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
    return row != NULL ? row : find_family(name);
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

int wikitext_is(const struct wikitext_argument *argument, const char *text) {
    return argument->length == strlen(text) && memcmp(argument->text, text, argument->length) == 0;
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

// Splits "name SEP argument SEP argument"; the first argument of a function follows the colon.
static void split(const char *text, size_t length, struct wikitext_call *call) {
    const char *end = text + length,
               *at = memchr(text, call->is_function ? ':' : WIKITEXT_SEPARATOR, length);
    call->name = trimmed(text, (size_t)((at != NULL ? at : end) - text));
    while (at != NULL) {
        const char *next = memchr(at + 1, WIKITEXT_SEPARATOR, (size_t)(end - at - 1));
        add_argument(call, trimmed(at + 1, (size_t)((next != NULL ? next : end) - at - 1)));
        at = next;
    }
}

struct wikitext_argument wikitext_positional(const struct wikitext_call *call, size_t index) {
    return index < call->count && call->all[index].text != NULL ? call->all[index]
                                                                : (struct wikitext_argument){"", 0};
}

static struct wikitext_argument named(const struct wikitext_call *call, const char *name,
                                      size_t length) {
    for (size_t i = call->named_count; i-- > 0;) {
        if (call->names[i].length == length && memcmp(call->names[i].text, name, length) == 0) {
            return call->values[i];
        }
    }
    return (struct wikitext_argument){"", 0};
}

struct wikitext_argument wikitext_named(const struct wikitext_call *call, const char *name) {
    return named(call, name, strlen(name));
}

int wikitext_names_only(const struct wikitext_call *call, const char *known) {
    for (size_t i = 0; i < call->named_count; i++) {
        const struct wikitext_argument *name = &call->names[i];
        const char *at = memmem(known, strlen(known), name->text, name->length);
        if (at == NULL || at[-1] != ' ' || at[name->length] != ' ') {
            return 0;
        }
    }
    return 1;
}

void wikitext_put(struct wikitext_call *call, struct wikitext_argument argument) {
    buffer_put(call->out, argument.text, argument.length);
}

// --- patterns -----------------------------------------------------------------------------------

// Reads the argument that the pattern names, one digit or a word; returns where it continues.
static const char *read_name(const struct wikitext_call *call, const char *at,
                             struct wikitext_argument *value) {
    size_t length = 0;
    if (*at >= '1' && *at <= '9') {
        *value = wikitext_positional(call, (size_t)(*at - '1'));
        return at + 1;
    }
    while (at[length] >= 'a' && at[length] <= 'z') {
        length++;
    }
    *value = named(call, at, length);
    return at + length;
}

static const char *show_group(struct wikitext_call *call, const char *at, int *is_complete);

// Shows the pattern up to the end of its group or alternative.
static const char *show_run(struct wikitext_call *call, const char *at, int *is_complete) {
    while (*at != '\0' && *at != '>' && *at != '~') {
        const int is_test = at[0] == '$' && (at[1] == '?' || at[1] == '!');
        const char next = at[1 + is_test];
        struct wikitext_argument value;
        if (*at == '<') {
            at = show_group(call, at + 1, is_complete);
        } else if (*at == '$' && ((next >= 'a' && next <= 'z') || (next >= '1' && next <= '9'))) {
            const int is_absent = at[1] == '!';
            at = read_name(call, at + 1 + is_test, &value);
            if ((value.length == 0) != is_absent) {
                *is_complete = 0;
            } else if (!is_test) {
                wikitext_put(call, value);
            }
        } else {
            buffer_put_byte(call->out, *at++);
        }
    }
    return at;
}

static const char *show_group(struct wikitext_call *call, const char *at, int *is_complete) {
    size_t kept = call->out->length;
    int is_shown = 0, is_choice = 0, is_last = 0;
    while (!is_last) {
        int is_whole = 1;
        at = show_run(call, at, &is_whole);
        if (is_whole && !is_shown) {
            is_shown = 1;
            kept = call->out->length;
        }
        call->out->length = kept;
        is_last = *at != '~';
        is_choice |= !is_last;
        at += *at != '\0';
    }
    if (is_choice && !is_shown) {
        *is_complete = 0;
    }
    return at;
}

int wikitext_show(struct wikitext_call *call) {
    int is_complete = 1;
    (void)show_run(call, call->pattern, &is_complete);
    return is_complete;
}

int wikitext_listed(struct wikitext_call *call) {
    for (const char *at = call->pattern; *at == '<';) {
        const size_t before = call->out->length;
        buffer_put_text(call->out, before > 0 ? "; " : "");
        const size_t begin = call->out->length;
        int is_complete = 1;
        at = show_group(call, at + 1, &is_complete);
        call->out->length = call->out->length > begin ? call->out->length : before;
    }
    return call->out->length > 0 && wikitext_named(call, "labels").length == 0;
}

int wikitext_join(struct wikitext_call *call) {
    for (size_t i = 0; i < call->count; i++) {
        buffer_put_text(call->out, i > 0 ? call->pattern : "");
        wikitext_put(call, wikitext_positional(call, i));
    }
    return 1;
}

int wikitext_choose(struct wikitext_call *call) {
    const struct wikitext_argument key = wikitext_positional(call, 0);
    const char *at = call->pattern;
    while (key.length > 0 && at != NULL) {
        const char *equals = strchr(at, '='), *end = strchr(at, ';');
        if ((size_t)(equals - at) == key.length && memcmp(at, key.text, key.length) == 0) {
            buffer_put(call->out, equals + 1,
                       end != NULL ? (size_t)(end - equals - 1) : strlen(equals + 1));
            return 1;
        }
        at = end != NULL ? end + 1 : NULL;
    }
    return 0;
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
        split(out->bytes + start, length, &call);
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
