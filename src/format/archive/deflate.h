// SPDX-License-Identifier: Apache-2.0
// zlib's streams and CRC-32 (the door to zlib).
#ifndef BERTH_FORMAT_DEFLATE_H
#define BERTH_FORMAT_DEFLATE_H

#include "core/buffer.h"
#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

// No stream unpacks to more than this many bytes for each of its own.
#define DEFLATE_RATIO_LIMIT 1032

uint32_t deflate_crc32(uint32_t crc, const void *bytes, size_t length); // begin with 0

// Packs one block after the other with the same memory, by zlib's strategy of run lengths: of
// shuffled numbers as small as what its search for repetitions finds, in a third of the time.
// Zero-initialise; done is harmless then.
struct deflate_packer {
    void *stream; // zlib's
};
// Appends the zlib stream of `bytes` at a level of 1 to 9 (the first call's holds) to `to`. The
// only failure is BERTH_NO_MEMORY.
enum berth_status deflate_pack(struct deflate_packer *packer, int level, const void *bytes,
                               size_t length, struct buffer *to, struct berth_error *error);
void deflate_packer_done(struct deflate_packer *packer);

// Where a stream comes from and goes to, in pieces: `give` fills up to `room` bytes and returns how
// many, 0 at the end; `take` gets what was unpacked, `at` bytes after the beginning.
struct deflate_pieces {
    size_t (*give)(void *context, unsigned char *to, size_t room);
    void (*take)(void *context, uint64_t at, const unsigned char *bytes, size_t length);
    void *context;
};
// Unpacks a zlib stream; 1 when it has `size` bytes, ends with what is given and its checksum fits,
// 0 when not (not much more than `size` bytes are taken), -1 when memory is out.
int deflate_unpack(const struct deflate_pieces *pieces, uint64_t size);

#endif
