// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include "core/arena.h"
#include "core/memory.h"
#include "train/machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct trainer_rules trainer_rules_of(const struct berth_config *config,
                                      const struct bert_config *shape) {
    double hidden = config->hidden_dropout_prob;
    double head = shape->classifier_dropout;
    hidden = hidden < 0 ? shape->hidden_dropout_prob : hidden;
    double attention = config->attention_probs_dropout_prob;
    return (struct trainer_rules){
        .optimizer = optimizer_of(config),
        .micro_average = config->loss_average != NULL && strcmp(config->loss_average, "micro") == 0,
        .seed = (uint64_t)config->seed,
        .hidden_dropout = hidden,
        .attention_dropout = attention < 0 ? shape->attention_probs_dropout_prob : attention,
        .head_dropout = head < 0 ? hidden : head,
    };
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static struct device_shape device_shape_of(const struct state *state,
                                           const struct bert_config *config,
                                           const struct trainer_shape *shape) {
    return (struct device_shape){
        .max_rows = batch_round(larger(shape->train_tokens, shape->infer_tokens)),
        .max_sequences = larger(shape->train_sequences, shape->infer_sequences),
        .max_length = shape->max_length,
        .hidden = config->hidden_size,
        .intermediate = config->intermediate_size,
        .heads = config->num_attention_heads,
        .vocabulary = config->vocab_size,
        .decoder_rows = bert_decoder_rows(larger(shape->train_masked, shape->infer_masked)),
        .compute = state->compute,
        .training = shape->train_tokens > 0,
    };
}

static struct bert model_of(const struct state *state, const struct bert_config *config,
                            const struct trainer_shape *shape) {
    struct bert model = state_model(state, config);
    model.max_masked = larger(shape->train_masked, shape->infer_masked);
    return model;
}

// Both kinds of activations from the start of the same arena: they are never in use together.
static enum berth_status carve(const struct bert *model, const struct trainer_shape *shape,
                               struct arena *arena, struct bert_activations **training,
                               struct bert_activations **inference, struct berth_error *error) {
    *training = NULL;
    *inference = NULL;
    if (shape->train_tokens > 0) {
        *training = bert_activations_new(
            model, batch_round(shape->train_tokens), shape->train_sequences,
            shape->gradient_checkpointing ? BERT_KEEP_SUMS : BERT_KEEP_ALL, arena);
        arena_release(arena, 0);
    }
    if (shape->infer_tokens > 0) {
        *inference = bert_activations_new(model, batch_round(shape->infer_tokens),
                                          shape->infer_sequences, BERT_KEEP_NOTHING, arena);
        arena_release(arena, 0);
    }
    if ((shape->train_tokens > 0 && *training == NULL) ||
        (shape->infer_tokens > 0 && *inference == NULL)) {
        bert_activations_free(*training);
        bert_activations_free(*inference);
        return error_no_memory(error, 0, "the list of activations");
    }
    return BERTH_OK;
}

enum berth_status trainer_measure(const struct state *state, const struct bert_config *config,
                                  const struct trainer_shape *shape, struct trainer_bytes *bytes,
                                  struct berth_error *error) {
    struct bert model = model_of(state, config, shape);
    struct arena arena = {0};
    struct bert_activations *training, *inference;
    TRY(carve(&model, shape, &arena, &training, &inference, error));
    bert_activations_free(training);
    bert_activations_free(inference);
    struct device_shape worst = device_shape_of(state, config, shape);
    *bytes = (struct trainer_bytes){
        .activations = arena.peak,
        .workspace = state->device->workspace_bytes(state->device, &worst),
        // ids, types, positions, sequences of each row; offset, place, labels and target of each
        // sequence; row and label of each masked token
        .batches = (size_t)worst.max_rows * 16 + (size_t)worst.max_sequences * 32 +
                   (size_t)model.max_masked * 8,
    };
    return BERTH_OK;
}

enum berth_status trainer_init(struct trainer *trainer, struct state *state,
                               const struct bert_config *config, const struct trainer_rules *rules,
                               const struct trainer_shape *shape, struct berth_error *error) {
    *trainer = (struct trainer){.state = state, .rules = *rules};
    trainer->model = model_of(state, config, shape);
    struct device *device = state->device;
    struct trainer_bytes bytes;
    if (shape->train_tokens > 0) {
        TRY(optimizer_check(&rules->optimizer, state->table, error));
    }
    TRY(trainer_measure(state, config, shape, &bytes, error));
    struct device_shape worst = device_shape_of(state, config, shape);
    TRY(device->reserve(device, &worst, error));
    enum berth_status status;
    trainer->activation_bytes = bytes.activations;
    trainer->activations = device->memory_new(device, bytes.activations);
    const struct packer_limits limits = {worst.max_rows, worst.max_sequences,
                                         trainer->model.max_masked};
    trainer->losses = memory_array((size_t)larger(limits.sequences, limits.masked), sizeof(float));
    if (trainer->activations == NULL || trainer->losses == NULL) {
        status = error_no_memory(error, bytes.activations, "the activations");
        goto done;
    }
    TRY_DONE(packer_init(&trainer->packer, &limits, error));
    struct arena arena = {.base = trainer->activations, .size = bytes.activations};
    TRY_DONE(carve(&trainer->model, shape, &arena, &trainer->training, &trainer->inference, error));
    return BERTH_OK;
done:
    trainer_done(trainer);
    return status;
}

void trainer_done(struct trainer *trainer) {
    if (trainer->state == NULL) {
        return;
    }
    struct device *device = trainer->state->device;
    bert_activations_free(trainer->training);
    bert_activations_free(trainer->inference);
    if (trainer->activations != NULL) {
        device->memory_free(device, trainer->activations, trainer->activation_bytes);
    }
    packer_done(&trainer->packer);
    memory_free(trainer->losses);
    *trainer = (struct trainer){0};
}

// --- one update ---------------------------------------------------------------------------------

static double sum_losses(struct trainer *trainer, const float *losses, int64_t count) {
    struct device *device = trainer->state->device;
    device->download(device, trainer->losses, losses, (size_t)count * sizeof(float));
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)trainer->losses[i];
    }
    return sum;
}

