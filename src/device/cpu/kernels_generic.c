// SPDX-License-Identifier: Apache-2.0
// The kernels compiled for the instruction set in this file's name (flags in room.cmake).
#define KERNELS_TABLE kernels_generic
#define KERNELS_NAME "generic"
#include "device/cpu/kernels/table.h"
