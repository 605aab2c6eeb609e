// SPDX-License-Identifier: Apache-2.0
// {{convert|5|to|10|km|mi}}: "5 to 10 kilometres (3.1 to 6.2 mi)". Numbers are rounded by the
// template's rules; a unit or an option that is not known here leaves a gap. Numbers of four digits
// have no comma, as with the template's comma=5. Called through a row of wikitext_rows.c; numbers
// are printed by wikitext_numbers.c.
#include "core/number.h"
#include "wiki/wikitext_parts.h"
#include "wiki/wikitext_units.h"

#include <math.h>
#include <stdlib.h>

enum { OUTPUTS_MAX = 3, DIGITS_MAX = 48, COMMA_FROM = 5, NO_PRECISION = 99 };

// A unit, and the power of ten before it: "e6acre".
struct measure {
    const struct unit *unit;
    int power;        // 0, 3, 6 or 9
    int is_feet_inch; // "ftin"
};

struct value {
    double number;
    int precision;                // digits after the point; negative: zeros before it
    char shown[2 * DIGITS_MAX];   // as the template shows it
    int is_fraction, denominator; // 0: none
};

struct conversion {
    struct wikitext_call *call;
    struct value values[2];
    int value_count;
    const char *words[2]; // between the values, with names and with symbols
    struct measure input, outputs[OUTPUTS_MAX];
    struct value inches; // of an input in feet and inches
    int has_inches;
    int output_count, precision, significant;
    int input_named, output_named; // instead of symbols
    int is_american, is_adjective, is_flipped;
    const char *before, *after; // around what comes second
};

// --- reading ------------------------------------------------------------------------------------

static const struct unit *find_unit(const char *code, size_t length) {
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strlen(units[i].code) == length && memcmp(units[i].code, code, length) == 0) {
            return &units[i];
        }
    }
    return NULL;
}

static int read_measure(const char *code, size_t length, struct measure *measure) {
    *measure = (struct measure){.power = 0};
    if (length > 2 && code[0] == 'e' && strchr("369", code[1]) != NULL) {
        measure->power = code[1] - '0';
        code += 2;
        length -= 2;
    }
    measure->is_feet_inch = length == 4 && memcmp(code, "ftin", 4) == 0;
    measure->unit = measure->is_feet_inch ? find_unit("in", 2) : find_unit(code, length);
    return measure->unit != NULL && !(measure->power > 0 && measure->unit->name == NULL);
}

// Reads "12", "1,234.5", "1/2" or "5+1/2".
static int read_value(struct wikitext_call *call, struct wikitext_argument argument,
                      struct value *value) {
    *value = (struct value){.number = 0};
    const char *slash = argument.length > 0 ? memchr(argument.text, '/', argument.length) : NULL,
               *plus = slash != NULL && argument.length > 1
                           ? memchr(argument.text + 1, '+', argument.length - 1)
                           : NULL;
    const char *begin = plus != NULL ? plus + 1 : argument.text,
               *end = argument.text + argument.length;
    double whole = 0, upper, lower;
    if (argument.length == 0 || argument.length >= DIGITS_MAX) {
        return 0;
    }
    if (slash == NULL) {
        const size_t before = call->out->length;
        int is_number = wikitext_number(argument, &value->number) &&
                        wikitext_put_number(call, argument, COMMA_FROM) &&
                        call->out->length - before < sizeof value->shown;
        if (is_number && call->out->length > before) {
            memcpy(value->shown, call->out->bytes + before, call->out->length - before);
        }
        call->out->length = before;
        const char *point = memchr(argument.text, '.', argument.length);
        value->precision = point != NULL ? (int)(end - point - 1) : 0;
        while (point == NULL && end > argument.text + 1 && (end[-1] == '0' || end[-1] == ',')) {
            value->precision -= end[-1] == '0';
            end--;
        }
        return is_number;
    }
    const struct wikitext_argument parts[] = {
        {argument.text, plus != NULL ? (size_t)(plus - argument.text) : 0},
        {begin, (size_t)(slash - begin)},
        {slash + 1, (size_t)(end - slash - 1)}};
    if ((plus != NULL && !wikitext_number(parts[0], &whole)) || slash < begin ||
        !wikitext_number(parts[1], &upper) || !wikitext_number(parts[2], &lower) || lower < 1 ||
        lower > 1000 || whole < 0 || upper < 0) {
        return 0;
    }
    value->number = whole + upper / lower;
    value->is_fraction = 1;
    value->denominator = (int)lower;
    number_format(value->shown, sizeof value->shown, "%.*s%s%.*s⁄%.*s", (int)parts[0].length,
                  parts[0].text, plus != NULL ? " " : "", (int)parts[1].length, parts[1].text,
                  (int)parts[2].length, parts[2].text);
    return 1;
}

