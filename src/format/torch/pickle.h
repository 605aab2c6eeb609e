// SPDX-License-Identifier: Apache-2.0
// Pickles as data. A pickle is a program for a stack machine; this machine knows only the opcodes
// and names that PyTorch's checkpoints need, and its values are plain ones of the kinds below.
// Nothing is ever imported, called or opened: a name is a text, a call of a known name is looked up
// in a table, and everything else is refused (BERTH_BAD_DATA) by opcode and byte.
//
// Limits against hostile files are the constants below; memory grows with what has been read, so a
// count that promises more than the file holds costs nothing. No function calls itself.
#ifndef BERTH_FORMAT_PICKLE_H
#define BERTH_FORMAT_PICKLE_H

#include "core/error.h"
#include "core/file.h"
#include "format/tensors/tensor.h"

#include <stddef.h>
#include <stdint.h>

#define PICKLE_MAX_VALUES 10000000u
#define PICKLE_MAX_ITEMS 40000000u // in all containers together, their spare room included
#define PICKLE_MAX_MARKS 1000u     // lists and dictionaries begun inside one another
#define PICKLE_MAX_STACK 100000u   // a writer leaves up to 2,000 values there for each mark
#define PICKLE_MAX_MEMO 1000000u
#define PICKLE_MAX_TEXT (1u << 20)    // bytes of one text
#define PICKLE_MAX_TEXTS (256u << 20) // bytes of all texts
#define PICKLE_MAX_NAME 255u          // bytes of a module's name, and of what is in it

// What happens to names that are not in the table (pickle_names.c). Nothing is run in any case.
enum pickle_trust {
    PICKLE_KNOWN_NAMES, // they are refused
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
    PICKLE_LIST, // sets, too
    PICKLE_DICT,
    PICKLE_NAME,    // a class or function, as text: "torch.float32"
    PICKLE_STORAGE, // a block of numbers beside the pickle
    PICKLE_TENSOR,
    PICKLE_OPAQUE // something of a class that means nothing here
};

struct pickle_value {
    uint8_t kind;   // enum pickle_kind
    uint8_t detail; // of names: row of the table; of lists and dictionaries: log2 of their room
    uint32_t count; // bytes of a text or name; items; keys and values of a dictionary together;
                    // of what is opaque: 1 when a call made it
    union {
        int64_t integer; // and truth
        double real;
        uint64_t place; // of the text in `texts`, of the first item in `items`; of storages,
                        // tensors and calls: the value that holds their arguments
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
};

// Where a pickle stands: bytes [begin, end) of a file. Errors say "<path>: <what>byte <offset from
// origin>".
struct pickle_source {
    const struct file_reader *file;
    const char *what; // "data.pkl " or ""
    uint64_t origin, begin, end;
};

// Reads one pickle. *stopped (may be NULL) is where it ended; with NULL it must fill its source.
enum berth_status pickle_read(struct pickle *pickle, const struct pickle_source *source,
                              enum pickle_trust trust, uint64_t *stopped,
                              struct berth_error *error);
void pickle_done(struct pickle *pickle);

// --- looking at values ---------------------------------------------------------------------------
// A NULL value has no kind and no children, so look-ups can be chained. Cycles are possible:
// whoever walks must bound the depth.

int pickle_is(const struct pickle_value *value, enum pickle_kind kind);
// Items of a tuple or list, entries of a dictionary; else 0.
size_t pickle_length(const struct pickle_value *value);
// Item of a tuple or list, value of a dictionary's entry; NULL beyond the end.
const struct pickle_value *pickle_item(const struct pickle *pickle,
                                       const struct pickle_value *value, size_t index);
const struct pickle_value *pickle_key(const struct pickle *pickle, const struct pickle_value *dict,
                                      size_t index);
// The entry of that key, NULL when there is none or `dict` is no dictionary.
const struct pickle_value *pickle_member(const struct pickle *pickle,
                                         const struct pickle_value *dict, const char *key);
// The text, or what a name is called; NULL for other kinds. May hold NULs: `count` is its length.
const char *pickle_text(const struct pickle *pickle, const struct pickle_value *value);
// 1 and the number when it is a whole one, else 0.
int pickle_integer(const struct pickle_value *value, int64_t *number);
// The arguments of the call that an opaque value stands for (an enumeration's number), a tuple;
// NULL for other kinds and for opaque values that no call made.
const struct pickle_value *pickle_arguments(const struct pickle *pickle,
                                            const struct pickle_value *value);

// A storage: numel numbers of a type under a key. 0 for other kinds.
struct pickle_storage {
    const char *dtype_name; // as tensor_dtype_of takes it
    const char *key;        // without NULs
    int64_t numel;
};
int pickle_storage(const struct pickle *pickle, const struct pickle_value *value,
                   struct pickle_storage *storage);

// A tensor: a view of a storage. Ranks are at most TENSOR_MAX_RANK, numbers not negative; whether
// the view lies within the storage has not been checked. 0 for other kinds.
struct pickle_tensor {
    struct pickle_storage storage;
    int64_t offset; // in elements, as the strides
    int rank;
    int64_t shape[TENSOR_MAX_RANK], stride[TENSOR_MAX_RANK];
};
int pickle_tensor(const struct pickle *pickle, const struct pickle_value *value,
                  struct pickle_tensor *tensor);

#endif
