// SPDX-License-Identifier: Apache-2.0
// Words to ids by the three models, equal to those of the tokenizers library. text_pipeline.c gives
// them the pieces that splitters.c has cut.
//
// - WordPiece takes the longest piece from the left.
// - BPE starts with characters, or bytes, and merges the neighbours whose merge has the lowest
//   rank, the leftmost of equals. Most words are pieces that merges lead to; which ones is found
//   when the model is opened, and those words need only be looked up.
// - Unigram takes the pieces with the highest sum of scores (Viterbi's algorithm over the trie).
#include "core/memory.h"
#include "core/utf8.h"
#include "format/json/json.h"
#include "text/components.h"
#include "text/tokenizer.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN_PENALTY 10.0 // an unknown character's score is that much below the lowest

struct merge {
    int32_t left, right; // -1: a free slot
    uint32_t rank;
    int32_t id;
};

struct word_model {
    const struct word_model_row *row;
    const struct vocabulary *vocabulary;
    size_t count;     // of words
    struct trie trie; // of the words, as they are in the text
    int borrows_trie; // it is the vocabulary's
    int32_t unknown;  // -1: none
    int is_byte_level, fuses, falls_back, ignores_merges;
    char *prefix, *suffix; // of pieces that continue a word, of the last piece of a word; or NULL
    int32_t bytes[256];    // the words "<0x00>" to "<0xFF>", or those of byte-level BPE; -1: none
    size_t longest;        // of WordPiece: the characters of a word that is not unknown
    double *scores;        // [count] of Unigram
    double unknown_score;
    struct merge *merges; // [merge_mask + 1] of BPE, by their hashes
    size_t merge_mask;
    unsigned char *whole; // [count] whether the merges lead from the word's text to it
};

struct word_model_row {
    const char *name;
    enum berth_status (*read)(struct word_model *model, const json *object,
                              const struct component_place *place, struct berth_error *error);
    void (*encode)(const struct word_model *model, struct text_room *room, size_t begin,
                   size_t end);
};

// The id at the trie's node, or -1.
static int32_t id_at(const struct word_model *model, uint32_t node) {
    return node == TRIE_NONE ? -1 : model->trie.nodes[node].id;
}

static uint32_t walk(const struct word_model *model, uint32_t node, const char *bytes,
                     size_t length) {
    return trie_walk(&model->trie, node, bytes, length);
}

static uint32_t walk_text(const struct word_model *model, uint32_t node, const char *text) {
    return text == NULL ? node : walk(model, node, text, strlen(text));
}

// A word by its text in tokenizer.json; -1: the model has none.
static int32_t find_word(const struct word_model *model, const char *text) {
    const int32_t id = vocabulary_find(model->vocabulary, text, strlen(text));
    return id >= 0 && (size_t)id < model->count ? id : -1;
}

static enum berth_status no_memory(const struct component_place *place, struct berth_error *error) {
    return error_no_memory(error, 0, place->file);
}

// The words of bytes, for characters that are no words.
static enum berth_status read_fallback(struct word_model *model, const json *object,
                                       const struct component_place *place,
                                       struct berth_error *error) {
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", byte);
        model->bytes[byte] = find_word(model, text);
    }
    return component_flag(object, "byte_fallback", place, &model->falls_back, error);
}

static int has_bytes(const struct word_model *model, const char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (model->bytes[(unsigned char)bytes[i]] < 0) {
            return 0;
        }
    }
    return 1;
}

// --- WordPiece ----------------------------------------------------------------------------------

