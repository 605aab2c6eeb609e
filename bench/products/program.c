// SPDX-License-Identifier: Apache-2.0
// The program bench_products: times single products of Berth's device, as a layer calls them, on
// one thread beside the same ones of oneDNN, in turn. Shapes are those of heads, of few rows and
// odd ones; what a layer multiplies is measured by bench_operations.
//
//     bench_products [INSTRUCTIONS [REPEATS [PRODUCT]]]
//
// Environment: ONEDNN_MAX_CPU_ISA=AVX2 holds oneDNN to the same instructions.
#include "bench/products/yardstick.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/memory.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS_MAX = 10000 };

static const struct {
    const char *name;
    int64_t m, n, k;
    int a_transposed, b_transposed;
} shapes[] = {
    {"2 labels of 1 text", 1, 2, 768, 0, 1},
    {"3 labels of 8 texts", 8, 3, 768, 0, 1},
    {"3 labels of 32 texts", 32, 3, 768, 0, 1},
    {"9 labels of 1024 tokens", 1024, 9, 768, 0, 1},
    {"span of 1024 tokens", 1024, 2, 768, 0, 1},
    {"span, dx", 1024, 768, 2, 0, 0},
    {"span, dw", 2, 768, 1024, 1, 0},
    {"33 labels, dw", 33, 768, 256, 1, 0},
    {"pooler of 1 text", 1, 768, 768, 0, 1},
    {"pooler of 8 texts", 8, 768, 768, 0, 1},
    {"pooler of 15 texts", 15, 768, 768, 0, 1},
    {"pooler of 16 texts", 16, 768, 768, 0, 1},
    {"pooler of 8 texts, dx", 8, 768, 768, 0, 0},
    {"pooler of 8 texts, dw", 768, 768, 8, 1, 0},
    {"8 vectors, 64 columns", 8, 8, 64, 0, 1},
    {"33 vectors, 768 columns", 33, 33, 768, 0, 1},
    {"8 tokens, inner", 8, 3072, 768, 0, 1},
    {"8 tokens, output", 8, 768, 3072, 0, 1},
    {"odd depth", 128, 768, 767, 0, 1},
    {"odd depth, dx", 128, 768, 767, 0, 0},
    {"odd everything", 31, 33, 65, 0, 1},
};

struct race {
    struct device *device;
    struct gemm_shape shape;
    struct yardstick *yardstick; // NULL: oneDNN refuses the shape
    float *a, *b, *c;
    int repeats;
    double own[REPEATS_MAX], other[REPEATS_MAX];
};

static void multiply(struct race *race) {
    struct device *device = race->device;
    const struct gemm_shape *s = &race->shape;
    const struct mat c = mat_of(race->c, s->m, s->n, s->c_type);
    if (s->a_transposed) {
        device->linear_backward_weight(device, c, NULL, mat_of(race->a, s->k, s->m, s->type),
                                       mat_of(race->b, s->k, s->n, s->type));
    } else if (s->b_transposed) {
        device->linear_forward(device, c, mat_of(race->a, s->m, s->k, s->type),
                               mat_of(race->b, s->n, s->k, s->type), NULL);
    } else {
        device->linear_backward_input(device, c, mat_of(race->a, s->m, s->k, s->type),
                                      mat_of(race->b, s->k, s->n, s->type));
    }
}

static void multiply_by_other(struct race *race) {
    const struct gemm_operands operands = {.a = race->a, .b = race->b, .c = race->c};
    if (race->yardstick != NULL) {
        yardstick_run(race->yardstick, &operands);
    }
}

// The mean of enough runs that the clock is precise.
static double seconds_of(struct race *race, void (*run_products)(struct race *)) {
    const double flops =
        2.0 * (double)race->shape.m * (double)race->shape.n * (double)race->shape.k;
    const int runs = flops < 2e6 ? (int)(2e6 / flops) + 1 : 1;
    const double before = clock_now();
    for (int i = 0; i < runs; i++) {
        run_products(race);
    }
    return (clock_now() - before) / runs;
}

static int by_size(const void *one, const void *other) {
    const double x = *(const double *)one, y = *(const double *)other;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_size);
    return values[count / 2];
}

