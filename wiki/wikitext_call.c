// SPDX-License-Identifier: Apache-2.0
// The arguments of a template's call, and the little patterns with which rows say what a reader of
// the page sees of them. The functions that show templates (wikitext_numbers.c, _words.c,
// _languages.c, _convert.c) and wikitext_templates.c use it; which template has which pattern is in
// wikitext_rows.c.
#include "wiki/wikitext_parts.h"

// --- arguments ----------------------------------------------------------------------------------

int wikitext_is(const struct wikitext_argument *argument, const char *text) {
    return argument->length == strlen(text) && memcmp(argument->text, text, argument->length) == 0;
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

static int is_listed(const struct wikitext_argument *name, const char *list) {
    for (const char *at = list; *at != '\0';) {
        const size_t length = strcspn(at, " ");
        if (length > 0 && length == name->length && memcmp(at, name->text, length) == 0) {
            return 1;
        }
        at += length + (at[length] == ' ');
    }
    return 0;
}

int wikitext_names_only(const struct wikitext_call *call, const char *known) {
    for (size_t i = 0; i < call->named_count; i++) {
        if (!is_listed(&call->names[i], known)) {
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
