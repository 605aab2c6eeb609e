// SPDX-License-Identifier: Apache-2.0
// The job compare: two models tensor by tensor. Names are translated, so checkpoints of different
// origin can be compared. Numbers are read in chunks and compared in double. Which formats there
// are is left to format/containers, and what differences matter to the caller.
#include "api/job.h"
#include "core/file.h"
#include "core/json_line.h"
#include "core/memory.h"
#include "core/terminal.h"
#include "format/tensors/tensor_file.h"
#include "model/config.h"
#include "model/folder.h"
#include "model/weights.h"

#include <inttypes.h>
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
    OWNED char *config_path = folder_config_path(path);
    *size = 0;
    if (config_path == NULL) {
        return error_no_memory(error, 0, "a path");
    }
    const enum berth_status status =
        file_exists(config_path) ? bert_config_read(config_path, &config, error) : BERTH_NO_INPUT;
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

#define WIDEN_FLOAT(function, type)                                                                \
    static double function(const char *from) {                                                     \
        float value;                                                                               \
        tensor_convert(type, from, 1, &value);                                                     \
        return value;                                                                              \
    }
WIDEN_FLOAT(widen_f32, TENSOR_F32)
WIDEN_FLOAT(widen_f16, TENSOR_F16)
WIDEN_FLOAT(widen_bf16, TENSOR_BF16)

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

// One tensor of the two models.
struct difference {
    const char *name;   // its Hugging Face name
    const char *remark; // why the values were not compared ("only in A", "shapes ..."), or NULL
    int64_t elements;
    double largest; // largest absolute difference; infinite if only one of two values is NaN; NaN
                    // if the values were not compared
    double cosine;  // cosine similarity of the two tensors as vectors; NaN if the values were not
                    // compared
    int differs;    // `largest` exceeds the tolerance, or the values were not compared and are not
                    // the same bytes of the same type
};

struct comparison {
    const struct job *job;
    struct weights a, b;
    double tolerance;
    char *a_bytes, *b_bytes; // [8 * CHUNK]
    // Over all tensors that were compared.
    int64_t tensors, compared, differing;
    double largest, cosine;
};

