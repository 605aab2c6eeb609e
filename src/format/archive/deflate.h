// SPDX-License-Identifier: Apache-2.0
// zlib streams and CRC-32 for the formats that contain them: HDF5's chunks, zip archives, PyTorch's
// checkpoints. Memory is that of the caller's buffers, so a stream from an untrusted file cannot
// make it grow.
#ifndef BERTH_FORMAT_DEFLATE_H
#define BERTH_FORMAT_DEFLATE_H

#include "core/buffer.h"
#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

// No stream decompresses to more than this many times its size.
#define DEFLATE_RATIO_LIMIT 1032

uint32_t deflate_crc32(uint32_t crc, const void *bytes, size_t length); // start with 0

// Compresses blocks, one after another, with the same memory and zlib's run-length strategy: for
// shuffled numbers as small as with its search for repetitions, in a third of the time.
// Zero-initialise; then deflate_compressor_done is always safe.
struct deflate_compressor {
    void *stream; // zlib's
};
// Appends the zlib stream of `bytes` to `to`. The level, 1 to 9, is that of the first call. The
// only error is BERTH_NO_MEMORY.
enum berth_status deflate_compress(struct deflate_compressor *compressor, int level,
                                   const void *bytes, size_t length, struct buffer *to,
                                   struct berth_error *error);
void deflate_compressor_done(struct deflate_compressor *compressor);

// The source of a stream: `fill` reads up to `room` bytes at `offset` and returns their number, 0
// at the end.
struct deflate_source {
    size_t (*fill)(void *context, uint64_t offset, unsigned char *to, size_t room);
    void *context;
};

// Decompresses a zlib stream incrementally. Between two calls it holds about 40 KiB and has read no
// more of the source than it needed. Zero-initialise; then closing is always safe.
struct deflate_reader {
    void *stream;                    // zlib's
    uint64_t consumed, decompressed; // bytes read from the source and decompressed so far
    int ended;                       // the end of the stream was reached and its checksum is right
};
// The readers' results: 1 on success; 0 when the stream is damaged or truncated; -1 when out of
// memory.
int deflate_reader_open(struct deflate_reader *reader);
// Decompresses the next `length` bytes to `to`; with NULL it skips them.
int deflate_reader_read(struct deflate_reader *reader, const struct deflate_source *source,
                        unsigned char *to, uint64_t length);
// Whether the stream ends here and its checksum is right.
int deflate_reader_finish(struct deflate_reader *reader, const struct deflate_source *source);
// Makes `copy` a second reader at the same position.
int deflate_reader_copy(struct deflate_reader *copy, const struct deflate_reader *reader);
void deflate_reader_close(struct deflate_reader *reader);
// Bytes that all readers of this process have decompressed; tests measure work with it.
uint64_t deflate_bytes_decompressed(void);

#endif
