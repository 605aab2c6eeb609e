// SPDX-License-Identifier: Apache-2.0
// Files around hand-made pickles, for the tests of what reads them.
#ifndef BERTH_TESTS_FORMAT_PICKLES_H
#define BERTH_TESTS_FORMAT_PICKLES_H

#include "core/scratch.h"
#include "format/bytes.h"
#include "format/zip.h"

// A pickle as bytes with its length: PICKLE("\x80\x02N.")
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

// The file `name` as an archive of the pickle and one storage "0".
static inline void write_zip(const char *name, struct raw pickle, struct raw storage) {
    struct zip_writer zip;
    assert_int_equal(zip_writer_open(&zip, scratch(name), NULL), BERTH_OK);
    zip_writer_add(&zip, "archive/data.pkl", pickle.bytes, pickle.length, NULL);
    zip_writer_add(&zip, "archive/data/0", storage.bytes, storage.length, NULL);
    assert_int_equal(zip_writer_commit(&zip, NULL), BERTH_OK);
}

// The same in the layout before 1.6; the storage's keys and elements as given, with no storage when
// `keys` is the empty list. The pickle must use keys of one letter and persistent ids of six
// fields.
static inline void write_legacy(const char *name, struct raw pickle, struct raw keys,
                                struct raw storages) {
    static const char preface[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                                  "\x80\x02M\xe9\x03."
                                  "\x80\x02}X\x0d\0\0\0little_endian\x88s.";
    struct bytes bytes = {0};
    bytes_put(&bytes, preface, sizeof preface - 1);
    bytes_put(&bytes, pickle.bytes, pickle.length);
    bytes_put(&bytes, keys.bytes, keys.length);
    bytes_put(&bytes, storages.bytes, storages.length);
    scratch_write_bytes(name, bytes.data, bytes.length);
    bytes_done(&bytes);
}

#define NO_KEYS ((struct raw)RAW(PROTO "]."))
#define NO_STORAGES ((struct raw)RAW(""))

#endif
