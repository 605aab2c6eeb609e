// SPDX-License-Identifier: Apache-2.0
// The stack machine that reads a pickle: what its operations (pickle.c) are made of. Values are
// indices, since the arrays behind them move as they grow. Every function that can fail has filled
// machine->error, which may be NULL.
#ifndef BERTH_FORMAT_PICKLE_MACHINE_H
#define BERTH_FORMAT_PICKLE_MACHINE_H

#include "format/torch/pickle.h"

#define WINDOW_BYTES ((size_t)64 << 10)

struct machine {
    struct pickle *pickle;
    struct pickle_source source;
    enum pickle_trust trust;
    uint64_t at;           // in the file
    unsigned char *window; // WINDOW_BYTES, or as many as the source has
    uint64_t window_begin;
    size_t window_bytes;
    uint32_t *stack;
    size_t depth, stack_room;
    size_t marks[PICKLE_MAX_MARKS]; // depths
    size_t mark_count;
    uint32_t *memo; // value + 1; 0: never put
    size_t memo_count;
    size_t value_room, item_room, text_room;
    uint64_t opcode_at;
    unsigned char opcode;
    const char *opcode_name; // NULL: it has none
    int stopped;
    struct berth_error *error;
};

// The error "<path>: <what>byte <opcode's>: <opcode's name>: <formatted>".
enum berth_status machine_wrong(const struct machine *machine, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// memory_grow; NULL: BERTH_NO_MEMORY, with the error set.
void *machine_reserve(struct machine *machine, void *block, size_t *room, size_t needed,
                      size_t size);

uint64_t machine_bytes_left(const struct machine *machine);
enum berth_status machine_take(struct machine *machine, void *to, size_t bytes);
// An unsigned little-endian number of up to 8 bytes.
enum berth_status machine_take_number(struct machine *machine, unsigned bytes, uint64_t *number);

struct pickle_value *machine_value(const struct machine *machine, uint32_t index);
enum berth_status machine_push(struct machine *machine, uint32_t index);
enum berth_status machine_push_value(struct machine *machine, struct pickle_value value);
enum berth_status machine_push_kind(struct machine *machine, enum pickle_kind kind);
// Values below the topmost mark belong to the list that was begun before it.
size_t machine_floor(const struct machine *machine);
enum berth_status machine_pop(struct machine *machine, uint32_t *index);
enum berth_status machine_top(struct machine *machine, uint32_t *index);
// The values since the topmost mark, which is removed with them; they stay readable until the next
// push.
enum berth_status machine_pop_mark(struct machine *machine, size_t *first, size_t *count);

// Adds the values at stack[first] to a list or dictionary; what is opaque swallows them.
enum berth_status machine_append(struct machine *machine, uint32_t container, size_t first,
                                 size_t count);
// Pushes the tuple of the values at stack[first].
enum berth_status machine_push_tuple(struct machine *machine, size_t first, size_t count);
// Item of a container, as an index.
uint32_t machine_item(const struct machine *machine, uint32_t container, size_t index);

#endif
