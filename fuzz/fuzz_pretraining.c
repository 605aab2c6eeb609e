// SPDX-License-Identifier: Apache-2.0
// Fuzzes pre-training instances in TFRecord files: instances that are read have the properties that
// the trainer relies on, and their number is the one counted without reading them.
//
// Bit 0 of the settings: the bytes are records (u16 length, little-endian, data) that are framed
// here, so that their checksums are right. Bit 1: rows of 16 tokens at most.
#include "format/protobuf/protobuf.h"
#include "format/tensorflow/tfrecord.h"
#include "instances.h"

static void frame_all(struct buffer *file, const uint8_t *bytes, size_t size) {
    for (size_t at = 0; at + 2 <= size;) {
        size_t length = bytes[at] | (size_t)bytes[at + 1] << 8;
        unsigned char header[TFRECORD_HEADER_BYTES], footer[TFRECORD_FOOTER_BYTES];
        at += 2;
        length = length < size - at ? length : size - at;
        tfrecord_frame(bytes + at, length, header, footer);
        buffer_put(file, header, sizeof header);
        buffer_put(file, bytes + at, length);
        buffer_put(file, footer, sizeof footer);
        at += length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    struct instances read = {0};
    struct berth_error error = {0};
    struct buffer framed = {0};
    int longest = input.settings & 2 ? 16 : 0;
    if (input.settings & 1) {
        frame_all(&framed, input.bytes, input.size);
    } else {
        buffer_put(&framed, input.bytes, input.size);
    }
    const char *path = fuzz_file(framed.bytes, framed.length);
    fuzz_failing_begin(input.fail_at);
    enum berth_status status =
        pretraining_read_tfrecord(path, FUZZ_VOCABULARY, longest, &read, &error);
    fuzz_failing_end(input.fail_at, status, &error);
    require(status == BERTH_OK || status == BERTH_BAD_DATA || status == BERTH_NO_MEMORY);
    if (status != BERTH_NO_MEMORY) {
        require_good_instances(&read, longest > 0 ? (size_t)longest : INSTANCE_LENGTH_MAX);
        require_same_count(pretraining_measure_tfrecord, path, longest, &read, status == BERTH_OK);
    }
    instances_done(&read);
    buffer_done(&framed);
    return 0;
}
