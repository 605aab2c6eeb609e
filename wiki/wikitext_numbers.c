// SPDX-License-Identifier: Apache-2.0
// Templates and parser functions that show numbers, and raised and lowered characters. A number
// that cannot be read leaves a gap. Called through the rows of wikitext_rows.c, while wikitext.c
// cleans a page.
#include "core/caseless.h"
#include "core/number.h"
#include "wiki/wikitext_parts.h"

#include <math.h>
#include <stdlib.h>

enum { NUMBER_MAX = 40, STACK_MAX = 32 };
#define MINUS "\xE2\x88\x92" // U+2212

static int is_digit(char byte) {
    return byte >= '0' && byte <= '9';
}

// --- raised and lowered characters --------------------------------------------------------------

static const struct script {
    const char *plain, *raised, *lowered; // NULL: there is none
} scripts[] = {{"0", "⁰", "₀"},
               {"1", "¹", "₁"},
               {"2", "²", "₂"},
               {"3", "³", "₃"},
               {"4", "⁴", "₄"},
               {"5", "⁵", "₅"},
               {"6", "⁶", "₆"},
               {"7", "⁷", "₇"},
               {"8", "⁸", "₈"},
               {"9", "⁹", "₉"},
               {"+", "⁺", "₊"},
               {"-", "⁻", "₋"},
               {"\xE2\x80\x93", "⁻", "₋"},
               {MINUS, "⁻", "₋"},
               {"&minus;", "⁻", "₋"},
               {"=", "⁼", "₌"},
               {"(", "⁽", "₍"},
               {")", "⁾", "₎"},
               {"n", "ⁿ", NULL},
               {"i", "ⁱ", NULL},
               {"''", "", ""}};

int wikitext_put_script(struct buffer *out, const char *text, size_t length, int is_raised) {
    const size_t before = out->length;
    for (size_t i = 0; i < length;) {
        size_t used = 0;
        for (size_t s = 0; s < sizeof scripts / sizeof *scripts && used == 0; s++) {
            const size_t own = strlen(scripts[s].plain);
            const char *shown = is_raised ? scripts[s].raised : scripts[s].lowered;
            if (shown != NULL && own <= length - i &&
                memcmp(text + i, scripts[s].plain, own) == 0) {
                buffer_put_text(out, shown);
                used = own;
            }
        }
        if (used == 0) {
            out->length = before;
            return 0;
        }
        i += used;
    }
    return out->length > before;
}

static int is_ordinal(const char *text, size_t length) {
    static const char *const endings[] = {"st", "nd", "rd", "th", "er", "re", "e", "o", "a"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (length == strlen(endings[i]) && memcmp(text, endings[i], length) == 0) {
            return 1;
        }
    }
    return 0;
}

// The last byte before `at` that is no quote mark.
static char byte_before(const struct buffer *out, size_t at) {
    while (at > 0 && out->bytes[at - 1] == '\'') {
        at--;
    }
    return at > 0 ? out->bytes[at - 1] : ' ';
}

void wikitext_set_script(struct wikitext *wikitext, size_t start, int is_raised, char next) {
    struct buffer *out = &wikitext->stripped, *scratch = &wikitext->scratch;
    const size_t length = out->length - start;
    const char *text = out->bytes + start;
    const char before = byte_before(out, start);
    if (length == 0 || length > NUMBER_MAX || memchr(text, '\n', length) != NULL) {
        return; // no exponent, or one that was never closed
    }
    const int joins = caseless_is_alphanumeric(before) || before == ')' || before == ']';
    buffer_clear(scratch);
    if (is_raised && !wikitext_put_script(scratch, text, length, 1) &&
        ((is_digit(before) && !is_ordinal(text, length)) ||
         (joins && (is_digit(text[0]) || strchr("+-", text[0]) != NULL)))) {
        buffer_put_byte(scratch, '^'); // 10^6.5 is not 106.5
        buffer_put(scratch, text, length);
    } else if (!is_raised && (is_digit(before) || is_digit(next))) {
        (void)wikitext_put_script(scratch, text, length, 0);
    }
    wikitext->failed |= scratch->failed;
    if (scratch->length > 0 && !scratch->failed) {
        out->length = start;
        buffer_put(out, scratch->bytes, scratch->length);
    }
}

