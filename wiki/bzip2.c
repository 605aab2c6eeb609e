// SPDX-License-Identifier: Apache-2.0
// Finds the blocks of bzip2 files, decompresses them in parallel and returns them in order. libbz2
// gets each block as a separate stream: header, the block's bits shifted to a byte boundary, end
// mark with its checksum. dump.c reads a compressed dump through it.
#include "wiki/bzip2.h"

#include "core/buffer.h"
#include "core/file.h"
#include "core/memory.h"
#include "wiki/bzip2_stream.h"

#include <inttypes.h>

#define BLOCK_MARK UINT64_C(0x314159265359)
#define END_MARK UINT64_C(0x177245385090)
#define MARK_BITS 48
#define CRC_BITS 32
// A block holds 900,000 bytes at most, and incompressible ones take little more. Its content, which
// is run-length encoded first, can be 51 times as long (4 bytes and a count of up to 255).
#define BLOCK_SIZE_MAX ((size_t)2 << 20)
#define CONTENT_SIZE_MAX ((size_t)900000 * 52)

struct block {
    uint64_t begin, end; // bit offsets in the file, with the mark
    uint32_t crc;
    int ends_stream; // an end mark follows
    uint32_t stream_crc;
    enum block_state state;
    struct buffer stream; // input for libbz2
    struct buffer content;
};

struct bzip2_reader {
    struct file_reader file;
    int threads;
    struct comm *comm;     // NULL: this process alone
    double *shared;        // [2 * batch] exchanged by ranks: state and content length of each block
    struct buffer window;  // bytes of the file
    uint64_t window_begin; // byte offset of the window in the file
    uint64_t scan;         // bit offset of the next batch
    int at_stream_start;
    struct block *blocks; // [batch]
    size_t batch, count, next;
    uint64_t returned_end; // bit offset: end of the last block returned
    uint32_t crc;          // of the blocks of the current stream
    int crc_is_whole;      // reading began at the start of the stream
};

// --- bits ---------------------------------------------------------------------------------------

static uint64_t window_bits(const struct bzip2_reader *reader) {
    return (reader->window_begin + reader->window.length) * 8;
}

// Up to 48 bits from bit `bit` of the file, which must be in the window.
static uint64_t read_bits(const struct bzip2_reader *reader, uint64_t bit, unsigned count) {
    const unsigned char *bytes = (const unsigned char *)reader->window.bytes;
    uint64_t byte = bit / 8 - reader->window_begin, value = 0;
    for (unsigned i = 0; i < 7; i++) {
        value = value << 8 | (byte + i < reader->window.length ? bytes[byte + i] : 0);
    }
    return value >> (56 - bit % 8 - count) & ((UINT64_C(1) << count) - 1);
}

// The bit offset of the next block or end mark at or after `from`; UINT64_MAX when the window has
// none.
static uint64_t find_mark(const struct bzip2_reader *reader, uint64_t from) {
    const unsigned char *bytes = (const unsigned char *)reader->window.bytes;
    const uint64_t mask = (UINT64_C(1) << MARK_BITS) - 1;
    uint64_t value = 0, filled = 0;
    for (uint64_t i = from / 8 - reader->window_begin; i < reader->window.length; i++) {
        value = value << 8 | bytes[i];
        if (++filled < 7 && i + 1 < reader->window.length) {
            continue;
        }
        // The 48 bits that end `shift` bits before the end of the byte.
        for (unsigned shift = 8; shift-- > 0;) {
            uint64_t word = value >> shift & mask;
            uint64_t end = (reader->window_begin + i + 1) * 8 - shift;
            if ((word == BLOCK_MARK || word == END_MARK) && end >= from + MARK_BITS) {
                return end - MARK_BITS;
            }
        }
    }
    return UINT64_MAX;
}

// Whether an end mark is real, not random bits: the file ends after it, or the next stream begins.
static int is_stream_end(const struct bzip2_reader *reader, uint64_t mark) {
    uint64_t after = (mark + MARK_BITS + CRC_BITS + 7) / 8;
    if (read_bits(reader, mark, MARK_BITS) != END_MARK || after > reader->file.size) {
        return 0;
    }
    return after == reader->file.size || after + 3 > reader->window_begin + reader->window.length ||
           read_bits(reader, after * 8, 24) == 0x425A68; // "BZh"
}

