// SPDX-License-Identifier: Apache-2.0
// BERT as a sequence of device operations: the encoder of Devlin et al., "BERT: Pre-training of
// Deep Bidirectional Transformers" (2019). For each layer with input x,
//
//   context = attention(x Wqkv^T + bqkv)
//   m = LN(x + dropout(context Wa^T + ba))
//   g = gelu(m Wi^T + bi)
//   y = LN(m + dropout(g Wo^T + bo))
//
// and a head after the last layer (heads.c). If the head reads only some rows, the last layer
// computes only these after its attention. If layer norms come before the sub-layers, the same
// operations run in the same order: the norm after a residual sum is the one before the next
// sub-layer, the first norm follows the embedding, and the next sub-layer adds to the sum instead
// of the norm's output. Backward runs the same list in reverse (doc/develop/math.md). Sub-layer
// outputs and the gradients added to the residual stream stay in f32; they are rounded only when
// they become an operand of a matrix product.
#include "model/bert.h"

#include "core/memory.h"
#include "model/heads.h"
#include "model/pass.h"

#include <assert.h>
#include <math.h>

// --- frozen parameters --------------------------------------------------------------------------

// The end of the frozen layers' matrices, which are at the start of the buffer.
static int64_t frozen_matrices(const struct bert *model) {
    const int64_t layers = model->frozen.layers;
    return layers == 0                          ? 0
           : layers < model->table->layer_count ? model->table->layers[layers].qkv_weight
                                                : model->table->head_first;
}

// The offset of the biases and norms of a layer, which follow those of the layer below; for index L
// their end.
static int64_t vectors_of(const struct bert *model, int64_t index) {
    const struct param_layer *layers = model->table->layers;
    const int pre = model->config->pre_layer_norm;
    if (index < model->table->layer_count) {
        return pre ? layers[index].input_norm_weight : layers[index].qkv_bias;
    }
    return pre ? layers[index - 1].output_norm_weight
               : layers[index - 1].output_norm_bias + model->config->hidden_size;
}

// --- only the rows that the head reads -----------------------------------------------------------

static int is_narrowed(const struct pass *pass, int64_t index) {
    return pass->head != pass->batch && index == pass->model->config->num_hidden_layers - 1;
}

// The pass over the rows that are left after the attention of layer `index`.
static struct pass after_attention(const struct pass *pass, int64_t index) {
    struct pass after = *pass;
    after.batch = is_narrowed(pass, index) ? pass->head : pass->batch;
    return after;
}

static struct pass head_pass(const struct pass *pass) {
    return after_attention(pass, pass->model->config->num_hidden_layers - 1);
}

// Returns the rows that the head reads: the whole batch, or *head with some of its rows.
static const struct batch *head_of(const struct bert *model, const struct batch *batch,
                                   struct batch *head) {
    if (batch->head.rows == NULL || !bert_head_reads_some(model)) {
        return batch;
    }
    *head = batch_of_head(batch);
    return head;
}

// The rows of `all` that are left after the attention of layer `index`; if these are not all rows,
// gathers them into `some`.
static struct mat narrow(const struct pass *pass, int64_t index, struct mat all, struct mat some) {
    struct device *dev = pass->model->device;
    if (!is_narrowed(pass, index)) {
        return used(pass, all);
    }
    const struct mat rows = mat_rows(some, 0, pass->head->row_count);
    dev->gather_rows(dev, rows, used(pass, all), pass->batch->head.rows, pass->batch->head.count);
    return rows;
}

// The reverse, for gradients.
static void widen(const struct pass *pass, struct mat all, struct mat some) {
    struct device *dev = pass->model->device;
    dev->scatter_rows(dev, used(pass, all), some, pass->batch->head.rows, pass->batch->head.count);
}

// --- linear layers of the encoder; a weight's shape is that of its operands ----------------------

// The weights of a layer: offsets in the table, and the matrix in int8 (NULL: not in int8).
struct linear {
    int64_t weight, bias;
    const struct int8_matrix *int8;
};

