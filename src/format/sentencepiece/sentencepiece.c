// SPDX-License-Identifier: Apache-2.0
// Reads the message of a sentencepiece model, whose fields are numbered as in its description,
// sentencepiece_model.proto. Each count is taken from the bytes that are there. Called when a
// folder has no tokenizer.json but such a file (model/folder_words.c).
#include "format/sentencepiece/sentencepiece.h"

#include "core/memory.h"
#include "core/utf8.h"
#include "format/protobuf/protobuf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MODEL_PIECES = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { TRAINER_KIND = 3, TRAINER_FALLBACK = 35, TRAINER_UNKNOWN_ID = 40, TRAINER_BEGIN_ID = 41 };
enum { TRAINER_END_ID = 42, TRAINER_UNKNOWN = 45, TRAINER_BEGIN = 46, TRAINER_END = 47 };
enum { NORMALIZER_MAP = 2, NORMALIZER_PREFIX = 3, NORMALIZER_BLANKS = 4, NORMALIZER_ESCAPES = 5 };

static enum berth_status check_text(const struct protobuf_reader *reader,
                                    const struct protobuf_field *field, struct berth_error *error) {
    TRY(protobuf_expect(reader, field, PROTOBUF_BYTES, error));
    if (field->length == 0 || field->length > SENTENCEPIECE_LONGEST) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected pieces of 1 to %d bytes, found one of %zu", reader->name,
                         SENTENCEPIECE_LONGEST, field->length);
    }
    return utf8_text_prefix((const char *)field->bytes, field->length) == field->length
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA, "%s: a piece is not UTF-8, or has a NUL byte",
                           reader->name);
}

// --- the pieces ---------------------------------------------------------------------------------

static enum berth_status read_score(const struct protobuf_reader *reader,
                                    const struct protobuf_field *field, float *score,
                                    struct berth_error *error) {
    const uint32_t bits = (uint32_t)field->value;
    TRY(protobuf_expect(reader, field, PROTOBUF_FIXED32, error));
    memcpy(score, &bits, sizeof *score);
    return isfinite(*score) ? BERTH_OK
                            : error_set(error, BERTH_BAD_DATA,
                                        "%s: a piece's score is not a finite number", reader->name);
}

static enum berth_status read_type(const struct protobuf_reader *reader,
                                   const struct protobuf_field *field,
                                   enum sentencepiece_type *type, struct berth_error *error) {
    TRY(protobuf_expect(reader, field, PROTOBUF_VARINT, error));
    if (field->value < SENTENCEPIECE_NORMAL || field->value > SENTENCEPIECE_BYTE) {
        return error_set(error, BERTH_BAD_DATA,
                         "%s: expected pieces of the types 1 to 6, found %llu", reader->name,
                         (unsigned long long)field->value);
    }
    *type = (enum sentencepiece_type)field->value;
    return BERTH_OK;
}

// Reads a piece, whose text is appended to model->texts.
static enum berth_status read_piece(struct protobuf_reader reader, struct sentencepiece *model,
                                    size_t *used, struct berth_error *error) {
    struct sentencepiece_piece piece = {.type = SENTENCEPIECE_NORMAL};
    struct protobuf_field field;
    int more;
    for (;;) {
        TRY(protobuf_next(&reader, &field, &more, error));
        if (!more) {
            break;
        }
        if (field.number == PIECE_TEXT) {
            TRY(check_text(&reader, &field, error));
            piece.text = model->texts + *used; // of several, the last counts
            memcpy(piece.text, field.bytes, field.length);
            piece.text[field.length] = '\0';
        } else if (field.number == PIECE_SCORE) {
            TRY(read_score(&reader, &field, &piece.score, error));
        } else if (field.number == PIECE_TYPE) {
            TRY(read_type(&reader, &field, &piece.type, error));
        }
    }
    if (piece.text == NULL) {
        return error_set(error, BERTH_BAD_DATA, "%s: piece %zu has no text", reader.name,
                         model->count);
    }
    *used += strlen(piece.text) + 1;
    struct sentencepiece_piece *pieces =
        memory_grow(model->pieces, &model->capacity, model->count + 1, sizeof *pieces);
    if (pieces == NULL) {
        return error_no_memory(error, model->count * sizeof *pieces, reader.name);
    }
    model->pieces = pieces;
    pieces[model->count++] = piece;
    return BERTH_OK;
}

// --- settings -----------------------------------------------------------------------------------

static enum berth_status read_number(const struct protobuf_reader *reader,
                                     const struct protobuf_field *field, int *number,
                                     struct berth_error *error) {
    TRY(protobuf_expect(reader, field, PROTOBUF_VARINT, error));
    *number = (int)(int32_t)(uint32_t)field->value;
    return BERTH_OK;
}

