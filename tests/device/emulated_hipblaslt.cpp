// SPDX-License-Identifier: Apache-2.0
// A substitute for hipBLASLt on the emulated GPU, as far as gemm_lt.cu uses it: products of
// column-major matrices by loops in the emulation's stream. The real library needs an AMD GPU. Its
// headers are not included, so that our declarations are checked independently. What the library
// would reject is rejected; misuse that it would not notice ends the process.
#include "emulation/emulation_stream.h"
#include "device/gpu/kernel.h"

#include <stdlib.h>
#include <string.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

enum { OK, NOT_INITIALIZED, ALLOC_FAILED, INVALID_VALUE };
enum { FIRST_TRANSPOSED, SECOND_TRANSPOSED, EPILOGUE, BIAS, BIAS_TYPE, ATTRIBUTES };
enum { AS_IT_IS = 111, TRANSPOSED = 112, NOTHING_MORE = 1, ADD_BIAS = 4, WORKSPACE_BYTES = 1 };
enum { IN_F32 = 2, BY_TF32 = 6 };
enum { CHOSEN = 0x5A }; // first byte of an algorithm

struct layout {
    int type;
    uint64_t rows, cols;
    int64_t stride; // between columns
};

struct product {
    int32_t sums, first, second, epilogue, bias_type;
    const void *bias;
};

struct preference {
    uint64_t workspace;
};

struct algorithm {
    uint8_t data[16];
    size_t max_workspace;
};

struct choice {
    struct algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
};

static int open_libraries, descriptions; // not closed yet

static void require(bool holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "hipBLASLt of the tests: %s\n", what);
        abort();
    }
}

EXPORTED int hipblasLtGetVersion(void *library, int *version) {
    const char *own = getenv("BERTH_TEST_HIPBLASLT_VERSION");
    *version = own != NULL ? atoi(own) : 1000;
    return library == NULL ? NOT_INITIALIZED : OK;
}

EXPORTED int hipblasLtCreate(void **library) {
    if (getenv("BERTH_TEST_HIPBLASLT_FULL") != NULL) {
        return ALLOC_FAILED;
    }
    *library = &open_libraries;
    open_libraries++;
    return OK;
}

EXPORTED int hipblasLtDestroy(void *library) {
    require(library == &open_libraries && --open_libraries >= 0, "closed more often than opened");
    require(open_libraries > 0 || descriptions == 0, "closed before its descriptions are");
    return OK;
}

// --- descriptions -------------------------------------------------------------------------------

template <class T> static int create(T **made, T value) {
    *made = new T(value);
    descriptions++;
    return OK;
}

template <class T> static int destroy(T *made) {
    descriptions -= made != NULL;
    delete made;
    return made != NULL ? OK : INVALID_VALUE;
}

static enum dtype dtype_of(int type) {
    require(type == 0 || type == 2 || type == 14, "a type that is not f32, f16 or bf16");
    return type == 0 ? DTYPE_F32 : type == 2 ? DTYPE_F16 : DTYPE_BF16;
}

EXPORTED int hipblasLtMatrixLayoutCreate(struct layout **made, int type, uint64_t rows,
                                         uint64_t cols, int64_t stride) {
    return stride < (int64_t)rows ? INVALID_VALUE : create(made, layout{type, rows, cols, stride});
}

EXPORTED int hipblasLtMatrixLayoutDestroy(struct layout *layout) {
    return destroy(layout);
}

EXPORTED int hipblasLtMatmulDescCreate(struct product **made, int sums, int scale) {
    require((sums == IN_F32 || sums == BY_TF32) && scale == 0, "sums that are not in f32");
    return create(made, product{sums, AS_IT_IS, AS_IT_IS, NOTHING_MORE, 0, NULL});
}

EXPORTED int hipblasLtMatmulDescDestroy(struct product *product) {
    return destroy(product);
}

EXPORTED int hipblasLtMatmulDescSetAttribute(struct product *product, int attribute,
                                             const void *value, size_t bytes) {
    int32_t *const numbers[ATTRIBUTES] = {&product->first, &product->second, &product->epilogue,
                                          NULL, &product->bias_type};
    if (attribute == BIAS) {
        require(bytes == sizeof product->bias, "the bias is no pointer");
        memcpy(&product->bias, value, bytes);
        return OK;
    }
    require(attribute >= 0 && attribute < ATTRIBUTES && bytes == sizeof(int32_t),
            "an attribute of another size");
    memcpy(numbers[attribute], value, bytes);
    return OK;
}

EXPORTED int hipblasLtMatmulPreferenceCreate(struct preference **made) {
    return create(made, preference{0});
}

EXPORTED int hipblasLtMatmulPreferenceDestroy(struct preference *preference) {
    return destroy(preference);
}

EXPORTED int hipblasLtMatmulPreferenceSetAttribute(struct preference *preference, int attribute,
                                                   const void *value, size_t bytes) {
    require(attribute == WORKSPACE_BYTES && bytes == sizeof(uint64_t), "an unknown preference");
    memcpy(&preference->workspace, value, bytes);
    return OK;
}

// --- products -----------------------------------------------------------------------------------

static uint64_t rows_of(const struct layout *m, int32_t operation) {
    require(operation == AS_IT_IS || operation == TRANSPOSED, "an unknown operation");
    return operation == AS_IT_IS ? m->rows : m->cols;
}

