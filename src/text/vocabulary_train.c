// SPDX-License-Identifier: Apache-2.0
// Merges the most frequent pair of neighbours into one piece until the vocabulary is full: a heap
// of pairs by their counts, and for each pair the words that have it, so a merge touches only
// those. The job vocab calls it with the words that data/corpus/corpus_words.c has counted; the
// form of the file is left to vocabulary_form.c and api/vocab.c.
#include "text/vocabulary_train.h"

#include "core/buffer.h"
#include "core/memory.h"
#include "core/string_index.h"
#include "core/utf8.h"
#include "text/basic.h"
#include "text/components.h"
#include "text/text_pipeline.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PROGRESS_EVERY 500
#define PREFIX "##"
#define PREFIX_LENGTH 2
#define CHARACTER_NAME_SIZE (PREFIX_LENGTH + 4)
#define POINTS 0x110000

static const char *const specials[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
#define SPECIAL_COUNT (sizeof specials / sizeof *specials)

// --- counting words -----------------------------------------------------------------------------

enum berth_status word_counts_add(struct word_counts *counts, const char *bytes, size_t length,
                                  uint64_t count, struct berth_error *error) {
    size_t known = counts->words.count;
    uint64_t *grown = memory_grow(counts->counts, &counts->capacity, known + 1, sizeof *grown);
    if (grown == NULL) {
        return error_no_memory(error, (known + 1) * sizeof *grown, "the words' counts");
    }
    counts->counts = grown;
    uint32_t word = string_index_put(&counts->words, bytes, length);
    if (word == STRING_INDEX_NONE) {
        return error_no_memory(error, length, "the words of the text");
    }
    counts->counts[word] = (word == known ? 0 : counts->counts[word]) + count;
    counts->total += count;
    return BERTH_OK;
}

enum berth_status word_counts_add_text(struct word_counts *counts, const char *text, size_t length,
                                       int lower_case, struct berth_error *error) {
    struct basic_rules rules;
    struct basic_walk walk;
    enum berth_status status = BERTH_OK;
    int more = 1;
    basic_rules_init(&rules, UNICODE_HUGGINGFACE, lower_case ? UNICODE_FOLD : UNICODE_AS_IS);
    basic_init(&walk, &rules, text, length);
    while (status == BERTH_OK && (more = basic_next(&walk)) > 0) {
        if (walk.characters <= WORD_CHARACTERS_MAX) {
            status = word_counts_add(counts, walk.bytes, walk.count, 1, error);
        }
    }
    basic_done(&walk);
    return more < 0 ? error_no_memory(error, 0, "a word") : status;
}

static enum berth_status count_piece(void *context, const char *bytes, size_t count,
                                     struct berth_error *error) {
    return word_counts_add(context, bytes, count, 1, error);
}

enum berth_status word_counts_add_lines(struct word_counts *counts,
                                        const struct text_pipeline *pipeline, const char *text,
                                        size_t length, struct berth_error *error) {
    struct token_list list = {.items = NULL}; // for its memory
    enum berth_status status = BERTH_OK;
    for (size_t at = 0; status == BERTH_OK && at < length;) {
        const char *newline = memchr(text + at, '\n', length - at);
        const size_t end = newline != NULL ? (size_t)(newline - text) : length;
        status =
            text_pipeline_split(pipeline, text + at, end - at, &list, count_piece, counts, error);
        at = end + 1;
    }
    token_list_done(&list);
    return status;
}

void word_counts_done(struct word_counts *counts) {
    string_index_done(&counts->words);
    memory_free(counts->counts);
    *counts = (struct word_counts){.counts = NULL};
}

// --- pairs of neighbouring pieces ---------------------------------------------------------------

// How often each pair occurs, in which words, and which pair is the most frequent.
struct pair {
    int32_t left, right; // pieces
    uint64_t count;
    uint32_t
        *words; // [word_count] words to which it was added; it may be gone from them; may repeat
    size_t word_count, word_capacity;
    int is_fresh; // the count has grown since the last pair_table_settle
};

struct pair_table {
    struct string_index keys; // of (left, right)
    struct pair *items;       // [keys.count]
    size_t capacity;
    uint32_t *fresh; // pairs whose count has grown
    size_t fresh_count, fresh_capacity;
    struct pair_rank { // a heap, most frequent pair first; an outdated count is too large
        uint64_t count;
        uint32_t pair;
    } * heap;
    size_t heap_count, heap_capacity;
};

// --- the heap -----------------------------------------------------------------------------------

static int ranks_before(const struct pair_table *table, struct pair_rank a, struct pair_rank b) {
    const struct pair *x = &table->items[a.pair], *y = &table->items[b.pair];
    if (a.count != b.count) {
        return a.count > b.count;
    }
    return x->left != y->left ? x->left < y->left : x->right < y->right;
}

static int heap_push(struct pair_table *table, uint32_t pair) {
    struct pair_rank *heap =
        memory_grow(table->heap, &table->heap_capacity, table->heap_count + 1, sizeof *heap);
    if (heap == NULL) {
        return 0;
    }
    table->heap = heap;
    struct pair_rank rank = {table->items[pair].count, pair};
    size_t at = table->heap_count++;
    for (; at > 0 && ranks_before(table, rank, table->heap[(at - 1) / 2]); at = (at - 1) / 2) {
        table->heap[at] = table->heap[(at - 1) / 2];
    }
    table->heap[at] = rank;
    return 1;
}

// Replaces the first element with `rank`.
static void heap_replace(struct pair_table *table, struct pair_rank rank) {
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < table->heap_count &&
            ranks_before(table, table->heap[child + 1], table->heap[child])) {
            child++;
        }
        if (child >= table->heap_count || !ranks_before(table, table->heap[child], rank)) {
            break;
        }
        table->heap[at] = table->heap[child];
        at = child;
    }
    table->heap[at] = rank;
}

