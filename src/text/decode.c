// SPDX-License-Identifier: Apache-2.0
// Converts token ids to text like the WordPiece decoder of Hugging Face's `tokenizers`: tokens are
// separated by blanks, except before continuations ("##ing", whose ## is dropped) and before . , ?
// ! n't 'm 's 've 're. The original spelling and spacing are lost. If the tokenizer keeps blanks,
// these are separated, too; if it keeps pieces, so are continuations, with their ##. If it cleans
// up, the text is then what transformers' clean_up_tokenization makes of it. A pipeline has
// decoders of its own, which are rows (components.h). The task fill turns the words that it found
// into text with it.
#include "core/buffer.h"
#include "core/memory.h"
#include "text/components.h"
#include "text/text_pipeline.h"
#include "text/tokenizer.h"

#include <string.h>

static int is_special(const struct tokenizer_special *special, int32_t id) {
    return id == special->cls || id == special->sep || id == special->mask ||
           id == special->unknown;
}

// Whether no blank precedes the token. A model may predict any token, even one that no text yields.
static int is_joined(const char *piece) {
    static const char *const starts[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        if (strncmp(piece, starts[i], strlen(starts[i])) == 0) {
            return 1;
        }
    }
    return 0;
}

static char *decode_bert(const struct tokenizer *tokenizer, const int32_t *ids, size_t count,
                         int skips_special) {
    const struct tokenizer_special special = tokenizer_special_ids(tokenizer);
    const struct tokenizer_options *rules = tokenizer_rules_of(tokenizer);
    const int keeps_blanks = rules->keeps_blanks || rules->keeps_pieces;
    struct buffer text = {0};
    int is_first = 1;
    for (size_t i = 0; i < count; i++) {
        const char *piece = tokenizer_piece(tokenizer, ids[i]);
        if (piece == NULL || ids[i] == special.pad ||
            (skips_special && is_special(&special, ids[i]))) {
            continue;
        }
        const int continues = !is_first && !rules->keeps_pieces && strncmp(piece, "##", 2) == 0;
        if (!is_first && !continues && (keeps_blanks || !is_joined(piece))) {
            buffer_put_byte(&text, ' ');
        }
        piece += continues ? 2 : 0;
        buffer_put(&text, piece, strlen(piece));
        is_first = 0;
    }
    buffer_put_byte(&text, '\0');
    if (text.failed) {
        buffer_done(&text);
    }
    return text.bytes;
}

char *decode_text(const struct tokenizer *tokenizer, const int32_t *ids, size_t count,
                  int skips_special) {
    const struct text_pipeline *pipeline = tokenizer_pipeline(tokenizer);
    char *text = pipeline != NULL ? text_pipeline_decode(pipeline, ids, count, skips_special)
                                  : decode_bert(tokenizer, ids, count, skips_special);
    if (text != NULL && tokenizer_rules_of(tokenizer)->cleans_up) {
        component_clean_up(text);
    }
    return text;
}
