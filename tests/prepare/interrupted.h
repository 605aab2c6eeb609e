// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of interrupted stages: which calls are interrupted, and checks that a file
// was kept and has the expected bytes.
#ifndef BERTH_TESTS_PREPARE_INTERRUPTED_H
#define BERTH_TESTS_PREPARE_INTERRUPTED_H

#include "core/buffer.h"
#include "core/scratch.h"

#include <sys/stat.h>

// Every `usual`-th call is interrupted, or every one if BERTH_EVERY is set.
static inline uint64_t stride(uint64_t usual) {
    return getenv("BERTH_EVERY") != NULL ? 1 : usual;
}

// 0: no such file.
static inline uint64_t inode(const char *path) {
    struct stat now;
    return stat(path, &now) == 0 ? (uint64_t)now.st_ino : 0;
}

// Frees `got`.
static inline void assert_same_bytes(struct buffer *got, const struct buffer *wanted) {
    assert_int_equal(got->length, wanted->length);
    assert_memory_equal(got->bytes, wanted->bytes, wanted->length);
    buffer_done(got);
}

#endif
