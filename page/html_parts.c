// SPDX-License-Identifier: Apache-2.0
// Helpers with which all sections of the report write a text, a number or a value with its unit,
// escaped and in the form that report/keys.h has for its key. Which sections there are is html.c's.
#include "page/html_parts.h"

#include "core/html.h"
#include "core/text_util.h"
#include "report/keys.h"
#include "report/lines.h"

#include <math.h>

const char *html_text(const json *object, const char *key) {
    const char *text = json_text(json_member(object, key));
    return text != NULL ? text : "";
}

double html_real(const json *object, const char *key) {
    const json *value = json_member(object, key);
    return json_is_number_value(value) ? json_as_real(value) : (double)NAN;
}

void html_put_unit(struct buffer *page, const char *key, const json *value) {
    const char *unit = key_form(key)->unit;
    const int is_scaled = text_ends_with(key, "bytes") || text_ends_with(key, "flops");
    // Where a percentage may also be a fraction, a value up to 1 is one.
    const int is_fraction = unit != NULL && *unit == '%' && json_as_real(value) <= 1;
    if (unit != NULL && json_is_number_value(value) && !is_scaled && !is_fraction) {
        buffer_put_text(page, " ");
        html_put_text(page, unit);
    }
}

void html_put_value(struct buffer *page, const char *key, const json *value) {
    struct berth_field field = {.key = key, .type = BERTH_TEXT, .text = json_text(value)};
    char text[512];
    if (json_is_boolean(value)) {
        field.text = json_truth(value) ? "true" : "false";
    } else if (json_is_number_value(value)) {
        // A log writes the real number 0 as 0.
        field.type =
            json_is_real_value(value) || key_form(key)->format != NULL ? BERTH_REAL : BERTH_INTEGER;
        field.integer = field.type == BERTH_INTEGER ? json_as_integer(value) : 0;
        field.real = json_as_real(value);
    }
    if (field.type == BERTH_TEXT) {
        html_put_text(page, field.text != NULL ? field.text : "\xe2\x80\x93");
        return;
    }
    lines_value(&field, text, sizeof text);
    html_put_text(page, text);
}
