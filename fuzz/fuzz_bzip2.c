// SPDX-License-Identifier: Apache-2.0
// Fuzzes the bzip2 reader, through a file in memory: the bytes do not depend on the number of
// threads, a block can be read again from its offset, and files that libbz2 accepts give libbz2's
// bytes.
//
// Bits 0 and 1 of the settings: threads minus one; one thread if an allocation fails, since with
// several blocks at a time an earlier one may be damaged.
#include "core/buffer.h"
#include "input.h"
#include "wiki/bzip2.h"

#include <bzlib.h>

#define CONTENT_MAX ((size_t)8 << 20) // longer contents are not compared

struct outcome {
    enum berth_status status;
    struct buffer content;
    uint64_t last_bit; // of the last block, and the offset of its content
    size_t last_begin;
};

static struct outcome read_from(const char *path, uint64_t bit, int threads,
                                struct berth_error *error) {
    struct outcome outcome = {.last_bit = bit};
    struct bzip2_reader *reader;
    const char *bytes;
    size_t length = 1;
    outcome.status = bzip2_open(path, bit, threads, &reader, error);
    while (outcome.status == BERTH_OK && length > 0 && outcome.content.length < CONTENT_MAX) {
        outcome.status = bzip2_next(reader, &bytes, &length, &bit, error);
        require(outcome.status != BERTH_OK || bzip2_position(reader) <= bzip2_size(reader));
        if (outcome.status == BERTH_OK && length > 0) {
            outcome.last_bit = bit;
            outcome.last_begin = outcome.content.length;
            char *to = memory_resize(outcome.content.bytes, outcome.content.length + length, 1);
            if (to == NULL) {
                outcome.status = error_no_memory(error, length, path);
                break;
            }
            outcome.content.bytes = to;
            memcpy(to + outcome.content.length, bytes, length);
            outcome.content.length += length;
        }
    }
    bzip2_close(reader);
    return outcome;
}

static int same(const struct buffer *a, const char *bytes, size_t length) {
    return a->length == length && (length == 0 || memcmp(a->bytes, bytes, length) == 0);
}

// Reads all streams with libbz2; 0 when it refuses one, or the content is too large.
static int read_by_libbz2(const struct fuzz_input *input, char *to, size_t *length) {
    const char *from = (const char *)input->bytes;
    size_t left = input->size;
    *length = 0;
    while (left > 0) {
        bz_stream stream = {.next_in = (char *)(uintptr_t)from, .avail_in = (unsigned)left};
        require(BZ2_bzDecompressInit(&stream, 0, 0) == BZ_OK);
        stream.next_out = to + *length;
        stream.avail_out = (unsigned)(CONTENT_MAX - *length);
        int result = BZ2_bzDecompress(&stream);
        *length = CONTENT_MAX - stream.avail_out;
        from += left - stream.avail_in;
        left = stream.avail_in;
        BZ2_bzDecompressEnd(&stream);
        if (result != BZ_STREAM_END || *length == CONTENT_MAX) {
            return 0;
        }
    }
    return input->size > 0;
}

static void compare(const struct fuzz_input *input, const char *path,
                    const struct outcome *outcome) {
    static char content[CONTENT_MAX];
    size_t length;
    struct berth_error error;
    struct outcome other = read_from(path, 0, (input->settings & 3) == 0 ? 3 : 1, &error);
    require(other.status == outcome->status);
    // More threads detect damage earlier: fewer blocks may have been returned before it.
    size_t both = other.content.length < outcome->content.length ? other.content.length
                                                                 : outcome->content.length;
    require(other.status != BERTH_OK || other.content.length == outcome->content.length);
    require(both == 0 || memcmp(other.content.bytes, outcome->content.bytes, both) == 0);
    memory_free(other.content.bytes);
    if (read_by_libbz2(input, content, &length)) {
        require(outcome->status == BERTH_OK && same(&outcome->content, content, length));
    }
    if (outcome->status == BERTH_OK && outcome->content.length > 0) {
        struct outcome tail = read_from(path, outcome->last_bit, 2, &error);
        require(tail.status == BERTH_OK);
        require(same(&tail.content, outcome->content.bytes + outcome->last_begin,
                     outcome->content.length - outcome->last_begin));
        memory_free(tail.content.bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    struct berth_error error = {0};
    const char *path = fuzz_file(input.bytes, input.size);
    const int threads = input.fail_at > 0 ? 1 : (int)(input.settings & 3) + 1;
    fuzz_failing_begin(input.fail_at);
    struct outcome outcome = read_from(path, 0, threads, &error);
    fuzz_failing_end(input.fail_at, outcome.status, &error);
    require(outcome.status == BERTH_OK || outcome.status == BERTH_BAD_DATA ||
            outcome.status == BERTH_NO_MEMORY);
    if (outcome.status != BERTH_NO_MEMORY && outcome.content.length < CONTENT_MAX) {
        compare(&input, path, &outcome);
    }
    memory_free(outcome.content.bytes);
    return 0;
}