static enum berth_status read_wordpiece(struct word_model *model, const json *object,
                                        const struct component_place *place,
                                        struct berth_error *error) {
    const char *unknown = "[UNK]", *prefix = "##";
    int64_t longest = 100;
    TRY(json_get_text(object, place->file, "unk_token", &unknown, error));
    TRY(json_get_text(object, place->file, "continuing_subword_prefix", &prefix, error));
    TRY(json_get_integer(object, place->file, "max_input_chars_per_word", &longest, error));
    model->longest = longest > 0 ? (size_t)longest : 0;
    model->prefix = memory_string(prefix);
    if (model->prefix != NULL) {
        model->unknown = unknown != NULL ? find_word(model, unknown) : -1;
        return unknown == NULL || model->unknown >= 0
                   ? BERTH_OK
                   : component_refuse(place, "unk_token", "a word of \"vocab\"", unknown, error);
    }
    return no_memory(place, error);
}

static int32_t longest_piece(const struct word_model *model, uint32_t node, const char *bytes,
                             size_t end, size_t *at) {
    int32_t best = -1;
    for (size_t i = *at; i < end && node != TRIE_NONE; i++) {
        node = trie_step(&model->trie, node, (unsigned char)bytes[i]);
        if (id_at(model, node) >= 0) {
            best = id_at(model, node);
            *at = i + 1;
        }
    }
    return best;
}

static void encode_wordpiece(const struct word_model *model, struct text_room *room, size_t begin,
                             size_t end) {
    const char *bytes = room->text.bytes;
    const size_t before = room->list->count;
    const uint32_t continuing = walk_text(model, 0, model->prefix);
    int32_t id = (size_t)utf8_count(bytes + begin, end - begin) > model->longest ? -1 : 0;
    for (size_t at = begin; id >= 0 && at < end;) {
        const size_t from = at;
        id = longest_piece(model, from == begin ? 0 : continuing, bytes, end, &at);
        if (id >= 0) {
            room_token(room, id, from, at);
        }
    }
    if (id < 0) {
        room->list->count = before;
        if (model->unknown >= 0) {
            room_token(room, model->unknown, begin, end);
        }
    }
}

// --- BPE ----------------------------------------------------------------------------------------

static size_t slot_of(const struct word_model *model, int32_t left, int32_t right) {
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t slot = (size_t)(key * 0x9E3779B97F4A7C15u >> 24) & model->merge_mask;
    while (model->merges[slot].left >= 0 &&
           (model->merges[slot].left != left || model->merges[slot].right != right)) {
        slot = (slot + 1) & model->merge_mask;
    }
    return slot;
}

// The two texts of a merge, which is a list of them, or a text with a blank between them.
static int split_merge(const json *merge, struct buffer *texts, size_t *second) {
    const char *left = json_text(json_at(merge, 0)), *right = json_text(json_at(merge, 1));
    const char *whole = json_text(merge), *blank = whole != NULL ? strchr(whole, ' ') : NULL;
    buffer_clear(texts);
    if (blank != NULL && strchr(blank + 1, ' ') == NULL) {
        buffer_put_text(texts, whole);
        buffer_put_byte(texts, '\0');
        *second = (size_t)(blank - whole) + 1;
        if (!texts->failed) {
            texts->bytes[*second - 1] = '\0';
        }
        return 1;
    }
    if (json_length(merge) == 2 && left != NULL && right != NULL) {
        buffer_put(texts, left, strlen(left) + 1);
        buffer_put(texts, right, strlen(right) + 1);
        *second = strlen(left) + 1;
        return 1;
    }
    return 0;
}

static enum berth_status add_merge(struct word_model *model, const json *merge, size_t number,
                                   uint32_t rank, struct buffer *texts,
                                   const struct component_place *place, struct berth_error *error) {
    size_t second;
    struct buffer joined = {0};
    if (!split_merge(merge, texts, &second)) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: key \"%s.merges\": entry %zu: expected two words", place->file,
                         place->key, number);
    }
    if (texts->failed) {
        return no_memory(place, error);
    }
    const char *left = texts->bytes, *right = texts->bytes + second;
    const size_t dropped = model->prefix != NULL ? strlen(model->prefix) : 0;
    buffer_put_text(&joined, left);
    buffer_put_text(&joined, strlen(right) >= dropped ? right + dropped : "");
    buffer_put_byte(&joined, '\0');
    if (joined.failed) {
        buffer_done(&joined);
        return no_memory(place, error);
    }
    const struct merge found = {find_word(model, left), find_word(model, right), rank,
                                find_word(model, joined.bytes)};
    buffer_done(&joined);
    if (found.left < 0 || found.right < 0 || found.id < 0) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: key \"%s.merges\": entry %zu: \"%.*s\" and \"%.*s\": expected two "
                         "words of \"vocab\" whose concatenation is in \"vocab\", too",
                         place->file, place->key, number, UTF8_SHOWN(left, 40),
                         UTF8_SHOWN(right, 40));
    }
    model->merges[slot_of(model, found.left, found.right)] = found;
    return BERTH_OK;
}

