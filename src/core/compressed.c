// SPDX-License-Identifier: Apache-2.0
// Compares the beginning of a file with the signatures of compressed formats, before a reader of
// text takes the bytes for words, and says in the error which program decompresses it.
#include "core/compressed.h"

#include "core/file.h"

#include <string.h>

static const struct {
    size_t offset, length;
    const char *bytes, *name, *program;
} formats[] = {{0, 3, "\x1f\x8b\x08", "gzip", "gunzip"},
               {0, 6,
                "\xfd"
                "7zXZ\0",
                "xz", "unxz"},
               {4, 6, "1AY&SY", "bzip2", "bunzip2"}, // after "BZh" and a digit
               {0, 4, "\x28\xb5\x2f\xfd", "zstd", "unzstd"},
               {0, 6, "7z\xbc\xaf\x27\x1c", "7-Zip", "7z x"},
               {0, 4, "PK\x03\x04", "zip", "unzip"}};

enum berth_status compressed_refuse(const char *path, const char *head, size_t length,
                                    struct berth_error *error) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (length >= formats[i].offset + formats[i].length &&
            memcmp(head + formats[i].offset, formats[i].bytes, formats[i].length) == 0) {
            return error_set(error, BERTH_BAD_DATA,
                             "%s: compressed with %s; decompress it first (%s)", path,
                             formats[i].name, formats[i].program);
        }
    }
    return BERTH_OK;
}

enum berth_status compressed_refuse_file(const char *path, struct berth_error *error) {
    char head[COMPRESSED_HEAD];
    struct file_reader file;
    // Whoever opens a FIFO to read it takes its content, so it is not examined.
    if (path_is_fifo(path) || file_reader_open(&file, path, NULL) != BERTH_OK) {
        return BERTH_OK;
    }
    const size_t length = file.size < sizeof head ? (size_t)file.size : sizeof head;
    const enum berth_status status = file_reader_at(&file, 0, head, length, NULL) == BERTH_OK
                                         ? compressed_refuse(path, head, length, error)
                                         : BERTH_OK;
    file_reader_close(&file);
    return status;
}
