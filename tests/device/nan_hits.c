// SPDX-License-Identifier: Apache-2.0
// Rows with a NaN in class_loss; see nan_hits.h.
#include "nan_hits.h"

#include "core/harness.h"

#include <math.h>

enum { ROWS = 5, CLASSES = 37 };

static void *on_device(struct device *dev, const void *from, size_t bytes) {
    void *block = dev->memory_new(dev, bytes);
    assert_non_null(block);
    dev->upload(dev, block, from, bytes);
    return block;
}

// The label is class 3, which has the largest logit. The NaN is the label's own logit, one before
// it, one after it, or all of them; the last row has none and is a hit.
void nan_hits_check(struct device *dev) {
    static const int32_t labels[ROWS] = {3, 3, 3, 3, 3};
    static const int nan_columns[ROWS] = {3, 0, CLASSES - 1, -1, CLASSES};
    float logits[ROWS * CLASSES], losses[ROWS] = {0};
    unsigned char hits[ROWS] = {7, 7, 7, 7, 7};
    for (int i = 0; i < ROWS * CLASSES; i++) {
        const int row = i / CLASSES, column = i % CLASSES;
        logits[i] = column == nan_columns[row] || nan_columns[row] < 0 ? NAN : column == 3 ? 5 : 1;
    }
    void *own_logits = on_device(dev, logits, sizeof logits);
    void *own_labels = on_device(dev, labels, sizeof labels);
    void *own_losses = on_device(dev, losses, sizeof losses);
    void *own_hits = on_device(dev, hits, sizeof hits);
    dev->class_loss(dev, (struct mat){0}, own_losses, own_hits,
                    mat_of(own_logits, ROWS, CLASSES, DTYPE_F32), 1, own_labels, ROWS);
    dev->download(dev, losses, own_losses, sizeof losses);
    dev->download(dev, hits, own_hits, sizeof hits);
    for (int row = 0; row < ROWS; row++) {
        assert_int_equal(hits[row], row == ROWS - 1);
        assert_int_equal(isnan(losses[row]) != 0, row < ROWS - 1);
    }
    dev->memory_free(dev, own_logits, sizeof logits);
    dev->memory_free(dev, own_labels, sizeof labels);
    dev->memory_free(dev, own_losses, sizeof losses);
    dev->memory_free(dev, own_hits, sizeof hits);
}