// Names a linear layer's fields in struct param_layer and struct int8_layer.
#define LINEAR(pass, index, name)                                                                  \
    ((struct linear){(pass)->model->table->layers[index].name##_weight,                            \
                     (pass)->model->table->layers[index].name##_bias,                              \
                     (pass)->model->weights.int8 == NULL                                           \
                         ? NULL                                                                    \
                         : &(pass)->model->weights.int8->layers[index].name})

static int can_pack(const struct bert *model, struct mat w) {
    struct device *dev = model->device;
    return dev->packs != NULL && dev->packs(dev, w);
}

void bert_pack(const struct bert *model) {
    const int64_t hidden = model->config->hidden_size, wide = model->config->intermediate_size;
    for (int64_t i = 0; i < model->table->layer_count; i++) {
        const struct param_layer *layer = &model->table->layers[i];
        const struct mat all[] = {weight(model, layer->qkv_weight, 3 * hidden, hidden),
                                  weight(model, layer->attention_weight, hidden, hidden),
                                  weight(model, layer->intermediate_weight, wide, hidden),
                                  weight(model, layer->output_weight, hidden, wide)};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            if (can_pack(model, all[k])) {
                model->device->pack(model->device, all[k]);
            }
        }
    }
}

// For inference with weights in a layout of the device; 0 if they are not in one.
static int linear_device_layout(const struct pass *pass, struct mat y, struct mat x,
                                struct linear l, enum activation activation) {
    struct device *dev = pass->model->device;
    const float *bias = vector(pass->model, l.bias);
    if (l.int8 != NULL) {
        dev->linear_int8_forward(dev, y, x, l.int8, bias, activation);
        return 1;
    }
    const struct mat w = weight(pass->model, l.weight, y.cols, x.cols);
    if (!pass->model->weights.are_packed || !can_pack(pass->model, w)) {
        return 0;
    }
    dev->linear_packed_forward(dev, y, x, w, bias, activation);
    return 1;
}

static void linear(const struct pass *pass, struct mat y, struct mat x, struct linear l) {
    struct device *dev = pass->model->device;
    if (!linear_device_layout(pass, y, x, l, ACTIVATION_LINEAR)) {
        dev->linear_forward(dev, y, x, weight(pass->model, l.weight, y.cols, x.cols),
                            vector(pass->model, l.bias));
    }
}

static void linear_input_gradient(const struct pass *pass, struct mat dx, struct mat dy,
                                  int64_t weight_offset) {
    struct device *dev = pass->model->device;
    dev->linear_backward_input(dev, dx, dy, weight(pass->model, weight_offset, dy.cols, dx.cols));
}

// dbias: NULL if another operation computes it.
static void linear_weight_gradient(const struct pass *pass, int64_t weight_offset, float *dbias,
                                   struct mat dy, struct mat x) {
    struct device *dev = pass->model->device;
    if (weight_offset < frozen_matrices(pass->model)) {
        return;
    }
    struct mat dw = gradient_mat(pass->model, weight_offset, dy.cols, x.cols);
    dev->linear_backward_weight(dev, dw, dbias, dy, x);
}

// --- forward ----------------------------------------------------------------------------------

// The offset of the row of a text's first position.
static int64_t first_position(const struct bert *model) {
    const struct bert_config *config = model->config;
    return model->table->position + config->first_position * bert_embedding_size(config);
}

static void embed(const struct pass *pass) {
    const struct bert *model = pass->model;
    const struct bert_config *config = model->config;
    const int64_t columns = bert_embedding_size(config);
    const struct norm_buffers *out = &pass->activations->embedding;
    const struct int8_weights *int8 = model->weights.int8;
    struct embed_args args = {
        .y = used(pass, out->y),
        .y_compute = used(pass, out->y_compute),
        .xhat = used(pass, out->xhat),
        .rstd = out->rstd,
        .word = int8 != NULL ? int8->words
                             : table(model, model->table->word, config->vocab_size, columns),
        .word_scales = int8 != NULL ? int8->word_scales : NULL,
        .position = table(model, first_position(model), bert_positions(config), columns),
        // Without token types, a row of zeros (params.c).
        .type = table(model, model->table->type,
                      config->type_vocab_size > 0 ? config->type_vocab_size : 1, columns),
        .gamma = vector(model, model->table->embedding_norm_weight),
        .beta = vector(model, model->table->embedding_norm_bias),
        .epsilon = (float)model->config->layer_norm_eps,
        .dropout = dropout_at(pass, RNG_SITE_EMBEDDING, 0),
    };
    model->device->embed_forward(model->device, &args, pass->batch);
}

