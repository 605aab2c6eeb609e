// SPDX-License-Identifier: Apache-2.0
// The heads, with y the last layer's output. All but the decoder compute in f32, because they cost
// next to nothing.
//
//   span     logits = y Wh^T + bh, one row for each token; y after a dropout in some architectures
//   class    f = the first row of each sequence, after a dropout in some architectures;
//            t = g(f Wp^T + bp), g the architecture's activation (BERT: tanh);
//            logits = dropout(t) Wh^T + bh, one row for each sequence
//   token    logits = dropout(y) Wh^T + bh, one row for each token; a loss for each labelled token
//   pretraining: the same without dropout, and for the rows x of the masked tokens
//            h = LN(gelu(x Wt^T + bt)); logits = h E^T + bd, E the word table, whose products are
//            in the compute dtype
//   masked   h and logits of the masked tokens alone
//   embedding: the pooled rows of each sequence (embedding_head.c)
//
// The class head's loss depends on problem_type: cross entropy, squared error, or the mean cross
// entropy of one sigmoid per label, as in Hugging Face's BertForSequenceClassification.
#include "model/heads.h"

#include "model/pass.h"

#include <math.h>

// --- the loss of classes ------------------------------------------------------------------------

// The operands of a cross entropy, as device.h names them.
struct class_scores {
    struct mat dlogits, logits;
    float *losses, scale;
    const int32_t *labels;
    int64_t count;
};

static void class_loss(const struct pass *pass, const struct class_scores *of) {
    struct device *dev = pass->model->device;
    const struct class_weighting *weighting = &pass->model->class_weighting;
    if (weighting->weights == NULL) {
        dev->class_loss(dev, of->dlogits, of->losses, NULL, of->logits, of->scale, of->labels,
                        of->count);
    } else {
        dev->weighted_loss(dev, of->dlogits, of->losses, of->logits, of->scale, weighting,
                           of->labels, of->count);
    }
}

// --- linear layers of the heads: f32, directly from the master weights ---------------------------

static void head_linear(const struct pass *pass, struct mat y, struct mat x, int64_t weight_offset,
                        int64_t bias_offset) {
    const struct bert *model = pass->model;
    model->device->linear_forward(model->device, y, x, table(model, weight_offset, y.cols, x.cols),
                                  vector(model, bias_offset));
}

// Adds the layer's gradients; sets dx, unless it is empty, to the gradient of x.
static void head_linear_backward(const struct pass *pass, struct mat dx, struct mat dy,
                                 struct mat x, int64_t weight_offset, int64_t bias_offset) {
    const struct bert *model = pass->model;
    struct device *dev = model->device;
    dev->linear_backward_weight(dev, gradient_mat(model, weight_offset, dy.cols, x.cols),
                                gradient(model, bias_offset), dy, x);
    dev->linear_backward_input(dev, dx, dy, table(model, weight_offset, dy.cols, x.cols));
}

// --- the input of a head for each token ----------------------------------------------------------

// Inference, and a head without dropout, have no buffer for it.
static struct mat token_input(const struct pass *pass) {
    const struct mat dropped = pass->activations->dropped;
    return mat_is_empty(dropped) ? last_output(pass) : used(pass, dropped);
}

static void tokens_forward(const struct pass *pass) {
    const struct param_table *offsets = pass->model->table;
    struct device *dev = pass->model->device;
    const struct mat x = token_input(pass);
    if (!mat_is_empty(pass->activations->dropped)) {
        dev->drop_rows(dev, x, last_output(pass), dropout_at(pass, RNG_SITE_HEAD, 0), pass->batch);
    }
    head_linear(pass, used(pass, pass->activations->logits), x, offsets->head_weight,
                offsets->head_bias);
}

// Without a buffer of its own, dresidual reuses the memory of the last output after the gradient of
// the head's weights has read it.
static void tokens_backward(const struct pass *pass) {
    const struct param_table *offsets = pass->model->table;
    struct device *dev = pass->model->device;
    const struct mat dresidual = used(pass, pass->activations->dresidual);
    head_linear_backward(pass, dresidual, used(pass, pass->activations->dlogits), token_input(pass),
                         offsets->head_weight, offsets->head_bias);
    if (!mat_is_empty(pass->activations->dropped)) {
        dev->drop_rows(dev, dresidual, dresidual, dropout_at(pass, RNG_SITE_HEAD, 0), pass->batch);
    }
}

