// SPDX-License-Identifier: Apache-2.0
// Compares two models tensor by tensor. Names are translated, so checkpoints of different origin
// can be compared. Numbers are read in chunks and compared in double.
#include "api/arguments.h"
#include "core/file.h"
#include "core/memory.h"
#include "format/tensors/tensor_file.h"
#include "model/config.h"
#include "model/folder.h"
#include "model/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)1 << 15) // numbers per chunk

// --- opening ------------------------------------------------------------------------------------

// Reads the vocabulary size from the configuration next to the weights; 0 if there is no readable
// one, because a comparison does not need it.
static enum berth_status find_vocab_size(const char *path, int64_t *size,
                                         struct berth_error *error) {
    struct bert_config config;
    char *config_path = folder_config_path(path);
    *size = 0;
    if (config_path == NULL) {
        return path_no_memory(error);
    }
    enum berth_status status =
        file_exists(config_path) ? bert_config_read(config_path, &config, error) : BERTH_NO_INPUT;
    memory_free(config_path);
    if (status == BERTH_OK) {
        *size = config.vocab_size;
        bert_config_done(&config);
    }
    return status == BERTH_NO_MEMORY ? status : BERTH_OK;
}

static enum berth_status side_open(struct weights *side, const char *path,
                                   struct berth_error *error) {
    int64_t vocab_size;
    TRY(find_vocab_size(path, &vocab_size, error));
    return weights_open(side, path, vocab_size, error);
}

// --- numbers ------------------------------------------------------------------------------------

#define WIDEN(function, type)                                                                      \
    static double function(const char *from) {                                                     \
        type value;                                                                                \
        memcpy(&value, from, sizeof value);                                                        \
        return (double)value;                                                                      \
    }
WIDEN(widen_u8, uint8_t)
WIDEN(widen_i8, int8_t)
WIDEN(widen_u16, uint16_t)
WIDEN(widen_i16, int16_t)
WIDEN(widen_u32, uint32_t)
WIDEN(widen_i32, int32_t)
WIDEN(widen_u64, uint64_t)
WIDEN(widen_i64, int64_t)
WIDEN(widen_f64, double)

static double widen_f32(const char *from) {
    float value;
    tensor_convert(TENSOR_F32, from, 1, &value);
    return value;
}
static double widen_f16(const char *from) {
    float value;
    tensor_convert(TENSOR_F16, from, 1, &value);
    return value;
}
static double widen_bf16(const char *from) {
    float value;
    tensor_convert(TENSOR_BF16, from, 1, &value);
    return value;
}

static double (*const widen[])(const char *from) = {
    [TENSOR_BOOL] = widen_u8,   [TENSOR_U8] = widen_u8,   [TENSOR_I8] = widen_i8,
    [TENSOR_I16] = widen_i16,   [TENSOR_U16] = widen_u16, [TENSOR_F16] = widen_f16,
    [TENSOR_BF16] = widen_bf16, [TENSOR_I32] = widen_i32, [TENSOR_U32] = widen_u32,
    [TENSOR_F32] = widen_f32,   [TENSOR_F64] = widen_f64, [TENSOR_I64] = widen_i64,
    [TENSOR_U64] = widen_u64};

struct sums {
    double ab, aa, bb, largest;
};

static double distance(double a, double b) {
    if (a == b || (isnan(a) && isnan(b))) {
        return 0;
    }
    double difference = fabs(a - b);
    return isnan(difference) ? INFINITY : difference;
}

static void add_chunk(struct sums *sums, enum tensor_dtype a, const char *a_bytes,
                      enum tensor_dtype b, const char *b_bytes, size_t count) {
    size_t a_size = tensor_dtype_size(a), b_size = tensor_dtype_size(b);
    for (size_t i = 0; i < count; i++) {
        double left = widen[a](a_bytes + i * a_size);
        double right = widen[b](b_bytes + i * b_size);
        double difference = distance(left, right);
        sums->largest = difference > sums->largest ? difference : sums->largest;
        sums->ab += left * right;
        sums->aa += left * left;
        sums->bb += right * right;
    }
}

static double cosine_of(const struct sums *sums) {
    if (sums->aa == 0 && sums->bb == 0) {
        return 1;
    }
    double cosine = sums->ab / (sqrt(sums->aa) * sqrt(sums->bb));
    return sums->aa == 0 || sums->bb == 0 ? 0 : cosine;
}

// --- one tensor ---------------------------------------------------------------------------------