// out = LN(stream); gamma and beta are offsets into the table.
static struct norm_args norm_of(const struct pass *pass, const struct norm_buffers *out,
                                struct mat stream, int64_t gamma, int64_t beta) {
    const struct bert *model = pass->model;
    return (struct norm_args){
        .y = used(pass, out->y),
        .y_compute = used(pass, out->y_compute),
        .xhat = used(pass, out->xhat),
        .rstd = out->rstd,
        .residual = used(pass, stream),
        .gamma = vector(model, gamma),
        .beta = vector(model, beta),
        .epsilon = (float)model->config->layer_norm_eps,
    };
}

// out = LN(stream + dropout(sublayer))
static void add_and_norm(const struct pass *pass, const struct norm_buffers *out, struct mat stream,
                         int64_t gamma, int64_t beta, struct dropout dropout) {
    struct device *dev = pass->model->device;
    struct norm_args args = norm_of(pass, out, stream, gamma, beta);
    args.x = used(pass, pass->activations->sublayer);
    args.dropout = dropout;
    args.sum = used(pass, out->sum);
    dev->norm_forward(dev, &args, pass->batch);
}

// Writes the input of the first layer.
static void make_input(const struct pass *pass) {
    const struct bert *model = pass->model;
    const struct bert_activations *activations = pass->activations;
    embed(pass);
    if (model->table->projection_weight >= 0) {
        // Brings the embeddings to the layers' columns. The products are in f32, as those of heads.
        const struct param_table *offsets = model->table;
        const struct norm_buffers *out = &pass->activations->first_input;
        const struct mat x = used(pass, pass->activations->embedding.y), y = used(pass, out->y);
        struct device *dev = model->device;
        dev->linear_forward(dev, y, x, table(model, offsets->projection_weight, y.cols, x.cols),
                            vector(model, offsets->projection_bias));
        if (!mat_is_empty(out->y_compute)) {
            dev->convert(dev, used(pass, out->y_compute), y.data);
        }
    } else if (activations->pre_layer_norm) {
        const struct param_layer *offsets = &model->table->layers[0];
        struct norm_args args = norm_of(pass, &activations->first_input, activations->embedding.y,
                                        offsets->input_norm_weight, offsets->input_norm_bias);
        model->device->norm_forward(model->device, &args, pass->batch);
    }
}

static void self_attention(const struct pass *pass, int64_t index, const struct norm_buffers *in) {
    const struct bert *model = pass->model;
    const struct param_layer *offsets = &model->table->layers[index];
    const struct layer_buffers *layer = &pass->activations->layers[index];

    linear(pass, used(pass, layer->qkv), used_operand(pass, in), LINEAR(pass, index, qkv));
    struct attention_args args = {
        .context = used(pass, layer->context),
        .lse = layer->lse,
        .masks = layer->masks,
        .qkv = used(pass, layer->qkv),
        .heads = model->config->num_attention_heads,
        .dropout = dropout_at(pass, RNG_SITE_ATTENTION, index),
    };
    model->device->attention_forward(model->device, &args, pass->batch);
    const struct pass after = after_attention(pass, index);
    const struct mat context = narrow(pass, index, layer->context, pass->activations->head_context);
    const struct mat stream =
        narrow(pass, index, norm_stream(pass->activations, in), pass->activations->head_stream);
    linear(&after, used(&after, pass->activations->sublayer), context,
           LINEAR(pass, index, attention));
    add_and_norm(&after, &layer->attention_norm, stream, offsets->attention_norm_weight,
                 offsets->attention_norm_bias, dropout_at(pass, RNG_SITE_ATTENTION_OUTPUT, index));
}

