// SPDX-License-Identifier: Apache-2.0
// Two models, tensor by tensor. Names are translated, so checkpoints of different origin can be
// compared; numbers are read piece by piece and compared in double.
#include "core/file.h"
#include "core/memory.h"
#include "format/tensor_file.h"
#include "model/folder.h"
#include "model/names.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 128
#define PIECE ((size_t)1 << 15) // numbers at a time

struct named {
    char name[NAME_SIZE];
    const struct tensor_entry *entry;
    int transposed; // its matrix is the transpose of Hugging Face's
};

struct side {
    struct tensor_file file;
    struct named *list; // sorted by name
    size_t count;
};

// --- opening ------------------------------------------------------------------------------------

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

// A name that is too long to be translated stays as much of itself as fits.
static void name_entries(struct side *side) {
    for (size_t i = 0; i < side->file.count; i++) {
        const struct tensor_entry *entry = &side->file.entries[i];
        struct named *named = &side->list[side->count];
        enum name_use use = name_translate(entry->name, named->name, sizeof named->name);
        if (use == NAME_DROPPED) {
            continue;
        }
        if (named->name[0] == '\0') {
            snprintf(named->name, sizeof named->name, "%s", entry->name);
        }
        named->entry = entry;
        named->transposed = use == NAME_TRANSPOSED && entry->rank == 2;
        side->count++;
    }
    qsort(side->list, side->count, sizeof *side->list, compare_names);
}

static enum berth_status check_distinct(const struct side *side, struct berth_error *error) {
    for (size_t i = 1; i < side->count; i++) {
        const struct named *before = &side->list[i - 1], *named = &side->list[i];
        if (strcmp(before->name, named->name) == 0) {
            return error_set(error, BERTH_BAD_DATA, "%s: tensors \"%s\" and \"%s\" are both %s",
                             side->file.path, before->entry->name, named->entry->name, named->name);
        }
    }
    return BERTH_OK;
}

static void side_close(struct side *side) {
    tensor_file_close(&side->file);
    memory_free(side->list);
}

static enum berth_status side_open(struct side *side, const char *path, struct berth_error *error) {
    *side = (struct side){0};
    if (dir_exists(path)) {
        TRY(folder_open_weights(path, &side->file, error));
    } else {
        TRY(tensor_file_open(&side->file, path, error));
    }
    side->list = memory_array(side->file.count + 1, sizeof *side->list);
    enum berth_status status;
    if (side->list == NULL) {
        status = error_no_memory(error, side->file.count * sizeof *side->list, path);
    } else {
        name_entries(side);
        status = check_distinct(side, error);
    }
    if (status != BERTH_OK) {
        side_close(side);
    }
    return status;
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
    double apart = fabs(a - b);
    return isnan(apart) ? INFINITY : apart;
}

static void add_piece(struct sums *sums, const struct tensor_entry *a, const char *a_bytes,
                      const struct tensor_entry *b, const char *b_bytes, size_t count) {
    size_t a_size = tensor_dtype_size(a->dtype), b_size = tensor_dtype_size(b->dtype);
    for (size_t i = 0; i < count; i++) {
        double left = widen[a->dtype](a_bytes + i * a_size);
        double right = widen[b->dtype](b_bytes + i * b_size);
        double apart = distance(left, right);
        sums->largest = apart > sums->largest ? apart : sums->largest;
        sums->ab += left * right;
        sums->aa += left * left;
        sums->bb += right * right;
    }
}

static enum berth_status read_piece(const struct side *side, const struct tensor_entry *entry,
                                    size_t first, size_t count, char *to,
                                    struct berth_error *error) {
    size_t size = tensor_dtype_size(entry->dtype);
    return side->file.format->read(&side->file, entry, first * size, count * size, to, error);
}

static double cosine_of(const struct sums *sums) {
    if (sums->aa == 0 && sums->bb == 0) {
        return 1;
    }
    double cosine = sums->ab / (sqrt(sums->aa) * sqrt(sums->bb));
    return sums->aa == 0 || sums->bb == 0 ? 0 : cosine;
}

// --- one tensor ---------------------------------------------------------------------------------

struct comparing {
    struct side a, b;
    double tolerance;
    void (*visit)(void *context, const struct berth_difference *difference);
    void *context;
    struct berth_comparison *total;
    char *a_bytes, *b_bytes; // [8 * PIECE]
};

static enum berth_status compare_pieces(struct comparing *comparing, const struct tensor_entry *a,
                                        const struct tensor_entry *b, size_t count,
                                        struct sums *sums, struct berth_error *error) {
    for (size_t first = 0; first < count; first += PIECE) {
        size_t piece = count - first < PIECE ? count - first : PIECE;
        TRY(read_piece(&comparing->a, a, first, piece, comparing->a_bytes, error));
        TRY(read_piece(&comparing->b, b, first, piece, comparing->b_bytes, error));
        add_piece(sums, a, comparing->a_bytes, b, comparing->b_bytes, piece);
    }
    return BERTH_OK;
}

