// SPDX-License-Identifier: Apache-2.0
// Carves the activations of a batch from an arena.
//
// Nothing needs clearing: every operation writes all rows of its output, including slack
// (device.h). So buffers may share memory with other activations and with buffers of other dtypes.
#include "model/activations.h"

#include "core/check.h"
#include "core/memory.h"
#include "model/architectures.h"
#include "model/heads.h"

#include <assert.h>

// The state of carving, and the temporaries that layers share.
struct carving {
    struct arena *arena;
    const struct bert_config *config;
    enum dtype compute;
    int64_t rows;
    int64_t mask_words; // words of a row of attention's masks; 0: not kept
    int64_t row_unit;   // the stride of the decoder's logits is a multiple of this
    enum bert_keep keep;
    struct mat streams[2]; // f32 residual streams, used alternately
    struct mat scratch;    // f32 output of norms of which only y_compute is read
    struct mat operand;    // output of norms in the compute dtype; only for inference in bf16
    void *workspace;       // qkv and context, then gelu; only for inference
};

static struct mat carve_rows(const struct carving *carving, int64_t rows, int64_t cols,
                             enum dtype dtype) {
    size_t bytes = (size_t)(rows * cols) * dtype_size(dtype);
    return mat_of(arena_alloc(carving->arena, bytes), rows, cols, dtype);
}

static struct mat carve(const struct carving *carving, int64_t cols, enum dtype dtype) {
    return carve_rows(carving, carving->rows, cols, dtype);
}

