// SPDX-License-Identifier: Apache-2.0
// The memory and CPU limits of the process's control groups, versions 1 and 2. The plan and the
// number of threads respect them (machine.h, cores.h), because exceeding them ends the process.
#ifndef BERTH_TRAIN_CGROUP_H
#define BERTH_TRAIN_CGROUP_H

#include <stdint.h>

// The number of bytes that the process may still allocate before one of its groups, or a parent
// group, reaches its limit. The page cache of files counts as free, because the kernel drops it
// before it kills. UINT64_MAX: no readable limit. `root` is a prefix of the paths of /proc and of
// the groups, "" except in tests.
uint64_t cgroup_memory_available(const char *root);

// The number of processors whose time the group and its parents allow, rounded up. UINT64_MAX: no
// limit.
uint64_t cgroup_processors(const char *root);

#endif