static enum berth_status read_trainer(struct protobuf_reader reader, struct sentencepiece *model,
                                      struct berth_error *error) {
    struct protobuf_field field;
    int more, kind = (int)model->kind;
    for (;;) {
        TRY(protobuf_next(&reader, &field, &more, error));
        if (!more) {
            break;
        }
        int *const number = field.number == TRAINER_KIND         ? &kind
                            : field.number == TRAINER_FALLBACK   ? &model->byte_fallback
                            : field.number == TRAINER_UNKNOWN_ID ? &model->unknown_id
                            : field.number == TRAINER_BEGIN_ID   ? &model->begin_id
                            : field.number == TRAINER_END_ID     ? &model->end_id
                                                                 : NULL;
        char *const text = field.number == TRAINER_UNKNOWN ? model->unknown
                           : field.number == TRAINER_BEGIN ? model->begin
                           : field.number == TRAINER_END   ? model->end
                                                           : NULL;
        TRY(number != NULL ? read_number(&reader, &field, number, error) : BERTH_OK);
        if (text != NULL) {
            TRY(check_text(&reader, &field, error));
            memcpy(text, field.bytes, field.length);
            text[field.length] = '\0';
        }
    }
    if (kind != SENTENCEPIECE_UNIGRAM && kind != SENTENCEPIECE_BPE) {
        return error_set(error, BERTH_CONFIG,
                         "%s: expected a model of the type unigram or bpe, found %s", reader.name,
                         kind == 3   ? "word"
                         : kind == 4 ? "char"
                                     : "another");
    }
    model->kind = (enum sentencepiece_kind)kind;
    return BERTH_OK;
}

static enum berth_status read_normalizer(struct protobuf_reader reader, struct sentencepiece *model,
                                         struct berth_error *error) {
    struct protobuf_field field;
    int more;
    for (;;) {
        TRY(protobuf_next(&reader, &field, &more, error));
        if (!more) {
            return BERTH_OK;
        }
        int *const number = field.number == NORMALIZER_PREFIX    ? &model->adds_prefix
                            : field.number == NORMALIZER_BLANKS  ? &model->removes_blanks
                            : field.number == NORMALIZER_ESCAPES ? &model->escapes_blanks
                                                                 : NULL;
        TRY(number != NULL ? read_number(&reader, &field, number, error) : BERTH_OK);
        if (field.number == NORMALIZER_MAP) {
            TRY(protobuf_expect(&reader, &field, PROTOBUF_BYTES, error));
            model->charsmap = field.bytes;
            model->charsmap_length = field.length;
        }
    }
}

// --- the model ----------------------------------------------------------------------------------

static enum berth_status read_model(struct protobuf_reader reader, struct sentencepiece *model,
                                    struct berth_error *error) {
    struct protobuf_field field;
    size_t used = 0;
    int more;
    for (;;) {
        TRY(protobuf_next(&reader, &field, &more, error));
        if (!more) {
            break;
        }
        if (field.number > MODEL_NORMALIZER) {
            continue;
        }
        TRY(protobuf_expect(&reader, &field, PROTOBUF_BYTES, error));
        const struct protobuf_reader inside = protobuf_inside(&reader, &field);
        TRY(field.number == MODEL_PIECES    ? read_piece(inside, model, &used, error)
            : field.number == MODEL_TRAINER ? read_trainer(inside, model, error)
                                            : read_normalizer(inside, model, error));
    }
    return model->count > 0
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "%s: expected a model of sentencepiece, found no pieces", reader.name);
}

enum berth_status sentencepiece_read(const char *name, const char *bytes, size_t length,
                                     struct sentencepiece *model, struct berth_error *error) {
    *model = (struct sentencepiece){.kind = SENTENCEPIECE_UNIGRAM,
                                    .begin_id = 1,
                                    .end_id = 2,
                                    .unknown = "<unk>",
                                    .begin = "<s>",
                                    .end = "</s>",
                                    .adds_prefix = 1,
                                    .removes_blanks = 1,
                                    .escapes_blanks = 1};
    model->texts = memory_new(length + 1); // a text with its NUL takes less than its field
    if (model->texts == NULL) {
        return error_no_memory(error, length, name);
    }
    const enum berth_status status = read_model(protobuf_read(bytes, length, name), model, error);
    if (status != BERTH_OK) {
        sentencepiece_done(model);
    }
    return status;
}

void sentencepiece_done(struct sentencepiece *model) {
    memory_free(model->pieces);
    memory_free(model->texts);
    model->pieces = NULL;
    model->texts = NULL;
    model->count = model->capacity = 0;
}
