// SPDX-License-Identifier: Apache-2.0
// Who adds the gradients of several ranks, and why: Berth, along its tree, or the library that
// connects them (comm_range.native). The option `reduce`.
#ifndef BERTH_TRAIN_REDUCE_CHOICE_H
#define BERTH_TRAIN_REDUCE_CHOICE_H

#include "comm/comm.h"
#include "core/error.h"
#include "core/log.h"
#include "settings/engine.h"
#include "train/engine/all_reduce.h"

struct reduce_choice {
    int native;
    char reason[192]; // for the plan; empty in one process
};

// The same on all ranks, and every time: a forecast, with usual costs and an assumed link, decides
// for `auto`. BERTH_CONFIG: what was asked for is impossible.
enum berth_status reduce_choose(const struct engine_settings *settings, struct comm *comm,
                                const struct state *state, const struct all_reduce_rules *rules,
                                struct reduce_choice *choice, struct berth_error *error);
// Says which promises do not hold.
void reduce_choice_note(const struct reduce_choice *choice, const struct all_reduce *all_reduce,
                        const struct berth_log *log);

#endif
