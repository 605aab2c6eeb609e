// SPDX-License-Identifier: Apache-2.0
// cuDNN's backend interface, opened at run time because it is optional. Only what attention uses is
// declared here. Numbers and names are the library's; tests/device/check_cudnn.cpp compares them
// with its header.
//
// Tests compile it for the emulation, with a library of their own (CUDNN_LIBRARY).
#ifndef BERTH_GPU_CUDNN_H
#define BERTH_GPU_CUDNN_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __HIPCC__
#define CUDNN_LIBRARY "cuDNN for AMD's GPUs" // does not exist
#elif defined(__CUDACC__)
#define CUDNN_LIBRARY "libcudnn.so.9"
#elif !defined(CUDNN_LIBRARY)
#define CUDNN_LIBRARY "cuDNN of emulated GPUs" // does not exist
#endif

#define CUDNN(name) cudnn_##name

typedef int CUDNN(status);
typedef struct CUDNN(state) * CUDNN(handle);
typedef void *CUDNN(descriptor);

enum { CUDNN(OLDEST) = 91500 }; // 9.15, the first whose attention accepts sequence lengths

// NUMBER(name in the header without its prefix, number)
#define CUDNN_NUMBERS(NUMBER)                                                                      \
    NUMBER(STATUS_SUCCESS, 0)                                                                      \
    NUMBER(STATUS_NOT_SUPPORTED, 3000)                                                             \
    NUMBER(DATA_FLOAT, 0)                                                                          \
    NUMBER(DATA_HALF, 2)                                                                           \
    NUMBER(DATA_INT32, 4)                                                                          \
    NUMBER(DATA_BFLOAT16, 9)                                                                       \
    NUMBER(DATA_INT64, 10)                                                                         \
    NUMBER(HEUR_MODE_A, 3)                                                                         \
    NUMBER(TYPE_HANDLE, 0)                                                                         \
    NUMBER(TYPE_DATA_TYPE, 1)                                                                      \
    NUMBER(TYPE_BOOLEAN, 2)                                                                        \
    NUMBER(TYPE_INT64, 3)                                                                          \
    NUMBER(TYPE_VOID_PTR, 6)                                                                       \
    NUMBER(TYPE_HEUR_MODE, 8)                                                                      \
    NUMBER(TYPE_BACKEND_DESCRIPTOR, 15)                                                            \
    NUMBER(TYPE_CHAR, 24)                                                                          \
    NUMBER(BACKEND_ENGINECFG_DESCRIPTOR, 3)                                                        \
    NUMBER(BACKEND_ENGINEHEUR_DESCRIPTOR, 4)                                                       \
    NUMBER(BACKEND_EXECUTION_PLAN_DESCRIPTOR, 5)                                                   \
    NUMBER(BACKEND_OPERATIONGRAPH_DESCRIPTOR, 15)                                                  \
    NUMBER(BACKEND_VARIANT_PACK_DESCRIPTOR, 16)                                                    \
    NUMBER(BACKEND_TENSOR_DESCRIPTOR, 17)                                                          \
    NUMBER(BACKEND_DEVICEPROP_DESCRIPTOR, 38)                                                      \
    NUMBER(BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, 41)                                              \
    NUMBER(ATTR_ENGINEHEUR_MODE, 200)                                                              \
    NUMBER(ATTR_ENGINEHEUR_OPERATION_GRAPH, 201)                                                   \
    NUMBER(ATTR_ENGINEHEUR_RESULTS, 202)                                                           \
    NUMBER(ATTR_ENGINEHEUR_DEVICEPROP, 204)                                                        \
    NUMBER(ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 401)                                                 \
    NUMBER(ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 402)                                                \
    NUMBER(ATTR_OPERATIONGRAPH_HANDLE, 800)                                                        \
    NUMBER(ATTR_OPERATIONGRAPH_OPS, 801)                                                           \
    NUMBER(ATTR_TENSOR_BYTE_ALIGNMENT, 900)                                                        \
    NUMBER(ATTR_TENSOR_DATA_TYPE, 901)                                                             \
    NUMBER(ATTR_TENSOR_DIMENSIONS, 902)                                                            \
    NUMBER(ATTR_TENSOR_STRIDES, 903)                                                               \
    NUMBER(ATTR_TENSOR_UNIQUE_ID, 906)                                                             \
    NUMBER(ATTR_TENSOR_IS_BY_VALUE, 908)                                                           \
    NUMBER(ATTR_TENSOR_RAGGED_OFFSET_DESC, 913)                                                    \
    NUMBER(ATTR_VARIANT_PACK_UNIQUE_IDS, 1000)                                                     \
    NUMBER(ATTR_VARIANT_PACK_DATA_POINTERS, 1001)                                                  \
    NUMBER(ATTR_VARIANT_PACK_WORKSPACE, 1003)                                                      \
    NUMBER(ATTR_DEVICEPROP_JSON_REPRESENTATION, 2702)                                              \
    NUMBER(ATTR_OPERATION_SDPA_FWD_QDESC, 2800)                                                    \
    NUMBER(ATTR_OPERATION_SDPA_FWD_KDESC, 2801)                                                    \
    NUMBER(ATTR_OPERATION_SDPA_FWD_VDESC, 2802)                                                    \
    NUMBER(ATTR_OPERATION_SDPA_FWD_ODESC, 2803)                                                    \
    NUMBER(ATTR_OPERATION_SDPA_FWD_SCALEDESC, 2805)                                                \
    NUMBER(ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC, 2809)                                            \
    NUMBER(ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC, 2810)