static void intermediate(const struct pass *pass, int64_t index) {
    const struct layer_buffers *layer = &pass->activations->layers[index];
    const struct mat y = used(pass, layer->gelu);
    const struct mat u = used(pass, layer->u);
    const struct mat x = used_operand(pass, &layer->attention_norm);
    const struct linear l = LINEAR(pass, index, intermediate);
    struct device *dev = pass->model->device;
    const enum activation activation = pass->model->config->hidden_act;
    if (!linear_device_layout(pass, y, x, l, activation)) {
        dev->linear_gelu_forward(dev, y, u, x, weight(pass->model, l.weight, y.cols, x.cols),
                                 vector(pass->model, l.bias), activation);
    }
}

static void output(const struct pass *pass, int64_t index) {
    const struct param_layer *offsets = &pass->model->table->layers[index];
    const struct layer_buffers *layer = &pass->activations->layers[index];
    linear(pass, used(pass, pass->activations->sublayer), used(pass, layer->gelu),
           LINEAR(pass, index, output));
    add_and_norm(pass, &layer->output_norm, norm_stream(pass->activations, &layer->attention_norm),
                 offsets->output_norm_weight, offsets->output_norm_bias,
                 dropout_at(pass, RNG_SITE_OUTPUT, index));
}

static void need(const struct bert *model, int64_t range) {
    if (model->source.need != NULL) {
        model->source.need(model->source.context, (size_t)range);
    }
}

void bert_forward(const struct bert *model, struct bert_activations *activations,
                  const struct batch *batch, const struct bert_dropout *dropout) {
    const int64_t layer_count = model->config->num_hidden_layers;
    assert(bert_activations_check(activations, layer_count) == NULL);
    assert(batch->row_count <= activations->max_rows);
    struct batch head;
    const struct pass pass = {model, activations, batch, dropout, head_of(model, batch, &head)};
    need(model, layer_count + 1); // the embeddings; all biases and norms
    make_input(&pass);
    for (int64_t i = 0; i < layer_count; i++) {
        const struct pass after = after_attention(&pass, i);
        need(model, i);
        self_attention(&pass, i, layer_input(activations, i));
        intermediate(&after, i);
        output(&after, i);
    }
    need(model, layer_count);
    const struct pass last = head_pass(&pass);
    activations->head->forward(&last);
}

// 1: a row of logits for each token; 0: one for each sequence.
static int answers_tokens(const struct bert *model) {
    return bert_head_of(model->table->head)->per_token || model->reads_rows;
}

struct mat bert_logits(const struct bert *model, const struct bert_activations *activations,
                       const struct batch *batch) {
    const struct mat logits = model->reads_rows
                                  ? layer_input(activations, model->config->num_hidden_layers)->y
                                  : activations->logits;
    return mat_rows(logits, 0,
                    answers_tokens(model) ? batch->row_count : batch_round(batch->sequence_count));
}

int64_t bert_logit_count(const struct bert *model, int64_t length) {
    return (answers_tokens(model) ? length : 1) *
           param_head_outputs(model->table->head, model->config);
}

struct bert_rows bert_logit_rows(const struct bert *model, const struct batch *batch,
                                 int64_t sequence) {
    const int64_t first = batch->cu_seqlens[sequence];
    if (!answers_tokens(model)) {
        return (struct bert_rows){.first = sequence, .count = 1};
    }
    return (struct bert_rows){.first = first, .count = batch->cu_seqlens[sequence + 1] - first};
}

// --- recomputation -------------------------------------------------------------------------------

