// SPDX-License-Identifier: Apache-2.0
// The table of a device's operations (device/device.h): for each one its operands, a call, its
// minimum costs, and where a model uses it. bench_operations times the rows; the tests compare them
// with float64 and with finite differences. What a row costs is computed by op_call.h.
#ifndef BERTH_BENCH_OP_TABLE_H
#define BERTH_BENCH_OP_TABLE_H

#include "device/device.h"

// Dimensions of operands; the letters are those of device/device.h.
enum op_size {
    OP_NONE,
    OP_ONE,
    OP_TWO,
    OP_THREE,
    OP_ROWS,   // R
    OP_HIDDEN, // H
    OP_QKV,    // 3H
    OP_GROUPS, // of H columns in int8
    OP_WIDE,   // I
    OP_HEADS,  // A
    OP_LENGTH, // of the longest sequence
    OP_MASKS,  // words of attention's masks for a row; 0: the device keeps none
    OP_VOCABULARY,
    OP_SEQUENCE_ROWS, // C of S sequences
    OP_MASKED_ROWS,   // C of the masked tokens
    OP_CLASSES,
    OP_TABLE, // elements of the flat buffers
    OP_MOMENTS,
    OP_RANGES,
    OP_BLOCKS, // of the ranges
    OP_PARTS,  // of the flat buffers
    OP_TENSORS,
    OP_TENSOR_BOUNDS, // tensors + 1
    OP_T,             // rows, columns and inner size as the use says
    OP_N,
    OP_K,
    OP_COUNT, // rows of OP_T that are not slack
    OP_SIZES  // number of sizes; an operand with 0 columns is absent
};

struct op_geometry {
    int64_t hidden, intermediate, heads, vocabulary;
    int keeps_masks;                   // of the device
    int64_t masked;                    // tokens
    int64_t sequence_rows;             // at least the sequences of the batch
    int64_t masked_rows;               // at least `masked`
    int64_t table;                     // elements of the flat buffers
    const struct device_range *ranges; // of the flat buffers; host memory
    int64_t range_count;
    enum dtype compute;
};

// What an operation does with an operand. Slack rows of an input hold any finite numbers, those of
// a gradient zeros, those of an output any finite numbers or, with ZERO, zeros.
enum op_role {
    OP_IN = 1,
    OP_OUT = 2,
    OP_ADD = OP_IN | OP_OUT,
    OP_ZERO = 4,
    OP_GRADIENT = OP_IN | OP_ZERO,
    OP_OUT_ZERO = OP_OUT | OP_ZERO,
    OP_ADD_ZERO = OP_ADD | OP_ZERO,
    OP_KEPT = 8,                    // neither read nor written
    OP_OUT_KEPT = OP_OUT | OP_KEPT, // partly written
    OP_SCRATCH = 16                 // overwritten
};

enum op_type {
    OP_F32,
    OP_COMPUTE,
    OP_PACKED, // in the compute dtype; device.pack has rearranged it
    OP_INT8,   // of an int8_matrix, in the device's layout
    OP_CODE,   // a matrix of integers of 8 bits
    OP_F64,
    OP_INT32,
    OP_INT64,
    OP_BYTE,
    OP_HALF_SUM, // of 32 bits
    OP_MASK,     // 16 bits
    OP_RANGE,
    OP_PART
};

#define OP_SMOOTHING 0.1f // of weighted_loss

#define OP_OPERANDS 11
#define OP_USES 6
#define OP_VARIANT(v) (1u << (v))

// Arguments of calls.
#define OP_RADIUS 2.0f // of vectors scaled to one length
#define OP_MARGIN 0.5f // of triplets
#define OP_FACTOR 3.0f // of the loss of an order
#define OP_GROUP 3     // pairs of one of its groups
// The texts of an example of a similarity loss.
static inline int64_t op_similarity_texts(int loss) {
    return loss == SIMILARITY_MARGINS                                                  ? 4
           : loss == SIMILARITY_TRIPLET_EUCLIDEAN || loss == SIMILARITY_TRIPLET_COSINE ? 3
                                                                                       : 2;
}

struct op_call;

struct op_operand {
    const char *name; // dNAME is the gradient of NAME; NULL: no operand
    enum op_role role;
    enum op_type type;
    enum op_size rows, cols;
    double size, shift;   // numbers are in [shift - size, shift + size]; size 0 counts as 1
    enum op_size reached; // rows that are read or written; OP_NONE: all
    unsigned dense;       // 1: no gaps between rows
    unsigned copy;        // 1: only if the compute dtype is not f32
    unsigned only;        // the variants that have it; 0: all
    unsigned f32;         // the variants in which it is f32 instead of the compute dtype
    unsigned shared;      // the variants in which it is the memory of operand `with`, where
    int with;             // the dtypes are equal
    void (*set)(const struct op_call *call,
                void *host); // sets elements that are not random numbers
};

// A use of an operation in a model.
struct op_use {
    const char *name; // of the measurement
    enum op_size t, n, k;
    int variant;
    enum activation activation;
};

struct op {
    const char *name;
    void (*call)(struct device *dev, const struct op_call *call);
    struct op_operand operands[OP_OPERANDS];
    int variants; // number of ways to call it; 0 means 1
    int flops;    // FLOPs = flops * the product of flop_sizes
    enum op_size flop_sizes[3];
    struct op_use uses[OP_USES]; // ends with one without a name
};

extern const struct op op_table[];
extern const int op_count;

#endif
