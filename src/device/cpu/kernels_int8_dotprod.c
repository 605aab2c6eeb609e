// SPDX-License-Identifier: Apache-2.0
// The kernels of int8 compiled for the instruction set in this file's name, with the flags in
// room.cmake. int8_choose.c takes one of these tables when the device is opened.
#if defined(__aarch64__)
#define INT8_TABLE int8_dotprod
#define INT8_NAME "dotprod"
#include "device/cpu/kernels/product_int8.h"
#endif
