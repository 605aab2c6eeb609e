// SPDX-License-Identifier: Apache-2.0
// Damaged checkpoints: truncated at any length, a flipped bit anywhere, archives with inconsistent
// directories, the older layout with missing or additional parts.
#include "format/pickles.h"
#include "format/torch/torch.h"

#include <errno.h>
#include <sys/mman.h>

#define DATA BERTH_TEST_FORMAT_DATA "/"
#define SIX "\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40" // 0 to 5
#define ONE_TENSOR PROTO "}U\1t" TENSOR(FLOATS("\6"), "K\0", "K\6\x85", "K\1\x85") "s."
#define LEGACY_FLOATS STORAGE_ID("Float", "0", "\6") "NtQ"
#define LEGACY_TENSOR PROTO "}U\1t" TENSOR(LEGACY_FLOATS, "K\0", "K\6\x85", "K\1\x85") "s."
#define KEYS                                                                                       \
    PROTO "]U\1"                                                                                   \
          "0a."
#define COUNTED "\6\0\0\0\0\0\0\0" SIX

static void assert_refused(const char *part) {
    struct torch_file file;
    struct berth_error error;
    if (torch_open(&file, scratch("a.pt"), PICKLE_CALLS, &error) != BERTH_BAD_DATA) {
        fail_msg("not refused: %s", part);
    }
    assert_message_has(&error, scratch("a.pt"));
    assert_message_has(&error, part);
    assert_null(file.entries);
    assert_int_equal(file.archive.file.descriptor, -1);
}

