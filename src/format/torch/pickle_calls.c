// SPDX-License-Identifier: Apache-2.0
// The opcodes of a pickle that name something, call it or build an object, for the table in
// pickle.c: each looks the name up among those that checkpoints need (pickle_names.c) and puts the
// value on the stack that such a call would have returned. Nothing is ever called.
#include "format/torch/pickle_calls.h"

#include "format/torch/pickle_names.h"
#include "format/torch/pickle_tree.h"

#include <string.h>

// Reads a line of printable ASCII, appended to text[*length].
static enum berth_status read_line(struct machine *machine, char *text, size_t *length) {
    for (size_t i = 0; i <= PICKLE_MAX_NAME; i++) {
        char c;
        TRY(machine_read(machine, &c, 1));
        if (c == '\n') {
            return BERTH_OK;
        }
        if (c <= ' ' || c >= 0x7F) {
            return machine_error(machine, "a name with byte 0x%02x", (unsigned char)c);
        }
        text[(*length)++] = c;
    }
    return machine_error(machine, "a name longer than %u bytes", PICKLE_MAX_NAME);
}

static enum berth_status push_name(struct machine *machine, const char *name, size_t length) {
    unsigned row = pickle_find_name(name);
    if (row == 0 && machine->trust == PICKLE_KNOWN_NAMES) {
        return machine_error(machine,
                             "refused: checkpoints do not need the name %s; nothing was run", name);
    }
    struct pickle_value value = {
        .kind = PICKLE_NAME, .detail = (uint8_t)row, .count = (uint32_t)length};
    TRY(machine_new_text(machine, length, &value.index));
    memcpy(machine->pickle->texts + value.index, name, length);
    return machine_push_value(machine, value);
}

enum berth_status pickle_run_name(struct machine *machine) {
    char name[2 * PICKLE_MAX_NAME + 8];
    size_t length = 0;
    TRY(read_line(machine, name, &length));
    name[length++] = '.';
    TRY(read_line(machine, name, &length));
    name[length] = '\0';
    return push_name(machine, name, length);
}

// Appends the string on the stack to name[*length], if it could be a line of pickle_run_name.
static enum berth_status pop_line(struct machine *machine, char *name, size_t *length) {
    uint32_t index = 0;
    TRY(machine_pop(machine, &index));
    const struct pickle_value *value = machine_value(machine, index);
    const char *text = machine->pickle->texts + value->index;
    if (value->kind != PICKLE_TEXT || value->count > PICKLE_MAX_NAME) {
        return machine_error(machine, "expected names of at most %u bytes", PICKLE_MAX_NAME);
    }
    for (size_t i = 0; i < value->count; i++) {
        if (text[i] <= ' ' || text[i] >= 0x7F) {
            return machine_error(machine, "a name with byte 0x%02x", (unsigned char)text[i]);
        }
    }
    memcpy(name + *length, text, value->count);
    *length += value->count;
    return BERTH_OK;
}

// A module and a name in it, from the stack.
enum berth_status pickle_run_stacked_name(struct machine *machine) {
    char module[PICKLE_MAX_NAME + 1], name[2 * PICKLE_MAX_NAME + 8];
    size_t own = 0, length = 0;
    TRY(pop_line(machine, module, &own));
    TRY(pop_line(machine, name, &length));
    name[length++] = '.';
    memcpy(name + length, module, own);
    length += own;
    name[length] = '\0';
    return push_name(machine, name, length);
}

static enum berth_status call_tensor(struct machine *machine, uint32_t arguments) {
    const char *problem = pickle_check_tensor(machine->pickle, machine_value(machine, arguments));
    if (problem != NULL) {
        return machine_error(machine, "a tensor %s", problem);
    }
    return machine_push_value(machine,
                              (struct pickle_value){.kind = PICKLE_TENSOR, .index = arguments});
}

static enum berth_status call_first(struct machine *machine, uint32_t arguments) {
    if (machine_value(machine, arguments)->count > 0) {
        uint32_t first = machine_item(machine, arguments, 0);
        unsigned kind = machine_value(machine, first)->kind;
        if (kind == PICKLE_TENSOR || kind == PICKLE_TUPLE) {
            return machine_push(machine, first);
        }
    }
    return machine_error(machine, "the first argument is neither a tensor nor a tuple");
}

// Makes an empty dictionary, or an ordered one from Python 2: ([[key, value], ...],).
static enum berth_status call_dict(struct machine *machine, uint32_t arguments) {
    TRY(machine_push_kind(machine, PICKLE_DICT));
    uint32_t dict = machine->stack[machine->depth - 1];
    uint32_t pairs =
        machine_value(machine, arguments)->count > 0 ? machine_item(machine, arguments, 0) : dict;
    if (machine_value(machine, pairs)->kind != PICKLE_LIST) {
        return BERTH_OK;
    }
    for (size_t i = 0; i < machine_value(machine, pairs)->count; i++) {
        uint32_t pair = machine_item(machine, pairs, i);
        const struct pickle_value *value = machine_value(machine, pair);
        if ((value->kind != PICKLE_LIST && value->kind != PICKLE_TUPLE) || value->count != 2) {
            return machine_error(machine, "entry %zu of a dictionary is not a pair", i);
        }
        for (size_t k = 0; k < 2; k++) {
            TRY(machine_push(machine, machine_item(machine, pair, k)));
        }
        machine->depth -= 2;
        TRY(machine_append(machine, dict, machine->depth, 2));
    }
    return BERTH_OK;
}

