// SPDX-License-Identifier: Apache-2.0
// The fixed tree along which sums over ranks and over the parts of an update are added.
//
// The sum of one addend is itself; that of more is the sum of the first 2^k, the largest power of
// two below their number, plus the sum of the rest. So with equal powers of two of ranks on each
// host, the tree over hosts of the trees over their ranks is the tree over all ranks.
#ifndef BERTH_CORE_ADDENDS_H
#define BERTH_CORE_ADDENDS_H

// How many of n > 1 addends are in the first half.
static inline int addends_split(int n) {
    int half = 1;
    while (half * 2 < n) {
        half *= 2;
    }
    return half;
}

#endif