static void assert_accepted(size_t count) {
    struct torch_file file;
    struct berth_error error;
    if (torch_open(&file, scratch("a.pt"), PICKLE_KNOWN_NAMES, &error) != BERTH_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(file.count, count);
    torch_close(&file);
}

static char *read_file(const char *path, size_t *length) {
    char *bytes;
    assert_int_equal(file_read(path, 1 << 20, &bytes, length, NULL), BERTH_OK);
    return bytes;
}

// --- cuts and flips -----------------------------------------------------------------------------

// A file in memory: thousands of them on a disk would be slow.
static int memory_file(char path[64], const void *bytes, size_t length) {
    int memory = memfd_create("changed", 0);
    snprintf(path, 64, "/proc/self/fd/%d", memory);
    assert_int_equal(pwrite(memory, bytes, length, 0), length);
    return memory;
}

static void test_every_prefix_is_refused(void **state) {
    (void)state;
    static const char *const paths[] = {DATA "trainer.pt", DATA "trainer_legacy.pt",
                                        DATA "shard.pt", DATA "alone.pt"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct torch_file file;
        size_t length;
        char *bytes = read_file(paths[i], &length), path[64];
        int memory = memory_file(path, bytes, length);
        for (size_t cut = length; cut-- > 0;) {
            assert_int_equal(ftruncate(memory, (off_t)cut), 0);
            assert_int_equal(torch_open(&file, path, PICKLE_CALLS, NULL), BERTH_BAD_DATA);
        }
        close(memory);
        memory_free(bytes);
    }
}

// Reads a file with a flipped bit: the file or single tensors may be refused. Returns whether a
// number differs from the valid file's.
static int reads_other_numbers(const char *path, const struct torch_file *good) {
    struct torch_file file;
    char now[512], then[512];
    int differs = 0;
    enum berth_status status = torch_open(&file, path, PICKLE_OBJECTS, NULL);
    assert_true(status == BERTH_OK || status == BERTH_BAD_DATA);
    for (size_t i = 0; i < file.count; i++) {
        size_t bytes = (size_t)(file.entries[i].end - file.entries[i].begin);
        assert_in_range(bytes, 0, sizeof now);
        status = torch_read(&file, &file.entries[i], 0, bytes, now, NULL);
        assert_true(status == BERTH_OK || status == BERTH_BAD_DATA);
        assert_int_equal(torch_read(good, &good->entries[i], 0, bytes, then, NULL), BERTH_OK);
        differs |= status == BERTH_OK && memcmp(now, then, bytes) != 0;
    }
    torch_close(&file);
    return differs;
}

static size_t count_undetected(const char *path, size_t *flips) {
    struct torch_file good;
    size_t length, undetected = 0;
    char *bytes = read_file(path, &length), memory_path[64];
    int memory = memory_file(memory_path, bytes, length);
    assert_int_equal(torch_open(&good, path, PICKLE_OBJECTS, NULL), BERTH_OK);
    for (size_t index = 0; index < length; index++) {
        for (int bit = 0; bit < 8; bit++) {
            char flipped = (char)(bytes[index] ^ 1 << bit);
            assert_int_equal(pwrite(memory, &flipped, 1, (off_t)index), 1);
            undetected += (size_t)reads_other_numbers(memory_path, &good);
        }
        assert_int_equal(pwrite(memory, &bytes[index], 1, (off_t)index), 1);
    }
    *flips = 8 * length;
    torch_close(&good);
    memory_free(bytes);
    close(memory);
    return undetected;
}

// The archive's CRCs detect changed numbers, except in a strided view, which does not read all of
// its storage. The older layout has no CRC.
static void test_flipped_bits(void **state) {
    (void)state;
    size_t flips;
    write_zip("good.pt", (struct raw)RAW(ONE_TENSOR), (struct raw)RAW(SIX));
    char path[512];
    snprintf(path, sizeof path, "%s", scratch("good.pt"));
    assert_int_equal(count_undetected(path, &flips), 0);
    assert_in_range(flips, 3000, 8000);
    assert_in_range(count_undetected(DATA "alone.pt", &flips), 1, 8 * 24 * 4);
    write_legacy("good.pt", (struct raw)RAW(LEGACY_TENSOR), (struct raw)RAW(KEYS),
                 (struct raw)RAW(COUNTED));
    assert_in_range(count_undetected(path, &flips), 8 * 6 * 4, 8 * 6 * 4 + 200);
}

static void test_damaged_data(void **state) {
    (void)state;
    struct torch_file file;
    struct berth_error error;
    float numbers[6];
    write_zip("a.pt", (struct raw)RAW(ONE_TENSOR), (struct raw)RAW(SIX));
    size_t length;
    char *bytes = read_file(scratch("a.pt"), &length);
    assert_int_equal(torch_open(&file, scratch("a.pt"), PICKLE_OBJECTS, NULL), BERTH_OK);
    bytes[file.entries->end - 1] ^= 1;
    scratch_write_bytes("a.pt", bytes, length);
    assert_int_equal(torch_read(&file, file.entries, 0, sizeof numbers, numbers, &error),
                     BERTH_BAD_DATA);
    assert_message_has(&error, "tensor \"t\" is damaged");
    // Every first read reports the damage, whatever part is damaged.
    assert_int_equal(torch_read(&file, file.entries, 0, sizeof *numbers, numbers, &error),
                     BERTH_BAD_DATA);
    assert_int_equal(torch_read(&file, file.entries, 4, sizeof *numbers, numbers, NULL), BERTH_OK);
    torch_close(&file);
    memory_free(bytes);
}

// Sets the CRCs of the first `count` entries to 0, in the local headers and in the directory.
static void remove_crcs(const char *path, size_t count) {
    size_t length, locals = 0, records = 0;
    char *bytes = read_file(path, &length);
    for (size_t i = 0; i + 20 < length; i++) {
        if (memcmp(bytes + i, "PK\3\4", 4) == 0 && locals++ < count) {
            memset(bytes + i + 14, 0, 4);
        } else if (memcmp(bytes + i, "PK\1\2", 4) == 0 && records++ < count) {
            memset(bytes + i + 16, 0, 4);
        }
    }
    assert_int_equal(locals, 2);
    scratch_write_bytes("a.pt", bytes, length);
    memory_free(bytes);
}

// torch.serialization.set_crc32_options(False) writes every CRC as 0; a single 0 is damage.
static void test_without_checksums(void **state) {
    (void)state;
    struct torch_file file;
    float numbers[6];
    write_zip("a.pt", (struct raw)RAW(ONE_TENSOR), (struct raw)RAW(SIX));
    remove_crcs(scratch("a.pt"), 1);
    assert_refused("entry \"archive/data.pkl\" is damaged");
    remove_crcs(scratch("a.pt"), 2);
    assert_int_equal(torch_open(&file, scratch("a.pt"), PICKLE_OBJECTS, NULL), BERTH_OK);
    assert_int_equal(torch_read(&file, file.entries, 0, sizeof numbers, numbers, NULL), BERTH_OK);
    assert_true(numbers[5] == 5);
    torch_close(&file);
}

// --- archives -----------------------------------------------------------------------------------

static void test_names_of_entries(void **state) {
    (void)state;
    static const char *const bad[] = {
        "../data.pkl", "/data.pkl", "a/../data.pkl", "a/./b", "a//b",          "a/", "a\\b", "a/..",
        "a/\n",        "a/\x7f",    "a/\xff",        "..",    "a/data/../../x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct archive archive = {0};
        archive_add(&archive, bad[i], "x", 1);
        archive_write(&archive, "a.pt");
        assert_refused("is not a plain relative path");
    }
}

// Archives of the given entries, each "name=content".
static void write_entries(const char *const *entries) {
    struct archive archive = {0};
    for (; *entries != NULL; entries++) {
        char name[64];
        const char *content = strchr(*entries, '=') + 1;
        snprintf(name, sizeof name, "%.*s", (int)(content - 1 - *entries), *entries);
        archive_add(&archive, name, content, strlen(content));
    }
    archive_write(&archive, "a.pt");
}

#define NONE_PICKLE "\x80\x02N."

static void test_archives_of_other_things(void **state) {
    (void)state;
    static const struct {
        const char *entries[4];
        const char *part;
    } cases[] = {
        {{"a/data.pkl=" NONE_PICKLE, "a/data.pkl=" NONE_PICKLE, NULL},
         "duplicate entry \"a/data.pkl\""},
        {{"a/data.pkl=" NONE_PICKLE, "a/data/0=", "a/data/0=", NULL}, "duplicate entry"},
        {{"a/data.pkl=" NONE_PICKLE, "b/data.pkl=" NONE_PICKLE, NULL}, "of several folders"},
        {{"data.pkl=" NONE_PICKLE, NULL}, "without a folder"},
        {{"a/x.npy=x", NULL}, "without data.pkl"},
        {{"a/data.pkl=" NONE_PICKLE, "a/constants.pkl=" NONE_PICKLE, NULL}, "TorchScript"},
        {{"a/data.pkl=" NONE_PICKLE, "a/byteorder=big", NULL}, "found \"big\""},
        {{"a/data.pkl=" NONE_PICKLE, "a/byteorder=little-endian", NULL}, "found \"\""},
        {{"a/data.pkl=\x80\x02.", NULL}, "data.pkl byte 2: STOP"},
        {{"a/data.pkl=\x80\x02N.N", NULL}, "data.pkl byte 3: STOP: 1 bytes follow the end"},
        {{"a/data.pkl=", NULL}, "data.pkl byte 0: STOP: truncated: 1 bytes are needed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_entries(cases[i].entries);
        assert_refused(cases[i].part);
    }
    static const char *const good[] = {"a/data.pkl=" NONE_PICKLE, "a/byteorder=little", NULL};
    write_entries(good);
    assert_accepted(0);
    scratch_write("a.pt", "PK");
    assert_refused("neither a zip archive nor a pickle");
    scratch_write("a.pt", "");
    assert_refused("neither a zip archive nor a pickle");
    scratch_write("a.pt", "PK\3\4");
    assert_refused("too short for an archive");
}

// It begins with its end record, and so does not look like an archive.
static void test_an_empty_archive(void **state) {
    (void)state;
    static const char *const none[] = {NULL};
    struct zip zip;
    write_entries(none);
    assert_int_equal(zip_open(&zip, scratch("a.pt"), NULL), BERTH_OK);
    assert_int_equal(zip.count, 0);
    assert_null(zip_find(&zip, "a"));
    zip_close(&zip);
    assert_refused("neither a zip archive nor a pickle");
}

// A small archive to modify: the offsets of its parts.
struct parts {
    unsigned char *bytes;
    size_t length, record, end; // of data.pkl's record, and of what follows the directory
};

static struct parts make_parts(void) {
    struct parts parts;
    uint32_t record;
    write_zip("a.pt", (struct raw)RAW(ONE_TENSOR), (struct raw)RAW(SIX));
    parts.bytes = (unsigned char *)read_file(scratch("a.pt"), &parts.length);
    parts.end = parts.length - 22;
    memcpy(&record, parts.bytes + parts.end + 16, 4);
    parts.record = record;
    assert_memory_equal(parts.bytes + parts.record, "PK\1\2", 4);
    return parts;
}

static void test_changed_archives(void **state) {
    (void)state;
    enum part { LOCAL, RECORD, END };
    static const struct {
        enum part part;
        size_t offset;
        const char *bytes;
        size_t length;
        const char *message;
    } cases[] = {
        {RECORD, 10, "\x08", 1, "(a TorchScript program? save the model's state_dict)"}, // deflated
        {RECORD, 20, "\1\0\0\0", 4, "the entry is compressed"}, // a bomb's stored size
        {RECORD, 24, "\xff\xff\xff\x7f", 4, "the entry is compressed"},
        {RECORD, 20, "\xff\xff\xff\x7f\xff\xff\xff\x7f", 8, "contradicts the directory"},
        {RECORD, 20, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, "contradicts the directory"},
        {RECORD, 20, "\1\0\0\0\1\0\0\0", 8, "contradicts the directory"},
        {RECORD, 8, "\x09", 1, "the entry is encrypted"},
        {RECORD, 0, "X", 1, "missing directory record"},
        {RECORD, 28, "\xff\xff", 2, "a record extends beyond the directory"},
        {RECORD, 30, "\xff\xff", 2, "a record extends beyond the directory"},
        {RECORD, 32, "\xff\xff", 2, "a record extends beyond the directory"},
        {RECORD, 42, "\1\0\0\0", 4, "unexpected bytes before the first entry"},
        {RECORD, 42, "\xff\xff\xff\x7f", 4, "unexpected bytes before the first entry"},
        {RECORD, 16, "\0\0\0\0", 4, "contradicts the directory"},
        {LOCAL, 50, "X", 1, "entry \"archive/data.pkl\" is damaged: found CRC-32"},
        {RECORD, 46, "b", 1, "contradicts the directory"},
        {LOCAL, 0, "PK\3\4\x14\0\0\0", 8, "contradicts the directory"}, // flags
        {LOCAL, 8, "\x08", 1, "contradicts the directory"},
        {LOCAL, 14, "\1", 1, "contradicts the directory"},
        {LOCAL, 18, "\1", 1, "contradicts the directory"},
        {LOCAL, 22, "\1", 1, "contradicts the directory"},
        {LOCAL, 26, "\1", 1, "contradicts the directory"},
        {LOCAL, 28, "\xff\xff", 2, "entries overlap"},
        {LOCAL, 30, "b", 1, "contradicts the directory"},
        {END, 0, "X", 1, "missing end-of-central-directory record"},
        {END, 4, "\1", 1, "multi-part archives are not supported"},
        {END, 6, "\1", 1, "multi-part archives are not supported"},
        {END, 8, "\1", 1, "multi-part archives are not supported"},
        {END, 8, "\1\0\1\0", 4, "the directory continues after its last entry"},
        {END, 8, "\3\0\3\0", 4, "are inconsistent"},
        {END, 8, "\xff\xff\xff\xff", 4, "are inconsistent"},
        {END, 12, "\1", 1, "are inconsistent"},
        {END, 12, "\xff\xff\xff\xff", 4, "are inconsistent"},
        {END, 16, "\1", 1, "are inconsistent"},
        {END, 16, "\xff\xff\xff\xff", 4, "are inconsistent"},
        {END, 20, "\1", 1, "missing end-of-central-directory record"},
    };
    struct parts parts = make_parts();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t offsets[] = {0, parts.record, parts.end};
        unsigned char kept[8];
        unsigned char *target = parts.bytes + offsets[cases[i].part] + cases[i].offset;
        memcpy(kept, target, cases[i].length);
        memcpy(target, cases[i].bytes, cases[i].length);
        scratch_write_bytes("a.pt", parts.bytes, parts.length);
        assert_refused(cases[i].message);
        memcpy(target, kept, cases[i].length);
    }
    scratch_write_bytes("a.pt", parts.bytes, parts.length);
    assert_accepted(1);
    memory_free(parts.bytes);
}

// An entry whose size is too small, or too large, in both headers.
static void test_sizes_of_entries(void **state) {
    (void)state;
    static const struct {
        unsigned char size;
        const char *message;
    } cases[] = {{1, "unexpected bytes after the entry"}, {255, "entries overlap"}};
    struct parts parts = make_parts();
    for (size_t i = 0; i < 2; i++) {
        for (size_t target = 0; target < 2; target++) {
            parts.bytes[parts.record + 20 + 4 * target] = cases[i].size;
            parts.bytes[18 + 4 * target] = cases[i].size;
        }
        scratch_write_bytes("a.pt", parts.bytes, parts.length);
        assert_refused(cases[i].message);
    }
    memory_free(parts.bytes);
}

// Two files in one: no data may be before an archive, after it or between its entries.
static void test_polyglots(void **state) {
    (void)state;
    struct parts parts = make_parts();
    struct buffer bytes = {0};
    buffer_put(&bytes, parts.bytes, parts.length);
    buffer_put(&bytes, "x", 1);
    scratch_write_bytes("a.pt", bytes.bytes, bytes.length);
    assert_refused("missing end-of-central-directory record: the file is truncated, or data "
                   "follows the archive");
    buffer_done(&bytes);
    buffer_put(&bytes, "PK\3\4", 4); // still looks like an archive
    buffer_put(&bytes, parts.bytes, parts.length);
    scratch_write_bytes("a.pt", bytes.bytes, bytes.length);
    assert_refused("are inconsistent");
    buffer_done(&bytes);
    // Both offsets adjusted, as a careful attacker would: the bytes in front still belong to no
    // entry.
    uint32_t record = (uint32_t)parts.record + 4, local = 4;
    memcpy(parts.bytes + parts.end + 16, &record, 4);
    memcpy(parts.bytes + parts.record + 42, &local, 4);
    buffer_put(&bytes, "PK\3\4", 4);
    buffer_put(&bytes, parts.bytes, parts.length);
    scratch_write_bytes("a.pt", bytes.bytes, bytes.length);
    assert_refused("unexpected bytes before the first entry");
    buffer_done(&bytes);
    memory_free(parts.bytes);
}

// An archive whose first entry has its CRC and sizes after its data, as torch writes them, in `gap`
// bytes.
static void write_with_descriptor(size_t gap, size_t size_bytes, uint32_t change) {
    static const struct raw pickle = RAW(ONE_TENSOR);
    struct archive archive = {0};
    archive_add(&archive, "archive/data.pkl", pickle.bytes, pickle.length);
    size_t end = archive.file.length + gap;
    archive.directory.bytes[8] |= 8;
    archive.file.bytes[6] |= 8;
    memset(archive.file.bytes + 14, 0, 12);
    if (gap >= 16) {
        buffer_put(&archive.file, "PK\7\10", 4);
        buffer_put_number(&archive.file, deflate_crc32(0, pickle.bytes, pickle.length) ^ change, 4);
        buffer_put_number(&archive.file, pickle.length, size_bytes);
        buffer_put_number(&archive.file, pickle.length, size_bytes);
    }
    while (archive.file.length < end) {
        buffer_put_byte(&archive.file, 0);
    }
    archive_add(&archive, "archive/data/0", SIX, 24);
    archive_write(&archive, "a.pt");
}

static void test_what_follows_an_entry(void **state) {
    (void)state;
    static const size_t gaps[] = {0, 1, 12, 15, 17, 20, 23, 25, 32, 40};
    write_with_descriptor(16, 4, 0);
    assert_accepted(1);
    write_with_descriptor(24, 8, 0);
    assert_accepted(1);
    for (size_t i = 0; i < sizeof gaps / sizeof *gaps; i++) {
        write_with_descriptor(gaps[i], gaps[i] >= 24 ? 8 : 4, 0);
        assert_refused("unexpected bytes after the entry");
    }
    write_with_descriptor(16, 4, 1);
    assert_refused("the CRC after the data differs from the directory's");
    write_with_descriptor(24, 8, 1u << 31);
    assert_refused("the CRC after the data differs from the directory's");
}

// Bytes hidden between two entries that have nothing after their data.
static void test_bytes_between_entries(void **state) {
    (void)state;
    static const struct raw pickle = RAW(ONE_TENSOR);
    for (size_t count = 1; count <= 24; count++) {
        struct archive archive = {0};
        archive_add(&archive, "archive/data.pkl", pickle.bytes, pickle.length);
        for (size_t i = 0; i < count; i++) {
            buffer_put_byte(&archive.file, 'x');
        }
        archive_add(&archive, "archive/data/0", SIX, 24);
        archive_write(&archive, "a.pt");
        assert_refused("unexpected bytes after the entry");
    }
}

// An entry whose header is inside the directory.
static void test_an_entry_after_the_directory(void **state) {
    (void)state;
    static const struct raw pickle = RAW(ONE_TENSOR);
    for (uint32_t after = 0; after < 200; after += 50) {
        struct archive archive = {0};
        archive_add(&archive, "archive/data.pkl", pickle.bytes, pickle.length);
        size_t record = archive.directory.length;
        archive_add(&archive, "archive/data/0", SIX, 24);
        uint32_t header = (uint32_t)archive.file.length + after;
        memcpy(archive.directory.bytes + record + 42, &header, 4);
        archive_write(&archive, "a.pt");
        assert_refused(after == 0 ? "unexpected bytes after the entry"
                                  : "the entry is after the directory");
    }
}

// ZIP64 fields in an archive that does not need them.
static void write_zip64(void) {
    struct zip_writer zip;
    static const struct raw pickle = RAW(ONE_TENSOR);
    assert_int_equal(zip_writer_open(&zip, scratch("a.pt"), NULL), BERTH_OK);
    zip.zip64_threshold = 1;
    zip_writer_add(&zip, "archive/data.pkl", pickle.bytes, pickle.length, NULL);
    zip_writer_add(&zip, "archive/data/0", SIX, 24, NULL);
    zip_writer_add(&zip, "archive/version", "3\n", 2, NULL);
    assert_int_equal(zip_writer_commit(&zip, NULL), BERTH_OK);
}

static void test_zip64(void **state) {
    (void)state;
    static const struct {
        size_t from_end; // offset from the end of the changed byte
        unsigned char change;
        const char *message;
    } cases[] = {
        {22 + 20, 1, "are inconsistent"}, // no locator: sizes of all ones
        {22 + 20 - 8, 1, "invalid ZIP64 end-of-central-directory record"},       // its place
        {22 + 20 + 56, 1, "invalid ZIP64 end-of-central-directory record"},      // its signature
        {22 + 20 + 56 - 4, 1, "invalid ZIP64 end-of-central-directory record"},  // its size
        {22 + 20 + 56 - 16, 1, "invalid ZIP64 end-of-central-directory record"}, // parts
        {22 + 20 + 56 - 24, 1,
         "invalid ZIP64 end-of-central-directory record"}, // entries in this part
        {22 + 20 + 56 - 40, 1, "are inconsistent"},        // size
        {22 + 20 + 56 - 48, 1, "are inconsistent"},        // place
        {22 - 8, 0xf0, "the ZIP64 end record contradicts the end-of-central-directory record"},
        {22 - 12, 0xf0, "the ZIP64 end record contradicts the end-of-central-directory record"},
        {22 - 16, 0xf0, "the ZIP64 end record contradicts the end-of-central-directory record"},
    };
    write_zip64();
    assert_accepted(1);
    size_t length;
    char *bytes = read_file(scratch("a.pt"), &length);
    assert_memory_equal(bytes + length - 22 - 20 - 56, "PK\6\6", 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *target = bytes + length - cases[i].from_end;
        *target = (char)(*target ^ cases[i].change);
        if (cases[i].from_end == 22 - 8) { // both copies of the count
            target[2] = *target;
        }
        scratch_write_bytes("a.pt", bytes, length);
        assert_refused(cases[i].message);
        *target = (char)(*target ^ cases[i].change);
        if (cases[i].from_end == 22 - 8) {
            target[2] = *target;
        }
    }
    // The extra fields of the first record: their size, then one that is too short.
    char *record = NULL;
    for (size_t index = 1; record == NULL; index++) {
        record = memcmp(bytes + index, "PK\1\2", 4) == 0 ? bytes + index : NULL;
    }
    char *extra = record + 46 + strlen("archive/data.pkl");
    extra[2] = 127;
    scratch_write_bytes("a.pt", bytes, length);
    assert_refused("invalid ZIP64 fields");
    extra[2] = 8; // one number where two are needed
    scratch_write_bytes("a.pt", bytes, length);
    assert_refused("invalid ZIP64 fields");
    extra[0] = 2; // fields of another kind: the sizes stay all ones
    extra[2] = 16;
    scratch_write_bytes("a.pt", bytes, length);
    assert_refused("entries overlap");
    memory_free(bytes);
}

// --- the older layout ---------------------------------------------------------------------------

static void test_legacy(void **state) {
    (void)state;
    static const struct {
        struct raw pickle, keys, storages;
        const char *part;
    } cases[] = {
        {RAW(LEGACY_TENSOR), RAW(PROTO "]."), RAW(""), "missing list of the storages"},
        {RAW(LEGACY_TENSOR), RAW(PROTO "N."), RAW(""), "missing list of the storages"},
        {RAW(LEGACY_TENSOR),
         RAW(PROTO "](U\1"
                   "0U\1"
                   "0e."),
         RAW(COUNTED COUNTED), "missing list of"},
        {RAW(LEGACY_TENSOR),
         RAW(PROTO "]U\1"
                   "1a."),
         RAW(COUNTED), "or a storage of no tensor"},
        {RAW(LEGACY_TENSOR), RAW(PROTO "]K\1a."), RAW(COUNTED), "or a storage of no tensor"},
        {RAW(PROTO "N."), RAW(KEYS), RAW(COUNTED), "missing list of the storages"},
        {RAW(LEGACY_TENSOR), RAW(KEYS), RAW("\6\0\0"), "the file is truncated: missing storage"},
        {RAW(LEGACY_TENSOR), RAW(KEYS), RAW("\5\0\0\0\0\0\0\0" SIX),
         "the size of a storage differs"},
        {RAW(LEGACY_TENSOR), RAW(KEYS), RAW("\6\0\0\0\0\0\0\1" SIX),
         "the size of a storage differs"},
        {RAW(LEGACY_TENSOR), RAW(KEYS),
         RAW("\6\0\0\0\0\0\0\0"
             "x"),
         "or it is truncated"},
        {RAW(LEGACY_TENSOR), RAW(KEYS), RAW(COUNTED "x"), "unexpected data after the last storage"},
        {RAW(PROTO "(" LEGACY_FLOATS STORAGE_ID("Float", "0", "\5") "NtQ"
                                                                    "t."),
         RAW(KEYS), RAW(COUNTED), "a storage with two different sizes"},
        {RAW(PROTO "(" LEGACY_FLOATS STORAGE_ID("Long", "0", "\3") "NtQ"
                                                                   "t."),
         RAW(KEYS), RAW(COUNTED), "a storage with two different sizes"},
        {RAW(PROTO "(" LEGACY_FLOATS STORAGE_ID("Long", "0", "\6") "NtQ"
                                                                   "t."),
         RAW(KEYS), RAW(COUNTED), "a storage with two different sizes"},
        {RAW(PROTO "(U\7storagectorch\nLongStorage\nU\1"
                   "0U\3cpu\x8a\x08\0\0\0\0\0\0\0\x40NtQ."),
         RAW(KEYS), RAW(COUNTED), "the size of a storage overflows"},
        {RAW(PROTO "(U\7storagectorch\nLongStorage\nU\1"
                   "0U\3cpu\x8a\x08\0\0\0\0\0\0\0\1NtQ."),
         RAW(KEYS), RAW("\0\0\0\0\0\0\0\1" SIX), "the size of a storage differs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_legacy("a.pt", cases[i].pickle, cases[i].keys, cases[i].storages);
        assert_refused(cases[i].part);
    }
    // Two storages, one of them listed twice and the other not at all.
    write_legacy("a.pt",
                 (struct raw)RAW(PROTO LEGACY_FLOATS STORAGE_ID("Float", "1", "\6") "NtQ\x86."),
                 (struct raw)RAW(PROTO "](U\1"
                                       "0U\1"
                                       "0e."),
                 (struct raw)RAW(COUNTED COUNTED));
    assert_refused("has a duplicate");
    write_legacy("a.pt", (struct raw)RAW(LEGACY_TENSOR), (struct raw)RAW(KEYS),
                 (struct raw)RAW(COUNTED));
    assert_accepted(1);
    // An empty storage at the very end.
    write_legacy("a.pt",
                 (struct raw)RAW(PROTO "}U\1t" TENSOR(STORAGE_ID("Float", "0", "\0") "NtQ", "K\0",
                                                      "K\0\x85", "K\1\x85") "s."),
                 (struct raw)RAW(KEYS), (struct raw)RAW("\0\0\0\0\0\0\0\0"));
    assert_accepted(1);
    // As torch.zeros(0, 4)[:, 2:] is saved.
    write_legacy("a.pt",
                 (struct raw)RAW(PROTO "}U\1t" TENSOR(STORAGE_ID("Float", "0", "\0") "NtQ", "K\2",
                                                      "K\0K\2\x86", "K\4K\1\x86") "s."),
                 (struct raw)RAW(KEYS), (struct raw)RAW("\0\0\0\0\0\0\0\0"));
    assert_accepted(1);
}

static void test_legacy_preface(void **state) {
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
        const char *part;
    } cases[] = {
        {"\x80\x02M\xe8\x03.", 6, "expected protocol 1001"},
        {"\x80\x02N.", 4, "expected protocol 1001"},
        {"\x80\x02M\xe9\x03.\x80\x02}.", 10, "is not marked as little-endian"},
        {"\x80\x02M\xe9\x03.\x80\x02}X\x0d\0\0\0little_endian\x89s.", 30, "little-endian"},
        {"\x80\x02M\xe9\x03.\x80\x02}X\x0d\0\0\0little_endianK\1s.", 31, "little-endian"},
        {"\x80\x02M\xe9\x03.\x80\x02}X\x0d\0\0\0little_endian\x88s.", 30, "byte 45: STOP"},
        {"i", 1, "byte 15: INST"},
    };
    static const char magic[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer bytes = {0};
        buffer_put(&bytes, magic, 15);
        buffer_put(&bytes, cases[i].bytes, cases[i].length);
        scratch_write_bytes("a.pt", bytes.bytes, bytes.length);
        assert_refused(cases[i].part);
        buffer_done(&bytes);
    }
}

// --- failures -----------------------------------------------------------------------------------

static void test_failures_at_every_call(void **state) {
    (void)state;
    static const char *const paths[] = {DATA "trainer.pt", DATA "trainer_legacy.pt"};
    for (size_t i = 0; i < 2; i++) {
        struct torch_file file;
        enum berth_status status = BERTH_NO_MEMORY;
        uint64_t call;
        for (call = 1; call < 300 && status != BERTH_OK; call++) {
            memory_fail_at(call, 0);
            status = torch_open(&file, paths[i], PICKLE_OBJECTS, NULL);
            memory_fail_at(0, 0);
            assert_true(status == BERTH_OK || status == BERTH_NO_MEMORY);
            torch_close(&file);
        }
        assert_int_equal(status, BERTH_OK);
        assert_in_range(call, 15, 299);
        status = BERTH_IO;
        for (call = 1; call < 300 && status != BERTH_OK; call++) {
            file_fail_at(call, EIO);
            status = torch_open(&file, paths[i], PICKLE_OBJECTS, NULL);
            file_fail_at(0, 0);
            assert_true(status == BERTH_OK || status == BERTH_IO);
            torch_close(&file);
        }
        assert_int_equal(status, BERTH_OK);
        assert_in_range(call, 5, 299);
    }
    struct torch_file file;
    assert_int_equal(torch_open(&file, scratch("none"), PICKLE_OBJECTS, NULL), BERTH_NO_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(test_every_prefix_is_refused),
        SCRATCH_TEST(test_flipped_bits),
        SCRATCH_TEST(test_damaged_data),
        SCRATCH_TEST(test_without_checksums),
        SCRATCH_TEST(test_names_of_entries),
        SCRATCH_TEST(test_archives_of_other_things),
        SCRATCH_TEST(test_an_empty_archive),
        SCRATCH_TEST(test_changed_archives),
        SCRATCH_TEST(test_sizes_of_entries),
        SCRATCH_TEST(test_an_entry_after_the_directory),
        SCRATCH_TEST(test_what_follows_an_entry),
        SCRATCH_TEST(test_bytes_between_entries),
        SCRATCH_TEST(test_polyglots),
        SCRATCH_TEST(test_zip64),
        SCRATCH_TEST(test_legacy),
        SCRATCH_TEST(test_legacy_preface),
        SCRATCH_TEST(test_failures_at_every_call),
    };
    return cmocka_run_group_tests_name("torch_malformed", tests, NULL, NULL);
}
