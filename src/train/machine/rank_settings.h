// SPDX-License-Identifier: Apache-2.0
// Whether the ranks of a job were started alike. Ranks with different settings would wait for each
// other in vain, or compute different models without a sign of it.
#ifndef BERTH_TRAIN_RANK_SETTINGS_H
#define BERTH_TRAIN_RANK_SETTINGS_H

#include "core/comm.h"
#include "core/error.h"

// All ranks call both. BERTH_CONFIG: a rank does not have what rank 0 has; the error names it.

// What the process does, "train squad", and the version of the program.
enum berth_status rank_settings_compare_job(struct comm *comm, const char *job,
                                            struct berth_error *error);
// Every setting, except those whose row is local.
enum berth_status rank_settings_compare(struct comm *comm, const struct berth_config *config,
                                        struct berth_error *error);

#endif