int wikitext_script(struct wikitext_call *call) {
    wikitext_put(call, wikitext_positional(call, 0)); // wikitext_expand raises or lowers it
    return call->out->length > 0;
}

// --- reading and writing numbers ----------------------------------------------------------------

// Copies the number without its commas, and with "-" for its sign. 0: it is no number.
static int copy_number(struct wikitext_argument number, char text[NUMBER_MAX]) {
    size_t used = 0, digits = 0, points = 0;
    const char *at = number.text, *end = at + number.length;
    const size_t sign = number.length >= 3 && memcmp(at, MINUS, 3) == 0       ? 3
                        : number.length >= 7 && memcmp(at, "&minus;", 7) == 0 ? 7
                        : number.length > 0 && *at == '-'                     ? 1
                                                                              : 0;
    if (sign > 0) {
        text[used++] = '-';
    }
    at += sign > 0 ? sign : number.length > 0 && *at == '+';
    for (; at < end && used < NUMBER_MAX - 1; at++) {
        if (*at == ',' && digits > 0 && points == 0) {
            continue;
        }
        digits += (size_t)is_digit(*at);
        points += *at == '.';
        if (!is_digit(*at) && *at != '.') {
            return 0;
        }
        text[used++] = *at;
    }
    text[used] = '\0';
    return at == end && digits > 0 && points <= 1;
}

int wikitext_number(struct wikitext_argument number, double *value) {
    char text[NUMBER_MAX];
    return copy_number(number, text) && number_parse_real(text, value);
}

// Writes a number of copy_number with commas if it has at least so many digits.
static void put_digits(struct wikitext_call *call, const char *number, size_t least,
                       const char *minus) {
    if (*number == '-') {
        buffer_put_text(call->out, minus);
        number++;
    }
    const size_t whole = strcspn(number, ".");
    for (size_t i = 0; i < whole; i++) {
        if (i > 0 && whole >= least && (whole - i) % 3 == 0) {
            buffer_put_byte(call->out, ',');
        }
        buffer_put_byte(call->out, number[i]);
    }
    buffer_put_text(call->out, number + whole);
}

int wikitext_put_number(struct wikitext_call *call, struct wikitext_argument number, size_t least) {
    char text[NUMBER_MAX];
    if (!copy_number(number, text)) {
        return 0;
    }
    put_digits(call, text, least, MINUS);
    return 1;
}

static int has_gap(struct wikitext_argument argument) {
    return argument.length > 0 && memchr(argument.text, WIKITEXT_GAP, argument.length) != NULL;
}

int wikitext_formatnum(struct wikitext_call *call) {
    const struct wikitext_argument number = wikitext_positional(call, 0),
                                   option = wikitext_positional(call, 1);
    char text[NUMBER_MAX];
    if (has_gap(number) || number.length == 0 || !wikitext_names_only(call, "")) {
        return 0;
    }
    if (!copy_number(number, text) || wikitext_is(&option, "NOSEP")) {
        wikitext_put(call, number);
    } else {
        put_digits(call, text, wikitext_is(&option, "R") ? SIZE_MAX : 4, "-");
    }
    return 1;
}

// A part of a fraction, in parentheses if it is a sum.
static void put_part(struct wikitext_call *call, struct wikitext_argument part, int may_be_sum) {
    const int is_sum =
        may_be_sum && memchr(part.text, ' ', part.length) != NULL && part.text[0] != '(';
    buffer_put_text(call->out, is_sum ? "(" : "");
    wikitext_put(call, part);
    buffer_put_text(call->out, is_sum ? ")" : "");
}

