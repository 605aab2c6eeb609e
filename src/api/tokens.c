// SPDX-License-Identifier: Apache-2.0
// The public tokenizer: the text room's, opened by settings, which returns pieces along with ids.
#include "api/arguments.h"
#include "core/memory.h"
#include "train/engine/inputs.h"

struct berth_tokenizer {
    struct tokenizer *rules;
};

enum berth_status berth_tokenizer_open(const struct berth_config *config,
                                       struct berth_tokenizer **tokenizer,
                                       struct berth_error *error) {
    REQUIRE(tokenizer, error);
    *tokenizer = NULL;
    REQUIRE_CONFIG(config, error);
    struct berth_tokenizer *opened = memory_new(sizeof *opened);
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "a tokenizer");
    }
    enum berth_status status = inputs_find_tokenizer(config, &opened->rules, error);
    if (status != BERTH_OK) {
        memory_free(opened);
        return status;
    }
    *tokenizer = opened;
    return BERTH_OK;
}

void berth_tokenizer_close(struct berth_tokenizer *tokenizer) {
    if (tokenizer != NULL) {
        tokenizer_close(tokenizer->rules);
        memory_free(tokenizer);
    }
}

enum berth_status berth_tokenizer_encode(const struct berth_tokenizer *tokenizer, const char *text,
                                         size_t length, struct berth_token **tokens, size_t *count,
                                         size_t *ill_formed, struct berth_error *error) {
    struct token_list list = {0};
    REQUIRE(tokens, error);
    REQUIRE(count, error);
    *tokens = NULL;
    *count = 0;
    REQUIRE(tokenizer, error);
    if (length > 0) {
        REQUIRE(text, error);
    }
    enum berth_status status;
    TRY_DONE(tokenizer_encode(tokenizer->rules, length > 0 ? text : "", length, &list, error));
    *tokens = memory_array(list.count, sizeof **tokens);
    if (*tokens == NULL) {
        status = error_no_memory(error, list.count * sizeof **tokens, "tokens");
        goto done;
    }
    for (size_t i = 0; i < list.count; i++) {
        const struct token *token = &list.items[i];
        (*tokens)[i] = (struct berth_token){.piece = tokenizer_piece(tokenizer->rules, token->id),
                                            .id = token->id,
                                            .start = token->begin,
                                            .end = token->end};
    }
    *count = list.count;
    if (ill_formed != NULL) {
        *ill_formed = list.ill_formed;
    }
done:
    token_list_done(&list);
    return status;
}

void berth_tokens_free(struct berth_token *tokens) {
    memory_free(tokens);
}