static void heap_pop(struct pair_table *table) {
    struct pair_rank last = table->heap[--table->heap_count];
    if (table->heap_count > 0) {
        heap_replace(table, last);
    }
}

// --- the pairs ----------------------------------------------------------------------------------

static void make_key(char *key, int32_t left, int32_t right) {
    memcpy(key, &left, sizeof left);
    memcpy(key + sizeof left, &right, sizeof right);
}

static struct pair *find_or_make(struct pair_table *table, int32_t left, int32_t right) {
    char key[2 * sizeof left];
    make_key(key, left, right);
    size_t known = table->keys.count;
    struct pair *items = memory_grow(table->items, &table->capacity, known + 1, sizeof *items);
    if (items == NULL) {
        return NULL;
    }
    table->items = items;
    uint32_t number = string_index_put(&table->keys, key, sizeof key);
    if (number == STRING_INDEX_NONE) {
        return NULL;
    }
    if (number == known) {
        table->items[number] = (struct pair){.left = left, .right = right};
    }
    return &table->items[number];
}

static int pair_table_add(struct pair_table *table, int32_t left, int32_t right, uint32_t word,
                          uint64_t times) {
    struct pair *pair = find_or_make(table, left, right);
    if (pair == NULL) {
        return 0;
    }
    pair->count += times;
    if (pair->word_count == 0 || pair->words[pair->word_count - 1] != word) {
        uint32_t *words =
            memory_grow(pair->words, &pair->word_capacity, pair->word_count + 1, sizeof *words);
        if (words == NULL) {
            return 0;
        }
        pair->words = words;
        pair->words[pair->word_count++] = word;
    }
    if (!pair->is_fresh) {
        uint32_t *fresh = memory_grow(table->fresh, &table->fresh_capacity, table->fresh_count + 1,
                                      sizeof *fresh);
        if (fresh == NULL) {
            return 0;
        }
        table->fresh = fresh;
        pair->is_fresh = 1;
        table->fresh[table->fresh_count++] = (uint32_t)(pair - table->items);
    }
    return 1;
}

static void pair_table_subtract(struct pair_table *table, int32_t left, int32_t right,
                                uint64_t times) {
    char key[2 * sizeof left];
    make_key(key, left, right);
    table->items[string_index_find(&table->keys, key, sizeof key)].count -= times;
}

static int pair_table_settle(struct pair_table *table) {
    for (; table->fresh_count > 0; table->fresh_count--) {
        uint32_t pair = table->fresh[table->fresh_count - 1];
        table->items[pair].is_fresh = 0;
        if (table->items[pair].count > 0 && !heap_push(table, pair)) {
            return 0;
        }
    }
    return 1;
}