static enum berth_status read_merges(struct word_model *model, const json *object,
                                     const struct component_place *place,
                                     struct berth_error *error) {
    const json *list = json_member(object, "merges");
    struct buffer texts = {0};
    size_t slots = 16;
    enum berth_status status = BERTH_OK;
    if (!json_is_array_value(list)) {
        return component_refuse(place, "merges", "a list of pairs of words", NULL, error);
    }
    while (slots < 2 * json_length(list)) {
        slots *= 2;
    }
    model->merges = memory_array(slots, sizeof *model->merges);
    if (model->merges == NULL) {
        return error_no_memory(error, slots * sizeof *model->merges, "the merges");
    }
    model->merge_mask = slots - 1;
    for (size_t i = 0; i < slots; i++) {
        model->merges[i].left = -1;
    }
    uint32_t rank = 0;
    for (size_t i = 0; status == BERTH_OK && i < json_length(list); i++) {
        const json *merge = json_at(list, i);
        const char *text = json_text(merge);
        if (text == NULL || strncmp(text, "#version", 8) != 0) {
            status = add_merge(model, merge, i, rank++, &texts, place, error);
        }
    }
    buffer_done(&texts);
    return status;
}

static void add_symbol(struct text_room *room, int32_t id, size_t length) {
    struct room_symbol *symbols =
        memory_grow(room->symbols, &room->symbol_capacity, room->symbol_count + 1, sizeof *symbols);
    if (symbols == NULL) {
        room->failed = 1;
        return;
    }
    room->symbols = symbols;
    const int32_t number = (int32_t)room->symbol_count++;
    symbols[number] = (struct room_symbol){id, number - 1, number + 1, (uint32_t)length};
}

// Unknown characters in a row, which are one token or several.
struct unknown_run {
    size_t length;
    int is_open;
};

static void end_run(const struct word_model *model, struct text_room *room,
                    struct unknown_run *run) {
    if (run->is_open) {
        add_symbol(room, model->unknown, run->length);
    }
    *run = (struct unknown_run){0, 0};
}

static void add_unknown(const struct word_model *model, struct text_room *room, size_t length,
                        struct unknown_run *run) {
    if (!model->fuses) {
        end_run(model, room, run);
    }
    if (model->unknown >= 0) {
        *run = (struct unknown_run){run->length + length, 1};
    }
}

static void add_bytes(const struct word_model *model, struct text_room *room, const char *bytes,
                      size_t count) {
    for (size_t i = 0; i < count; i++) {
        add_symbol(room, model->bytes[(unsigned char)bytes[i]], 1);
    }
}

// Starts with the characters of the piece, or what stands for those that are no words. A character
// that is not even unknown is left out, and the places of those after it move, as in the library.
static void start_with_characters(const struct word_model *model, struct text_room *room,
                                  size_t begin, size_t end) {
    const char *bytes = room->text.bytes;
    struct unknown_run run = {0, 0};
    for (size_t at = begin; at < end && !room->failed;) {
        const size_t size = utf8_whole(bytes[at]);
        const char *prefix = at > begin && model->prefix != NULL ? model->prefix : "",
                   *suffix = at + size >= end && model->suffix != NULL ? model->suffix : "";
        uint32_t node = walk_text(model, 0, prefix);
        node = walk_text(model, walk(model, node, bytes + at, size), suffix);
        if (id_at(model, node) >= 0) {
            end_run(model, room, &run);
            add_symbol(room, id_at(model, node), size);
        } else if (model->falls_back && has_bytes(model, prefix, strlen(prefix)) &&
                   has_bytes(model, bytes + at, size) && has_bytes(model, suffix, strlen(suffix))) {
            add_bytes(model, room, prefix, strlen(prefix));
            add_bytes(model, room, bytes + at, size);
            add_bytes(model, room, suffix, strlen(suffix));
        } else {
            add_unknown(model, room, size, &run);
        }
        at += size;
    }
    end_run(model, room, &run);
}

