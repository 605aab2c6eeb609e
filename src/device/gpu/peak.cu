// SPDX-License-Identifier: Apache-2.0
// Measures a GPU's speed of matrix products, which the utilisation of a run is compared with: a
// cube of random numbers, multiplied by the library that also computes the layers. machine.c asks
// for it after training, and bench.
#include "device/gpu/gemm.h"
#include "device/gpu/gpu.h"

#include <math.h>
#include <stdlib.h>

enum { PRODUCTS = 8 };                     // between two readings of the clock
static constexpr int64_t RANDOM = 1 << 21; // numbers, which repeat

// c = a b, and the f32 numbers that fill a and b.
struct cube {
    struct mat a, b, c;
    float *numbers;
};

static size_t bytes_of(struct mat m) {
    return (size_t)(m.rows * m.cols) * dtype_size(m.dtype);
}

// Uniform in [-1, 1). A GPU needs more power, and so is slower, where the bits of operands vary.
static bool upload_random(struct device *dev, float *to) {
    float *numbers = (float *)malloc(RANDOM * sizeof *numbers);
    uint64_t index = 0;
    for (int64_t i = 0; numbers != NULL && i < RANDOM; i++) {
        numbers[i] = (float)(int32_t)rng_draw(1, 1, &index) * 0x1p-31f;
    }
    if (numbers != NULL) {
        dev->upload(dev, to, numbers, RANDOM * sizeof *numbers);
    }
    free(numbers);
    return numbers != NULL;
}

static void fill(struct device *dev, struct mat m, const float *numbers) {
    const int64_t count = m.rows * m.cols;
    for (int64_t first = 0; first < count; first += RANDOM) {
        const int64_t some = count - first < RANDOM ? count - first : RANDOM;
        gpu_convert(dev,
                    mat_of((char *)m.data + (size_t)first * dtype_size(m.dtype), 1, some, m.dtype),
                    numbers);
    }
}

static void free_cube(struct device *dev, struct cube *cube) {
    for (struct mat *m : {&cube->a, &cube->b, &cube->c}) {
        dev->memory_free(dev, m->data, bytes_of(*m));
    }
    dev->memory_free(dev, cube->numbers, RANDOM * sizeof(float));
}

// Returns false if memory is short; free_cube frees it in any case.
static bool fill_cube(struct device *dev, struct cube *cube, int64_t side, enum dtype dtype) {
    bool good = true;
    for (struct mat *m : {&cube->a, &cube->b, &cube->c}) {
        *m = mat_of(NULL, side, side, dtype);
        m->data = dev->memory_new(dev, bytes_of(*m));
        good = good && m->data != NULL;
    }
    cube->numbers = (float *)dev->memory_new(dev, RANDOM * sizeof(float));
    good = good && cube->numbers != NULL && upload_random(dev, cube->numbers);
    if (good) {
        fill(dev, cube->a, cube->numbers);
        fill(dev, cube->b, cube->numbers);
    }
    return good;
}

// The seconds of PRODUCTS products, or 0 after an error.
static double time_products(struct device *dev, const struct cube *cube, gpu_event events[2]) {
    struct gpu *gpu = gpu_of(dev);
    const struct gemm_call call = {cube->c, cube->a, cube->b, false, true, false, NULL};
    bool known = false;
    double seconds = 0;
    float found;
    gpu_fail(gpu, "mark", gpu_event_record(&events[0], gpu->stream));
    for (int i = 0; i < PRODUCTS; i++) {
        gemm_run(gpu, &call);
    }
    gpu_fail(gpu, "mark", gpu_event_record(&events[1], gpu->stream));
    dev->download(dev, &found, cube->c.data, sizeof found);
    if (gpu->status == BERTH_OK) {
        gpu_fail(gpu, "mark", gpu_event_seconds(&events[0], &events[1], &known, &seconds));
    }
    return known ? seconds : 0;
}

// The best of as many readings as the time allows; the first one, which also loads kernels, does
// not count.
static double best_rate(struct device *dev, const struct cube *cube, double seconds,
                        gpu_event events[2]) {
    const double side = (double)cube->a.rows, operations = 2 * side * side * side * PRODUCTS;
    double best = NAN, spent = 0, last = time_products(dev, cube, events);
    while (last > 0 && (isnan(best) || spent < seconds)) {
        last = time_products(dev, cube, events);
        spent += last;
        best = last > 0 && !(operations / last <= best) ? operations / last : best;
    }
    return last > 0 ? best : NAN;
}

double gpu_measure_peak(struct device *dev, enum dtype dtype, double seconds) {
    struct gpu *gpu = gpu_of(dev);
    const int64_t side = GPU_PEAK_SIDE;
    struct cube cube = {};
    gpu_event events[2] = {};
    double rate = NAN;
    if (gpu->status != BERTH_OK || side == 0) {
        return NAN;
    }
    if (fill_cube(dev, &cube, side, dtype) && gpu_event_new_timed(&events[0]).code == 0 &&
        gpu_event_new_timed(&events[1]).code == 0) {
        rate = best_rate(dev, &cube, seconds, events);
    }
    gpu_event_free(events[0]);
    gpu_event_free(events[1]);
    free_cube(dev, &cube);
    return rate;
}