// --- finding blocks -----------------------------------------------------------------------------

static enum berth_status damage_error(const struct bzip2_reader *reader, uint64_t bit,
                                      const char *expected, struct berth_error *error) {
    return error_set(error, BERTH_BAD_DATA,
                     "%s: byte %" PRIu64 " of %" PRIu64
                     ": expected %s: the file is damaged or truncated; fetch it again",
                     reader->file.path, bit / 8, reader->file.size, expected);
}

static enum berth_status fill_window(struct bzip2_reader *reader, struct berth_error *error) {
    uint64_t from = reader->scan / 8, left = reader->file.size - from;
    size_t wanted = (reader->batch + 2) * ((size_t)1 << 20) + BLOCK_SIZE_MAX;
    buffer_clear(&reader->window);
    size_t length = left < wanted ? (size_t)left : wanted;
    if (!buffer_reserve(&reader->window, length)) {
        return error_no_memory(error, length, reader->file.path);
    }
    reader->window_begin = from;
    reader->window.length = length;
    return file_reader_at(&reader->file, from, reader->window.bytes, length, error);
}

// Reads the header of a stream at `scan`; *at_end: the file ends here.
static enum berth_status read_stream_header(struct bzip2_reader *reader, int *at_end,
                                            struct berth_error *error) {
    uint64_t at = reader->scan;
    *at_end = at / 8 == reader->file.size;
    if (*at_end) {
        return BERTH_OK;
    }
    if (at + 32 > window_bits(reader) || read_bits(reader, at, 24) != 0x425A68 ||
        read_bits(reader, at + 24, 8) - '1' > 8) {
        return damage_error(reader, at, "a bzip2 stream (\"BZh1\" to \"BZh9\")", error);
    }
    reader->scan = at + 32;
    reader->at_stream_start = 0;
    return BERTH_OK;
}

// Skips the end mark at `scan`.
static void skip_end_mark(struct bzip2_reader *reader, uint32_t *crc) {
    *crc = (uint32_t)read_bits(reader, reader->scan + MARK_BITS, CRC_BITS);
    reader->scan = (reader->scan + MARK_BITS + CRC_BITS + 7) / 8 * 8;
    reader->at_stream_start = 1;
}

// The end of the block at `scan`: the next mark that is not a random end mark.
static uint64_t find_block_end(const struct bzip2_reader *reader, uint64_t from) {
    uint64_t end = find_mark(reader, from);
    while (end != UINT64_MAX && read_bits(reader, end, MARK_BITS) == END_MARK &&
           !is_stream_end(reader, end)) {
        end = find_mark(reader, end + 1);
    }
    // An end mark counts only when its checksum is in the window.
    if (end != UINT64_MAX && read_bits(reader, end, MARK_BITS) == END_MARK &&
        end + MARK_BITS + CRC_BITS > window_bits(reader)) {
        return UINT64_MAX;
    }
    return end;
}

// Finds the end of the block that begins at `scan`; *found is 0 when it is not in the window.
static enum berth_status find_block(struct bzip2_reader *reader, struct block *block, int *found,
                                    struct berth_error *error) {
    uint64_t begin = reader->scan;
    *found = 0;
    if (begin + MARK_BITS + CRC_BITS <= window_bits(reader) &&
        read_bits(reader, begin, MARK_BITS) != BLOCK_MARK) {
        return damage_error(reader, begin, "the start mark of a block", error);
    }
    uint64_t end = find_block_end(reader, begin + MARK_BITS + CRC_BITS);
    if (end == UINT64_MAX) {
        int file_ends = window_bits(reader) == reader->file.size * 8;
        return file_ends || window_bits(reader) - begin > BLOCK_SIZE_MAX * 8
                   ? damage_error(reader, begin, "the end of the block that begins here", error)
                   : BERTH_OK;
    }
    *found = 1;
    block->begin = begin;
    block->end = reader->scan = end;
    block->crc = (uint32_t)read_bits(reader, begin + MARK_BITS, CRC_BITS);
    block->ends_stream = read_bits(reader, end, MARK_BITS) == END_MARK;
    if (block->ends_stream) {
        skip_end_mark(reader, &block->stream_crc);
    }
    return BERTH_OK;
}

// --- decompressing ------------------------------------------------------------------------------

