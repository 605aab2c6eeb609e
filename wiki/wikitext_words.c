// SPDX-License-Identifier: Apache-2.0
// Shows templates of dates, ages, ships, formulas, characters and coordinates in the words that a
// reader of the page sees. Called through the rows of wikitext_rows.c, while wikitext.c cleans a
// page.
#include "core/caseless.h"
#include "core/number.h"
#include "core/utf8.h"
#include "wiki/wikitext_parts.h"

#include <stdlib.h>

static int is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

// --- dates --------------------------------------------------------------------------------------

static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

// The whole number of 1 to 4 digits; -1: it is none.
static int whole(struct wikitext_argument argument) {
    int value = 0;
    if (argument.length == 0 || argument.length > 4) {
        return -1;
    }
    for (size_t i = 0; i < argument.length; i++) {
        if (!is_digit(argument.text[i])) {
            return -1;
        }
        value = value * 10 + (argument.text[i] - '0');
    }
    return value;
}

// 1 to 12, of a number or a name; -1: it is none.
static int month_of(struct wikitext_argument argument) {
    for (int i = 0; i < 12; i++) {
        if (strlen(months[i]) == argument.length &&
            caseless_equal_bytes(months[i], argument.text, argument.length)) {
            return i + 1;
        }
    }
    const int month = whole(argument);
    return month >= 1 && month <= 12 ? month : -1;
}

struct date {
    int year, month, day; // 0: not given
};

// The date of the arguments from `first` on: a year, and possibly month and day.
static int read_date(const struct wikitext_call *call, size_t first, struct date *date) {
    const struct wikitext_argument month = wikitext_positional(call, first + 1),
                                   day = wikitext_positional(call, first + 2);
    date->year = whole(wikitext_positional(call, first));
    date->month = month.length > 0 ? month_of(month) : 0;
    date->day = day.length > 0 ? whole(day) : 0;
    return date->year > 0 && date->month >= 0 && date->day >= 0 && date->day <= 31 &&
           (date->day == 0 || date->month > 0);
}

static void put_date(struct wikitext_call *call, struct date date, int day_first) {
    if (date.day > 0 && day_first) {
        buffer_print(call->out, "%d %s %d", date.day, months[date.month - 1], date.year);
    } else if (date.day > 0) {
        buffer_print(call->out, "%s %d, %d", months[date.month - 1], date.day, date.year);
    } else if (date.month > 0) {
        buffer_print(call->out, "%s %d", months[date.month - 1], date.year);
    } else {
        buffer_print(call->out, "%d", date.year);
    }
}

static int is_yes(const struct wikitext_call *call, const char *name) {
    const struct wikitext_argument value = wikitext_named(call, name);
    return value.length > 0 && !wikitext_is(&value, "no") && !wikitext_is(&value, "n");
}

int wikitext_date(struct wikitext_call *call) {
    struct date date;
    if (call->count == 0 || call->count > 3 || !wikitext_names_only(call, "df mf") ||
        !read_date(call, 0, &date)) {
        return 0;
    }
    put_date(call, date, is_yes(call, "df"));
    return 1;
}

// Whole years from one date to the other; -1: unknown.
static int years_between(const struct wikitext_call *call, size_t from, size_t to) {
    struct date a, b;
    if (!read_date(call, from, &a) || !read_date(call, to, &b) || a.day == 0 || b.day == 0) {
        return -1;
    }
    return b.year - a.year - (b.month < a.month || (b.month == a.month && b.day < a.day));
}

int wikitext_age(struct wikitext_call *call) {
    const int years = years_between(call, 0, 3); // until today it cannot be known
    buffer_print(call->out, "%d", years);
    return years >= 0 && call->count == 6 && call->named_count == 0;
}

int wikitext_aged(struct wikitext_call *call) {
    struct date date;
    const int years = years_between(call, 3, 0);
    if (years < 0 || call->count != 6 || !read_date(call, 0, &date) ||
        !wikitext_names_only(call, "df mf")) {
        return 0;
    }
    put_date(call, date, is_yes(call, "df"));
    buffer_print(call->out, " (aged %d)", years);
    return 1;
}

int wikitext_as_of(struct wikitext_call *call) {
    const struct wikitext_argument alt = wikitext_named(call, "alt"),
                                   format = wikitext_named(call, "df");
    struct date date;
    if (alt.length > 0) {
        wikitext_put(call, alt);
        return 1;
    }
    if (!wikitext_names_only(call, "lc df since url") || !read_date(call, 0, &date)) {
        return 0;
    }
    const int is_since = is_yes(call, "since"), is_small = is_yes(call, "lc");
    buffer_put_text(call->out, is_since   ? (is_small ? "since " : "Since ")
                               : is_small ? "as of "
                                          : "As of ");
    const int is_american = format.length == 2 && caseless_equal_bytes(format.text, "us", 2);
    put_date(call, date, !is_american);
    return 1;
}

// --- ships --------------------------------------------------------------------------------------

// {{HMS|Ajax|22|6}}: the last argument has a bit for each part, prefix, name and identification.
int wikitext_ship(struct wikitext_call *call) {
    const size_t first = call->pattern == NULL;
    const struct wikitext_argument name = wikitext_positional(call, first),
                                   id = wikitext_positional(call, first + 1),
                                   format = wikitext_positional(call, first + 2);
    const int parts = format.length > 0 ? whole(format) : 7;
    if (name.length == 0 || parts < 1 || parts > 7 || parts == 4 || call->count > first + 3 ||
        call->named_count > 0) {
        return 0;
    }
    if (parts & 4) {
        buffer_put_text(call->out, call->pattern != NULL ? call->pattern : "");
        if (call->pattern == NULL) {
            wikitext_put(call, wikitext_positional(call, 0));
        }
        buffer_put_text(call->out, call->out->length > 0 ? " " : "");
    }
    if (parts & 2) {
        wikitext_put(call, name);
    }
    if ((parts & 1) && id.length > 0) {
        buffer_put_text(call->out, parts & 2 ? " (" : "");
        wikitext_put(call, id);
        buffer_put_text(call->out, parts & 2 ? ")" : "");
    }
    return call->out->length > 0;
}