int wikitext_fraction(struct wikitext_call *call) {
    static const struct wikitext_argument one = {"1", 1};
    const size_t count = call->count;
    const int is_formula = *call->pattern == '/';
    if (count < 1 || count > 3) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (wikitext_positional(call, i).length == 0) {
            return 0;
        }
    }
    if (count == 3) {
        wikitext_put(call, wikitext_positional(call, 0));
        buffer_put_byte(call->out, ' ');
    }
    put_part(call, count == 1 ? one : wikitext_positional(call, count - 2), is_formula);
    buffer_put_text(call->out, call->pattern);
    put_part(call, wikitext_positional(call, count - 1), is_formula);
    return 1;
}

int wikitext_ordinal(struct wikitext_call *call) {
    const struct wikitext_argument number = wikitext_positional(call, 0);
    double value;
    if (call->count != 1 || !wikitext_number(number, &value) ||
        !is_digit(number.text[number.length - 1]) ||
        memchr(number.text, '.', number.length) != NULL) {
        return 0;
    }
    const char last = number.text[number.length - 1],
               before = number.length > 1 ? number.text[number.length - 2] : '0';
    wikitext_put(call, number);
    buffer_put_text(call->out, before == '1' || last < '1' || last > '3' ? "th"
                               : last == '1'                             ? "st"
                               : last == '2'                             ? "nd"
                                                                         : "rd");
    return 1;
}

int wikitext_percentage(struct wikitext_call *call) {
    double part, whole, decimals = 0;
    const struct wikitext_argument third = wikitext_positional(call, 2);
    if (!wikitext_number(wikitext_positional(call, 0), &part) ||
        !wikitext_number(wikitext_positional(call, 1), &whole) || whole == 0 ||
        (third.length > 0 && !wikitext_number(third, &decimals)) || decimals < 0 || decimals > 9 ||
        !wikitext_names_only(call, "")) {
        return 0;
    }
    buffer_print(call->out, "%.*f%%", (int)decimals, 100 * part / whole);
    return 1;
}

// --- measured values ----------------------------------------------------------------------------

static int put_power(struct wikitext_call *call, const char *base, struct wikitext_argument power) {
    buffer_put_text(call->out, base);
    return power.length > 0 && wikitext_put_script(call->out, power.text, power.length, 1);
}

int wikitext_power(struct wikitext_call *call) {
    return put_power(call, call->pattern, wikitext_positional(call, 0));
}

// A unit of letters and signs, the last of which may be squared or cubed: "kg/m3".
static int put_unit(struct wikitext_call *call, struct wikitext_argument unit) {
    const char last = unit.length > 1 ? unit.text[unit.length - 1] : ' ';
    const size_t length = unit.length - (last == '2' || last == '3');
    const int is_sign = wikitext_is(&unit, "%") || wikitext_is(&unit, "°");
    buffer_put_text(call->out, unit.length > 0 && !is_sign ? " " : "");
    for (size_t i = 0; i < length; i++) {
        if (is_digit(unit.text[i]) || strchr("-+.*^", unit.text[i]) != NULL) {
            return 0;
        }
    }
    buffer_put(call->out, unit.text, length);
    return length == unit.length || wikitext_put_script(call->out, &last, 1, 1);
}

// The number of {{val}}, which may end with its uncertainty, "1.23(4)".
static int put_value(struct wikitext_call *call, struct wikitext_argument number) {
    const struct wikitext_argument format = wikitext_named(call, "fmt");
    const char *bracket = number.length > 0 ? memchr(number.text, '(', number.length) : NULL;
    const size_t length = bracket != NULL ? (size_t)(bracket - number.text) : number.length;
    char text[NUMBER_MAX];
    if (!copy_number((struct wikitext_argument){number.text, length}, text)) {
        return 0;
    }
    put_digits(call, text, wikitext_is(&format, "commas") ? 4 : SIZE_MAX, MINUS);
    buffer_put(call->out, number.text + length, number.length - length);
    return 1;
}

