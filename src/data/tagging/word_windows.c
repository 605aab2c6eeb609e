// SPDX-License-Identifier: Apache-2.0
// Cuts sentences of words into windows that a model can read, encodes each word with its label on
// the first piece, and decides which window a word counts in. The task tag calls it for sets and
// for the texts of a call; the rules are in word_windows.h.
#include "data/tagging/word_windows.h"

#include "core/memory.h"

#include <string.h>

// A window: the words [first_word, end_word) of a sentence, which are its tokens [first_token,
// end_token) without special tokens.
struct span {
    size_t first_word, end_word;
    size_t first_token, end_token;
};

struct sentence {
    struct word_window_set *set;
    const struct word_window_rule *rule;
    const struct word_pieces *pieces;
    size_t room; // tokens of a window without special ones
};

static size_t length_of(const struct sentence *sentence, size_t word) {
    const size_t *starts = sentence->pieces->starts;
    const size_t length = starts[word + 1] - starts[word];
    return length < sentence->room ? length : sentence->room;
}

// The window that begins with word `first`, whose tokens begin at `begin`.
static struct span span_from(const struct sentence *sentence, size_t first, size_t begin) {
    struct span span = {
        .first_word = first, .end_word = first, .first_token = begin, .end_token = begin};
    while (span.end_word < sentence->pieces->count &&
           span.end_token + length_of(sentence, span.end_word) - begin <= sentence->room) {
        span.end_token += length_of(sentence, span.end_word++);
    }
    return span;
}

static int is_last(const struct sentence *sentence, const struct span *span) {
    return span->end_word == sentence->pieces->count;
}

static struct span next_span(const struct sentence *sentence, const struct span *span) {
    size_t first = span->first_word, begin = span->first_token;
    do {
        begin += length_of(sentence, first++);
    } while (begin < span->first_token + (size_t)sentence->rule->stride && first < span->end_word);
    return span_from(sentence, first, begin);
}

// The smaller of the distances of a word to both ends of a window.
static size_t context_of(const struct sentence *sentence, const struct span *span, size_t word,
                         size_t begin) {
    const size_t left = begin - span->first_token;
    const size_t right = span->end_token - begin - length_of(sentence, word);
    return left < right ? left : right;
}

// --- the pools ----------------------------------------------------------------------------------

static enum berth_status no_memory(struct berth_error *error, const struct word_window_set *set) {
    return error_no_memory(error, set->token_count * sizeof *set->ids, "the tokens of the words");
}

static int grow(void **block, size_t *capacity, size_t needed, size_t size) {
    void *grown = memory_grow(*block, capacity, needed, size);
    *block = grown != NULL ? grown : *block;
    return grown != NULL;
}

// Makes room for a window; 0 when out of memory. The three pools of labels grow together.
static int reserve(struct word_window_set *set, size_t tokens, size_t labels) {
    size_t positions = set->label_capacity, classes = set->label_capacity;
    return grow((void **)&set->windows, &set->window_capacity, set->count + 1,
                sizeof *set->windows) &&
           grow((void **)&set->ids, &set->token_capacity, set->token_count + tokens,
                sizeof *set->ids) &&
           grow((void **)&set->positions, &positions, set->label_count + labels,
                sizeof *set->positions) &&
           grow((void **)&set->classes, &classes, set->label_count + labels,
                sizeof *set->classes) &&
           grow((void **)&set->words, &set->label_capacity, set->label_count + labels,
                sizeof *set->words);
}

static void put_word(const struct sentence *sentence, size_t word, int is_labelled) {
    struct word_window_set *set = sentence->set;
    const struct word_pieces *pieces = sentence->pieces;
    struct word_window *window = &set->windows[set->count];
    const size_t length = length_of(sentence, word);
    if (is_labelled && length > 0) {
        const size_t at = set->label_count++;
        set->positions[at] = (uint16_t)window->length;
        set->classes[at] = pieces->classes != NULL ? pieces->classes[word] : -1;
        set->words[at] = (uint32_t)(pieces->first_word + word);
        window->label_count++;
    }
    memcpy(set->ids + set->token_count, pieces->ids + pieces->starts[word],
           length * sizeof *set->ids);
    set->token_count += length;
    window->length += (int32_t)length;
}

static void put_special(struct word_window_set *set, int32_t id) {
    set->ids[set->token_count++] = id;
    set->windows[set->count].length++;
}

// Adds the window of a span, which labels the words [owned[0], owned[1]). A window without labels
// is dropped.
static enum berth_status put_span(const struct sentence *sentence, const struct span *span,
                                  const size_t owned[2], struct berth_error *error) {
    struct word_window_set *set = sentence->set;
    const size_t tokens = set->token_count;
    if (!reserve(set, span->end_token - span->first_token + 2, owned[1] - owned[0])) {
        return no_memory(error, set);
    }
    set->windows[set->count] = (struct word_window){.first = tokens, .labels = set->label_count};
    put_special(set, sentence->rule->special.cls);
    for (size_t word = span->first_word; word < span->end_word; word++) {
        put_word(sentence, word, word >= owned[0] && word < owned[1]);
    }
    put_special(set, sentence->rule->special.sep);
    if (set->windows[set->count].label_count > 0) {
        set->count++;
    } else {
        set->token_count = tokens;
    }
    return BERTH_OK;
}