// --- formulas and characters --------------------------------------------------------------------

// Whether the text is a charge, "2-".
static int is_charge(struct wikitext_argument part) {
    size_t digits = 0;
    while (digits < part.length && is_digit(part.text[digits])) {
        digits++;
    }
    const struct wikitext_argument sign = {part.text + digits, part.length - digits};
    return wikitext_is(&sign, "+") || wikitext_is(&sign, "-") || wikitext_is(&sign, "−");
}

int wikitext_chem(struct wikitext_call *call) {
    for (size_t i = 0; i < call->count; i++) {
        const struct wikitext_argument part = wikitext_positional(call, i);
        if (is_charge(part)) {
            (void)wikitext_put_script(call->out, part.text, part.length, 1);
        } else {
            wikitext_put(call, part);
        }
    }
    return call->out->length > 0 && call->named_count == 0;
}

// {{chem2|SO4(2-)}}
int wikitext_chem2(struct wikitext_call *call) {
    const struct wikitext_argument text = wikitext_positional(call, 0);
    if (call->count != 1 || !wikitext_names_only(call, "link auto")) {
        return 0;
    }
    for (size_t i = 0; i < text.length; i++) {
        const char *at = text.text + i, *close = memchr(at, ')', text.length - i);
        const struct wikitext_argument inner = {at + 1,
                                                close != NULL ? (size_t)(close - at - 1) : 0};
        const struct wikitext_argument rest = {at, text.length - i};
        if (*at == '(' && is_charge(inner)) {
            (void)wikitext_put_script(call->out, inner.text, inner.length, 1);
            i += inner.length + 1;
        } else if (rest.length == 1 && is_charge(rest)) {
            (void)wikitext_put_script(call->out, rest.text, rest.length, 1);
        } else if (caseless_is_alphanumeric(*at) || strchr("()[]", *at) != NULL) {
            buffer_put_byte(call->out, *at);
        } else {
            return 0;
        }
    }
    return call->out->length > 0;
}

// Whether the argument is the direction of a latitude or a longitude.
static int is_direction(struct wikitext_argument argument, int is_longitude) {
    return argument.length == 1 && strchr(is_longitude ? "EW" : "NS", argument.text[0]) != NULL;
}

// Writes degrees, minutes and seconds from argument *at on, "12°19′N", or decimal degrees,
// "12.5°N".
static int put_angle(struct wikitext_call *call, size_t *at, int is_longitude) {
    static const char *const marks[] = {"°", "′", "″"};
    double value;
    size_t parts = 0;
    while (parts < 3 && wikitext_number(wikitext_positional(call, *at + parts), &value)) {
        parts++;
    }
    const struct wikitext_argument first = wikitext_positional(call, *at),
                                   direction = wikitext_positional(call, *at + parts);
    if (parts > 0 && is_direction(direction, is_longitude)) {
        for (size_t i = 0; i < parts; i++) {
            wikitext_put(call, wikitext_positional(call, *at + i));
            buffer_put_text(call->out, marks[i]);
        }
        wikitext_put(call, direction);
        *at += parts + 1;
        return 1;
    }
    if (!wikitext_number(first, &value) || memchr(first.text, '.', first.length) == NULL) {
        return 0;
    }
    const size_t sign = first.text[0] == '-';
    buffer_put(call->out, first.text + sign, first.length - sign);
    buffer_put_text(call->out, marks[0]);
    buffer_put_byte(call->out, (is_longitude ? "EW" : "NS")[value < 0]);
    *at += 1;
    return 1;
}

int wikitext_coord(struct wikitext_call *call) {
    const struct wikitext_argument display = wikitext_named(call, "display");
    size_t at = 0;
    if (display.length > 0 && memchr(display.text, 'i', 1) == NULL) {
        return wikitext_is(&display, "title") || wikitext_is(&display, "t"); // beside the title
    }
    return wikitext_named(call, "format").length == 0 && put_angle(call, &at, 0) &&
           (buffer_put_byte(call->out, ' '), put_angle(call, &at, 1));
}

// {{unichar|00A9|Copyright sign}}: "U+00A9 © COPYRIGHT SIGN"
int wikitext_unichar(struct wikitext_call *call) {
    const struct wikitext_argument code = wikitext_positional(call, 0),
                                   name = wikitext_positional(call, 1);
    uint32_t point = 0;
    char bytes[4];
    if (code.length < 2 || code.length > 6 || name.length == 0 ||
        !wikitext_names_only(call, "nlink ulink size")) {
        return 0;
    }
    for (size_t i = 0; i < code.length; i++) {
        const char digit = caseless_lower(code.text[i]);
        if (!is_digit(digit) && (digit < 'a' || digit > 'f')) {
            return 0;
        }
        point = point * 16 + (uint32_t)(is_digit(digit) ? digit - '0' : digit - 'a' + 10);
    }
    if (point <= ' ' || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) {
        return 0;
    }
    buffer_print(call->out, "U+%04X ", (unsigned)point);
    buffer_put(call->out, bytes, utf8_encode(point, bytes));
    buffer_put_byte(call->out, ' ');
    for (size_t i = 0; i < name.length; i++) {
        const char small = caseless_lower(name.text[i]);
        buffer_put_byte(call->out, small >= 'a' && small <= 'z' ? (char)(small & ~32) : small);
    }
    return 1;
}
