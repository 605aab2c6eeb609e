// SPDX-License-Identifier: Apache-2.0
#ifndef BERTH_TESTS_DEVICE_REFERENCE_ACTIVATIONS_H
#define BERTH_TESTS_DEVICE_REFERENCE_ACTIVATIONS_H

#include "device/device.h"

double reference_activation(double x, enum activation activation);
double reference_activation_slope(double x, enum activation activation);

#endif