static enum berth_status call_opaque(struct machine *machine, uint32_t arguments) {
    return machine_push_value(
        machine, (struct pickle_value){.kind = PICKLE_OPAQUE, .count = 1, .index = arguments});
}

// Pops the callable and its tuple of arguments.
static enum berth_status pop_call(struct machine *machine, uint32_t *called, uint32_t *arguments) {
    TRY(machine_pop(machine, arguments));
    TRY(machine_pop(machine, called));
    const struct pickle_value *value = machine_value(machine, *called);
    if (value->kind != PICKLE_NAME && value->kind != PICKLE_OPAQUE) {
        return machine_error(machine, "expected the name of a callable");
    }
    if (machine_value(machine, *arguments)->kind != PICKLE_TUPLE) {
        return machine_error(machine, "expected a tuple of arguments");
    }
    return BERTH_OK;
}

// What to do instead of calling a function, by how its name begins.
static const char *remedy_of(const char *name) {
    static const struct {
        const char *start, *remedy;
    } rows[] = {
        {"torch._utils._rebuild_meta_tensor",
         "A tensor of the device \"meta\" has no numbers: load "
         "the weights before saving them"},
        {"torch._utils._rebuild_sparse", "Save sparse tensors by their to_dense()"},
        {"torch.serialization._get_layout", "Save sparse tensors by their to_dense()"},
        {"torch._utils._rebuild_nested", "Save nested tensors by their unbind()"},
        {"torch._utils._rebuild_qtensor", "Save quantized tensors by their dequantize()"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strncmp(name, rows[i].start, strlen(rows[i].start)) == 0) {
            return rows[i].remedy;
        }
    }
    return "If the file is a pickled module, save its state_dict instead";
}

// Handles a call of a name that is not in the table, or not callable.
static enum berth_status call_unknown(struct machine *machine, uint32_t called, uint32_t arguments,
                                      enum pickle_trust needed) {
    const struct pickle_value *value = machine_value(machine, called);
    if (machine->trust >= needed) {
        return call_opaque(machine, arguments);
    }
    const char *name =
        value->kind == PICKLE_NAME ? machine->pickle->texts + value->index : "an opaque value";
    return machine_error(machine,
                         "refused: checkpoints do not need to call %s; nothing was run. %s", name,
                         remedy_of(name));
}

static enum berth_status (*const calls[])(struct machine *, uint32_t) = {
    [PICKLE_MEANS_TENSOR] = call_tensor,
    [PICKLE_MEANS_FIRST] = call_first,
    [PICKLE_MEANS_DICT] = call_dict,
    [PICKLE_MEANS_OPAQUE] = call_opaque,
};

enum berth_status pickle_run_call(struct machine *machine) {
    uint32_t called = 0, arguments = 0;
    TRY(pop_call(machine, &called, &arguments));
    enum pickle_meaning meaning = pickle_names[machine_value(machine, called)->detail].meaning;
    return calls[meaning] != NULL ? calls[meaning](machine, arguments)
                                  : call_unknown(machine, called, arguments, PICKLE_CALLS);
}

// Handles an object created without a call of its class: torch's Parameter, or a dictionary.
enum berth_status pickle_run_new_object(struct machine *machine) {
    uint32_t called = 0, arguments = 0;
    TRY(pop_call(machine, &called, &arguments));
    const struct pickle_value *value = machine_value(machine, called);
    enum pickle_meaning meaning = pickle_names[value->detail].meaning;
    if (meaning == PICKLE_MEANS_NOTHING && value->kind == PICKLE_NAME &&
        machine->object_class == 0) {
        machine->object_class = called + 1;
    }
    return meaning == PICKLE_MEANS_FIRST || meaning == PICKLE_MEANS_DICT
               ? calls[meaning](machine, arguments)
               : call_unknown(machine, called, arguments, PICKLE_OBJECTS);
}

// Handles an object's state; ignores attributes of dictionaries (_metadata) and of parameters.
enum berth_status pickle_run_build(struct machine *machine) {
    uint32_t state = 0, object = 0;
    TRY(machine_pop(machine, &state));
    TRY(machine_top(machine, &object));
    unsigned kind = machine_value(machine, object)->kind;
    return kind == PICKLE_DICT || kind == PICKLE_TENSOR || kind == PICKLE_OPAQUE
               ? BERTH_OK
               : machine_error(machine, "a state for a value that is not an object");
}

enum berth_status pickle_run_storage(struct machine *machine) {
    uint32_t id = 0;
    TRY(machine_pop(machine, &id));
    const char *problem = pickle_check_storage(machine->pickle, machine_value(machine, id));
    if (problem != NULL) {
        return machine_error(machine, "a persistent id %s", problem);
    }
    return machine_push_value(machine, (struct pickle_value){.kind = PICKLE_STORAGE, .index = id});
}
