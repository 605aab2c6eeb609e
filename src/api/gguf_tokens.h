// SPDX-License-Identifier: Apache-2.0
// A model's tokenizer as llama.cpp has it: BERT's word pieces, byte-level BPE, or a unigram model.
// convert_targets.c asks for it before it writes a GGUF; the file itself is
// format/export/gguf_write.h's.
#ifndef BERTH_API_GGUF_TOKENS_H
#define BERTH_API_GGUF_TOKENS_H

#include "core/buffer.h"
#include "core/error.h"
#include "model/export_gguf.h"

struct conversion;
struct json_t;
struct tokenizer;
struct vocabulary;

struct gguf_tokens {
    struct export_gguf_tokens tokens; // borrows what follows
    struct tokenizer *tokenizer;      // NULL: of word pieces
    const char **texts;
    int32_t *types;
    float *scores;
    const char **merges;
    struct buffer merge_texts, charsmap;
};

// Of BERT's vocabulary, which is borrowed.
enum berth_status gguf_tokens_of_pieces(const struct vocabulary *vocabulary,
                                        struct gguf_tokens *tokens, struct berth_error *error);
// Of another tokenizer.json at `path`, which was parsed. BERTH_CONFIG, naming the part, if
// llama.cpp has no such tokenizer; a warning where its tokenizer differs. Call gguf_tokens_done,
// even on failure.
enum berth_status gguf_tokens_of_pipeline(const struct conversion *conversion, const char *path,
                                          const struct json_t *object, struct gguf_tokens *tokens,
                                          struct berth_error *error);
void gguf_tokens_done(struct gguf_tokens *tokens);

#endif