static int put_uncertain(struct wikitext_call *call, struct wikitext_argument number,
                         struct wikitext_argument uncertainty, int has_power) {
    const int is_range = uncertainty.length > 0 && uncertainty.text[0] != '(';
    buffer_put_text(call->out, is_range && has_power ? "(" : "");
    if (!put_value(call, number)) {
        return 0;
    }
    if (is_range) {
        buffer_put_text(call->out, "±");
        if (!put_value(call, uncertainty)) {
            return 0;
        }
    } else {
        wikitext_put(call, uncertainty);
    }
    buffer_put_text(call->out, is_range && has_power ? ")" : "");
    return 1;
}

int wikitext_val(struct wikitext_call *call) {
    const struct wikitext_argument power = wikitext_named(call, "e"),
                                   unit = wikitext_named(call, "u"),
                                   link = wikitext_named(call, "ul"),
                                   number = wikitext_positional(call, 0);
    if (!wikitext_names_only(call, "e u ul p s fmt") || (unit.length > 0 && link.length > 0)) {
        return 0;
    }
    wikitext_put(call, wikitext_named(call, "p"));
    if (call->pattern != NULL) { // {{gaps|1|234}}
        for (size_t i = 0; i < call->count; i++) {
            wikitext_put(call, wikitext_positional(call, i));
        }
    } else if (call->count > 2 || (number.length == 0 && power.length == 0) ||
               (number.length > 0 &&
                !put_uncertain(call, number, wikitext_positional(call, 1), power.length > 0))) {
        return 0;
    }
    if (power.length > 0 && !put_power(call, number.length > 0 ? "×10" : "10", power)) {
        return 0;
    }
    wikitext_put(call, wikitext_named(call, "s"));
    return put_unit(call, unit.length > 0 ? unit : link);
}

// --- parser functions ---------------------------------------------------------------------------

struct machine {
    double values[STACK_MAX];
    char operators[STACK_MAX];
    size_t value_count, operator_count;
};

static int priority(char operator_) {
    return operator_ == 'r'                       ? 1
           : operator_ == '+' || operator_ == '-' ? 2
           : operator_ == '^'                     ? 4
           : operator_ == 'n'                     ? 5 // a sign
           : operator_ == '('                     ? 0
                                                  : 3;
}

// Applies the last operator; 0: values are missing.
static int apply(struct machine *machine) {
    const char operator_ = machine->operators[--machine->operator_count];
    if (operator_ == 'n' && machine->value_count > 0) {
        machine->values[machine->value_count - 1] *= -1;
        return 1;
    }
    if (machine->value_count < 2) {
        return 0;
    }
    const double b = machine->values[--machine->value_count];
    double *a = &machine->values[machine->value_count - 1];
    const double scale = pow(10, b);
    *a = operator_ == '+'   ? *a + b
         : operator_ == '-' ? *a - b
         : operator_ == '*' ? *a * b
         : operator_ == '/' ? *a / b
         : operator_ == 'm' ? fmod(trunc(*a), trunc(b))
         : operator_ == '^' ? pow(*a, b)
                            : round(*a * scale) / scale;
    return 1;
}

// The operator at `text`, as one byte; *used is its length. 0: none.
static char read_operator(const char *text, size_t length, size_t *used) {
    static const struct {
        const char *text;
        char operator_;
    } all[] = {{"+", '+'}, {"-", '-'},   {MINUS, '-'}, {"&minus;", '-'}, {"*", '*'}, {"/", '/'},
               {"^", '^'}, {"div", '/'}, {"mod", 'm'}, {"round", 'r'},   {"(", '('}, {")", ')'}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *used = strlen(all[i].text);
        if (*used <= length && memcmp(text, all[i].text, *used) == 0) {
            return all[i].operator_;
        }
    }
    return 0;
}