static void count_batch(const struct trainer *trainer, const struct batch *batch,
                        struct update_result *result) {
    result->tokens += batch->token_count;
    result->masked += batch->masked_count;
    result->micro_batches++;
    result->needed_flops += 3 * bert_masked_flops(&trainer->model, batch->masked_count);
    for (int64_t i = 0; i < batch->sequence_count; i++) {
        int64_t length = batch->cu_seqlens[i + 1] - batch->cu_seqlens[i];
        result->needed_flops += 3 * bert_forward_flops(trainer->model.config, length);
    }
}

// What the loss of a sequence and that of a masked token of one micro-batch count in the update's.
struct micro_weight {
    double sequence, masked;
    double scale; // what the gradient is multiplied with
};

// Adds the micro-batch's share of the update's loss; returns whether it is finite.
static int add_losses(struct trainer *trainer, struct micro_weight weight,
                      struct update_result *result) {
    const struct batch *batch = &trainer->packer.batch;
    double sum = weight.sequence *
                 sum_losses(trainer, bert_losses(trainer->training), batch->sequence_count);
    double masked = 0;
    if (batch->masked_count > 0) {
        masked = weight.masked *
                 sum_losses(trainer, bert_masked_losses(trainer->training), batch->masked_count);
    }
    result->masked_loss += masked;
    result->loss += sum + masked;
    return isfinite(sum + masked);
}