static struct pair *pair_table_pop(struct pair_table *table, uint64_t min_count) {
    while (table->heap_count > 0) {
        struct pair_rank first = table->heap[0];
        struct pair *pair = &table->items[first.pair];
        if (pair->count < min_count) {
            heap_pop(table);
        } else if (pair->count != first.count) {
            first.count = pair->count;
            heap_replace(table, first);
        } else {
            heap_pop(table);
            return pair;
        }
    }
    return NULL;
}

static void pair_table_done(struct pair_table *table) {
    for (size_t i = 0; i < table->keys.count; i++) {
        memory_free(table->items[i].words);
    }
    memory_free(table->items);
    memory_free(table->fresh);
    memory_free(table->heap);
    string_index_done(&table->keys);
    *table = (struct pair_table){.items = NULL};
}

// --- training -----------------------------------------------------------------------------------

// A word as its current pieces.
struct word {
    int32_t *symbols; // pieces; points into trainer->symbols
    uint32_t length;
    uint64_t count; // in the text
};

struct trainer {
    const struct word_counts *counts;
    const struct vocabulary_rules *rules;
    struct string_index *pieces;
    uint8_t *alphabet; // [POINTS] enum character_use, ORed
    int32_t *symbols;  // of all words
    struct word *words;
    size_t word_count;
    struct pair_table pairs;
    // Of pieces of bytes:
    struct vocabulary_merges *merges; // NULL: of characters
    int32_t bytes[256];               // the pieces of single ones
};

// Whether a character is in the alphabet, and whether it occurs inside words.
enum character_use { CHARACTER_KNOWN = 1, CHARACTER_INSIDE = 2 };

static enum berth_status out_of_memory(struct berth_error *error) {
    return error_no_memory(error, 0, "the training of a vocabulary");
}

// --- the alphabet -------------------------------------------------------------------------------

struct character {
    uint32_t point;
    uint64_t count;
};

static int more_frequent_first(const void *a, const void *b) {
    const struct character *x = a, *y = b;
    if (x->count != y->count) {
        return x->count < y->count ? 1 : -1;
    }
    return x->point < y->point ? -1 : x->point > y->point;
}

// Calls `take` with every character of every word.
static void walk_characters(const struct word_counts *counts, void *context,
                            void (*take)(void *context, uint32_t point, size_t at,
                                         uint64_t count)) {
    for (size_t i = 0; i < counts->words.count; i++) {
        const unsigned char *bytes = (const unsigned char *)string_index_bytes(&counts->words, i);
        size_t length = string_index_length(&counts->words, i);
        uint32_t point;
        for (size_t at = 0; at < length;) {
            size_t step = utf8_decode(bytes + at, length - at, &point);
            if (point < POINTS) {
                take(context, point, at, counts->counts[i]);
            }
            at += step;
        }
    }
}

static void count_character(void *context, uint32_t point, size_t at, uint64_t count) {
    uint64_t *counts = context;
    counts[point] += count;
}

static void mark_inside(void *context, uint32_t point, size_t at, uint64_t count) {
    uint8_t *alphabet = context;
    if (at > 0 && alphabet[point] != 0) {
        alphabet[point] |= CHARACTER_INSIDE;
    }
}

static enum berth_status choose_alphabet(struct trainer *trainer, struct berth_error *error) {
    uint64_t *counts = memory_array_zeroed(POINTS, sizeof *counts);
    struct character *characters = memory_array(POINTS, sizeof *characters);
    trainer->alphabet = memory_array_zeroed(POINTS, 1);
    int ok = counts != NULL && characters != NULL && trainer->alphabet != NULL;
    if (ok) {
        walk_characters(trainer->counts, counts, count_character);
        // The characters that occur, the most frequent first.
        size_t count = 0;
        for (uint32_t point = 0; point < POINTS; point++) {
            if (counts[point] > 0) {
                characters[count++] = (struct character){point, counts[point]};
            }
        }
        qsort(characters, count, sizeof *characters, more_frequent_first);
        for (size_t i = 0; i < trainer->rules->limit_alphabet && i < count; i++) {
            trainer->alphabet[characters[i].point] = CHARACTER_KNOWN;
        }
        walk_characters(trainer->counts, trainer->alphabet, mark_inside);
    }
    memory_free(counts);
    memory_free(characters);
    return ok ? BERTH_OK : out_of_memory(error);
}

