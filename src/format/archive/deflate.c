// SPDX-License-Identifier: Apache-2.0
// Compresses and decompresses zlib streams and computes their CRC-32; no other file includes
// zlib.h. The readers and writers of HDF5 chunks and zip archives call it for the bytes of a piece
// that they have found; a stream that does not end where it should is an error here.
#include "format/archive/deflate.h"

#include "core/memory.h"

#include <zlib.h>

enum {
    BUFFER_BYTES = 1 << 16,
    READ_MAX = 1 << 30,
    // zlib's defaults:
    WINDOW_BITS = 15,
    MEMORY_LEVEL = 8
};

uint32_t deflate_crc32(uint32_t crc, const void *bytes, size_t length) {
    return (uint32_t)crc32_z(crc, bytes, length);
}

static voidpf allocate(voidpf opaque, uInt count, uInt size) {
    (void)opaque;
    return memory_array_zeroed(count, size);
}

static void release(voidpf opaque, voidpf block) {
    (void)opaque;
    memory_free(block);
}

static z_stream *new_stream(void) {
    z_stream *stream = memory_array_zeroed(1, sizeof *stream);
    if (stream != NULL) {
        stream->zalloc = allocate;
        stream->zfree = release;
    }
    return stream;
}

static enum berth_status prepare(struct deflate_compressor *compressor, int level,
                                 struct berth_error *error) {
    if (compressor->stream != NULL) {
        deflateReset(compressor->stream);
        return BERTH_OK;
    }
    z_stream *stream = new_stream();
    if (stream == NULL ||
        deflateInit2(stream, level, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, Z_RLE) != Z_OK) {
        memory_free(stream);
        return error_no_memory(error, (size_t)256 << 10, "compression");
    }
    compressor->stream = stream;
    return BERTH_OK;
}

enum berth_status deflate_compress(struct deflate_compressor *compressor, int level,
                                   const void *bytes, size_t length, struct buffer *to,
                                   struct berth_error *error) {
    unsigned char buffer[BUFFER_BYTES];
    const unsigned char *from = bytes;
    int result = Z_OK;
    TRY(prepare(compressor, level, error));
    z_stream *stream = compressor->stream;
    while (result == Z_OK || result == Z_BUF_ERROR) {
        if (stream->avail_in == 0 && length > 0) {
            size_t now = length < UINT32_MAX ? length : UINT32_MAX;
            stream->next_in = (z_const Bytef *)from;
            stream->avail_in = (uInt)now;
            from += now;
            length -= now;
        }
        stream->next_out = buffer;
        stream->avail_out = sizeof buffer;
        result = deflate(stream, length == 0 ? Z_FINISH : Z_NO_FLUSH);
        buffer_put(to, buffer, sizeof buffer - stream->avail_out);
    }
    return to->failed ? error_no_memory(error, to->length, "compressed data") : BERTH_OK;
}

void deflate_compressor_done(struct deflate_compressor *compressor) {
    if (compressor->stream != NULL) {
        deflateEnd(compressor->stream);
        memory_free(compressor->stream);
        compressor->stream = NULL;
    }
}

// --- decompression ------------------------------------------------------------------------------

static _Atomic uint64_t bytes_decompressed;

uint64_t deflate_bytes_decompressed(void) {
    return bytes_decompressed;
}

int deflate_reader_open(struct deflate_reader *reader) {
    z_stream *stream = new_stream();
    *reader = (struct deflate_reader){0};
    if (stream == NULL || inflateInit(stream) != Z_OK) {
        memory_free(stream);
        return -1;
    }
    reader->stream = stream;
    return 1;
}

// Decompresses up to `room` bytes, fewer only at the stream's end. Input that was read but not used
// is read again by the next call, so that a reader need not keep it.
static int inflate_some(struct deflate_reader *reader, const struct deflate_source *source,
                        unsigned char *to, size_t room) {
    unsigned char in[BUFFER_BYTES];
    z_stream *stream = reader->stream;
    int result = Z_OK;
    stream->next_out = to;
    stream->avail_out = (uInt)room;
    while (result == Z_OK && !reader->ended && stream->avail_out > 0) {
        if (stream->avail_in == 0) {
            stream->next_in = in;
            stream->avail_in = (uInt)source->fill(source->context, reader->consumed, in, sizeof in);
            reader->consumed += stream->avail_in;
        }
        result = stream->avail_in > 0 ? inflate(stream, Z_NO_FLUSH) : Z_BUF_ERROR;
        reader->ended = result == Z_STREAM_END;
    }
    reader->consumed -= stream->avail_in;
    stream->avail_in = 0;
    size_t decompressed = room - stream->avail_out;
    reader->decompressed += decompressed;
    bytes_decompressed += decompressed;
    return result == Z_MEM_ERROR ? -1 : result == Z_OK || reader->ended;
}

int deflate_reader_read(struct deflate_reader *reader, const struct deflate_source *source,
                        unsigned char *to, uint64_t length) {
    unsigned char skipped[BUFFER_BYTES];
    size_t limit = to == NULL ? sizeof skipped : READ_MAX;
    while (length > 0) {
        size_t now = length < limit ? (size_t)length : limit;
        uint64_t before = reader->decompressed;
        int result = inflate_some(reader, source, to == NULL ? skipped : to, now);
        if (result <= 0 || reader->decompressed - before < now) {
            return result < 0 ? -1 : 0;
        }
        to = to == NULL ? NULL : to + now;
        length -= now;
    }
    return 1;
}

int deflate_reader_finish(struct deflate_reader *reader, const struct deflate_source *source) {
    unsigned char extra;
    uint64_t before = reader->decompressed;
    int result = inflate_some(reader, source, &extra, 1);
    if (result <= 0) {
        return result;
    }
    return reader->ended && reader->decompressed == before &&
           source->fill(source->context, reader->consumed, &extra, 1) == 0;
}

int deflate_reader_copy(struct deflate_reader *copy, const struct deflate_reader *reader) {
    z_stream *stream = new_stream();
    if (stream == NULL || inflateCopy(stream, reader->stream) != Z_OK) {
        memory_free(stream);
        return -1;
    }
    *copy = *reader;
    copy->stream = stream;
    return 1;
}

void deflate_reader_close(struct deflate_reader *reader) {
    if (reader->stream != NULL) {
        inflateEnd(reader->stream);
        memory_free(reader->stream);
    }
    *reader = (struct deflate_reader){0};
}
