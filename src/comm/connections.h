// SPDX-License-Identifier: Apache-2.0
// The open files that a process needs to be one of several. Over TCP, an MPI has an open file for
// each process that it sends to, and it opens them when they are first used: without the check, a
// job of many hosts would start and then end in its first update.
#ifndef BERTH_COMM_CONNECTIONS_H
#define BERTH_COMM_CONNECTIONS_H

#include "core/error.h"
#include "core/launcher.h"

#include <stdint.h>

// The processes of other hosts that one of `size` processes talks to, if each host has `local_size`
// (0: unknown): in exchanges one of each host (topology_handler), in collectives those above and
// below it in trees, and two in a ring.
int64_t connections_of(int64_t size, int64_t local_size);

// Raises the limit of open files if it is too low for this process. BERTH_UNAVAILABLE: the hard
// limit is too low.
enum berth_status connections_reserve(const struct launch *launch, struct berth_error *error);

#endif