static void start_with_bytes(const struct word_model *model, struct text_room *room, size_t begin,
                             size_t end) {
    struct unknown_run run = {0, 0};
    for (size_t at = begin; at < end && !room->failed; at++) {
        const int32_t id = model->bytes[(unsigned char)room->text.bytes[at]];
        if (id >= 0) {
            end_run(model, room, &run);
            add_symbol(room, id, 1);
        } else {
            add_unknown(model, room, 1, &run);
        }
    }
    end_run(model, room, &run);
}

// Adds the merge of symbol `number` and the next one to the heap: by its rank, then its place.
static void push_merge(const struct word_model *model, struct text_room *room, int32_t number) {
    const struct room_symbol *left = &room->symbols[number];
    if ((size_t)left->next >= room->symbol_count) {
        return;
    }
    const struct merge *merge =
        &model->merges[slot_of(model, left->id, room->symbols[left->next].id)];
    uint64_t *heap = merge->left < 0 ? NULL
                                     : memory_grow(room->heap, &room->heap_capacity,
                                                   room->heap_count + 1, sizeof *heap);
    if (heap == NULL) {
        room->failed |= merge->left >= 0;
        return;
    }
    room->heap = heap;
    const uint64_t key = (uint64_t)merge->rank << 32 | (uint32_t)number;
    size_t at = room->heap_count++;
    for (; at > 0 && heap[(at - 1) / 2] > key; at = (at - 1) / 2) {
        heap[at] = heap[(at - 1) / 2];
    }
    heap[at] = key;
}

