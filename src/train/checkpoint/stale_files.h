// SPDX-License-Identifier: Apache-2.0
// Files of earlier runs in an output folder that would be mistaken for those of the new run. A run
// that overwrites the folder removes them; a run that resumed from an earlier step sets later
// checkpoints aside.
#ifndef BERTH_TRAIN_STALE_FILES_H
#define BERTH_TRAIN_STALE_FILES_H

#include "core/error.h"
#include "core/log.h"
#include "format/checksum/digest.h"
#include "settings/model.h"

#include <stdint.h>

// --overwrite_output_dir: removes every checkpoint, Berth's and those of the original programs,
// what save_format added to the result, and the scores. The rest of the result stays until the new
// one replaces it. Warns of a checkpoint that can only be renamed, to a name that no run uses.
enum berth_status stale_files_remove(const char *output_dir, const struct berth_log *log,
                                     struct berth_error *error);

// Before a new result replaces the weights in the folder: sets `digest` to theirs, or to "" unless
// save_format torch had added the same in its form.
void stale_files_digest_weights(const char *output_dir, char digest[DIGEST_HEX_SIZE]);
// After it, with that digest: removes those that save_format torch had added, which other programs
// might read instead, unless they are still those of the result. Warns if that fails.
void stale_files_remove_torch(const char *output_dir, const char *before,
                              const struct berth_log *log);

// BERTH_CANT_CREATE if the run starts from a file that stale_files_remove would remove: it could
// not be started again. Changes nothing.
enum berth_status stale_files_check(const char *folder, const struct model_settings *settings,
                                    struct berth_error *error);

// Renames checkpoints after step `after`, from which the run continues, to NAME.abandoned.
// Otherwise a resumed run would use the newest one, which does not belong to this run. Damaged ones
// are never resumed from and keep their names. `originals`: also renames those of foreign_write.h.
struct stale_files_branch {
    const char *output_dir;
    int64_t after;
    int originals;
};
enum berth_status stale_files_set_aside(const struct stale_files_branch *branch,
                                        const struct berth_log *log, struct berth_error *error);

#endif
