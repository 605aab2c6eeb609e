// SPDX-License-Identifier: Apache-2.0
// Any bytes as text, under both rule sets: offsets stay in the text and ascend, every piece covers
// whole characters, and the joined words cut into words again.
//
// The first byte chooses the settings: bit 0 Google's rules, bit 1 lower case, bit 2 split the
// special tokens, bits 3 to 5 the longest word (0: the rules' own).
#include "core/memory.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

static const char vocabulary[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[\n]\na\nb\nab\nabc\n##a\n##b\n##bc\n##c\n.\n,\n"
    "\xC3\xA9\n##\xC3\xA9\n\xCF\x83\n##\xCF\x82\n##\xCF\x83\n\xE4\xB8\xAD\n\xE1\x84\x80\n"
    "##\xE1\x85\xA1\n\xF0\x9D\x85\x97\n##\xF0\x9D\x85\xA5\n##\xF0\x9D\x85\xAE\n##\xE3\x80\xAE\n";

static void require(int condition) {
    if (!condition) {
        abort();
    }
}

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
        }
    }
}

static void check_words(const struct tokenizer *tokenizer, const char *text, size_t length) {
    char *words;
    size_t count;
    uint32_t *origin;
    struct berth_error error;
    require(tokenizer_basic(tokenizer, text, length, &words, &count, &origin, &error) == BERTH_OK);
    require(words[count] == '\0' && memchr(words, '\0', count) == NULL);
    for (size_t i = 0; i < count; i++) {
        require(origin[i] < length && (i == 0 || origin[i] >= origin[i - 1]));
        require(words[i] != ' ' || (i > 0 && i + 1 < count && words[i + 1] != ' '));
    }
    memory_free(words);
    memory_free(origin);
}

// One tokenizer for each setting, kept for the life of the program.
static struct tokenizer *opened[64];

static void close_all(void) {
    for (size_t i = 0; i < sizeof opened / sizeof *opened; i++) {
        tokenizer_close(opened[i]);
        opened[i] = NULL;
    }
}

// Vocabularies that cannot be used, and what does not depend on a text; once.
static void check_opening(const struct tokenizer *tokenizer) {
    static int checked;
    if (checked) {
        return;
    }
    checked = 1;
    atexit(close_all);
    struct tokenizer *none;
    struct berth_error error;
    const struct tokenizer_options *options = tokenizer_rules_of(tokenizer);
    require(tokenizer_open_memory("fuzz", "a\nb\n", 4, options, &none, &error) != BERTH_OK);
    require(none == NULL && strstr(error.message, "[UNK]") != NULL);
    require(tokenizer_open("fuzz/no/such/folder/vocab.txt", options, &none, &error) != BERTH_OK);
    require(tokenizer_size(tokenizer) > 0 && tokenizer_special_ids(tokenizer).unknown == 1);
}

static const struct tokenizer *tokenizer_of(unsigned setting) {
    struct tokenizer_options options = {.rules = (setting & 1) != 0 ? TOKENIZER_GOOGLE
                                                                    : TOKENIZER_HUGGINGFACE,
                                        .lower_case = (setting & 2) != 0,
                                        .split_special = (setting & 4) != 0,
                                        .max_word_length = (int)(setting >> 3 & 7)};
    if (opened[setting] == NULL) {
        require(tokenizer_open_memory("fuzz", vocabulary, sizeof vocabulary - 1, &options,
                                      &opened[setting], NULL) == BERTH_OK);
    }
    return opened[setting];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    const struct tokenizer *tokenizer = tokenizer_of(data[0] & 63);
    check_opening(tokenizer);
    // A copy of the exact size, so that the sanitizer sees any byte read past it.
    size_t length = size - 1;
    char *text = memory_new(length);
    require(text != NULL);
    memcpy(text, data + 1, length);
    struct token_list list = {0};
    require(tokenizer_encode(tokenizer, text, length, &list, NULL) == BERTH_OK);
    check_tokens(tokenizer, &list, length);
    check_words(tokenizer, text, length);
    token_list_done(&list);
    memory_free(text);
    return 0;
}