// --- span ---------------------------------------------------------------------------------------

static void span_backward(const struct pass *pass, float loss_scale) {
    struct device *dev = pass->model->device;
    struct bert_activations *activations = pass->activations;
    dev->span_loss(dev, used(pass, activations->dlogits), activations->losses,
                   used(pass, activations->logits), loss_scale, pass->batch);
    tokens_backward(pass);
}

// --- class --------------------------------------------------------------------------------------

// The used rows of a buffer with one row per sequence.
static struct mat sequences(const struct pass *pass, struct mat buffer) {
    return mat_rows(buffer, 0, batch_round(pass->batch->sequence_count));
}

static const struct architecture *row_of(const struct pass *pass) {
    return bert_architecture(pass->model->config);
}

// The dropouts of the first rows; the one of the dense layer's output has the layer 0.
static struct dropout input_dropout(const struct pass *pass) {
    return dropout_at(pass, RNG_SITE_HEAD, 1);
}

// pooled = dropout(activation(dense(first))). The tanh computes its dropout, too.
static void dense_forward(const struct pass *pass, struct mat first, struct dropout dropout) {
    const struct bert *model = pass->model;
    const struct class_buffers *pooler = &pass->activations->pooler;
    const struct mat active = sequences(pass, pooler->active);
    const struct mat pooled = sequences(pass, pooler->pooled);
    const enum activation activation = row_of(pass)->class_activation;
    const int64_t weight_offset = model->table->pooler_weight, bias = model->table->pooler_bias;
    struct device *dev = model->device;
    if (activation == ACTIVATION_TANH) {
        head_linear(pass, active, first, weight_offset, bias);
        dev->tanh_forward(dev, pooled, active, active, dropout, pass->batch);
    } else {
        dev->linear_gelu_forward(dev, active, sequences(pass, pooler->u), first,
                                 table(model, weight_offset, active.cols, first.cols),
                                 vector(model, bias), activation);
        dev->drop_first_rows(dev, pooled, active, dropout, pass->batch);
    }
}

static void pool_forward(const struct pass *pass, struct dropout dropout) {
    const struct param_table *offsets = pass->model->table;
    const struct batch *batch = pass->batch;
    const struct class_buffers *pooler = &pass->activations->pooler;
    const struct mat first = sequences(pass, pooler->first);
    struct device *dev = pass->model->device;
    dev->gather_rows(dev, first, last_output(pass), batch->cu_seqlens, batch->sequence_count);
    if (row_of(pass)->class_input_dropout) {
        dev->drop_first_rows(dev, first, first, input_dropout(pass), batch);
    }
    dense_forward(pass, first, dropout);
    head_linear(pass, sequences(pass, pass->activations->logits), sequences(pass, pooler->pooled),
                offsets->head_weight, offsets->head_bias);
}

static void class_forward(const struct pass *pass) {
    pool_forward(pass, dropout_at(pass, RNG_SITE_HEAD, 0));
}

static void sequence_loss(const struct pass *pass, struct mat dlogits, float loss_scale) {
    struct device *dev = pass->model->device;
    const struct batch *batch = pass->batch;
    const struct mat logits = sequences(pass, pass->activations->logits);
    float *losses = pass->activations->losses;
    const int64_t count = batch->sequence_count;
    // The next-sentence prediction always has two classes, whatever the configuration says.
    const int is_own = pass->model->table->head == PARAM_HEAD_CLASS;
    switch (is_own ? pass->model->config->problem : BERT_CLASSES) {
    case BERT_REGRESSION:
        dev->squared_loss(dev, dlogits, losses, logits, loss_scale, batch->targets, count);
        break;
    case BERT_MULTI_LABEL:
        dev->sigmoid_loss(dev, dlogits, losses, logits, loss_scale, pass->model->positive_weight,
                          batch->label_targets, count);
        break;
    default:
        class_loss(pass, &(struct class_scores){.dlogits = dlogits,
                                                .logits = logits,
                                                .losses = losses,
                                                .scale = loss_scale,
                                                .labels = batch->labels,
                                                .count = count});
    }
}

