// SPDX-License-Identifier: Apache-2.0
// A stub of NVIDIA's driver library for check_cudnn_plans.cpp: before a plan is ready, cuDNN makes
// the driver load the code that it compiled. There is no GPU, and nothing is executed.
#include <stddef.h>

#define EXPORTED __attribute__((visibility("default")))
enum { OK = 0, NO_DEVICE = 100, CUDA_13 = 13000 };

EXPORTED int cuInit(unsigned flags) {
    (void)flags;
    return NO_DEVICE;
}

EXPORTED int cuDriverGetVersion(int *version) {
    *version = CUDA_13;
    return OK;
}

EXPORTED int cuDeviceGetCount(int *count) {
    *count = 0;
    return OK;
}

static char something;

EXPORTED int cuLibraryLoadData(void **library, const void *code) {
    *library = &something;
    return code != NULL ? OK : NO_DEVICE;
}

EXPORTED int cuLibraryGetKernel(void **kernel, void *library, const char *name) {
    *kernel = &something;
    return library != NULL && name != NULL ? OK : NO_DEVICE;
}

// Succeed and write nothing.
#define DONE(name)                                                                                 \
    EXPORTED int name(void) {                                                                      \
        return OK;                                                                                 \
    }
DONE(cuLibraryUnload)
DONE(cuKernelSetAttribute)
DONE(cuCtxPushCurrent)
DONE(cuCtxPopCurrent)

// Looked up, but not called.
#define NEVER(name)                                                                                \
    EXPORTED int name(void) {                                                                      \
        return NO_DEVICE;                                                                          \
    }
NEVER(cuCtxGetCurrent)
NEVER(cuCtxGetLimit)
NEVER(cuDeviceGet)
NEVER(cuGetErrorName)
NEVER(cuGetErrorString)
NEVER(cuGetProcAddress_v2)
NEVER(cuKernelGetAttribute)
NEVER(cuKernelGetFunction)
NEVER(cuLaunchCooperativeKernel)
NEVER(cuLaunchKernel)
NEVER(cuLaunchKernelEx)
NEVER(cuLibraryLoadFromFile)
NEVER(cuLinkAddData)
NEVER(cuLinkComplete)
NEVER(cuLinkCreate)
NEVER(cuLinkDestroy)
NEVER(cuOccupancyMaxPotentialClusterSize)
NEVER(cuStreamGetCtx)