// Takes one operator; *is_value: a value precedes it.
static int take_operator(struct machine *machine, char operator_, int *is_value) {
    if (operator_ == '(' ? *is_value : !*is_value && operator_ != '-' && operator_ != '+') {
        return 0;
    }
    if (operator_ == ')') {
        while (machine->operator_count > 0 &&
               machine->operators[machine->operator_count - 1] != '(') {
            if (!apply(machine)) {
                return 0;
            }
        }
        return machine->operator_count-- > 0;
    }
    const int is_sign = !*is_value && operator_ != '(';
    while (!is_sign && operator_ != '(' && machine->operator_count > 0 &&
           priority(machine->operators[machine->operator_count - 1]) >= priority(operator_)) {
        if (!apply(machine)) {
            return 0;
        }
    }
    *is_value = 0;
    if (is_sign && operator_ == '+') {
        return 1;
    }
    if (machine->operator_count == STACK_MAX) {
        return 0;
    }
    machine->operators[machine->operator_count++] = is_sign ? 'n' : operator_;
    return 1;
}

static int compute(const char *text, size_t length, double *result) {
    struct machine machine = {.value_count = 0};
    int is_value = 0;
    for (size_t i = 0, used; i < length; i += used) {
        const char operator_ = read_operator(text + i, length - i, &used);
        if (operator_ != 0) {
            if (!take_operator(&machine, operator_, &is_value)) {
                return 0;
            }
        } else if (strchr(" \n\t", text[i]) != NULL) {
            used = 1;
        } else {
            used = 0;
            while (used < length - i && (is_digit(text[i + used]) || text[i + used] == '.')) {
                used++;
            }
            if (used == 0 || is_value || machine.value_count == STACK_MAX ||
                !wikitext_number((struct wikitext_argument){text + i, used},
                                 &machine.values[machine.value_count])) {
                return 0;
            }
            machine.value_count++;
            is_value = 1;
        }
    }
    while (machine.operator_count > 0) {
        if (machine.operators[machine.operator_count - 1] == '(' || !apply(&machine)) {
            return 0;
        }
    }
    *result = machine.values[0];
    return machine.value_count == 1 && is_value && isfinite(*result);
}

int wikitext_expression(struct wikitext_call *call) {
    const struct wikitext_argument text = wikitext_positional(call, 0);
    double value;
    if (call->count != 1 || !compute(text.text, text.length, &value)) {
        return 0;
    }
    buffer_print(call->out, "%.14g", value == 0 ? 0 : value);
    return call->out->failed || memchr(call->out->bytes, 'e', call->out->length) == NULL;
}

int wikitext_if(struct wikitext_call *call) {
    const struct wikitext_argument condition = wikitext_positional(call, 0);
    wikitext_put(call, wikitext_positional(call, condition.length > 0 ? 1 : 2));
    return !has_gap(condition);
}

int wikitext_ifeq(struct wikitext_call *call) {
    const struct wikitext_argument a = wikitext_positional(call, 0),
                                   b = wikitext_positional(call, 1);
    double x, y;
    const int is_same = wikitext_number(a, &x) && wikitext_number(b, &y)
                            ? x == y
                            : a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
    wikitext_put(call, wikitext_positional(call, is_same ? 2 : 3));
    return !has_gap(a) && !has_gap(b);
}

int wikitext_case(struct wikitext_call *call) {
    const struct wikitext_argument text = wikitext_positional(call, 0);
    const size_t changed = call->pattern[1] == 'f' && text.length > 0 ? 1 : text.length;
    for (size_t i = 0; i < text.length; i++) {
        const char byte = text.text[i], lower = caseless_lower(byte);
        if (i < changed && ((unsigned char)byte >= 0x80 || byte == '&')) {
            return 0; // only the letters of ASCII have cases here
        }
        const int is_raised = call->pattern[0] == 'u' && lower >= 'a' && lower <= 'z';
        buffer_put_byte(call->out, i >= changed ? byte : is_raised ? (char)(lower & ~32) : lower);
    }
    return 1;
}
