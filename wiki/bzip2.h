// SPDX-License-Identifier: Apache-2.0
// Reads bzip2 files on all cores, through libbz2.
//
// A bzip2 stream is "BZh1".."BZh9", independent blocks that begin with 48 known bits at any bit
// offset, and an end mark with a checksum over the blocks' checksums; a file is one or more streams
// (wikis' "multistream" dumps have many). The reader searches for the marks and decompresses one
// block per core, so one long stream is as fast as many short ones, and reading can start at any
// block. Memory is bounded by the number of threads.
//
// Ranks that read the same file together can divide the blocks among them: each decompresses some
// of a batch and gets the others' content.
//
// Leaves out writing. Bytes after the last stream are an error; the tool bzip2 ignores them.
#ifndef BERTH_WIKI_BZIP2_H
#define BERTH_WIKI_BZIP2_H

#include "comm/comm.h"
#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

struct bzip2_reader;

// Sets *is to whether the file at `path` begins with a bzip2 stream. Errors as file_reader_open.
enum berth_status bzip2_recognise(const char *path, int *is, struct berth_error *error);

// Opens the file for reading from bit offset `bit`: 0, or that of a block (bzip2_next).
// Decompresses `threads` (at least 1) blocks at a time.
enum berth_status bzip2_open(const char *path, uint64_t bit, int threads,
                             struct bzip2_reader **reader, struct berth_error *error);

// Divides a new reader's work among ranks, all of which make the same calls from then on:
// decompresses `blocks` at a time, a number that is the same on all. Damage and other failures are
// returned by all ranks (comm_settle).
enum berth_status bzip2_divide(struct bzip2_reader *reader, struct comm *comm, int blocks,
                               struct berth_error *error);

// Returns the next block's content (valid until the next call) and its bit offset in *bit; a
// *length of 0 is the end. Damaged or truncated data is BERTH_BAD_DATA with its position.
enum berth_status bzip2_next(struct bzip2_reader *reader, const char **bytes, size_t *length,
                             uint64_t *bit, struct berth_error *error);

// Bytes of the compressed file returned so far, and its size: for progress.
uint64_t bzip2_position(const struct bzip2_reader *reader);
uint64_t bzip2_size(const struct bzip2_reader *reader);

void bzip2_close(struct bzip2_reader *reader);

#endif