// A matrix that starts after `first` columns' worth of rows in `base` (NULL while measuring).
static struct mat overlay(const struct carving *carving, void *base, int64_t first, int64_t cols) {
    size_t offset = (size_t)(carving->rows * first) * dtype_size(carving->compute);
    void *data = base ? (char *)base + offset : NULL;
    return mat_of(data, carving->rows, cols, carving->compute);
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

// Whether a layer's forward pass writes to the streams. In f32 it does not in a post-layer-norm
// model: there the norms' outputs, which are kept or restored, are the residual stream.
static int uses_streams(const struct carving *carving) {
    return carving->compute != DTYPE_F32 || carving->config->pre_layer_norm;
}

// The gradients reuse the streams' memory, unless layers are recomputed at the same time.
static void carve_gradients(const struct carving *carving, struct bert_activations *activations) {
    const int64_t hidden = carving->config->hidden_size;
    struct mat gradients[2];
    for (int i = 0; i < 2; i++) {
        int shared = carving->keep == BERT_KEEP_ALL || !uses_streams(carving);
        gradients[i] = shared ? carving->streams[i] : carve(carving, hidden, DTYPE_F32);
    }
    activations->dresidual = gradients[0];
    activations->dbranch = gradients[1];
    activations->dsublayer = overlay(carving, activations->sublayer.data, 0, hidden);
}

static void carve_temporaries(struct carving *carving, struct bert_activations *activations) {
    const int64_t hidden = carving->config->hidden_size;
    const int64_t inner = carving->config->intermediate_size;
    activations->sublayer = carving->scratch = carve(carving, hidden, DTYPE_F32);
    for (int i = 0; i < 2; i++) {
        carving->streams[i] = carve(carving, hidden, DTYPE_F32);
    }
    if (carving->keep != BERT_KEEP_NOTHING) {
        carve_gradients(carving, activations);
        return;
    }
    if (carving->compute != DTYPE_F32) {
        carving->operand = carve(carving, hidden, carving->compute);
    }
    carving->workspace = carve(carving, larger(4 * hidden, inner), carving->compute).data;
}

// `stream` is the index of the residual stream that passes through the norm.
static struct norm_buffers carve_norm(const struct carving *carving, int stream) {
    const int64_t hidden = carving->config->hidden_size;
    const int pre = carving->config->pre_layer_norm;
    struct norm_buffers norm = {.y = pre ? carving->scratch : carving->streams[stream],
                                .y_compute = carving->operand};
    if (pre) {
        norm.sum = carving->streams[stream];
    }
    if (carving->keep != BERT_KEEP_NOTHING) {
        if (carving->compute == DTYPE_F32) {
            norm.y = carve(carving, hidden, DTYPE_F32);
        } else {
            norm.y_compute = carve(carving, hidden, carving->compute);
        }
        norm.xhat = carve(carving, hidden, carving->compute);
        norm.rstd = carve(carving, 1, DTYPE_F32).data;
    }
    return norm;
}

// Excludes the output norm.
static struct layer_buffers keep_layer(const struct carving *carving) {
    const int64_t hidden = carving->config->hidden_size;
    const int64_t inner = carving->config->intermediate_size;
    const int64_t words = carving->config->num_attention_heads * carving->mask_words;
    const size_t bytes = (size_t)(carving->rows * words) * sizeof(uint16_t);
    struct layer_buffers layer = {
        .qkv = carve(carving, 3 * hidden, carving->compute),
        .context = carve(carving, hidden, carving->compute),
        .lse = carve(carving, carving->config->num_attention_heads, DTYPE_F32).data,
        .masks = bytes == 0 ? NULL : arena_alloc(carving->arena, bytes),
        .attention_norm = carve_norm(carving, 1),
    };
    void *both = carve(carving, larger(2 * inner, 3 * hidden), carving->compute).data;
    layer.u = overlay(carving, both, 0, inner);
    layer.gelu = overlay(carving, both, inner, inner);
    layer.du = layer.gelu;
    layer.dqkv = overlay(carving, both, 0, 3 * hidden);
    layer.dcontext = norm_operand(&layer.attention_norm);
    return layer;
}

static void carve_layers(const struct carving *carving, struct layer_buffers *layers) {
    const int64_t count = carving->config->num_hidden_layers;
    for (int64_t i = 0; i < count; i++) {
        if (carving->keep == BERT_KEEP_NOTHING) {
            const int64_t hidden = carving->config->hidden_size;
            struct layer_buffers layer = {
                .qkv = overlay(carving, carving->workspace, 0, 3 * hidden),
                .context = overlay(carving, carving->workspace, 3 * hidden, hidden),
                .gelu = overlay(carving, carving->workspace, 0, carving->config->intermediate_size),
                .attention_norm = carve_norm(carving, 1),
                .output_norm = carve_norm(carving, 0),
            };
            layers[i] = layer;
        } else {
            layers[i] = keep_layer(carving);
            layers[i].output_norm = carve_norm(carving, 0);
        }
    }
}

// All layers share the memory of one, except for the sums. Output norms alternate: while one
// layer's is in use, that of the layer below is its input.
static void carve_sums(const struct carving *carving, struct layer_buffers *layers) {
    const int64_t count = carving->config->num_hidden_layers;
    const struct layer_buffers layer = keep_layer(carving);
    const struct norm_buffers norms[2] = {carve_norm(carving, 0), carve_norm(carving, 0)};
    for (int64_t i = 0; i < count; i++) {
        layers[i] = layer;
        layers[i].output_norm = norms[i % 2];
        layers[i].output_norm.sum = carve(carving, carving->config->hidden_size, DTYPE_F32);
    }
}

// The layers' input is a norm's output without a norm.
static struct norm_buffers carve_projection(const struct carving *carving) {
    const int64_t hidden = carving->config->hidden_size;
    struct norm_buffers input = {.y = carving->streams[0], .y_compute = carving->operand};
    if (carving->keep != BERT_KEEP_NOTHING && carving->compute == DTYPE_F32) {
        input.y = carve(carving, hidden, DTYPE_F32);
    } else if (carving->keep != BERT_KEEP_NOTHING) {
        input.y_compute = carve(carving, hidden, carving->compute);
    }
    return input;
}

static void carve_pooler(const struct carving *carving, int64_t rows,
                         struct class_buffers *pooler) {
    const int64_t hidden = carving->config->hidden_size;
    pooler->first = carve_rows(carving, rows, hidden, DTYPE_F32);
    pooler->active = carve_rows(carving, rows, hidden, DTYPE_F32);
    pooler->pooled = carve_rows(carving, rows, hidden, DTYPE_F32);
    if (carving->keep != BERT_KEEP_NOTHING) {
        pooler->dpooled = carve_rows(carving, rows, hidden, DTYPE_F32);
        if (bert_architecture(carving->config)->class_activation != ACTIVATION_TANH) {
            pooler->u = carve_rows(carving, rows, hidden, DTYPE_F32);
        }
    }
}

int64_t bert_decoder_rows(int64_t masked) {
    const int64_t rows = batch_round(masked);
    return rows < DECODER_ROWS ? rows : DECODER_ROWS;
}

// Matrix products on a GPU need rows aligned to 16 bytes.
static struct mat carve_logits(const struct carving *carving, int64_t rows, enum dtype dtype) {
    const int64_t words = carving->config->vocab_size, unit = carving->row_unit;
    return mat_columns(carve_rows(carving, rows, (words + unit - 1) / unit * unit, dtype), 0,
                       words);
}

static void carve_decoder(const struct carving *carving, int64_t rows,
                          struct decoder_buffers *decoder) {
    const int64_t hidden = carving->config->hidden_size;
    const int64_t cols = bert_embedding_size(carving->config);
    const int64_t chunk = bert_decoder_rows(rows);
    decoder->masked = carve_rows(carving, rows, hidden, DTYPE_F32);
    decoder->u = carve_rows(carving, rows, cols, DTYPE_F32);
    void *both = carve_rows(carving, rows, larger(hidden, cols), DTYPE_F32).data;
    decoder->gelu = mat_of(both, rows, cols, DTYPE_F32);
    decoder->dmasked = mat_of(both, rows, hidden, DTYPE_F32);
    decoder->norm = (struct norm_buffers){.y = carve_rows(carving, rows, cols, DTYPE_F32),
                                          .xhat = carve_rows(carving, rows, cols, DTYPE_F32),
                                          .rstd = carve_rows(carving, rows, 1, DTYPE_F32).data};
    decoder->dnorm = carve_rows(carving, rows, cols, DTYPE_F32);
    decoder->logits = decoder->dlogits = carve_logits(carving, chunk, DTYPE_F32);
    if (carving->compute != DTYPE_F32) {
        decoder->norm.y_compute = carve_rows(carving, rows, cols, carving->compute);
        decoder->dlogits = carve_logits(carving, chunk, carving->compute);
    }
    decoder->losses = carve_rows(carving, rows, 1, DTYPE_F32).data;
    decoder->hits = arena_alloc(carving->arena, (size_t)rows);
}

static void carve_tokens(const struct carving *carving, int64_t rows, int64_t outputs,
                         struct token_buffers *tokens) {
    tokens->logits = carve_rows(carving, rows, outputs, DTYPE_F32);
    tokens->losses = carve_rows(carving, rows, 1, DTYPE_F32).data;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void carve_embedding(const struct carving *carving, int64_t sequences,
                            struct embedding_buffers *buffers) {
    const struct bert_embedding *embedding = &carving->config->embedding;
    const int64_t hidden = carving->config->hidden_size, rows = batch_round(sequences);
    int64_t cosines = 0, reverse = 0;
    for (int64_t i = 0; i < embedding->objective_count; i++) {
        const struct bert_objective *objective = &embedding->objectives[i];
        const int64_t group = smaller(objective->group, sequences / objective->texts);
        if (objective->loss == BERT_NEGATIVES) {
            cosines = larger(cosines, group * group * (objective->texts - 1));
            reverse = larger(reverse, objective->is_symmetric ? group * group : 0);
        }
    }
    buffers->unit = carve_rows(carving, rows, hidden, DTYPE_F32);
    buffers->dunit = carve_rows(carving, rows, hidden, DTYPE_F32);
    buffers->lengths = carve_rows(carving, rows, 1, DTYPE_F32).data;
    buffers->cosines = carve_rows(carving, cosines, 1, DTYPE_F32).data;
    buffers->reverse_cosines = carve_rows(carving, reverse, 1, DTYPE_F32).data;
}

static void carve_head(const struct carving *carving, const struct bert *model,
                       struct bert_activations *activations) {
    const enum param_head kind = model->table->head;
    const struct bert_head *head = activations->head;
    const int64_t rows = head->per_token ? carving->rows : batch_round(activations->max_sequences);
    const int64_t outputs = param_head_outputs(kind, carving->config);
    if (kind == PARAM_HEAD_EMBEDDING && carving->keep != BERT_KEEP_NOTHING) {
        carve_embedding(carving, activations->max_sequences, &activations->embedding_loss);
    }
    if (model->table->pooler_weight >= 0) {
        carve_pooler(carving, rows, &activations->pooler);
    }
    if (param_head_drops_input(kind, carving->config) && carving->keep != BERT_KEEP_NOTHING) {
        activations->dropped = carve(carving, carving->config->hidden_size, DTYPE_F32);
    }
    if (kind == PARAM_HEAD_TOKEN && carving->keep != BERT_KEEP_NOTHING) {
        carve_tokens(carving, batch_round(model->max_masked), outputs, &activations->tokens);
    }
    if (param_head_decodes(kind)) {
        carve_decoder(carving, batch_round(model->max_masked), &activations->decoder);
    }
    activations->logits = carve_rows(carving, rows, outputs, DTYPE_F32);
    if (carving->keep != BERT_KEEP_NOTHING) {
        activations->dlogits = carve_rows(carving, rows, outputs, DTYPE_F32);
        activations->losses = arena_alloc(
            carving->arena,
            (size_t)(activations->max_sequences * bert_loss_count(model)) * sizeof(float));
    }
}

static void carve_all(struct carving *carving, const struct bert *model,
                      struct bert_activations *activations) {
    carve_temporaries(carving, activations);
    if (carving->config->pre_layer_norm) {
        // The embedding of a pre-layer-norm model is the residual stream and no operand.
        struct norm_buffers embedding = {.y = carving->streams[0]};
        if (carving->keep != BERT_KEEP_NOTHING) {
            embedding.xhat = carve(carving, carving->config->hidden_size, carving->compute);
            embedding.rstd = carve(carving, 1, DTYPE_F32).data;
        }
        activations->embedding = embedding;
        activations->first_input = carve_norm(carving, 0);
    } else if (model->table->projection_weight >= 0) {
        // The embedding that a projection reads, in f32.
        const int64_t cols = bert_embedding_size(carving->config);
        struct norm_buffers embedding = {.y = carve(carving, cols, DTYPE_F32)};
        if (carving->keep != BERT_KEEP_NOTHING) {
            embedding.xhat = carve(carving, cols, carving->compute);
            embedding.rstd = carve(carving, 1, DTYPE_F32).data;
        }
        activations->embedding = embedding;
        activations->first_input = carve_projection(carving);
        if (carving->keep != BERT_KEEP_NOTHING) {
            activations->dembedding = carve(carving, activations->embedding.y.cols, DTYPE_F32);
        }
    } else {
        activations->embedding = carve_norm(carving, 0);
    }
    if (carving->keep == BERT_RECOMPUTE_LAYERS) {
        carve_sums(carving, activations->layers);
    } else {
        carve_layers(carving, activations->layers);
    }
    const int64_t hidden = carving->config->hidden_size;
    const int64_t rows = batch_round(
        bert_head_rows(model, carving->rows, activations->max_sequences, model->max_masked));
    if (rows > 0) {
        activations->head_context = carve_rows(carving, rows, hidden, carving->compute);
        activations->head_stream = carve_rows(carving, rows, hidden, DTYPE_F32);
    }
    carve_head(carving, model, activations);
}

static int64_t mask_words(const struct bert *model) {
    const int keeps = model->device->keeps_masks && model->attention_dropout > 0;
    return keeps ? attention_mask_words(model->max_length) : 0;
}

struct bert_activations *bert_activations_new(const struct bert *model, int64_t max_rows,
                                              int64_t max_sequences, enum bert_keep keep,
                                              struct arena *device_arena) {
    struct bert_activations *activations = memory_array_zeroed(1, sizeof *activations);
    if (!activations) {
        return NULL;
    }
    size_t layer_count = (size_t)model->config->num_hidden_layers;
    activations->layers = memory_array_zeroed(layer_count, sizeof *activations->layers);
    if (!activations->layers) {
        memory_free(activations);
        return NULL;
    }
    activations->head = bert_head_of(model->table->head);
    activations->keep = keep;
    activations->pre_layer_norm = model->config->pre_layer_norm;
    activations->has_first_input =
        model->config->pre_layer_norm || model->table->projection_weight >= 0;
    activations->max_rows = batch_round(max_rows);
    activations->max_sequences = max_sequences;
    struct carving carving = {
        .arena = device_arena,
        .config = model->config,
        .compute = model->compute,
        .rows = activations->max_rows,
        .mask_words = mask_words(model),
        .row_unit = model->device->is_host ? 1 : BERT_LOGITS_UNIT,
        .keep = keep,
    };
    carve_all(&carving, model, activations);
    return activations;
}

void bert_activations_free(struct bert_activations *activations) {
    if (activations) {
        memory_free(activations->layers);
        memory_free(activations);
    }
}

static const char *check_layer(const struct bert_activations *activations,
                               const struct layer_buffers *layer) {
    const struct norm_buffers *first = &layer->attention_norm, *second = &layer->output_norm;
    const int trains = activations->keep != BERT_KEEP_NOTHING;
    CLAUSE(layer->qkv.data != NULL && layer->context.data != NULL && layer->gelu.data != NULL,
           "every layer has memory for attention and its feed-forward network");
    CLAUSE(layer->qkv.rows == activations->max_rows && layer->qkv.cols == 3 * layer->context.cols,
           "queries, keys and values have the rows and three times the columns of the context");
    CLAUSE(norm_stream(activations, first).data != norm_stream(activations, second).data,
           "a layer's two norms have residual streams of their own");
    CLAUSE((layer->lse != NULL) == trains && (first->rstd != NULL) == trains &&
               (second->rstd != NULL) == trains && (first->xhat.data != NULL) == trains,
           "what the backward pass reads is kept exactly in training");
    CLAUSE(!trains || (layer->du.data == layer->gelu.data && layer->dqkv.data == layer->u.data &&
                       layer->dcontext.data == norm_operand(first).data),
           "gradients are in the memory of activations that are no longer needed");
    return NULL;
}

const char *bert_activations_check(const struct bert_activations *activations,
                                   int64_t layer_count) {
    const int trains = activations->keep != BERT_KEEP_NOTHING;
    const char *broken = NULL;
    CLAUSE(activations->head != NULL, "activations are of a head");
    CLAUSE(activations->max_rows == batch_round(activations->max_rows) &&
               activations->max_sequences > 0,
           "there is room for whole blocks of rows, and for a sequence");
    CLAUSE((activations->dlogits.data != NULL) == trains && (activations->losses != NULL) == trains,
           "losses and their gradients are kept exactly in training");
    for (int64_t i = 0; i < layer_count && broken == NULL; i++) {
        const struct mat *sum = &activations->layers[i].output_norm.sum;
        CLAUSE(activations->keep != BERT_RECOMPUTE_LAYERS ||
                   (!mat_is_empty(*sum) &&
                    (i == 0 || sum->data != activations->layers[i - 1].output_norm.sum.data)),
               "where layers are computed again, each keeps a sum of its own to begin with");
        broken = check_layer(activations, &activations->layers[i]);
    }
    return broken;
}
