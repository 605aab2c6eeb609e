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

// Where a stream comes from: `give` fills up to `room` bytes from byte number `at` of it on and
// returns how many, 0 at its end.
struct deflate_source {
    size_t (*give)(void *context, uint64_t at, unsigned char *to, size_t room);
    void *context;
};

// Unpacks a zlib stream piece by piece; between two pieces it takes about 40 KiB and no more of the
// source than it has unpacked. Zero-initialise; close is harmless then.
struct deflate_reader {
    void *stream;        // zlib's
    uint64_t read, made; // bytes taken from the source, and unpacked, so far
    int ended;           // the stream's end was reached, and its checksum fits
};
// The readers' results: 1, or 0 when the stream is damaged or ends too early, -1 when memory is
// out.
int deflate_reader_open(struct deflate_reader *reader);
// Unpacks the next `length` bytes to `to`; to NULL: passes over them.
int deflate_reader_take(struct deflate_reader *reader, const struct deflate_source *source,
                        unsigned char *to, uint64_t length);
// Whether nothing more follows and the checksum fits.
int deflate_reader_finish(struct deflate_reader *reader, const struct deflate_source *source);
// Makes `copy` a second reader at the same place.
int deflate_reader_copy(struct deflate_reader *copy, const struct deflate_reader *reader);
void deflate_reader_close(struct deflate_reader *reader);
// Bytes that all readers of this process have unpacked; tests count work with it.
uint64_t deflate_bytes_unpacked(void);

#endif
