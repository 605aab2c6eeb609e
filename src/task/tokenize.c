// SPDX-License-Identifier: Apache-2.0
// The public tokenizer: opens the text room's tokenizer from settings, and returns pieces along
// with ids.
#include "core/memory.h"
#include "data/pairs/pair_features.h"
#include "task/arguments.h"
#include "task/task.h"
#include "train/engine/inputs.h"

#include <string.h>

struct berth_tokenizer {
    struct tokenizer *rules;
};

// Follows the folder's sentence-transformers settings, as an encoder of the same folder does.
static enum berth_status find_tokenizer(const struct berth_config *config, struct tokenizer **rules,
                                        struct berth_error *error) {
    struct berth_config own = *config;
    if (own.model_name_or_path != NULL) {
        TRY(inputs_follow_sentence(&own, own.model_name_or_path, error));
    }
    return inputs_find_tokenizer(&own, rules, error);
}

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
    enum berth_status status = find_tokenizer(config, &opened->rules, error);
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

static struct berth_token public_token(const struct tokenizer *rules, const struct token *token) {
    return (struct berth_token){.piece = tokenizer_piece(rules, token->id),
                                .id = token->id,
                                .start = token->begin,
                                .end = token->end};
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
        (*tokens)[i] = public_token(tokenizer->rules, &list.items[i]);
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

// --- inputs of a model --------------------------------------------------------------------------

static enum berth_status check_special(const struct tokenizer *rules, struct berth_error *error) {
    const struct tokenizer_special special = tokenizer_special_ids(rules);
    return special.cls >= 0 && special.sep >= 0
               ? BERTH_OK
               : error_set(error, BERTH_BAD_DATA,
                           "the vocabulary has no %s; a model's input needs [CLS] and [SEP]",
                           special.cls < 0 ? "[CLS]" : "[SEP]");
}

static struct berth_input_token special_token(const struct tokenizer *rules, int32_t id, int type) {
    return (struct berth_input_token){
        .token = {.piece = tokenizer_piece(rules, id), .id = id, .start = -1, .end = -1},
        .type = type};
}

// The tokens of both texts, `first_count` of them from the first one, and how many to keep of
// each.
struct pair_tokens {
    struct token_list list;
    size_t first_count, first_kept, second_kept;
};

static enum berth_status encode_pair(const struct tokenizer *rules, const struct berth_text *text,
                                     size_t room, struct pair_tokens *pair_tokens,
                                     struct berth_error *error) {
    TRY(tokenizer_encode(rules, text->text, strlen(text->text), &pair_tokens->list, error));
    pair_tokens->first_count = pair_tokens->list.count;
    if (text->pair != NULL) {
        TRY(tokenizer_encode(rules, text->pair, strlen(text->pair), &pair_tokens->list, error));
    }
    pair_tokens->first_kept = pair_tokens->first_count;
    pair_tokens->second_kept = pair_tokens->list.count - pair_tokens->first_count;
    pair_features_truncate(rules, &pair_tokens->first_kept, &pair_tokens->second_kept, room);
    return BERTH_OK;
}

static struct berth_input_token *append_segment(const struct tokenizer *rules,
                                                const struct token *from, size_t count, int type,
                                                struct berth_input_token *to) {
    for (size_t i = 0; i < count; i++) {
        *to++ = (struct berth_input_token){.token = public_token(rules, &from[i]), .type = type};
    }
    *to++ = special_token(rules, tokenizer_special_ids(rules).sep, type);
    return to;
}

static void append_pair(const struct tokenizer *rules, const struct pair_tokens *pair_tokens,
                        int is_pair, struct berth_input_token *to) {
    const struct token *items = pair_tokens->list.items;
    *to++ = special_token(rules, tokenizer_special_ids(rules).cls, 0);
    to = append_segment(rules, items, pair_tokens->first_kept, 0, to);
    if (is_pair) {
        (void)append_segment(rules, items + pair_tokens->first_count, pair_tokens->second_kept,
                             !tokenizer_rules_of(rules)->one_type, to);
    }
}

enum berth_status berth_tokenizer_encode_pair(const struct berth_tokenizer *tokenizer,
                                              const struct berth_text *text, size_t max_length,
                                              struct berth_input_token **tokens, size_t *count,
                                              int *truncated, struct berth_error *error) {
    REQUIRE(tokens, error);
    REQUIRE(count, error);
    *tokens = NULL;
    *count = 0;
    REQUIRE(tokenizer, error);
    REQUIRE(text, error);
    REQUIRE(text->text, error);
    TRY(check_special(tokenizer->rules, error));
    if (max_length < 4) {
        return error_set(error, BERTH_USAGE, "max_length: expected 4 or more, found %zu",
                         max_length);
    }
    struct pair_tokens pair_tokens = {.first_kept = 0};
    const size_t special = text->pair != NULL ? 3 : 2;
    enum berth_status status;
    TRY_DONE(encode_pair(tokenizer->rules, text, max_length - special, &pair_tokens, error));
    const size_t length = pair_tokens.first_kept + pair_tokens.second_kept + special;
    *tokens = memory_array(length, sizeof **tokens);
    if (*tokens == NULL) {
        status = error_no_memory(error, length * sizeof **tokens, "tokens");
        goto done;
    }
    append_pair(tokenizer->rules, &pair_tokens, text->pair != NULL, *tokens);
    *count = length;
    if (truncated != NULL) {
        *truncated = pair_tokens.first_kept + pair_tokens.second_kept < pair_tokens.list.count;
    }
done:
    token_list_done(&pair_tokens.list);
    return status;
}

void berth_input_tokens_free(struct berth_input_token *tokens) {
    memory_free(tokens);
}

// --- the row ------------------------------------------------------------------------------------

// Only the tokenizer is opened, which every opened model has (opened.c).
static enum berth_status open_row(struct task_model *model, struct berth_log log,
                                  struct berth_error *error) {
    (void)model;
    (void)log;
    (void)error;
    return BERTH_OK;
}

static void close_row(struct task_model *model) {
    (void)model;
}

static int64_t max_tokens(const struct task_model *model) {
    return model->config.max_seq_length;
}

static enum berth_status tokenize(const struct task_model *model, struct task_text *text,
                                  struct berth_error *error) {
    const struct berth_text asked = {.text = text->texts[0], .pair = text->texts[1]};
    struct berth_input_token *tokens;
    size_t count;
    TRY(berth_tokenizer_encode_pair(model->tokenizer, &asked, (size_t)model->max_tokens, &tokens,
                                    &count, &text->truncated, error));
    struct berth_item *items = task_text_items(text, count);
    struct text_position positions[2] = {{0}};
    text->tokens_read = (int64_t)count;
    for (size_t i = 0; items != NULL && i < count; i++) {
        const struct berth_token *token = &tokens[i].token;
        const int second = asked.pair != NULL && tokens[i].type == 1;
        struct text_position *position = &positions[second];
        items[i] = (struct berth_item){
            .text = token->piece, .start = -1, .end = -1, .id = token->id, .group = tokens[i].type};
        if (token->start >= 0) {
            struct text_position begin = *position;
            text_position_advance(&begin, text->texts[second], token->start);
            *position = begin;
            text_position_advance(&begin, text->texts[second], token->end);
            items[i].start = text_position_in(position, text->settings.unit);
            items[i].end = text_position_in(&begin, text->settings.unit);
        }
    }
    berth_input_tokens_free(tokens);
    return BERTH_OK;
}

static enum berth_status run_row(const struct task_model *model, struct task_text *const *texts,
                                 size_t count, struct berth_error *error) {
    (void)error;
    for (size_t i = 0; i < count; i++) {
        struct berth_error own = {.status = BERTH_OK};
        if (tokenize(model, texts[i], &own) != BERTH_OK) {
            task_text_fail(texts[i], own.status, own.message);
        }
    }
    return BERTH_OK;
}

static void write_row(struct json_line *line, const struct task_model *model,
                      const struct task_text *text) {
    (void)model;
    json_line_open(line, NULL, '[');
    for (size_t i = 0; i < text->item_count; i++) {
        const struct berth_item *item = &text->items[i];
        json_line_open(line, NULL, '{');
        json_line_text(line, "piece", item->text);
        json_line_integer(line, "id", item->id);
        json_line_integer(line, "type", item->group);
        json_line_integer(line, "start", item->start);
        json_line_integer(line, "end", item->end);
        json_line_close(line, '}');
    }
    json_line_close(line, ']');
}

const struct task_row row_tokenize = {
    .about = {.name = "tokenize",
              .pipeline = "tokenization",
              .text = "text",
              .pair = "text_pair",
              .has_items = 1,
              .help = "the pieces of a text as a model reads them; the group is the token type"},
    .job = JOB_TOKENIZE,
    .settings = "offsets overflow",
    .open = open_row,
    .close = close_row,
    .max_tokens = max_tokens,
    .run = run_row,
    .write = write_row,
    .outputs = {{"tokens", TASK_JSON}}};