// The first word of both windows that has more context in `next`; the end of `span` if there is
// none.
static size_t first_owned_by_next(const struct sentence *sentence, const struct span *span,
                                  const struct span *next) {
    size_t word = next->first_word, begin = next->first_token;
    while (word < span->end_word &&
           context_of(sentence, span, word, begin) >= context_of(sentence, next, word, begin)) {
        begin += length_of(sentence, word++);
    }
    return word;
}

enum berth_status word_windows_add(struct word_window_set *set, const struct word_window_rule *rule,
                                   const struct word_pieces *pieces, struct berth_error *error) {
    const struct sentence sentence = {
        .set = set, .rule = rule, .pieces = pieces, .room = (size_t)rule->max_length - 2};
    struct span span = span_from(&sentence, 0, 0);
    size_t owned[2] = {0};
    for (size_t i = 0; i < pieces->count; i++) {
        set->truncated += pieces->starts[i + 1] - pieces->starts[i] > sentence.room;
    }
    set->split_sentences += !is_last(&sentence, &span);
    while (!is_last(&sentence, &span)) {
        // The next window with a further word at its end; a window without one is no better for any
        // word.
        struct span next = next_span(&sentence, &span);
        while (next.end_word == span.end_word) {
            next = next_span(&sentence, &next);
        }
        owned[1] = first_owned_by_next(&sentence, &span, &next);
        TRY(put_span(&sentence, &span, owned, error));
        owned[0] = owned[1];
        span = next;
    }
    owned[1] = pieces->count;
    return put_span(&sentence, &span, owned, error);
}

// --- a data set ---------------------------------------------------------------------------------

// The pieces of a sentence's words; reused for the next sentence.
struct encoded {
    struct token_list list;
    int32_t *ids;
    size_t *starts;
    size_t id_capacity, start_capacity;
};

static int encode_word(struct encoded *encoded, const struct tokenizer *tokenizer, const char *word,
                       size_t index) {
    const size_t first = encoded->starts[index];
    encoded->list.count = 0;
    if (tokenizer_encode(tokenizer, word, strlen(word), &encoded->list, NULL) != BERTH_OK ||
        !grow((void **)&encoded->ids, &encoded->id_capacity, first + encoded->list.count + 1,
              sizeof *encoded->ids)) {
        return 0;
    }
    for (size_t i = 0; i < encoded->list.count; i++) {
        encoded->ids[first + i] = encoded->list.items[i].id;
    }
    encoded->starts[index + 1] = first + encoded->list.count;
    return 1;
}

static int encode_sentence(struct encoded *encoded, const struct tagged_dataset *dataset,
                           const struct tokenizer *tokenizer, size_t index) {
    const size_t first = dataset->starts[index], count = dataset->starts[index + 1] - first;
    int fits = grow((void **)&encoded->starts, &encoded->start_capacity, count + 1,
                    sizeof *encoded->starts);
    if (fits) {
        encoded->starts[0] = 0;
    }
    for (size_t i = 0; i < count && fits; i++) {
        fits = encode_word(encoded, tokenizer, dataset->words[first + i], i);
    }
    return fits;
}

static enum berth_status add_sentences(struct word_window_set *set,
                                       const struct word_window_rule *rule,
                                       const struct tagged_dataset *dataset,
                                       const struct tokenizer *tokenizer, struct encoded *encoded,
                                       struct berth_error *error) {
    for (size_t i = 0; i < dataset->count; i++) {
        const size_t first = dataset->starts[i];
        if (!encode_sentence(encoded, dataset, tokenizer, i)) {
            return no_memory(error, set);
        }
        const struct word_pieces pieces = {.ids = encoded->ids,
                                           .starts = encoded->starts,
                                           .count = dataset->starts[i + 1] - first,
                                           .classes =
                                               dataset->tags != NULL ? dataset->tags + first : NULL,
                                           .first_word = first};
        TRY(word_windows_add(set, rule, &pieces, error));
    }
    return BERTH_OK;
}

enum berth_status word_windows_build(struct word_window_set *set,
                                     const struct word_window_rule *rule,
                                     const struct tagged_dataset *dataset,
                                     const struct tokenizer *tokenizer, struct berth_error *error) {
    struct encoded encoded = {.ids = NULL};
    *set = (struct word_window_set){.windows = NULL};
    enum berth_status status = add_sentences(set, rule, dataset, tokenizer, &encoded, error);
    token_list_done(&encoded.list);
    memory_free(encoded.ids);
    memory_free(encoded.starts);
    TRY(status);
    set->type_ids = memory_array_zeroed((size_t)rule->max_length, sizeof *set->type_ids);
    return set->type_ids != NULL ? BERTH_OK : no_memory(error, set);
}

void word_windows_done(struct word_window_set *set) {
    memory_free(set->windows);
    memory_free(set->ids);
    memory_free(set->type_ids);
    memory_free(set->positions);
    memory_free(set->classes);
    memory_free(set->words);
    *set = (struct word_window_set){.windows = NULL};
}

struct packer_sequence word_windows_sequence(const void *set, size_t index) {
    const struct word_window_set *own = set;
    const struct word_window *window = &own->windows[index];
    return (struct packer_sequence){.ids = own->ids + window->first,
                                    .type_ids = own->type_ids,
                                    .length = window->length,
                                    .start = -1,
                                    .end = -1,
                                    .label = -1,
                                    .label_count = -1,
                                    .masked_positions = own->positions + window->labels,
                                    .masked_labels = own->classes + window->labels,
                                    .masked_count = window->label_count};
}
