// SPDX-License-Identifier: Apache-2.0
// The fixed reduction tree of sums over ranks and over the parts of an update.
//
// n > 1 addends are split into the first 2^k, the largest power of two below n, and the rest; the
// sum is that of both halves. So if every host runs the same power of two of ranks, the tree over
// hosts of the trees over their ranks equals the tree over all ranks.
#ifndef BERTH_CORE_REDUCTION_TREE_H
#define BERTH_CORE_REDUCTION_TREE_H

// The number of addends in the first half of n > 1.
static inline int reduction_tree_split(int n) {
    int half = 1;
    while (half * 2 < n) {
        half *= 2;
    }
    return half;
}

#endif
