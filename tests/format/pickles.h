// SPDX-License-Identifier: Apache-2.0
// Files around hand-made pickles, for the tests of their readers.
#ifndef BERTH_TESTS_FORMAT_PICKLES_H
#define BERTH_TESTS_FORMAT_PICKLES_H

#include "core/buffer.h"
#include "core/scratch.h"
#include "format/archive/deflate.h"
#include "format/archive/zip.h"

// Bytes, which may contain NUL, with their length: RAW("\x80\x02N.") is a pickle.
struct raw {
    const char *bytes;
    size_t length;
};
#define RAW(text)                                                                                  \
    { (text), sizeof(text) - 1 }
#define PROTO "\x80\x02"
#define TEXT(length, text) "X" length "\0\0\0" text
#define STORAGE_ID(type, key, numel)                                                               \
    "(" TEXT("\7", "storage") "ctorch\n" type "Storage\n" TEXT("\1", key)                          \
        TEXT("\3", "cpu") "K" numel
#define FLOATS(numel) STORAGE_ID("Float", "0", numel) "tQ"
#define TENSOR(storage, offset, shape, strides)                                                    \
    "ctorch._utils\n_rebuild_tensor_v2\n(" storage offset shape strides "\x89"                     \
    "ccollections\nOrderedDict\n)RtR"

// A zip archive in memory, written here so that the reader is not tested with its own writer (which
// also syncs each file).
struct archive {
    struct buffer file, directory;
    uint64_t count;
};

static inline void archive_add(struct archive *archive, const char *name, const void *data,
                               size_t length) {
    uint32_t crc = deflate_crc32(0, data, length);
    uint64_t header = archive->file.length;
    for (int local = 0; local < 2; local++) { // the record, then the local header
        struct buffer *bytes = local ? &archive->file : &archive->directory;
        buffer_put(bytes, local ? "PK\3\4" : "PK\1\2\x14\0", local ? 4 : 6);
        buffer_put(bytes, "\x14\0\0\x08\0\0\0\0\x21\0", 10); // version, flags, method, time, date
        buffer_put_number(bytes, crc, 4);
        buffer_put_number(bytes, length, 4);
        buffer_put_number(bytes, length, 4);
        buffer_put_number(bytes, strlen(name), 2);
        buffer_put_number(bytes, 0, local ? 2 : 8);
        if (!local) {
            buffer_put_number(bytes, 0, 4);
            buffer_put_number(bytes, header, 4);
        }
        buffer_put_text(bytes, name);
    }
    buffer_put(&archive->file, data, length);
    archive->count++;
}

// Writes it as `name`, and empties it.
static inline void archive_write(struct archive *archive, const char *name) {
    uint64_t begin = archive->file.length;
    buffer_put(&archive->file, archive->directory.bytes, archive->directory.length);
    buffer_put(&archive->file, "PK\5\6\0\0\0\0", 8);
    buffer_put_number(&archive->file, archive->count, 2);
    buffer_put_number(&archive->file, archive->count, 2);
    buffer_put_number(&archive->file, archive->directory.length, 4);
    buffer_put_number(&archive->file, begin, 4);
    buffer_put_number(&archive->file, 0, 2);
    assert_false(archive->file.failed || archive->directory.failed);
    scratch_write_bytes(name, archive->file.bytes, archive->file.length);
    buffer_done(&archive->file);
    buffer_done(&archive->directory);
    *archive = (struct archive){0};
}

// The file `name` as an archive of the pickle and one storage "0".
static inline void write_zip(const char *name, struct raw pickle, struct raw storage) {
    struct archive archive = {0};
    archive_add(&archive, "archive/data.pkl", pickle.bytes, pickle.length);
    archive_add(&archive, "archive/data/0", storage.bytes, storage.length);
    archive_write(&archive, name);
}

// The file `name` in the layout before 1.6: the pickle, then that of the list of the storages'
// keys, then the storages, each after its number of elements. Persistent ids have six fields there.
static inline void write_legacy(const char *name, struct raw pickle, struct raw keys,
                                struct raw storages) {
    static const char preface[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                                  "\x80\x02M\xe9\x03."
                                  "\x80\x02}X\x0d\0\0\0little_endian\x88s.";
    struct buffer bytes = {0};
    buffer_put(&bytes, preface, sizeof preface - 1);
    buffer_put(&bytes, pickle.bytes, pickle.length);
    buffer_put(&bytes, keys.bytes, keys.length);
    buffer_put(&bytes, storages.bytes, storages.length);
    scratch_write_bytes(name, bytes.bytes, bytes.length);
    buffer_done(&bytes);
}

#define NO_KEYS ((struct raw)RAW(PROTO "]."))
#define NO_STORAGES ((struct raw)RAW(""))

#endif