// --- pieces -------------------------------------------------------------------------------------

// Writes the text of a character's piece; returns its length.
static size_t name_character(uint32_t point, int inside, char bytes[CHARACTER_NAME_SIZE]) {
    size_t length = inside ? PREFIX_LENGTH : 0;
    memcpy(bytes, PREFIX, PREFIX_LENGTH);
    return length + utf8_encode(point, bytes + length);
}

// Adds the piece of a character; 0 when out of memory.
static int put_character(struct trainer *trainer, uint32_t point, int inside) {
    char name[CHARACTER_NAME_SIZE];
    size_t length = name_character(point, inside, name);
    return string_index_put(trainer->pieces, name, length) != STRING_INDEX_NONE;
}

// The piece of a character in the alphabet.
static int32_t character_piece(const struct trainer *trainer, uint32_t point, int inside) {
    char name[CHARACTER_NAME_SIZE];
    size_t length = name_character(point, inside, name);
    return (int32_t)string_index_find(trainer->pieces, name, length);
}

static enum berth_status put_initial_pieces(struct trainer *trainer, struct berth_error *error) {
    for (size_t i = 0; i < SPECIAL_COUNT; i++) {
        if (string_index_put(trainer->pieces, specials[i], strlen(specials[i])) ==
            STRING_INDEX_NONE) {
            return out_of_memory(error);
        }
    }
    for (int inside = 0; inside < 2; inside++) {
        for (uint32_t point = 0; point < POINTS; point++) {
            int wanted = inside ? CHARACTER_INSIDE : CHARACTER_KNOWN;
            if ((trainer->alphabet[point] & wanted) != 0 &&
                !put_character(trainer, point, inside)) {
                return out_of_memory(error);
            }
        }
    }
    if (trainer->pieces->count > trainer->rules->size) {
        return error_set(error, BERTH_CONFIG,
                         "size: expected at least %zu, for the special pieces and the characters "
                         "of the text, found %zu; raise it, or lower limit_alphabet",
                         trainer->pieces->count, trainer->rules->size);
    }
    return BERTH_OK;
}

// "ab" or "##ab" from the pieces "a" or "##a" and "##b"; of bytes "ab" from "a" and "b".
static uint32_t merged_piece(struct trainer *trainer, int32_t left, int32_t right) {
    const struct string_index *pieces = trainer->pieces;
    const size_t prefix = trainer->merges == NULL ? PREFIX_LENGTH : 0;
    struct buffer bytes = {0};
    buffer_put(&bytes, string_index_bytes(pieces, (size_t)left),
               string_index_length(pieces, (size_t)left));
    buffer_put(&bytes, string_index_bytes(pieces, (size_t)right) + prefix,
               string_index_length(pieces, (size_t)right) - prefix);
    const uint32_t piece = bytes.failed
                               ? STRING_INDEX_NONE
                               : string_index_put(trainer->pieces, bytes.bytes, bytes.length);
    buffer_done(&bytes);
    return piece;
}

static int keep_merge(struct vocabulary_merges *merges, int32_t left, int32_t right) {
    struct vocabulary_merge *items =
        memory_grow(merges->items, &merges->capacity, merges->count + 1, sizeof *items);
    if (items == NULL) {
        return 0;
    }
    merges->items = items;
    items[merges->count++] = (struct vocabulary_merge){left, right};
    return 1;
}

// --- words --------------------------------------------------------------------------------------

// Fills symbols[] with the pieces of the word's characters; returns their number, or 0 if one of
// them is not in the alphabet.
static uint32_t spell(const struct trainer *trainer, size_t word, int32_t *symbols) {
    const struct string_index *words = &trainer->counts->words;
    const unsigned char *bytes = (const unsigned char *)string_index_bytes(words, word);
    size_t length = string_index_length(words, word);
    uint32_t count = 0, point;
    for (size_t at = 0; at < length;) {
        size_t step = utf8_decode(bytes + at, length - at, &point);
        if (point >= POINTS || trainer->alphabet[point] == 0) {
            return 0;
        }
        symbols[count++] = character_piece(trainer, point, at > 0);
        at += step;
    }
    return count;
}