// Sets dx to the gradient of the dense layer's input, from that of its output, which it overwrites.
static void dense_backward(const struct pass *pass, struct mat dx, struct mat dpooled,
                           struct dropout dropout) {
    const struct bert *model = pass->model;
    const struct class_buffers *pooler = &pass->activations->pooler;
    const enum activation activation = row_of(pass)->class_activation;
    const struct mat first = sequences(pass, pooler->first);
    const int64_t weight_offset = model->table->pooler_weight, bias = model->table->pooler_bias;
    struct device *dev = model->device;
    if (activation == ACTIVATION_TANH) {
        dev->tanh_backward(dev, dpooled, dpooled, sequences(pass, pooler->active), dropout,
                           pass->batch);
        head_linear_backward(pass, dx, dpooled, first, weight_offset, bias);
        return;
    }
    dev->drop_first_rows(dev, dpooled, dpooled, dropout, pass->batch);
    dev->gelu_backward(dev, dpooled, gradient(model, bias), sequences(pass, pooler->u), activation);
    dev->linear_backward_weight(dev, gradient_mat(model, weight_offset, dpooled.cols, first.cols),
                                NULL, dpooled, first);
    dev->linear_backward_input(dev, dx, dpooled,
                               table(model, weight_offset, dpooled.cols, first.cols));
}

// Sets dresidual to the gradient at the first tokens and to zero elsewhere.
static void pool_backward(const struct pass *pass, struct dropout dropout, float loss_scale) {
    const struct param_table *offsets = pass->model->table;
    const struct batch *batch = pass->batch;
    const struct class_buffers *pooler = &pass->activations->pooler;
    const struct mat pooled = sequences(pass, pooler->pooled);
    const struct mat dpooled = sequences(pass, pooler->dpooled);
    const struct mat dlogits = sequences(pass, pass->activations->dlogits);
    struct device *dev = pass->model->device;
    sequence_loss(pass, dlogits, loss_scale);
    head_linear_backward(pass, dpooled, dlogits, pooled, offsets->head_weight, offsets->head_bias);
    dense_backward(pass, pooled, dpooled, dropout);
    if (row_of(pass)->class_input_dropout) {
        dev->drop_first_rows(dev, pooled, pooled, input_dropout(pass), batch);
    }
    dev->scatter_rows(dev, used(pass, pass->activations->dresidual), pooled, batch->cu_seqlens,
                      batch->sequence_count);
}

static void class_backward(const struct pass *pass, float loss_scale) {
    pool_backward(pass, dropout_at(pass, RNG_SITE_HEAD, 0), loss_scale);
}

// --- token --------------------------------------------------------------------------------------

// The used rows of a buffer with one row per masked or labelled token.
static struct mat masked(const struct pass *pass, struct mat buffer) {
    return mat_is_empty(buffer) ? buffer
                                : mat_rows(buffer, 0, batch_round(pass->batch->masked_count));
}

static void token_backward(const struct pass *pass, float loss_scale) {
    const struct batch *batch = pass->batch;
    const struct token_buffers *tokens = &pass->activations->tokens;
    struct device *dev = pass->model->device;
    const struct mat dlogits = used(pass, pass->activations->dlogits);
    const struct mat chosen = masked(pass, tokens->logits);
    const int64_t count = batch->masked_count;
    const size_t sequences = (size_t)batch->sequence_count;
    assert(count > 0);
    dev->zero(dev, pass->activations->losses, sequences * sizeof(float));
    dev->gather_rows(dev, chosen, used(pass, pass->activations->logits), batch->masked_rows, count);
    class_loss(pass, &(struct class_scores){.dlogits = chosen,
                                            .logits = chosen,
                                            .losses = tokens->losses,
                                            .scale = loss_scale * batch->masked_weight,
                                            .labels = batch->masked_labels,
                                            .count = count});
    dev->scatter_rows(dev, dlogits, chosen, batch->masked_rows, count);
    tokens_backward(pass);
}

// --- pre-training -------------------------------------------------------------------------------

static const struct dropout no_dropout = {.site = RNG_SITE_HEAD};

static enum activation transform_activation(const struct pass *pass) {
    return row_of(pass)->transform_is_gelu ? ACTIVATION_GELU_ERF : pass->model->config->hidden_act;
}

