// SPDX-License-Identifier: Apache-2.0
// The kernels of int8 compiled for the instruction set in this file's name (flags in room.cmake).
#define INT8_TABLE int8_generic
#define INT8_NAME "generic"
#include "device/cpu/kernels/product_int8.h"
