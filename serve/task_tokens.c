// SPDX-License-Identifier: Apache-2.0
// Token classification: entities, or words, with their labels. A word has the label of its first
// piece, as with the aggregation strategy "first" of transformers' pipeline.
#include "core/memory.h"
#include "serve/task.h"

#include <string.h>

static enum berth_status open(struct instance *instance, struct berth_log log,
                              struct berth_error *error) {
    return berth_tagger_open(&instance->config, log, &instance->handle.tagger, error);
}

static void close(struct instance *instance) {
    berth_tagger_close(instance->handle.tagger);
}

static int64_t max_tokens(const struct instance *instance) {
    return berth_tagger_max_length(instance->handle.tagger);
}

static void move_tags(struct item *item, const struct berth_text_status *status,
                      const struct berth_tags *tags) {
    item->tokens_read = status->tokens;
    item->tags = *tags;
    if (status->error.status != BERTH_OK) {
        item_fail(item, status->error.status, status->error.message);
    }
}

static enum berth_status run(const struct instance *instance, struct item *const *items,
                             size_t count, struct berth_error *error) {
    const char **texts = memory_array(count, sizeof *texts);
    struct berth_tags *tags = memory_array_zeroed(count, sizeof *tags);
    struct berth_text_status *statuses = memory_array(count, sizeof *statuses);
    enum berth_status status = texts != NULL && tags != NULL && statuses != NULL
                                   ? BERTH_OK
                                   : error_no_memory(error, count * sizeof *statuses, "tags");
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        texts[i] = items[i]->texts[0];
    }
    if (status == BERTH_OK) {
        status = berth_tag_many(instance->handle.tagger, texts, count, tags, statuses, error);
    }
    for (size_t i = 0; status == BERTH_OK && i < count; i++) {
        move_tags(items[i], &statuses[i], &tags[i]);
    }
    memory_free((void *)texts);
    memory_free(tags);
    memory_free(statuses);
    return status;
}

// --- results -------------------------------------------------------------------------------------

// A labelled range of characters, which is one JSON object of the reply.
struct labelled_span {
    const char *key, *label;
    double score;
    int64_t start, end;
};

static void write_span(struct json_line *line, const struct item *item,
                       struct text_position *position, const struct labelled_span *span) {
    const char *text = item->texts[0];
    text_position_advance(position, text, span->start);
    const struct text_position begin = *position;
    text_position_advance(position, text, span->end);
    char *word = memory_string_of(text + begin.bytes, position->bytes - begin.bytes);
    line->failed |= word == NULL;
    json_line_open(line, NULL, '{');
    json_line_text(line, span->key, span->label);
    json_line_real(line, "score", span->score);
    json_line_text(line, "word", word);
    json_line_integer(line, "start", text_position_in(&begin, item->parameters.unit));
    json_line_integer(line, "end", text_position_in(position, item->parameters.unit));
    json_line_close(line, '}');
    memory_free(word);
}

static void write_entities(struct json_line *line, const struct item *item) {
    struct text_position position = {0};
    for (size_t i = 0; i < item->tags.entity_count; i++) {
        const struct berth_entity *entity = &item->tags.entities[i];
        write_span(line, item, &position,
                   &(struct labelled_span){.key = "entity_group",
                                           .label = entity->type,
                                           .score = entity->score,
                                           .start = entity->start,
                                           .end = entity->end});
    }
}

// Writes the words that are part of an entity.
static void write_words(struct json_line *line, const struct item *item) {
    struct text_position position = {0};
    for (size_t i = 0; i < item->tags.word_count; i++) {
        const struct berth_tagged_word *word = &item->tags.words[i];
        if (word->label != NULL && strcmp(word->label, "O") != 0) {
            write_span(line, item, &position,
                       &(struct labelled_span){.key = "entity",
                                               .label = word->label,
                                               .score = word->score,
                                               .start = word->start,
                                               .end = word->end});
        }
    }
}

static void write(struct json_line *line, const struct instance *instance,
                  const struct item *item) {
    (void)instance;
    json_line_open(line, NULL, '[');
    (item->parameters.by_word ? write_words : write_entities)(line, item);
    json_line_close(line, ']');
}

static const struct task_output outputs[] = {{"entities", "BYTES", task_one, task_put_text},
                                             {NULL}};

const struct served_task served_tokens = {.name = "token-classification",
                                          .architectures = {"ForTokenClassification"},
                                          .uses_windows = 1,
                                          .fields = {"text", NULL},
                                          .open = open,
                                          .close = close,
                                          .max_tokens = max_tokens,
                                          .run = run,
                                          .write = write,
                                          .outputs = outputs};
