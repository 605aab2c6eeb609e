// SPDX-License-Identifier: Apache-2.0
// What the tests of stages that are interrupted share: which of the places are tried, and whether a
// file is still the same one and the bytes are the wanted ones afterwards.
#ifndef BERTH_TESTS_PREPARE_INTERRUPTED_H
#define BERTH_TESTS_PREPARE_INTERRUPTED_H

#include "core/buffer.h"
#include "core/scratch.h"

#include <sys/stat.h>

// Of the places every `usual`-th is tried, or all of them with BERTH_EVERY=1.
static inline uint64_t stride(uint64_t usual) {
    return getenv("BERTH_EVERY") != NULL ? 1 : usual;
}

// 0: there is no such file.
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
