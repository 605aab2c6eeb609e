// SPDX-License-Identifier: Apache-2.0
// What the engine follows, out of the settings of all its owners: the rules of an update, and how
// the ranks divide what an update changes.
#ifndef BERTH_TRAIN_RULES_H
#define BERTH_TRAIN_RULES_H

#include "settings/settings.h"
#include "train/engine/batching.h"
#include "train/engine/update.h"

struct batching_request batching_request_of(const struct settings *config);
// Gradients travel in the compute type unless the config names another.
struct update_rules update_rules_of(const struct settings *config, const struct bert_config *shape,
                                    enum param_head head, enum dtype compute);

// Sets *sharding to how the ranks divide the state, by config->zero_stage and the optimizer (after
// optimizer_settle). Stage 3 is BERTH_CONFIG. A single process divides nothing.
enum berth_status sharding_of(const struct settings *config, const struct comm *comm,
                              struct state_sharding *sharding, struct berth_error *error);

#endif
