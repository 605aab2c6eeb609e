// SPDX-License-Identifier: Apache-2.0
// Tokenizers as tokenizer.json describes them: added tokens, normalizers, pre-tokenizers, a model,
// a post-processor and decoders, each a component with a row in a table (components.h). They work
// on one text with the origins of its bytes, and their ids, offsets and words equal those of the
// tokenizers library. BERT's own components have a faster way in one pass (tokenizer.c).
//
// Each ill-formed UTF-8 sequence counts as U+FFFD. Of post-processors, only those are supported
// that make a text "CLS text SEP" and a pair "CLS text SEP text SEP", perhaps with a second SEP
// between. Components that are no rows are refused by their name and place in the file.
#ifndef BERTH_TEXT_TEXT_PIPELINE_H
#define BERTH_TEXT_TEXT_PIPELINE_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct json_t;
struct text_pipeline; // read-only, so threads may share it
struct text_room;
struct token_list;
struct vocabulary;

// What the post-processor makes of tokens.
struct text_pipeline_inputs {
    int32_t cls, sep;      // around texts; -1: none
    int separators;        // between two texts: 1 or 2
    int one_type;          // the second text has the type 0, too
    int trims;             // offsets leave out blanks around tokens,
    int keeps_first_blank; // but for the first token, which may have got a blank that is none
};

// Opens a tokenizer.json that was parsed; messages call it `file`. BERTH_CONFIG names the part that
// is not supported.
enum berth_status text_pipeline_open(const char *file, const struct json_t *object,
                                     struct text_pipeline **pipeline, struct berth_error *error);
void text_pipeline_close(struct text_pipeline *pipeline);

const struct vocabulary *text_pipeline_vocabulary(const struct text_pipeline *pipeline);
const struct text_pipeline_inputs *text_pipeline_inputs_of(const struct text_pipeline *pipeline);
int32_t text_pipeline_unknown(const struct text_pipeline *pipeline); // -1: none
// Whether the id is an added token that is special.
int text_pipeline_is_special(const struct text_pipeline *pipeline, int32_t id);

// As tokenizer_encode. `splits_special`: special tokens are ordinary characters of the text.
enum berth_status text_pipeline_encode(const struct text_pipeline *pipeline, const char *text,
                                       size_t length, int splits_special, struct token_list *list,
                                       struct berth_error *error);
// Calls `take` with each piece of the text from which the model would make tokens, normalized;
// added tokens are ordinary text. Of the list only the memory is used.
enum berth_status text_pipeline_split(const struct text_pipeline *pipeline, const char *text,
                                      size_t length, struct token_list *list,
                                      enum berth_status (*take)(void *context, const char *bytes,
                                                                size_t count,
                                                                struct berth_error *error),
                                      void *context, struct berth_error *error);
// The text of ids, of which those outside the vocabulary and, with `skips_special`, special ones
// are skipped. Newly allocated; NULL: out of memory.
char *text_pipeline_decode(const struct text_pipeline *pipeline, const int32_t *ids, size_t count,
                           int skips_special);
void text_pipeline_room_free(struct text_room *room);

#endif