// Forward and backward of one micro-batch; its share of the update's loss.
static void run_micro(struct trainer *trainer, const struct bert_dropout *dropout,
                      struct micro_weight weight, struct update_result *result) {
    struct batch *batch = &trainer->packer.batch;
    double begin = machine_seconds();
    batch->masked_weight = (float)(weight.masked / weight.sequence);
    bert_forward(&trainer->model, trainer->training, batch, dropout);
    double middle = machine_seconds();
    bert_backward(&trainer->model, trainer->training, batch, dropout,
                  (float)(weight.sequence * weight.scale));
    if (!add_losses(trainer, weight, result) && result->nonfinite_place < 0) {
        result->nonfinite_place = bert_first_nonfinite(&trainer->model, trainer->training, batch);
        result->nonfinite_micro_batch = result->micro_batches;
    }
    result->forward_seconds += middle - begin;
    result->backward_seconds += machine_seconds() - middle;
    count_batch(trainer, batch, result);
}

static int64_t count_masked(const struct update_args *args) {
    int64_t masked = 0;
    for (size_t i = 0; i < args->count; i++) {
        masked += args->source->get(args->source->data, args->order[i]).masked_count;
    }
    return masked;
}

// A mean of means needs the number of micro-batches before the first of them runs.
static size_t count_micro(const struct update_args *args) {
    size_t micro_batches = 0;
    for (size_t done = 0; done < args->count; micro_batches++) {
        done += batching_cut(args->batching, args->source, args->order + done, args->count - done);
    }
    return micro_batches;
}

// What the means of an update divide by; known before its first micro-batch runs.
struct divisors {
    double sequences, masked; // of the update; 0: those of each micro-batch,
    double micro_batches;     // whose means are averaged; else 1
};

static struct divisors divisors_of(const struct trainer *trainer, const struct update_args *args) {
    if (trainer->rules.micro_average) {
        return (struct divisors){.micro_batches = (double)count_micro(args)};
    }
    int64_t masked = trainer->model.max_masked > 0 ? count_masked(args) : 0;
    return (struct divisors){(double)args->count, (double)masked, 1};
}

static struct micro_weight weight_of(const struct divisors *by, const struct batch *batch) {
    double sequences = by->sequences > 0 ? by->sequences : (double)batch->sequence_count;
    double masked = by->sequences > 0 ? by->masked : (double)batch->masked_count;
    return (struct micro_weight){
        .sequence = 1 / (sequences * by->micro_batches),
        .masked = masked > 0 ? 1 / (masked * by->micro_batches) : 0,
    };
}

static double loss_scale_of(const struct update_args *args) {
    return args->loss_scale > 0 ? args->loss_scale : 1;
}

static void run_backward(struct trainer *trainer, const struct update_args *args,
                         struct update_result *result) {
    struct bert_dropout dropout = {.seed = trainer->rules.seed,
                                   .step = (uint32_t)args->step,
                                   .hidden_probability = trainer->rules.hidden_dropout,
                                   .attention_probability = trainer->rules.attention_dropout,
                                   .head_probability = trainer->rules.head_dropout};
    const struct divisors by = divisors_of(trainer, args);
    for (size_t done = 0; done < args->count;) {
        if (args->stop != NULL && *args->stop >= 2) {
            result->stopped = 1;
            return;
        }
        const uint32_t *order = args->order + done;
        size_t cut = batching_cut(args->batching, args->source, order, args->count - done);
        packer_fill(&trainer->packer, args->source, order, cut, (int64_t)done);
        struct micro_weight weight = weight_of(&by, &trainer->packer.batch);
        weight.scale = loss_scale_of(args);
        run_micro(trainer, &dropout, weight, result);
        done += cut;
    }
}

static void run_step(struct trainer *trainer, const struct update_args *args,
                     struct update_result *result) {
    const struct state *state = trainer->state;
    const struct param_table *table = state->table;
    double begin = machine_seconds();
    struct grad_stats stats;
    const double scale = 1 / loss_scale_of(args);
    state->device->grad_norm(state->device, state->stats, state->gradients, table->total, scale);
    state->device->download(state->device, &stats, state->stats, sizeof stats);
    result->grad_norm = sqrt(stats.sum_squares);
    if (isfinite(result->grad_norm) && isfinite(result->loss)) {
        const struct optimizer_step step = {.number = args->step - args->skipped,
                                            .learning_rate = args->learning_rate,
                                            .gradient_scale = scale,
                                            .grad_norm = result->grad_norm};
        optimizer_step(&trainer->rules.optimizer, state, &step);
    }
    result->step_seconds = machine_seconds() - begin;
}

