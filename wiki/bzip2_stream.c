// SPDX-License-Identifier: Apache-2.0
// Decompresses one bzip2 stream in memory with libbz2; no other file includes bzlib.h. bzip2.c
// makes a stream of each block that it has found and calls this from any thread.
#include "wiki/bzip2_stream.h"

#include "core/memory.h"

#include <bzlib.h>

int bzip2_is_available(void) {
    return 1;
}

static void *bz_new(void *context, int count, int size) {
    return memory_array((size_t)count, (size_t)size);
}

static void bz_free(void *context, void *block) {
    memory_free(block);
}

// Runs libbz2 to the end of its stream.
static enum block_state run_stream(bz_stream *stream, struct buffer *content, size_t limit) {
    for (;;) {
        if (content->length >= limit) {
            return BLOCK_DAMAGED;
        }
        if (!buffer_reserve(content, (size_t)1 << 20)) {
            return BLOCK_NO_MEMORY;
        }
        size_t room = content->capacity - content->length;
        unsigned input = stream->avail_in;
        stream->next_out = content->bytes + content->length;
        stream->avail_out = (unsigned)room;
        int result = BZ2_bzDecompress(stream);
        content->length += room - stream->avail_out;
        if (result == BZ_STREAM_END) {
            return BLOCK_GOOD;
        }
        if (result == BZ_MEM_ERROR) {
            return BLOCK_NO_MEMORY;
        }
        if (result != BZ_OK || (stream->avail_out == room && stream->avail_in == input)) {
            return BLOCK_DAMAGED;
        }
    }
}

enum block_state bzip2_decompress(const struct buffer *stream, struct buffer *content,
                                  size_t limit) {
    bz_stream reader = {.bzalloc = bz_new, .bzfree = bz_free};
    if (stream->failed || BZ2_bzDecompressInit(&reader, 0, 0) != BZ_OK) {
        return BLOCK_NO_MEMORY;
    }
    reader.next_in = stream->bytes;
    reader.avail_in = (unsigned)stream->length;
    const enum block_state state = run_stream(&reader, content, limit);
    BZ2_bzDecompressEnd(&reader);
    return state;
}
