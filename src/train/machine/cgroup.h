// SPDX-License-Identifier: Apache-2.0
// The memory limits of the control groups that this process is in, of versions 1 and 2.
#ifndef BERTH_TRAIN_CGROUP_H
#define BERTH_TRAIN_CGROUP_H

#include <stdint.h>

// Bytes that the process may still take before one of its groups, or a group around one of them, is
// at its limit. The page cache of files counts as free: the kernel drops it before it kills.
// UINT64_MAX: no limit that can be read. `root` is what the paths of /proc and of the groups begin
// with: "" but in tests.
uint64_t cgroup_memory_rest(const char *root);

#endif
