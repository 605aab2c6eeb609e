// SPDX-License-Identifier: Apache-2.0
// How the rows of a text become one: what devices compute, and what a model's files name.
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