struct bit_writer {
    struct buffer *buffer;
    uint64_t held; // bits of an incomplete byte
    unsigned count;
};

static void put_bits(struct bit_writer *writer, uint64_t value, unsigned count) {
    while (count > 0) {
        unsigned step = count < 8 ? count : 8;
        count -= step;
        writer->held = writer->held << step | (value >> count & ((1u << step) - 1));
        writer->count += step;
        if (writer->count >= 8) {
            writer->count -= 8;
            buffer_put_byte(writer->buffer, (char)(writer->held >> writer->count & 0xFF));
        }
    }
}

// Wraps the block in a stream.
static void build_stream(const struct bzip2_reader *reader, struct block *block) {
    struct bit_writer writer = {.buffer = &block->stream};
    const unsigned char *bytes = (const unsigned char *)reader->window.bytes;
    buffer_clear(&block->stream);
    buffer_put(&block->stream, "BZh9", 4); // level 9 suits the blocks of every level
    uint64_t at = block->begin;
    size_t whole = (size_t)((block->end - at) / 8);
    if (!buffer_reserve(&block->stream, whole + 16)) {
        return;
    }
    const unsigned char *from = bytes + (at / 8 - reader->window_begin);
    unsigned char *to = (unsigned char *)block->stream.bytes + block->stream.length;
    unsigned shift = (unsigned)(at % 8);
    for (size_t i = 0; i < whole; i++) {
        // The byte after the last is in the window: the next mark is there.
        to[i] = (unsigned char)((from[i] << 8 | from[i + 1]) >> (8 - shift));
    }
    block->stream.length += whole;
    at += whole * 8;
    put_bits(&writer, read_bits(reader, at, (unsigned)(block->end - at)),
             (unsigned)(block->end - at));
    put_bits(&writer, END_MARK, MARK_BITS);
    put_bits(&writer, block->crc, CRC_BITS);
    put_bits(&writer, 0, 7);
}

static void decompress(const struct bzip2_reader *reader, struct block *block) {
    build_stream(reader, block);
    buffer_clear(&block->content);
    block->state = bzip2_decompress(&block->stream, &block->content, CONTENT_SIZE_MAX);
}

// --- in order -----------------------------------------------------------------------------------

// The bits of a mark can also occur inside a block. So a damaged block may have been cut at such
// bits: decompresses it again up to the mark after them, and skips the false blocks within it.
static void extend_block(struct bzip2_reader *reader, struct block *block) {
    uint64_t end = block->ends_stream ? UINT64_MAX : find_block_end(reader, block->end + 1);
    if (end == UINT64_MAX) {
        return;
    }
    block->end = end;
    decompress(reader, block);
    if (block->state != BLOCK_GOOD) {
        return;
    }
    uint64_t last = reader->blocks[reader->count - 1].end;
    while (reader->next < reader->count && reader->blocks[reader->next].begin < end) {
        reader->next++;
    }
    block->ends_stream = read_bits(reader, end, MARK_BITS) == END_MARK;
    block->stream_crc = (uint32_t)read_bits(reader, end + MARK_BITS, CRC_BITS);
    if (reader->next == reader->count && last <= end) {
        reader->scan = end;
        reader->at_stream_start = 0;
        if (block->ends_stream) {
            skip_end_mark(reader, &block->stream_crc);
        }
    }
}

static enum berth_status check_crc(struct bzip2_reader *reader, const struct block *block,
                                   struct berth_error *error) {
    reader->crc = (reader->crc << 1 | reader->crc >> 31) ^ block->crc;
    if (block->ends_stream && reader->crc_is_whole && reader->crc != block->stream_crc) {
        return damage_error(reader, block->end, "a matching checksum for the stream that ends here",
                            error);
    }
    if (block->ends_stream) {
        reader->crc = 0;
        reader->crc_is_whole = 1;
    }
    return BERTH_OK;
}

// Whether the first mark of a stream that begins at `scan` may not be in the window.
static int is_near_window_end(const struct bzip2_reader *reader) {
    return window_bits(reader) < reader->file.size * 8 && window_bits(reader) - reader->scan < 1024;
}

