// SPDX-License-Identifier: Apache-2.0
// Masked words: the most likely words for each [MASK] of a text.
#include "core/memory.h"
#include "serve/task.h"

#include <string.h>

#define TOP_DEFAULT 5
// Each word comes with the whole text, so a short request can have a very long reply.
#define SEQUENCES_MAX ((size_t)16 << 20)

static enum berth_status open(struct instance *instance, struct berth_log log,
                              struct berth_error *error) {
    return berth_filler_open(&instance->config, log, &instance->handle.filler, error);
}

static void close(struct instance *instance) {
    berth_filler_close(instance->handle.filler);
}

static int64_t max_tokens(const struct instance *instance) {
    return berth_filler_max_length(instance->handle.filler);
}

static size_t top_of(const struct item *item) {
    return item->parameters.top > 0 ? (size_t)item->parameters.top : TOP_DEFAULT;
}

static size_t count_masks(const char *text) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, "[MASK]")) != NULL; at++) {
        count++;
    }
    return count;
}

static enum berth_status check(const struct item *items, size_t count, struct berth_error *error) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const char *text = items[i].texts[0];
        const size_t words = count_masks(text) * top_of(&items[i]), length = strlen(text);
        bytes += length > 0 && words > SEQUENCES_MAX / length ? SEQUENCES_MAX : words * length;
        if (bytes >= SEQUENCES_MAX) {
            return error_set(error, BERTH_USAGE,
                             "the reply would exceed %zu MiB: it has the whole text for each word "
                             "of each [MASK]",
                             SEQUENCES_MAX >> 20);
        }
    }
    return BERTH_OK;
}

// --- running -------------------------------------------------------------------------------------

// Texts with the same top_k, and their results.
struct group {
    struct item **items; // [count], as all below
    const char **texts;
    struct berth_filled *filled;
    struct berth_text_status *statuses;
    size_t count;
};

static void gather(struct group *group, size_t top, struct item *const *items, size_t count) {
    group->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (top_of(items[i]) == top) {
            group->texts[group->count] = items[i]->texts[0];
            group->items[group->count++] = items[i];
        }
    }
}

// A top_k that exceeds the vocabulary concerns this group only.
static enum berth_status run_group(const struct instance *instance, struct group *group, size_t top,
                                   struct berth_error *error) {
    const enum berth_status status =
        berth_fill_many(instance->handle.filler, group->texts, group->count, top, group->filled,
                        group->statuses, error);
    if (status == BERTH_USAGE) {
        for (size_t i = 0; i < group->count; i++) {
            item_fail(group->items[i], status, error->message);
        }
        return BERTH_OK;
    }
    TRY(status);
    for (size_t i = 0; i < group->count; i++) {
        struct item *item = group->items[i];
        const struct berth_error *own = &group->statuses[i].error;
        item->tokens_read = group->statuses[i].tokens;
        item->truncated = group->statuses[i].truncated;
        item->filled = group->filled[i];
        if (own->status != BERTH_OK) {
            item_fail(item, own->status, own->message);
        }
    }
    return BERTH_OK;
}

// One group after the other, in ascending order of top_k.
static enum berth_status run_groups(const struct instance *instance, struct group *group,
                                    struct item *const *items, size_t count,
                                    struct berth_error *error) {
    for (size_t last = 0, top = 0; last != SIZE_MAX; last = top) {
        top = SIZE_MAX;
        for (size_t i = 0; i < count; i++) {
            const size_t own = top_of(items[i]);
            top = own > last && own < top ? own : top;
        }
        gather(group, top, items, count);
        if (group->count > 0) {
            TRY(run_group(instance, group, top, error));
        }
    }
    return BERTH_OK;
}

static enum berth_status run(const struct instance *instance, struct item *const *items,
                             size_t count, struct berth_error *error) {
    struct group group = {.items = memory_array(count, sizeof *group.items),
                          .texts = memory_array(count, sizeof *group.texts),
                          .filled = memory_array(count, sizeof *group.filled),
                          .statuses = memory_array(count, sizeof *group.statuses)};
    enum berth_status status =
        group.items != NULL && group.texts != NULL && group.filled != NULL && group.statuses != NULL
            ? run_groups(instance, &group, items, count, error)
            : error_no_memory(error, count * sizeof *group.statuses, "words");
    memory_free(group.items);
    memory_free((void *)group.texts);
    memory_free(group.filled);
    memory_free(group.statuses);
    return status;
}

// --- results -------------------------------------------------------------------------------------

static void write_word(struct json_line *line, const struct berth_word *word) {
    json_line_open(line, NULL, '{');
    json_line_real(line, "score", word->score);
    json_line_integer(line, "token", word->token);
    json_line_text(line, "token_str", word->token_str);
    json_line_text(line, "sequence", word->sequence);
    json_line_close(line, '}');
}

// A list of words, or of such lists if the text has several masks.
static void write(struct json_line *line, const struct instance *instance,
                  const struct item *item) {
    const struct berth_filled *filled = &item->filled;
    (void)instance;
    if (filled->masks > 1) {
        json_line_open(line, NULL, '[');
    }
    for (size_t mask = 0; mask < filled->masks; mask++) {
        json_line_open(line, NULL, '[');
        for (size_t i = 0; i < filled->top_k; i++) {
            write_word(line, &filled->words[mask * filled->top_k + i]);
        }
        json_line_close(line, ']');
    }
    if (filled->masks > 1) {
        json_line_close(line, ']');
    }
}

static const struct task_output outputs[] = {{"words", "BYTES", task_one, task_put_text}, {NULL}};

// Pre-training's checkpoints have the same head.
const struct served_task served_masks = {.name = "fill-mask",
                                         .architectures = {"ForMaskedLM", "ForPreTraining"},
                                         .fields = {"text", NULL},
                                         .open = open,
                                         .close = close,
                                         .max_tokens = max_tokens,
                                         .check = check,
                                         .run = run,
                                         .write = write,
                                         .outputs = outputs};
