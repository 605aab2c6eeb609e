// SPDX-License-Identifier: Apache-2.0
// Fuzzes TensorFlow's checkpoints: a checkpoint that opens is consistent, and a tensor reads the
// same, or fails, as a whole and in two halves.
//
// Bits 0 and 1 of the settings say what the rest of the input is:
//   0  u16 length of an index, the index, the data
//   1  u16 length of a data block, the block, the data: the index around it is added here
//   2  u16 length of entries, the entries (u8 length of the key, u8 of the value, both), the data:
//      the table is made here
//   3  the text file `checkpoint`
#include "core/file.h"
#include "format/checksum/crc32c.h"
#include "format/containers/containers.h"
#include "format/tensorflow/sorted_table.h"
#include "format/tensorflow/tensorflow.h"
#include "input.h"

#include <fcntl.h>

// --- files --------------------------------------------------------------------------------------

static char folder[64];

static void remove_folder(void) {
    dir_remove(folder, NULL);
}

static char *path_of(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int create(const char *name) {
    int file = open(path_of(name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    require(file >= 0);
    return file;
}

static void add_name(const char *from, const char *to) {
    char path[128];
    snprintf(path, sizeof path, "%s", path_of(from));
    require(link(path, path_of(to)) == 0);
}

// The files of all runs; the data file has every name of one or two data files.
static struct { int index, data, state; } files = {-1, -1, -1};

static void make_files(void) {
    if (files.index >= 0) {
        return;
    }
    fuzz_make_folder(folder, remove_folder);
    files.index = create("x.index");
    files.data = create("x.data-00000-of-00001");
    files.state = create("checkpoint");
    add_name("x.data-00000-of-00001", "x.data-00000-of-00002");
    add_name("x.data-00000-of-00001", "x.data-00001-of-00002");
}

static void fill(int file, const void *bytes, size_t size) {
    require(ftruncate(file, (off_t)size) == 0 && pwrite(file, bytes, size, 0) == (ssize_t)size);
}

// --- indexes ------------------------------------------------------------------------------------

static void put_block(struct buffer *table, const void *bytes, size_t size, char type) {
    size_t begin = table->length;
    buffer_put(table, bytes, size);
    buffer_put(table, &type, 1);
    buffer_put_number(table, crc32c_mask(crc32c(0, table->bytes + begin, table->length - begin)),
                      4);
}

static void put_handle(struct buffer *to, size_t begin, size_t size) {
    protobuf_raw_varint(to, begin);
    protobuf_raw_varint(to, size);
}

static const char no_entries[8] = {0, 0, 0, 0, 1, 0, 0, 0};

// A table around one data block; its index key is greater than every name in text.
static void wrap_block(struct buffer *table, const uint8_t *block, size_t size) {
    struct buffer index = {0}, value = {0};
    put_block(table, block, size, 0);
    size_t empty = table->length;
    put_block(table, no_entries, sizeof no_entries, 0);
    put_handle(&value, 0, size);
    protobuf_raw_varint(&index, 0);
    protobuf_raw_varint(&index, 1);
    protobuf_raw_varint(&index, value.length);
    buffer_put(&index, "\xff", 1);
    buffer_put(&index, value.bytes, value.length);
    buffer_put(&index, no_entries, sizeof no_entries);
    size_t begin = table->length;
    put_block(table, index.bytes, index.length, 0);
    buffer_clear(&value);
    put_handle(&value, empty, sizeof no_entries);
    put_handle(&value, begin, index.length);
    static const char zeros[40];
    buffer_put(&value, zeros, sizeof zeros - value.length);
    buffer_put(table, value.bytes, value.length);
    buffer_put_number(table, 0x8b80fb57u, 4);
    buffer_put_number(table, 0xdb477524u, 4);
    buffer_done(&index);
    buffer_done(&value);
}

static void build_table(struct sorted_table_writer *table, const uint8_t *bytes, size_t size) {
    for (size_t at = 0; at + 2 <= size;) {
        size_t key_length = bytes[at], value_length = bytes[at + 1];
        at += 2;
        if (key_length + value_length > size - at) {
            break;
        }
        char key[256];
        memcpy(key, bytes + at, key_length);
        key[key_length] = '\0';
        sorted_table_put(table, key, bytes + at + key_length, value_length);
        at += key_length + value_length;
    }
    sorted_table_finish(table);
    require(!table->bytes.failed);
}

static void write_index(unsigned form, const uint8_t *bytes, size_t size) {
    struct buffer wrapped = {0};
    struct sorted_table_writer entries = {0};
    if (form == 0) {
        fill(files.index, bytes, size);
    } else if (form == 1) {
        wrap_block(&wrapped, bytes, size);
        fill(files.index, wrapped.bytes, wrapped.length);
    } else {
        build_table(&entries, bytes, size);
        fill(files.index, entries.bytes.bytes, entries.bytes.length);
    }
    buffer_done(&wrapped);
    sorted_table_writer_done(&entries);
}

// --- reading ------------------------------------------------------------------------------------

// Reading two halves and reading the whole gives the same bytes, or the same failure.
static void read_tensor(const struct tensor_file *file, const struct tensor_entry *entry) {
    size_t size = (size_t)(entry->end - entry->begin), half = size / 2;
    char *halves = memory_new(size), *whole = memory_new(size);
    struct berth_error error = {0};
    enum berth_status status = file->format->read(file, entry, 0, half, halves, &error);
    if (status == BERTH_OK) {
        status = file->format->read(file, entry, half, size - half, halves + half, &error);
    }
    require(status == BERTH_OK || error.message[0] != '\0');
    require((tensor_file_read(file, entry, whole, NULL) == BERTH_OK) == (status == BERTH_OK));
    require(status != BERTH_OK || memcmp(halves, whole, size) == 0);
    require(file->format->read(file, entry, 1, size, whole, NULL) != BERTH_OK);
    unsigned number = tensorflow_dtype_number(entry->dtype);
    require((number == 0) == (entry->dtype == TENSOR_OTHER));
    memory_free(halves);
    memory_free(whole);
}

static void open_bundle(unsigned fail_at, size_t data_size) {
    struct tensor_file file;
    struct berth_error error = {0};
    fuzz_failing_begin(fail_at);
    enum berth_status status = tensor_file_open(&file, path_of("x.index"), &error);
    fuzz_failing_end(fail_at, status, &error);
    if (status != BERTH_OK) {
        return;
    }
    for (size_t i = 0; i < file.count; i++) {
        const struct tensor_entry *entry = &file.entries[i];
        require(entry->name[0] != '\0' && entry->begin <= entry->end && entry->end <= data_size);
        require(i == 0 || strcmp(file.entries[i - 1].name, entry->name) < 0);
        require(tensor_file_find(&file, entry->name) == entry);
        read_tensor(&file, entry);
    }
    tensor_file_close(&file);
}

static void find_bundle(const struct fuzz_input *input) {
    char *path;
    struct berth_error error = {0};
    fill(files.state, input->bytes, input->size);
    fuzz_failing_begin(input->fail_at);
    enum berth_status status = tensorflow_find(folder, &path, &error);
    fuzz_failing_end(input->fail_at, status, &error);
    require((path != NULL) == (status == BERTH_OK)); // x.index, if nothing else
    memory_free(path);
    fill(files.state, "", 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input input = fuzz_input_of(data, size);
    unsigned form = input.settings & 3;
    make_files();
    if (form == 3) {
        find_bundle(&input);
        return 0;
    }
    size_t first = 0, begin = input.size < 2 ? input.size : 2;
    if (input.size >= 2) {
        first = (size_t)input.bytes[0] | (size_t)input.bytes[1] << 8;
        first = first < input.size - 2 ? first : input.size - 2;
    }
    write_index(form, input.bytes + begin, first);
    size_t data_size = input.size - begin - first;
    fill(files.data, input.bytes + begin + first, data_size);
    open_bundle(input.fail_at, data_size);
    return 0;
}
