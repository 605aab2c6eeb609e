// SPDX-License-Identifier: Apache-2.0
// How the rows of a text become one vector: what devices compute (device/device.h), and what the
// files of a model of embeddings name (model/sentence.h).
#ifndef BERTH_CORE_POOLING_H
#define BERTH_CORE_POOLING_H

enum berth_pooling {
    BERTH_POOL_MEAN,             /* mean of the last layer's rows, including [CLS] and [SEP] */
    BERTH_POOL_CLS,              /* the row of [CLS] */
    BERTH_POOL_MAX,              /* maximum of each column */
    BERTH_POOL_MEAN_SQRT_LENGTH, /* sum of the rows, divided by the square root of their number */
    BERTH_POOL_WEIGHTED_MEAN,    /* mean of the rows, with weight i for row i (from 1) */
    BERTH_POOL_LAST              /* the last row, which is that of [SEP] */
};

#endif
