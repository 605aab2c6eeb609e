// SPDX-License-Identifier: Apache-2.0
// Notes about options that another option makes useless: those of a schedule, an optimizer or a
// loss scale that the run does not have, and others.
#ifndef BERTH_TRAIN_UNUSED_H
#define BERTH_TRAIN_UNUSED_H

#include "core/log.h"
#include "settings/settings.h"

// `typed` is the config before files and recipes were applied, which may set more than they use;
// `config` is settled, with a valid loss_scale.
void unused_note(const struct settings *typed, const struct settings *config,
                 const struct berth_log *log);

#endif
