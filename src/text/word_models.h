// SPDX-License-Identifier: Apache-2.0
// The models of pipelines: WordPiece, BPE and Unigram, each a row, make tokens of a piece of text.
#ifndef BERTH_TEXT_WORD_MODELS_H
#define BERTH_TEXT_WORD_MODELS_H

#include "text/components.h"
#include "text/vocabulary.h"

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
// How the words that begin one, or those that continue one, are marked, for readers that know a
// word's text alone. NULL: they are not.
const char *word_model_continuing_prefix(const struct word_model *model);

#endif
