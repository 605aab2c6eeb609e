// SPDX-License-Identifier: Apache-2.0
// Texts as vectors.
#include "serve/task_rows.h"

#include <math.h>
#include <stdio.h>

static enum berth_status open(struct instance *instance, struct berth_log log,
                              struct berth_error *error) {
    return berth_encoder_open(&instance->config, log, &instance->handle.encoder, error);
}

static void close(struct instance *instance) {
    berth_encoder_close(instance->handle.encoder);
}

static int64_t max_tokens(const struct instance *instance) {
    return berth_encoder_max_length(instance->handle.encoder);
}

static int normalization_of(const struct item *item) {
    return item->parameters.normalize;
}

static enum berth_status embed(const struct instance *instance, struct text_rows *rows,
                               int normalize, struct berth_error *error) {
    struct berth_embedding how = berth_encoder_usual(instance->handle.encoder);
    how.normalize = normalize < 0 ? how.normalize : normalize;
    return berth_encoder_embed_many(instance->handle.encoder, rows->texts, rows->count, how,
                                    rows->rows, rows->statuses, error);
}

static void scale_to_length_1(float *numbers, size_t count) {
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        squares += (double)numbers[i] * numbers[i];
    }
    for (size_t i = 0; i < count && squares > 0; i++) {
        numbers[i] = (float)(numbers[i] / sqrt(squares));
    }
}

// Keeps the first numbers only, as OpenAI's API and text-embeddings-inference do: of length 1 again
// if the whole was.
static void shorten(struct item *item, int normalize) {
    const size_t wanted = (size_t)item->parameters.dimensions;
    char message[80];
    if (wanted > item->number_count) {
        snprintf(message, sizeof message, "dimensions: expected 1 to %zu, found %zu",
                 item->number_count, wanted);
        item_fail(item, BERTH_USAGE, message);
    } else if (wanted < item->number_count) {
        item->number_count = wanted;
        if (normalize) {
            scale_to_length_1(item->numbers, wanted);
        }
    }
}

static void shorten_all(const struct instance *instance, struct item *const *items, size_t count) {
    const int usual = berth_encoder_usual(instance->handle.encoder).normalize;
    for (size_t i = 0; i < count; i++) {
        const struct parameters *asked = &items[i]->parameters;
        if (asked->dimensions > 0 && items[i]->status == BERTH_OK) {
            shorten(items[i], asked->normalize < 0 ? usual : asked->normalize);
        }
    }
}

static enum berth_status run_embeddings(const struct instance *instance, struct item *const *items,
                                        size_t count, struct berth_error *error) {
    const struct text_work work = {.size = berth_encoder_size(instance->handle.encoder),
                                   .first = -1,
                                   .end = 2,
                                   .setting = normalization_of,
                                   .compute = embed};
    TRY(task_run_texts(&work, instance, items, count, error));
    shorten_all(instance, items, count);
    return BERTH_OK;
}

static void write_embedding(struct json_line *line, const struct instance *instance,
                            const struct item *item) {
    json_line_open(line, NULL, '[');
    task_put_numbers(&(struct tensor_writer){.line = line}, instance, item);
    json_line_close(line, ']');
}

static size_t embedding_width(const struct instance *instance) {
    return berth_encoder_size(instance->handle.encoder);
}

static const struct task_output embedding_outputs[] = {
    {"embedding", "FP32", embedding_width, task_put_numbers}, {NULL}};

const struct served_task served_embeddings = {.name = "feature-extraction",
                                              .architectures = {""},
                                              .fields = {"text", NULL},
                                              .open = open,
                                              .close = close,
                                              .max_tokens = max_tokens,
                                              .run = run_embeddings,
                                              .write = write_embedding,
                                              .outputs = embedding_outputs};
