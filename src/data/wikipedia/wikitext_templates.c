// SPDX-License-Identifier: Apache-2.0
// Templates whose arguments are part of a sentence: without them sentences have gaps, as in "a
// distance of .". All others are dropped.
#include "data/wikipedia/wikitext_parts.h"

#include <string.h>

// The longest template, in bytes: longer ones are not part of a sentence. This also limits how
// often nested templates are copied.
#define TEXT_MAX ((size_t)16 << 10)
#define ARGUMENTS_MAX 24

enum rule {
    ONE,     // the first argument
    TWO,     // the second
    LAST,    // the last
    JOINED,  // all, concatenated
    DATE,    // {{OldStyleDate|February 2|1905|January 20}}: day and year
    MEASURE, // {{convert|5|to|10|km|mi}}: up to the first unit
    FIXED,   // `before` alone
    QUOTE,   // the first, as a separate paragraph
};

struct wikitext_template {
    const char *name; // in lower case
    enum rule rule;
    const char *before; // NULL: nothing
};

static const struct wikitext_template templates[] = {
    {"'s", FIXED, "'s"},
    {"abbr", ONE, NULL},
    {"angbr", ONE, NULL},
    {"as of", ONE, "As of "},
    {"blockquote", QUOTE, NULL},
    {"c.", ONE, "c. "},
    {"chem", JOINED, NULL},
    {"circa", ONE, "c. "},
    {"convert", MEASURE, NULL},
    {"cquote", QUOTE, NULL},
    {"cvt", MEASURE, NULL},
    {"endash", FIXED, "\xE2\x80\x93"},
    {"ill", ONE, NULL},
    {"interlanguage link", ONE, NULL},
    {"lang", TWO, NULL},
    {"mdash", FIXED, "\xE2\x80\x94"},
    {"mvar", ONE, NULL},
    {"nbsp", FIXED, " "},
    {"ndash", FIXED, "\xE2\x80\x93"},
    {"nihongo", ONE, NULL},
    {"nobr", ONE, NULL},
    {"nobreak", ONE, NULL},
    {"not a typo", JOINED, NULL},
    {"nowrap", ONE, NULL},
    {"nts", ONE, NULL},
    {"oldstyledate", DATE, NULL},
    {"oldstyledatedy", DATE, NULL},
    {"quote", QUOTE, NULL},
    {"quotation", QUOTE, NULL},
    {"sic", ONE, NULL},
    {"snd", FIXED, " \xE2\x80\x93 "},
    {"spaced ndash", FIXED, " \xE2\x80\x93 "},
    {"sub", ONE, NULL},
    {"sup", ONE, NULL},
    {"transl", LAST, NULL},
    {"transliteration", LAST, NULL},
    {"unichar", TWO, NULL},
    {"val", ONE, NULL},
    {"vanchor", ONE, NULL},
    {"visible anchor", ONE, NULL},
    {"\xC2\xB7", FIXED, " \xC2\xB7 "},
};
static const struct wikitext_template language = {"lang-", ONE, NULL}; // {{lang-fr|...}}

// --- names --------------------------------------------------------------------------------------

const struct wikitext_template *wikitext_find_template(const char *text, size_t length) {
    char name[24];
    size_t used = 0, i = 0;
    while (i < length && (text[i] == ' ' || text[i] == '\n')) {
        i++;
    }
    for (; i < length && text[i] != '|' && text[i] != '}' && used < sizeof name - 1; i++) {
        char byte = text[i] == '_' ? ' ' : text[i];
        name[used++] = byte >= 'A' && byte <= 'Z' ? (char)(byte | 32) : byte;
    }
    if (i == length || (text[i] != '|' && text[i] != '}')) {
        return NULL; // none of these names is long
    }
    while (used > 0 && (name[used - 1] == ' ' || name[used - 1] == '\n')) {
        used--;
    }
    name[used] = '\0';
    for (size_t t = 0; t < sizeof templates / sizeof *templates; t++) {
        if (strcmp(templates[t].name, name) == 0) {
            return &templates[t];
        }
    }
    return strncmp(name, language.name, strlen(language.name)) == 0 ? &language : NULL;
}

// --- arguments ----------------------------------------------------------------------------------

struct argument {
    const char *text;
    size_t length;
};

struct arguments {
    struct argument all[ARGUMENTS_MAX]; // by position, from 0
    size_t count;
};

static void trim(struct argument *argument) {
    while (argument->length > 0 && strchr(" \n\t", argument->text[0]) != NULL) {
        argument->text++;
        argument->length--;
    }
    while (argument->length > 0 && strchr(" \n\t", argument->text[argument->length - 1]) != NULL) {
        argument->length--;
    }
}

