// SPDX-License-Identifier: Apache-2.0
// Fuzzes the vocabulary reader: any bytes are refused with a message, or give a tokenizer whose
// pieces are found under their ids, or under that of the last of equal ones. Likewise a
// tokenizer.json of any kind, whose tokens lie within their text, in its order; and other files of
// words, which become one.
//
// Settings: bit 0 cased, bit 1 Google's rules, bit 2 read through a file, bit 3 a tokenizer.json,
// bit 4 other files of words, of the class that the higher bits number: merges.txt and the settings
// follow the first one, each after a byte 0xFF.
#include "format/json/json.h"
#include "input.h"
#include "model/folder_words.h"
#include "text/tokenizer.h"

static void check_pieces(const struct tokenizer *tokenizer) {
    size_t size = tokenizer_size(tokenizer);
    for (size_t id = 0; id < size; id++) {
        const char *piece = tokenizer_piece(tokenizer, (int32_t)id);
        require(piece != NULL);
        const int32_t found = tokenizer_find(tokenizer, piece, strlen(piece));
        require(found >= (int32_t)id && strcmp(tokenizer_piece(tokenizer, found), piece) == 0);
    }
    require(tokenizer_piece(tokenizer, -1) == NULL &&
            tokenizer_piece(tokenizer, (int32_t)size) == NULL);
}

static enum berth_status open_input(const struct fuzz_input *input, struct tokenizer **tokenizer) {
    struct tokenizer_options options = {
        .lower_case = (input->settings & 1) == 0,
        .rules = (input->settings & 2) != 0 ? TOKENIZER_GOOGLE : TOKENIZER_HUGGINGFACE};
    struct berth_error error = {0};
    const char *path = (input->settings & 4) != 0 ? fuzz_file(input->bytes, input->size) : NULL;
    fuzz_failing_begin(input->fail_at);
    enum berth_status status =
        path != NULL ? tokenizer_open(path, &options, tokenizer, &error)
                     : tokenizer_open_memory("fuzz", (const char *)input->bytes, input->size,
                                             &options, tokenizer, &error);
    int failed = fuzz_failing_end(input->fail_at, status, &error);
    require(failed || status == BERTH_OK || status == BERTH_BAD_DATA);
    return status;
}

static const char pipeline_text[] = " The <mask>caf\xC3\xA9 e\xCC\x81\xCC\xA7 of  "
                                    "\xE4\xB8\xAD\xE5\x9B\xBD, \xEF\xAC\x81ne\r\n'll 12 "
                                    "\xD8\x80x\xE2\x96\x81 \xFF<s>unaffable\xC2\xA0";

static void check_tokens(const struct tokenizer *tokenizer, const struct token_list *list) {
    int32_t word = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct token *token = &list->items[i];
        require(tokenizer_piece(tokenizer, token->id) != NULL && token->word >= word);
        require(token->begin <= token->end && token->byte_begin <= token->byte_end &&
                token->byte_end < sizeof pipeline_text);
        word = token->word;
    }
}

static void use_pipeline(const struct tokenizer *tokenizer, unsigned fail_at) {
    struct token_list list = {0};
    struct berth_error error = {0};
    fuzz_failing_begin(fail_at);
    const enum berth_status status =
        tokenizer_encode(tokenizer, pipeline_text, sizeof pipeline_text - 1, &list, &error);
    (void)fuzz_failing_end(fail_at, status, &error);
    check_tokens(tokenizer, &list);
    int32_t *ids = memory_array(list.count + 1, sizeof *ids);
    for (size_t i = 0; ids != NULL && i < list.count; i++) {
        ids[i] = list.items[i].id;
    }
    fuzz_failing_begin(fail_at);
    char *text = ids != NULL ? decode_text(tokenizer, ids, list.count, 0) : NULL;
    require(fuzz_failing_stop(fail_at) || ids == NULL || text != NULL);
    if (text != NULL) {
        fuzz_read_text(text);
    }
    memory_free(text);
    memory_free(ids);
    token_list_done(&list);
}

