// SPDX-License-Identifier: Apache-2.0
// Verifies files of the hub's cache: the name of a blob is the digest of its content. Where blobs
// are is hub_cache.h's.
#ifndef BERTH_FORMAT_HUB_BLOB_H
#define BERTH_FORMAT_HUB_BLOB_H

#include "core/error.h"

// Hashes the file that `path` links to, unless an earlier check passed: REPO/verified/NAME records
// that with the file's size, inode and times, and is trusted only when this user wrote it. A wrong
// digest is BERTH_BAD_DATA. A file whose name is not a digest passes. When the cache is not
// writable the file is hashed each time.
enum berth_status hub_blob_check(const char *repo, const char *path, struct berth_error *error);

#endif