enum berth_status trainer_update(struct trainer *trainer, const struct update_args *args,
                                 struct update_result *result, struct berth_error *error) {
    *result = (struct update_result){.nonfinite_place = -1};
    run_backward(trainer, args, result);
    if (!result->stopped) {
        run_step(trainer, args, result);
    }
    return trainer->state->device->status(trainer->state->device, error);
}

void trainer_discard(struct trainer *trainer) {
    const struct state *state = trainer->state;
    state->device->zero(state->device, state->gradients,
                        (size_t)state->table->total * sizeof *state->gradients);
}

// --- not finite ---------------------------------------------------------------------------------

static int is_finite(const float *values, const struct param *param) {
    const float *own = values + param->offset;
    for (int64_t i = 0; i < param->rows * param->cols; i++) {
        if (!isfinite(own[i])) {
            return 0;
        }
    }
    return 1;
}

// How late the backward pass reaches a parameter: head and final norm first, the embeddings last.
static int64_t backward_rank(const struct param *param, int64_t layers) {
    int layer;
    if (sscanf(param->name, "bert.encoder.layer.%d.", &layer) == 1) {
        return layers - layer;
    }
    int is_embedding = strncmp(param->name, "bert.embeddings.", 16) == 0;
    return is_embedding ? layers + 1 : 0;
}

static const struct param *first_bad(const struct trainer *trainer, const float *values,
                                     size_t *bad) {
    const struct param_table *table = trainer->state->table;
    int64_t layers = trainer->model.config->num_hidden_layers;
    const struct param *first = NULL;
    *bad = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct param *param = &table->params[i];
        if (is_finite(values, param)) {
            continue;
        }
        ++*bad;
        if (first == NULL || backward_rank(param, layers) < backward_rank(first, layers)) {
            first = param;
        }
    }
    return first;
}

static int blame(const struct trainer *trainer, const float *values, const char *what, char *text,
                 size_t size) {
    size_t bad;
    const struct param *param = first_bad(trainer, values, &bad);
    if (param != NULL) {
        snprintf(text, size, "the %s of %s is not finite (%zu of %zu parameters are affected)",
                 what, param->name, bad, trainer->state->table->count);
    }
    return param != NULL;
}

static int blame_forward(const struct trainer *trainer, const struct update_result *result,
                         char *text, size_t size) {
    int64_t layers = trainer->model.config->num_hidden_layers, place = result->nonfinite_place;
    char name[64] = "bert.embeddings";
    if (place > layers) {
        snprintf(name, sizeof name, "%s", param_head_row(trainer->model.table->head)->name);
    } else if (place > 0) {
        snprintf(name, sizeof name, "bert.encoder.layer.%" PRId64, place - 1);
    }
    if (place >= 0) {
        snprintf(text, size,
                 "the output of %s is the first that is not finite (micro-batch %" PRId64
                 " of the update; all weights are finite)",
                 name, result->nonfinite_micro_batch + 1);
    }
    return place >= 0;
}

enum berth_status trainer_blame(const struct trainer *trainer, const struct update_result *result,
                                char *text, size_t size, struct berth_error *error) {
    const struct state *state = trainer->state;
    float *weights = NULL, *gradients = NULL;
    enum berth_status status;
    TRY_DONE(state_borrow(state, state->master, 1, &weights, error));
    TRY_DONE(state_borrow(state, state->gradients, 1, &gradients, error));
    if (!blame(trainer, weights, "value", text, size) &&
        !blame_forward(trainer, result, text, size) &&
        !blame(trainer, gradients, "gradient", text, size)) {
        snprintf(text, size, "the sum of the gradient's squares is too large for a double");
    }
done:
    state_give_back(state, state->master, weights);
    state_give_back(state, state->gradients, gradients);
    return status;
}
