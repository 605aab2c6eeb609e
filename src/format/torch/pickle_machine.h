// SPDX-License-Identifier: Apache-2.0
// The stack machine that reads pickles: the primitives of its operations (pickle.c). Values are
// indices, because the arrays move as they grow. Functions that fail fill machine->error, which may
// be NULL. Only pickle.c and pickle_calls.c include it.
#ifndef BERTH_FORMAT_PICKLE_MACHINE_H
#define BERTH_FORMAT_PICKLE_MACHINE_H

#include "format/torch/pickle.h"

#define WINDOW_BYTES ((size_t)64 << 10)

struct machine {
    struct pickle *pickle;
    struct pickle_source source;
    enum pickle_trust trust;
    uint64_t at;           // in the file
    unsigned char *window; // WINDOW_BYTES, or fewer if the source is smaller
    uint64_t window_begin;
    size_t window_bytes;
    uint32_t *stack;
    size_t depth, stack_capacity;
    size_t marks[PICKLE_MAX_MARKS]; // depths
    size_t mark_count;
    uint32_t *memo;              // value + 1; 0: never put
    size_t memo_count, memoized; // the room of `memo`, and how many were put
    uint32_t object_class;       // value + 1; 0: no object of an unknown class
    size_t value_capacity, item_capacity, text_capacity;
    uint64_t opcode_at;
    unsigned char opcode;
    const char *opcode_name; // NULL: unknown opcode
    int stopped;
    struct berth_error *error;
};

// The error "<path>: <part>byte <opcode's>: <opcode's name>: <formatted>".
enum berth_status machine_error(const struct machine *machine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// As memory_grow; NULL: BERTH_NO_MEMORY, with the error filled.
void *machine_reserve(struct machine *machine, void *block, size_t *capacity, size_t needed,
                      size_t size);

uint64_t machine_bytes_left(const struct machine *machine);
enum berth_status machine_read(struct machine *machine, void *to, size_t bytes);
// Reads an unsigned little-endian number of up to 8 bytes.
enum berth_status machine_read_number(struct machine *machine, unsigned bytes, uint64_t *number);

// Appends room for a string of `bytes` bytes and its NUL; *offset is its start in `texts`.
enum berth_status machine_new_text(struct machine *machine, size_t bytes, uint64_t *offset);

struct pickle_value *machine_value(const struct machine *machine, uint32_t index);
enum berth_status machine_push(struct machine *machine, uint32_t index);
enum berth_status machine_push_value(struct machine *machine, struct pickle_value value);
enum berth_status machine_push_kind(struct machine *machine, enum pickle_kind kind);
// The stack depth at the topmost mark: values below it belong to the list opened before.
size_t machine_floor(const struct machine *machine);
enum berth_status machine_pop(struct machine *machine, uint32_t *index);
enum berth_status machine_top(struct machine *machine, uint32_t *index);
// Pops the topmost mark and the values above it, which stay readable until the next push.
enum berth_status machine_pop_mark(struct machine *machine, size_t *first, size_t *count);

// Adds the values at stack[first] to a list or dictionary; an opaque value ignores them.
enum berth_status machine_append(struct machine *machine, uint32_t container, size_t first,
                                 size_t count);
// Pushes a tuple of the values at stack[first].
enum berth_status machine_push_tuple(struct machine *machine, size_t first, size_t count);
// The index of an item of a container.
uint32_t machine_item(const struct machine *machine, uint32_t container, size_t index);

#endif
