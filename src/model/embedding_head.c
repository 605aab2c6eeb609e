// SPDX-License-Identifier: Apache-2.0
// The head of embeddings, which heads.h declares. Losses of cosines are those of vectors scaled to
// length 1, of negatives to the square root of the cosines' factor, so that products are the scaled
// cosines. With Matryoshka dimensions, each of them is a loss of the vectors' first columns, scaled
// to length 1; their gradients are added. Pooling and products are the device's.
#include "model/bert.h"
#include "model/heads.h"
#include "model/pass.h"

#include <math.h>

// One loss of the vectors [count, columns] of `count` texts.
struct vectors_loss {
    const struct bert *model;
    const struct bert_activations *activations;
    const struct bert_objective *objective;
    struct mat x, dx; // the vectors, and their gradients, to which it adds
    float *losses;    // [count]
    float scale;      // of the gradient
    int is_cut;       // the vectors are cut, and scaled to length 1
    int64_t count;
    const struct batch *batch; // whose targets; NULL: a group of pieces, which has none
};

static struct mat rows_of(struct mat m, int64_t first, int64_t count) {
    return mat_rows(m, first, count);
}

// --- losses and pieces, as bert.h declares them --------------------------------------------------

int64_t bert_loss_count(const struct bert *model) {
    const int64_t dimensions = model->config->embedding.dimension_count;
    return model->table->head == PARAM_HEAD_EMBEDDING && dimensions > 0 ? dimensions : 1;
}

double bert_loss_weight(const struct bert *model, const struct batch *batch, int64_t index) {
    const struct bert_embedding *embedding = &model->config->embedding;
    if (model->table->head != PARAM_HEAD_EMBEDDING) {
        return 1;
    }
    return (embedding->objectives[batch->objective].is_symmetric ? 0.5 : 1) *
           (embedding->dimension_count > 0 ? embedding->dimension_weights[index] : 1);
}

void bert_set_piece(struct bert_activations *activations, int64_t first) {
    activations->is_piece = first >= 0;
    activations->piece_first = first >= 0 ? first : 0;
}

// --- negatives ----------------------------------------------------------------------------------

// Cross entropies of the rows of a b^T, whose classes are the rows' numbers; the products become
// their gradients.
static void class_losses(const struct vectors_loss *of, struct mat products, struct mat a,
                         struct mat b, float *losses, float scale) {
    struct device *dev = of->model->device;
    dev->linear_forward(dev, products, a, b, NULL);
    dev->class_loss(dev, products, losses, NULL, products, scale, NULL, a.rows);
}

// The loss of the group whose first text is row `first`, of `count` examples. The symmetric form
// also asks for the first text of each second one; both halves then have the weight 1/2
// (bert_loss_weight). Products write a gradient's rows before others add to them.
static void group_loss(const struct vectors_loss *of, struct mat unit, struct mat dunit,
                       int64_t first, int64_t count) {
    const struct embedding_buffers *buffers = &of->activations->embedding_loss;
    const int is_symmetric = of->objective->is_symmetric;
    const int64_t others = count * (of->objective->texts - 1);
    const float scale = is_symmetric ? of->scale / 2 : of->scale;
    const struct mat a = rows_of(unit, first, count), da = rows_of(dunit, first, count);
    const struct mat b = rows_of(unit, first + count, others),
                     db = rows_of(dunit, first + count, others);
    const struct mat second = rows_of(b, 0, count);
    const struct mat products = mat_of(buffers->cosines, count, others, DTYPE_F32);
    const struct mat reverse = mat_of(buffers->reverse_cosines, count, count, DTYPE_F32);
    struct device *dev = of->model->device;
    if (is_symmetric) {
        class_losses(of, reverse, second, a, of->losses + first + count, scale);
        dev->linear_backward_input(dev, rows_of(db, 0, count), reverse, a);
    }
    class_losses(of, products, a, b, of->losses + first, scale);
    dev->linear_backward_weight(dev, db, NULL, products, a);
    dev->linear_backward_input(dev, da, products, b);
    if (is_symmetric) {
        dev->linear_backward_weight(dev, da, NULL, reverse, second);
    }
}

// Sets dunit to the gradient of the unit vectors.
static void negatives_loss(const struct vectors_loss *of, struct mat unit, struct mat dunit) {
    const struct bert_objective *objective = of->objective;
    const int64_t examples = of->count / objective->texts;
    struct device *dev = of->model->device;
    dev->zero(dev, dunit.data, (size_t)(dunit.rows * dunit.cols) * sizeof(float));
    dev->zero(dev, of->losses, (size_t)of->count * sizeof(float));
    for (int64_t done = 0; done < examples; done += objective->group) {
        const int64_t left = examples - done;
        group_loss(of, unit, dunit, done * objective->texts,
                   left < objective->group ? left : objective->group);
    }
}

