// SPDX-License-Identifier: Apache-2.0
// WordPiece on the words of basic.c: greedily takes the longest piece of the vocabulary from the
// left, with ## before every piece but the first. A word that is too long or cannot be split is
// [UNK]. Every text that a model reads comes through here, or through the pipeline that it opened
// in place of this one (text_pipeline.h). Words come from basic.c, the special tokens around a text
// are put by whoever makes inputs (data/pairs).
#include "text/tokenizer.h"

#include "core/buffer.h"
#include "core/file.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "text/basic.h"
#include "text/text_pipeline.h"
#include "text/unicode.h"
#include "text/vocabulary.h"

#include <string.h>

#define VOCABULARY_LIMIT ((size_t)256 << 20)
#define HUGGINGFACE_WORD_LENGTH 100
#define GOOGLE_WORD_LENGTH 200

struct tokenizer {
    struct tokenizer_options options; // with the defaults filled in
    struct text_pipeline *pipeline;   // NULL: BERT's tokenizer, whose are the fields that follow
    struct vocabulary vocabulary;
    struct basic_rules rules;
    struct tokenizer_special special;
    struct added_token *specials; // never split in texts
    uint32_t word_pieces;         // ids below this one are pieces of words
    uint32_t continuation;        // the trie's node after "##"; TRIE_NONE: no such pieces
};

// --- opening ------------------------------------------------------------------------------------

static const char *const special_names[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
#define SPECIALS (sizeof special_names / sizeof *special_names)

static int32_t find(const struct tokenizer *tokenizer, const char *name) {
    return tokenizer_find(tokenizer, name, strlen(name));
}

// The flags that the added tokens give to a special one.
static unsigned flags_of(const struct tokenizer_options *options, const char *name) {
    for (size_t i = 0; i < options->added_count; i++) {
        if (strcmp(options->added[i].text, name) == 0) {
            return options->added[i].flags;
        }
    }
    return 0;
}

// Collects the token if it is in the vocabulary, from which its text is borrowed, and is, or is
// not, found in normalized text.
static void add_special(struct tokenizer *tokenizer, struct added_token token, int normalized,
                        size_t *count) {
    const int32_t id = find(tokenizer, token.text);
    if (id >= 0 && token.text[0] != '\0' && ((token.flags & ADDED_NORMALIZED) != 0) == normalized) {
        tokenizer->specials[(*count)++] =
            (struct added_token){tokenizer_piece(tokenizer, id), token.flags};
    }
}

// A special token that is also an added one is listed twice, with the same flags.
static void add_specials(struct tokenizer *tokenizer, const struct tokenizer_options *options,
                         int normalized, size_t *count) {
    for (size_t i = 0; i < SPECIALS; i++) {
        const char *name = special_names[i];
        add_special(tokenizer, (struct added_token){name, flags_of(options, name)}, normalized,
                    count);
    }
    for (size_t i = 0; i < options->added_count; i++) {
        add_special(tokenizer, options->added[i], normalized, count);
    }
}

static enum berth_status set_specials(struct tokenizer *tokenizer,
                                      const struct tokenizer_options *options,
                                      struct berth_error *error) {
    const size_t most = SPECIALS + options->added_count;
    size_t count = 0;
    tokenizer->special = (struct tokenizer_special){.pad = find(tokenizer, "[PAD]"),
                                                    .unknown = find(tokenizer, "[UNK]"),
                                                    .cls = find(tokenizer, "[CLS]"),
                                                    .sep = find(tokenizer, "[SEP]"),
                                                    .mask = find(tokenizer, "[MASK]"),
                                                    .separators = 1};
    if (tokenizer->options.split_special) {
        return BERTH_OK;
    }
    tokenizer->specials = memory_array(most, sizeof *tokenizer->specials);
    if (tokenizer->specials == NULL) {
        return error_no_memory(error, most * sizeof *tokenizer->specials, "the tokenizer");
    }
    add_specials(tokenizer, options, 0, &count);
    const size_t written = count;
    add_specials(tokenizer, options, 1, &count);
    return basic_rules_set_specials(&tokenizer->rules, tokenizer->specials, count, written)
               ? BERTH_OK
               : error_no_memory(error, 0, "the added tokens");
}

static enum unicode_mapping mapping_of(const struct tokenizer_options *options) {
    int strips = options->accents == TOKENIZER_ACCENTS_AUTO
                     ? options->lower_case
                     : options->accents == TOKENIZER_ACCENTS_STRIP;
    return options->lower_case ? (strips ? UNICODE_FOLD : UNICODE_LOWER)
                               : (strips ? UNICODE_STRIP : UNICODE_AS_IS);
}

static enum berth_status set_rules(struct tokenizer *tokenizer,
                                   const struct tokenizer_options *options,
                                   struct berth_error *error) {
    int google = options->rules == TOKENIZER_GOOGLE;
    tokenizer->options = *options;
    tokenizer->options.added = NULL; // the caller's
    tokenizer->options.added_count = 0;
    tokenizer->options.split_special =
        options->split_special == 0 ? google : options->split_special > 0;
    if (options->max_word_length <= 0) {
        tokenizer->options.max_word_length = google ? GOOGLE_WORD_LENGTH : HUGGINGFACE_WORD_LENGTH;
    }
    basic_rules_init(&tokenizer->rules, google ? UNICODE_GOOGLE : UNICODE_HUGGINGFACE,
                     mapping_of(options));
    tokenizer->rules.whole_specials = google;
    tokenizer->rules.whole_ideographs = options->whole_ideographs;
    tokenizer->word_pieces =
        (uint32_t)(options->word_pieces > 0 ? options->word_pieces : tokenizer->vocabulary.count);
    tokenizer->continuation = trie_walk(&tokenizer->vocabulary.trie, 0, "##", 2);
    return set_specials(tokenizer, options, error);
}

enum berth_status tokenizer_open_memory(const char *name, const char *bytes, size_t length,
                                        const struct tokenizer_options *options,
                                        struct tokenizer **tokenizer, struct berth_error *error) {
    *tokenizer = NULL;
    struct tokenizer *opened = memory_array_zeroed(1, sizeof *opened);
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "the tokenizer");
    }
    enum berth_status status = vocabulary_read(&opened->vocabulary, name, bytes, length, error);
    if (status == BERTH_OK) {
        status = set_rules(opened, options, error);
        if (status == BERTH_OK && opened->special.unknown < 0) {
            status = error_set(error, BERTH_BAD_DATA,
                               "%s: expected the token [UNK], for words that cannot be split, in "
                               "one of %zu lines; is this a WordPiece vocabulary?",
                               name, opened->vocabulary.count);
        }
    }
    if (status != BERTH_OK) {
        tokenizer_close(opened);
        return status;
    }
    *tokenizer = opened;
    return BERTH_OK;
}

