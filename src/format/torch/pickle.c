// SPDX-License-Identifier: Apache-2.0
// The opcodes (protocol 2, as torch.save writes it, and those that protocols 3 to 5 add for the
// same values): one table, each a short function on the machine of pickle_machine.h. pickle_tree.c
// has the functions on a finished pickle. torch_layout.c runs it on the pickles of a file, and
// torch.c finds the tensors afterwards.
#include "format/torch/pickle.h"

#include "core/little_endian.h"
#include "core/memory.h"
#include "core/utf8.h"
#include "format/torch/pickle_calls.h"
#include "format/torch/pickle_machine.h"
#include "format/torch/pickle_tree.h"

#include <inttypes.h>
#include <string.h>

#define FIRST_PROTOCOL 2
#define LAST_PROTOCOL 5

static const struct opcode {
    const char *name;
    pickle_operation *run; // NULL: known, and refused
    unsigned argument;     // bytes of the number that follows, items of a tuple, or a truth value
} opcodes[256];

// --- strings ------------------------------------------------------------------------------------

// Reads a string with its length before it, in as many bytes as the opcode says.
static enum berth_status read_text(struct machine *machine, struct pickle_value *value) {
    uint64_t bytes = 0;
    TRY(machine_read_number(machine, opcodes[machine->opcode].argument, &bytes));
    if (bytes > PICKLE_MAX_TEXT) {
        return machine_error(machine, "a string of %" PRIu64 " bytes; the limit is %u", bytes,
                             PICKLE_MAX_TEXT);
    }
    if (bytes > machine_bytes_left(machine)) {
        return machine_error(machine,
                             "truncated: a string of %" PRIu64 " bytes, %" PRIu64 " are left",
                             bytes, machine_bytes_left(machine));
    }
    *value = (struct pickle_value){.kind = PICKLE_TEXT, .count = (uint32_t)bytes};
    TRY(machine_new_text(machine, (size_t)bytes, &value->index));
    return machine_read(machine, machine->pickle->texts + value->index, (size_t)bytes);
}

static int is_utf8(const struct machine *machine, const struct pickle_value *text) {
    return utf8_is_valid(machine->pickle->texts + text->index, text->count);
}

static enum berth_status run_text(struct machine *machine) {
    struct pickle_value value = {0};
    TRY(read_text(machine, &value));
    return is_utf8(machine, &value) ? machine_push_value(machine, value)
                                    : machine_error(machine, "a string that is not UTF-8");
}

// Python 2's str, and bytes: a string, or arbitrary bytes.
static enum berth_status run_bytes(struct machine *machine) {
    struct pickle_value value = {0};
    TRY(read_text(machine, &value));
    return is_utf8(machine, &value) ? machine_push_value(machine, value)
                                    : machine_push_kind(machine, PICKLE_OPAQUE);
}

// --- numbers and constants ----------------------------------------------------------------------

static enum berth_status run_none(struct machine *machine) {
    return machine_push_kind(machine, PICKLE_NONE);
}

static enum berth_status run_truth(struct machine *machine) {
    return machine_push_value(
        machine, (struct pickle_value){.kind = PICKLE_TRUTH,
                                       .integer = (int64_t)opcodes[machine->opcode].argument});
}

static enum berth_status push_integer(struct machine *machine, int64_t number) {
    return machine_push_value(machine,
                              (struct pickle_value){.kind = PICKLE_INTEGER, .integer = number});
}

static enum berth_status run_integer(struct machine *machine) {
    uint64_t number = 0;
    unsigned bytes = opcodes[machine->opcode].argument;
    TRY(machine_read_number(machine, bytes, &number));
    return push_integer(machine, bytes == 4 ? (int32_t)(uint32_t)number : (int64_t)number);
}

// An integer of any size, two's complement; beyond 64 bits it is opaque.
static enum berth_status run_long(struct machine *machine) {
    unsigned char raw[256];
    uint64_t bytes = 0;
    TRY(machine_read_number(machine, 1, &bytes));
    TRY(machine_read(machine, raw, (size_t)bytes));
    if (bytes > 8) {
        return machine_push_kind(machine, PICKLE_OPAQUE);
    }
    int negative = bytes > 0 && raw[bytes - 1] >= 0x80;
    memset(raw + bytes, negative ? 0xFF : 0, 8 - (size_t)bytes);
    return push_integer(machine, (int64_t)little_endian(raw, 8));
}

