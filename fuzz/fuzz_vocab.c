// SPDX-License-Identifier: Apache-2.0
// Any bytes as a vocabulary file: refused with a message, or a tokenizer whose pieces are found
// again under their ids.
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

static void check_pieces(const struct tokenizer *tokenizer) {
    size_t size = tokenizer_size(tokenizer);
    for (size_t id = 0; id < size; id++) {
        const char *piece = tokenizer_piece(tokenizer, (int32_t)id);
        if (piece == NULL || tokenizer_find(tokenizer, piece, strlen(piece)) != (int32_t)id) {
            abort();
        }
    }
    if (tokenizer_piece(tokenizer, -1) != NULL ||
        tokenizer_piece(tokenizer, (int32_t)size) != NULL) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char text[] = "The [CLS] caf\xC3\xA9 of \xE4\xB8\xAD\xE5\x9B\xBD, unaffable \xFF!";
    struct tokenizer_options options = {.lower_case = 1};
    struct tokenizer *tokenizer;
    struct berth_error error = {0};
    enum berth_status status =
        tokenizer_open_memory("fuzz", (const char *)data, size, &options, &tokenizer, &error);
    if (status != BERTH_OK) {
        if (tokenizer != NULL || status != BERTH_BAD_DATA || error.message[0] == '\0') {
            abort();
        }
        return 0;
    }
    struct token_list list = {0};
    check_pieces(tokenizer);
    if (tokenizer_encode(tokenizer, text, sizeof text - 1, &list, &error) != BERTH_OK ||
        list.ill_formed != 1) {
        abort();
    }
    token_list_done(&list);
    tokenizer_close(tokenizer);
    return 0;
}
