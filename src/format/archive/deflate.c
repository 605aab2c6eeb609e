// SPDX-License-Identifier: Apache-2.0
#include "format/archive/deflate.h"

#include "core/memory.h"

#include <zlib.h>

enum { PIECE = 1 << 16, WINDOW_BITS = 15, MEMORY_LEVEL = 8 }; // zlib's own defaults

uint32_t deflate_crc32(uint32_t crc, const void *bytes, size_t length) {
    return (uint32_t)crc32_z(crc, bytes, length);
}

static voidpf take(voidpf opaque, uInt count, uInt size) {
    (void)opaque;
    return memory_array_zeroed(count, size);
}

static void give(voidpf opaque, voidpf block) {
    (void)opaque;
    memory_free(block);
}

static z_stream *new_stream(void) {
    z_stream *stream = memory_array_zeroed(1, sizeof *stream);
    if (stream != NULL) {
        stream->zalloc = take;
        stream->zfree = give;
    }
    return stream;
}

static enum berth_status prepare(struct deflate_packer *packer, int level,
                                 struct berth_error *error) {
    if (packer->stream != NULL) {
        deflateReset(packer->stream);
        return BERTH_OK;
    }
    z_stream *stream = new_stream();
    if (stream == NULL ||
        deflateInit2(stream, level, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_RLE) != Z_OK) {
        memory_free(stream);
        return error_no_memory(error, (size_t)256 << 10, "compression");
    }
    packer->stream = stream;
    return BERTH_OK;
}

enum berth_status deflate_pack(struct deflate_packer *packer, int level, const void *bytes,
                               size_t length, struct buffer *to, struct berth_error *error) {
    unsigned char piece[PIECE];
    const unsigned char *from = bytes;
    int result = Z_OK;
    TRY(prepare(packer, level, error));
    z_stream *stream = packer->stream;
    while (result == Z_OK || result == Z_BUF_ERROR) {
        if (stream->avail_in == 0 && length > 0) {
            size_t now = length < UINT32_MAX ? length : UINT32_MAX;
            stream->next_in = (z_const Bytef *)from;
            stream->avail_in = (uInt)now;
            from += now;
            length -= now;
        }
        stream->next_out = piece;
        stream->avail_out = sizeof piece;
        result = deflate(stream, length == 0 ? Z_FINISH : Z_NO_FLUSH);
        buffer_put(to, piece, sizeof piece - stream->avail_out);
    }
    return to->failed ? error_no_memory(error, to->length, "compressed data") : BERTH_OK;
}

void deflate_packer_done(struct deflate_packer *packer) {
    if (packer->stream != NULL) {
        deflateEnd(packer->stream);
        memory_free(packer->stream);
        packer->stream = NULL;
    }
}

int deflate_unpack(const struct deflate_pieces *pieces, uint64_t size) {
    unsigned char in[PIECE], out[PIECE];
    z_stream *stream = new_stream();
    if (stream == NULL || inflateInit(stream) != Z_OK) {
        memory_free(stream);
        return -1;
    }
    uint64_t made = 0;
    size_t more = 1;
    int result = Z_OK;
    while ((result == Z_OK || result == Z_BUF_ERROR) && made <= size) {
        if (stream->avail_in == 0) {
            more = pieces->give(pieces->context, in, sizeof in);
            if (more == 0) {
                break;
            }
            stream->next_in = in;
            stream->avail_in = (uInt)more;
        }
        stream->next_out = out;
        stream->avail_out = sizeof out;
        result = inflate(stream, Z_NO_FLUSH);
        pieces->take(pieces->context, made, out, sizeof out - stream->avail_out);
        made += sizeof out - stream->avail_out;
    }
    int fits = result == Z_STREAM_END && made == size && stream->avail_in == 0 &&
               pieces->give(pieces->context, in, 1) == 0;
    inflateEnd(stream);
    memory_free(stream);
    return result == Z_MEM_ERROR ? -1 : fits;
}