static uint64_t pop_merge(struct text_room *room) {
    uint64_t *heap = room->heap;
    const uint64_t least = heap[0], moved = heap[--room->heap_count];
    size_t at = 0;
    for (size_t child = 1; child < room->heap_count; child = 2 * at + 1) {
        child += child + 1 < room->heap_count && heap[child + 1] < heap[child];
        if (heap[child] >= moved) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
    return least;
}

// Merges symbol `number` with the next one if their merge still has the rank.
static void apply_merge(const struct word_model *model, struct text_room *room, uint64_t key) {
    const int32_t number = (int32_t)(uint32_t)key;
    struct room_symbol *symbols = room->symbols, *left = &symbols[number];
    if (left->length == 0 || (size_t)left->next >= room->symbol_count) {
        return;
    }
    struct room_symbol *right = &symbols[left->next];
    const struct merge *merge = &model->merges[slot_of(model, left->id, right->id)];
    if (merge->left < 0 || merge->rank != (uint32_t)(key >> 32)) {
        return;
    }
    left->id = merge->id;
    left->length += right->length;
    left->next = right->next;
    right->length = 0;
    if ((size_t)left->next < room->symbol_count) {
        symbols[left->next].previous = number;
    }
    if (left->previous >= 0) {
        push_merge(model, room, left->previous);
    }
    push_merge(model, room, number);
}

static void make_symbols(const struct word_model *model, struct text_room *room, size_t begin,
                         size_t end) {
    room->symbol_count = room->heap_count = 0;
    if (model->is_byte_level) {
        start_with_bytes(model, room, begin, end);
    } else {
        start_with_characters(model, room, begin, end);
    }
    for (size_t i = 0; i + 1 < room->symbol_count && !room->failed; i++) {
        push_merge(model, room, (int32_t)i);
    }
    while (room->heap_count > 0 && !room->failed) {
        apply_merge(model, room, pop_merge(room));
    }
}

static void encode_bpe(const struct word_model *model, struct text_room *room, size_t begin,
                       size_t end) {
    const int32_t id = model->whole == NULL && !model->ignores_merges
                           ? -1
                           : id_at(model, walk(model, 0, room->text.bytes + begin, end - begin));
    if (id >= 0 && (model->ignores_merges || model->whole[id])) {
        room_token(room, id, begin, end);
        return;
    }
    make_symbols(model, room, begin, end);
    for (size_t i = 0; i < room->symbol_count && !room->failed; i++) {
        const struct room_symbol *symbol = &room->symbols[i];
        if (symbol->length > 0) {
            const size_t next = begin + symbol->length;
            room_token(room, symbol->id, begin < end ? begin : end - 1, next < end ? next : end);
            begin = next;
        }
    }
}

// Finds for which words the merges lead from their texts to them.
static enum berth_status find_whole(struct word_model *model, const struct component_place *place,
                                    struct berth_error *error) {
    struct text_room room = {.list = NULL};
    model->whole = memory_array_zeroed(model->count, 1);
    if (model->whole == NULL) {
        return no_memory(place, error);
    }
    for (size_t id = 0; id < model->count && !room.failed; id++) {
        const char *text = model->vocabulary->text + model->vocabulary->starts[id];
        struct buffer bytes = {0};
        for (size_t at = 0, length = strlen(text); at < length;) {
            uint32_t point;
            const size_t next = text_point(text, length, at, &point);
            const int byte = model->is_byte_level ? byte_level_byte(point) : -1;
            if (byte >= 0) {
                buffer_put_byte(&bytes, (char)byte);
            } else {
                buffer_put(&bytes, text + at, next - at);
            }
            at = next;
        }
        room.text = (struct room_text){.bytes = bytes.bytes, .count = bytes.length};
        make_symbols(model, &room, 0, bytes.length);
        model->whole[id] = room.symbol_count > 0 && room.symbols[0].id == (int32_t)id &&
                           room.symbols[0].length == bytes.length;
        room.failed |= bytes.failed;
        buffer_done(&bytes);
    }
    memory_free(room.symbols);
    memory_free(room.heap);
    return room.failed ? no_memory(place, error) : BERTH_OK;
}

static enum berth_status read_text(const json *object, const char *key,
                                   const struct component_place *place, char **text,
                                   struct berth_error *error) {
    size_t length;
    const json *value = json_member(object, key);
    if (value == NULL || json_is_null_value(value)) {
        return BERTH_OK;
    }
    TRY(component_text(object, key, place, text, &length, error));
    if (length == 0) {
        memory_free(*text);
        *text = NULL;
    }
    return BERTH_OK;
}

static enum berth_status read_bpe(struct word_model *model, const json *object,
                                  const struct component_place *place, struct berth_error *error) {
    const json *unknown = json_member(object, "unk_token"),
               *dropout = json_member(object, "dropout");
    if (dropout != NULL && !json_is_null_value(dropout) && json_as_real(dropout) > 0) {
        return component_refuse(place, "dropout", "null", "a number", error);
    }
    TRY(read_text(object, "continuing_subword_prefix", place, &model->prefix, error));
    TRY(read_text(object, "end_of_word_suffix", place, &model->suffix, error));
    TRY(component_flag(object, "fuse_unk", place, &model->fuses, error));
    TRY(component_flag(object, "ignore_merges", place, &model->ignores_merges, error));
    TRY(read_fallback(model, object, place, error));
    model->unknown = json_is_text(unknown) ? find_word(model, json_text(unknown)) : -1;
    if (model->is_byte_level) {
        if (model->prefix != NULL || model->suffix != NULL) {
            return component_refuse(place, "continuing_subword_prefix",
                                    "no prefix and no suffix beside the component ByteLevel", "one",
                                    error);
        }
        for (unsigned byte = 0; byte < 256; byte++) {
            const char character = (char)byte;
            model->bytes[byte] = id_at(model, walk(model, 0, &character, 1));
        }
    }
    TRY(read_merges(model, object, place, error));
    return model->prefix == NULL && model->suffix == NULL ? find_whole(model, place, error)
                                                          : BERTH_OK;
}

// --- Unigram ------------------------------------------------------------------------------------

static enum berth_status read_unigram(struct word_model *model, const json *object,
                                      const struct component_place *place,
                                      struct berth_error *error) {
    const json *list = json_member(object, "vocab"), *unknown = json_member(object, "unk_id");
    double lowest = DBL_MAX;
    model->scores = memory_array(model->count, sizeof *model->scores);
    if (model->scores == NULL) {
        return no_memory(place, error);
    }
    for (size_t i = 0; i < model->count; i++) {
        const json *score = json_at(json_at(list, i), 1);
        if (!json_is_number_value(score)) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: key \"%s.vocab\": entry %zu: expected a word and its score",
                             place->file, place->key, i);
        }
        model->scores[i] = json_as_real(score);
        lowest = model->scores[i] < lowest ? model->scores[i] : lowest;
    }
    model->unknown_score = lowest - UNKNOWN_PENALTY;
    const int64_t id = json_is_integer_value(unknown) ? json_as_integer(unknown) : -1;
    if (id < 0 || (size_t)id >= model->count) {
        return component_refuse(place, "unk_id", "the number of an entry of \"vocab\"", NULL,
                                error);
    }
    model->unknown = (int32_t)id;
    return read_fallback(model, object, place, error);
}

