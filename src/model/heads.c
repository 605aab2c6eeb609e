// SPDX-License-Identifier: Apache-2.0
// The heads, with y the last layer's output; all of it in f32, for it costs next to nothing.
//
//   span     logits = y Wh^T + bh, one row for each token
//   class    f = the first row of each sequence; t = tanh(f Wp^T + bp);
//            logits = dropout(t) Wh^T + bh, one row for each sequence
//
// The class head's loss is the cross entropy, or with one output the squared error: Hugging Face's
// BertForSequenceClassification of "num_labels" 1 is a regression.
#include "model/heads.h"

#include "model/pass.h"

static struct mat last_output(const struct pass *pass) {
    return used(pass, layer_input(pass->activations, pass->model->config->num_hidden_layers)->y);
}

static void no_forward(const struct pass *pass) {
    (void)pass;
}

// --- linear layers of the heads: f32, straight from the master weights ---------------------------

static void head_linear(const struct pass *pass, struct mat y, struct mat x, int64_t weight_at,
                        int64_t bias_at) {
    const struct bert *model = pass->model;
    model->device->linear_forward(model->device, y, x, table(model, weight_at, y.cols),
                                  vector(model, bias_at));
}

// Adds the layer's gradients; dx, where it is not empty, becomes that of x.
static void head_linear_backward(const struct pass *pass, struct mat dx, struct mat dy,
                                 struct mat x, int64_t weight_at, int64_t bias_at) {
    const struct bert *model = pass->model;
    struct device *dev = model->device;
    dev->linear_backward_weight(dev, gradient_mat(model, weight_at, dy.cols, x.cols),
                                gradient(model, bias_at), dy, x);
    dev->linear_backward_input(dev, dx, dy, table(model, weight_at, dy.cols));
}

// --- span ---------------------------------------------------------------------------------------

static void span_forward(const struct pass *pass) {
    const struct param_table *at = pass->model->table;
    head_linear(pass, used(pass, pass->activations->logits), last_output(pass), at->head_weight,
                at->head_bias);
}

// dresidual takes the memory of the last output, once the head's weights have read that.
static void span_backward(const struct pass *pass, float loss_scale) {
    const struct param_table *at = pass->model->table;
    struct device *dev = pass->model->device;
    struct bert_activations *activations = pass->activations;
    const struct mat dlogits = used(pass, activations->dlogits);
    dev->span_loss(dev, dlogits, activations->losses, used(pass, activations->logits), loss_scale,
                   pass->batch);
    head_linear_backward(pass, used(pass, activations->dresidual), dlogits, last_output(pass),
                         at->head_weight, at->head_bias);
}

// --- class --------------------------------------------------------------------------------------

// The rows in use of a buffer with a row for each sequence.
static struct mat sequences(const struct pass *pass, struct mat buffer) {
    return mat_rows(buffer, 0, batch_round(pass->batch->sequence_count));
}

static void class_forward(const struct pass *pass) {
    const struct param_table *at = pass->model->table;
    const struct batch *batch = pass->batch;
    const struct class_buffers *pooler = &pass->activations->pooler;
    const struct mat first = sequences(pass, pooler->first), tanh = sequences(pass, pooler->tanh);
    const struct mat pooled = sequences(pass, pooler->pooled);
    struct device *dev = pass->model->device;
    dev->gather_rows(dev, first, last_output(pass), batch->cu_seqlens, batch->sequence_count);
    head_linear(pass, tanh, first, at->pooler_weight, at->pooler_bias);
    dev->tanh_forward(dev, pooled, tanh, tanh, dropout_at(pass, RNG_SITE_HEAD, 0), batch);
    head_linear(pass, sequences(pass, pass->activations->logits), pooled, at->head_weight,
                at->head_bias);
}

static void class_loss(const struct pass *pass, struct mat dlogits, float loss_scale) {
    struct device *dev = pass->model->device;
    const struct batch *batch = pass->batch;
    const struct mat logits = sequences(pass, pass->activations->logits);
    float *losses = pass->activations->losses;
    if (logits.cols == 1) {
        dev->squared_loss(dev, dlogits, losses, logits, loss_scale, batch->targets,
                          batch->sequence_count);
    } else {
        dev->class_loss(dev, dlogits, losses, logits, loss_scale, batch->labels,
                        batch->sequence_count);
    }
}

static void class_backward(const struct pass *pass, float loss_scale) {
    const struct param_table *at = pass->model->table;
    const struct batch *batch = pass->batch;
    const struct class_buffers *pooler = &pass->activations->pooler;
    const struct mat first = sequences(pass, pooler->first), tanh = sequences(pass, pooler->tanh);
    const struct mat pooled = sequences(pass, pooler->pooled);
    const struct mat dpooled = sequences(pass, pooler->dpooled);
    const struct mat dlogits = sequences(pass, pass->activations->dlogits);
    struct device *dev = pass->model->device;
    class_loss(pass, dlogits, loss_scale);
    head_linear_backward(pass, dpooled, dlogits, pooled, at->head_weight, at->head_bias);
    dev->tanh_backward(dev, dpooled, dpooled, tanh, dropout_at(pass, RNG_SITE_HEAD, 0), batch);
    head_linear_backward(pass, pooled, dpooled, first, at->pooler_weight, at->pooler_bias);
    dev->scatter_rows(dev, used(pass, pass->activations->dresidual), pooled, batch->cu_seqlens,
                      batch->sequence_count);
}

// ------------------------------------------------------------------------------------------------

static const struct bert_head heads[PARAM_HEADS] = {
    [PARAM_HEAD_NONE] = {.per_token = 1, .forward = no_forward},
    [PARAM_HEAD_SPAN] = {.per_token = 1, .forward = span_forward, .backward = span_backward},
    [PARAM_HEAD_CLASS] = {.forward = class_forward, .backward = class_backward},
};

const struct bert_head *bert_head_of(enum param_head head) {
    return &heads[head];
}
