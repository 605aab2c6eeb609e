// SPDX-License-Identifier: Apache-2.0
// Helpers of all sections of the report.
#include "page/html_parts.h"

#include "core/html.h"
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

void html_put_value(struct buffer *page, const char *key, const json *value) {
    struct berth_field field = {.key = key, .type = BERTH_TEXT, .text = json_text(value)};
    char text[512];
    if (json_is_boolean(value)) {
        field.text = json_truth(value) ? "true" : "false";
    } else if (json_is_number_value(value)) {
        field.type = json_is_real_value(value) ? BERTH_REAL : BERTH_INTEGER;
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