static enum berth_status run_real(struct machine *machine) {
    unsigned char raw[8];
    uint64_t bits = 0;
    struct pickle_value value = {.kind = PICKLE_REAL};
    TRY(machine_read(machine, raw, sizeof raw));
    for (size_t i = 0; i < sizeof raw; i++) { // big-endian
        bits = bits << 8 | raw[i];
    }
    memcpy(&value.real, &bits, sizeof bits);
    return machine_push_value(machine, value);
}

// --- lists --------------------------------------------------------------------------------------

static enum berth_status run_mark(struct machine *machine) {
    if (machine->mark_count == PICKLE_MAX_MARKS) {
        return machine_error(machine, "more than %u marks on the stack", PICKLE_MAX_MARKS);
    }
    machine->marks[machine->mark_count++] = machine->depth;
    return BERTH_OK;
}

static enum berth_status run_empty_list(struct machine *machine) {
    return machine_push_kind(machine, PICKLE_LIST);
}

static enum berth_status run_empty_dict(struct machine *machine) {
    return machine_push_kind(machine, PICKLE_DICT);
}

static enum berth_status run_tuple_of_mark(struct machine *machine) {
    size_t first = 0, count = 0;
    TRY(machine_pop_mark(machine, &first, &count));
    return machine_push_tuple(machine, first, count);
}

static enum berth_status run_tuple(struct machine *machine) {
    size_t count = opcodes[machine->opcode].argument;
    if (machine->depth - machine_floor(machine) < count) {
        return machine_error(machine, "the stack holds fewer than %zu values", count);
    }
    machine->depth -= count;
    return machine_push_tuple(machine, machine->depth, count);
}

// Moves the values stack[first .. first + count) into the container below them.
static enum berth_status fill_container(struct machine *machine, enum pickle_kind kind,
                                        size_t first, size_t count) {
    uint32_t container = 0;
    TRY(machine_top(machine, &container));
    const struct pickle_value *value = machine_value(machine, container);
    if (value->kind != kind && value->kind != PICKLE_OPAQUE) {
        return machine_error(machine, "expected a %s to add to",
                             kind == PICKLE_DICT ? "dictionary" : "list");
    }
    if (kind == PICKLE_DICT && count % 2 != 0) {
        return machine_error(machine, "a key without a value");
    }
    return machine_append(machine, container, first, count);
}

static enum berth_status run_append(struct machine *machine) {
    uint32_t item = 0;
    TRY(machine_pop(machine, &item));
    return fill_container(machine, PICKLE_LIST, machine->depth, 1);
}

static enum berth_status run_appends(struct machine *machine) {
    size_t first = 0, count = 0;
    TRY(machine_pop_mark(machine, &first, &count));
    return fill_container(machine, PICKLE_LIST, first, count);
}

static enum berth_status run_set_item(struct machine *machine) {
    uint32_t key = 0, value = 0;
    TRY(machine_pop(machine, &value));
    TRY(machine_pop(machine, &key));
    return fill_container(machine, PICKLE_DICT, machine->depth, 2);
}

static enum berth_status run_set_items(struct machine *machine) {
    size_t first = 0, count = 0;
    TRY(machine_pop_mark(machine, &first, &count));
    return fill_container(machine, PICKLE_DICT, first, count);
}

// --- the memo -----------------------------------------------------------------------------------

// Indices count up from 0 or 1, one per put, so an index beyond the number of bytes read so far is
// hostile.
static enum berth_status put_at(struct machine *machine, uint64_t index) {
    uint32_t value = 0;
    TRY(machine_top(machine, &value));
    if (index >= PICKLE_MAX_MEMO || index > machine->at - machine->source.begin) {
        return machine_error(machine, "memo index %" PRIu64 " is out of range", index);
    }
    size_t capacity = machine->memo_count;
    if (index >= capacity) {
        uint32_t *memo =
            machine_reserve(machine, machine->memo, &capacity, (size_t)index + 1, sizeof *memo);
        if (memo == NULL) {
            return BERTH_NO_MEMORY;
        }
        memset(memo + machine->memo_count, 0, (capacity - machine->memo_count) * sizeof *memo);
        machine->memo = memo;
        machine->memo_count = capacity;
    }
    machine->memoized += machine->memo[index] == 0;
    machine->memo[index] = value + 1;
    return BERTH_OK;
}

