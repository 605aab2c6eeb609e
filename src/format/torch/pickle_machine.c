// SPDX-License-Identifier: Apache-2.0
// The stack machine of the pickle reader: its stack, marks, memo, bytes and values, with the limits
// that keep a hostile file small. The opcodes of pickle.c and pickle_calls.c are made of these
// functions; when the machine has stopped, pickle_tree.c reads what it has left.
#include "format/torch/pickle_machine.h"

#include "core/little_endian.h"
#include "core/memory.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// --- errors and memory --------------------------------------------------------------------------

enum berth_status machine_error(const struct machine *machine, const char *format, ...) {
    char problem[512], code[32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem, sizeof problem, format, arguments);
    va_end(arguments);
    snprintf(code, sizeof code, "opcode 0x%02x", machine->opcode);
    return error_set(machine->error, BERTH_BAD_DATA, "%s: %sbyte %" PRIu64 ": %s: %s",
                     machine->source.file->path, machine->source.part,
                     machine->opcode_at - machine->source.origin,
                     machine->opcode_name != NULL ? machine->opcode_name : code, problem);
}

void *machine_reserve(struct machine *machine, void *block, size_t *capacity, size_t needed,
                      size_t size) {
    void *grown = memory_grow(block, capacity, needed, size);
    if (grown == NULL) {
        (void)error_no_memory(machine->error, needed * size, machine->source.file->path);
    }
    return grown;
}

// --- bytes --------------------------------------------------------------------------------------

uint64_t machine_bytes_left(const struct machine *machine) {
    return machine->source.end - machine->at;
}

enum berth_status machine_read(struct machine *machine, void *to, size_t bytes) {
    if (bytes > machine_bytes_left(machine)) {
        return machine_error(machine, "truncated: %zu bytes are needed, %" PRIu64 " are left",
                             bytes, machine_bytes_left(machine));
    }
    for (size_t done = 0; done < bytes;) {
        uint64_t offset = machine->at - machine->window_begin;
        if (offset >= machine->window_bytes) {
            uint64_t left = machine_bytes_left(machine);
            machine->window_begin = machine->at;
            machine->window_bytes = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
            TRY(file_reader_at(machine->source.file, machine->at, machine->window,
                               machine->window_bytes, machine->error));
            continue;
        }
        size_t here = machine->window_bytes - (size_t)offset;
        here = here < bytes - done ? here : bytes - done;
        memcpy((char *)to + done, machine->window + offset, here);
        done += here;
        machine->at += here;
    }
    return BERTH_OK;
}

enum berth_status machine_read_number(struct machine *machine, unsigned bytes, uint64_t *number) {
    unsigned char raw[8] = {0};
    TRY(machine_read(machine, raw, bytes));
    *number = little_endian(raw, bytes);
    return BERTH_OK;
}

// --- values -------------------------------------------------------------------------------------

struct pickle_value *machine_value(const struct machine *machine, uint32_t index) {
    return &machine->pickle->values[index];
}

enum berth_status machine_push(struct machine *machine, uint32_t index) {
    if (machine->depth == PICKLE_MAX_STACK) {
        return machine_error(machine, "more than %u values on the stack", PICKLE_MAX_STACK);
    }
    uint32_t *stack = machine_reserve(machine, machine->stack, &machine->stack_capacity,
                                      machine->depth + 1, sizeof *stack);
    if (stack == NULL) {
        return BERTH_NO_MEMORY;
    }
    machine->stack = stack;
    stack[machine->depth++] = index;
    return BERTH_OK;
}

enum berth_status machine_push_value(struct machine *machine, struct pickle_value value) {
    struct pickle *pickle = machine->pickle;
    if (pickle->count == PICKLE_MAX_VALUES) {
        return machine_error(machine, "more than %u values", PICKLE_MAX_VALUES);
    }
    struct pickle_value *values = machine_reserve(machine, pickle->values, &machine->value_capacity,
                                                  pickle->count + 1, sizeof *values);
    if (values == NULL) {
        return BERTH_NO_MEMORY;
    }
    pickle->values = values;
    values[pickle->count] = value;
    return machine_push(machine, (uint32_t)pickle->count++);
}

enum berth_status machine_push_kind(struct machine *machine, enum pickle_kind kind) {
    return machine_push_value(machine, (struct pickle_value){.kind = (uint8_t)kind});
}

