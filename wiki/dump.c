// SPDX-License-Identifier: Apache-2.0
// Opens the dump of a wiki, plain or compressed by bzip2 as its first bytes say, and hands out its
// XML piece by piece; a run that goes on begins at the block of bzip2 where the last one stopped.
// wikipedia.c feeds the pieces to mediawiki.c, which finds the pages.
#include "wiki/dump.h"

#include "core/compressed.h"
#include "core/memory.h"

#define READ_SIZE ((size_t)1 << 20) // of a plain dump

const struct dump_readers dump_single_reader = {1, NULL, 1};

static enum berth_status dump_open_at(struct dump *dump, const char *path,
                                      const struct dump_readers *readers,
                                      const struct wikipedia_position *position,
                                      struct berth_error *error) {
    *dump =
        (struct dump){.file.descriptor = -1, .read = position->block, .offset = position->block};
    int is_compressed;
    TRY(bzip2_recognise(path, &is_compressed, error));
    if (is_compressed) {
        TRY(bzip2_open(path, position->bit, readers->threads, &dump->bzip2, error));
        dump->is_divided = readers->comm != NULL;
        return dump->is_divided
                   ? bzip2_divide(dump->bzip2, readers->comm, readers->all_threads, error)
                   : BERTH_OK;
    }
    dump->chunk = memory_new(READ_SIZE);
    if (dump->chunk == NULL) {
        return error_no_memory(error, READ_SIZE, path);
    }
    return file_reader_open(&dump->file, path, error);
}

// The next chunk in the encoding of the dump; *length is 0 at the end.
static enum berth_status dump_next_raw(struct dump *dump, const char **bytes, size_t *length,
                                       struct berth_error *error) {
    if (dump->bzip2 != NULL) {
        return bzip2_next(dump->bzip2, bytes, length, &dump->bit, error);
    }
    uint64_t left = dump->file.size - dump->read;
    *length = left < READ_SIZE ? (size_t)left : READ_SIZE;
    *bytes = dump->chunk;
    TRY(file_reader_at(&dump->file, dump->read, dump->chunk, *length, error));
    dump->read += *length;
    return BERTH_OK;
}

void dump_close(struct dump *dump) {
    bzip2_close(dump->bzip2);
    file_reader_close(&dump->file);
    memory_free(dump->chunk);
    buffer_done(&dump->text);
}

static enum berth_status dump_encoding(const char *path, enum encoding *encoding, size_t *mark,
                                       struct berth_error *error) {
    const struct wikipedia_position begin = {0, 0, 0};
    struct dump dump;
    const char *bytes;
    size_t length;
    enum berth_status status = dump_open_at(&dump, path, &dump_single_reader, &begin, error);
    if (status == BERTH_OK) {
        status = dump_next_raw(&dump, &bytes, &length, error);
    }
    if (status == BERTH_OK) {
        status = compressed_refuse(path, bytes, length, error);
    }
    if (status == BERTH_OK) {
        *encoding = encoding_of(bytes, length, mark);
    }
    dump_close(&dump);
    return status;
}

enum berth_status dump_open(struct dump *dump, const char *path, const struct dump_readers *readers,
                            const struct wikipedia_position *position, struct berth_error *error) {
    static const struct wikipedia_position begin = {0, 0, 0};
    enum encoding encoding = ENCODING_UTF8;
    size_t mark = 0;
    *dump = (struct dump){.file.descriptor = -1};
    TRY(dump_encoding(path, &encoding, &mark, error));
    if (encoding == ENCODING_UTF32) {
        return error_set(error, BERTH_BAD_DATA, "%s: the dump is UTF-32; convert it to UTF-8",
                         path);
    }
    TRY(dump_open_at(dump, path, readers, encoding == ENCODING_UTF8 ? position : &begin, error));
    dump->decoder.encoding = encoding;
    dump->mark = encoding == ENCODING_UTF8 ? 0 : mark; // expat skips that of UTF-8 itself
    return BERTH_OK;
}

enum berth_status dump_next(struct dump *dump, const char **bytes, size_t *length,
                            struct berth_error *error) {
    dump->block = dump->offset;
    TRY(dump_next_raw(dump, bytes, length, error));
    if (dump->decoder.encoding != ENCODING_UTF8) {
        int at_end = *length == 0;
        buffer_clear(&dump->text);
        size_t mark = dump->mark < *length ? dump->mark : *length;
        encoding_put(&dump->decoder, *bytes + mark, *length - mark, &dump->text);
        dump->mark -= mark;
        if (at_end) {
            encoding_end(&dump->decoder, &dump->text);
        } else if (dump->text.length == 0) {
            return dump_next(dump, bytes, length, error); // half a character
        }
        *bytes = dump->text.bytes;
        *length = dump->text.length;
        TRY(dump->text.failed ? error_no_memory(error, *length, "a chunk of the dump") : BERTH_OK);
    }
    dump->offset += *length;
    return BERTH_OK;
}

void dump_progress(const struct dump *dump, const char *phase, const struct berth_log *log) {
    uint64_t done = dump->bzip2 != NULL ? bzip2_position(dump->bzip2) : dump->read;
    uint64_t size = dump->bzip2 != NULL ? bzip2_size(dump->bzip2) : dump->file.size;
    log_progress_bytes(log, phase, (int64_t)done, (int64_t)size);
}