// Skips streams without blocks (empty files) before the next block, as far as the window goes;
// *at_end: no block is left.
static enum berth_status skip_empty_streams(struct bzip2_reader *reader, int *at_end,
                                            struct berth_error *error) {
    *at_end = 0;
    while (!*at_end && reader->at_stream_start && !is_near_window_end(reader)) {
        uint32_t crc;
        TRY(read_stream_header(reader, at_end, error));
        if (!*at_end && reader->scan + MARK_BITS + CRC_BITS <= window_bits(reader) &&
            is_stream_end(reader, reader->scan)) {
            skip_end_mark(reader, &crc);
            if (crc != 0) {
                return damage_error(reader, reader->scan, "checksum 0 for an empty stream", error);
            }
        }
    }
    return BERTH_OK;
}

// Finds the next blocks from `scan`. The next call begins where this one ended.
static enum berth_status find_blocks(struct bzip2_reader *reader, struct berth_error *error) {
    int at_end = 0, found = 1;
    reader->count = reader->next = 0;
    TRY(fill_window(reader, error));
    while (reader->count < reader->batch && !at_end) {
        if (!found || is_near_window_end(reader)) {
            if (reader->count > 0) {
                break;
            }
            TRY(fill_window(reader, error)); // streams without blocks filled it
        }
        TRY(skip_empty_streams(reader, &at_end, error));
        if (!at_end && !reader->at_stream_start) {
            TRY(find_block(reader, &reader->blocks[reader->count], &found, error));
            reader->count += (size_t)found;
        }
    }
    return BERTH_OK;
}

// Block i is decompressed by rank i modulo their number.
static void decompress_own(const struct bzip2_reader *reader) {
    const size_t ranks = reader->comm != NULL ? (size_t)reader->comm->size : 1;
    const size_t first = reader->comm != NULL ? (size_t)reader->comm->rank : 0;
    const size_t count = reader->count;
#pragma omp parallel for schedule(dynamic, 1) num_threads(reader->threads)
    for (size_t i = first; i < count; i += ranks) {
        decompress(reader, &reader->blocks[i]);
    }
}

// Checks that all ranks have found the same blocks; if not, none continues.
static enum berth_status compare_blocks(const struct bzip2_reader *reader, enum berth_status status,
                                        struct berth_error *error) {
    struct comm *comm = reader->comm;
    if (comm == NULL) {
        return status;
    }
    TRY(comm_settle(comm, status, error));
    uint64_t first[2] = {reader->scan, reader->count};
    comm->broadcast(comm, first, sizeof first, 0);
    if (first[0] != reader->scan || first[1] != reader->count) {
        status = error_set(error, BERTH_BAD_DATA, "%s: the file is not the same on all hosts",
                           reader->file.path);
    }
    return comm_settle(comm, status, error);
}

static enum berth_status reserve_contents(struct bzip2_reader *reader, struct berth_error *error) {
    for (size_t i = 0; i < reader->count; i++) {
        struct buffer *content = &reader->blocks[i].content;
        const size_t length = (size_t)reader->shared[2 * i + 1];
        if ((int)i % reader->comm->size == reader->comm->rank) {
            continue;
        }
        buffer_clear(content);
        if (!buffer_reserve(content, length)) {
            return error_no_memory(error, length, reader->file.path);
        }
        content->length = length;
        reader->blocks[i].state = (enum block_state)reader->shared[2 * i];
    }
    return BERTH_OK;
}

static enum berth_status exchange_contents(struct bzip2_reader *reader, struct berth_error *error) {
    struct comm *comm = reader->comm;
    if (comm == NULL) {
        return BERTH_OK;
    }
    for (size_t i = 0; i < reader->count; i++) {
        const struct block *block = &reader->blocks[i];
        const int is_own = (int)i % comm->size == comm->rank;
        reader->shared[2 * i] = is_own ? (double)block->state : 0;
        reader->shared[2 * i + 1] = is_own ? (double)block->content.length : 0;
    }
    comm->sum(comm, reader->shared, 2 * reader->count);
    TRY(comm->status(comm, error));
    TRY(comm_settle(comm, reserve_contents(reader, error), error));
    for (size_t i = 0; i < reader->count; i++) {
        struct buffer *content = &reader->blocks[i].content;
        comm->broadcast(comm, content->bytes, content->length, (int)i % comm->size);
    }
    return comm->status(comm, error);
}

