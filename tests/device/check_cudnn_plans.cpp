// SPDX-License-Identifier: Apache-2.0
// Lets cuDNN check attention's graphs without a GPU: given descriptions of GPUs of several
// generations, it must choose kernels for every head size and type, compile them, and return the
// workspace they need. If cuDNN is missing or too old for descriptions, the test is skipped.
#define CUDNN_LIBRARY "libcudnn.so.9"
#include "device/gpu/cudnn_plan.h"

#include <initializer_list>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77 };
static const int64_t MAX_WORKSPACE = 16 << 20;

// Published numbers of A100, H100 and B200.
static const struct gpu {
    int capability, processors, shared;
} gpus[] = {{80, 108, 166912}, {90, 132, 232448}, {100, 148, 232448}};

static const char *last_error(void) {
    static char text[512];
    CUDNN(GetLastErrorString)(text, sizeof text);
    return text;
}

static CUDNN(status) describe(const struct gpu *gpu, CUDNN(descriptor) * made) {
    char text[1024];
    snprintf(text, sizeof text,
             "{\"deviceName\":\"none\",\"cudaDeviceId\":0,\"pciDeviceId\":0,\"deviceVer\":%d,"
             "\"driverVer\":13000,\"multiProcessorCount\":%d,\"warpSize\":32,"
             "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"
             "\"reservedSharedMemoryPerBlock\":1024,\"regsPerBlock\":65536,"
             "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
             "\"maxThreadsPerSM\":2048,\"maxGridSize\":[2147483647,65535,65535],"
             "\"maxBlockSize\":[1024,1024,64],\"isTccDriver\":0,\"supportCoopLaunch\":1,"
             "\"totalGlobalMem\":85899345920,\"smClockRateKHz\":1700000,"
             "\"memClockRateKHz\":2600000,\"l2CacheSize\":52428800}",
             gpu->capability * 10, gpu->processors, gpu->shared);
    TRY_CUDNN(CUDNN(BackendCreateDescriptor)(CUDNN(BACKEND_DEVICEPROP_DESCRIPTOR), made));
    TRY_CUDNN(CUDNN(BackendSetAttribute)(*made, CUDNN(ATTR_DEVICEPROP_JSON_REPRESENTATION),
                                         CUDNN(TYPE_CHAR), (int64_t)strlen(text) + 1, text));
    return CUDNN(BackendFinalize)(*made);
}

static int failures, plans;

static void plan(const struct gpu *gpu, CUDNN(descriptor) description,
                 const struct cudnn_shape *shape) {
    const struct cudnn_target target = {NULL, description};
    struct cudnn_plan made;
    const CUDNN(status) status = cudnn_plan_make(&made, shape, &target, MAX_WORKSPACE);
    plans++;
    if (status != CUDNN(STATUS_SUCCESS)) {
        failures++;
        fprintf(stderr, "capability %d, type %d, %d sequences of %d, %d heads of %d: %s: %s\n",
                gpu->capability, (int)shape->type, (int)shape->sequences, (int)shape->length,
                (int)shape->heads, (int)shape->head_size, CUDNN(GetErrorString)(status),
                last_error());
    }
    cudnn_plan_free(&made);
}

// Every bound in one type, but only one bound in the other, because each plan takes most of a
// second.
static void plan_all(const struct gpu *gpu, CUDNN(descriptor) description) {
    static const int64_t bounds[][2] = {{64, 512}, {8, 128}, {65536, 128}};
    for (int64_t size : {32, 64, 128}) {
        const int64_t heads = 768 / size, hidden = heads * size;
        for (const auto &bound : bounds) {
            const struct cudnn_shape shape = {CUDNN(DATA_BFLOAT16), bound[0], bound[1], heads, size,
                                              3 * hidden,           hidden};
            plan(gpu, description, &shape);
        }
        const struct cudnn_shape shape = {CUDNN(DATA_HALF), bounds[0][0], bounds[0][1], heads, size,
                                          3 * hidden,       hidden};
        plan(gpu, description, &shape);
    }
}

// A graph that no engine supports: the library's error must be returned.
static void refuse(CUDNN(descriptor) description) {
    const struct cudnn_shape odd = {CUDNN(DATA_HALF), 8, 128, 1, 33, 99, 33};
    const struct cudnn_target target = {NULL, description};
    struct cudnn_plan made;
    if (cudnn_plan_make(&made, &odd, &target, MAX_WORKSPACE) == CUDNN(STATUS_SUCCESS)) {
        failures++;
        fprintf(stderr, "heads of 33 columns are planned\n");
    }
    cudnn_plan_free(&made);
}

int main(void) {
    const char *missing = cudnn_load();
    if (missing != NULL) {
        printf("skipped: %s\n", missing);
        return SKIPPED;
    }
    for (const struct gpu &gpu : gpus) {
        CUDNN(descriptor) description;
        const CUDNN(status) status = describe(&gpu, &description);
        if (status != CUDNN(STATUS_SUCCESS)) {
            fprintf(stderr, "a description of a GPU: %s: %s\n", CUDNN(GetErrorString)(status),
                    last_error());
            return 1;
        }
        plan_all(&gpu, description);
        refuse(description);
        CUDNN(BackendDestroyDescriptor)(description);
    }
    printf("cuDNN %zu: %d of %d plans\n", CUDNN(GetVersion)(), plans - failures, plans);
    return failures > 0;
}
