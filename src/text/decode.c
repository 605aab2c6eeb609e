// SPDX-License-Identifier: Apache-2.0
#include "text/decode.h"

#include "core/buffer.h"
#include "core/memory.h"

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

// Replaces each `from` by its own bytes without a blank at its beginning and, if it has one, at its
// end.
static void drop_blanks(char *text, const char *from) {
    const size_t length = strlen(from), kept = length - 1 - (from[length - 1] == ' ');
    char *to = text;
    for (const char *at = text; *at != '\0';) {
        if (strncmp(at, from, length) == 0) {
            memcpy(to, from + 1, kept);
            to += kept;
            at += length;
        } else {
            *to++ = *at++;
        }
    }
    *to = '\0';
}

// In the order of transformers, one after the other.
static void clean_up(char *text) {
    static const char *const before[] = {" .",   " ?",  " !",  " ,",   " ' ",
                                         " n't", " 'm", " 's", " 've", " 're"};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        drop_blanks(text, before[i]);
    }
}

char *decode_text(const struct tokenizer *tokenizer, const int32_t *ids, size_t count,
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
    } else if (rules->cleans_up) {
        clean_up(text.bytes);
    }
    return text.bytes;
}
