// SPDX-License-Identifier: Apache-2.0
// The components of a pipeline (text_pipeline.h): a row for each name that tokenizer.json may give,
// with the function that reads its fields and the one that does its work on the text of a room.
// Only the files of a pipeline include it; tokenizer.h is what others see.
#ifndef BERTH_TEXT_COMPONENTS_H
#define BERTH_TEXT_COMPONENTS_H

#include "core/buffer.h"
#include "core/error.h"
#include "text/vocabulary.h"

#include <stddef.h>
#include <stdint.h>

struct json_t;

// --- the room -----------------------------------------------------------------------------------

// A text on its way through the pipeline: well-formed UTF-8, and for each byte the offset in the
// original text of the character that it came from.
struct room_text {
    char *bytes;
    uint32_t *origins;
    size_t count, capacity;
};

// A part of the text: an added token, or what is still to be split; never empty.
struct room_piece {
    size_t begin, end;
    int32_t id; // of the added token; -1: none
};

struct room_pieces {
    struct room_piece *items;
    size_t count, capacity;
};

// A character that a normal form yields. `change` says of the characters that are read: 1: it is
// additional to the one before, else it stands for one and -change others.
struct room_change {
    uint32_t point;
    int32_t change;
    uint32_t order;
    uint8_t combining;
};

struct room_symbol { // of BPE
    int32_t id, previous, next;
    uint32_t length;
};

struct room_path { // of Unigram: the best one to a place of the piece
    union {
        double score;
        size_t end; // once the best path is known: of its part that begins here
    } best;
    uint32_t start; // of its last part; UINT32_MAX: there is no path yet
    int32_t id;
};

// The memory of one encoding, reused by the next one.
struct text_room {
    const char *original;
    size_t original_length;
    struct room_text text, next, joined;
    struct room_pieces pieces, next_pieces, found;
    struct room_change *changes;
    size_t change_count, change_capacity;
    struct room_symbol *symbols;
    size_t symbol_count, symbol_capacity;
    uint64_t *heap;
    size_t heap_count, heap_capacity;
    struct room_path *paths;
    size_t path_capacity;
    struct token_list *list;
    size_t first_token;           // in the list, of this text
    size_t byte;                  // a place of the original text,
    uint32_t character;           // and its index
    int is_valid;                 // the original text is well-formed
    int32_t word;                 // the number of the current piece
    int trims, keeps_first_blank; // as struct text_pipeline_inputs
    int failed;                   // out of memory; sticky
};

// Appends to room->next; `origin` is that of all bytes.
void room_put(struct text_room *room, uint32_t point, uint32_t origin);
void room_put_bytes(struct text_room *room, const char *bytes, size_t count, uint32_t origin);
// Appends bytes [begin, end) of room->text with their origins.
void room_copy(struct text_room *room, size_t begin, size_t end);
// Makes room for `extra` more bytes; 0 when out of memory.
int room_reserve(struct text_room *room, struct room_text *text, size_t extra);
void room_append(struct text_room *room, struct room_text *to, const struct room_text *from,
                 size_t begin, size_t end);
void room_exchange(struct room_text *a, struct room_text *b);
// Makes room->next the text.
void room_turn(struct text_room *room);
// Appends a piece; an empty one is left out.
void room_add(struct text_room *room, struct room_pieces *pieces, size_t begin, size_t end,
              int32_t id);
// Makes room->next_pieces the pieces.
void room_turn_pieces(struct text_room *room);
// Appends a token for bytes [begin, end) of the text.
void room_token(struct text_room *room, int32_t id, size_t begin, size_t end);
void room_added_token(struct text_room *room, int32_t id, size_t begin, size_t end);

// --- components ---------------------------------------------------------------------------------

enum split_behavior {
    SPLIT_REMOVED,
    SPLIT_ISOLATED,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
    SPLIT_CONTIGUOUS
};

// The table of replacements of sentencepiece: a trie (as of the library Darts-clone) from
// characters to offsets of NUL-terminated texts.
struct charsmap {
    uint32_t *units;
    size_t unit_count;
    char *texts;
    size_t text_length;
    unsigned char ascii[128]; // whether the character is replaced
};

struct component {
    const struct component_row *row;
    char *text, *content; // owned; what they are depends on the row
    size_t text_length, content_length;
    int flags[4];
    enum split_behavior behavior;
    int inverts; // what a pattern does not match is taken for what it matches
    // The end of a match that begins at `at`, `at` itself without one; nothing after `end` counts.
    size_t (*match)(const struct component *component, const char *bytes, size_t end, size_t at);
    struct charsmap charsmap;
};

// The tokens of a text to be decoded.
struct component_strings {
    struct buffer bytes;
    size_t *ends;
    size_t count, capacity;
    int failed;
};
void strings_add(struct component_strings *strings, const char *bytes, size_t length);
static inline size_t strings_begin(const struct component_strings *strings, size_t i) {
    return i == 0 ? 0 : strings->ends[i - 1];
}

