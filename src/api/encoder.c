// SPDX-License-Identifier: Apache-2.0
// An encoder in memory, for embeddings: texts in, one row of numbers for each out.
//
// Threads may share one (inference.h).
#include "api/arguments.h"
#include "api/inference.h"
#include "berth.h"
#include "core/memory.h"
#include "data/pair_features.h"
#include "train/machine.h"

#include <math.h>
#include <string.h>

#define USUAL_LENGTH 256 // sentence-transformers' for its smaller models

struct berth_encoder {
    struct inference inference;
};

static enum berth_status load(struct inference *inference, const struct berth_log *log,
                              struct berth_error *error) {
    struct berth_config *config = &inference->config;
    TRY(predictor_open(&inference->predictor, config, PARAM_HEAD_NONE, log, error));
    inputs_prefer_length(config, USUAL_LENGTH);
    int64_t tokens = config->predict_batch_size * config->max_seq_length;
    tokens = tokens < INFER_TOKENS ? tokens : INFER_TOKENS;
    if (tokens < config->max_seq_length) {
        tokens = config->max_seq_length;
    }
    // A text has two tokens at least.
    inference->extent = (struct batch_extent){
        .tokens = tokens, .sequences = tokens / 2, .max_length = config->max_seq_length};
    return inference_load(inference, log, error);
}

enum berth_status berth_encoder_open(const struct berth_config *config, struct berth_log log,
                                     struct berth_encoder **encoder, struct berth_error *error) {
    REQUIRE(encoder, error);
    *encoder = NULL;
    REQUIRE_CONFIG(config, error);
    struct berth_encoder *opened = memory_array_zeroed(1, sizeof *opened);
    if (opened == NULL) {
        return error_no_memory(error, sizeof *opened, "an encoder");
    }
    opened->inference.config = *config;
    enum berth_status status = load(&opened->inference, &log, error);
    if (status == BERTH_OK) {
        *encoder = opened;
    } else {
        berth_encoder_close(opened);
    }
    return status;
}

void berth_encoder_close(struct berth_encoder *encoder) {
    if (encoder != NULL) {
        inference_done(&encoder->inference);
        memory_free(encoder);
    }
}

size_t berth_encoder_size(const struct berth_encoder *encoder) {
    return encoder != NULL ? (size_t)encoder->inference.predictor.files.shape.hidden_size : 0;
}

// --- pooling ------------------------------------------------------------------------------------

static void pool_mean(const float *rows, size_t count, size_t size, float *to) {
    for (size_t column = 0; column < size; column++) {
        double sum = 0;
        for (size_t row = 0; row < count; row++) {
            sum += (double)rows[row * size + column];
        }
        to[column] = (float)(sum / (double)count);
    }
}

static void pool_cls(const float *rows, size_t count, size_t size, float *to) {
    (void)count;
    memcpy(to, rows, size * sizeof *to);
}

static void pool_max(const float *rows, size_t count, size_t size, float *to) {
    memcpy(to, rows, size * sizeof *to);
    for (size_t row = 1; row < count; row++) {
        for (size_t column = 0; column < size; column++) {
            to[column] = fmaxf(to[column], rows[row * size + column]);
        }
    }
}

static void (*const pools[])(const float *rows, size_t count, size_t size, float *to) = {
    [BERTH_POOL_MEAN] = pool_mean, [BERTH_POOL_CLS] = pool_cls, [BERTH_POOL_MAX] = pool_max};

static void scale_to_one(float *values, size_t size) {
    double sum = 0;
    for (size_t i = 0; i < size; i++) {
        sum += (double)values[i] * (double)values[i];
    }
    double length = fmax(sqrt(sum), 1e-12); // as sentence-transformers
    for (size_t i = 0; i < size; i++) {
        values[i] = (float)((double)values[i] / length);
    }
}

// --- texts --------------------------------------------------------------------------------------

struct call {
    struct pair_dataset dataset;
    struct pair_feature_set features;
    size_t size;
    struct berth_embedding how;
    float *embeddings;
};

static void take(void *context, size_t index, const float *hidden, int64_t count) {
    struct call *call = context;
    float *to = call->embeddings + index * call->size;
    pools[call->how.pooling](hidden, (size_t)count / call->size, call->size, to);
    if (call->how.normalize) {
        scale_to_one(to, call->size);
    }
}

static enum berth_status run(const struct inference *inference, struct call *call,
                             struct berth_error *error) {
    const struct berth_config *config = &inference->config;
    TRY(pair_features_build(&call->dataset, inference->predictor.files.tokenizer,
                            config->max_seq_length, machine_threads(config), &call->features,
                            error));
    struct packer_source source = {
        .get = pair_features_sequence, .data = &call->features, .count = call->dataset.count};
    struct infer_args args = {.source = &source, .take = take, .context = call};
    return inference_run(inference, args, error);
}

static enum berth_status check_call(const char *const *texts, size_t count, const float *embeddings,
                                    struct berth_embedding how, struct berth_error *error) {
    REQUIRE(embeddings, error);
    TRY(argument_texts(texts, count, error));
    return (unsigned)how.pooling < sizeof pools / sizeof *pools
               ? BERTH_OK
               : error_set(error, BERTH_USAGE, "no pooling has the number %d", (int)how.pooling);
}

enum berth_status berth_encoder_embed(const struct berth_encoder *encoder, const char *const *texts,
                                      size_t count, struct berth_embedding how, float *embeddings,
                                      struct berth_error *error) {
    REQUIRE(encoder, error);
    if (count == 0) {
        return BERTH_OK;
    }
    TRY(check_call(texts, count, embeddings, how, error));
    struct pair_example *examples = memory_array_zeroed(count, sizeof *examples);
    if (examples == NULL) {
        return error_no_memory(error, count * sizeof *examples, "the texts");
    }
    for (size_t i = 0; i < count; i++) {
        examples[i] =
            (struct pair_example){.text = texts[i], .line = i + 1, .label = -1, .value = NAN};
    }
    struct call call = {.dataset = {.examples = examples, .count = count, .name = "the texts"},
                        .size = berth_encoder_size(encoder),
                        .how = how,
                        .embeddings = embeddings};
    enum berth_status status = run(&encoder->inference, &call, error);
    pair_feature_set_done(&call.features);
    memory_free(examples);
    return status;
}
