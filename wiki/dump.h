// SPDX-License-Identifier: Apache-2.0
// Reads the dump of a wiki, plain or compressed, as chunks of XML in UTF-8. wikipedia.c gives the
// chunks to mediawiki.h, which knows XML.
#ifndef BERTH_WIKI_DUMP_H
#define BERTH_WIKI_DUMP_H

#include "comm/comm.h"
#include "core/buffer.h"
#include "core/encoding.h"
#include "core/file.h"
#include "core/log.h"
#include "data/wikipedia/wikipedia_state.h"
#include "wiki/bzip2.h"

// A chunk is a block of bzip2, or a block of a plain file.
struct dump {
    struct bzip2_reader *bzip2; // NULL: plain
    int is_divided;             // among ranks
    struct file_reader file;
    char *chunk;         // of a plain file
    uint64_t read;       // bytes read of a plain file
    uint64_t offset;     // in the XML, of the next byte
    uint64_t block, bit; // start of the last chunk: offset in the XML, and bit offset in the dump
    struct encoding_reader decoder;
    size_t mark;        // bytes of the byte order mark that are still to be skipped
    struct buffer text; // the chunk of a UTF-16 dump, as UTF-8
};

// Which threads and ranks read a dump.
struct dump_readers {
    int threads;       // of this process
    struct comm *comm; // ranks that read it together; NULL: this process alone
    int all_threads;   // of these ranks
};
extern const struct dump_readers dump_single_reader;

// Opens the dump at the bzip2 block of a position, a UTF-16 dump at its start; the caller skips the
// bytes before the position. Call dump_close, also after a failure.
enum berth_status dump_open(struct dump *dump, const char *path, const struct dump_readers *readers,
                            const struct wikipedia_position *position, struct berth_error *error);
// The next chunk; *length is 0 at the end. If ranks read the dump together, all of them return the
// same errors.
enum berth_status dump_next(struct dump *dump, const char **bytes, size_t *length,
                            struct berth_error *error);
void dump_close(struct dump *dump);
void dump_progress(const struct dump *dump, const char *phase, const struct berth_log *log);

#endif
