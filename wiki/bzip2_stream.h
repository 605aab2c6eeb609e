// SPDX-License-Identifier: Apache-2.0
// One bzip2 stream through libbz2, for bzip2.c, which finds the blocks and puts their contents in
// order. A build without libbz2 has bzip2_stream_absent.c instead.
#ifndef BERTH_WIKI_BZIP2_STREAM_H
#define BERTH_WIKI_BZIP2_STREAM_H

#include "core/buffer.h"

enum block_state { BLOCK_GOOD, BLOCK_DAMAGED, BLOCK_NO_MEMORY };

// Whether this build can decompress.
int bzip2_is_available(void);
// Appends what the stream contains, at most `limit` bytes; more count as damage.
enum block_state bzip2_decompress(const struct buffer *stream, struct buffer *content,
                                  size_t limit);

#endif