// Restores the input of layer `index` from the sum kept of the layer below.
static void restore_input(const struct pass *pass, int64_t index) {
    if (index == 0) {
        make_input(pass);
        return;
    }
    struct device *dev = pass->model->device;
    const struct norm_buffers *norm = layer_input(pass->activations, index);
    const struct param_layer *below = &pass->model->table->layers[index - 1];
    struct norm_args args =
        norm_of(pass, norm, norm->sum, below->output_norm_weight, below->output_norm_bias);
    dev->norm_forward(dev, &args, pass->batch);
}

// Recomputes everything that the backward pass of the layer reads, except its output norm: that of
// the last layer is still present, and that of another one is the input of the layer above, which
// was restored before.
static void recompute(const struct pass *pass, int64_t index) {
    const struct pass after = after_attention(pass, index);
    restore_input(pass, index);
    self_attention(pass, index, layer_input(pass->activations, index));
    intermediate(&after, index);
}

// --- backward ---------------------------------------------------------------------------------

// Computes dresidual, the gradient of a norm's residual input, from the gradients of its output:
// dresidual or dbranch or both.
static struct norm_grad_args norm_backward_of(const struct pass *pass,
                                              const struct norm_buffers *norm, int has_branch,
                                              int64_t gamma, int64_t beta) {
    const struct bert *model = pass->model;
    const struct bert_activations *activations = pass->activations;
    const struct mat dresidual = used(pass, activations->dresidual);
    const struct mat dbranch = used(pass, activations->dbranch);
    const int stream_is_sum = activations->pre_layer_norm && has_branch;
    return (struct norm_grad_args){
        .dresidual = dresidual,
        .dy = stream_is_sum ? dbranch : dresidual,
        .dy2 = has_branch && !stream_is_sum ? dbranch : (struct mat){0},
        .dsum = stream_is_sum ? dresidual : (struct mat){0},
        .xhat = used(pass, norm->xhat),
        .rstd = norm->rstd,
        .gamma = vector(model, gamma),
        .dgamma = gradient(model, gamma),
        .dbeta = gradient(model, beta),
    };
}

// Also computes dsublayer, the sub-layer's gradient. `bias` is the offset of the sub-layer's bias.
static void add_and_norm_backward(const struct pass *pass, struct norm_grad_args args, int64_t bias,
                                  struct dropout dropout) {
    struct device *dev = pass->model->device;
    args.dx = used(pass, pass->activations->dsublayer);
    args.dbias = gradient(pass->model, bias);
    args.dropout = dropout;
    dev->norm_backward(dev, &args, pass->batch);
}

static void feed_forward_backward(const struct pass *pass, int64_t index) {
    const struct bert *model = pass->model;
    const struct param_layer *offsets = &model->table->layers[index];
    const struct layer_buffers *layer = &pass->activations->layers[index];
    const struct mat dsublayer = used(pass, pass->activations->dsublayer);
    const struct mat du = used(pass, layer->du);
    const struct mat dbranch = used(pass, pass->activations->dbranch);
    // Only the head reads the last layer's output.
    const int last = index == model->config->num_hidden_layers - 1;

    add_and_norm_backward(pass,
                          norm_backward_of(pass, &layer->output_norm, !last,
                                           offsets->output_norm_weight, offsets->output_norm_bias),
                          offsets->output_bias, dropout_at(pass, RNG_SITE_OUTPUT, index));
    // The weight's gradient comes first: it is the last to read gelu, whose memory du reuses.
    linear_weight_gradient(pass, offsets->output_weight, NULL, dsublayer, used(pass, layer->gelu));
    model->device->linear_gelu_backward(
        model->device, du, gradient(model, offsets->intermediate_bias), dsublayer,
        weight(model, offsets->output_weight, dsublayer.cols, du.cols), used(pass, layer->u),
        model->config->hidden_act);
    linear_weight_gradient(pass, offsets->intermediate_weight, NULL, du,
                           used_operand(pass, &layer->attention_norm));
    linear_input_gradient(pass, dbranch, du, offsets->intermediate_weight);
}