static int read_range(struct wikitext_argument word, const char *words[2]) {
    static const struct {
        const char *word, *named, *symbol;
    } all[] = {{"to", " to ", " to "},    {"-", "–", "–"},          {"–", "–", "–"},
               {"and", " and ", " and "}, {"or", " or ", " or "},   {"by", " by ", " by "},
               {"to(-)", " to ", "–"},    {"and(-)", " and ", "–"}, {"or(-)", " or ", "–"},
               {"&ndash;", "–", "–"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (wikitext_is(&word, all[i].word)) {
            words[0] = all[i].named;
            words[1] = all[i].symbol;
            return 1;
        }
    }
    return 0;
}

static int read_outputs(struct conversion *conversion, const char *codes, size_t length) {
    for (size_t i = 0; i < length;) {
        size_t own = 0;
        while (i + own < length && codes[i + own] != ' ' && codes[i + own] != '+') {
            own++;
        }
        if (own > 0) {
            if (conversion->output_count == OUTPUTS_MAX ||
                !read_measure(codes + i, own, &conversion->outputs[conversion->output_count]) ||
                conversion->outputs[conversion->output_count].unit->kind !=
                    conversion->input.unit->kind) {
                return 0;
            }
            conversion->output_count++;
        }
        i += own + 1;
    }
    return conversion->output_count > 0;
}

// Reads "ft|2|in" of {{convert|6|ft|2|in|cm}}; the next argument is then *at.
static int read_inches(struct conversion *conversion, size_t *at) {
    const struct wikitext_argument inches = wikitext_positional(conversion->call, *at + 1);
    if (strcmp(conversion->input.unit->code, "ft") != 0 || !wikitext_is(&inches, "in") ||
        !read_value(conversion->call, wikitext_positional(conversion->call, *at),
                    &conversion->inches)) {
        return 1;
    }
    conversion->has_inches = 1;
    *at += 2;
    return conversion->value_count == 1 && !conversion->values[0].is_fraction;
}

static int read_positions(struct conversion *conversion) {
    const struct wikitext_call *call = conversion->call;
    size_t at = 1;
    double precision;
    if (!read_value(conversion->call, wikitext_positional(call, 0), &conversion->values[0])) {
        return 0;
    }
    conversion->value_count = 1;
    if (read_range(wikitext_positional(call, 1), conversion->words)) {
        if (!read_value(conversion->call, wikitext_positional(call, 2), &conversion->values[1])) {
            return 0;
        }
        conversion->value_count = 2;
        at = 3;
    }
    const struct wikitext_argument input = wikitext_positional(call, at++);
    if (!read_measure(input.text, input.length, &conversion->input) ||
        conversion->input.is_feet_inch || !read_inches(conversion, &at)) {
        return 0;
    }
    const struct wikitext_argument output = wikitext_positional(call, at);
    const char *standard = conversion->has_inches ? "m" : conversion->input.unit->converted;
    if (strcmp(conversion->input.unit->code, "m") == 0 && conversion->values[0].number > 0 &&
        conversion->values[0].number < 3) {
        standard = "ftin"; // the height of a person
    }
    if (output.length > 0 && !wikitext_number(output, &precision)) {
        at++;
        if (!read_outputs(conversion, output.text, output.length)) {
            return 0;
        }
    } else if (standard == NULL || conversion->input.power > 0 ||
               !read_outputs(conversion, standard, strlen(standard))) {
        return 0;
    }
    const struct wikitext_argument digits = wikitext_positional(call, at);
    conversion->precision = NO_PRECISION;
    if (digits.length > 0) {
        if (!wikitext_number(digits, &precision) || fabs(precision) > 9) {
            return 0;
        }
        conversion->precision = (int)precision;
    }
    return call->count <= at + 1;
}

// Whether the option has one of its values, or is absent; *index: which one.
static int read_option(const struct wikitext_call *call, const char *name, const char *const *known,
                       int *index) {
    const struct wikitext_argument value = wikitext_named(call, name);
    *index = 0;
    if (value.length == 0) {
        return 1;
    }
    for (*index = 1; *known != NULL; known++, ++*index) {
        if (wikitext_is(&value, *known)) {
            return 1;
        }
    }
    return 0;
}

static int read_options(struct conversion *conversion) {
    static const char *const abbreviations[] = {"out", "on", "off", "in", "none", NULL};
    static const char *const shows[] = {"b", "or", "flip", "sqbr", "comma", NULL};
    static const char *const spellings[] = {"us", NULL}, *const on[] = {"on", "off", NULL},
                             *const flips[] = {"flip", "out", NULL};
    const struct wikitext_call *call = conversion->call;
    const struct wikitext_argument significant = wikitext_named(call, "sigfig");
    int abbreviation, show, spelling, adjective, flip;
    double digits = 0;
    if (!wikitext_names_only(call, "abbr sp adj disp order sigfig lk") ||
        !read_option(call, "abbr", abbreviations, &abbreviation) ||
        !read_option(call, "disp", shows, &show) ||
        !read_option(call, "sp", spellings, &spelling) ||
        !read_option(call, "adj", on, &adjective) || !read_option(call, "order", flips, &flip) ||
        (significant.length > 0 &&
         (!wikitext_number(significant, &digits) || digits < 1 || digits > 9))) {
        return 0;
    }
    if (abbreviation == 0) {
        abbreviation = strcmp(call->pattern, "cvt") == 0 ? 2 : show == 2 || show == 5 ? 3 : 1;
    }
    conversion->input_named = abbreviation == 1 || abbreviation == 3 || abbreviation == 5;
    conversion->output_named = abbreviation >= 3;
    conversion->is_american = spelling == 1;
    conversion->is_adjective = adjective == 1;
    conversion->is_flipped = flip == 1 || show == 3;
    conversion->significant = (int)digits;
    conversion->before = show == 2 ? " or " : show == 4 ? " [" : show == 5 ? ", " : " (";
    conversion->after = show == 2 || show == 5 ? "" : show == 4 ? "]" : ")";
    return 1;
}

// --- converting ---------------------------------------------------------------------------------

static double scale_of(const struct measure *measure) {
    return measure->unit->scale * pow(10, measure->power);
}

static double offset_of(const struct unit *unit) {
    const char *symbol = unit->kind == TEMPERATURE ? unit->symbol : "";
    return strcmp(symbol, "°C") == 0 ? 273.15 : strcmp(symbol, "°F") == 0 ? 459.67 : 0;
}

static int is_finer(const struct unit *unit) {
    return strcmp(unit->code, "ft") == 0 || strcmp(unit->code, "lb") == 0;
}

// The digits after the point that the template shows of a result.
static int precision_of(const struct conversion *conversion, const struct value *value,
                        double result, const struct measure *output) {
    const double slack = 1e-14, size = fabs(result);
    const double given = value->denominator > 0   ? fmax(log10(value->denominator), 1)
                         : conversion->has_inches ? fmax(conversion->inches.precision, 0)
                                                  : value->precision;
    if (output->unit->kind == TEMPERATURE) {
        const double kelvin =
            fabs(value->number + offset_of(conversion->input.unit)) * conversion->input.unit->scale;
        const int least = kelvin < 1e-8 ? 2 : 2 - (int)floor(log10(kelvin) + slack);
        return given > least ? (int)floor(given) : least;
    }
    if (value->number == 0 || size == 0) {
        return 0;
    }
    const double ratio = conversion->has_inches ? output->unit->scale * 100
                         : is_finer(output->unit) && output->power == 0 && !value->is_fraction &&
                                 floor(value->number) == value->number
                             ? 1 / scale_of(&conversion->input)
                             : fabs(value->number) / size;
    const int digits = (int)floor(given + log10(ratio) + log10(2)),
              least = 1 - (int)floor(log10(size) + slack);
    return digits > least ? digits : least;
}

static double rounded(double number, int precision) {
    const double scale = pow(10, precision < 0 ? -precision : precision);
    return precision < 0 ? round(number / scale) * scale : round(number * scale) / scale;
}

// The precision for all values of the conversion to one unit: that of the most precise one.
static int common_precision(const struct conversion *conversion, const double *results,
                            const struct measure *output) {
    int precision = -DIGITS_MAX;
    if (conversion->precision != NO_PRECISION) {
        return conversion->precision;
    }
    for (int i = 0; i < conversion->value_count; i++) {
        int own = precision_of(conversion, &conversion->values[i], results[i], output);
        if (conversion->significant > 0 && results[i] != 0) {
            own = conversion->significant - 1 - (int)floor(log10(fabs(results[i])));
        }
        precision = own > precision ? own : precision;
    }
    return precision;
}

// --- writing ------------------------------------------------------------------------------------

// Appends a name, in the American spelling if asked for, with hyphens in an adjective.
static void put_name(const struct conversion *conversion, const char *name, int is_adjective) {
    static const char *const spellings[][2] = {{"metre", "meter"}, {"litre", "liter"}};
    struct buffer *out = conversion->call->out;
    const size_t before = out->length;
    for (size_t i = 0; conversion->is_american && i < 2; i++) {
        const char *at = strstr(name, spellings[i][0]);
        if (at != NULL) {
            buffer_put(out, name, (size_t)(at - name));
            buffer_put_text(out, spellings[i][1]);
            name = at + strlen(spellings[i][0]);
        }
    }
    buffer_put_text(out, name);
    for (size_t i = before; is_adjective && i < out->length; i++) {
        out->bytes[i] = out->bytes[i] == ' ' ? '-' : out->bytes[i];
    }
}

static void put_unit(const struct conversion *conversion, const struct measure *measure,
                     int is_named, int is_one) {
    struct buffer *out = conversion->call->out;
    const struct unit *unit = measure->unit;
    static const char *const words[] = {"", "thousand", "million", "billion"}, *const powers[] = {
                                                                                   "", "×10³",
                                                                                   "×10⁶", "×10⁹"};
    const int has_name = (is_named || unit->symbol == NULL) && unit->name != NULL;
    const int is_adjective = conversion->is_adjective && is_named && has_name;
    const char *blank = is_adjective ? "-" : !has_name && unit->symbol[0] == '/' ? "" : " ";
    if (measure->power > 0 && is_named) {
        buffer_print(out, "%s%s", blank, words[measure->power / 3]);
    } else if (measure->power > 0) {
        buffer_put_text(out, powers[measure->power / 3]);
    }
    buffer_put_text(out, blank);
    if (has_name) {
        put_name(conversion, is_adjective || is_one ? unit->name : unit->plural, is_adjective);
    } else {
        buffer_put_text(out, unit->symbol);
    }
}

static int is_one(const struct conversion *conversion, double last, int is_fraction) {
    return conversion->value_count == 1 && (last == 1 || (is_fraction && last < 1));
}

static void put_input(const struct conversion *conversion, int is_named) {
    struct buffer *out = conversion->call->out;
    const struct value *last = &conversion->values[conversion->value_count - 1];
    buffer_put_text(out, conversion->values[0].shown);
    if (conversion->value_count > 1) {
        buffer_put_text(out, conversion->words[!is_named]);
        buffer_put_text(out, last->shown);
    }
    put_unit(conversion, &conversion->input, is_named,
             is_one(conversion, last->number, last->is_fraction));
    if (conversion->has_inches) {
        const struct measure inches = {.unit = find_unit("in", 2)};
        buffer_put_text(out, conversion->is_adjective && is_named ? "-" : " ");
        buffer_put_text(out, conversion->inches.shown);
        put_unit(conversion, &inches, is_named, conversion->inches.number == 1);
    }
}

static int put_number(const struct conversion *conversion, double number, int precision) {
    char text[DIGITS_MAX];
    const double value = rounded(number, precision);
    const int length = number_format(text, sizeof text, "%.*f", precision > 0 ? precision : 0,
                                     value == 0 ? 0 : value);
    if (length < 0 || length >= DIGITS_MAX) {
        return 0;
    }
    const struct wikitext_argument shown = {text, (size_t)length};
    return wikitext_put_number(conversion->call, shown, COMMA_FROM);
}

static int put_feet_inches(const struct conversion *conversion, double inches, int precision,
                           int is_named) {
    const int digits = precision > 0 ? precision : 0;
    const double all = rounded(inches, digits), feet = trunc(all / 12), rest = all - feet * 12;
    const struct measure foot = {.unit = find_unit("ft", 2)}, inch = {.unit = find_unit("in", 2)};
    if (conversion->value_count > 1 || all < 0) {
        return 0;
    }
    if (feet > 0) {
        if (!put_number(conversion, feet, 0)) {
            return 0;
        }
        put_unit(conversion, &foot, is_named, feet == 1);
        buffer_put_byte(conversion->call->out, ' ');
    }
    if (!put_number(conversion, rest, digits)) {
        return 0;
    }
    put_unit(conversion, &inch, is_named, rest == 1);
    return 1;
}

static int put_output(const struct conversion *conversion, const struct measure *output,
                      int is_named) {
    double results[2];
    for (int i = 0; i < conversion->value_count; i++) {
        const double number = conversion->values[i].number +
                              (conversion->has_inches ? conversion->inches.number / 12 : 0);
        const double kelvin =
            (number + offset_of(conversion->input.unit)) * scale_of(&conversion->input);
        results[i] = kelvin / scale_of(output) - offset_of(output->unit);
    }
    const int precision = common_precision(conversion, results, output);
    if (output->is_feet_inch) {
        return put_feet_inches(conversion, results[0], precision, is_named);
    }
    for (int i = 0; i < conversion->value_count; i++) {
        if (i > 0) {
            buffer_put_text(conversion->call->out, conversion->words[!is_named]);
        }
        if (!put_number(conversion, results[i], precision)) {
            return 0;
        }
    }
    put_unit(conversion, output, is_named,
             is_one(conversion, rounded(results[conversion->value_count - 1], precision), 0));
    return 1;
}

static int put_outputs(const struct conversion *conversion, int is_named) {
    for (int i = 0; i < conversion->output_count; i++) {
        buffer_put_text(conversion->call->out, i > 0 ? "; " : "");
        if (!put_output(conversion, &conversion->outputs[i], is_named)) {
            return 0;
        }
    }
    return 1;
}

int wikitext_convert(struct wikitext_call *call) {
    struct conversion conversion = {.call = call};
    if (!read_positions(&conversion) || !read_options(&conversion)) {
        return 0;
    }
    if (!conversion.is_flipped) {
        put_input(&conversion, conversion.input_named);
    } else if (!put_outputs(&conversion, conversion.input_named)) {
        return 0;
    }
    buffer_put_text(call->out, conversion.before);
    if (conversion.is_flipped) {
        put_input(&conversion, conversion.output_named);
    } else if (!put_outputs(&conversion, conversion.output_named)) {
        return 0;
    }
    buffer_put_text(call->out, conversion.after);
    return 1;
}