enum berth_status tokenizer_open(const char *vocab_path, const struct tokenizer_options *options,
                                 struct tokenizer **tokenizer, struct berth_error *error) {
    char *bytes;
    size_t length;
    *tokenizer = NULL;
    TRY(file_read(vocab_path, VOCABULARY_LIMIT, &bytes, &length, error));
    enum berth_status status =
        tokenizer_open_memory(vocab_path, bytes, length, options, tokenizer, error);
    memory_free(bytes);
    return status;
}

// The first token that the vocabulary has: the named one, else the usual ones.
static int32_t find_named(const struct tokenizer *tokenizer, const char *name, const char *usual,
                          const char *berts) {
    const int32_t id = find(tokenizer, usual);
    return name != NULL ? find(tokenizer, name) : id >= 0 ? id : find(tokenizer, berts);
}

enum berth_status tokenizer_open_pipeline(const char *name, const struct json_t *object,
                                          const struct tokenizer_names *names,
                                          const struct tokenizer_options *options,
                                          struct tokenizer **tokenizer, struct berth_error *error) {
    *tokenizer = NULL;
    struct tokenizer *opened = memory_array_zeroed(1, sizeof *opened);
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "the tokenizer");
    }
    const enum berth_status status = text_pipeline_open(name, object, &opened->pipeline, error);
    if (status != BERTH_OK) {
        tokenizer_close(opened);
        return status;
    }
    opened->options = (struct tokenizer_options){.split_special = options->split_special > 0,
                                                 .cleans_up = options->cleans_up,
                                                 .google_pairs = options->google_pairs};
    const struct text_pipeline_inputs *inputs = text_pipeline_inputs_of(opened->pipeline);
    const int32_t unknown = text_pipeline_unknown(opened->pipeline);
    opened->special = (struct tokenizer_special){
        .pad = find_named(opened, names->pad, "<pad>", "[PAD]"),
        .unknown = unknown >= 0 ? unknown : find_named(opened, names->unknown, "<unk>", "[UNK]"),
        .cls = inputs->cls,
        .sep = inputs->sep,
        .mask = find_named(opened, names->mask, "<mask>", "[MASK]"),
        .separators = inputs->separators};
    opened->options.one_type = inputs->one_type;
    *tokenizer = opened;
    return BERTH_OK;
}

