// SPDX-License-Identifier: Apache-2.0
// The file that says which rack each host is in. A line has a host and its rack:
//
//     # hosts of one rack are under one switch
//     n001 r1
//     n002 r1
//     n101 r2
//
// Empty lines and what follows a "#" are skipped. Hosts that are not in the job may be in it.
#ifndef BERTH_COMM_RACK_FILE_H
#define BERTH_COMM_RACK_FILE_H

#include "comm/topology.h"
#include "core/error.h"

// Finds the rack of `host`; without its domain, if only one of the names has one. BERTH_CONFIG: the
// file has no line for it, two that differ, or one that is no host and rack; BERTH_IO: it cannot be
// read.
enum berth_status rack_file_find(const char *path, const char *host, char rack[RACK_NAME],
                                 struct berth_error *error);

#endif
