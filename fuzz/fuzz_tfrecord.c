// SPDX-License-Identifier: Apache-2.0
// Fuzzes TFRecord files: every returned record is framed by its checksums, and reading ends.
//
// Bit 0 of the settings: the bytes are records (u8 length, data) that are framed here, so that
// their checksums are right; the last byte is cut off. Bit 1: the last record may be torn.
#include "format/protobuf/protobuf.h"
#include "format/tensorflow/tfrecord.h"
#include "input.h"

static void frame_all(struct buffer *file, const uint8_t *bytes, size_t size) {
    for (size_t at = 0; at < size;) {
        size_t length = bytes[at++];
        length = length < size - at ? length : size - at;
        unsigned char header[TFRECORD_HEADER_BYTES], footer[TFRECORD_FOOTER_BYTES];
        tfrecord_frame(bytes + at, length, header, footer);
        buffer_put(file, header, sizeof header);
        buffer_put(file, bytes + at, length);
        buffer_put(file, footer, sizeof footer);
        at += length;
    }
    file->length -= file->length > 0;
}

// Reads to the end or the first error; returns the number of valid records.
static size_t read_records(struct tfrecord_reader *reader, struct berth_error *error) {
    uint64_t before = 0;
    for (size_t count = 0;; count++) {
        const unsigned char *bytes;
        size_t length;
        int more;
        enum berth_status status = tfrecord_next(reader, &bytes, &length, &more, error);
        if (status != BERTH_OK) {
            require(error->message[0] != '\0');
            return count;
        }
        if (!more) {
            require(reader->offset + reader->torn == reader->file.size);
            return count;
        }
        unsigned char header[TFRECORD_HEADER_BYTES], footer[TFRECORD_FOOTER_BYTES];
        tfrecord_frame(bytes, length, header, footer);
        require(memcmp(bytes - sizeof header, header, sizeof header) == 0 &&
                memcmp(bytes + length, footer, sizeof footer) == 0);
        require(reader->offset == before + sizeof header + length + sizeof footer);
        before = reader->offset;
    }
}

// At least as many records can be skipped as read, and every other one can be read.
static void skip_records(const char *path, size_t good) {
    struct tfrecord_reader reader;
    const unsigned char *bytes;
    size_t length;
    int more = 1;
    if (tfrecord_open(&reader, path, NULL) != BERTH_OK) { // a pointer of Git LFS
        require(good == 0);
        return;
    }
    for (size_t i = 0; i < good; i++) {
        require((i % 2 == 0 ? tfrecord_skip(&reader, &more, NULL)
                            : tfrecord_next(&reader, &bytes, &length, &more, NULL)) == BERTH_OK);
        require(more);
    }
    while (more && tfrecord_skip(&reader, &more, NULL) == BERTH_OK) {
    }
    require(reader.offset <= reader.file.size);
    tfrecord_close(&reader);
    int is;
    require(good == 0 || (tfrecord_recognise(path, &is, NULL) == BERTH_OK && is));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    struct tfrecord_reader reader;
    struct berth_error error = {0};
    struct buffer framed = {0};
    if (input.settings & 1) {
        frame_all(&framed, input.bytes, input.size);
    } else {
        buffer_put(&framed, input.bytes, input.size);
    }
    const char *path = fuzz_file(framed.bytes, framed.length);
    size_t good = 0;
    fuzz_failing_begin(input.fail_at);
    if (tfrecord_open(&reader, path, &error) == BERTH_OK) {
        reader.may_be_torn = (input.settings & 2) != 0;
        good = read_records(&reader, &error);
        tfrecord_close(&reader);
    }
    require(!fuzz_failing_stop(input.fail_at) || error.status == BERTH_NO_MEMORY);
    skip_records(path, good);
    buffer_done(&framed);
    return 0;
}