// Computes dcontext and the gradient of the residual stream before the attention's norm.
static void attention_output_backward(const struct pass *pass, int64_t index) {
    const struct bert_activations *activations = pass->activations;
    const struct param_layer *offsets = &pass->model->table->layers[index];
    const struct layer_buffers *layer = &activations->layers[index];
    const struct pass after = after_attention(pass, index);
    const int is_narrow = is_narrowed(pass, index);
    const struct mat dsublayer = used(&after, activations->dsublayer);
    const struct mat context = used(&after, is_narrow ? activations->head_context : layer->context);
    // With fewer rows, it reuses the memory of the context once the weight's gradient has read it.
    const struct mat dcontext = is_narrow ? context : used(&after, layer->dcontext);
    struct norm_grad_args args =
        norm_backward_of(&after, &layer->attention_norm, 1, offsets->attention_norm_weight,
                         offsets->attention_norm_bias);
    args.dresidual = used(&after, is_narrow ? activations->head_stream : activations->dresidual);
    add_and_norm_backward(&after, args, offsets->attention_bias,
                          dropout_at(pass, RNG_SITE_ATTENTION_OUTPUT, index));
    linear_weight_gradient(&after, offsets->attention_weight, NULL, dsublayer, context);
    linear_input_gradient(&after, dcontext, dsublayer, offsets->attention_weight);
    if (is_narrow) {
        widen(pass, layer->dcontext, dcontext);
        widen(pass, activations->dresidual, args.dresidual);
    }
}

static void self_attention_backward(const struct pass *pass, int64_t index,
                                    const struct norm_buffers *in) {
    const struct bert *model = pass->model;
    const struct param_layer *offsets = &model->table->layers[index];
    const struct layer_buffers *layer = &pass->activations->layers[index];
    const struct mat dbranch = used(pass, pass->activations->dbranch);

    attention_output_backward(pass, index);
    struct attention_grad_args args = {
        .dqkv = used(pass, layer->dqkv),
        .dcontext = used(pass, layer->dcontext),
        .context = used(pass, layer->context),
        .lse = layer->lse,
        .masks = layer->masks,
        .qkv = used(pass, layer->qkv),
        .heads = model->config->num_attention_heads,
        .dropout = dropout_at(pass, RNG_SITE_ATTENTION, index),
    };
    model->device->attention_backward(model->device, &args, pass->batch);
    linear_weight_gradient(pass, offsets->qkv_weight, gradient(model, offsets->qkv_bias), args.dqkv,
                           used_operand(pass, in));
    linear_input_gradient(pass, dbranch, args.dqkv, offsets->qkv_weight);
}

// Overwrites dresidual, and returns the gradient of the embedding.
static struct mat project_backward(const struct pass *pass) {
    const struct bert *model = pass->model;
    const struct param_table *offsets = model->table;
    const struct mat dy = used(pass, pass->activations->dresidual);
    const struct mat x = used(pass, pass->activations->embedding.y);
    const struct mat dx = used(pass, pass->activations->dembedding);
    struct device *dev = model->device;
    dev->add(dev, dy.data, pass->activations->dbranch.data, dy.rows * dy.cols);
    dev->linear_backward_weight(dev,
                                gradient_mat(model, offsets->projection_weight, dy.cols, x.cols),
                                gradient(model, offsets->projection_bias), dy, x);
    dev->linear_backward_input(dev, dx, dy,
                               table(model, offsets->projection_weight, dy.cols, x.cols));
    return dx;
}

