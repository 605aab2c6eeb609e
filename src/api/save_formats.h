// SPDX-License-Identifier: Apache-2.0
// --save_format: the result of training also in the formats of other programs, under the names that
// their programs give it. Checkpoints during the run are those of train/checkpoint. jobs.c calls it
// at the beginning and the end of a training.
#ifndef BERTH_API_SAVE_FORMATS_H
#define BERTH_API_SAVE_FORMATS_H

#include "core/error.h"
#include "core/log.h"
#include "settings/settings.h"

#include <stdint.h>

// BERTH_USAGE if one of the comma-separated names is not the name of a format; NULL is an empty
// list.
enum berth_status save_formats_check(const char *list, struct berth_error *error);

// Writes the result of `steps` updates into the output folder in each of the formats.
enum berth_status save_formats_write(const struct settings *config, int64_t steps,
                                     const struct berth_log *log, struct berth_error *error);

#endif
