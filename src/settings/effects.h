// SPDX-License-Identifier: Apache-2.0
// Settings without effect: each row says by only_with (core/options.h) what it needs, and a job
// that was given a setting for nothing says so. Leaves out what only the device, the files or a
// checkpoint show; who finds that notes it.
#ifndef BERTH_SETTINGS_EFFECTS_H
#define BERTH_SETTINGS_EFFECTS_H

#include "core/buffer.h"
#include "settings/settings.h"

// Notes each setting of the jobs that was chosen in `given` and has no effect with the values that
// the job uses. `processes`: of the job.
void settings_note_effects(const struct settings *given, const struct settings *used, unsigned jobs,
                           int processes, const struct berth_log *log);

// Appends what a row needs, "only with schedule EE or LE", of the settings that the jobs have;
// nothing if it always has an effect.
void settings_put_only_with(struct buffer *text, const struct option_row *row, unsigned jobs);

#endif