static enum berth_status run_put(struct machine *machine) {
    uint64_t index = 0;
    TRY(machine_read_number(machine, opcodes[machine->opcode].argument, &index));
    return put_at(machine, index);
}

static enum berth_status run_memoize(struct machine *machine) {
    return put_at(machine, machine->memoized);
}

static enum berth_status run_get(struct machine *machine) {
    uint64_t index = 0;
    TRY(machine_read_number(machine, opcodes[machine->opcode].argument, &index));
    if (index >= machine->memo_count || machine->memo[index] == 0) {
        return machine_error(machine, "memo %" PRIu64 " was never stored", index);
    }
    return machine_push(machine, machine->memo[index] - 1);
}

// --- the frame ----------------------------------------------------------------------------------

static enum berth_status run_protocol(struct machine *machine) {
    uint64_t protocol = 0;
    TRY(machine_read_number(machine, 1, &protocol));
    return protocol >= FIRST_PROTOCOL && protocol <= LAST_PROTOCOL
               ? BERTH_OK
               : machine_error(machine, "expected protocol %d to %d, found %" PRIu64,
                               FIRST_PROTOCOL, LAST_PROTOCOL, protocol);
}

// The length of the opcodes that follow, for readers of streams.
static enum berth_status run_frame(struct machine *machine) {
    uint64_t bytes = 0;
    TRY(machine_read_number(machine, 8, &bytes));
    return bytes <= machine_bytes_left(machine)
               ? BERTH_OK
               : machine_error(machine,
                               "truncated: a frame of %" PRIu64 " bytes, %" PRIu64 " are left",
                               bytes, machine_bytes_left(machine));
}

static enum berth_status run_stop(struct machine *machine) {
    if (machine->depth != 1 || machine->mark_count > 0) {
        return machine_error(machine,
                             "%zu values and %zu marks are left on the stack, expected one value",
                             machine->depth, machine->mark_count);
    }
    machine->stopped = 1;
    return BERTH_OK;
}

static const struct opcode opcodes[256] = {
    [0x80] = {"PROTO", run_protocol, 0},
    ['.'] = {"STOP", run_stop, 0},
    ['('] = {"MARK", run_mark, 0},
    ['N'] = {"NONE", run_none, 0},
    [0x88] = {"NEWTRUE", run_truth, 1},
    [0x89] = {"NEWFALSE", run_truth, 0},
    ['K'] = {"BININT1", run_integer, 1},
    ['M'] = {"BININT2", run_integer, 2},
    ['J'] = {"BININT", run_integer, 4},
    [0x8a] = {"LONG1", run_long, 0},
    ['G'] = {"BINFLOAT", run_real, 0},
    ['X'] = {"BINUNICODE", run_text, 4},
    ['U'] = {"SHORT_BINSTRING", run_bytes, 1},
    [')'] = {"EMPTY_TUPLE", run_tuple, 0},
    [0x85] = {"TUPLE1", run_tuple, 1},
    [0x86] = {"TUPLE2", run_tuple, 2},
    [0x87] = {"TUPLE3", run_tuple, 3},
    ['t'] = {"TUPLE", run_tuple_of_mark, 0},
    [']'] = {"EMPTY_LIST", run_empty_list, 0},
    [0x8f] = {"EMPTY_SET", run_empty_list, 0},
    ['a'] = {"APPEND", run_append, 0},
    ['e'] = {"APPENDS", run_appends, 0},
    ['}'] = {"EMPTY_DICT", run_empty_dict, 0},
    ['s'] = {"SETITEM", run_set_item, 0},
    ['u'] = {"SETITEMS", run_set_items, 0},
    ['q'] = {"BINPUT", run_put, 1},
    ['r'] = {"LONG_BINPUT", run_put, 4},
    ['h'] = {"BINGET", run_get, 1},
    ['j'] = {"LONG_BINGET", run_get, 4},
    ['c'] = {"GLOBAL", pickle_run_name, 0},
    ['R'] = {"REDUCE", pickle_run_call, 0},
    [0x81] = {"NEWOBJ", pickle_run_new_object, 0},
    ['b'] = {"BUILD", pickle_run_build, 0},
    ['Q'] = {"BINPERSID", pickle_run_storage, 0},
    // Of protocols 3 to 5.
    ['B'] = {"BINBYTES", run_bytes, 4},
    ['C'] = {"SHORT_BINBYTES", run_bytes, 1},
    [0x8c] = {"SHORT_BINUNICODE", run_text, 1},
    [0x8d] = {"BINUNICODE8", run_text, 8},
    [0x8e] = {"BINBYTES8", run_bytes, 8},
    [0x90] = {"ADDITEMS", run_appends, 0},
    [0x91] = {"FROZENSET", run_tuple_of_mark, 0},
    [0x93] = {"STACK_GLOBAL", pickle_run_stacked_name, 0},
    [0x94] = {"MEMOIZE", run_memoize, 0},
    [0x95] = {"FRAME", run_frame, 0},
    [0x96] = {"BYTEARRAY8", run_bytes, 8},
    // Refused, with the name in the message.
    ['0'] = {"POP", NULL, 0},
    ['1'] = {"POP_MARK", NULL, 0},
    ['2'] = {"DUP", NULL, 0},
    ['F'] = {"FLOAT", NULL, 0},
    ['I'] = {"INT", NULL, 0},
    ['L'] = {"LONG", NULL, 0},
    ['S'] = {"STRING", NULL, 0},
    ['T'] = {"BINSTRING", NULL, 0},
    ['V'] = {"UNICODE", NULL, 0},
    ['P'] = {"PERSID", NULL, 0},
    ['d'] = {"DICT", NULL, 0},
    ['l'] = {"LIST", NULL, 0},
    ['g'] = {"GET", NULL, 0},
    ['p'] = {"PUT", NULL, 0},
    ['i'] = {"INST", NULL, 0},
    ['o'] = {"OBJ", NULL, 0},
    [0x82] = {"EXT1", NULL, 0},
    [0x83] = {"EXT2", NULL, 0},
    [0x84] = {"EXT4", NULL, 0},
    [0x8b] = {"LONG4", NULL, 0},
    [0x92] = {"NEWOBJ_EX", NULL, 0},
    [0x97] = {"NEXT_BUFFER", NULL, 0},
    [0x98] = {"READONLY_BUFFER", NULL, 0},
};