struct job {
    struct weights a, b;
    double tolerance;
    void (*visit)(void *context, const struct berth_difference *difference);
    void *context;
    struct berth_comparison *total;
    char *a_bytes, *b_bytes; // [8 * CHUNK]
};

static enum berth_status compare_in_chunks(struct job *job, const struct weight *a,
                                           const struct weight *b, size_t count, struct sums *sums,
                                           struct berth_error *error) {
    for (size_t first = 0; first < count; first += CHUNK) {
        size_t length = count - first < CHUNK ? count - first : CHUNK;
        TRY(weights_read_elements(&job->a, a, first, length, job->a_bytes, error));
        TRY(weights_read_elements(&job->b, b, first, length, job->b_bytes, error));
        add_chunk(sums, a->entry->dtype, job->a_bytes, b->entry->dtype, job->b_bytes, length);
    }
    return BERTH_OK;
}

// The type in which a whole tensor is read: F32 if it has scales, otherwise the file's own.
static enum tensor_dtype type_read(const struct weight *weight) {
    return weight->scale != NULL ? TENSOR_F32 : weight->entry->dtype;
}

// Newly allocated; memory_free.
static enum berth_status read_whole(const struct weights *side, const struct weight *weight,
                                    void **numbers, struct berth_error *error) {
    const size_t bytes = (size_t)weight_elements(weight) * tensor_dtype_size(type_read(weight));
    *numbers = memory_new(bytes);
    if (*numbers == NULL) {
        return error_no_memory(error, bytes, weight->name);
    }
    return weight->scale != NULL ? weights_read_f32(side, weight, *numbers, error)
                                 : weights_read(side, weight, *numbers, error);
}

// One of the two is stored transposed or has scales, so both are read completely.
static enum berth_status compare_whole(struct job *job, const struct weight *a,
                                       const struct weight *b, size_t count, struct sums *sums,
                                       struct berth_error *error) {
    void *a_numbers = NULL, *b_numbers = NULL;
    enum berth_status status;
    TRY_DONE(read_whole(&job->a, a, &a_numbers, error));
    TRY_DONE(read_whole(&job->b, b, &b_numbers, error));
    add_chunk(sums, type_read(a), a_numbers, type_read(b), b_numbers, count);
done:
    memory_free(a_numbers);
    memory_free(b_numbers);
    return status;
}

static int is_read_in_chunks(const struct weight *weight) {
    return weight_is_contiguous(weight) && weight->scale == NULL;
}

static enum berth_status compare_numbers(struct job *job, const struct weight *a,
                                         const struct weight *b,
                                         struct berth_difference *difference,
                                         struct berth_error *error) {
    struct sums sums = {0};
    size_t count = (size_t)weight_elements(a);
    int in_chunks = is_read_in_chunks(a) && is_read_in_chunks(b);
    TRY(in_chunks ? compare_in_chunks(job, a, b, count, &sums, error)
                  : compare_whole(job, a, b, count, &sums, error));
    difference->elements = (int64_t)count;
    difference->largest = sums.largest;
    difference->cosine = cosine_of(&sums);
    difference->differs = !(sums.largest <= job->tolerance);
    return BERTH_OK;
}

static int same_shape(const struct weight *a, const struct weight *b) {
    return a->rank == b->rank &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
}

// Writes the reason why two tensors cannot be compared to remark[size]; 0 if they can.
static int explain_mismatch(const struct weight *a, const struct weight *b, char *remark,
                            size_t size) {
    char shapes[2][96];
    if (a == NULL || b == NULL) {
        snprintf(remark, size, "only in %s", a != NULL ? "A" : "B");
    } else if (!same_shape(a, b)) {
        tensor_print_shape(shapes[0], sizeof shapes[0], a->shape, a->rank);
        tensor_print_shape(shapes[1], sizeof shapes[1], b->shape, b->rank);
        snprintf(remark, size, "shapes %s and %s", shapes[0], shapes[1]);
    } else if (a->entry->dtype == TENSOR_OTHER || b->entry->dtype == TENSOR_OTHER) {
        snprintf(remark, size, "types %s and %s, whose numbers are not read", a->entry->dtype_name,
                 b->entry->dtype_name);
    } else {
        return 0;
    }
    return 1;
}

static void add_to_total(struct berth_comparison *total,
                         const struct berth_difference *difference) {
    total->tensors++;
    total->differing += difference->differs;
    if (difference->remark == NULL) {
        total->compared++;
        total->largest = fmax(total->largest, difference->largest);
        total->cosine = fmin(total->cosine, difference->cosine);
    }
}