static uint32_t spell_bytes(const struct trainer *trainer, size_t word, int32_t *symbols) {
    const struct string_index *words = &trainer->counts->words;
    const unsigned char *bytes = (const unsigned char *)string_index_bytes(words, word);
    const size_t length = string_index_length(words, word);
    for (size_t i = 0; i < length; i++) {
        symbols[i] = trainer->bytes[bytes[i]];
    }
    return (uint32_t)length;
}

static enum berth_status spell_words(struct trainer *trainer, struct berth_error *error) {
    const struct string_index *words = &trainer->counts->words;
    trainer->symbols = memory_array(words->starts[words->count], sizeof *trainer->symbols);
    trainer->words = memory_array(words->count, sizeof *trainer->words);
    if (trainer->symbols == NULL || trainer->words == NULL) {
        return out_of_memory(error);
    }
    int32_t *next = trainer->symbols;
    for (size_t i = 0; i < words->count; i++) {
        uint32_t length =
            trainer->merges == NULL ? spell(trainer, i, next) : spell_bytes(trainer, i, next);
        if (length > 1) {
            trainer->words[trainer->word_count++] =
                (struct word){next, length, trainer->counts->counts[i]};
            next += length;
        }
    }
    return BERTH_OK;
}

static enum berth_status count_pairs(struct trainer *trainer, struct berth_error *error) {
    for (size_t w = 0; w < trainer->word_count; w++) {
        const struct word *word = &trainer->words[w];
        for (uint32_t i = 0; i + 1 < word->length; i++) {
            if (!pair_table_add(&trainer->pairs, word->symbols[i], word->symbols[i + 1],
                                (uint32_t)w, word->count)) {
                return out_of_memory(error);
            }
        }
    }
    return pair_table_settle(&trainer->pairs) ? BERTH_OK : out_of_memory(error);
}

// --- merging ------------------------------------------------------------------------------------

struct merge {
    int32_t left, right, piece;
};

// Updates the counts of the pairs around a merged pair; 0 when out of memory. The word has `out`
// merged pieces so far; `in` is the index of the pair.
static int recount(struct trainer *trainer, uint32_t w, const struct merge *merge, uint32_t out,
                   uint32_t in) {
    struct word *word = &trainer->words[w];
    struct pair_table *pairs = &trainer->pairs;
    pair_table_subtract(pairs, merge->left, merge->right, word->count);
    if (out > 0) {
        int32_t before = word->symbols[out - 1];
        pair_table_subtract(pairs, before, merge->left, word->count);
        if (!pair_table_add(pairs, before, merge->piece, w, word->count)) {
            return 0;
        }
    }
    if (in + 2 < word->length) {
        int32_t after = word->symbols[in + 2];
        pair_table_subtract(pairs, merge->right, after, word->count);
        return pair_table_add(pairs, merge->piece, after, w, word->count);
    }
    return 1;
}

// Merges every occurrence of the pair in the word, from left to right; 0 when out of memory.
static int merge_in_word(struct trainer *trainer, uint32_t w, const struct merge *merge) {
    struct word *word = &trainer->words[w];
    uint32_t out = 0;
    for (uint32_t in = 0; in < word->length; in++) {
        if (in + 1 < word->length && word->symbols[in] == merge->left &&
            word->symbols[in + 1] == merge->right) {
            if (!recount(trainer, w, merge, out, in)) {
                return 0;
            }
            word->symbols[out++] = merge->piece;
            in++;
        } else {
            word->symbols[out++] = word->symbols[in];
        }
    }
    word->length = out;
    return 1;
}

// Adds the piece of the pair and merges the pair in all words.
static enum berth_status merge_pair(struct trainer *trainer, struct pair *pair,
                                    struct berth_error *error) {
    uint32_t *words = pair->words;
    size_t word_count = pair->word_count;
    struct merge merge = {pair->left, pair->right, 0};
    pair->words = NULL;
    pair->word_count = pair->word_capacity = 0;
    uint32_t piece = merged_piece(trainer, merge.left, merge.right);
    int ok = piece != STRING_INDEX_NONE &&
             (trainer->merges == NULL || keep_merge(trainer->merges, merge.left, merge.right));
    merge.piece = (int32_t)piece;
    for (size_t i = 0; i < word_count && ok; i++) {
        ok = merge_in_word(trainer, words[i], &merge);
    }
    memory_free(words);
    return ok && pair_table_settle(&trainer->pairs) ? BERTH_OK : out_of_memory(error);
}