void tokenizer_close(struct tokenizer *tokenizer) {
    if (tokenizer != NULL) {
        text_pipeline_close(tokenizer->pipeline);
        basic_rules_done(&tokenizer->rules);
        vocabulary_done(&tokenizer->vocabulary);
        memory_free(tokenizer->specials);
        memory_free(tokenizer);
    }
}

// --- queries ------------------------------------------------------------------------------------

const struct text_pipeline *tokenizer_pipeline(const struct tokenizer *tokenizer) {
    return tokenizer->pipeline;
}

static const struct vocabulary *vocabulary_of(const struct tokenizer *tokenizer) {
    return tokenizer->pipeline != NULL ? text_pipeline_vocabulary(tokenizer->pipeline)
                                       : &tokenizer->vocabulary;
}

size_t tokenizer_size(const struct tokenizer *tokenizer) {
    return vocabulary_of(tokenizer)->count;
}

const struct tokenizer_options *tokenizer_rules_of(const struct tokenizer *tokenizer) {
    return &tokenizer->options;
}

struct tokenizer_special tokenizer_special_ids(const struct tokenizer *tokenizer) {
    return tokenizer->special;
}

const struct added_token *tokenizer_specials(const struct tokenizer *tokenizer, size_t *count) {
    *count = tokenizer->rules.special_count;
    return tokenizer->rules.specials;
}

const char *tokenizer_piece(const struct tokenizer *tokenizer, int32_t id) {
    const struct vocabulary *vocabulary = vocabulary_of(tokenizer);
    return id < 0 || (size_t)id >= vocabulary->count ? NULL
                                                     : vocabulary->text + vocabulary->starts[id];
}

