// SPDX-License-Identifier: Apache-2.0
// The task tokenize: the input that a model reads for a text or a pair, as pieces, ids, types and
// offsets. Needs no network, so a model opened for it alone has no weights. `berth tokenize` and
// the server's /tokenize run it; cutting the text into pieces is left to text/tokenizer.h.
#include "core/memory.h"
#include "data/pairs/pair_features.h"
#include "task/network.h"
#include "train/engine/inputs.h"

#include <string.h>

// Follows the folder's sentence-transformers settings, as the task embed does.
static enum berth_status open_row(struct task_model *model, const struct task_opening *opening,
                                  struct berth_error *error) {
    (void)opening;
    if (model->path != NULL) {
        TRY(inputs_follow_sentence(&model->config.model, model->path, error));
    }
    return inputs_find_tokenizer(&model->config.model, &model->tokenizer, error);
}

static void add_special(const struct tokenizer *tokenizer, struct task_text *text, int32_t id,
                        int type) {
    text->items[text->item_count++] = (struct berth_item){
        .text = tokenizer_piece(tokenizer, id), .start = -1, .end = -1, .id = id, .group = type};
}

// The tokens of one of the two texts, and the [SEP] after them.
static void add_segment(const struct task_model *model, struct task_text *text, int second,
                        const struct token *tokens, size_t count) {
    const struct tokenizer *tokenizer = model->tokenizer;
    const int type = second && !tokenizer_rules_of(tokenizer)->one_type;
    const enum offset_unit unit = text->settings.unit;
    struct text_position position = {0};
    for (size_t i = 0; i < count; i++) {
        struct berth_item *item = &text->items[text->item_count++];
        *item = (struct berth_item){.text = tokenizer_piece(tokenizer, tokens[i].id),
                                    .start = (int64_t)tokens[i].begin,
                                    .end = (int64_t)tokens[i].end,
                                    .id = tokens[i].id,
                                    .group = type};
        if (unit != OFFSET_CODE_POINTS) { // those are the tokenizer's own
            text_position_advance(&position, text->texts[second], item->start);
            item->start = text_position_in(&position, unit);
            struct text_position end = position; // a token may begin before the last one's end
            text_position_advance(&end, text->texts[second], item->end);
            item->end = text_position_in(&end, unit);
        }
    }
    const struct tokenizer_special special = tokenizer_special_ids(tokenizer);
    const int separators = !second && text->texts[1] != NULL ? special.separators : 1;
    for (int i = 0; i < separators && text->settings.special; i++) {
        add_special(tokenizer, text, special.sep, type);
    }
}

static enum berth_status tokenize(const struct task_model *model, struct task_text *text,
                                  struct token_list *list, struct berth_error *error) {
    const char *first = text->texts[0], *second = text->texts[1];
    const struct tokenizer *tokenizer = model->tokenizer;
    const int has_special = text->settings.special;
    const size_t special = !has_special ? 0
                           : second != NULL
                               ? 2 + (size_t)tokenizer_special_ids(tokenizer).separators
                               : 2;
    if (has_special) {
        const struct tokenizer_special ids = tokenizer_special_ids(tokenizer);
        if (ids.cls < 0 || ids.sep < 0) {
            return error_set(error, BERTH_BAD_DATA,
                             "the vocabulary has no %s; a model's input needs [CLS] and [SEP]",
                             ids.cls < 0 ? "[CLS]" : "[SEP]");
        }
    }
    TRY(tokenizer_encode(tokenizer, first, strlen(first), list, error));
    size_t kept = list->count, second_kept = 0;
    const size_t second_begin = list->count;
    if (second != NULL) {
        TRY(tokenizer_encode(tokenizer, second, strlen(second), list, error));
        second_kept = list->count - second_begin;
    }
    if (has_special) {
        pair_features_truncate(tokenizer, &kept, &second_kept, (size_t)model->max_tokens - special);
    }
    text->truncated = kept + second_kept < list->count;
    text->tokens_read = (int64_t)(kept + second_kept + special);
    if (task_text_items(text, (size_t)text->tokens_read) == NULL) {
        return BERTH_OK; // the text has failed
    }
    text->item_count = 0;
    if (has_special) {
        add_special(tokenizer, text, tokenizer_special_ids(tokenizer).cls, 0);
    }
    add_segment(model, text, 0, list->items, kept);
    if (second != NULL) {
        add_segment(model, text, 1, list->items + second_begin, second_kept);
    }
    return BERTH_OK;
}

static enum berth_status run_row(const struct task_model *model, struct task_text *const *texts,
                                 size_t count, struct berth_error *error) {
    (void)error;
    struct token_list list = {0}; // of one text after another
    for (size_t i = 0; i < count; i++) {
        struct berth_error own;
        list.count = 0;
        if (tokenize(model, texts[i], &list, &own) != BERTH_OK) {
            task_text_fail(texts[i], own.status, own.message);
        }
    }
    token_list_done(&list);
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
    .tasks = {TASKS_OF_ENCODER},
    .job = JOB_TOKENIZE,
    .settings = "offsets overflow add_special_tokens",
    .open = open_row,
    .run = run_row,
    .write = write_row,
    .outputs = {{"tokens", TASK_JSON}}};
