// SPDX-License-Identifier: Apache-2.0
// Texts as vectors.
#include "serve/task_rows.h"

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

static enum berth_status run_embeddings(const struct instance *instance, struct item *const *items,
                                        size_t count, struct berth_error *error) {
    const struct text_work work = {.size = berth_encoder_size(instance->handle.encoder),
                                   .first = -1,
                                   .end = 2,
                                   .setting = normalization_of,
                                   .compute = embed};
    return task_run_texts(&work, instance, items, count, error);
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
