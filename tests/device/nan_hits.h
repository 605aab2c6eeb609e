// SPDX-License-Identifier: Apache-2.0
// Tests the hits of class_loss on any device if logits are not finite.
#ifndef BERTH_TESTS_NAN_HITS_H
#define BERTH_TESTS_NAN_HITS_H

#include "device/device.h"

// Fails the test unless a row with a NaN, wherever it is, is no hit and has a loss of NaN.
void nan_hits_check(struct device *dev);

#endif
