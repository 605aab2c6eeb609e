// SPDX-License-Identifier: Apache-2.0
// Fuzzes PyTorch's checkpoints, through a file in memory: the input is a whole file, or a pickle
// that is wrapped here in the older layout (whose data has no CRC for the fuzzer to guess). If it
// opens, every tensor is within the file and reads the same as a whole and in parts.
#include "core/buffer.h"
#include "format/containers/containers.h"
#include "format/torch/torch.h"
#include "input.h"

enum { TRUST = 3, WRAPPED = 4, WITHOUT_STORAGE = 8, AS_TENSOR_FILE = 16 }; // settings
#define LARGEST ((uint64_t)1 << 16)

// The pickle with the parts before and after it: storage "0" of six floats, or none.
static struct buffer wrap(const struct fuzz_input *input) {
    static const char preface[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                                  "\x80\x02M\xe9\x03."
                                  "\x80\x02}X\x0d\0\0\0little_endian\x88s.";
    static const char none[] = "\x80\x02].";
    static const char one[] = "\x80\x02]U\x01"
                              "0a.\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40"
                              "\0\0\x80\x40\0\0\xa0\x40";
    struct buffer bytes = {0};
    buffer_put(&bytes, preface, sizeof preface - 1);
    buffer_put(&bytes, input->bytes, input->size);
    if ((input->settings & WITHOUT_STORAGE) != 0) {
        buffer_put(&bytes, none, sizeof none - 1);
    } else {
        buffer_put(&bytes, one, sizeof one - 1);
    }
    require(!bytes.failed);
    return bytes;
}

static int64_t elements(const struct tensor_entry *entry) {
    int64_t count = 1;
    for (int i = 0; i < entry->rank; i++) {
        count *= entry->shape[i];
    }
    return count;
}

static void read_tensor(const struct torch_file *file, const struct tensor_entry *entry) {
    uint64_t bytes = entry->end - entry->begin, size = tensor_dtype_bits(entry->dtype_name) / 8;
    int64_t count = elements(entry);
    struct berth_error error;
    require(count >= 0 && bytes == (uint64_t)count * size && bytes <= file->archive.file.size);
    if (bytes > LARGEST) {
        return;
    }
    char *whole = memory_new((size_t)bytes), *part = memory_new((size_t)bytes);
    uint64_t half = (uint64_t)(count / 2) * size;
    if (torch_read(file, entry, 0, (size_t)bytes, whole, &error) == BERTH_OK) {
        require(torch_read(file, entry, half, (size_t)(bytes - half), part, &error) == BERTH_OK);
        require(memcmp(whole + half, part, (size_t)(bytes - half)) == 0);
    } else {
        require(error.status == BERTH_BAD_DATA); // its CRC
    }
    require(torch_read(file, entry, size, (size_t)bytes, part, &error) == BERTH_INTERNAL);
    memory_free(whole);
    memory_free(part);
}

// Calls every accessor on some of the values, which may contain each other.
static void visit(const struct torch_file *file, const struct pickle_value *value, int depth) {
    const struct pickle *pickle = &file->pickle;
    struct pickle_storage storage;
    int64_t integer;
    pickle_integer(value, &integer);
    pickle_storage(pickle, value, &storage);
    require((pickle_text(pickle, value) != NULL) ==
            (pickle_is(value, PICKLE_TEXT) || pickle_is(value, PICKLE_NAME)));
    require(torch_tensor(file, value) == NULL || pickle_is(value, PICKLE_TENSOR));
    pickle_member(pickle, value, "step");
    size_t length = pickle_length(value);
    require(pickle_item(pickle, value, length) == NULL &&
            pickle_key(pickle, value, length) == NULL);
    for (size_t i = 0; i < length && i < 4 && depth < 6; i++) {
        visit(file, pickle_item(pickle, value, i), depth + 1);
        require((pickle_key(pickle, value, i) != NULL) == pickle_is(value, PICKLE_DICT));
    }
    if (depth < 6 && pickle_arguments(pickle, value) != NULL) {
        visit(file, pickle_arguments(pickle, value), depth + 1);
    }
}

static void read_file(const char *path, const struct fuzz_input *input) {
    unsigned trust = input->settings & TRUST;
    struct torch_file file;
    struct berth_error error = {0};
    fuzz_failing_begin(input->fail_at);
    enum berth_status status =
        torch_open(&file, path, trust > PICKLE_CALLS ? PICKLE_OBJECTS : trust, &error);
    fuzz_failing_end(input->fail_at, status, &error);
    require(status == BERTH_OK || status == BERTH_BAD_DATA || status == BERTH_NO_MEMORY);
    if (status == BERTH_OK) {
        visit(&file, file.pickle.root, 0);
    }
    for (size_t i = 0; i < file.count && i < 16; i++) {
        read_tensor(&file, &file.entries[i]);
    }
    torch_close(&file);
}

// Reads it as a file of weights of any format.
static void read_as_tensor_file(const char *path) {
    struct tensor_file file;
    struct berth_error error;
    float number;
    if (tensor_file_open(&file, path, &error) == BERTH_OK) {
        if (file.count > 0 && file.entries->end > file.entries->begin) {
            tensor_file_read_f32(&file, file.entries, 0, 1, &number, &error);
        }
        tensor_file_close(&file);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    if ((input.settings & AS_TENSOR_FILE) != 0) {
        read_as_tensor_file(fuzz_file(input.bytes, input.size));
        return 0;
    }
    if ((input.settings & WRAPPED) == 0) {
        read_file(fuzz_file(input.bytes, input.size), &input);
        return 0;
    }
    struct buffer bytes = wrap(&input);
    read_file(fuzz_file((const unsigned char *)bytes.bytes, bytes.length), &input);
    buffer_done(&bytes);
    return 0;
}
