// SPDX-License-Identifier: Apache-2.0
// Collects the documents of a text shard as token ids, in one array with the ends of sentences and
// documents beside it. The instance stage reads a shard into it (data/stages/instance_stage.c), and
// instances.c draws pairs of segments from it.
#include "data/pretraining/documents.h"

#include "core/memory.h"
#include "text/python.h"

#include <string.h>

static enum berth_status no_memory(size_t bytes, struct berth_error *error) {
    return error_no_memory(error, bytes, "a shard's documents");
}

static enum berth_status reserve(struct documents *documents, size_t tokens,
                                 struct berth_error *error) {
    size_t needed = documents->token_count + tokens;
    int32_t *ids = memory_grow(documents->tokens, &documents->token_capacity, needed, sizeof *ids);
    if (ids == NULL) {
        return no_memory(needed * sizeof *ids, error);
    }
    documents->tokens = ids;
    unsigned char *continues =
        memory_grow(documents->continues, &documents->continues_capacity, needed, 1);
    if (continues == NULL) {
        return no_memory(needed, error);
    }
    documents->continues = continues;
    needed = documents->sentence_count + 2;
    uint64_t *ends =
        memory_grow(documents->sentences, &documents->sentence_capacity, needed, sizeof *ends);
    if (ends == NULL) {
        return no_memory(needed * sizeof *ends, error);
    }
    documents->sentences = ends;
    documents->sentences[0] = 0;
    return BERTH_OK;
}

static enum berth_status finish_sentence(struct documents *documents, struct berth_error *error) {
    if (documents->sentence_count >= UINT32_MAX - 1) {
        return error_set(error, BERTH_BAD_DATA,
                         "a shard has more than 2^32 sentences: use more shards");
    }
    documents->sentences[++documents->sentence_count] = documents->token_count;
    return BERTH_OK;
}

enum berth_status documents_add_sentence(struct documents *documents, const int32_t *tokens,
                                         const unsigned char *continues, size_t count,
                                         struct berth_error *error) {
    if (count == 0) {
        return BERTH_OK;
    }
    TRY(reserve(documents, count, error));
    memcpy(documents->tokens + documents->token_count, tokens, count * sizeof *tokens);
    for (size_t i = 0; i < count; i++) {
        documents->continues[documents->token_count + i] = continues != NULL && continues[i];
    }
    documents->token_count += count;
    return finish_sentence(documents, error);
}

enum berth_status documents_end_document(struct documents *documents, struct berth_error *error) {
    size_t needed = documents->count + 2;
    uint32_t *grown =
        memory_grow(documents->documents, &documents->capacity, needed, sizeof *grown);
    if (grown == NULL) {
        return no_memory(needed * sizeof *grown, error);
    }
    documents->documents = grown;
    documents->documents[0] = 0;
    if (documents->sentence_count > documents->documents[documents->count]) {
        documents->documents[++documents->count] = (uint32_t)documents->sentence_count;
    }
    return BERTH_OK;
}

static enum berth_status put_line(struct documents *documents, const struct tokenizer *tokenizer,
                                  const char *line, size_t length, struct berth_error *error) {
    struct token_list *pieces = &documents->pieces;
    const int32_t unknown = tokenizer_special_ids(tokenizer).unknown;
    pieces->count = 0;
    TRY(tokenizer_encode(tokenizer, line, length, pieces, error));
    if (pieces->count == 0) {
        return BERTH_OK;
    }
    TRY(reserve(documents, pieces->count, error));
    for (size_t i = 0; i < pieces->count; i++) {
        documents->continues[documents->token_count] =
            i > 0 && pieces->items[i].word == pieces->items[i - 1].word;
        documents->tokens[documents->token_count++] = pieces->items[i].id;
        documents->unknown += pieces->items[i].id == unknown;
    }
    return finish_sentence(documents, error);
}

enum berth_status documents_add_text(struct documents *documents, const struct tokenizer *tokenizer,
                                     const char *text, size_t length, struct berth_error *error) {
    const char *end = text + length;
    while (text < end) {
        size_t line_end;
        const size_t line = python_line_length(text, (size_t)(end - text), &line_end);
        if (python_rstrip_length(text, line) == 0) {
            TRY(documents_end_document(documents, error));
        } else {
            TRY(put_line(documents, tokenizer, text, line, error));
        }
        text += line + line_end;
    }
    return documents_end_document(documents, error);
}

void documents_done(struct documents *documents) {
    memory_free(documents->tokens);
    memory_free(documents->continues);
    memory_free(documents->sentences);
    memory_free(documents->documents);
    token_list_done(&documents->pieces);
    *documents = (struct documents){0};
}