static void transform_forward(const struct pass *pass) {
    const struct bert *model = pass->model;
    const struct param_table *offsets = model->table;
    const struct decoder_buffers *decoder = &pass->activations->decoder;
    struct device *dev = model->device;
    const struct mat x = masked(pass, decoder->masked), gelu = masked(pass, decoder->gelu);
    dev->gather_rows(dev, x, last_output(pass), pass->batch->masked_rows,
                     pass->batch->masked_count);
    dev->linear_gelu_forward(dev, gelu, masked(pass, decoder->u), x,
                             table(model, offsets->transform_weight, gelu.cols, x.cols),
                             vector(model, offsets->transform_bias), transform_activation(pass));
    struct norm_args args = {
        .y = masked(pass, decoder->norm.y),
        .y_compute = masked(pass, decoder->norm.y_compute),
        .xhat = masked(pass, decoder->norm.xhat),
        .rstd = decoder->norm.rstd,
        .residual = gelu,
        .gamma = vector(model, offsets->transform_norm_weight),
        .beta = vector(model, offsets->transform_norm_bias),
        .epsilon = (float)model->config->layer_norm_eps,
    };
    dev->norm_forward(dev, &args, pass->batch);
}

// Computes the logits of the masked tokens [first, first + rows).
static struct mat decode_forward(const struct pass *pass, int64_t first, int64_t rows) {
    const struct bert *model = pass->model;
    const struct decoder_buffers *decoder = &pass->activations->decoder;
    const struct mat h = mat_rows(norm_operand(&decoder->norm), first, rows);
    const struct mat logits = mat_rows(decoder->logits, 0, rows);
    model->device->linear_forward(model->device, logits, h,
                                  weight(model, model->table->word, logits.cols, h.cols),
                                  vector(model, model->table->decoder_bias));
    return logits;
}

// Computes losses and gradients of the masked tokens [first, first + rows), forward and backward.
static void decode(const struct pass *pass, int64_t first, int64_t rows, float scale) {
    const struct bert *model = pass->model;
    const struct param_table *offsets = model->table;
    const struct decoder_buffers *decoder = &pass->activations->decoder;
    const struct batch *batch = pass->batch;
    struct device *dev = model->device;
    const struct mat h = mat_rows(norm_operand(&decoder->norm), first, rows);
    const struct mat logits = decode_forward(pass, first, rows);
    const struct mat dlogits = mat_rows(decoder->dlogits, 0, rows);
    const struct mat words = weight(model, offsets->word, logits.cols, h.cols);
    const int64_t left = batch->masked_count - first;
    dev->class_loss(dev, dlogits, decoder->losses + first, NULL, logits, scale,
                    batch->masked_labels + first, left < rows ? left : rows);
    dev->linear_backward_weight(dev, gradient_mat(model, offsets->word, logits.cols, h.cols),
                                gradient(model, offsets->decoder_bias), dlogits, h);
    dev->linear_backward_input(dev, mat_rows(decoder->dnorm, first, rows), dlogits, words);
}

static void decode_all(const struct pass *pass, float scale) {
    const int64_t rows = batch_round(pass->batch->masked_count);
    for (int64_t first = 0; first < rows; first += DECODER_ROWS) {
        decode(pass, first, rows - first < DECODER_ROWS ? rows - first : DECODER_ROWS, scale);
    }
}

static void transform_backward(const struct pass *pass) {
    const struct bert *model = pass->model;
    const struct param_table *offsets = model->table;
    const struct decoder_buffers *decoder = &pass->activations->decoder;
    struct device *dev = model->device;
    const struct mat d = masked(pass, decoder->dnorm), x = masked(pass, decoder->masked);
    struct norm_grad_args args = {
        .dresidual = d,
        .dy = d,
        .xhat = masked(pass, decoder->norm.xhat),
        .rstd = decoder->norm.rstd,
        .gamma = vector(model, offsets->transform_norm_weight),
        .dgamma = gradient(model, offsets->transform_norm_weight),
        .dbeta = gradient(model, offsets->transform_norm_bias),
    };
    dev->norm_backward(dev, &args, pass->batch);
    dev->gelu_backward(dev, d, gradient(model, offsets->transform_bias), masked(pass, decoder->u),
                       transform_activation(pass));
    dev->linear_backward_weight(dev, gradient_mat(model, offsets->transform_weight, d.cols, x.cols),
                                NULL, d, x);
    const struct mat dx = masked(pass, decoder->dmasked);
    dev->linear_backward_input(dev, dx, d, table(model, offsets->transform_weight, d.cols, x.cols));
    dev->scatter_add_rows(dev, used(pass, pass->activations->dresidual), dx,
                          pass->batch->masked_rows, pass->batch->masked_count);
}

