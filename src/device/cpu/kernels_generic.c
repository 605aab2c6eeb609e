// SPDX-License-Identifier: Apache-2.0
// The kernels compiled for the instruction set in this file's name, with the flags in room.cmake.
// kernels_choose.c takes one of these tables when the device is opened.
#define KERNELS_TABLE kernels_generic
#define KERNELS_NAME "generic"
#include "device/cpu/kernels/table.h"
