// SPDX-License-Identifier: Apache-2.0
// Whether a file of the hub's cache still holds what its name promises: a blob is named by the
// digest of its content.
#ifndef BERTH_FORMAT_HUB_BLOB_H
#define BERTH_FORMAT_HUB_BLOB_H

#include "core/error.h"

// Hashes the file that `path` leads to, all links followed, unless it was found good before: that
// is remembered in REPO/verified/NAME with the file's size, number and times, and believed only
// when this user wrote it. Another content is BERTH_BAD_DATA. A file that no digest names is fine,
// and so is a cache that cannot be written: the file is hashed each time then.
enum berth_status hub_blob_check(const char *repo, const char *path, struct berth_error *error);

#endif