static void offer(struct room_path *path, double score, size_t start, int32_t id) {
    if (path->start == UINT32_MAX || score > path->best.score) {
        *path = (struct room_path){{.score = score}, (uint32_t)start, id};
    }
}

// Finds the best path to each place of the piece.
static void find_paths(const struct word_model *model, const char *bytes, size_t length,
                       struct room_path *paths) {
    const struct trie *trie = &model->trie;
    for (size_t i = 0; i <= length; i++) {
        paths[i] = (struct room_path){{.score = 0}, UINT32_MAX, 0};
    }
    for (size_t at = 0; at < length;) {
        const size_t size = utf8_whole(bytes[at]);
        const double score = paths[at].best.score;
        uint32_t node = 0;
        int is_word = 0;
        for (size_t i = at; i < length; i++) {
            node = trie_step(trie, node, (unsigned char)bytes[i]);
            if (node == TRIE_NONE) {
                break;
            }
            const int32_t id = trie->nodes[node].id;
            if (id >= 0) {
                offer(&paths[i + 1], model->scores[id] + score, at, id);
                is_word |= i + 1 - at == size;
            }
        }
        if (!is_word) {
            offer(&paths[at + size], model->unknown_score + score, at, model->unknown);
        }
        at += size;
    }
}

// Turns the best path around: it is then at the beginning of each part that the part's end is
// found. Unknown parts in a row become one.
static void turn_path(const struct word_model *model, struct room_path *paths, size_t length) {
    size_t end = length, part_end = length;
    int32_t next_id = -1;
    while (end > 0) {
        const struct room_path path = paths[end];
        if (path.id != model->unknown || next_id != model->unknown) {
            part_end = end;
        }
        paths[path.start].best.end = part_end;
        next_id = path.id;
        end = path.start;
    }
}

