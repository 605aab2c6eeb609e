// SPDX-License-Identifier: Apache-2.0
// NCCL, or RCCL, which has the same interface. It is opened at run time because a machine with one
// GPU does not need it. Only what peers.cu uses is declared here. Numbers, structure layouts and
// names are the library's; tests/device/check_nccl.cpp compares them with its header.
//
// Tests compile it for the emulation, with a library of their own (NCCL_LIBRARY).
#ifndef BERTH_GPU_NCCL_H
#define BERTH_GPU_NCCL_H

#include <dlfcn.h>
#include <stddef.h>

#ifdef __HIPCC__
#define NCCL_LIBRARY "librccl.so.1"
#elif defined(__CUDACC__)
#define NCCL_LIBRARY "libnccl.so.2"
#elif !defined(NCCL_LIBRARY)
#define NCCL_LIBRARY "NCCL of emulated GPUs" // does not exist
#endif

#define NCCL(name) nccl_##name

typedef int NCCL(result);
typedef int NCCL(type);
typedef int NCCL(reduction);
typedef struct NCCL(state) * NCCL(comm);

enum { NCCL(SUCCESS) = 0, NCCL(IN_PROGRESS) = 7 };
enum { NCCL(F16) = 6, NCCL(F32) = 7, NCCL(BF16) = 9 };
enum { NCCL(SUM) = 0 };
enum { NCCL(OLDEST) = 21400 }; // 2.14, the first with nonblocking calls
static const unsigned NCCL(MAGIC) = 0xcafebeef;

struct NCCL(id) {
    char bytes[128];
};

// ncclConfig_t of version 2.14; later versions have more members and see by `version` that these
// are all.
struct NCCL(settings) {
    size_t size;
    unsigned magic, version;
    int blocking; // 0: calls return at once and may still be in progress
};

// CALL(result, name of the function without its prefix, its parameters)
#define NCCL_FUNCTIONS(CALL)                                                                       \
    CALL(NCCL(result), GetVersion, int *)                                                          \
    CALL(NCCL(result), GetUniqueId, struct NCCL(id) *)                                             \
    CALL(NCCL(result), CommInitRankConfig, NCCL(comm) *, int, struct NCCL(id), int,                \
         struct NCCL(settings) *)                                                                  \
    CALL(NCCL(result), CommDestroy, NCCL(comm))                                                    \
    CALL(NCCL(result), CommAbort, NCCL(comm))                                                      \
    CALL(NCCL(result), CommGetAsyncError, NCCL(comm), NCCL(result) *)                              \
    CALL(const char *, GetErrorString, NCCL(result))                                               \
    CALL(NCCL(result), GroupStart, void)                                                           \
    CALL(NCCL(result), GroupEnd, void)                                                             \
    CALL(NCCL(result), Send, const void *, size_t, NCCL(type), int, NCCL(comm), void *)            \
    CALL(NCCL(result), Recv, void *, size_t, NCCL(type), int, NCCL(comm), void *)                  \
    CALL(NCCL(result), ReduceScatter, const void *, void *, size_t, NCCL(type), NCCL(reduction),   \
         NCCL(comm), void *)                                                                       \
    CALL(NCCL(result), AllGather, const void *, void *, size_t, NCCL(type), NCCL(comm), void *)

#define NCCL_DECLARE(result, name, ...) static result (*NCCL(name))(__VA_ARGS__);
NCCL_FUNCTIONS(NCCL_DECLARE)
#undef NCCL_DECLARE

static inline const char *nccl_load_once(void) {
    void *library = dlopen(NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    int version = 0;
    if (library == NULL) {
        return NCCL_LIBRARY " is not installed";
    }
#define NCCL_LOAD(result, name, ...)                                                               \
    NCCL(name) = (result(*)(__VA_ARGS__))dlsym(library, "nccl" #name);                             \
    if (NCCL(name) == NULL) {                                                                      \
        return NCCL_LIBRARY " has no nccl" #name;                                                  \
    }
    NCCL_FUNCTIONS(NCCL_LOAD)
#undef NCCL_LOAD
    if (NCCL(GetVersion)(&version) != NCCL(SUCCESS) || version < NCCL(OLDEST)) {
        return NCCL_LIBRARY " is older than 2.14";
    }
    return NULL;
}

// NULL, or why the library cannot be used. It stays loaded until the process ends.
static inline const char *nccl_load(void) {
    static const char *const missing = nccl_load_once();
    return missing;
}

#endif