static void embed_backward(const struct pass *pass) {
    const struct bert *model = pass->model;
    const struct bert_config *config = model->config;
    const struct param_table *offsets = model->table;
    const int64_t columns = bert_embedding_size(config);
    const int projects = offsets->projection_weight >= 0;
    const int is_sum = projects || pass->activations->pre_layer_norm;
    const struct mat dy =
        projects ? project_backward(pass) : used(pass, pass->activations->dresidual);
    struct embed_grad_args args = {
        .dy = dy,
        .dy2 = is_sum ? (struct mat){0} : used(pass, pass->activations->dbranch),
        .xhat = used(pass, pass->activations->embedding.xhat),
        .rstd = pass->activations->embedding.rstd,
        .gamma = vector(model, offsets->embedding_norm_weight),
        .dword = gradient_mat(model, offsets->word, config->vocab_size, columns),
        .dposition = gradient_mat(model, first_position(model), bert_positions(config), columns),
        .dtype_table = config->type_vocab_size > 0
                           ? gradient_mat(model, offsets->type, config->type_vocab_size, columns)
                           : (struct mat){0},
        .dgamma = gradient(model, offsets->embedding_norm_weight),
        .dbeta = gradient(model, offsets->embedding_norm_bias),
        .dropout = dropout_at(pass, RNG_SITE_EMBEDDING, 0),
        .scratch = dy,
    };
    model->device->embed_backward(model->device, &args, pass->batch);
    // As in transformers, whose table has a padding_idx, the row of [PAD] is not trained. As a row
    // of the decoder it is trained; packed sequences contain no [PAD].
    if (offsets->decoder_bias < 0 && config->pad_token_id >= 0 &&
        config->pad_token_id < config->vocab_size) {
        model->device->zero(model->device,
                            gradient(model, offsets->word + config->pad_token_id * columns),
                            (size_t)columns * sizeof(float));
    }
}

// Reports that range `index` of the gradient (param_range) is final.
static void gradient_ready(const struct gradient_listener *listener,
                           const struct param_table *table, int64_t index) {
    const struct param_range range = param_range(table, (size_t)index);
    if (listener != NULL && range.count > 0) {
        listener->ready(listener->context, (size_t)index);
    }
}

static void layer_backward(const struct pass *pass, int64_t index) {
    if (pass->activations->keep == BERT_RECOMPUTE_LAYERS) {
        recompute(pass, index);
    }
    const struct pass after = after_attention(pass, index);
    feed_forward_backward(&after, index);
    self_attention_backward(pass, index, layer_input(pass->activations, index));
}

void bert_backward(const struct bert *model, struct bert_activations *activations,
                   const struct batch *batch, const struct bert_dropout *dropout, float loss_scale,
                   const struct gradient_listener *listener) {
    const int64_t layer_count = model->config->num_hidden_layers;
    assert(activations->keep != BERT_KEEP_NOTHING && model->weights.gradients);
    assert(activations->head->backward != NULL);
    assert(batch->sequence_count <= activations->max_sequences);
    struct batch head;
    const struct pass pass = {model, activations, batch, dropout, head_of(model, batch, &head)};
    const struct pass last = head_pass(&pass);
    activations->head->backward(&last, loss_scale);
    gradient_ready(listener, model->table, layer_count);
    // The lowest layer whose backward pass is needed. In a pre-layer-norm model, a layer's first
    // norm belongs to the pass of the layer below.
    const int64_t layers = model->frozen.layers;
    const int64_t lowest = !model->frozen.embeddings ? 0
                           : layers > 0              ? layers - (model->config->pre_layer_norm != 0)
                                                     : 0;
    for (int64_t i = layer_count - 1; i >= 0; i--) {
        if (i >= lowest) {
            layer_backward(&pass, i);
        }
        gradient_ready(listener, model->table, i);
    }
    if (activations->pre_layer_norm && lowest == 0) {
        // The first norm, which adds dbranch to dresidual.
        const struct param_layer *offsets = &pass.model->table->layers[0];
        struct device *dev = pass.model->device;
        struct norm_grad_args args =
            norm_backward_of(&pass, &pass.activations->first_input, 1, offsets->input_norm_weight,
                             offsets->input_norm_bias);
        dev->norm_backward(dev, &args, pass.batch);
    }
    if (!model->frozen.embeddings) {
        embed_backward(&pass);
    }
    // Operations that compute gradients of biases and norms also compute other gradients, so they
    // have written those of frozen vectors.
    const int64_t first = vectors_of(model, 0), end = vectors_of(model, model->frozen.layers);
    if (end > first) {
        model->device->zero(model->device, model->weights.gradients + first,
                            (size_t)(end - first) * sizeof(float));
    }
    gradient_ready(listener, model->table, layer_count + 1);
}

