// SPDX-License-Identifier: Apache-2.0
// Reads a model of sentencepiece: its pieces, and how it prepares a text. A model is a message of
// protocol buffers; what it says of its training is left out. model/words_read.c makes a tokenizer
// of the pieces.
#ifndef BERTH_FORMAT_SENTENCEPIECE_H
#define BERTH_FORMAT_SENTENCEPIECE_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

#define SENTENCEPIECE_LIMIT ((size_t)64 << 20) // bytes of a file that is read
#define SENTENCEPIECE_LONGEST 512              // bytes of a piece

enum sentencepiece_kind { SENTENCEPIECE_UNIGRAM = 1, SENTENCEPIECE_BPE = 2 };

enum sentencepiece_type {
    SENTENCEPIECE_NORMAL = 1,
    SENTENCEPIECE_UNKNOWN = 2,
    SENTENCEPIECE_CONTROL = 3,
    SENTENCEPIECE_USER_DEFINED = 4,
    SENTENCEPIECE_UNUSED = 5,
    SENTENCEPIECE_BYTE = 6
};

struct sentencepiece_piece {
    char *text; // NUL-terminated UTF-8, never empty
    float score;
    enum sentencepiece_type type;
};

struct sentencepiece {
    struct sentencepiece_piece *pieces;
    size_t count, capacity;
    char *texts; // of all pieces
    enum sentencepiece_kind kind;
    int byte_fallback;
    int unknown_id, begin_id, end_id;        // -1: none
    char unknown[SENTENCEPIECE_LONGEST + 1]; // the texts of these pieces
    char begin[SENTENCEPIECE_LONGEST + 1], end[SENTENCEPIECE_LONGEST + 1];
    const unsigned char *charsmap; // of the bytes that were read
    size_t charsmap_length;
    int adds_prefix, removes_blanks, escapes_blanks;
};

// Reads bytes that stay until *model is no longer used; messages call them `name`. BERTH_BAD_DATA
// if they are no such model; BERTH_CONFIG, naming it, if the model is of another kind than the two.
enum berth_status sentencepiece_read(const char *name, const char *bytes, size_t length,
                                     struct sentencepiece *model, struct berth_error *error);
void sentencepiece_done(struct sentencepiece *model);

#endif
