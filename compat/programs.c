// SPDX-License-Identifier: Apache-2.0
// The programs of all systems, in the order in which `berth as` lists them.
#include "program.h"

extern const struct compat_program compat_cscs[], compat_deepspeed[], compat_google[],
    compat_intel[], compat_nvidia[], compat_hugging_face[];

const struct compat_program *const compat_systems[] = {
    compat_cscs,   compat_deepspeed,    compat_google, compat_intel,
    compat_nvidia, compat_hugging_face, NULL};
