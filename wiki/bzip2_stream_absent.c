// SPDX-License-Identifier: Apache-2.0
// Stands in for bzip2_stream.c in a build without libbz2: nothing can be decompressed, so bzip2.c
// refuses a compressed dump when it is opened.
#include "wiki/bzip2_stream.h"

int bzip2_is_available(void) {
    return 0;
}

enum block_state bzip2_decompress(const struct buffer *stream, struct buffer *content,
                                  size_t limit) {
    return BLOCK_DAMAGED;
}
