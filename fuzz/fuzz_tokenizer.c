// SPDX-License-Identifier: Apache-2.0
// Fuzzes the tokenizer with any bytes as text, under both rule sets: offsets stay in the text and
// ascend, every piece covers whole characters, and the joined words split into the same words
// again.
//
// Settings: bit 0 Google's rules, bit 1 lower case, bit 2 the special tokens are split by Hugging
// Face's rules and not split by Google's, bits 3 to 5 the longest word (0: the rules' own), bit 6
// the vocabulary is read through a file, where the allocation fails, bit 7 it lacks its first two
// lines, so that it has no [UNK].
#include "input.h"
#include "text/tokenizer.h"

static const char vocabulary[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[\n]\na\nb\nab\nabc\n##a\n##b\n##bc\n##c\n.\n,\n"
    "\xC3\xA9\n##\xC3\xA9\n\xCF\x83\n##\xCF\x82\n##\xCF\x83\n\xE4\xB8\xAD\n\xE1\x84\x80\n"
    "##\xE1\x85\xA1\n\xF0\x9D\x85\x97\n##\xF0\x9D\x85\xA5\n##\xF0\x9D\x85\xAE\n##\xE3\x80\xAE\n[a]"
    "\nB.\n";

static const struct added_token added[] = {
    {"[a]", ADDED_SINGLE_WORD | ADDED_LSTRIP},
    {"B.", ADDED_NORMALIZED | ADDED_SINGLE_WORD | ADDED_RSTRIP},
    {"[MASK]", ADDED_LSTRIP | ADDED_RSTRIP}};

static void check_tokens(const struct tokenizer *tokenizer, const struct token_list *list,
                         size_t length) {
    for (size_t i = 0; i < list->count; i++) {
        const struct token *token = &list->items[i];
        require(tokenizer_piece(tokenizer, token->id) != NULL);
        require(token->begin < token->end && token->byte_begin < token->byte_end);
        require(token->byte_end <= length && token->end <= token->byte_end);
        require(token->end - token->begin <= token->byte_end - token->byte_begin);
        if (i > 0) {
            const struct token *last = token - 1;
            require(token->word == last->word || token->word == last->word + 1);
            require(token->begin >= last->begin && token->byte_begin >= last->byte_begin);
            require(token->end >= last->end && token->byte_end >= last->byte_end);
        }
    }
}

static void check_words(const char *words, size_t count) {
    require(words[count] == '\0' && memchr(words, '\0', count) == NULL);
    for (size_t i = 0; i < count; i++) {
        require(words[i] != ' ' || (i > 0 && i + 1 < count && words[i + 1] != ' '));
    }
}

// --- opening ------------------------------------------------------------------------------------

enum { THROUGH_FILE = 64, WITHOUT_UNKNOWN = 128 };

static struct tokenizer_options options_of(unsigned settings) {
    int google = settings & 1;
    return (struct tokenizer_options){.rules = google ? TOKENIZER_GOOGLE : TOKENIZER_HUGGINGFACE,
                                      .lower_case = (settings & 2) != 0,
                                      .added = added,
                                      .added_count = sizeof added / sizeof *added,
                                      .split_special = (settings & 4) == 0 ? 0
                                                       : google            ? -1
                                                                           : 1,
                                      .max_word_length = (int)(settings >> 3 & 7)};
}

// One tokenizer for each setting that opens without failure, kept until the end of the program.
static struct tokenizer *opened[THROUGH_FILE];

static void close_all(void) {
    for (size_t i = 0; i < sizeof opened / sizeof *opened; i++) {
        tokenizer_close(opened[i]);
        opened[i] = NULL;
    }
}

static const struct tokenizer *shared_tokenizer(unsigned settings) {
    static int registered;
    struct tokenizer_options options = options_of(settings);
    if (!registered) {
        registered = 1;
        atexit(close_all);
    }
    if (opened[settings] == NULL) {
        require(tokenizer_open_memory("fuzz", vocabulary, sizeof vocabulary - 1, &options,
                                      &opened[settings], NULL) == BERTH_OK);
    }
    return opened[settings];
}

// A tokenizer, or NULL if opening fails.
static struct tokenizer *new_tokenizer(const struct fuzz_input *input) {
    struct tokenizer_options options = options_of(input->settings);
    struct tokenizer *tokenizer;
    struct berth_error error = {0};
    size_t omitted = (input->settings & WITHOUT_UNKNOWN) != 0 ? strlen("[PAD]\n[UNK]\n") : 0;
    const char *text = vocabulary + omitted;
    size_t length = sizeof vocabulary - 1 - omitted;
    unsigned fail_at = (input->settings & THROUGH_FILE) != 0 ? input->fail_at : 0;
    const char *path =
        (input->settings & THROUGH_FILE) != 0 ? fuzz_file((const uint8_t *)text, length) : NULL;
    fuzz_failing_begin(fail_at);
    enum berth_status status =
        path != NULL ? tokenizer_open(path, &options, &tokenizer, &error)
                     : tokenizer_open_memory("fuzz", text, length, &options, &tokenizer, &error);
    int failed = fuzz_failing_end(fail_at, status, &error);
    require(failed || (status == BERTH_OK) == (omitted == 0));
    require((status == BERTH_OK) == (tokenizer != NULL));
    return tokenizer;
}

// --- encoding -----------------------------------------------------------------------------------

static void encode(const struct tokenizer *tokenizer, const char *text, size_t length,
                   unsigned fail_at) {
    struct token_list list = {0};
    struct berth_error error = {0};
    const struct tokenizer_special special = tokenizer_special_ids(tokenizer);
    require(special.unknown >= 0 && (size_t)special.unknown < tokenizer_size(tokenizer));
    fuzz_failing_begin(fail_at);
    enum berth_status status = tokenizer_encode(tokenizer, text, length, &list, &error);
    require(!fuzz_failing_end(fail_at, status, &error) || list.count == 0);
    check_tokens(tokenizer, &list, length);
    token_list_done(&list);
}

static void split(const struct tokenizer *tokenizer, const char *text, size_t length,
                  unsigned fail_at) {
    char *words;
    size_t count;
    struct berth_error error = {0};
    fuzz_failing_begin(fail_at);
    enum berth_status status = tokenizer_basic(tokenizer, text, length, &words, &count, &error);
    if (!fuzz_failing_end(fail_at, status, &error)) {
        check_words(words, count);
        memory_free(words);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    int shared = input.settings < THROUGH_FILE;
    struct tokenizer *own = shared ? NULL : new_tokenizer(&input);
    const struct tokenizer *tokenizer = shared ? shared_tokenizer(input.settings) : own;
    if (tokenizer != NULL) {
        // A copy of the exact size, so that the sanitizer detects any read past it.
        char *text = memory_new(input.size);
        require(text != NULL);
        memcpy(text, input.bytes, input.size);
        encode(tokenizer, text, input.size, shared ? input.fail_at : 0);
        split(tokenizer, text, input.size, shared ? input.fail_at : 0);
        memory_free(text);
    }
    tokenizer_close(own);
    return 0;
}