void bert_decode(const struct bert *model, struct bert_activations *activations,
                 const struct batch *batch) {
    const struct pass pass = {.model = model, .activations = activations, .batch = batch};
    const struct decoder_buffers *decoder = &activations->decoder;
    const struct mat none = {0};
    for (int64_t first = 0; first < batch->masked_count; first += DECODER_ROWS) {
        int64_t left = batch->masked_count - first;
        int64_t count = left < DECODER_ROWS ? left : DECODER_ROWS;
        const struct mat logits = decode_forward(&pass, first, batch_round(count));
        model->device->class_loss(model->device, none, decoder->losses + first,
                                  decoder->hits + first, logits, 1, batch->masked_labels + first,
                                  count);
    }
}

struct mat bert_decode_logits(const struct bert *model, struct bert_activations *activations,
                              const struct batch *batch, int64_t first, int64_t count) {
    const struct pass pass = {.model = model, .activations = activations, .batch = batch};
    return mat_rows(decode_forward(&pass, first, batch_round(count)), 0, count);
}

static void pretraining_forward(const struct pass *pass) {
    pool_forward(pass, no_dropout);
    if (pass->batch->masked_count > 0) {
        transform_forward(pass);
    }
}

static void pretraining_backward(const struct pass *pass, float loss_scale) {
    pool_backward(pass, no_dropout, loss_scale);
    if (pass->batch->masked_count > 0) {
        decode_all(pass, loss_scale * pass->batch->masked_weight);
        transform_backward(pass);
    }
}

// --- masked tokens alone ------------------------------------------------------------------------

static void masked_forward(const struct pass *pass) {
    if (pass->batch->masked_count > 0) {
        transform_forward(pass);
    }
}

static void masked_backward(const struct pass *pass, float loss_scale) {
    struct device *dev = pass->model->device;
    const struct bert_activations *activations = pass->activations;
    const struct mat dresidual = used(pass, activations->dresidual);
    const size_t sequences = (size_t)pass->batch->sequence_count;
    dev->zero(dev, dresidual.data, (size_t)(dresidual.rows * dresidual.cols) * sizeof(float));
    dev->zero(dev, activations->losses, sequences * sizeof *activations->losses);
    if (pass->batch->masked_count > 0) {
        decode_all(pass, loss_scale * pass->batch->masked_weight);
        transform_backward(pass);
    }
}

// ------------------------------------------------------------------------------------------------

static const struct bert_head heads[PARAM_HEADS] = {
    [PARAM_HEAD_SPAN] = {.per_token = 1, .forward = tokens_forward, .backward = span_backward},
    [PARAM_HEAD_CLASS] = {.reads_some = 1, .forward = class_forward, .backward = class_backward},
    [PARAM_HEAD_TOKEN] = {.per_token = 1, .forward = tokens_forward, .backward = token_backward},
    [PARAM_HEAD_PRETRAINING] = {.reads_some = 1,
                                .forward = pretraining_forward,
                                .backward = pretraining_backward},
    [PARAM_HEAD_MASKED] = {.reads_some = 1, .forward = masked_forward, .backward = masked_backward},
    [PARAM_HEAD_EMBEDDING] = {.forward = embedding_forward, .backward = embedding_backward},
};

const struct bert_head *bert_head_of(enum param_head head) {
    return &heads[head];
}

int bert_head_reads_some(const struct bert *model) {
    const enum param_head head = model->table->head;
    return head == PARAM_HEAD_EMBEDDING
               ? !model->reads_rows && model->config->embedding.pooling == BERTH_POOL_CLS
               : heads[head].reads_some;
}

int64_t bert_head_rows(const struct bert *model, int64_t tokens, int64_t sequences,
                       int64_t masked) {
    const int64_t rows = sequences + masked;
    return !bert_head_reads_some(model) ? 0 : rows < tokens ? rows : tokens;
}