static void encode_unigram(const struct word_model *model, struct text_room *room, size_t begin,
                           size_t end) {
    const size_t length = end - begin;
    struct room_path *paths =
        memory_grow(room->paths, &room->path_capacity, length + 1, sizeof *paths);
    if (paths == NULL) {
        room->failed = 1;
        return;
    }
    room->paths = paths;
    find_paths(model, room->text.bytes + begin, length, paths);
    turn_path(model, paths, length);
    for (size_t at = 0; at < length;) {
        const size_t next = paths[at].best.end;
        const char *bytes = room->text.bytes + begin + at;
        const int32_t id = id_at(model, walk(model, 0, bytes, next - at));
        if (id < 0 && model->falls_back && has_bytes(model, bytes, next - at)) {
            for (size_t i = 0; i < next - at; i++) {
                room_token(room, model->bytes[(unsigned char)bytes[i]], begin + at, begin + next);
            }
        } else {
            room_token(room, id >= 0 ? id : model->unknown, begin + at, begin + next);
        }
        at = next;
    }
}

// --- reading ------------------------------------------------------------------------------------

static const struct word_model_row model_rows[] = {{"BPE", read_bpe, encode_bpe},
                                                   {"Unigram", read_unigram, encode_unigram},
                                                   {"WordPiece", read_wordpiece, encode_wordpiece}};

enum berth_status word_model_add_word(struct word_list *words, const char *text, int64_t id,
                                      const struct component_place *place,
                                      struct berth_error *error) {
    if (id < 0 || id >= INT32_MAX || (uint64_t)id >= words->count + (uint64_t)MODEL_GAPS) {
        return error_key(error, BERTH_BAD_DATA, place->file, place->key,
                         "\"%.*s\": expected an id from 0 to about the number of "
                         "words",
                         UTF8_SHOWN(text, 40));
    }
    if ((size_t)id >= words->count) {
        const char **texts =
            memory_grow(words->texts, &words->capacity, (size_t)id + 1, sizeof *texts);
        if (texts == NULL) {
            return error_no_memory(error, (size_t)id * sizeof *texts, place->file);
        }
        words->texts = texts;
        while (words->count <= (size_t)id) {
            words->texts[words->count++] = NULL;
        }
    }
    const char *other = words->texts[id];
    if (other != NULL && strcmp(other, text) != 0) {
        return error_set(error, BERTH_BAD_DATA, "%s: duplicate id %lld: \"%.*s\" and \"%.*s\"",
                         place->file, (long long)id, UTF8_SHOWN(other, 40), UTF8_SHOWN(text, 40));
    }
    words->texts[id] = text;
    return BERTH_OK;
}

enum berth_status word_model_read_words(const json *object, const struct component_place *place,
                                        struct word_list *words, struct berth_error *error) {
    const json *vocabulary = json_member(object, "vocab");
    struct json_walk walk = {.object = vocabulary};
    if (json_length(vocabulary) == 0) {
        return error_set(error, BERTH_BAD_DATA, "%s: key \"%s.vocab\": expected words", place->file,
                         place->key);
    }
    for (size_t i = 0; json_is_array_value(vocabulary) && i < json_length(vocabulary); i++) {
        const char *text = json_text(json_at(json_at(vocabulary, i), 0));
        if (text == NULL) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: key \"%s.vocab\": entry %zu: expected a word and its score",
                             place->file, place->key, i);
        }
        TRY(word_model_add_word(words, text, (int64_t)i, place, error));
    }
    while (json_is_object_value(vocabulary) && json_walk_next(&walk)) {
        const int64_t id = json_is_integer_value(walk.value) ? json_as_integer(walk.value) : -1;
        TRY(word_model_add_word(words, walk.key, id, place, error));
    }
    return BERTH_OK;
}

// Fills bytes[] with the word's text as it is in texts: byte-level words are bytes. 0: no text has
// the word.
static int put_word(struct buffer *bytes, const char *text, int is_byte_level) {
    const size_t length = strlen(text), before = bytes->length;
    for (size_t at = 0; at < length && is_byte_level;) {
        uint32_t point;
        at = text_point(text, length, at, &point);
        const int byte = byte_level_byte(point);
        if (byte < 0) {
            bytes->length = before;
            return 0;
        }
        buffer_put_byte(bytes, (char)byte);
    }
    if (!is_byte_level) {
        buffer_put(bytes, text, length);
    }
    return bytes->length > before;
}

