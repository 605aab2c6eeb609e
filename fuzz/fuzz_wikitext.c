// SPDX-License-Identifier: Apache-2.0
// Fuzzes the wikitext cleaner: for any input the guarantees of wikitext.h hold.
//
// Bit 0 of the settings: the page is cleaned twice with one cleaner, with the same result.
#include "data/wikipedia/wikitext.h"
#include "input.h"

static void check_text(const char *plain, size_t length) {
    char before = '\n';
    for (size_t i = 0; i < length; i++) {
        char byte = plain[i], small = (char)(byte | 32);
        require(byte != '{' && byte != '}' && byte != '|');
        require(!((byte == '[' || byte == ']') && before == byte));
        require(!(before == '<' && ((small >= 'a' && small <= 'z') || byte == '/' || byte == '!')));
        require(!(byte == '\n' && before == '\n'));
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
    check_text(plain, length);
    require(length <= input.size + input.size / 2 + 64);
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
