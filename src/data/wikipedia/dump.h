// SPDX-License-Identifier: Apache-2.0
// A wiki's dump as pieces of XML in UTF-8, from a plain or compressed file.
#ifndef BERTH_DATA_DUMP_H
#define BERTH_DATA_DUMP_H

#include "core/buffer.h"
#include "core/comm.h"
#include "core/encoding.h"
#include "core/file.h"
#include "core/log.h"
#include "data/wikipedia/wikipedia_state.h"
#include "format/archive/bzip2.h"

// The XML of a dump in pieces, as UTF-8: the blocks of bzip2, or of a plain file.
struct dump {
    struct bzip2_reader *bzip2; // NULL: plain
    int is_divided;             // among ranks
    struct file_reader file;
    char *chunk;         // of a plain file
    uint64_t read;       // bytes of the plain file
    uint64_t offset;     // offset in the XML of the next byte
    uint64_t block, bit; // start of the last piece: offset in the XML, and bit offset in the dump
    struct encoding_reader decoder;
    size_t mark;        // bytes of the byte order mark still to skip
    struct buffer text; // of a dump in UTF-16
};

// Who reads a dump.
struct dump_readers {
    int threads;       // of this process
    struct comm *comm; // the ranks that read it together; NULL: this process alone
    int all_threads;   // of these
};
extern const struct dump_readers dump_single_reader;

// Opens the dump at a place; one in UTF-16 at its start. The caller skips the bytes before the
// place. Call dump_close, also after a failure.
enum berth_status dump_open(struct dump *dump, const char *path, const struct dump_readers *readers,
                            const struct wikipedia_position *position, struct berth_error *error);
// The next piece; a *length of 0 is the end. Of a dump that ranks have divided all return the same
// errors.
enum berth_status dump_next(struct dump *dump, const char **bytes, size_t *length,
                            struct berth_error *error);
void dump_close(struct dump *dump);
void dump_progress(const struct dump *dump, const char *phase, const struct berth_log *log);

#endif
