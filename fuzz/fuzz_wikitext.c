// SPDX-License-Identifier: Apache-2.0
// Fuzzes the wikitext cleaner: for any input the guarantees of wikitext.h hold.
//
// Bit 0 of the settings: the page is cleaned twice with one cleaner, with the same result.
#include "input.h"
#include "wiki/wikitext.h"

#include <string.h>
#include <strings.h>

// Whether the page may write markup as text: with entities, <nowiki> or templates for signs.
static int may_escape(const char *text, size_t length) {
    size_t braces = 0;
    for (size_t i = 0; i < length; i++) {
        const int is_blank = text[i] == ' ' || text[i] == '_' || text[i] == '\n';
        const char small = (char)(text[i] | 32);
        if (text[i] == '&' || (text[i] >= 0 && text[i] < ' ' && !is_blank && text[i] != '\t') ||
            (braces > 1 && (strchr("!()=", text[i]) != NULL || small == 'a' || small == 't'))) {
            return 1;
        }
        braces = text[i] == '{' ? braces + 1 : is_blank ? braces : 0;
    }
    for (size_t i = 0; i + 6 <= length; i++) {
        if (strncasecmp(text + i, "nowiki", 6) == 0) {
            return 1;
        }
    }
    return 0;
}

static void check_text(const char *plain, size_t length, int is_escaped) {
    char before = '\n';
    for (size_t i = 0; i < length; i++) {
        char byte = plain[i];
        require(is_escaped || (byte != '{' && byte != '}' && byte != '|'));
        require(is_escaped || !((byte == '[' || byte == ']') && before == byte));
        require(!(byte == '\n' && before == '\n'));
        require((unsigned char)byte >= ' ' || byte == '\n');
        before = byte;
    }
    require(before == '\n');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char *const names[] = {(char *)"Datei"};
    struct fuzz_input input = fuzz_input_of(data, size);
    struct wikitext wikitext = {.namespaces = names, .namespace_count = 1};
    struct berth_error error = {.status = BERTH_OK};
    const char *text = (const char *)input.bytes, *plain;
    size_t length;
    fuzz_failing_begin(input.fail_at);
    enum berth_status status = wikitext_clean(&wikitext, text, input.size, &plain, &length, &error);
    fuzz_failing_end(input.fail_at, status, &error);
    check_text(plain, length, may_escape(text, input.size));
    require(length <= 4 * input.size + 64); // "{{cvt|1|ha}}" is shorter than what it shows
    if (status == BERTH_OK && (input.settings & 1)) {
        char *first = memory_string_of(plain, length);
        size_t first_length = length;
        require(wikitext_clean(&wikitext, text, input.size, &plain, &length, NULL) == BERTH_OK);
        require(length == first_length && memcmp(first, plain, length) == 0);
        memory_free(first);
    }
    wikitext_done(&wikitext);
    return 0;
}
