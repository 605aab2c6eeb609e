// SPDX-License-Identifier: Apache-2.0
// Reading bzip2 files on all cores: the door to libbz2.
//
// A bzip2 stream is "BZh1".."BZh9", blocks that begin with 48 known bits at any bit position and
// stand for themselves, and an end mark with a checksum over the blocks' checksums; a file is one
// stream after another (wikis' "multistream" dumps are many). The reader looks for the marks and
// lets every core decompress a block, so one long stream is as fast as many short ones, and reading
// can begin again at any block. Memory is bounded by the number of threads.
//
// Leaves out: writing, and bytes after the last stream (an error, where the tool bzip2 ignores
// them).
#ifndef BERTH_FORMAT_BZIP2_H
#define BERTH_FORMAT_BZIP2_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct bzip2_reader;

// 1 when the file at `path` begins as a bzip2 stream; 0 otherwise, or when it cannot be read.
int bzip2_is(const char *path);

// Opens the file for reading from `bit` on: 0, or the place of a block (bzip2_next). `threads` (at
// least 1) blocks are decompressed at a time.
enum berth_status bzip2_open(const char *path, uint64_t bit, int threads,
                             struct bzip2_reader **reader, struct berth_error *error);

// The next block's content (valid until the next call) and the place where it begins, in *bit; a
// *length of 0 is the end. Damaged or cut data is BERTH_BAD_DATA and says where.
enum berth_status bzip2_next(struct bzip2_reader *reader, const char **bytes, size_t *length,
                             uint64_t *bit, struct berth_error *error);

// Bytes of the compressed file that have been handed out, and its size: for progress.
uint64_t bzip2_position(const struct bzip2_reader *reader);
uint64_t bzip2_size(const struct bzip2_reader *reader);

void bzip2_close(struct bzip2_reader *reader);

#endif