static uint64_t cols_of(const struct layout *m, int32_t operation) {
    return operation == AS_IT_IS ? m->cols : m->rows;
}

// In columns: d [rows, cols] = first * second.
static bool fits(const struct product *product, const struct layout *first,
                 const struct layout *second, const struct layout *c, const struct layout *d) {
    return rows_of(first, product->first) == d->rows &&
           cols_of(second, product->second) == d->cols &&
           cols_of(first, product->first) == rows_of(second, product->second) &&
           c->rows == d->rows && c->cols == d->cols && first->type == second->type &&
           c->type == d->type && (d->type == first->type || d->type == 0) &&
           (product->sums == IN_F32 || first->type == 0);
}

EXPORTED int hipblasLtMatmulAlgoGetHeuristic(void *library, struct product *product,
                                             struct layout *first, struct layout *second,
                                             struct layout *c, struct layout *d,
                                             struct preference *preference, int wanted,
                                             struct choice *choices, int *found) {
    *found = 0;
    if (library != &open_libraries || !fits(product, first, second, c, d)) {
        return INVALID_VALUE;
    }
    require(wanted == 1 && preference->workspace > 0, "no workspace is offered");
    choices[0] = {};
    choices[0].algorithm.data[0] = CHOSEN;
    choices[0].algorithm.max_workspace = preference->workspace;
    *found = 1;
    return OK;
}

// Element [row, col] of a column-major matrix, as it is or transposed.
static float element(const struct mat &columns, bool transposed, uint64_t row, uint64_t col) {
    return transposed ? number_at(columns, (int64_t)row, (int64_t)col)
                      : number_at(columns, (int64_t)col, (int64_t)row);
}

static float rounded(const struct product &product, float x) {
    return product.sums == BY_TF32 ? emulated_tf32(x) : x;
}

// A row of a mat is a column of the library's.
static struct mat columns_of(const void *data, const struct layout *m) {
    return {(void *)data, (int64_t)m->cols, (int64_t)m->rows, m->stride, dtype_of(m->type)};
}

struct call {
    struct product product;
    struct mat first, second, c, d;
    int64_t inner;
    float alpha, beta;
};

static float bias_at(const struct product &product, int64_t row, const struct mat &d) {
    if (product.epilogue == NOTHING_MORE) {
        return 0;
    }
    require(product.epilogue == ADD_BIAS && product.bias != NULL, "an unknown epilogue");
    const struct mat bias = {(void *)product.bias, 1, d.cols, d.cols, dtype_of(product.bias_type)};
    require(bias.dtype == d.dtype || bias.dtype == DTYPE_F32, "a bias of another type");
    return number_at(bias, 0, row);
}

static void multiply(const struct call &call) {
    for (int64_t col = 0; col < call.d.rows; col++) {
        for (int64_t row = 0; row < call.d.cols; row++) {
            float sum = 0;
            for (int64_t k = 0; k < call.inner; k++) {
                const float x = element(call.first, call.product.first == TRANSPOSED, row, k);
                const float y = element(call.second, call.product.second == TRANSPOSED, k, col);
                sum += rounded(call.product, x) * rounded(call.product, y);
            }
            const float base = call.beta == 0 ? 0 : call.beta * number_at(call.c, col, row);
            set_number(call.d, col, row,
                       call.alpha * sum + base + bias_at(call.product, row, call.d));
        }
    }
}

// Whether fast kernels would take a matrix of 16-bit operands: its columns consist of whole vectors
// of 16 bytes, if they begin at such.
static bool ends_at_vector(const struct layout *m) {
    const uint64_t vector = 8, few = 64;
    return m->rows <= few || m->rows % vector == 0;
}

static bool begins_at_vector(const void *data, const struct layout *m) {
    return (uintptr_t)data % 16 == 0 && (uint64_t)m->stride * (m->type == 0 ? 4 : 2) % 16 == 0;
}

EXPORTED int hipblasLtMatmul(void *library, struct product *product, const float *alpha,
                             const void *first, struct layout *first_layout, const void *second,
                             struct layout *second_layout, const float *beta, const void *c,
                             struct layout *c_layout, void *d, struct layout *d_layout,
                             const struct algorithm *algorithm, void *workspace,
                             size_t workspace_bytes, struct emulated_stream *stream) {
    if (library != &open_libraries || getenv("BERTH_TEST_HIPBLASLT_REFUSES") != NULL ||
        !fits(product, first_layout, second_layout, c_layout, d_layout)) {
        return INVALID_VALUE;
    }
    require(algorithm->data[0] == CHOSEN && algorithm->max_workspace == workspace_bytes &&
                workspace != NULL,
            "an algorithm that was not chosen, or other workspace");
    require(first_layout->type == 0 || !begins_at_vector(first, first_layout) ||
                !begins_at_vector(second, second_layout) || !begins_at_vector(d, d_layout) ||
                (ends_at_vector(first_layout) && ends_at_vector(second_layout) &&
                 ends_at_vector(d_layout)),
            "a product that is not divided at its last whole vectors");
    const struct call call = {*product,
                              columns_of(first, first_layout),
                              columns_of(second, second_layout),
                              columns_of(c, c_layout),
                              columns_of(d, d_layout),
                              (int64_t)cols_of(first_layout, product->first),
                              *alpha,
                              *beta};
    emulated_stream_add(stream, {[=](int) { multiply(call); }});
    return OK;
}
