// SPDX-License-Identifier: Apache-2.0
// A device that runs another device's operations. Callers hold addresses of blocks, which need not
// be memory; each pointer among an operation's operands is replaced by the corresponding address in
// the other device's memory. translated_operations.inc lists all operations, their operands and how
// far each one reaches. A pointer into no block, or an operand that reaches past the end of its
// block, ends the program with the names of operation and operand.
//
// The owner implements memory_new, memory_free, upload, download, zero and close.
#ifndef BERTH_TESTS_DEVICE_TRANSLATED_DEVICE_H
#define BERTH_TESTS_DEVICE_TRANSLATED_DEVICE_H

#include "device/device.h"

enum device_operation {
#define OPERATION(name, ...) OPERATION_##name,
#define OPTIONAL OPERATION
#include "translated_operations.inc"
#undef OPTIONAL
#undef OPERATION
    OPERATION_COUNT,
    OPERATION_EVERYWHERE = OPERATION_linear_int8_forward, // the number that every device has
    OPERATION_ROWS = OPERATION_int8_pack                  // the number that compute something
};

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

// The block that contains `address`, or else one that ends at it; NULL if there is none.
struct translated_block *translated_find(struct translated_device *translated, const void *address);
// The inner device's memory of [address, address + bytes); NULL for NULL.
void *translated_memory(struct translated_device *translated, const char *operation,
                        const char *operand, const void *address, size_t bytes);

#endif