static enum berth_status run_codes(struct machine *machine) {
    while (!machine->stopped) {
        machine->opcode_at = machine->at;
        machine->opcode_name = opcodes['.'].name; // the opcode that is missing if nothing follows
        TRY(machine_read(machine, &machine->opcode, 1));
        machine->opcode_name = opcodes[machine->opcode].name;
        if (opcodes[machine->opcode].run == NULL) {
            return machine_error(machine,
                                 "refused: checkpoints do not need this opcode; nothing was run");
        }
        TRY(opcodes[machine->opcode].run(machine));
    }
    return BERTH_OK;
}

static enum berth_status run_all(struct machine *machine, uint64_t *stopped) {
    uint64_t bytes = machine_bytes_left(machine);
    machine->window = memory_new(bytes < WINDOW_BYTES ? (size_t)bytes : WINDOW_BYTES);
    if (machine->window == NULL) {
        return error_no_memory(machine->error, WINDOW_BYTES, machine->source.file->path);
    }
    TRY(run_codes(machine));
    if (stopped != NULL) {
        *stopped = machine->at;
    } else if (machine_bytes_left(machine) > 0) {
        return machine_error(machine, "%" PRIu64 " bytes follow the end",
                             machine_bytes_left(machine));
    }
    machine->pickle->root = machine_value(machine, machine->stack[0]);
    if (machine->object_class > 0) {
        machine->pickle->object_class = machine_value(machine, machine->object_class - 1);
    }
    return pickle_check_keys(machine->pickle, machine->source.file->path, machine->error);
}

enum berth_status pickle_read(struct pickle *pickle, const struct pickle_source *source,
                              enum pickle_trust trust, uint64_t *stopped,
                              struct berth_error *error) {
    *pickle = (struct pickle){0};
    struct machine *machine = memory_array_zeroed(1, sizeof *machine);
    if (machine == NULL) {
        return error_no_memory(error, sizeof *machine, source->file->path);
    }
    machine->pickle = pickle;
    machine->source = *source;
    machine->trust = trust;
    machine->at = source->begin;
    machine->error = error;
    enum berth_status status = run_all(machine, stopped);
    memory_free(machine->window);
    memory_free(machine->stack);
    memory_free(machine->memo);
    memory_free(machine);
    if (status != BERTH_OK) {
        pickle_done(pickle);
    }
    return status;
}
