// SPDX-License-Identifier: Apache-2.0
// What earlier runs have left in an output folder, and a new one would be mistaken for its own: a
// run that overwrites the folder removes it, a run that has gone back in its history sets it aside.
#ifndef BERTH_TRAIN_LEFTOVERS_H
#define BERTH_TRAIN_LEFTOVERS_H

#include "berth.h"
#include "core/error.h"
#include "core/log.h"

#include <stdint.h>

// --overwrite_output_dir: removes every checkpoint, Berth's and those of the original programs,
// what save_format has added to the result, and the scores. The rest of the result stays until the
// new one replaces it.
enum berth_status leftovers_remove(const char *output_dir, struct berth_error *error);

// BERTH_CANT_CREATE if the run starts from a file that leftovers_remove would remove: it could not
// be started again. Reads only the folder.
enum berth_status leftovers_check(const struct berth_config *config, struct berth_error *error);

// Renames NAME.abandoned the checkpoints after the step `after` from which a run goes on. Otherwise
// a resumed run would take the newest one, which is not of this run. Damaged ones, which are not
// resumed from, keep their names. `originals`: those of original_write.h, too.
struct leftovers_branch {
    const char *output_dir;
    int64_t after;
    int originals;
};
enum berth_status leftovers_set_aside(const struct leftovers_branch *branch,
                                      const struct berth_log *log, struct berth_error *error);

#endif