static void open_pipeline(const struct fuzz_input *input, json *object) {
    const struct tokenizer_names names = {.mask = "<mask>"};
    const struct tokenizer_options options = {.split_special = (input->settings & 1) != 0};
    struct tokenizer *tokenizer = NULL;
    struct berth_error error = {0};
    fuzz_failing_begin(input->fail_at);
    const enum berth_status status =
        tokenizer_open_pipeline("fuzz", object, &names, &options, &tokenizer, &error);
    const int failed = fuzz_failing_end(input->fail_at, status, &error);
    require(failed || status == BERTH_OK || status == BERTH_BAD_DATA || status == BERTH_CONFIG);
    json_free(object);
    require((tokenizer != NULL) == (status == BERTH_OK));
    if (tokenizer != NULL) {
        use_pipeline(tokenizer, input->fail_at);
    }
    tokenizer_close(tokenizer);
}

// The bytes up to the next 0xFF, or all that are left.
static const char *next_file(const struct fuzz_input *input, size_t *at, size_t *length) {
    const uint8_t *begin = input->bytes + *at, *end = memchr(begin, 0xFF, input->size - *at);
    *length = end != NULL ? (size_t)(end - begin) : input->size - *at;
    *at += *length + (end != NULL);
    return (const char *)begin;
}

static json *convert_words(const struct fuzz_input *input) {
    static const char *const names[] = {
        "RobertaTokenizer",   "DebertaTokenizer", "GPT2Tokenizer",    "XLMRobertaTokenizer",
        "CamembertTokenizer", "AlbertTokenizer",  "BigBirdTokenizer", "TokenizersBackend"};
    struct words_input words = {.class = words_class_find(names[input->settings >> 5 & 7], NULL),
                                .name = "fuzz",
                                .bytes = (const char *)input->bytes,
                                .length = input->size};
    struct berth_error error = {0};
    json *object, *settings = NULL;
    size_t at = 0, length;
    require(words.class != NULL);
    if (words_class_has_merges(words.class)) {
        words.bytes = next_file(input, &at, &words.length);
        words.merges = next_file(input, &at, &words.merges_length);
        const char *bytes = next_file(input, &at, &length);
        (void)json_read_memory("fuzz", bytes, length, &settings, NULL);
        words.settings = words.specials = words.added = settings;
    }
    fuzz_failing_begin(input->fail_at);
    const enum berth_status status = words_convert(&words, &object, &error);
    const int failed = fuzz_failing_end(input->fail_at, status, &error);
    require(failed || status == BERTH_OK || status == BERTH_BAD_DATA || status == BERTH_CONFIG);
    require((object != NULL) == (status == BERTH_OK));
    json_free(settings);
    return object;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "The [CLS] caf\xC3\xA9 of \xE4\xB8\xAD\xE5\x9B\xBD, unaffable \xFF!";
    struct fuzz_input input = fuzz_input_of(data, size);
    struct tokenizer *tokenizer;
    if ((input.settings & 24) != 0) {
        json *object = NULL;
        if ((input.settings & 16) != 0) {
            object = convert_words(&input);
        } else {
            (void)json_read_memory("fuzz", (const char *)input.bytes, input.size, &object, NULL);
        }
        if (object != NULL) {
            open_pipeline(&input, object);
        }
        return 0;
    }
    if (open_input(&input, &tokenizer) != BERTH_OK) {
        require(tokenizer == NULL);
        return 0;
    }
    struct token_list list = {0};
    check_pieces(tokenizer);
    require(tokenizer_encode(tokenizer, text, sizeof text - 1, &list, NULL) == BERTH_OK &&
            list.ill_formed == 1);
    token_list_done(&list);
    tokenizer_close(tokenizer);
    return 0;
}