static enum berth_status compare_in_chunks(struct comparison *own, const struct weight *a,
                                           const struct weight *b, size_t count, struct sums *sums,
                                           struct berth_error *error) {
    for (size_t first = 0; first < count; first += CHUNK) {
        size_t length = count - first < CHUNK ? count - first : CHUNK;
        TRY(weights_read_elements(&own->a, a, first, length, own->a_bytes, error));
        TRY(weights_read_elements(&own->b, b, first, length, own->b_bytes, error));
        add_chunk(sums, a->entry->dtype, own->a_bytes, b->entry->dtype, own->b_bytes, length);
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
static enum berth_status compare_whole(struct comparison *own, const struct weight *a,
                                       const struct weight *b, size_t count, struct sums *sums,
                                       struct berth_error *error) {
    OWNED void *a_numbers = NULL;
    OWNED void *b_numbers = NULL;
    TRY(read_whole(&own->a, a, &a_numbers, error));
    TRY(read_whole(&own->b, b, &b_numbers, error));
    add_chunk(sums, type_read(a), a_numbers, type_read(b), b_numbers, count);
    return BERTH_OK;
}

static int is_read_in_chunks(const struct weight *weight) {
    return weight_is_contiguous(weight) && weight->scale == NULL;
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

static void put(struct comparison *own, const struct difference *difference) {
    struct json_line *line = job_line(own->job);
    json_line_open(line, NULL, '{');
    json_line_text(line, "name", difference->name);
    json_line_integer(line, "elements", difference->elements);
    json_line_real(line, "largest", difference->largest);
    json_line_real(line, "cosine", difference->cosine);
    json_line_boolean(line, "differs", difference->differs);
    json_line_text(line, "remark", difference->remark);
    json_line_close(line, '}');
    char name[4096], remark[4096];
    terminal_escape(name, sizeof name, difference->name, "");
    if (difference->remark != NULL) {
        terminal_escape(remark, sizeof remark, difference->remark, "");
        job_say(own->job, "%-12s %-12s %s (%s)\n", "-", "-", name, remark);
    } else {
        job_say(own->job, "%-12.6g %-12.9f %s\n", difference->largest, difference->cosine, name);
    }
    own->tensors++;
    own->differing += difference->differs;
    if (difference->remark == NULL) {
        own->compared++;
        own->largest = fmax(own->largest, difference->largest);
        own->cosine = fmin(own->cosine, difference->cosine);
    }
}

// Sets *equal to whether both are entries of one type, whose numbers are not read, with the same
// bytes.
static enum berth_status compare_bytes(struct comparison *own, const struct weight *a,
                                       const struct weight *b, int *equal,
                                       struct berth_error *error) {
    const uint64_t bytes = a->entry->end - a->entry->begin;
    *equal = strcmp(a->entry->dtype_name, b->entry->dtype_name) == 0 &&
             b->entry->end - b->entry->begin == bytes;
    for (uint64_t at = 0; *equal && at < bytes; at += 8 * CHUNK) {
        const size_t length = bytes - at < 8 * CHUNK ? (size_t)(bytes - at) : 8 * CHUNK;
        TRY(own->a.file.format->read(&own->a.file, a->entry, at, length, own->a_bytes, error));
        TRY(own->b.file.format->read(&own->b.file, b->entry, at, length, own->b_bytes, error));
        *equal = memcmp(own->a_bytes, own->b_bytes, length) == 0;
    }
    return BERTH_OK;
}

// One of the two is NULL if only the other model has the name.
static enum berth_status compare_pair(struct comparison *own, const struct weight *a,
                                      const struct weight *b, struct berth_error *error) {
    char remark[256];
    struct difference difference = {
        .name = a != NULL ? a->name : b->name, .largest = NAN, .cosine = NAN, .differs = 1};
    int equal = 0;
    if (a != NULL && b != NULL && same_shape(a, b) && a->entry->dtype == TENSOR_OTHER) {
        TRY(compare_bytes(own, a, b, &equal, error));
    }
    if (equal) {
        snprintf(remark, sizeof remark, "type %s, the same bytes", a->entry->dtype_name);
        difference.remark = remark;
        difference.differs = 0;
    } else if (explain_mismatch(a, b, remark, sizeof remark)) {
        difference.remark = remark;
    } else {
        struct sums sums = {0};
        size_t count = (size_t)weight_elements(a);
        int in_chunks = is_read_in_chunks(a) && is_read_in_chunks(b);
        TRY(in_chunks ? compare_in_chunks(own, a, b, count, &sums, error)
                      : compare_whole(own, a, b, count, &sums, error));
        difference.elements = (int64_t)count;
        difference.largest = sums.largest;
        difference.cosine = cosine_of(&sums);
        difference.differs = !(sums.largest <= own->tolerance);
    }
    put(own, &difference);
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

static enum berth_status compare_all(struct comparison *own, struct berth_error *error) {
    size_t i = 0, k = 0;
    const struct weight *a = next_weight(&own->a, &i), *b = next_weight(&own->b, &k);
    while (a != NULL || b != NULL) {
        int order = a == NULL ? 1 : b == NULL ? -1 : strcmp(a->name, b->name);
        // One model may hold a tied tensor twice, the other once.
        if (order == 0 || !(order < 0 ? a : b)->tied) {
            TRY(compare_pair(own, order <= 0 ? a : NULL, order >= 0 ? b : NULL, error));
        }
        i += order <= 0;
        k += order >= 0;
        a = next_weight(&own->a, &i);
        b = next_weight(&own->b, &k);
    }
    return BERTH_OK;
}

// Opens both models and reads their tensors.
static enum berth_status compare_models(struct comparison *own, struct berth_error *error) {
    TRY(side_open(&own->a, job_text(own->job, "a"), error));
    TRY(side_open(&own->b, job_text(own->job, "b"), error));
    OWNED char *a_bytes = memory_array(CHUNK, 8);
    OWNED char *b_bytes = memory_array(CHUNK, 8);
    own->a_bytes = a_bytes;
    own->b_bytes = b_bytes;
    return a_bytes != NULL && b_bytes != NULL
               ? compare_all(own, error)
               : error_no_memory(error, 16 * CHUNK, "a chunk of the tensors");
}

static enum berth_status run_compare(struct job *job, struct berth_error *error) {
    struct comparison own = {.job = job, .tolerance = job_real(job, "tolerance"), .cosine = 1};
    const char *a = job_text(job, "a"), *b = job_text(job, "b");
    job_say(job, "%-12s %-12s %s\n", "largest", "cosine", "tensor");
    json_line_open(job_line(job), "tensors", '[');
    const enum berth_status status = compare_models(&own, error);
    weights_close(&own.a);
    weights_close(&own.b);
    TRY(status);
    json_line_close(job_line(job), ']');
    job_put_number(job, "tensors", (double)own.tensors);
    job_put_integer(job, "compared", own.compared);
    job_put_integer(job, "differing", own.differing);
    job_put_real(job, "tolerance", own.tolerance);
    job_put_real(job, "largest", own.largest);
    job_put_real(job, "cosine", own.cosine);
    job_say(job,
            "%" PRId64 " tensors, %" PRId64 " compared, %" PRId64
            " differ by more than %g; largest difference %g, smallest cosine %.9f\n",
            own.tensors, own.compared, own.differing, own.tolerance, own.largest, own.cosine);
    if (own.differing > 0) {
        (void)error_set(&job->found, BERTH_FAILURE,
                        "%s and %s differ in %" PRId64 " of %" PRId64 " tensors", a, b,
                        own.differing, own.tensors);
    }
    return BERTH_OK;
}

static const struct option_row settings[] = {
    {JOB_TEXT("a", NULL), .unit = "A", .help = "one model"},
    {JOB_TEXT("b", NULL), .unit = "B", .help = "the other model"},
    {JOB_REAL("tolerance", "0"), BETWEEN(0, 1e300), .unit = "X",
     .help = "largest absolute difference that counts as equal"},
};

const struct job_row job_compare = {
    .about = {"compare", "compare the tensors of two models"},
    JOB_SETTINGS(settings),
    .arguments = 2,
    .models = 2,
    .usage = "A B [--tolerance X] [--json]",
    .example = "berth compare squad-minilm squad-minilm-hf\n"
               "berth compare run-1 run-2/model.safetensors --tolerance 1e-5",
    .notes = "A and B are model folders or files of tensors; names are translated to Hugging "
             "Face's, types may differ. Exit code 1 when a tensor differs by more than the "
             "tolerance, has another shape, or is only in one of them.",
    .json = "print one JSON object",
    .only_reads = 1,
    .run = run_compare,
};