// Sets *equal to whether both are entries of one type, whose numbers are not read, with the same
// bytes.
static enum berth_status compare_bytes(struct job *job, const struct weight *a,
                                       const struct weight *b, int *equal,
                                       struct berth_error *error) {
    const uint64_t bytes = a->entry->end - a->entry->begin;
    *equal = strcmp(a->entry->dtype_name, b->entry->dtype_name) == 0 &&
             b->entry->end - b->entry->begin == bytes;
    for (uint64_t at = 0; *equal && at < bytes; at += 8 * CHUNK) {
        const size_t length = bytes - at < 8 * CHUNK ? (size_t)(bytes - at) : 8 * CHUNK;
        TRY(job->a.file.format->read(&job->a.file, a->entry, at, length, job->a_bytes, error));
        TRY(job->b.file.format->read(&job->b.file, b->entry, at, length, job->b_bytes, error));
        *equal = memcmp(job->a_bytes, job->b_bytes, length) == 0;
    }
    return BERTH_OK;
}

// One of the two is NULL if only the other model has the name.
static enum berth_status compare_pair(struct job *job, const struct weight *a,
                                      const struct weight *b, struct berth_error *error) {
    char remark[256];
    struct berth_difference difference = {
        .name = a != NULL ? a->name : b->name, .largest = NAN, .cosine = NAN, .differs = 1};
    int equal = 0;
    if (a != NULL && b != NULL && same_shape(a, b) && a->entry->dtype == TENSOR_OTHER) {
        TRY(compare_bytes(job, a, b, &equal, error));
    }
    if (equal) {
        snprintf(remark, sizeof remark, "type %s, the same bytes", a->entry->dtype_name);
        difference.remark = remark;
        difference.differs = 0;
    } else if (explain_mismatch(a, b, remark, sizeof remark)) {
        difference.remark = remark;
    } else {
        TRY(compare_numbers(job, a, b, &difference, error));
    }
    add_to_total(job->total, &difference);
    if (job->visit != NULL) {
        job->visit(job->context, &difference);
    }
    return BERTH_OK;
}

// --- all tensors ---------------------------------------------------------------------------------

// The next tensor that is not redundant, or NULL after the last.
static const struct weight *next_weight(const struct weights *side, size_t *index) {
    while (*index < side->count && side->list[*index].use == NAME_BUFFER) {
        ++*index;
    }
    return *index < side->count ? &side->list[*index] : NULL;
}

static enum berth_status compare_all(struct job *job, struct berth_error *error) {
    size_t i = 0, k = 0;
    const struct weight *a = next_weight(&job->a, &i), *b = next_weight(&job->b, &k);
    while (a != NULL || b != NULL) {
        int order = a == NULL ? 1 : b == NULL ? -1 : strcmp(a->name, b->name);
        // One model may hold a tied tensor twice, the other once.
        if (order == 0 || !(order < 0 ? a : b)->tied) {
            TRY(compare_pair(job, order <= 0 ? a : NULL, order >= 0 ? b : NULL, error));
        }
        i += order <= 0;
        k += order >= 0;
        a = next_weight(&job->a, &i);
        b = next_weight(&job->b, &k);
    }
    return BERTH_OK;
}

enum berth_status
berth_compare(const char *a, const char *b, double tolerance,
              void (*tensor)(void *context, const struct berth_difference *difference),
              void *context, struct berth_comparison *comparison, struct berth_error *error) {
    struct berth_comparison unwanted;
    comparison = comparison != NULL ? comparison : &unwanted;
    *comparison = (struct berth_comparison){.cosine = 1};
    REQUIRE(a, error);
    REQUIRE(b, error);
    if (!(tolerance >= 0)) { // NaN neither
        return error_set(error, BERTH_USAGE, "tolerance %g: expected 0 or more", tolerance);
    }
    struct job job = {
        .tolerance = tolerance, .visit = tensor, .context = context, .total = comparison};
    enum berth_status status;
    TRY_DONE(side_open(&job.a, a, error));
    TRY_DONE(side_open(&job.b, b, error));
    job.a_bytes = memory_array(CHUNK, 8);
    job.b_bytes = memory_array(CHUNK, 8);
    if (job.a_bytes == NULL || job.b_bytes == NULL) {
        status = error_no_memory(error, 16 * CHUNK, "a chunk of the tensors");
        goto done;
    }
    TRY_DONE(compare_all(&job, error));
done:
    memory_free(job.a_bytes);
    memory_free(job.b_bytes);
    weights_close(&job.a);
    weights_close(&job.b);
    return status;
}
