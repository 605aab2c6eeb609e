// SPDX-License-Identifier: Apache-2.0
// Ids and offsets equal those of the reference programs: on the committed golden cases, those of
// other tokenizers than BERT's with words and decoded texts; and by hashes on every line of the
// real data (skipped without BERTH_DATA). dev/unicode/make_golden.py makes the files.
#include "core/file.h"
#include "core/memory.h"
#include "core/scratch.h"
#include "format/json/json.h"
#include "text/data_hashes.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN BERTH_TEST_SOURCE_DIR "/tests/text/tokenizer_golden.txt"
#define VOCAB BERTH_TEST_SOURCE_DIR "/tests/text/tokenizer_vocab.txt"

static void read_all(const char *path, char **bytes, size_t *length) {
    struct berth_error error;
    if (file_read(path, SIZE_MAX / 2, bytes, length, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
}

static struct tokenizer *open_with(const char *vocab, struct tokenizer_options options) {
    struct tokenizer *tokenizer;
    struct berth_error error;
    if (tokenizer_open(vocab, &options, &tokenizer, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    return tokenizer;
}

// "huggingface uncased keep" -> options.
static struct tokenizer_options parse_settings(const char *settings) {
    return (struct tokenizer_options){
        .rules = strstr(settings, "google") != NULL ? TOKENIZER_GOOGLE : TOKENIZER_HUGGINGFACE,
        .lower_case = strstr(settings, "uncased") != NULL,
        .accents = strstr(settings, "-strip") != NULL  ? TOKENIZER_ACCENTS_STRIP
                   : strstr(settings, "-keep") != NULL ? TOKENIZER_ACCENTS_KEEP
                                                       : TOKENIZER_ACCENTS_AUTO,
        .whole_ideographs = strstr(settings, "-whole") != NULL,
        .split_special = strstr(settings, "split") != NULL};
}

// Turns hexadecimal digits into bytes in place; returns their number.
static size_t decode_hex(char *digits) {
    size_t count = strlen(digits) / 2;
    for (size_t i = 0; i < count; i++) {
        char pair[3] = {digits[2 * i], digits[2 * i + 1], '\0'};
        digits[i] = (char)strtol(pair, NULL, 16);
    }
    return count;
}

static size_t bytes_of_characters(const char *text, size_t characters) {
    size_t at = 0;
    for (; characters > 0; characters--) {
        at++;
        while ((text[at] & 0xC0) == 0x80) {
            at++;
        }
    }
    return at;
}

static void check_token(const struct token *token, char *field, const char *text, size_t line) {
    long id;
    long begin;
    long end;
    long word;
    int numbers = sscanf(field, "%ld:%ld:%ld:%ld", &id, &begin, &end, &word);
    if (token->id != id) {
        fail_msg("line %zu: id %d, expected %ld", line, token->id, id);
    }
    if (numbers == 4 && token->word != word) {
        fail_msg("line %zu: id %d in word %d, expected %ld", line, token->id, token->word, word);
    }
    if (numbers >= 3 && (token->begin != begin || token->end != end)) {
        fail_msg("line %zu: id %d at %u-%u, expected %ld-%ld", line, token->id, token->begin,
                 token->end, begin, end);
    }
    assert_int_equal(token->byte_begin, bytes_of_characters(text, token->begin));
    assert_int_equal(token->byte_end, bytes_of_characters(text, token->end));
}

static void check_decoded(const struct tokenizer *tokenizer, const struct token_list *list,
                          char *hex, size_t line) {
    int32_t *ids = memory_array(list->count + 1, sizeof *ids);
    for (size_t i = 0; i < list->count; i++) {
        ids[i] = list->items[i].id;
    }
    char *text = decode_text(tokenizer, ids, list->count, 0);
    hex[decode_hex(hex)] = '\0';
    if (strcmp(text, hex) != 0) {
        fail_msg("line %zu: decoded \"%s\", expected \"%s\"", line, text, hex);
    }
    memory_free(text);
    memory_free(ids);
}

static void check_case(const struct tokenizer *tokenizer, char *hex, char *expected, char *decoded,
                       size_t line) {
    struct token_list list = {0};
    size_t length = decode_hex(hex);
    hex[length] = 0; // bytes_of_characters looks one byte past the text
    assert_int_equal(tokenizer_encode(tokenizer, hex, length, &list, NULL), BERTH_OK);
    assert_int_equal(list.ill_formed, 0);
    size_t count = 0;
    char *rest = NULL;
    for (char *field = strtok_r(expected, " ", &rest); field != NULL;
         field = strtok_r(NULL, " ", &rest)) {
        if (count >= list.count) {
            fail_msg("line %zu: expected more than %zu tokens", line, list.count);
        }
        check_token(&list.items[count++], field, hex, line);
    }
    if (count != list.count) {
        fail_msg("line %zu: %zu tokens, expected %zu", line, list.count, count);
    }
    if (decoded != NULL) {
        check_decoded(tokenizer, &list, decoded, line);
    }
    token_list_done(&list);
}

static struct tokenizer *open_json(const char *text) {
    const struct tokenizer_names names = {.pad = NULL};
    const struct tokenizer_options options = {.lower_case = 0};
    struct tokenizer *tokenizer;
    struct berth_error error;
    json *object;
    assert_int_equal(json_read_memory("golden", text, strlen(text), &object, NULL), BERTH_OK);
    if (tokenizer_open_pipeline("golden", object, &names, &options, &tokenizer, &error) !=
        BERTH_OK) {
        fail_msg("%s", error.message);
    }
    json_free(object);
    return tokenizer;
}

static void test_golden_cases(void **state) {
    (void)state;
    char *golden;
    size_t length;
    read_all(GOLDEN, &golden, &length);
    struct tokenizer *tokenizer = NULL;
    char settings[64] = "";
    size_t line = 0;
    for (char *at = golden; *at != '\0'; line++) {
        char *end = strchr(at, '\n');
        char *hex = strchr(at, '\t') + 1;
        char *expected = strchr(hex, '\t') + 1;
        hex[-1] = expected[-1] = *end = '\0';
        char *decoded = strchr(expected, '\t');
        if (decoded != NULL) {
            *decoded++ = '\0';
        }
        if (strcmp(settings, at) != 0) {
            tokenizer_close(tokenizer);
            tokenizer = hex[0] == '{' ? open_json(hex) : open_with(VOCAB, parse_settings(at));
            snprintf(settings, sizeof settings, "%s", at);
        }
        if (hex[0] != '{') {
            check_case(tokenizer, hex, expected, decoded, line + 1);
        }
        at = end + 1;
    }
    assert_true(line > 400);
    tokenizer_close(tokenizer);
    memory_free(golden);
}

// --- real data ----------------------------------------------------------------------------------

static void mix(uint64_t *hash, uint32_t number) {
    *hash = (*hash ^ number) * 0x100000001B3u;
}

static void check_data_file(const struct tokenizer *tokenizer, size_t row) {
    const char *path = data_path(data_hashes[row].file);
    char *text;
    size_t length;
    read_all(path, &text, &length);
    struct token_list list = {0};
    uint64_t hash = 0xCBF29CE484222325u;
    uint64_t lines = 0;
    uint64_t tokens = 0;
    for (size_t at = 0; at <= length; lines++) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t stop = end == NULL ? length : (size_t)(end - text);
        list.count = 0;
        assert_int_equal(tokenizer_encode(tokenizer, text + at, stop - at, &list, NULL), BERTH_OK);
        for (size_t i = 0; i < list.count; i++) {
            mix(&hash, (uint32_t)list.items[i].id);
            mix(&hash, list.items[i].begin);
            mix(&hash, list.items[i].end);
        }
        mix(&hash, UINT32_MAX);
        tokens += list.count;
        at = stop + 1;
    }
    print_message("%s, %s: %llu lines, %llu tokens\n", data_hashes[row].file,
                  data_hashes[row].lower_case ? "uncased" : "cased", (unsigned long long)lines,
                  (unsigned long long)tokens);
    assert_int_equal(list.ill_formed, 0);
    assert_int_equal(lines, data_hashes[row].lines);
    assert_int_equal(tokens, data_hashes[row].tokens);
    assert_int_equal(hash, data_hashes[row].hash);
    token_list_done(&list);
    memory_free(text);
}

static void test_real_data(void **state) {
    (void)state;
    char vocab[512]; // data_path is called for each file below
    snprintf(vocab, sizeof vocab, "%s", data_path("vocab/bert-base-uncased-vocab.txt"));
    if (!file_exists(vocab)) {
        print_message("skipped: no %s (set BERTH_DATA)\n", vocab);
        skip();
    }
    for (int lower_case = 0; lower_case < 2; lower_case++) {
        struct tokenizer *tokenizer = open_with(
            vocab, (struct tokenizer_options){.lower_case = lower_case, .split_special = 1});
        assert_int_equal(tokenizer_size(tokenizer), 30522);
        for (size_t row = 0; row < sizeof data_hashes / sizeof *data_hashes; row++) {
            if (data_hashes[row].lower_case == lower_case) {
                check_data_file(tokenizer, row);
            }
        }
        tokenizer_close(tokenizer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_cases),
        cmocka_unit_test(test_real_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
