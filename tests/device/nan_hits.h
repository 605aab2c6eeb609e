// SPDX-License-Identifier: Apache-2.0
// Hits of class_loss where logits are not finite, on any device.
#ifndef BERTH_TESTS_NAN_HITS_H
#define BERTH_TESTS_NAN_HITS_H

#include "core/device.h"

// Fails the test unless a row with a NaN is no hit and its loss is NaN, wherever it is.
void nan_hits_check(struct device *dev);

#endif
