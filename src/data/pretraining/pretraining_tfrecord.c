// SPDX-License-Identifier: Apache-2.0
// Writes instances as TFRecord: one tf.train.Example each, with packed lists and the features in a
// fixed order. Called by the instance stage where that format is asked for; the frames of records
// are format/tensorflow/tfrecord.h's.
#include "core/file.h"
#include "data/pretraining/pretraining_file.h"
#include "format/protobuf/protobuf.h"
#include "format/tensorflow/tfrecord.h"

#include <string.h>

// Field numbers of Example and its nested messages.
enum { FEATURES = 1, ENTRY = 1, KEY = 1, VALUE = 2, FLOATS = 2, INTEGERS = 3, ITEMS = 1 };

struct record {
    struct buffer message, list;
    const struct instances *from;
    const struct instance *instance;
    int length, predictions;
};

// Writes a feature of type FLOATS or INTEGERS with the packed numbers in record->list.
static void put_feature(struct record *record, const char *name, uint32_t kind) {
    struct buffer *message = &record->message;
    size_t entry = protobuf_begin(message, ENTRY);
    protobuf_put_text(message, KEY, name);
    size_t value = protobuf_begin(message, VALUE), list = protobuf_begin(message, kind);
    protobuf_put_bytes(message, ITEMS, record->list.bytes, record->list.length);
    protobuf_end(message, list);
    protobuf_end(message, value);
    protobuf_end(message, entry);
    buffer_clear(&record->list);
}

// Writes numbers, padded with zeros to `width` of them.
static void put_padded(struct record *record, const char *name, const int32_t *numbers,
                       size_t count, size_t width) {
    for (size_t i = 0; i < width; i++) {
        protobuf_raw_varint(&record->list, i < count ? (uint64_t)numbers[i] : 0);
    }
    put_feature(record, name, INTEGERS);
}

// Writes ones from `begin` to `end`, zeros elsewhere.
static void put_run(struct record *record, const char *name, size_t begin, size_t end) {
    for (size_t i = 0; i < (size_t)record->length; i++) {
        protobuf_raw_varint(&record->list, i >= begin && i < end);
    }
    put_feature(record, name, INTEGERS);
}

static enum berth_status put_record(struct record *record, struct file_writer *file,
                                    struct berth_error *error) {
    const struct instance *instance = record->instance;
    int32_t is_random = instance->is_random;
    if (instance->length > record->length || instance->prediction_count > record->predictions) {
        return error_set(
            error, BERTH_BAD_DATA,
            "an instance has %d tokens and %d masked positions, but records have %d and %d",
            instance->length, instance->prediction_count, record->length, record->predictions);
    }
    buffer_clear(&record->message);
    size_t features = protobuf_begin(&record->message, FEATURES);
    put_padded(record, "input_ids", record->from->tokens + instance->tokens, instance->length,
               (size_t)record->length);
    put_run(record, "input_mask", 0, instance->length);
    put_run(record, "segment_ids", instance->second, instance->length);
    const uint16_t *positions = record->from->positions + instance->predictions;
    size_t width = (size_t)record->predictions, count = instance->prediction_count;
    const uint32_t one = 0x3f800000u; // 1.0
    for (size_t i = 0; i < width; i++) {
        protobuf_raw_varint(&record->list, i < count ? positions[i] : 0);
    }
    put_feature(record, "masked_lm_positions", INTEGERS);
    put_padded(record, "masked_lm_ids", record->from->labels + instance->predictions, count, width);
    for (size_t i = 0; i < width; i++) {
        buffer_put_number(&record->list, i < count ? one : 0, 4);
    }
    put_feature(record, "masked_lm_weights", FLOATS);
    put_padded(record, "next_sentence_labels", &is_random, 1, 1);
    protobuf_end(&record->message, features);
    if (record->message.failed || record->list.failed) {
        return error_no_memory(error, record->message.length, "a record");
    }
    return tfrecord_put(file, record->message.bytes, record->message.length, error);
}

enum berth_status pretraining_write_tfrecord(const char *path, const struct instances *instances,
                                             int max_length, int max_predictions,
                                             struct berth_error *error) {
    struct file_writer file;
    struct record record = {
        .from = instances, .length = max_length, .predictions = max_predictions};
    TRY(file_writer_open(&file, path, error));
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; i < instances->count && status == BERTH_OK; i++) {
        record.instance = &instances->items[i];
        status = put_record(&record, &file, error);
    }
    buffer_done(&record.message);
    buffer_done(&record.list);
    if (status == BERTH_OK) {
        return file_writer_commit(&file, error);
    }
    file_writer_abort(&file);
    return status;
}