// One of the two is stored transposed: that one is turned as a whole.
static enum berth_status compare_turned(struct comparing *comparing, const struct named *a,
                                        const struct named *b, size_t count, struct sums *sums,
                                        struct berth_error *error) {
    const struct tensor_entry *turned = (a->transposed ? a : b)->entry;
    size_t size = tensor_dtype_size(turned->dtype), room = count * 8;
    char *blocks = memory_array(3, room);
    if (blocks == NULL) {
        return error_no_memory(error, 3 * room, a->name);
    }
    char *a_bytes = blocks, *b_bytes = blocks + room, *spare = blocks + 2 * room;
    enum berth_status status;
    TRY_DONE(tensor_file_read(&comparing->a.file, a->entry, a_bytes, error));
    TRY_DONE(tensor_file_read(&comparing->b.file, b->entry, b_bytes, error));
    tensor_transpose(a->transposed ? a_bytes : b_bytes, turned->shape[0], turned->shape[1], size,
                     spare);
    add_piece(sums, a->entry, a->transposed ? spare : a_bytes, b->entry,
              a->transposed ? b_bytes : spare, count);
done:
    memory_free(blocks);
    return status;
}

static enum berth_status compare_numbers(struct comparing *comparing, const struct named *a,
                                         const struct named *b, struct berth_difference *difference,
                                         struct berth_error *error) {
    struct sums sums = {0};
    size_t count = (size_t)((a->entry->end - a->entry->begin) / tensor_dtype_size(a->entry->dtype));
    TRY(a->transposed == b->transposed
            ? compare_pieces(comparing, a->entry, b->entry, count, &sums, error)
            : compare_turned(comparing, a, b, count, &sums, error));
    difference->elements = (int64_t)count;
    difference->largest = sums.largest;
    difference->cosine = cosine_of(&sums);
    difference->differs = !(sums.largest <= comparing->tolerance);
    return BERTH_OK;
}

// Dimension i in Hugging Face's order.
static int64_t dimension(const struct named *named, int i) {
    return named->entry->shape[named->transposed ? 1 - i : i];
}

static void print_shape(char *text, size_t size, const struct named *named) {
    size_t used = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < named->entry->rank && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)dimension(named, i));
    }
    if (used < size) {
        snprintf(text + used, size - used, "]");
    }
}

static int same_shape(const struct named *a, const struct named *b) {
    int same = a->entry->rank == b->entry->rank;
    for (int i = 0; same && i < a->entry->rank; i++) {
        same = dimension(a, i) == dimension(b, i);
    }
    return same;
}

// Why two tensors cannot be compared into remark[size]; 0 when they can.
static int remark_on(const struct named *a, const struct named *b, char *remark, size_t size) {
    char shapes[2][96];
    if (a == NULL || b == NULL) {
        snprintf(remark, size, "only in %s", a != NULL ? "A" : "B");
    } else if (!same_shape(a, b)) {
        print_shape(shapes[0], sizeof shapes[0], a);
        print_shape(shapes[1], sizeof shapes[1], b);
        snprintf(remark, size, "shapes %s and %s", shapes[0], shapes[1]);
    } else if (a->entry->dtype == TENSOR_OTHER || b->entry->dtype == TENSOR_OTHER) {
        snprintf(remark, size, "types %s and %s", a->entry->dtype_name, b->entry->dtype_name);
    } else {
        return 0;
    }
    return 1;
}

static void count_in(struct berth_comparison *total, const struct berth_difference *difference) {
    total->tensors++;
    total->differing += difference->differs;
    if (difference->remark == NULL) {
        total->compared++;
        total->largest = fmax(total->largest, difference->largest);
        total->cosine = fmin(total->cosine, difference->cosine);
    }
}

// One of the two is NULL where only the other side has the name.
static enum berth_status compare_pair(struct comparing *comparing, const struct named *a,
                                      const struct named *b, struct berth_error *error) {
    char remark[256];
    struct berth_difference difference = {
        .name = a != NULL ? a->name : b->name, .largest = NAN, .cosine = NAN, .differs = 1};
    if (remark_on(a, b, remark, sizeof remark)) {
        difference.remark = remark;
    } else {
        TRY(compare_numbers(comparing, a, b, &difference, error));
    }
    count_in(comparing->total, &difference);
    if (comparing->visit != NULL) {
        comparing->visit(comparing->context, &difference);
    }
    return BERTH_OK;
}

// --- all of them --------------------------------------------------------------------------------

static enum berth_status compare_all(struct comparing *comparing, struct berth_error *error) {
    const struct side *a = &comparing->a, *b = &comparing->b;
    for (size_t i = 0, k = 0; i < a->count || k < b->count;) {
        int order = i == a->count   ? 1
                    : k == b->count ? -1
                                    : strcmp(a->list[i].name, b->list[k].name);
        TRY(compare_pair(comparing, order <= 0 ? &a->list[i] : NULL,
                         order >= 0 ? &b->list[k] : NULL, error));
        i += order <= 0;
        k += order >= 0;
    }
    return BERTH_OK;
}

enum berth_status
berth_compare(const char *a, const char *b, double tolerance,
              void (*tensor)(void *context, const struct berth_difference *difference),
              void *context, struct berth_comparison *comparison, struct berth_error *error) {
    struct comparing comparing = {
        .tolerance = tolerance, .visit = tensor, .context = context, .total = comparison};
    *comparison = (struct berth_comparison){.cosine = 1};
    enum berth_status status;
    TRY_DONE(side_open(&comparing.a, a, error));
    TRY_DONE(side_open(&comparing.b, b, error));
    comparing.a_bytes = memory_array(PIECE, 8);
    comparing.b_bytes = memory_array(PIECE, 8);
    if (comparing.a_bytes == NULL || comparing.b_bytes == NULL) {
        status = error_no_memory(error, 16 * PIECE, "a piece of the tensors");
        goto done;
    }
    TRY_DONE(compare_all(&comparing, error));
done:
    memory_free(comparing.a_bytes);
    memory_free(comparing.b_bytes);
    side_close(&comparing.a);
    side_close(&comparing.b);
    return status;
}