static enum berth_status allocate(struct race *race, struct berth_error *error) {
    const struct gemm_shape *s = &race->shape;
    const size_t size = sizeof(float);
    race->a = memory_array_zeroed((size_t)(s->m * s->k), size);
    race->b = memory_array_zeroed((size_t)(s->k * s->n), size);
    race->c = memory_array_zeroed((size_t)(s->m * s->n), size);
    if (race->a == NULL || race->b == NULL || race->c == NULL) {
        return error_no_memory(error, (size_t)(s->k * s->n) * size, "a product");
    }
    return BERTH_OK;
}

static void run_race(struct race *race, const char *name) {
    (void)seconds_of(race, multiply);
    (void)seconds_of(race, multiply_by_other);
    for (int i = 0; i < race->repeats; i++) {
        race->own[i] = seconds_of(race, multiply);
        race->other[i] = seconds_of(race, multiply_by_other);
    }
    const double own = median(race->own, race->repeats), other = median(race->other, race->repeats);
    const int is_there = race->yardstick != NULL;
    printf("%-26s %-5s %10.4f %10.4f %6.2f  %s\n", name, dtype_name(race->shape.type), own * 1e3,
           is_there ? other * 1e3 : 0, is_there ? other / own : 0,
           is_there ? yardstick_kernel(race->yardstick) : "refused");
}

static enum berth_status race_of(struct race *race, size_t index, enum dtype type,
                                 struct berth_error *error) {
    const int64_t m = shapes[index].m, n = shapes[index].n, k = shapes[index].k;
    race->shape = (struct gemm_shape){
        .m = m,
        .n = n,
        .k = k,
        .lda = shapes[index].a_transposed ? m : k,
        .ldb = shapes[index].b_transposed ? k : n,
        .ldc = n,
        .type = type,
        .c_type = shapes[index].a_transposed ? DTYPE_F32 : type,
        .a_transposed = shapes[index].a_transposed,
        .b_transposed = shapes[index].b_transposed,
        .accumulate = shapes[index].a_transposed,
    };
    race->yardstick = yardstick_new(&race->shape);
    const enum berth_status status = allocate(race, error);
    if (status == BERTH_OK) {
        run_race(race, shapes[index].name);
    }
    yardstick_free(race->yardstick);
    memory_free(race->a);
    memory_free(race->b);
    memory_free(race->c);
    return status;
}

static enum berth_status run_products(const char *instructions, int repeats, const char *product,
                                      struct berth_error *error) {
    static struct race race;
    const struct device_options options = {.threads = 1, .instructions = instructions};
    race.repeats = repeats;
    TRY(device_cpu_open(&options, &race.device, error));
    printf("%s kernels and %s, one thread, median of %d runs in turn\n", race.device->kernels,
           yardstick_version(), repeats);
    printf("%-26s %-5s %10s %10s %6s  %s\n", "product", "type", "own ms", "other ms", "gain",
           "oneDNN's kernel");
    enum berth_status status = BERTH_OK;
    for (size_t i = 0; status == BERTH_OK && i < 2 * sizeof shapes / sizeof *shapes; i++) {
        if (product == NULL || strcmp(product, shapes[i / 2].name) == 0) {
            status = race_of(&race, i / 2, i % 2 ? DTYPE_BF16 : DTYPE_F32, error);
        }
    }
    status = status == BERTH_OK ? race.device->status(race.device, error) : status;
    race.device->close(race.device);
    return status;
}

int main(int count, char **words) {
    struct berth_error error;
    const int repeats = count > 2 ? (int)strtol(words[2], NULL, 10) : 101;
    if (count > 4 || repeats < 1 || repeats > REPEATS_MAX) {
        fprintf(stderr,
                "usage: bench_products [INSTRUCTIONS [REPEATS [PRODUCT]]], at most %d repeats\n",
                REPEATS_MAX);
        return 2;
    }
    omp_set_num_threads(1);
    if (run_products(count > 1 ? words[1] : NULL, repeats, count > 3 ? words[3] : NULL, &error) !=
        BERTH_OK) {
        fprintf(stderr, "bench_products: %s\n", error.message);
        return 1;
    }
    return 0;
}