// The length of "name=" in "name=value"; 0: the argument has no name. Names are short words.
static size_t name_length(const struct argument *argument) {
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

// The position that a name stands for: "2=" is 1, "text=" and "quote=" are 0. -1: none.
static int named_position(const char *name, size_t length) {
    if (length == 2 && name[0] >= '1' && name[0] <= '9') {
        return name[0] - '1';
    }
    return (length == 5 && memcmp(name, "text=", 5) == 0) ||
                   (length == 6 && memcmp(name, "quote=", 6) == 0)
               ? 0
               : -1;
}

static void add_argument(struct arguments *arguments, struct argument argument) {
    size_t name = name_length(&argument);
    int at = name > 0 ? named_position(argument.text, name) : (int)arguments->count;
    argument.text += name;
    argument.length -= name;
    trim(&argument);
    if (at < 0 || at >= ARGUMENTS_MAX) {
        return;
    }
    arguments->all[at] = argument;
    if ((size_t)at >= arguments->count) {
        arguments->count = (size_t)at + 1;
    }
}

// Splits "name SEP argument SEP argument".
static void split(const char *text, size_t length, struct arguments *arguments) {
    const char *end = text + length, *at = memchr(text, WIKITEXT_SEPARATOR, length);
    while (at != NULL) {
        const char *next = memchr(at + 1, WIKITEXT_SEPARATOR, (size_t)(end - at - 1));
        struct argument argument = {at + 1, (size_t)((next != NULL ? next : end) - at - 1)};
        trim(&argument);
        add_argument(arguments, argument);
        at = next;
    }
}

// --- rules --------------------------------------------------------------------------------------

static int is_text(const struct argument *argument, const char *text) {
    return argument->length == strlen(text) && memcmp(argument->text, text, argument->length) == 0;
}

static void put(struct buffer *out, const struct argument *argument) {
    buffer_put(out, argument->text, argument->length);
}

static int is_range_word(const struct argument *argument) {
    static const char *const words[] = {"to", "-",     "\xE2\x80\x93", "and",      "or",      "x",
                                        "by", "to(-)", "+/-",          "\xC2\xB1", "\xC3\x97"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (is_text(argument, words[i])) {
            return 1;
        }
    }
    return 0;
}

// Writes a unit: "km", or "million acre" for "e6acre".
static void put_unit(struct buffer *out, const struct argument *unit) {
    static const struct {
        const char *power, *word;
    } powers[] = {{"e3", "thousand "}, {"e6", "million "}, {"e9", "billion "}};
    struct argument rest = *unit;
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++) {
        if (unit->length > 2 && memcmp(unit->text, powers[i].power, 2) == 0) {
            buffer_put_text(out, powers[i].word);
            rest = (struct argument){unit->text + 2, unit->length - 2};
        }
    }
    put(out, &rest);
}

// Writes "5 to 10 km", "5–10 km".
static void put_measure(struct buffer *out, const struct arguments *arguments) {
    size_t i = 0;
    put(out, &arguments->all[i++]);
    while (i + 1 < arguments->count && is_range_word(&arguments->all[i])) {
        int is_dash =
            is_text(&arguments->all[i], "-") || is_text(&arguments->all[i], "\xE2\x80\x93");
        if (is_dash) {
            buffer_put_text(out, "\xE2\x80\x93");
        } else {
            buffer_put_byte(out, ' ');
            put(out, &arguments->all[i]);
            buffer_put_byte(out, ' ');
        }
        put(out, &arguments->all[i + 1]);
        i += 2;
    }
    if (i < arguments->count) {
        buffer_put_byte(out, ' ');
        put_unit(out, &arguments->all[i]);
    }
}

static void put_rule(struct buffer *out, const struct wikitext_template *template_,
                     const struct arguments *arguments) {
    size_t count = arguments->count;
    const struct argument *all = arguments->all;
    if (template_->before != NULL && (count > 0 || template_->rule == FIXED)) {
        buffer_put_text(out, template_->before);
    }
    if (template_->rule == FIXED || count == 0) {
        return;
    }
    if (template_->rule == JOINED) {
        for (size_t i = 0; i < count; i++) {
            put(out, &all[i]);
        }
    } else if (template_->rule == MEASURE) {
        put_measure(out, arguments);
    } else if (template_->rule == DATE) {
        put(out, &all[0]);
        buffer_put_text(out, count > 1 ? " " : "");
        put(out, &all[1]);
    } else if (template_->rule == QUOTE) {
        buffer_put_byte(out, '\n');
        put(out, &all[0]);
        buffer_put_byte(out, '\n');
    } else {
        size_t chosen = template_->rule == LAST ? count - 1 : template_->rule == TWO ? 1 : 0;
        if (chosen < count) {
            put(out, &all[chosen]);
        }
    }
}

void wikitext_expand(struct wikitext *wikitext, const struct wikitext_template *template_,
                     size_t start) {
    struct buffer *out = &wikitext->stripped, *scratch = &wikitext->scratch;
    size_t length = out->length - start;
    struct arguments arguments = {.count = 0};
    out->length = start;
    if (length == 0 || length > TEXT_MAX) {
        return;
    }
    buffer_clear(scratch);
    split(out->bytes + start, length, &arguments);
    put_rule(scratch, template_, &arguments);
    if (scratch->failed) {
        wikitext->failed = 1;
        return;
    }
    buffer_put(out, scratch->bytes, scratch->length);
}