const float *bert_losses(const struct bert_activations *activations, int64_t index) {
    return activations->losses + index * activations->max_sequences;
}

const float *bert_masked_losses(const struct bert_activations *activations) {
    return activations->tokens.losses != NULL ? activations->tokens.losses
                                              : activations->decoder.losses;
}

const unsigned char *bert_masked_hits(const struct bert_activations *activations) {
    return activations->decoder.hits;
}

// --- queries -------------------------------------------------------------------------------------

static int row_is_finite(struct device *dev, struct mat m, int64_t row, float *values) {
    size_t bytes = (size_t)m.cols * dtype_size(m.dtype);
    dev->download(dev, values, mat_rows(m, row, 1).data, bytes);
    if (m.dtype == DTYPE_F32) {
        for (int64_t i = 0; i < m.cols; i++) {
            if (!isfinite(values[i])) {
                return 0;
            }
        }
        return 1;
    }
    const uint16_t exponent = m.dtype == DTYPE_BF16 ? 0x7F80 : 0x7C00;
    const uint16_t *bits = (const uint16_t *)(const void *)values;
    for (int64_t i = 0; i < m.cols; i++) {
        if ((bits[i] & exponent) == exponent) {
            return 0;
        }
    }
    return 1;
}

static int is_finite(struct device *dev, struct mat m, int64_t row_count, float *values) {
    for (int64_t row = 0; row < row_count; row++) {
        if (!row_is_finite(dev, m, row, values)) {
            return 0;
        }
    }
    return 1;
}

int64_t bert_first_nonfinite(const struct bert *model, struct bert_activations *activations,
                             const struct batch *batch) {
    assert(activations->keep != BERT_KEEP_NOTHING);
    struct batch head;
    const struct pass pass = {.model = model,
                              .activations = activations,
                              .batch = batch,
                              .head = head_of(model, batch, &head)};
    const int64_t layer_count = model->config->num_hidden_layers;
    const struct mat logits = activations->logits;
    float *values =
        memory_array((size_t)(model->config->hidden_size + logits.cols), sizeof *values);
    if (!values) {
        return -1;
    }
    int64_t found = -1;
    for (int64_t i = 0; i <= layer_count && found < 0; i++) {
        const struct pass own = i < layer_count ? pass : head_pass(&pass);
        if (activations->keep == BERT_RECOMPUTE_LAYERS && i > 0) {
            restore_input(&own, i);
        }
        struct mat output = norm_operand(layer_input(activations, i));
        if (!is_finite(model->device, output, own.batch->token_count, values)) {
            found = i;
        }
    }
    if (found < 0 &&
        !is_finite(model->device, logits,
                   activations->head->per_token ? batch->token_count : batch->sequence_count,
                   values)) {
        found = layer_count + 1;
    }
    memory_free(values);
    return found;
}

double bert_forward_flops(const struct bert_config *config, int64_t length) {
    const double hidden = (double)config->hidden_size;
    const double inner = (double)config->intermediate_size;
    const double tokens = (double)length;
    const double products = 2 * tokens * (4 * hidden * hidden + 2 * hidden * inner);
    const double attention = 4 * tokens * tokens * hidden;
    return (double)config->num_hidden_layers * (products + attention);
}

double bert_head_flops(const struct bert *model, int64_t tokens, int64_t sequences,
                       int64_t masked) {
    const double hidden = (double)model->config->hidden_size;
    const double inner = (double)model->config->intermediate_size;
    const double words = (double)model->config->vocab_size;
    const double columns = (double)bert_embedding_size(model->config);
    const int64_t rows = bert_head_rows(model, tokens, sequences, masked);
    const double spared = rows > 0 ? (double)(tokens - rows) : 0;
    const double decoded = param_head_decodes(model->table->head) ? (double)masked : 0;
    return 2 * decoded * (hidden * columns + columns * words) -
           2 * spared * (hidden * hidden + 2 * hidden * inner);
}