size_t tokenizer_capital_pieces(const struct tokenizer *tokenizer) {
    size_t capitals = 0;
    for (uint32_t i = 0; i < tokenizer->word_pieces && tokenizer->options.lower_case; i++) {
        const char *piece = tokenizer_piece(tokenizer, (int32_t)i);
        capitals += piece[0] != '[' && strpbrk(piece, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != NULL;
    }
    return capitals;
}

int32_t tokenizer_find(const struct tokenizer *tokenizer, const char *piece, size_t length) {
    return vocabulary_find(vocabulary_of(tokenizer), piece, length);
}

// --- encoding -----------------------------------------------------------------------------------

void token_list_done(struct token_list *list) {
    memory_free(list->items);
    text_pipeline_room_free(list->room);
    *list = (struct token_list){0};
}

void token_list_trim(struct token_list *list, const char *text) {
    for (size_t i = 0; i < list->count; i++) {
        struct token *token = &list->items[i];
        while (token->byte_begin < token->byte_end) {
            uint32_t point;
            const size_t size =
                utf8_decode(text + token->byte_begin, token->byte_end - token->byte_begin, &point);
            if (point == UTF8_ILL_FORMED ||
                (unicode_component_of(point).kinds & UNICODE_BLANK) == 0) {
                break;
            }
            token->byte_begin += (uint32_t)size;
            token->begin++;
        }
    }
}

static int reserve(struct token_list *list, size_t extra) {
    if (list->capacity - list->count >= extra) {
        return 1;
    }
    struct token *items =
        memory_grow(list->items, &list->capacity, list->count + extra, sizeof *items);
    if (items == NULL) {
        return 0;
    }
    list->items = items;
    return 1;
}

// Appends bytes [begin, end) of the word as one piece; the caller has reserved room.
static void append(struct token_list *list, const struct basic_walk *word, int32_t id,
                   int32_t number, size_t begin, size_t end) {
    struct basic_origin first = basic_origin_of(word, begin);
    struct basic_origin last = basic_origin_of(word, end - 1);
    list->items[list->count++] = (struct token){.id = id,
                                                .word = number,
                                                .begin = first.character,
                                                .end = last.character + 1,
                                                .byte_begin = first.begin,
                                                .byte_end = last.end};
}

// The id of the longest piece at `begin`, or -1; sets *end.
static int32_t longest_piece(const struct tokenizer *tokenizer, const struct basic_walk *word,
                             size_t begin, size_t *end) {
    const struct trie *trie = &tokenizer->vocabulary.trie;
    uint32_t node = begin == 0 ? 0 : tokenizer->continuation;
    int32_t best = -1;
    for (size_t i = begin; i < word->count && node != TRIE_NONE; i++) {
        node = trie_step(trie, node, (unsigned char)word->bytes[i]);
        const int32_t id = node != TRIE_NONE ? trie->nodes[node].id : -1;
        if (id >= 0 && (uint32_t)id < tokenizer->word_pieces) {
            best = id;
            *end = i + 1;
        }
    }
    return best;
}

// Appends the pieces of a word; the caller has reserved room for one per byte.
static void split_word(const struct tokenizer *tokenizer, const struct basic_walk *word,
                       int32_t number, struct token_list *list) {
    size_t before = list->count;
    size_t begin = 0;
    int32_t id = word->characters > (size_t)tokenizer->options.max_word_length ? -1 : 0;
    while (id >= 0 && begin < word->count) {
        size_t end = 0;
        id = longest_piece(tokenizer, word, begin, &end);
        if (id >= 0) {
            append(list, word, id, number, begin, end);
            begin = end;
        }
    }
    if (id < 0) {
        list->count = before;
        append(list, word, tokenizer->special.unknown, number, 0, word->count);
    }
}

static enum berth_status check_length(size_t length, struct berth_error *error) {
    return length < UINT32_MAX
               ? BERTH_OK
               : error_set(error, BERTH_NO_MEMORY,
                           "a text of %zu bytes is too long for 32-bit offsets; split it", length);
}

enum berth_status tokenizer_encode(const struct tokenizer *tokenizer, const char *text,
                                   size_t length, struct token_list *list,
                                   struct berth_error *error) {
    TRY(check_length(length, error));
    if (tokenizer->pipeline != NULL) {
        return text_pipeline_encode(tokenizer->pipeline, text, length,
                                    tokenizer->options.split_special, list, error);
    }
    size_t before = list->count;
    struct basic_walk walk;
    basic_init(&walk, &tokenizer->rules, text, length);
    int found;
    for (int32_t number = 0; (found = basic_next(&walk)) > 0; number++) {
        const int special = walk.special.end > 0;
        if (!reserve(list, special ? 1 : walk.count)) {
            found = -1;
            break;
        }
        if (special) {
            const struct basic_range *range = &walk.special;
            list->items[list->count++] =
                (struct token){.id = tokenizer_find(tokenizer, walk.bytes, walk.count),
                               .word = number,
                               .begin = range->character,
                               .end = range->character_end,
                               .byte_begin = range->begin,
                               .byte_end = range->end};
        } else {
            split_word(tokenizer, &walk, number, list);
        }
    }
    list->ill_formed += walk.ill_formed;
    basic_done(&walk);
    if (found < 0) {
        list->count = before;
        return error_no_memory(error, length, "the tokens of a text");
    }
    return BERTH_OK;
}

// --- basic tokens -------------------------------------------------------------------------------

enum berth_status tokenizer_basic(const struct tokenizer *tokenizer, const char *text,
                                  size_t length, char **words, size_t *words_length,
                                  struct berth_error *error) {
    TRY(check_length(length, error));
    struct buffer joined = {0};
    struct basic_walk walk;
    basic_init(&walk, &tokenizer->rules, text, length);
    int found;
    while ((found = basic_next(&walk)) > 0) {
        if (joined.length > 0) {
            buffer_put_byte(&joined, ' ');
        }
        buffer_put(&joined, walk.bytes, walk.count);
    }
    basic_done(&walk);
    buffer_put_byte(&joined, '\0');
    if (found < 0 || joined.failed) {
        buffer_done(&joined);
        return error_no_memory(error, length, "the words of a text");
    }
    *words = joined.bytes;
    *words_length = joined.length - 1;
    return BERTH_OK;
}
