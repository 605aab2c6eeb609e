// SPDX-License-Identifier: Apache-2.0
// A device that runs another one's operations. Callers hold addresses of blocks that need not be
// memory, and each pointer among an operation's operands is replaced by the corresponding address
// in the other device's memory. Its .c file is the only list of the operands of all operations and
// their extents. A pointer into no block, or an operand that exceeds its block, aborts with the
// names of operation and operand.
//
// Leaves out memory_new, memory_free, upload, download, zero and close, which the owner provides.
#ifndef BERTH_TESTS_DEVICE_TRANSLATED_DEVICE_H
#define BERTH_TESTS_DEVICE_TRANSLATED_DEVICE_H

#include "core/device.h"

// Every operation of core/device.h, in its order.
// clang-format off
#define DEVICE_OPERATIONS(each) \
    each(embed_forward) each(embed_backward) \
    each(norm_forward) each(norm_backward) \
    each(linear_forward) each(linear_gelu_forward) each(linear_backward_input) \
    each(linear_gelu_backward) each(linear_backward_weight) \
    each(attention_forward) each(attention_backward) \
    each(span_loss) \
    each(gather_rows) each(scatter_rows) each(scatter_add_rows) \
    each(gelu_backward) each(tanh_forward) each(tanh_backward) \
    each(class_loss) each(squared_loss) each(sigmoid_loss) \
    each(add_losses) each(squares) each(norms) \
    each(adamw) each(lamb_moments) each(lamb_apply) each(convert)
// clang-format on

#define DEVICE_OPERATION_NAME(name) OPERATION_##name,
enum device_operation { DEVICE_OPERATIONS(DEVICE_OPERATION_NAME) OPERATION_COUNT };
#undef DEVICE_OPERATION_NAME

extern const char *const device_operation_names[OPERATION_COUNT];

struct translated_block {
    char *address; // addresses that callers hold
    char *memory;  // of the inner device
    size_t bytes;
};

struct translated_device {
    struct device device; // its state is this structure
    struct device *inner;
    struct translated_block *blocks;
    size_t count, capacity;
    int64_t calls[OPERATION_COUNT]; // count of each operation so far
    // Called around each operation; NULL: nothing.
    void (*before)(struct translated_device *translated);
    void (*after)(struct translated_device *translated);
};

// Without blocks, with every operation of `inner`, which must live as long.
void translated_init(struct translated_device *translated, struct device *inner);
// Frees the table of blocks, not the blocks.
void translated_done(struct translated_device *translated);
void translated_add(struct translated_device *translated, struct translated_block block);

// The block that contains `address` or ends at it; NULL if there is none.
struct translated_block *translated_find(struct translated_device *translated, const void *address);
// The inner device's memory of [address, address + bytes); NULL for NULL.
void *translated_memory(struct translated_device *translated, const char *operation,
                        const char *operand, const void *address, size_t bytes);

#endif
