// SPDX-License-Identifier: Apache-2.0
// Checks that the ranks of a job were started alike. Ranks with different settings would deadlock,
// or silently train different models.
#ifndef BERTH_TRAIN_RANK_SETTINGS_H
#define BERTH_TRAIN_RANK_SETTINGS_H

#include "core/comm.h"
#include "core/error.h"

// All ranks call both. BERTH_CONFIG names the first difference from rank 0.

// Compares what the processes do, "train squad", and the program's version.
enum berth_status rank_settings_compare_job(struct comm *comm, const char *job,
                                            struct berth_error *error);
// Compares every setting except those whose row is local.
enum berth_status rank_settings_compare(struct comm *comm, const struct berth_config *config,
                                        struct berth_error *error);

#endif