static enum berth_status build_trie(struct word_model *model, const struct component_place *place,
                                    struct berth_error *error) {
    const struct vocabulary *vocabulary = model->vocabulary;
    struct trie_string *strings = memory_array_zeroed(model->count, sizeof *strings);
    struct buffer bytes = {0};
    size_t count = 0;
    for (size_t id = 0; strings != NULL && id < model->count; id++) {
        const size_t before = bytes.length;
        if (put_word(&bytes, vocabulary->text + vocabulary->starts[id], model->is_byte_level)) {
            strings[count++] =
                (struct trie_string){.length = bytes.length - before, .id = (int32_t)id};
        }
    }
    size_t at = 0;
    for (size_t i = 0; i < count; i++) { // now the buffer no longer moves
        strings[i].bytes = bytes.bytes + at;
        at += strings[i].length;
    }
    const int done =
        strings != NULL && !bytes.failed && vocabulary_build_trie(&model->trie, strings, count);
    memory_free(strings);
    buffer_done(&bytes);
    return done ? BERTH_OK : error_no_memory(error, at, place->file);
}

static const struct word_model_row *find_row(const json *object) {
    const char *type = json_text(json_member(object, "type"));
    const int is_bpe = json_member(object, "merges") != NULL;
    if (type == NULL && json_member(object, "type") == NULL) { // as the library recognises them
        type = is_bpe                                                     ? "BPE"
               : json_is_array_value(json_member(object, "vocab"))        ? "Unigram"
               : json_member(object, "continuing_subword_prefix") != NULL ? "WordPiece"
                                                                          : NULL;
    }
    for (size_t i = 0; type != NULL && i < sizeof model_rows / sizeof *model_rows; i++) {
        if (strcmp(model_rows[i].name, type) == 0) {
            return &model_rows[i];
        }
    }
    return NULL;
}

static enum berth_status read_model(struct word_model *model, const json *object,
                                    const struct component_place *place,
                                    struct berth_error *error) {
    const int has_scores = json_is_array_value(json_member(object, "vocab"));
    model->row = find_row(object);
    if (model->row == NULL || has_scores != (model->row->read == read_unigram)) {
        return component_refuse(place, "type", "BPE, Unigram or WordPiece, with its vocabulary",
                                json_text(json_member(object, "type")), error);
    }
    if (model->is_byte_level && model->row->read != read_bpe) {
        return component_refuse(place, "type", "BPE, beside the component ByteLevel",
                                model->row->name, error);
    }
    if (!model->is_byte_level && model->count == model->vocabulary->count) {
        model->trie = model->vocabulary->trie;
        model->borrows_trie = 1;
    } else {
        TRY(build_trie(model, place, error));
    }
    return model->row->read(model, object, place, error);
}

enum berth_status word_model_open(const json *object, const struct component_place *place,
                                  const struct vocabulary *vocabulary, size_t count,
                                  int is_byte_level, struct word_model **model,
                                  struct berth_error *error) {
    *model = memory_array_zeroed(1, sizeof **model);
    if (*model == NULL) {
        return error_no_memory(error, sizeof **model, place->file);
    }
    **model = (struct word_model){
        .vocabulary = vocabulary, .count = count, .is_byte_level = is_byte_level, .unknown = -1};
    const enum berth_status status = read_model(*model, object, place, error);
    if (status != BERTH_OK) {
        word_model_close(*model);
        *model = NULL;
    }
    return status;
}

void word_model_close(struct word_model *model) {
    if (model != NULL) {
        if (!model->borrows_trie) {
            trie_done(&model->trie);
        }
        memory_free(model->prefix);
        memory_free(model->suffix);
        memory_free(model->scores);
        memory_free(model->merges);
        memory_free(model->whole);
        memory_free(model);
    }
}

int32_t word_model_unknown(const struct word_model *model) {
    return model->unknown;
}

void word_model_encode(const struct word_model *model, struct text_room *room, size_t begin,
                       size_t end) {
    model->row->encode(model, room, begin, end);
}
