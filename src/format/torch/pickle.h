// SPDX-License-Identifier: Apache-2.0
// Reads pickles as data. A pickle is a program for a stack machine; this machine knows only the
// opcodes and names that PyTorch's checkpoints need, and its values are plain data of the kinds
// below. It never imports, calls or opens anything: a name is a string, a call of a known name is
// looked up in a table, and everything else is refused (BERTH_BAD_DATA), with opcode and offset in
// the message.
//
// The constants below limit hostile files. Memory grows with the bytes read, so a count larger than
// the file costs nothing. No function is recursive. torch.h finds the tensors.
#ifndef BERTH_FORMAT_PICKLE_H
#define BERTH_FORMAT_PICKLE_H

#include "core/error.h"
#include "core/file.h"
#include "format/tensors/tensor.h"

#include <stddef.h>
#include <stdint.h>

#define PICKLE_MAX_VALUES 10000000u
#define PICKLE_MAX_ITEMS 40000000u // in all containers together, with their spare capacity
#define PICKLE_MAX_MARKS 1000u     // nested open lists and dictionaries
#define PICKLE_MAX_STACK 100000u   // writers put up to 2,000 values per mark
#define PICKLE_MAX_MEMO 1000000u
#define PICKLE_MAX_TEXT (1u << 20)    // bytes of one string
#define PICKLE_MAX_TEXTS (256u << 20) // bytes of all strings
#define PICKLE_MAX_NAME 255u          // bytes of the name of a module, and of a name in it

// The treatment of names that are not in the table (pickle_names.c). Nothing is ever run.
enum pickle_trust {
    PICKLE_KNOWN_NAMES, // refused
    PICKLE_OBJECTS,     // plain objects of unknown classes become opaque; unknown calls are refused
    PICKLE_CALLS        // the result of an unknown call is opaque as well
};

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_TRUTH,
    PICKLE_INTEGER,
    PICKLE_REAL,
    PICKLE_TEXT,
    PICKLE_TUPLE,
    PICKLE_LIST, // also sets
    PICKLE_DICT,
    PICKLE_NAME,    // a class or function: "torch.float32"
    PICKLE_STORAGE, // a block of numbers outside the pickle
    PICKLE_TENSOR,
    PICKLE_OPAQUE // an object of an unknown class
};

struct pickle_value {
    uint8_t kind;   // enum pickle_kind
    uint8_t detail; // of names: row of the table; of lists and dictionaries: log2 of their capacity
    uint32_t count; // bytes of a string or name; items; keys and values of a dictionary together;
                    // of opaque values: 1 when a call made it
    union {
        int64_t integer; // also truth values
        double real;
        uint64_t index; // index in `texts`, or of the first item in `items`; of storages, tensors
                        // and calls: the value with their arguments
    };
};

struct pickle {
    struct pickle_value *values;
    size_t count;
    uint32_t *items; // indices of values
    size_t item_count;
    char *texts; // each followed by a NUL
    size_t text_bytes;
    const struct pickle_value *root;
    const struct pickle_value *object_class; // the name of the class of the first object of an
                                             // unknown class; NULL: no such object
};

// The location of a pickle: bytes [begin, end) of a file. Messages begin with "<path>: <part>byte
// <offset from origin>".
struct pickle_source {
    const struct file_reader *file;
    const char *part; // "data.pkl " or ""
    uint64_t origin, begin, end;
};

// Reads one pickle. *stopped is the offset of its end; if `stopped` is NULL the pickle must end
// with its source.
enum berth_status pickle_read(struct pickle *pickle, const struct pickle_source *source,
                              enum pickle_trust trust, uint64_t *stopped,
                              struct berth_error *error);
void pickle_done(struct pickle *pickle);

// --- looking at values --------------------------------------------------------------------------
// A NULL value has no kind and no children, so look-ups can be chained. Cycles are possible: a walk
// must limit its depth.

int pickle_is(const struct pickle_value *value, enum pickle_kind kind);
// Items of a tuple or list, entries of a dictionary; else 0.
size_t pickle_length(const struct pickle_value *value);
// Item of a tuple or list, value of a dictionary's entry; NULL beyond the end.
const struct pickle_value *pickle_item(const struct pickle *pickle,
                                       const struct pickle_value *value, size_t index);
const struct pickle_value *pickle_key(const struct pickle *pickle, const struct pickle_value *dict,
                                      size_t index);
// The value of that key; NULL when it is missing or `dict` is not a dictionary.
const struct pickle_value *pickle_member(const struct pickle *pickle,
                                         const struct pickle_value *dict, const char *key);
// The string, or the text of a name; NULL for other kinds. It may contain NULs: `count` is its
// length.
const char *pickle_text(const struct pickle *pickle, const struct pickle_value *value);
// 1 and the number when the value is an integer, else 0.
int pickle_integer(const struct pickle_value *value, int64_t *number);
// The arguments, a tuple, of the call that made an opaque value (an enumeration's number, for
// example); NULL for other kinds and for opaque values that no call made.
const struct pickle_value *pickle_arguments(const struct pickle *pickle,
                                            const struct pickle_value *value);

// A storage: numel numbers of one type, identified by a key. 0 for other kinds.
struct pickle_storage {
    const char *dtype_name; // as for tensor_dtype_parse
    const char *key;        // without NULs
    int64_t numel;
};
int pickle_storage(const struct pickle *pickle, const struct pickle_value *value,
                   struct pickle_storage *storage);

// A tensor: a view of a storage. Its rank is at most TENSOR_MAX_RANK, its numbers are not negative;
// whether the view is within the storage is not checked. 0 for other kinds.
struct pickle_tensor {
    struct pickle_storage storage;
    const char *type; // torch's name of the type if the storage does not say it; NULL: it does
    const char *dtype_name; // as for tensor_dtype_parse; NULL: unknown
    int is_negated;         // torch's bit "neg" or "conj" is set: the numbers are not as stored
    int64_t offset;         // in elements, like the strides
    int rank;
    int64_t shape[TENSOR_MAX_RANK], stride[TENSOR_MAX_RANK];
};
int pickle_tensor(const struct pickle *pickle, const struct pickle_value *value,
                  struct pickle_tensor *tensor);

#endif