size_t machine_floor(const struct machine *machine) {
    return machine->mark_count > 0 ? machine->marks[machine->mark_count - 1] : 0;
}

enum berth_status machine_pop(struct machine *machine, uint32_t *index) {
    if (machine->depth == machine_floor(machine)) {
        return machine_error(machine, "the stack is empty");
    }
    *index = machine->stack[--machine->depth];
    return BERTH_OK;
}

enum berth_status machine_top(struct machine *machine, uint32_t *index) {
    TRY(machine_pop(machine, index));
    machine->depth++;
    return BERTH_OK;
}

enum berth_status machine_pop_mark(struct machine *machine, size_t *first, size_t *count) {
    if (machine->mark_count == 0) {
        return machine_error(machine, "no mark on the stack");
    }
    *first = machine->marks[--machine->mark_count];
    *count = machine->depth - *first;
    machine->depth = *first;
    return BERTH_OK;
}

enum berth_status machine_new_text(struct machine *machine, size_t bytes, uint64_t *offset) {
    struct pickle *pickle = machine->pickle;
    if (bytes >= PICKLE_MAX_TEXTS - pickle->text_bytes) {
        return machine_error(machine, "more than %u bytes of strings", PICKLE_MAX_TEXTS);
    }
    char *texts = machine_reserve(machine, pickle->texts, &machine->text_capacity,
                                  pickle->text_bytes + bytes + 1, 1);
    if (texts == NULL) {
        return BERTH_NO_MEMORY;
    }
    pickle->texts = texts;
    *offset = pickle->text_bytes;
    texts[*offset + bytes] = '\0';
    pickle->text_bytes += bytes + 1;
    return BERTH_OK;
}

// --- containers ---------------------------------------------------------------------------------

// Appends `count` new items; *first is the index of the first.
static enum berth_status new_items(struct machine *machine, size_t count, uint64_t *first) {
    struct pickle *pickle = machine->pickle;
    if (count > PICKLE_MAX_ITEMS - pickle->item_count) {
        return machine_error(machine, "more than %u items in containers", PICKLE_MAX_ITEMS);
    }
    uint32_t *items = machine_reserve(machine, pickle->items, &machine->item_capacity,
                                      pickle->item_count + count, sizeof *items);
    if (items == NULL) {
        return BERTH_NO_MEMORY;
    }
    pickle->items = items;
    *first = pickle->item_count;
    pickle->item_count += count;
    return BERTH_OK;
}

static size_t capacity_of(const struct pickle_value *value) {
    return value->detail == 0 ? 0 : (size_t)1 << value->detail;
}

// Adds the values at stack[first] to a list or dictionary; a full one moves to the end of `items`,
// with twice the capacity.
enum berth_status machine_append(struct machine *machine, uint32_t container, size_t first,
                                 size_t count) {
    struct pickle_value *value = machine_value(machine, container);
    if (value->kind == PICKLE_OPAQUE) {
        return BERTH_OK;
    }
    size_t needed = value->count + count;
    if (needed > capacity_of(value)) {
        unsigned bits = 1;
        uint64_t first_item = 0;
        while (((size_t)1 << bits) < needed) {
            bits++;
        }
        TRY(new_items(machine, (size_t)1 << bits, &first_item));
        if (value->count > 0) { // else `items` may be NULL
            memcpy(machine->pickle->items + first_item, machine->pickle->items + value->index,
                   value->count * sizeof *machine->pickle->items);
        }
        value->index = first_item;
        value->detail = (uint8_t)bits;
    }
    for (size_t i = 0; i < count; i++) {
        machine->pickle->items[value->index + value->count++] = machine->stack[first + i];
    }
    return BERTH_OK;
}

enum berth_status machine_push_tuple(struct machine *machine, size_t first, size_t count) {
    struct pickle_value tuple = {.kind = PICKLE_TUPLE, .count = (uint32_t)count};
    if (count > 0) {
        TRY(new_items(machine, count, &tuple.index));
        memcpy(machine->pickle->items + tuple.index, machine->stack + first,
               count * sizeof *machine->stack);
    }
    return machine_push_value(machine, tuple);
}

uint32_t machine_item(const struct machine *machine, uint32_t container, size_t index) {
    return machine->pickle->items[machine_value(machine, container)->index + index];
}