enum berth_status bzip2_next(struct bzip2_reader *reader, const char **bytes, size_t *length,
                             uint64_t *bit, struct berth_error *error) {
    *bytes = "";
    *length = 0;
    while (*length == 0) {
        if (reader->next == reader->count) {
            TRY(compare_blocks(reader, find_blocks(reader, error), error));
            decompress_own(reader);
            TRY(exchange_contents(reader, error));
            if (reader->count == 0) {
                *bit = reader->returned_end = reader->file.size * 8;
                return BERTH_OK;
            }
        }
        struct block *block = &reader->blocks[reader->next++];
        if (block->state == BLOCK_DAMAGED) {
            extend_block(reader, block);
        }
        if (block->state == BLOCK_NO_MEMORY) {
            return error_no_memory(error, CONTENT_SIZE_MAX, reader->file.path);
        }
        if (block->state != BLOCK_GOOD) {
            return damage_error(reader, block->begin,
                                "a valid block, found a wrong checksum or invalid data", error);
        }
        TRY(check_crc(reader, block, error));
        reader->returned_end = block->end;
        *bytes = block->content.bytes;
        *length = block->content.length;
        *bit = block->begin;
    }
    return BERTH_OK;
}

// --- opening ------------------------------------------------------------------------------------

enum berth_status bzip2_recognise(const char *path, int *is, struct berth_error *error) {
    struct file_reader file;
    char head[3] = "";
    *is = 0;
    TRY(file_reader_open(&file, path, error));
    const enum berth_status status =
        file.size >= sizeof head ? file_reader_at(&file, 0, head, sizeof head, error) : BERTH_OK;
    file_reader_close(&file);
    *is = status == BERTH_OK && memcmp(head, "BZh", sizeof head) == 0;
    return status;
}

enum berth_status bzip2_open(const char *path, uint64_t bit, int threads,
                             struct bzip2_reader **reader, struct berth_error *error) {
    *reader = NULL;
    if (!bzip2_is_available()) {
        return error_set(
            error, BERTH_UNAVAILABLE,
            "%s: this Berth was built without libbz2; decompress the file with bunzip2, "
            "or build with -DBERTH_BZIP2=ON",
            path);
    }
    struct bzip2_reader *opened = memory_array_zeroed(1, sizeof *opened);
    struct block *blocks = memory_array_zeroed((size_t)threads, sizeof *blocks);
    if (opened == NULL || blocks == NULL) {
        memory_free(opened);
        memory_free(blocks);
        return error_no_memory(error, sizeof *opened, path);
    }
    opened->file.descriptor = -1;
    opened->threads = threads;
    opened->blocks = blocks;
    opened->batch = (size_t)threads;
    opened->scan = opened->returned_end = bit;
    opened->at_stream_start = opened->crc_is_whole = bit == 0;
    enum berth_status status = file_reader_open(&opened->file, path, error);
    if (status == BERTH_OK && bit / 8 > opened->file.size) {
        status = damage_error(opened, bit, "a block here", error);
    }
    if (status != BERTH_OK) {
        bzip2_close(opened);
        return status;
    }
    *reader = opened;
    return BERTH_OK;
}

enum berth_status bzip2_divide(struct bzip2_reader *reader, struct comm *comm, int blocks,
                               struct berth_error *error) {
    struct block *grown = memory_array_zeroed((size_t)blocks, sizeof *grown);
    double *shared = memory_array((size_t)blocks * 2, sizeof *shared);
    if (grown == NULL || shared == NULL) {
        memory_free(grown);
        memory_free(shared);
        return error_no_memory(error, (size_t)blocks * sizeof *grown, reader->file.path);
    }
    memory_free(reader->blocks); // new, so without content
    reader->blocks = grown;
    reader->batch = (size_t)blocks;
    reader->shared = shared;
    reader->comm = comm;
    return BERTH_OK;
}

uint64_t bzip2_position(const struct bzip2_reader *reader) {
    return reader->returned_end / 8;
}

uint64_t bzip2_size(const struct bzip2_reader *reader) {
    return reader->file.size;
}

void bzip2_close(struct bzip2_reader *reader) {
    if (reader == NULL) {
        return;
    }
    for (size_t i = 0; i < reader->batch; i++) {
        buffer_done(&reader->blocks[i].stream);
        buffer_done(&reader->blocks[i].content);
    }
    memory_free(reader->blocks);
    memory_free(reader->shared);
    buffer_done(&reader->window);
    file_reader_close(&reader->file);
    memory_free(reader);
}