#define CUDNN_NUMBER(name, number) CUDNN(name) = (number),
enum { CUDNN_NUMBERS(CUDNN_NUMBER) };
#undef CUDNN_NUMBER

// CALL(result, name of the function without its prefix, its parameters)
#define CUDNN_FUNCTIONS(CALL)                                                                      \
    CALL(size_t, GetVersion, void)                                                                 \
    CALL(const char *, GetErrorString, CUDNN(status))                                              \
    CALL(void, GetLastErrorString, char *, size_t)                                                 \
    CALL(CUDNN(status), Create, CUDNN(handle) *)                                                   \
    CALL(CUDNN(status), Destroy, CUDNN(handle))                                                    \
    CALL(CUDNN(status), SetStream, CUDNN(handle), void *)                                          \
    CALL(CUDNN(status), BackendCreateDescriptor, int, CUDNN(descriptor) *)                         \
    CALL(CUDNN(status), BackendDestroyDescriptor, CUDNN(descriptor))                               \
    CALL(CUDNN(status), BackendFinalize, CUDNN(descriptor))                                        \
    CALL(CUDNN(status), BackendSetAttribute, CUDNN(descriptor), int, int, int64_t, const void *)   \
    CALL(CUDNN(status), BackendGetAttribute, CUDNN(descriptor), int, int, int64_t, int64_t *,      \
         void *)                                                                                   \
    CALL(CUDNN(status), BackendExecute, CUDNN(handle), CUDNN(descriptor), CUDNN(descriptor))

#define CUDNN_DECLARE(result, name, ...) static result (*CUDNN(name))(__VA_ARGS__);
CUDNN_FUNCTIONS(CUDNN_DECLARE)
#undef CUDNN_DECLARE

static inline const char *cudnn_load_once(void) {
    void *library = dlopen(CUDNN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        return CUDNN_LIBRARY " is not installed";
    }
#define CUDNN_LOAD(result, name, ...)                                                              \
    CUDNN(name) = (result(*)(__VA_ARGS__))dlsym(library, "cudnn" #name);                           \
    if (CUDNN(name) == NULL) {                                                                     \
        return CUDNN_LIBRARY " has no cudnn" #name;                                                \
    }
    CUDNN_FUNCTIONS(CUDNN_LOAD)
#undef CUDNN_LOAD
    return CUDNN(GetVersion)() < CUDNN(OLDEST) ? CUDNN_LIBRARY " is older than 9.15" : NULL;
}

// NULL, or why the library cannot be used. It stays loaded until the process ends.
static inline const char *cudnn_load(void) {
    static const char *const missing = cudnn_load_once();
    return missing;
}

#endif