// --- similarities -------------------------------------------------------------------------------

// Sets dx to the gradient of the vectors x.
static void similarities_loss(const struct vectors_loss *of, struct mat dx, struct mat x) {
    const struct bert_objective *objective = of->objective;
    const struct mat targets = mat_of((void *)of->batch->label_targets, batch_round(of->count),
                                      of->model->config->hidden_size, DTYPE_F32);
    const struct similarity_args args = {.dx = dx,
                                         .losses = of->losses,
                                         .x = x,
                                         .loss = objective->similarity,
                                         .margin = (float)objective->margin,
                                         .factor = (float)objective->scale,
                                         .scale = of->scale,
                                         .targets = of->batch->targets,
                                         .vectors = objective->similarity == SIMILARITY_VECTORS
                                                        ? mat_columns(targets, 0, x.cols)
                                                        : (struct mat){0},
                                         .texts = objective->texts,
                                         .group = objective->group,
                                         .count = of->count};
    of->model->device->similarity_loss(of->model->device, &args);
}

// --- either -------------------------------------------------------------------------------------

static void add_loss(const struct vectors_loss *of) {
    const struct embedding_buffers *buffers = &of->activations->embedding_loss;
    const int is_group = of->objective->loss == BERT_NEGATIVES;
    const int64_t columns = of->x.cols;
    const struct mat unit = mat_of(buffers->unit.data, of->x.rows, columns, DTYPE_F32),
                     dunit = mat_of(buffers->dunit.data, of->x.rows, columns, DTYPE_F32);
    const float radius = is_group ? sqrtf((float)of->objective->scale) : 1;
    struct device *dev = of->model->device;
    if (!of->is_cut && !of->model->config->embedding.normalize && !of->objective->is_of_cosines) {
        similarities_loss(of, of->dx, of->x);
        return;
    }
    dev->normalize_forward(dev, unit, buffers->lengths, of->x, radius, of->count);
    if (is_group) {
        negatives_loss(of, unit, dunit);
    } else {
        similarities_loss(of, dunit, unit);
    }
    dev->normalize_backward(dev, of->dx, dunit, unit, buffers->lengths, radius, of->count);
}

// Sets dlogits to the gradient of the first `count` vectors in logits. batch NULL: of several.
static void set_gradients(const struct bert *model, const struct bert_activations *activations,
                          int64_t objective, const struct batch *batch, int64_t count,
                          float loss_scale) {
    const struct bert_embedding *embedding = &model->config->embedding;
    const struct mat x = mat_rows(activations->logits, 0, batch_round(count)),
                     dx = mat_rows(activations->dlogits, 0, batch_round(count));
    struct device *dev = model->device;
    dev->zero(dev, dx.data, (size_t)(dx.rows * dx.cols) * sizeof(float));
    for (int64_t i = 0; i < bert_loss_count(model); i++) {
        const int is_cut = embedding->dimension_count > 0;
        const int64_t columns = is_cut ? embedding->dimensions[i] : x.cols;
        add_loss(&(struct vectors_loss){
            .model = model,
            .activations = activations,
            .objective = &embedding->objectives[objective],
            .x = mat_columns(x, 0, columns),
            .dx = mat_columns(dx, 0, columns),
            .losses = activations->losses + i * activations->max_sequences,
            .scale = loss_scale * (float)(is_cut ? embedding->dimension_weights[i] : 1),
            .is_cut = is_cut,
            .count = count,
            .batch = batch});
    }
}

void bert_group_losses(const struct bert *model, struct bert_activations *activations,
                       int64_t objective, int64_t sequences, float loss_scale) {
    set_gradients(model, activations, objective, NULL, sequences, loss_scale);
}

// The rows of a batch's vectors.
static struct mat vectors_of(const struct pass *pass, struct mat m) {
    const int64_t first = pass->activations->piece_first, count = pass->batch->sequence_count;
    return mat_rows(m, first, pass->activations->is_piece ? count : batch_round(count));
}

void embedding_forward(const struct pass *pass) {
    struct device *dev = pass->model->device;
    if (!pass->model->reads_rows) {
        dev->pool_forward(dev, vectors_of(pass, pass->activations->logits), last_output(pass),
                          pass->model->config->embedding.pooling, pass->batch);
    }
}

void embedding_backward(const struct pass *pass, float loss_scale) {
    struct device *dev = pass->model->device;
    if (!pass->activations->is_piece) {
        set_gradients(pass->model, pass->activations, pass->batch->objective, pass->batch,
                      pass->batch->sequence_count, loss_scale);
    }
    dev->pool_backward(dev, used(pass, pass->activations->dresidual),
                       vectors_of(pass, pass->activations->dlogits), last_output(pass),
                       pass->model->config->embedding.pooling, pass->batch);
}
