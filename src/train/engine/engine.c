// SPDX-License-Identifier: Apache-2.0
// Allocates what a model needs to compute (activations, the batch on host and device, the device's
// scratch memory) for the largest batches that the plan expects, and loads each batch. The plan
// runs the same code without memory, to learn the sizes. update.c and infer.c run the passes.
#include "train/engine/engine.h"

#include "core/arena.h"
#include "core/clock.h"
#include "train/engine/profile.h"

#include <assert.h>

static struct bert model_of(const struct state *state, const struct bert_config *config,
                            const struct engine_shape *shape) {
    struct bert model = state_model(state, config);
    model.max_masked = batch_extent_larger(&shape->train, &shape->infer).masked;
    model.max_length = shape->train.max_length;
    model.attention_dropout = shape->attention_dropout;
    return model;
}

static struct batch_extent worst_of(const struct state *state, const struct bert_config *config,
                                    const struct engine_shape *shape) {
    struct batch_extent worst = batch_extent_larger(&shape->train, &shape->infer);
    worst.labels = bert_target_columns(config);
    const struct bert model = model_of(state, config, shape);
    worst.head_rows = bert_head_rows(&model, worst.tokens, worst.sequences, worst.masked);
    return worst;
}

static struct device_shape device_shape_of(const struct state *state,
                                           const struct bert_config *config,
                                           const struct engine_shape *shape) {
    const struct batch_extent worst = worst_of(state, config, shape);
    const int64_t columns = bert_embedding_size(config);
    return (struct device_shape){
        .batch = worst,
        .hidden = config->hidden_size > columns ? config->hidden_size : columns,
        .intermediate = config->intermediate_size,
        .heads = config->num_attention_heads,
        .types = config->type_vocab_size,
        .outputs = param_head_outputs(state->table->head, config),
        .vocabulary = config->vocab_size,
        .decoder_rows =
            param_head_decodes(state->table->head) ? bert_decoder_rows(worst.masked) : 0,
        .compute = state->compute,
        .training = shape->train.tokens > 0,
        .int8 = state->is_int8,
    };
}

// Activations of training and inference both start at the beginning of the arena.
static enum berth_status carve(const struct bert *model, const struct engine_shape *shape,
                               struct arena *arena, struct bert_activations **training,
                               struct bert_activations **inference, struct berth_error *error) {
    const struct batch_extent *train = &shape->train, *infer = &shape->infer;
    *training = NULL;
    *inference = NULL;
    if (train->tokens > 0) {
        *training = bert_activations_new(
            model, batch_round(train->tokens), train->sequences,
            shape->gradient_checkpointing ? BERT_RECOMPUTE_LAYERS : BERT_KEEP_ALL, arena);
        arena_release(arena, 0);
    }
    if (infer->tokens > 0) {
        *inference = bert_activations_new(model, batch_round(infer->tokens), infer->sequences,
                                          BERT_KEEP_NOTHING, arena);
        arena_release(arena, 0);
    }
    if ((train->tokens > 0 && *training == NULL) || (infer->tokens > 0 && *inference == NULL)) {
        bert_activations_free(*training);
        bert_activations_free(*inference);
        *training = *inference = NULL;
        return error_no_memory(error, 0, "the list of activations");
    }
    return BERTH_OK;
}

enum berth_status engine_measure(const struct state *state, const struct bert_config *config,
                                 const struct engine_shape *shape, struct engine_bytes *bytes,
                                 struct berth_error *error) {
    struct bert model = model_of(state, config, shape);
    struct arena arena = {0};
    struct bert_activations *training, *inference;
    TRY(carve(&model, shape, &arena, &training, &inference, error));
    bert_activations_free(training);
    bert_activations_free(inference);
    struct device_shape worst = device_shape_of(state, config, shape);
    struct batch arrays;
    *bytes = (struct engine_bytes){
        .activations = arena.peak,
        .workspace = state->device->workspace_bytes(state->device, &worst),
        .batches = batch_carve(&arrays, NULL, &worst.batch),
    };
    return BERTH_OK;
}

// Allocates the batch on the host, its copy on the device, and the sums of an update.
static enum berth_status allocate_batches(struct engine *engine, const struct engine_shape *shape,
                                          struct berth_error *error) {
    struct device *device = engine->state->device;
    const struct batch_extent worst = worst_of(engine->state, engine->model.config, shape);
    TRY(packer_init(&engine->packer, &worst, device->wants_word_rows, error));
    TRY(device_batch_init(&engine->batch, device, &worst, error));
    engine->sums = device->memory_new(device, sizeof *engine->sums);
    return engine->sums != NULL
               ? BERTH_OK
               : device_no_memory(device, sizeof *engine->sums, "an update's sums", error);
}

enum berth_status engine_init(struct engine *engine, struct state *state, struct comm *comm,
                              const struct bert_config *config, const struct engine_shape *shape,
                              struct berth_error *error) {
    struct device *device = state->device;
    struct device_shape worst = device_shape_of(state, config, shape);
    struct engine_bytes bytes;
    *engine =
        (struct engine){.state = state, .comm = comm, .model = model_of(state, config, shape)};
    TRY(engine_measure(state, config, shape, &bytes, error));
    TRY(device->reserve(device, &worst, error));
    engine->activations = device->memory_new(device, bytes.activations);
    engine->activation_bytes = bytes.activations;
    if (engine->activations == NULL) {
        return device_no_memory(device, bytes.activations, "the activations", error);
    }
    TRY(allocate_batches(engine, shape, error));
    assert(param_table_check(state->table) == NULL);
    struct arena arena = {.base = engine->activations, .size = bytes.activations};
    return carve(&engine->model, shape, &arena, &engine->training, &engine->inference, error);
}

void engine_done(struct engine *engine) {
    if (engine->state == NULL) {
        return;
    }
    struct device *device = engine->state->device;
    bert_activations_free(engine->training);
    bert_activations_free(engine->inference);
    if (engine->activations != NULL) {
        device->memory_free(device, engine->activations, engine->activation_bytes);
    }
    if (engine->sums != NULL) {
        device->memory_free(device, engine->sums, sizeof *engine->sums);
    }
    device_batch_done(&engine->batch);
    packer_done(&engine->packer);
    *engine = (struct engine){0};
}

const struct batch *engine_load(struct engine *engine, const struct engine_load *load) {
    struct packer *packer = &engine->packer;
    const double begin = engine->profile != NULL ? clock_now() : 0;
    packer_fill(packer, load->source, load->order, load->indices, load->count);
    packer->batch.masked_weight = load->masked_weight;
    assert(batch_check(&packer->batch) == NULL);
    profile_add(engine->profile, "data", "pack", begin);
    return device_batch_upload(&engine->batch, &packer->batch);
}

double engine_forward_flops(const struct engine *engine) {
    const struct batch *batch = &engine->packer.batch;
    double flops = bert_head_flops(&engine->model, batch->token_count, batch->sequence_count,
                                   batch->masked_count);
    for (int64_t i = 0; i < batch->sequence_count; i++) {
        flops += bert_forward_flops(engine->model.config,
                                    batch->cu_seqlens[i + 1] - batch->cu_seqlens[i]);
    }
    return flops;
}