// --- the whole ----------------------------------------------------------------------------------

static enum berth_status train(struct trainer *trainer, const struct berth_log *log,
                               const atomic_int *stop, struct berth_error *error) {
    TRY(spell_words(trainer, error));
    TRY(count_pairs(trainer, error));
    uint64_t min_count = trainer->rules->min_frequency > 0 ? trainer->rules->min_frequency : 1;
    size_t size = trainer->rules->size;
    while (trainer->pieces->count < size) {
        struct pair *pair = pair_table_pop(&trainer->pairs, min_count);
        if (pair == NULL) {
            break;
        }
        TRY(merge_pair(trainer, pair, error));
        if (stop != NULL && *stop != 0) {
            return error_set(error, BERTH_INTERRUPTED, "stopped at %zu of %zu pieces",
                             trainer->pieces->count, size);
        }
        if (trainer->pieces->count % PROGRESS_EVERY == 0) {
            log_progress(log, "pieces", (int64_t)trainer->pieces->count, (int64_t)size);
        }
    }
    return BERTH_OK;
}

static void trainer_done(struct trainer *trainer) {
    memory_free(trainer->alphabet);
    memory_free(trainer->symbols);
    memory_free(trainer->words);
    pair_table_done(&trainer->pairs);
}

static enum berth_status check_words(const struct word_counts *counts, struct berth_error *error) {
    return counts->words.count > 0
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "expected a text with words, found none");
}

enum berth_status vocabulary_train(const struct word_counts *counts,
                                   const struct vocabulary_rules *rules,
                                   const struct berth_log *log, const atomic_int *stop,
                                   struct string_index *pieces, struct berth_error *error) {
    *pieces = (struct string_index){.pool = NULL};
    TRY(check_words(counts, error));
    struct trainer trainer = {.counts = counts, .rules = rules, .pieces = pieces};
    enum berth_status status = choose_alphabet(&trainer, error);
    status = status == BERTH_OK ? put_initial_pieces(&trainer, error) : status;
    status = status == BERTH_OK ? train(&trainer, log, stop, error) : status;
    trainer_done(&trainer);
    return status;
}

static enum berth_status put_byte_pieces(struct trainer *trainer, const char *const *special_texts,
                                         size_t count, struct berth_error *error) {
    const size_t least = count + 256;
    int done = 1;
    for (size_t i = 0; i < count && done; i++) {
        done = string_index_put(trainer->pieces, special_texts[i], strlen(special_texts[i])) !=
               STRING_INDEX_NONE;
    }
    for (uint32_t point = 0; point < BYTE_LEVEL_POINTS && done; point++) {
        const int byte = byte_level_byte(point);
        char name[4];
        if (byte >= 0) {
            const uint32_t piece =
                string_index_put(trainer->pieces, name, utf8_encode(point, name));
            trainer->bytes[byte] = (int32_t)piece;
            done = piece != STRING_INDEX_NONE;
        }
    }
    return !done ? out_of_memory(error)
           : trainer->rules->size >= least
               ? BERTH_OK
               : error_set(error, BERTH_CONFIG,
                           "size: expected at least %zu, for the special pieces and all bytes, "
                           "found %zu; raise it",
                           least, trainer->rules->size);
}

enum berth_status vocabulary_train_bytes(const struct word_counts *counts,
                                         const struct vocabulary_rules *rules,
                                         const char *const *special_texts, size_t special_count,
                                         const struct berth_log *log, const atomic_int *stop,
                                         struct string_index *pieces,
                                         struct vocabulary_merges *merges,
                                         struct berth_error *error) {
    *pieces = (struct string_index){.pool = NULL};
    *merges = (struct vocabulary_merges){.items = NULL};
    TRY(check_words(counts, error));
    struct trainer trainer = {.counts = counts, .rules = rules, .pieces = pieces, .merges = merges};
    enum berth_status status = put_byte_pieces(&trainer, special_texts, special_count, error);
    status = status == BERTH_OK ? train(&trainer, log, stop, error) : status;
    trainer_done(&trainer);
    return status;
}
