// SPDX-License-Identifier: Apache-2.0
// Pre-training instances from TFRecord files: whatever is read keeps the promises that the trainer
// relies on, and is as many sequences as were counted without reading them.
//
// Bit 0 of the settings: the bytes are records (u16 length, little-endian, data) that are framed
// here, so that their checksums are right. Bit 1: rows of 16 tokens at most.
#include "data/pretraining_file.h"
#include "format/protobuf.h"
#include "format/tfrecord.h"
#include "input.h"

enum { VOCABULARY = 500 };

static void frame_all(struct protobuf_writer *file, const uint8_t *bytes, size_t size) {
    for (size_t at = 0; at + 2 <= size;) {
        size_t length = bytes[at] | (size_t)bytes[at + 1] << 8;
        unsigned char header[TFRECORD_HEADER_BYTES], footer[TFRECORD_FOOTER_BYTES];
        at += 2;
        length = length < size - at ? length : size - at;
        tfrecord_frame(bytes + at, length, header, footer);
        protobuf_raw(file, header, sizeof header);
        protobuf_raw(file, bytes + at, length);
        protobuf_raw(file, footer, sizeof footer);
        at += length;
    }
}

static void check(const struct instances *read, size_t longest) {
    size_t tokens = 0, predictions = 0;
    for (size_t i = 0; i < read->count; i++) {
        const struct instance *instance = &read->items[i];
        require(instance->tokens == tokens && instance->predictions == predictions);
        require(instance->length >= 1 && instance->length <= longest);
        require(instance->second <= instance->length && instance->is_random <= 1);
        for (size_t j = 0; j < instance->length; j++) {
            int32_t id = read->tokens[tokens + j];
            require(id >= 0 && id < VOCABULARY);
        }
        for (size_t j = 0; j < instance->prediction_count; j++) {
            require(read->positions[predictions + j] >
                        (j > 0 ? read->positions[predictions + j - 1] : 0) &&
                    read->positions[predictions + j] < instance->length);
            int32_t label = read->labels[predictions + j];
            require(label >= 0 && label < VOCABULARY);
        }
        tokens += instance->length;
        predictions += instance->prediction_count;
    }
    require(tokens == read->token_count && predictions == read->prediction_count);
}

static void check_count(const char *path, int longest, const struct instances *read, int is_good) {
    struct pretraining_size size;
    enum berth_status status = pretraining_measure_tfrecord(path, longest, &size, NULL);
    require(status == BERTH_OK || status == BERTH_BAD_DATA);
    require(!is_good || (status == BERTH_OK && size.sequences == (int64_t)read->count));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    struct instances read = {0};
    struct berth_error error = {0};
    struct protobuf_writer framed = {0};
    int longest = input.settings & 2 ? 16 : 0;
    if (input.settings & 1) {
        frame_all(&framed, input.bytes, input.size);
    } else {
        protobuf_raw(&framed, input.bytes, input.size);
    }
    const char *path = fuzz_file(framed.bytes, framed.length);
    fuzz_failing_begin(input.fail_at);
    enum berth_status status = pretraining_read_tfrecord(path, VOCABULARY, longest, &read, &error);
    fuzz_failing_end(input.fail_at, status, &error);
    require(status == BERTH_OK || status == BERTH_BAD_DATA || status == BERTH_NO_MEMORY);
    if (status != BERTH_NO_MEMORY) {
        check(&read, longest > 0 ? (size_t)longest : INSTANCE_LENGTH_MAX);
        check_count(path, longest, &read, status == BERTH_OK);
    }
    instances_done(&read);
    protobuf_done(&framed);
    return 0;
}