// Where in which file a component is, for messages: `key` is a path such as "normalizer".
struct component_place {
    const char *file;
    char key[120];
};

struct component_row {
    const char *name;
    // NULL: there are no fields.
    enum berth_status (*read)(struct component *component, const struct json_t *object,
                              const struct component_place *place, struct berth_error *error);
    // Of a normalizer and a pre-tokenizer, on the text or pieces of the room.
    void (*run)(const struct component *component, struct text_room *room);
    // Of a decoder.
    void (*decode)(const struct component *component, const struct component_strings *tokens,
                   struct component_strings *decoded);
};
extern const struct component_row normalizer_rows[], pre_tokenizer_rows[], decoder_rows[];

// The components of a kind: the last row has no name; `list` is the key of a sequence.
struct component_kind {
    const struct component_row *rows;
    const char *list;
};

// A list of components in the order of their work.
struct component_list {
    struct component *items;
    size_t count, capacity;
};
// Reads a value of tokenizer.json: null, a component, or a sequence of them. BERTH_CONFIG, naming
// the place, if one is no row of `kind`, or has fields that are not supported.
enum berth_status components_read(struct component_list *list, const struct component_kind *kind,
                                  const struct json_t *value, const struct component_place *place,
                                  struct berth_error *error);
void components_done(struct component_list *list);
void components_run(const struct component_list *list, struct text_room *room);

// "<file>: key "<place>.<key>": <what>": BERTH_CONFIG.
enum berth_status component_refuse(const struct component_place *place, const char *key,
                                   const char *expected, const char *found,
                                   struct berth_error *error);
// Reads a text that must be there; newly allocated.
enum berth_status component_text(const struct json_t *object, const char *key,
                                 const struct component_place *place, char **text, size_t *length,
                                 struct berth_error *error);
// Reads {"String": ...} or {"Regex": ...} into component->match.
enum berth_status component_pattern(struct component *component, const struct json_t *object,
                                    const struct component_place *place, struct berth_error *error);
// Reads the fields of Replace, which is a normalizer and a decoder.
enum berth_status component_read_replace(struct component *component, const struct json_t *object,
                                         const struct component_place *place,
                                         struct berth_error *error);
// Reads the fields of Metaspace, which is a pre-tokenizer and a decoder: flags[0] is whether a mark
// is added.
enum berth_status component_read_metaspace(struct component *component, const struct json_t *object,
                                           const struct component_place *place,
                                           struct berth_error *error);
enum berth_status component_flag(const struct json_t *object, const char *key,
                                 const struct component_place *place, int *flag,
                                 struct berth_error *error);

// The character of a byte in byte-level vocabularies, and the byte of a character; -1: none.
#define BYTE_LEVEL_POINTS 0x144 // all of these characters are below
uint32_t byte_level_point(unsigned char byte);
int byte_level_byte(uint32_t point);

// Removes blanks as transformers' clean_up_tokenization does, in its order.
void component_clean_up(char *text);

// Decodes the character at `at` of well-formed text; returns its end.
size_t text_point(const char *bytes, size_t end, size_t at, uint32_t *point);

// --- models -------------------------------------------------------------------------------------

struct word_model;

// Where a model's words are in tokenizer.json, and which id each has.
struct word_list {
    const char **texts; // [count] by id; NULL: no word has it
    size_t count, capacity;
};
// Adds a word; BERTH_BAD_DATA, naming `place`, if the id is taken by another or is not one of an
// embedding: at most MODEL_GAPS ids may have no word.
#define MODEL_GAPS 65536
enum berth_status word_model_add_word(struct word_list *words, const char *text, int64_t id,
                                      const struct component_place *place,
                                      struct berth_error *error);

// Collects the words of the model of tokenizer.json, whose texts are borrowed.
enum berth_status word_model_read_words(const struct json_t *object,
                                        const struct component_place *place,
                                        struct word_list *words, struct berth_error *error);
// Opens the model of these `count` words, of which *vocabulary, which is borrowed, may have more.
// `is_byte_level`: its pieces are bytes as the component ByteLevel writes them. BERTH_CONFIG if
// tokenizer.json says what is not supported; BERTH_BAD_DATA if it refers to words that it has not.
enum berth_status word_model_open(const struct json_t *object, const struct component_place *place,
                                  const struct vocabulary *vocabulary, size_t count,
                                  int is_byte_level, struct word_model **model,
                                  struct berth_error *error);
void word_model_close(struct word_model *model);
int32_t word_model_unknown(const struct word_model *model); // -1: none
// Appends the tokens of bytes [begin, end) of the room's text.
void word_model_encode(const struct word_model *model, struct text_room *room, size_t begin,
                       size_t end);

#endif
